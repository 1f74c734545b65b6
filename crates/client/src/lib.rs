//! The client: one keep-alive HTTP/1.1 connection over the daemon's unix socket, or to its HTTP door with a token.
//!
//! ```no_run
//! use duramen_api::model::CreateBranch;
//! use duramen_client::Client;
//!
//! # async fn example() -> Result<(), duramen_client::ClientError> {
//! let mut connection = Client::new("/var/lib/duramen".as_ref()).connect().await?;
//! let branch = connection.create_branch(&CreateBranch::default()).await?;
//! println!("{}", branch.url);
//! # Ok(())
//! # }
//! ```

mod connection;
mod encoded;
mod error;
pub mod export;
mod login;
mod remote;
mod requests;
#[cfg(unix)]
pub mod run;
mod socket;
mod wire;

pub use connection::{broken, parse, refused, Connection};
pub use encoded::Encoded;
pub use error::ClientError;
pub use login::{Login, LoginError};

use remote::Remote;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// The daemon's socket in a home directory.
#[must_use]
pub fn socket_path(home: &Path) -> PathBuf {
    home.join("daemon.sock")
}

/// How long a request may take unless the caller says otherwise.
pub const DEADLINE: Duration = Duration::from_secs(120);

/// Where a daemon is, and how long to wait for it.
#[derive(Debug, Clone)]
pub struct Client {
    place: Place,
    deadline: Duration,
}

/// Where a daemon is.
#[derive(Debug, Clone)]
enum Place {
    Home { home: PathBuf, socket: PathBuf },
    Url(Arc<Remote>),
}

impl Client {
    /// A client of the daemon that serves a home directory.
    #[must_use]
    pub fn new(home: &Path) -> Client {
        let place = Place::Home { home: home.to_owned(), socket: socket_path(home) };
        Client { place, deadline: DEADLINE }
    }

    /// A client of the daemon whose HTTP door is at a URL, as the holder of a token (`NAME:SECRET`). `roots` is a file of
    /// certificates (PEM) that are believed instead of those that the system believes.
    ///
    /// # Errors
    /// [`ClientError::BadUrl`] when the URL, the token or the file cannot be used, or the secret would go over a network in
    /// the clear.
    ///
    /// # Examples
    /// ```
    /// use duramen_client::Client;
    ///
    /// assert!(Client::at("https://db.example:6433", "ci:secret", None).is_ok());
    /// assert!(Client::at("http://db.example:6433", "ci:secret", None).is_err());
    /// ```
    pub fn at(url: &str, token: &str, roots: Option<&Path>) -> Result<Client, ClientError> {
        Ok(Client { place: Place::Url(Arc::new(Remote::new(url, token, roots)?)), deadline: DEADLINE })
    }

    /// The URL of a branch as its PostgreSQL clients need it: with the secret of the token, which replies over TCP leave out.
    #[must_use]
    pub fn with_secret(&self, url: &str) -> String {
        match &self.place {
            Place::Home { .. } => url.to_owned(),
            Place::Url(remote) => remote.with_secret(url),
        }
    }

    /// The same client with another deadline for each request.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Duration) -> Client {
        self.deadline = deadline;
        self
    }

    /// Opens a connection.
    ///
    /// # Errors
    /// [`ClientError::NotRunning`] when nobody listens there.
    pub async fn connect(&self) -> Result<Connection, ClientError> {
        Connection::open(self.clone()).await
    }
}
