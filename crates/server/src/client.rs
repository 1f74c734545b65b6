//! The client: one keep-alive HTTP/1.1 connection over the daemon's unix socket.
//!
//! ```no_run
//! use duramen_branches::model::CreateBranch;
//! use duramen_server::client::Client;
//!
//! # async fn example() -> Result<(), duramen_server::client::ClientError> {
//! let mut connection = Client::new("/var/lib/duramen".as_ref()).connect().await?;
//! let branch = connection.create_branch(&CreateBranch::default()).await?;
//! println!("{}", branch.url);
//! # Ok(())
//! # }
//! ```

mod connection;
mod encoded;
mod error;
mod requests;

pub use connection::Connection;
pub use encoded::Encoded;
pub use error::ClientError;

use crate::socket_path;
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

/// How long a request may take unless the caller says otherwise.
pub const DEADLINE: Duration = Duration::from_secs(120);

/// Where a daemon is, and how long to wait for it.
#[derive(Debug, Clone)]
pub struct Client {
    home: PathBuf,
    socket: PathBuf,
    deadline: Duration,
}

impl Client {
    /// A client of the daemon that serves a home directory.
    #[must_use]
    pub fn new(home: &Path) -> Client {
        Client { home: home.to_owned(), socket: socket_path(home), deadline: DEADLINE }
    }

    /// The same client with another deadline for each request.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Duration) -> Client {
        self.deadline = deadline;
        self
    }

    /// The home directory.
    #[must_use]
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// Opens a connection.
    ///
    /// # Errors
    /// [`ClientError::NotRunning`] when nobody listens there.
    pub async fn connect(&self) -> Result<Connection, ClientError> {
        Connection::open(self.clone()).await
    }
}
