//! Where things lie in a home directory.

use crate::{
    error::{EngineError, HomeError},
    files::{self, io_error, Passage},
    key::Key,
};
use duramen_postgres::{ControlGroups, Secret, ServerUser, SOCKET_DIR_MAX};
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

/// The directories of a home, and who may enter them. Everything else in it is of the command line, of the lab, or
/// packages that are public anyway.
const DIRECTORIES: &[(&str, Passage)] = &[
    ("", Passage::Holders),
    ("sources", Passage::Daemon),
    ("origins", Passage::Servers),
    ("logs", Passage::Daemon),
    ("audit", Passage::Daemon),
    ("merges", Passage::Daemon),
    ("doors", Passage::Daemon),
    ("run", Passage::Holders),
    ("volumes", Passage::Servers),
];

impl Home {
    /// Makes the folders of a home directory, takes away what others may do in one that is there, and checks that the
    /// server user can reach it.
    pub(crate) fn open(root: &Path, user: &ServerUser) -> Result<Home, EngineError> {
        files::make_root(root)?;
        refuse_foreign(root)?;
        let root =
            fs::canonicalize(root).map_err(|error| io_error("find the home directory", root, &error))?;
        for (name, passage) in DIRECTORIES {
            files::make_dir(&root.join(name), *passage, user)?;
        }
        user.check_traversable(&root).map_err(HomeError::NotTraversable)?;
        for path in private_files(&root) {
            files::close_file(&path)?;
        }
        for (path, allowed) in inner_directories(&root, user.clone().for_source().sockets_mode()) {
            files::narrow_dir(&path, allowed)?;
        }
        let home = Home { sockets: socket_root(&root), key: Key::open(&root)?, root };
        files::make_dir(&home.sockets, Passage::Holders, user)?;
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

    /// The files of merges that run.
    pub(crate) fn merges(&self) -> PathBuf {
        self.root.join("merges")
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

    /// The name of the control group of its servers.
    pub(crate) fn group_name(&self) -> String {
        short_hash(&self.root)
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

    /// What the masked values of a source follow from, in every generation of it.
    pub(crate) fn masking_secret(&self, source: &str) -> Secret {
        self.key.derive(&format!("masked values of source {source}"))
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
    PathBuf::from(format!("/tmp/duramen-{}", short_hash(root)))
}

/// A name for a home that no other one has.
fn short_hash(root: &Path) -> String {
    blake3::hash(root.as_os_str().as_encoded_bytes()).to_hex()[..16].to_owned()
}

/// Removes what is left of the control groups of a home that no daemon serves and in which no server runs. Returns how many
/// servers had one.
///
/// # Examples
/// ```
/// let home = tempfile::tempdir()?;
/// assert_eq!(duramen_branches::remove_groups(home.path()), 0);
/// # std::io::Result::Ok(())
/// ```
#[must_use]
pub fn remove_groups(root: &Path) -> usize {
    fs::canonicalize(root).map_or(0, |root| ControlGroups::remove(&short_hash(&root)))
}

/// The directory outside of a home in which its sockets are, if its path is too long for them and there is one of ours.
///
/// # Examples
/// ```
/// let home = tempfile::tempdir()?;
/// assert_eq!(duramen_branches::sockets_outside(home.path()), None);
/// # std::io::Result::Ok(())
/// ```
#[must_use]
pub fn sockets_outside(root: &Path) -> Option<PathBuf> {
    use std::os::unix::fs::MetadataExt;
    let root = fs::canonicalize(root).ok()?;
    let sockets = socket_root(&root);
    let found = sockets.symlink_metadata().ok()?;
    let is_ours = found.is_dir() && found.uid() == rustix::process::geteuid().as_raw();
    (is_ours && !sockets.starts_with(&root)).then_some(sockets)
}

/// The files of a home that hold data, secrets or records, as far as they are there.
fn private_files(root: &Path) -> Vec<PathBuf> {
    let in_dir = |dir: PathBuf| fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let below = in_dir(root.join("sources")).flat_map(in_dir);
    let beside = in_dir(root.to_owned()).filter(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("leases.")
            || [
                "daemon.lock",
                "daemon.log",
                "key",
                "lost-writes",
                "scratch.btrfs",
                "volumes.btrfs",
                "volumes.set-back",
            ]
            .contains(&&*name)
    });
    let files = ["logs", "audit", "doors", "origins", "at-origins"]
        .into_iter()
        .flat_map(|name| in_dir(root.join(name)));
    files
        .chain(below)
        .chain(beside)
        .filter(|path| path.symlink_metadata().is_ok_and(|it| it.is_file()))
        .collect()
}

/// The directories within those of a home, and the most that their modes allow; `sockets` is that of directories of
/// sockets. Nobody but root can put others in their place.
fn inner_directories(root: &Path, sockets: u32) -> Vec<(PathBuf, u32)> {
    let root = fs::canonicalize(root).unwrap_or_else(|_| root.to_owned());
    let private = Passage::Daemon.mode();
    let places =
        [(root.join("sources"), private), (root.join("origins"), private), (socket_root(&root), sockets)];
    let mut found = Vec::new();
    for (place, mode) in places {
        let entries = fs::read_dir(place).into_iter().flatten().flatten();
        let dirs = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        found.extend(dirs.map(|entry| (entry.path(), mode)));
    }
    found
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
    let directories = DIRECTORIES
        .iter()
        .filter(|(name, _)| !name.is_empty())
        .map(|(name, passage)| (root.join(name), passage.mode()));
    // A home that holds nothing yet but packages has nothing to hide.
    let used = root.join("sources").exists().then(|| (root.to_owned(), Passage::Holders.mode()));
    let files = private_files(root).into_iter().map(|path| (path, files::FILE));
    let mut found: Vec<PathBuf> = used
        .into_iter()
        .chain(directories)
        .chain(inner_directories(root, Passage::Holders.mode()))
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
