//! A folder for the log in memory that knows what of it would be on disk, and that stops together with the node store
//! of the same script.

use std::collections::BTreeMap;
use std::io::{Error as IoError, ErrorKind, Result as IoResult};
use std::sync::Arc;

use duramen_store::log::{LogDirectory, LogFile};
use parking_lot::Mutex;

use super::crash_nodes::{stopped, CrashScript, Step};

/// What a disk writes whole, in bytes: its neighbours need not be written with it.
const SECTOR: usize = 512;

#[derive(Clone, Default)]
struct Inode {
    live: Vec<u8>,
    durable: Vec<u8>,
    /// What was written since the last sync: offset and bytes.
    unsynced: Vec<(usize, Vec<u8>)>,
}

#[derive(Clone, Default)]
struct Disk {
    /// Names are durable at once, as the trait demands.
    names: BTreeMap<String, usize>,
    inodes: Vec<Inode>,
}

impl Disk {
    fn find(&self, name: &str) -> IoResult<usize> {
        self.names.get(name).copied().ok_or_else(|| IoError::from(ErrorKind::NotFound))
    }
}

/// The folder.
#[derive(Clone)]
pub(crate) struct CrashLog {
    script: CrashScript,
    disk: Arc<Mutex<Disk>>,
}

impl CrashLog {
    pub(crate) fn new(script: CrashScript) -> Self {
        Self { script, disk: Arc::default() }
    }

    /// The folder as the next process finds it when this one was killed: the operating system has what was written,
    /// the disk only what was synced.
    pub(crate) fn after_kill(&self, script: CrashScript) -> Self {
        Self { script, disk: Arc::new(Mutex::new(self.disk.lock().clone())) }
    }

    /// The folder as the machine finds it after a power cut: what was synced is there, and of each sector that was
    /// written since then chance decides.
    pub(crate) fn after_power_cut(&self, script: CrashScript) -> Self {
        let disk = self.disk.lock();
        // Extremes are where bugs are, so all and nothing come as often as mixtures.
        let kept_of_8 = [0, 8, 4, 7][self.script.choose(4) as usize];
        let mut image = Disk::default();
        for (name, inode) in &disk.names {
            let inode = &disk.inodes[*inode];
            let mut bytes = inode.durable.clone();
            for (offset, written) in &inode.unsynced {
                let mut at = 0;
                while at < written.len() {
                    let place = offset + at;
                    let len = (SECTOR - place % SECTOR).min(written.len() - at);
                    if self.script.choose(8) < kept_of_8 {
                        bytes[place..place + len].copy_from_slice(&written[at..at + len]);
                    }
                    at += len;
                }
            }
            image.names.insert(name.clone(), image.inodes.len());
            image.inodes.push(Inode { live: bytes.clone(), durable: bytes, unsynced: Vec::new() });
        }
        Self { script, disk: Arc::new(Mutex::new(image)) }
    }

    fn file(&self, inode: usize) -> Arc<dyn LogFile> {
        Arc::new(CrashLogFile { script: self.script.clone(), disk: self.disk.clone(), inode })
    }

    /// Counts a change of a name, which is done or not: whether it is, and whether its caller hears of it.
    fn change_name(&self) -> IoResult<(bool, IoResult<()>)> {
        Ok(match self.script.step()? {
            Step::Done => (true, Ok(())),
            Step::Torn => (self.script.choose(2) == 1, Err(stopped())),
        })
    }
}

impl LogDirectory for CrashLog {
    fn list(&self) -> IoResult<Vec<String>> {
        self.script.alive()?;
        Ok(self.disk.lock().names.keys().cloned().collect())
    }

    fn create(&self, name: &str, size: u64) -> IoResult<Arc<dyn LogFile>> {
        let (is_done, told) = self.change_name()?;
        let mut disk = self.disk.lock();
        if disk.names.contains_key(name) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        let inode = disk.inodes.len();
        if is_done {
            let bytes = vec![0; size as usize];
            disk.inodes.push(Inode { live: bytes.clone(), durable: bytes, unsynced: Vec::new() });
            disk.names.insert(name.to_owned(), inode);
        }
        told?;
        drop(disk);
        Ok(self.file(inode))
    }

    fn open(&self, name: &str) -> IoResult<Arc<dyn LogFile>> {
        self.script.alive()?;
        let inode = self.disk.lock().find(name)?;
        Ok(self.file(inode))
    }

    fn rename(&self, from: &str, to: &str) -> IoResult<()> {
        let (is_done, told) = self.change_name()?;
        let mut disk = self.disk.lock();
        let inode = disk.find(from)?;
        if is_done {
            disk.names.remove(from);
            disk.names.insert(to.to_owned(), inode);
        }
        told
    }

    fn remove(&self, name: &str) -> IoResult<()> {
        let (is_done, told) = self.change_name()?;
        let mut disk = self.disk.lock();
        let inode = disk.find(name)?;
        if is_done {
            disk.names.remove(name);
            disk.inodes[inode] = Inode::default();
        }
        told
    }
}

struct CrashLogFile {
    script: CrashScript,
    disk: Arc<Mutex<Disk>>,
    inode: usize,
}

impl LogFile for CrashLogFile {
    fn size(&self) -> IoResult<u64> {
        self.script.alive()?;
        Ok(self.disk.lock().inodes[self.inode].live.len() as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> IoResult<usize> {
        self.script.alive()?;
        let disk = self.disk.lock();
        let bytes = disk.inodes[self.inode].live.get(offset as usize..).unwrap_or_default();
        let len = bytes.len().min(buffer.len());
        buffer[..len].copy_from_slice(&bytes[..len]);
        Ok(len)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> IoResult<()> {
        let step = self.script.step()?;
        let written = match step {
            Step::Done => bytes,
            Step::Torn => &bytes[..self.script.choose(bytes.len() as u64 + 1) as usize],
        };
        let mut disk = self.disk.lock();
        let inode = &mut disk.inodes[self.inode];
        let offset = offset as usize;
        assert!(offset + bytes.len() <= inode.live.len(), "a write past the end would need metadata");
        inode.live[offset..offset + written.len()].copy_from_slice(written);
        inode.unsynced.push((offset, written.to_vec()));
        if step == Step::Torn {
            return Err(stopped());
        }
        Ok(())
    }

    fn sync(&self) -> IoResult<()> {
        let step = self.script.step()?;
        let mut disk = self.disk.lock();
        let inode = &mut disk.inodes[self.inode];
        let count = match step {
            Step::Done => inode.unsynced.len(),
            Step::Torn => self.script.choose(inode.unsynced.len() as u64 + 1) as usize,
        };
        for (offset, bytes) in inode.unsynced.drain(..count) {
            inode.durable[offset..offset + bytes.len()].copy_from_slice(&bytes);
        }
        if step == Step::Torn {
            return Err(stopped());
        }
        Ok(())
    }
}
