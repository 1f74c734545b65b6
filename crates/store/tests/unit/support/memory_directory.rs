//! A disk in memory that keeps what a process sees apart from what a power cut leaves, and can be cut at any call.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;

use super::{LogDirectory, LogFile};

/// What one call of a disk may tear apart, in bytes: a sector is written whole, its neighbours need not be.
const SECTOR: usize = 64;

#[derive(Clone, Default)]
struct Inode {
    live: Vec<u8>,
    durable: Vec<u8>,
    /// What was written since the last sync: offset and bytes.
    unsynced: Vec<(usize, Vec<u8>)>,
}

#[derive(Default)]
struct State {
    /// The inode of every name. Names are durable at once, as the trait demands.
    names: BTreeMap<String, usize>,
    inodes: Vec<Inode>,
    /// How many calls have changed something or synced.
    calls: u64,
    /// From this call on everything fails.
    cut_at: Option<u64>,
    fail_writes: bool,
    fail_syncs: bool,
    syncs: u64,
    removed: u64,
}

impl State {
    fn call(&mut self) -> io::Result<()> {
        self.calls += 1;
        match self.cut_at {
            Some(cut) if self.calls > cut => Err(io::Error::other("the power is cut")),
            _ => Ok(()),
        }
    }

    fn inode(&self, name: &str) -> io::Result<usize> {
        self.names.get(name).copied().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }
}

/// The disk. Clones are the same disk.
#[derive(Clone, Default)]
pub(crate) struct MemoryDirectory {
    state: Arc<Mutex<State>>,
}

impl MemoryDirectory {
    /// Lets `calls` more calls pass, and none after.
    pub(crate) fn cut_after(&self, calls: u64) {
        let mut state = self.state.lock();
        state.cut_at = Some(state.calls + calls);
    }

    pub(crate) fn calls(&self) -> u64 {
        self.state.lock().calls
    }

    pub(crate) fn syncs(&self) -> u64 {
        self.state.lock().syncs
    }

    pub(crate) fn removed(&self) -> u64 {
        self.state.lock().removed
    }

    pub(crate) fn fail_writes(&self) {
        self.state.lock().fail_writes = true;
    }

    pub(crate) fn fail_syncs(&self, fail: bool) {
        self.state.lock().fail_syncs = fail;
    }

    /// The disk after the process was killed: all that was written is there.
    pub(crate) fn after_kill(&self) -> Self {
        self.image(|inode| inode.live.clone())
    }

    /// The disk as the next process meets it after this one was killed: the operating system has what was written,
    /// and the disk has only what was synced.
    pub(crate) fn after_kill_unsynced(&self) -> Self {
        let state = self.state.lock();
        let image = State { names: state.names.clone(), inodes: state.inodes.clone(), ..State::default() };
        Self { state: Arc::new(Mutex::new(image)) }
    }

    /// The disk after a power cut: what was synced is there, and of the sectors written since, those that chance
    /// chooses.
    pub(crate) fn after_power_cut(&self, rng: &mut fastrand::Rng) -> Self {
        // Nothing, all, or a part of it: the first two are too rare otherwise.
        let share = [0.0, 1.0, rng.f64(), rng.f64()][rng.usize(..4)];
        self.image(|inode| {
            let mut bytes = inode.durable.clone();
            for (offset, written) in &inode.unsynced {
                let mut at = 0;
                while at < written.len() {
                    let place = offset + at;
                    let len = (SECTOR - place % SECTOR).min(written.len() - at);
                    if rng.f64() < share {
                        bytes[place..place + len].copy_from_slice(&written[at..at + len]);
                    }
                    at += len;
                }
            }
            bytes
        })
    }

    fn image(&self, mut bytes_of: impl FnMut(&Inode) -> Vec<u8>) -> Self {
        let state = self.state.lock();
        let mut image = State::default();
        for (name, inode) in &state.names {
            let bytes = bytes_of(&state.inodes[*inode]);
            image.names.insert(name.clone(), image.inodes.len());
            image.inodes.push(Inode { live: bytes.clone(), durable: bytes, unsynced: Vec::new() });
        }
        Self { state: Arc::new(Mutex::new(image)) }
    }

    /// The bytes of a file, to look at or to spoil them.
    pub(crate) fn with<R>(&self, name: &str, change: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        let mut state = self.state.lock();
        let inode = state.inode(name).expect("the test names a file that is there");
        let result = change(&mut state.inodes[inode].live);
        let inode = &mut state.inodes[inode];
        inode.durable = inode.live.clone();
        inode.unsynced.clear();
        result
    }

    /// The names that begin with `prefix`, in order.
    pub(crate) fn names(&self, prefix: &str) -> Vec<String> {
        self.state.lock().names.keys().filter(|name| name.starts_with(prefix)).cloned().collect()
    }

    fn file(&self, inode: usize) -> Arc<dyn LogFile> {
        Arc::new(MemoryFile { state: self.state.clone(), inode })
    }
}

impl LogDirectory for MemoryDirectory {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.names(""))
    }

    fn create(&self, name: &str, size: u64) -> io::Result<Arc<dyn LogFile>> {
        let mut state = self.state.lock();
        state.call()?;
        if state.names.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let bytes = vec![0; size as usize];
        let inode = state.inodes.len();
        state.inodes.push(Inode { live: bytes.clone(), durable: bytes, unsynced: Vec::new() });
        state.names.insert(name.to_owned(), inode);
        drop(state);
        Ok(self.file(inode))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn LogFile>> {
        let inode = self.state.lock().inode(name)?;
        Ok(self.file(inode))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.state.lock();
        state.call()?;
        let inode = state.inode(from)?;
        state.names.remove(from);
        state.names.insert(to.to_owned(), inode);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.state.lock();
        state.call()?;
        state.inode(name)?;
        state.names.remove(name);
        state.removed += 1;
        Ok(())
    }
}

struct MemoryFile {
    state: Arc<Mutex<State>>,
    inode: usize,
}

impl LogFile for MemoryFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.state.lock().inodes[self.inode].live.len() as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let state = self.state.lock();
        let bytes = state.inodes[self.inode].live.get(offset as usize..).unwrap_or_default();
        let len = bytes.len().min(buffer.len());
        buffer[..len].copy_from_slice(&bytes[..len]);
        Ok(len)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state.lock();
        state.call()?;
        if state.fail_writes {
            return Err(io::Error::other("this write fails"));
        }
        let inode = &mut state.inodes[self.inode];
        let offset = offset as usize;
        assert!(offset + bytes.len() <= inode.live.len(), "a write past the end would need metadata");
        inode.live[offset..offset + bytes.len()].copy_from_slice(bytes);
        inode.unsynced.push((offset, bytes.to_vec()));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        state.call()?;
        state.syncs += 1;
        if state.fail_syncs {
            return Err(io::Error::other("this sync fails"));
        }
        let inode = &mut state.inodes[self.inode];
        // Only what changed is copied: files are large beside what one sync covers.
        for (offset, bytes) in std::mem::take(&mut inode.unsynced) {
            inode.durable[offset..offset + bytes.len()].copy_from_slice(&bytes);
        }
        Ok(())
    }
}
