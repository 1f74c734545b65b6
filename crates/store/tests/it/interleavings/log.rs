//! The commit log itself, compiled over the primitives of the checker, and a disk in memory.
#![allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "the files are whole, and in a library their items are public"
)]

#[path = "../../../src/log/commit.rs"]
mod commit;
#[path = "../../../src/log/core.rs"]
mod core;
#[path = "../../../src/log/directory.rs"]
mod directory;
#[path = "../../../src/log/error.rs"]
mod error;
#[path = "../../../src/log/format.rs"]
mod format;
#[path = "../../../src/log/group.rs"]
mod group;
#[path = "../../../src/log/pool.rs"]
mod pool;
#[path = "../../../src/log/recover.rs"]
mod recover;
#[path = "../../../src/log/scan.rs"]
mod scan;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use shuttle::thread::yield_now;

pub(crate) use self::core::Core;
use directory::{LogDirectory, LogFile};
pub(crate) use error::LogError;
use recover::{Needed, Position, Recovered};

/// The least size of a segment, in bytes.
const SEGMENT_BYTES: u64 = 4096;

struct Inode {
    live: Vec<u8>,
    durable: Vec<u8>,
}

#[derive(Default)]
struct State {
    /// Names are durable at once, as the trait demands.
    names: BTreeMap<String, usize>,
    inodes: Vec<Inode>,
    /// Syncs that succeed before one fails, if one does.
    good_syncs: Option<u32>,
}

/// A disk that keeps what a process sees apart from what a power cut leaves. Others go on while it works. Its own lock
/// is none of the checker's, and is never held where the checker may choose another thread.
#[derive(Clone, Default)]
pub(crate) struct Disk(Arc<Mutex<State>>);

impl Disk {
    /// Has the sync after `good` others fail.
    pub(crate) fn failing_after(good: u32) -> Self {
        let disk = Self::default();
        disk.0.lock().good_syncs = Some(good);
        disk
    }

    fn recover(&self, write: bool) -> Recovered {
        let position = Position { after: 0, needed: Needed::Nothing };
        recover::recover(self, position, &mut |_, _, _| Ok(()), write).unwrap()
    }

    pub(crate) fn open_log(&self) -> Arc<Core> {
        let found = self.recover(true);
        let pool = pool::Pool::new(Arc::new(self.clone()), SEGMENT_BYTES, &found.spares).unwrap();
        Arc::new(Core::new(pool, SEGMENT_BYTES, found).unwrap())
    }

    /// The last version that is found after a power cut now that leaves nothing which was not synced.
    pub(crate) fn last_after_power_cut(&self) -> u64 {
        let state = self.0.lock();
        let inodes = state.inodes.iter().map(|inode| {
            let bytes = inode.durable.clone();
            Inode { live: bytes.clone(), durable: bytes }
        });
        let image = State { names: state.names.clone(), inodes: inodes.collect(), good_syncs: None };
        drop(state);
        Self(Arc::new(Mutex::new(image))).recover(false).last
    }

    fn inode(&self, name: &str) -> io::Result<usize> {
        self.0.lock().names.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn file(&self, inode: usize) -> Arc<dyn LogFile> {
        Arc::new(DiskFile { disk: self.clone(), inode })
    }
}

impl LogDirectory for Disk {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.0.lock().names.keys().cloned().collect())
    }

    fn create(&self, name: &str, size: u64) -> io::Result<Arc<dyn LogFile>> {
        let zeros = vec![0; size as usize];
        let mut state = self.0.lock();
        let inode = state.inodes.len();
        state.inodes.push(Inode { live: zeros.clone(), durable: zeros });
        assert!(state.names.insert(name.to_owned(), inode).is_none(), "{name} is made twice");
        drop(state);
        Ok(self.file(inode))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn LogFile>> {
        Ok(self.file(self.inode(name)?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let inode = self.inode(from)?;
        let mut state = self.0.lock();
        state.names.remove(from);
        state.names.insert(to.to_owned(), inode);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.inode(name)?;
        self.0.lock().names.remove(name);
        Ok(())
    }
}

struct DiskFile {
    disk: Disk,
    inode: usize,
}

impl LogFile for DiskFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.disk.0.lock().inodes[self.inode].live.len() as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let state = self.disk.0.lock();
        let bytes = state.inodes[self.inode].live.get(offset as usize..).unwrap_or_default();
        let len = bytes.len().min(buffer.len());
        buffer[..len].copy_from_slice(&bytes[..len]);
        Ok(len)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        yield_now();
        let offset = offset as usize;
        self.disk.0.lock().inodes[self.inode].live[offset..offset + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        // What is written while a sync runs may be left out of it.
        let written = self.disk.0.lock().inodes[self.inode].live.clone();
        yield_now();
        let mut state = self.disk.0.lock();
        match &mut state.good_syncs {
            Some(0) => return Err(io::Error::other("this sync fails")),
            Some(left) => *left -= 1,
            None => {}
        }
        state.inodes[self.inode].durable = written;
        Ok(())
    }
}
