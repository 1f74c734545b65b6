//! Keeping the engine's journal short across restarts.
//!
//! The engine begins a new journal only after 64 MB, and reads the whole of the old one when it opens, some 1 ms per
//! megabyte of nodes and 40 ms per megabyte of deletions, even where all of it has long been in its files. So a store that is closed in order brings all of it
//! into the files and cuts the journal to nothing. It is cut and not removed: where there is no journal, the engine
//! takes the database for new and counts its writes from zero, and what is written then is older than what is there.

use std::ffi::OsString;
use std::fs::File;
use std::io::Result;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use duramen_base::lock::FileLock;
use fjall::{AbstractTree, Keyspace};

/// Journal bytes that are left alone: reading the deletions of a checkpoint of 900 KB took 40 ms.
const SHORT_BYTES: u64 = 32 << 10;
const WAIT: Duration = Duration::from_millis(2);
const WAITS: u32 = 1000;

/// What identifies a journal in a state: name, length, and when it was last written.
type Seen = Vec<(OsString, u64, i64, i64)>;

/// Cuts the journal to nothing when it is dropped, if it was found needless before. It is dropped after the engine.
pub(crate) struct JournalTrim {
    path: PathBuf,
    needless: Option<Seen>,
}

impl JournalTrim {
    pub(crate) fn new(path: &Path) -> Self {
        Self { path: path.to_path_buf(), needless: None }
    }

    /// Brings what the journal holds into files, if it is long, and notes it as needless if that was done.
    /// Nothing may be written to the keyspaces afterwards.
    pub(crate) fn prepare(&mut self, keyspaces: [&Keyspace; 2]) {
        if allocated(&self.path) <= SHORT_BYTES {
            return;
        }
        if keyspaces.iter().any(|keyspace| keyspace.rotate_memtable().is_err()) {
            return;
        }
        let flushed = |keyspace: &&Keyspace| {
            keyspace.tree.sealed_memtable_count() == 0 && keyspace.tree.active_memtable().is_empty()
        };
        for _ in 0..WAITS {
            if keyspaces.iter().all(flushed) {
                // Looked at once more: the flush itself may have begun a new journal.
                self.needless = look(&self.path).ok();
                return;
            }
            std::thread::sleep(WAIT);
        }
    }
}

impl Drop for JournalTrim {
    fn drop(&mut self) {
        let Some(seen) = self.needless.take() else { return };
        if let Err(error) = cut(&self.path, &seen) {
            log::warn!("the journal of the node store was left long; its next opening is slower: {error}");
        }
    }
}

fn cut(path: &Path, seen: &Seen) -> Result<()> {
    // The engine's own lock: since it was let go, another process may have opened the store and written.
    let lock = File::options().read(true).write(true).open(path.join("lock"))?;
    let _lock = FileLock::exclusive(lock).map_err(std::io::Error::other)?;
    cut_locked(path, seen)
}

fn cut_locked(path: &Path, seen: &Seen) -> Result<()> {
    if look(path)? != *seen {
        return Ok(());
    }
    // All of each is in files, so they may be cut in any order, and some of them only. The engine reads a journal that
    // was cut as an empty one, and removes those that are not its last.
    for (name, ..) in seen {
        let journal = File::options().write(true).open(path.join(name))?;
        journal.set_len(0)?;
        journal.sync_all()?;
    }
    Ok(())
}

fn journals(path: &Path) -> Result<Vec<(OsString, std::fs::Metadata)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        if Path::new(&entry.file_name()).extension().is_some_and(|extension| extension == "jnl") {
            found.push((entry.file_name(), entry.metadata()?));
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(found)
}

fn look(path: &Path) -> Result<Seen> {
    let seen =
        |(name, file): (OsString, std::fs::Metadata)| (name, file.len(), file.mtime(), file.mtime_nsec());
    Ok(journals(path)?.into_iter().map(seen).collect())
}

/// Disk space of the journals, which the engine makes long and sparse.
fn allocated(path: &Path) -> u64 {
    journals(path).unwrap_or_default().iter().map(|(_, file)| file.blocks() * 512).sum()
}
