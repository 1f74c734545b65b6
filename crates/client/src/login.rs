//! Where the daemon is that is meant: a home of this machine, or a URL with a token that was given once and is kept.

use crate::{Client, ClientError};
use serde::{Deserialize, Serialize};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// The variables that name a daemon elsewhere.
const URL: &str = "DURAMEN_URL";
const TOKEN: &str = "DURAMEN_TOKEN";
const CA: &str = "DURAMEN_CA";
const HOME: &str = "DURAMEN_HOME";

/// A daemon elsewhere, and the token by which it is entered.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Login {
    /// Its HTTP door.
    pub url: String,
    /// `NAME:SECRET`.
    pub token: String,
    /// A file of certificates (PEM) that are believed instead of the system's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
}

/// Why a login is not kept, read or forgotten.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoginError {
    /// Its file.
    #[error("cannot {doing} {}: {source}", file.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// The file.
        file: PathBuf,
        /// The operating system's answer.
        source: io::Error,
    },
    /// Others may read it, or write it.
    #[error("{} holds a secret, and is open to others; run: chmod 600 {}, and rotate the token", file.display(), file.display())]
    Open {
        /// The file.
        file: PathBuf,
    },
    /// Somebody else wrote it, and may have chosen where a token goes.
    #[error(
        "{} belongs to another user (uid {owner}), and is not used; remove it and run `duramen login` again, or run this as that user",
        file.display()
    )]
    Foreign {
        /// The file.
        file: PathBuf,
        /// Whose it is.
        owner: u32,
    },
    /// It is not what this version writes.
    #[error("{} cannot be understood: {what}; run `duramen login` again", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// A variable is missing.
    #[error("{URL} needs a token: set {TOKEN} to NAME:SECRET, as `duramen token create` printed them")]
    NoToken,
    /// There is no place to keep it.
    #[error("there is no place to keep a login: neither XDG_CONFIG_HOME nor HOME is set")]
    NoPlace,
    /// The URL or the token cannot be used, or the daemon refused.
    #[error(transparent)]
    Client(#[from] ClientError),
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Login").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Login {
    /// The file in which a user's login is kept, by the variables of the environment.
    ///
    /// # Errors
    /// [`LoginError::NoPlace`].
    ///
    /// # Examples
    /// ```
    /// use duramen_client::Login;
    ///
    /// let file = Login::file(|name| (name == "HOME").then(|| "/srv/ann".to_owned())).unwrap();
    /// assert_eq!(file.to_str(), Some("/srv/ann/.config/duramen/login.json"));
    /// ```
    pub fn file(variable: impl Fn(&str) -> Option<String>) -> Result<PathBuf, LoginError> {
        let folder = variable("XDG_CONFIG_HOME")
            .map(PathBuf::from)
            .filter(|folder| folder.is_absolute())
            .or_else(|| variable("HOME").map(|home| PathBuf::from(home).join(".config")));
        Ok(folder.ok_or(LoginError::NoPlace)?.join("duramen/login.json"))
    }

    /// The one that is kept in a file, if there is one.
    ///
    /// # Errors
    /// [`LoginError::Open`] when others can read the file, [`LoginError::Foreign`] when it is somebody else's,
    /// [`LoginError::Damaged`] and [`LoginError::Io`].
    pub fn read(file: &Path) -> Result<Option<Login>, LoginError> {
        let failed = |source| LoginError::Io { doing: "read", file: file.to_owned(), source };
        let opened = match fs::File::open(file) {
            Ok(opened) => opened,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let kept = Kept::of(&opened).map_err(failed)?;
        if let Some(owner) = kept.foreign {
            return Err(LoginError::Foreign { file: file.to_owned(), owner });
        }
        if kept.open {
            return Err(LoginError::Open { file: file.to_owned() });
        }
        let text = io::read_to_string(opened).map_err(failed)?;
        let login = serde_json::from_str(&text);
        login
            .map(Some)
            .map_err(|error| LoginError::Damaged { file: file.to_owned(), what: error.to_string() })
    }

    /// Asks the daemon whether the token is alive, and keeps the login.
    ///
    /// # Errors
    /// What the daemon answers, and [`LoginError::Io`]. Then what was kept before is still there.
    pub async fn keep(&self, file: &Path) -> Result<(), LoginError> {
        self.client()?.connect().await?.sources().await?;
        let failed = |source| LoginError::Io { doing: "write", file: file.to_owned(), source };
        let text = serde_json::to_string_pretty(self).map_err(|error| failed(io::Error::other(error)))?;
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        replace(file, format!("{text}\n").as_bytes()).map_err(failed)
    }

    /// Forgets the one that is kept in a file. Returns whether there was one.
    ///
    /// # Errors
    /// [`LoginError::Io`].
    pub fn forget(file: &Path) -> Result<bool, LoginError> {
        match fs::remove_file(file) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(source) => Err(LoginError::Io { doing: "remove", file: file.to_owned(), source }),
        }
    }

    /// A client of the daemon.
    ///
    /// # Errors
    /// [`ClientError::BadUrl`].
    pub fn client(&self) -> Result<Client, ClientError> {
        Client::at(&self.url, &self.token, self.ca.as_deref())
    }
}

impl Client {
    /// A client of the daemon that is meant: of a home that was named; else of `DURAMEN_URL` with `DURAMEN_TOKEN` and
    /// `DURAMEN_CA`; else of `DURAMEN_HOME`; else of the login that is kept; else of the usual home.
    ///
    /// # Errors
    /// [`LoginError::NoToken`], and what is wrong with a login or a URL.
    ///
    /// # Examples
    /// ```
    /// use duramen_client::Client;
    ///
    /// let nothing = |_: &str| None;
    /// let client = Client::of_environment(None, "/var/lib/duramen".as_ref(), nothing).unwrap();
    /// assert_eq!(client.to_string(), "/var/lib/duramen");
    /// ```
    pub fn of_environment(
        named: Option<&Path>,
        usual: &Path,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Client, LoginError> {
        let given = |name: &str| variable(name).filter(|value| !value.is_empty());
        if let Some(home) = named {
            return Ok(Client::new(home));
        }
        if let Some(url) = given(URL) {
            let token = given(TOKEN).ok_or(LoginError::NoToken)?;
            return Ok(Login { url, token, ca: given(CA).map(PathBuf::from) }.client()?);
        }
        if given(HOME).is_some() {
            return Ok(Client::new(usual));
        }
        let login = match Login::file(given) {
            Ok(file) => Login::read(&file)?,
            Err(_) => None,
        };
        login.map_or_else(|| Ok(Client::new(usual)), |login| Ok(login.client()?))
    }
}

/// Who can get at the file of a login.
struct Kept {
    /// The user whose it is, if that is another one than who runs this.
    foreign: Option<u32>,
    /// Whether others than its owner may read or write it.
    open: bool,
}

impl Kept {
    #[cfg(unix)]
    fn of(file: &fs::File) -> io::Result<Kept> {
        use std::os::unix::fs::MetadataExt;
        let found = file.metadata()?;
        let own = rustix::process::geteuid().as_raw();
        Ok(Kept { foreign: Some(found.uid()).filter(|owner| *owner != own), open: found.mode() & 0o077 != 0 })
    }

    /// Elsewhere the folder of a user is closed to others.
    #[cfg(not(unix))]
    fn of(_: &fs::File) -> io::Result<Kept> {
        Ok(Kept { foreign: None, open: false })
    }
}

#[cfg(unix)]
fn replace(file: &Path, text: &[u8]) -> io::Result<()> {
    duramen_base::file::replace(file, text, 0o600)
}

#[cfg(not(unix))]
fn replace(file: &Path, text: &[u8]) -> io::Result<()> {
    let beside = file.with_extension("new");
    fs::write(&beside, text)?;
    fs::rename(&beside, file)
}

#[cfg(test)]
#[path = "../tests/unit/logins.rs"]
mod tests;
