//! A node store and a folder for the log that fail or lie when they are told to.

use std::io::{Error as IoError, ErrorKind, Result as IoResult};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

use duramen_store::log::{LogDirectory, LogFile};
use duramen_tree::{NodeId, NodeStore, NodeStoreError, NodeStoreStats};
use parking_lot::Mutex;

/// What is wrong with the machine. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Fault {
    full: Arc<AtomicBool>,
    stuck: Arc<AtomicBool>,
    writes: Arc<AtomicU64>,
    spoil: Arc<Mutex<Vec<NodeId>>>,
}

impl Fault {
    /// The disk is full, or has room again.
    pub(crate) fn set_full(&self, full: bool) {
        self.full.store(full, Ordering::SeqCst);
    }

    /// Syncs of the log do not return, or do again.
    pub(crate) fn set_stuck(&self, stuck: bool) {
        self.stuck.store(stuck, Ordering::SeqCst);
    }

    /// Writes to files of the log until now.
    pub(crate) fn writes(&self) -> u64 {
        self.writes.load(Ordering::SeqCst)
    }

    /// These nodes are read with a wrong byte.
    pub(crate) fn spoil(&self, ids: &[NodeId]) {
        *self.spoil.lock() = ids.to_vec();
    }

    fn room(&self) -> IoResult<()> {
        if self.full.load(Ordering::SeqCst) {
            return Err(ErrorKind::StorageFull.into());
        }
        Ok(())
    }
}

/// A node store over another.
pub(crate) struct FaultyNodes<N> {
    pub(crate) inner: Arc<N>,
    pub(crate) fault: Fault,
}

impl<N: NodeStore> NodeStore for FaultyNodes<N> {
    fn get(&self, id: NodeId) -> Result<Option<Vec<u8>>, NodeStoreError> {
        let mut found = self.inner.get(id)?;
        if let Some(bytes) = found.as_mut().filter(|_| self.fault.spoil.lock().contains(&id)) {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
        }
        Ok(found)
    }

    fn put(&self, nodes: &[(NodeId, Vec<u8>)]) -> Result<(), NodeStoreError> {
        self.fault.room()?;
        self.inner.put(nodes)
    }

    fn commit(&self, manifest: &[u8], deleted: &[NodeId]) -> Result<(), NodeStoreError> {
        self.fault.room()?;
        self.inner.commit(manifest, deleted)
    }

    fn manifest(&self) -> Result<Option<Vec<u8>>, NodeStoreError> {
        self.inner.manifest()
    }

    fn delete_from(&self, first: NodeId) -> Result<u64, NodeStoreError> {
        self.inner.delete_from(first)
    }

    fn stats(&self) -> NodeStoreStats {
        self.inner.stats()
    }
}

/// A folder for the log over another.
pub(crate) struct FaultyLog<L> {
    pub(crate) inner: L,
    pub(crate) fault: Fault,
}

struct FaultyFile {
    inner: Arc<dyn LogFile>,
    fault: Fault,
}

impl<L: LogDirectory> FaultyLog<L> {
    fn file(&self, inner: IoResult<Arc<dyn LogFile>>) -> IoResult<Arc<dyn LogFile>> {
        Ok(Arc::new(FaultyFile { inner: inner?, fault: self.fault.clone() }))
    }
}

impl<L: LogDirectory> LogDirectory for FaultyLog<L> {
    fn list(&self) -> IoResult<Vec<String>> {
        self.inner.list()
    }

    fn create(&self, name: &str, size: u64) -> IoResult<Arc<dyn LogFile>> {
        self.fault.room()?;
        self.file(self.inner.create(name, size))
    }

    fn open(&self, name: &str) -> IoResult<Arc<dyn LogFile>> {
        self.file(self.inner.open(name))
    }

    fn rename(&self, from: &str, to: &str) -> IoResult<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, name: &str) -> IoResult<()> {
        self.inner.remove(name)
    }
}

impl LogFile for FaultyFile {
    fn size(&self) -> IoResult<u64> {
        self.inner.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> IoResult<usize> {
        self.inner.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> IoResult<()> {
        self.fault.room()?;
        self.fault.writes.fetch_add(1, Ordering::SeqCst);
        self.inner.write_at(offset, bytes)
    }

    fn sync(&self) -> IoResult<()> {
        self.fault.room().map_err(|error| IoError::other(error.to_string()))?;
        while self.fault.stuck.load(Ordering::SeqCst) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        self.inner.sync()
    }
}
