//! The folder of a store: whose it is, and the lock on it.
//!
//! Nothing in a folder is written or made before it is known to hold a store, or nothing.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::path::Path;
use std::time::Duration;

use duramen_base::clock;
use duramen_base::file::open_plain;
use duramen_base::lock::{FileLock, LockError};
use duramen_base::system::follow_no_link;

use crate::backup::MARKER;
use crate::error::StoreError;
use crate::log::{is_segment_name, is_spare_name};
use crate::nodes::segment_number;

/// The file that says which process has the store.
pub(crate) const LOCK_FILE: &str = "lock";
/// Where the nodes lie, and where they are made before they get that name.
pub(crate) const NODES_FOLDER: &str = "nodes";
pub(crate) const NEW_NODES_FOLDER: &str = "nodes.new";
/// The file by which the folder of the nodes of version 0.1 is known.
pub(crate) const LEGACY_MARKER: &str = "version";
/// What lies in that beside its journals.
pub(crate) const LEGACY_NAMES: [&str; 3] = [LEGACY_MARKER, "keyspaces", "lock"];
/// Where the log lies.
pub(crate) const LOG_FOLDER: &str = "log";
/// What stands behind the pid in the lock file: by it, a folder is known in which a store was being made.
const LOCK_MARK: &str = "duramen store";
/// How long to wait before the lock is asked for again.
const LOCK_PAUSE: Duration = Duration::from_millis(5);
/// A lock file is not longer than this, in bytes.
const LOCK_BYTES_MAX: usize = 64;

/// What a folder holds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// A store, or what is left of one.
    Store,
    /// A store whose nodes version 0.1 wrote.
    Legacy,
    /// Nothing, or what was left when the making of a store was cut off.
    Nothing,
    /// Something else: the name of a part of it.
    Foreign(String),
}

/// Looks what a folder holds, and changes nothing.
pub(crate) fn look(path: &Path) -> io::Result<Found> {
    let entries = match std::fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(error) => return Err(error),
    };
    // A backup that was not finished.
    if path.join(MARKER).exists() {
        return Ok(Found::Foreign(MARKER.to_owned()));
    }
    let nodes = path.join(NODES_FOLDER);
    let has_segments = holds_segments(&nodes, |name| segment_number(name).is_some())?;
    if holds_legacy_nodes(&nodes, has_segments)? {
        return Ok(Found::Legacy);
    }
    if has_segments || holds_segments(&path.join(LOG_FOLDER), is_segment_name)? {
        return Ok(Found::Store);
    }
    for entry in entries {
        let name = entry?.file_name();
        let at = path.join(&name);
        let is_ours = match name.to_str() {
            Some(LOCK_FILE) => is_lock(&at)?,
            Some(NODES_FOLDER) => is_folder_of(&at, |_| false)?,
            Some(LOG_FOLDER) => {
                let is_making = is_lock(&path.join(LOCK_FILE))?;
                is_folder_of(&at, |name| is_making && is_spare_name(name))?
            }
            // Only beside a lock of ours, whose name is durable before: it will be removed.
            Some(NEW_NODES_FOLDER) => at.is_dir() && is_lock(&path.join(LOCK_FILE))?,
            // The root of a file system.
            Some("lost+found") => true,
            _ => false,
        };
        if !is_ours {
            return Ok(Found::Foreign(name.to_string_lossy().into_owned()));
        }
    }
    Ok(Found::Nothing)
}

/// Whether all that is in a folder has names of a kind.
fn is_folder_of(path: &Path, is_name: impl Fn(&str) -> bool) -> io::Result<bool> {
    if !path.is_dir() {
        return Ok(false);
    }
    for entry in std::fs::read_dir(path)? {
        if !is_name(&entry?.file_name().to_string_lossy()) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether version 0.1 has finished making the folder of the nodes, whatever became of it since. Beside segments only
/// its marker counts: an upgrade that has come to its end removed that, and perhaps not the rest.
fn holds_legacy_nodes(path: &Path, has_segments: bool) -> io::Result<bool> {
    let mut magic = [0; 3];
    match File::open(path.join(LEGACY_MARKER)).and_then(|mut file| file.read_exact(&mut magic)) {
        Ok(()) => Ok(magic == *b"FJL"),
        Err(error) if is_none(&error) => Ok(!has_segments && path.join("keyspaces").try_exists()?),
        Err(error) => Err(error),
    }
}

fn holds_segments(path: &Path, is_name: impl Fn(&str) -> bool) -> io::Result<bool> {
    let entries = match std::fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if is_none(&error) => return Ok(false),
        Err(error) => return Err(error),
    };
    for entry in entries {
        if is_name(&entry?.file_name().to_string_lossy()) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn is_none(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::UnexpectedEof)
}

/// Whether a lock file is empty, or one that this crate wrote.
fn is_lock(path: &Path) -> io::Result<bool> {
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_file() => {}
        Ok(_) => return Ok(false),
        Err(error) if is_none(&error) => return Ok(false),
        Err(error) => return Err(error),
    }
    let text = lock_text(path)?;
    // After a power cut it may hold zeros only.
    Ok(text.trim_end_matches('\0').is_empty() || text.trim_end().ends_with(LOCK_MARK))
}

fn lock_text(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(LOCK_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(String::from_utf8(bytes).unwrap_or_else(|_| "?".to_owned()))
}

/// The lock on a store's folder, held as long as this is there.
pub(crate) struct FolderLock {
    file: FileLock,
}

impl FolderLock {
    /// Locks a folder against everybody else who writes.
    pub(crate) fn take(path: &Path, wait: Duration) -> Result<Self, StoreError> {
        let deadline = clock::now().checked_add(wait);
        loop {
            match Self::try_take(path) {
                Err(StoreError::Locked { .. }) if deadline.is_none_or(|end| clock::now() < end) => {
                    std::thread::sleep(LOCK_PAUSE);
                }
                done => return done,
            }
        }
    }

    fn try_take(path: &Path) -> Result<Self, StoreError> {
        let name = path.join(LOCK_FILE);
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        let file = follow_no_link(&mut options).open(&name);
        let file = file.map_err(StoreError::io("open the lock", &name))?;
        let file = FileLock::exclusive(file).map_err(|error| match error {
            LockError::Held => {
                let text = lock_text(&name).unwrap_or_default();
                let pid = text.split_whitespace().next().and_then(|pid| pid.parse().ok());
                StoreError::Locked { path: path.to_owned(), pid }
            }
            LockError::Io(_, error) => StoreError::io("lock", &name)(error),
        })?;
        let lock = Self { file };
        let mut file = &*lock.file;
        let written = file
            .set_len(0)
            .and_then(|()| file.write_all(format!("{} {LOCK_MARK}\n", std::process::id()).as_bytes()));
        written.map_err(StoreError::io("write the lock", &name))?;
        Ok(lock)
    }
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        // Best effort: a stale pid in a file that nobody has locked misleads no program.
        let _ = self.file.set_len(0);
    }
}

/// Whether somebody has a store open who writes, and the right to keep all such out for a moment if nobody has.
pub(crate) enum Quiet {
    /// Nobody writes as long as this is there. A folder without a lock file, such as a copy, has no writer.
    Yes(Option<FileLock>),
    No,
}

impl Quiet {
    /// Looks, without a wait, and writes nothing.
    pub(crate) fn look(path: &Path) -> Result<Self, StoreError> {
        let name = path.join(LOCK_FILE);
        let file = match open_plain(&name) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::Yes(None)),
            opened => opened.map_err(StoreError::io("open the lock", &name))?,
        };
        match FileLock::shared(file) {
            Ok(lock) => Ok(Self::Yes(Some(lock))),
            Err(LockError::Held) => Ok(Self::No),
            Err(LockError::Io(_, error)) => Err(StoreError::io("lock", &name)(error)),
        }
    }
}

pub(crate) use duramen_base::file::sync_folder as sync;

/// Makes a folder, with those above it that are missing, and makes their names durable.
pub(crate) fn make(path: &Path) -> io::Result<()> {
    let path = std::path::absolute(path)?;
    let missing: Vec<&Path> = path.ancestors().take_while(|folder| !folder.is_dir()).collect();
    for folder in missing.into_iter().rev() {
        match std::fs::create_dir(folder) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists && folder.is_dir() => {}
            made => made?,
        }
        if let Some(above) = folder.parent() {
            sync(above)?;
        }
    }
    Ok(())
}
