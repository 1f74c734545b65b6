//! What a run shares between its rows: the data, and the folders of the stores.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::data::Data;
use crate::engine::{Done, Engine, Failure, Kind, Level};

/// One run.
pub(crate) struct Bench {
    /// The rows.
    pub(crate) data: Data,
    /// Where the stores are made; empty at first.
    pub(crate) dir: PathBuf,
    /// How long a row that writes single commits may take.
    pub(crate) cap: Duration,
    /// Whether strict commits are made by threads with real-time priority.
    pub(crate) fifo: bool,
    /// The seed of the run; each round and row derives its own.
    pub(crate) seed: u64,
    loaded: Mutex<HashSet<&'static str>>,
}

impl Bench {
    /// A run that has not begun.
    pub(crate) fn new(data: Data, dir: PathBuf, cap: Duration, fifo: bool, seed: u64) -> Self {
        Self { data, dir, cap, fifo, seed, loaded: Mutex::default() }
    }

    /// An empty folder for a store of this engine.
    pub(crate) fn fresh(&self, kind: Kind) -> Done<PathBuf> {
        let dir = self.dir.join(format!("{}-fresh", kind.name));
        replace(&dir)?;
        self.settle()?;
        Ok(dir)
    }

    /// The folder where [`Bench::load`] loads the rows.
    pub(crate) fn loaded_dir(&self, kind: Kind) -> PathBuf {
        self.dir.join(format!("{}-loaded", kind.name))
    }

    /// Loads all rows into a new store, closes it, and says how long the load took without opening and
    /// closing.
    pub(crate) fn load(&self, kind: Kind) -> Done<Duration> {
        let dir = self.loaded_dir(kind);
        self.loaded().remove(kind.name);
        replace(&dir)?;
        self.settle()?;
        let engine = (kind.open)(&dir, Level::Strict)?;
        let mut rows = (0..self.data.rows()).map(|rank| (self.data.key(rank), self.data.value(rank)));
        let begin = duramen_base::clock::now();
        engine.bulk_load(&mut rows)?;
        let took = begin.elapsed();
        engine.close()?;
        self.loaded().insert(kind.name);
        self.settle()?;
        Ok(took)
    }

    /// Opens the store with all rows, which is loaded if a row that did so was not asked for.
    pub(crate) fn open_loaded(&self, kind: Kind) -> Done<Box<dyn Engine>> {
        if !self.loaded().contains(kind.name) {
            self.load(kind)?;
        }
        self.settle()?;
        (kind.open)(&self.loaded_dir(kind), Level::Strict)
    }

    fn loaded(&self) -> MutexGuard<'_, HashSet<&'static str>> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets the loaded stores, so that the next round loads them anew.
    pub(crate) fn next_round(&self) -> Done<()> {
        for name in self.loaded().drain() {
            remove(&self.dir.join(format!("{name}-loaded")))?;
        }
        Ok(())
    }

    /// Waits until the disk has what other engines left behind, so that nobody is measured while it is
    /// written.
    pub(crate) fn settle(&self) -> Done<()> {
        let dir = fs::File::open(&self.dir).map_err(Failure::io("cannot open the folder of the run"))?;
        rustix::fs::syncfs(&dir)
            .map_err(|errno| Failure::io("cannot sync the folder of the run")(errno.into()))
    }
}

/// Bytes that the files of a folder occupy on the disk. Files with holes count what they occupy.
pub(crate) fn disk_bytes(dir: &Path) -> Done<u64> {
    let fail = || Failure::io(format!("cannot add up the files of {}", dir.display()));
    let mut sum = 0;
    for entry in fs::read_dir(dir).map_err(fail())? {
        let entry = entry.map_err(fail())?;
        let metadata = entry.metadata().map_err(fail())?;
        sum += if metadata.is_dir() { disk_bytes(&entry.path())? } else { metadata.blocks() * 512 };
    }
    Ok(sum)
}

/// Removes a folder if it is there.
pub(crate) fn remove(dir: &Path) -> Done<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Failure::io(format!("cannot remove {}", dir.display()))(error))
        }
        _ => Ok(()),
    }
}

fn replace(dir: &Path) -> Done<()> {
    remove(dir)?;
    fs::create_dir(dir).map_err(Failure::io(format!("cannot make {}", dir.display())))
}
