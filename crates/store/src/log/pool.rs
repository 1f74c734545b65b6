//! Files that wait to become segments, so that no commit waits for one to be filled with zeros.

use super::directory::{LogDirectory, LogFile};
use super::error::LogError;
use super::recover::{segment_name, spare_name};
use crate::sync::{Arc, AtomicU64, Condvar, Mutex, Ordering};

/// How many spare files are kept.
const SPARES_MAX: usize = 2;

/// A file that waits to become a segment.
pub(crate) struct Spare {
    pub(crate) name: String,
    pub(crate) file: Arc<dyn LogFile>,
    pub(crate) size: u64,
}

#[derive(Default)]
struct State {
    spares: Vec<Spare>,
    wanted: bool,
    stop: bool,
    /// Whether none are kept any more.
    is_given_back: bool,
}

/// The spare files of a log.
pub(crate) struct Pool {
    dir: Arc<dyn LogDirectory>,
    /// The size of an ordinary segment: only such files are kept.
    size: u64,
    state: Mutex<State>,
    wake: Condvar,
    next_id: AtomicU64,
}

impl Pool {
    /// Takes over the spare files that are there, and removes those that do not fit.
    pub(crate) fn new(dir: Arc<dyn LogDirectory>, size: u64, ids: &[u64]) -> Result<Self, LogError> {
        let mut spares = Vec::new();
        for &id in ids {
            let name = spare_name(id);
            let file = dir.open(&name).map_err(LogError::io("open", name.clone()))?;
            let len = file.size().map_err(LogError::io("read", name.clone()))?;
            if len == size && spares.len() < SPARES_MAX {
                spares.push(Spare { name, file, size });
            } else {
                dir.remove(&name).map_err(LogError::io("remove", name.clone()))?;
            }
        }
        let next_id = AtomicU64::new(ids.last().map_or(1, |id| id + 1));
        let state = Mutex::new(State { spares, ..State::default() });
        Ok(Self { dir, size, state, wake: Condvar::new(), next_id })
    }

    /// A file of `size` bytes: a spare one, or a new one.
    pub(crate) fn take(&self, size: u64) -> Result<Spare, LogError> {
        let mut state = self.state.lock();
        if let Some(at) = state.spares.iter().position(|spare| spare.size == size) {
            return Ok(state.spares.remove(at));
        }
        drop(state);
        self.create(size)
    }

    /// Asks for a spare file, if there is none.
    pub(crate) fn want(&self) {
        let mut state = self.state.lock();
        if state.spares.is_empty() && !state.wanted && !state.is_given_back {
            state.wanted = true;
            self.wake.notify_one();
        }
    }

    /// Makes the files that are asked for until [`stop`](Self::stop) is called.
    pub(crate) fn run(&self) {
        let mut state = self.state.lock();
        while !state.stop {
            if !state.wanted {
                self.wake.wait(&mut state);
                continue;
            }
            drop(state);
            // A failure here costs nothing yet: whoever needs the file tries once more, and reports it.
            let made = self.create(self.size);
            state = self.state.lock();
            state.wanted = false;
            match made {
                // Best effort: the next opening finds it.
                Ok(spare) if state.is_given_back => drop(self.dir.remove(&spare.name)),
                made => state.spares.extend(made.ok()),
            }
        }
    }

    pub(crate) fn stop(&self) {
        self.state.lock().stop = true;
        self.wake.notify_all();
    }

    /// Removes the spare files, and keeps none from now on.
    pub(crate) fn give_back(&self) -> Result<(), LogError> {
        let spares = {
            let mut state = self.state.lock();
            state.is_given_back = true;
            std::mem::take(&mut state.spares)
        };
        for Spare { name, .. } in spares {
            self.dir.remove(&name).map_err(LogError::io("remove", name))?;
        }
        Ok(())
    }

    /// Keeps the file of a segment that is not needed any more as a spare one, or removes it.
    pub(crate) fn recycle(&self, number: u64) -> Result<(), LogError> {
        let name = segment_name(number);
        let room = {
            let state = self.state.lock();
            state.spares.len() < SPARES_MAX && !state.is_given_back
        };
        let size = || -> std::io::Result<u64> { self.dir.open(&name)?.size() };
        if !room || size().map_err(LogError::io("open", name.clone()))? != self.size {
            return self.dir.remove(&name).map_err(LogError::io("remove", name.clone()));
        }
        let spare = self.name();
        self.dir.rename(&name, &spare).map_err(LogError::io("rename", name))?;
        let file = self.dir.open(&spare).map_err(LogError::io("open", spare.clone()))?;
        self.state.lock().spares.push(Spare { name: spare, file, size: self.size });
        Ok(())
    }

    /// Gives a spare file the name of a segment.
    pub(crate) fn rename(&self, from: &str, to: &str) -> Result<(), LogError> {
        self.dir.rename(from, to).map_err(LogError::io("rename", from))
    }

    /// How many spare files there are.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.state.lock().spares.len()
    }

    fn create(&self, size: u64) -> Result<Spare, LogError> {
        let name = self.name();
        match self.dir.create(&name, size) {
            Ok(file) => Ok(Spare { name, file, size }),
            Err(error) => {
                // What there is of the file would only fill the disk.
                self.dir.remove(&name).ok();
                Err(LogError::io("create", name)(error))
            }
        }
    }

    fn name(&self) -> String {
        spare_name(self.next_id.fetch_add(1, Ordering::Relaxed))
    }
}
