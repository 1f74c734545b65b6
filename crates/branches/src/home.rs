//! Where things lie in a home directory.

use crate::{
    error::{EngineError, HomeError},
    files::io_error,
    key::Key,
};
use duramen_postgres::{Secret, ServerUser, SOCKET_DIR_MAX};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// Length of the random part of a socket directory's name: 26 symbols of 5 bits cannot be guessed.
pub(crate) const TOKEN_LEN: usize = 26;

/// The directory within a branch's socket directory that holds the daemon's own socket.
pub(crate) const ADMIN_DIR: &str = "admin";

/// The paths of one home directory.
#[derive(Debug, Clone)]
pub(crate) struct Home {
    root: PathBuf,
    sockets: PathBuf,
    /// What every secret of this home is derived from.
    key: Key,
}

/// Who may enter a directory of a home.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Passage {
    /// The daemon alone.
    Daemon,
    /// The servers' user too, which passes through on its way to its files and sockets, and lists nothing.
    Servers,
}

/// The directories of a home, and who may enter them. Everything else in it is of the command line, of the lab, or
/// packages that are public anyway.
const DIRECTORIES: &[(&str, Passage)] = &[
    ("", Passage::Servers),
    ("sources", Passage::Daemon),
    ("origins", Passage::Servers),
    ("logs", Passage::Daemon),
    ("audit", Passage::Daemon),
    ("run", Passage::Servers),
    ("volumes", Passage::Servers),
];

impl Home {
    /// Makes the folders of a home directory, takes away what others may do in one that is there, and checks that the
    /// server user can reach it.
    pub(crate) fn open(root: &Path, user: &ServerUser) -> Result<Home, EngineError> {
        fs::create_dir_all(root).map_err(|error| io_error("make the home directory", root, &error))?;
        refuse_foreign(root)?;
        let root =
            fs::canonicalize(root).map_err(|error| io_error("find the home directory", root, &error))?;
        for (name, passage) in DIRECTORIES {
            make_dir(&root.join(name), *passage, user)?;
        }
        user.check_traversable(&root).map_err(HomeError::NotTraversable)?;
        for path in private_files(&root) {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600))
                .map_err(|error| io_error("set the mode of", &path, &error))?;
        }
        let home = Home { sockets: socket_root(&root), key: Key::open(&root)?, root };
        make_dir(&home.sockets, Passage::Servers, user)?;
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

    /// Says that writes to the volume store were lost.
    pub(crate) fn marker(&self) -> PathBuf {
        self.root.join("lost-writes")
    }

    pub(crate) fn sockets(&self) -> &Path {
        &self.sockets
    }

    /// The secret of the administrator of a source's servers: its origin, if that is ours, its imports, its branches.
    pub(crate) fn admin_secret(&self, source: &str) -> Secret {
        self.key.derive(&format!("administrator of source {source}"))
    }

    /// The secret of a branch's superuser once an administrator has asked for it: it opens that branch alone.
    pub(crate) fn branch_admin_secret(&self, volume: &str) -> Secret {
        self.key.derive(&format!("administrator of volume {volume}"))
    }

    /// The secret of a holder's role in the snapshot of a source. In a branch it is replaced before anybody can enter.
    pub(crate) fn first_secret(&self, source: &str) -> Secret {
        self.key.derive(&format!("first session on a branch of source {source}"))
    }

    /// The secret of a branch's holder: as long as its volume lives, and no other volume ever has that name.
    pub(crate) fn branch_secret(&self, volume: &str) -> Secret {
        self.key.derive(&format!("holder of volume {volume}"))
    }

    pub(crate) fn socket(&self, token: &str) -> PathBuf {
        self.sockets.join(token)
    }
}

/// Sockets lie in the home directory, unless its path is too long for a socket address: then in a directory of
/// `/tmp` that is named after the home.
fn socket_root(root: &Path) -> PathBuf {
    let inside = root.join("run");
    if inside.as_os_str().len() + 1 + TOKEN_LEN + 1 + ADMIN_DIR.len() <= SOCKET_DIR_MAX {
        return inside;
    }
    let name = blake3::hash(root.as_os_str().as_encoded_bytes()).to_hex();
    PathBuf::from(format!("/tmp/duramen-{}", &name[..16]))
}

/// The files of a home that hold data, secrets or records, as far as they are there.
fn private_files(root: &Path) -> Vec<PathBuf> {
    let in_dir = |dir: PathBuf| fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let below = in_dir(root.join("sources")).flat_map(in_dir);
    let beside = in_dir(root.to_owned()).filter(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("leases.")
            || ["daemon.lock", "daemon.log", "key", "lost-writes", "volumes.btrfs", "volumes.set-back"]
                .contains(&&*name)
    });
    let files = ["logs", "audit", "origins"].into_iter().flat_map(|name| in_dir(root.join(name)));
    files
        .chain(below)
        .chain(beside)
        .filter(|path| path.symlink_metadata().is_ok_and(|it| it.is_file()))
        .collect()
}

/// What of a home others than the daemon can read or enter although they should not: a home of an earlier version that
/// no daemon has opened since, or one whose modes somebody changed.
///
/// # Examples
/// ```
/// let home = tempfile::tempdir()?;
/// assert!(duramen_branches::exposed(&home.path().join("none")).is_empty());
/// # std::io::Result::Ok(())
/// ```
#[must_use]
pub fn exposed(root: &Path) -> Vec<PathBuf> {
    let more_than = |path: &Path, allowed: u32| {
        path.symlink_metadata().is_ok_and(|it| it.permissions().mode() & 0o777 & !allowed != 0)
    };
    let directories = DIRECTORIES.iter().filter(|(name, _)| !name.is_empty()).map(|(name, passage)| {
        let allowed = if *passage == Passage::Servers { 0o710 } else { 0o700 };
        (root.join(name), allowed)
    });
    // A home that holds nothing yet but packages has nothing to hide.
    let used = root.join("sources").exists().then(|| (root.to_owned(), 0o710));
    let files = private_files(root).into_iter().map(|path| (path, 0o600));
    let mut found: Vec<PathBuf> = used
        .into_iter()
        .chain(directories)
        .chain(files)
        .filter(|(path, allowed)| more_than(path, *allowed))
        .map(|(path, _)| path)
        .collect();
    found.sort();
    found
}

/// Refuses to take a directory for a home that is somebody else's or everybody's: its mode is about to be changed, and
/// its owner could put other files in the place of ours.
fn refuse_foreign(root: &Path) -> Result<(), EngineError> {
    use std::os::unix::fs::MetadataExt;
    let found = fs::metadata(root).map_err(|error| io_error("inspect", root, &error))?;
    if found.uid() == rustix::process::geteuid().as_raw() && found.mode() & 0o1000 == 0 {
        return Ok(());
    }
    Err(HomeError::Foreign { path: root.to_owned() }.into())
}

/// Makes a directory, or takes one that is there, and lets in whom `passage` says. Where a stranger could have made it
/// first (a socket root below `/tmp`) it must be ours.
pub(crate) fn make_dir(dir: &Path, passage: Passage, user: &ServerUser) -> Result<(), EngineError> {
    use std::os::unix::fs::{DirBuilderExt, MetadataExt};
    let fail = |error: std::io::Error| io_error("make", dir, &error);
    match fs::DirBuilder::new().mode(0o700).create(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(fail(error)),
        _ => {}
    }
    let found = dir.symlink_metadata().map_err(fail)?;
    let elsewhere = dir.starts_with("/tmp") && dir.parent() == Some(Path::new("/tmp"));
    if elsewhere && (!found.is_dir() || found.uid() != rustix::process::geteuid().as_raw()) {
        return Err(HomeError::ForeignSockets { path: dir.to_owned() }.into());
    }
    match passage {
        Passage::Servers => user.let_through(dir).map_err(fail),
        Passage::Daemon => fs::set_permissions(dir, fs::Permissions::from_mode(0o700)).map_err(fail),
    }
}
