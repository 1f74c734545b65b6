//! A store whose disk stands still when it is told to.

use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use duramen_store::log::{FileDirectory, LogDirectory, LogFile};
use duramen_store::{Durability, Options, Store};
use duramen_tree::MemoryNodeStore;

/// Whether syncs of the log may return, and how many have come to it. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Disk(Arc<(Mutex<Syncs>, Condvar)>);

#[derive(Default)]
struct Syncs {
    stuck: bool,
    came: u64,
}

impl Disk {
    pub(crate) fn set_stuck(&self, stuck: bool) {
        self.0 .0.lock().unwrap().stuck = stuck;
        self.0 .1.notify_all();
    }

    /// Syncs that were asked of it.
    pub(crate) fn syncs(&self) -> u64 {
        self.0 .0.lock().unwrap().came
    }

    fn pass(&self) {
        let mut syncs = self.0 .0.lock().unwrap();
        syncs.came += 1;
        while syncs.stuck {
            syncs = self.0 .1.wait(syncs).unwrap();
        }
    }
}

struct SlowLog {
    inner: FileDirectory,
    disk: Disk,
}

struct SlowFile {
    inner: Arc<dyn LogFile>,
    disk: Disk,
}

impl SlowLog {
    fn file(&self, inner: Arc<dyn LogFile>) -> Arc<dyn LogFile> {
        Arc::new(SlowFile { inner, disk: self.disk.clone() })
    }
}

impl LogDirectory for SlowLog {
    fn list(&self) -> io::Result<Vec<String>> {
        self.inner.list()
    }

    fn create(&self, name: &str, size: u64) -> io::Result<Arc<dyn LogFile>> {
        Ok(self.file(self.inner.create(name, size)?))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn LogFile>> {
        Ok(self.file(self.inner.open(name)?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.inner.remove(name)
    }
}

impl LogFile for SlowFile {
    fn size(&self) -> io::Result<u64> {
        self.inner.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.inner.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.inner.write_at(offset, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.pass();
        self.inner.sync()
    }
}

/// A store with its log in a folder, whose level is strict, and which syncs nothing that nobody waits for.
pub(crate) fn store(folder: &Path, nodes: &Arc<MemoryNodeStore>, disk: &Disk) -> Store {
    let options = Options {
        durability: Durability::Strict,
        sync_every: Duration::from_secs(3600),
        ..Options::default()
    };
    let log = SlowLog { inner: FileDirectory::open(folder).unwrap(), disk: disk.clone() };
    Store::open_parts(nodes.clone(), Arc::new(log), options).unwrap()
}

pub(crate) async fn wait_until(is_so: impl Fn() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), waiting).await.expect("it becomes so within a minute");
}
