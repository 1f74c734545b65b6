//! Where things lie in a home directory.

use crate::error::{EngineError, Kind};
use duramen_postgres::{ServerUser, SOCKET_DIR_MAX};
use std::{
    fs,
    io::Write,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// Length of the random part of a socket directory's name: 26 symbols of 5 bits cannot be guessed.
pub(crate) const TOKEN_LEN: usize = 26;

/// The paths of one home directory.
#[derive(Debug, Clone)]
pub(crate) struct Home {
    root: PathBuf,
    sockets: PathBuf,
}

impl Home {
    /// Makes the folders of a home directory, and checks that the server user can reach them.
    pub(crate) fn open(root: &Path, user: &ServerUser) -> Result<Home, EngineError> {
        fs::create_dir_all(root).map_err(|error| io_error("make the home directory", root, &error))?;
        let root =
            fs::canonicalize(root).map_err(|error| io_error("find the home directory", root, &error))?;
        user.check_traversable(&root)
            .map_err(|error| EngineError::new(Kind::Failed, "home_not_traversable", error.to_string()))?;
        let home = Home { sockets: socket_root(&root), root };
        for dir in [home.sources(), home.origins(), home.logs(), home.audit(), home.sockets.clone()] {
            fs::create_dir_all(&dir).map_err(|error| io_error("make", &dir, &error))?;
            // The server user passes through; nobody lists. A socket's directory name is what admits to it.
            fs::set_permissions(&dir, fs::Permissions::from_mode(0o711))
                .map_err(|error| io_error("set the mode of", &dir, &error))?;
        }
        Ok(home)
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn sources(&self) -> PathBuf {
        self.root.join("sources")
    }

    pub(crate) fn origins(&self) -> PathBuf {
        self.root.join("origins")
    }

    pub(crate) fn logs(&self) -> PathBuf {
        self.root.join("logs")
    }

    pub(crate) fn audit(&self) -> PathBuf {
        self.root.join("audit")
    }

    pub(crate) fn journal(&self) -> PathBuf {
        self.root.join("leases.jsonl")
    }

    pub(crate) fn sockets(&self) -> &Path {
        &self.sockets
    }

    pub(crate) fn socket(&self, token: &str) -> PathBuf {
        self.sockets.join(token)
    }
}

/// Sockets lie in the home directory, unless its path is too long for a socket address: then in a directory of
/// `/tmp` that is named after the home.
fn socket_root(root: &Path) -> PathBuf {
    let inside = root.join("run");
    if inside.as_os_str().len() + 1 + TOKEN_LEN <= SOCKET_DIR_MAX {
        return inside;
    }
    let name = blake3::hash(root.as_os_str().as_encoded_bytes()).to_hex();
    PathBuf::from(format!("/tmp/duramen-{}", &name[..16]))
}

/// Replaces a file so that a crash leaves the old or the new one: temporary name, flush, rename, flush of the
/// directory. The file is readable by its owner alone.
pub(crate) fn replace_file(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let temporary = path.with_extension("tmp");
    let mut file = fs::File::create(&temporary)?;
    file.set_permissions(fs::Permissions::from_mode(0o600))?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    let parent = path.parent().ok_or(std::io::ErrorKind::InvalidInput)?;
    fs::File::open(parent)?.sync_all()
}

pub(crate) fn io_error(doing: &str, path: &Path, error: &std::io::Error) -> EngineError {
    EngineError::new(Kind::Failed, "io_error", format!("cannot {doing} {}: {error}", path.display()))
}
