//! The few things that the log wants of a file system, and the real one.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use duramen_base::file::{open_plain, open_plain_to_write};
use duramen_base::system::{FileAt, Folder};
use parking_lot::Mutex;

/// Zeros are written in pieces of this size.
const FILL_BYTES: usize = 4096;

/// The directory of a log. All that the log reads and writes goes through it, so that a test can stand in for a disk.
pub trait LogDirectory: Send + Sync {
    /// The names of the files in it, in any order.
    ///
    /// # Errors
    /// The directory cannot be read.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Makes a file of `size` zeros. On return its contents, its size and its name are durable.
    ///
    /// # Errors
    /// The name is taken, or there is no room.
    fn create(&self, name: &str, size: u64) -> io::Result<Arc<dyn LogFile>>;

    /// Opens a file that is there.
    ///
    /// # Errors
    /// There is none, or it may not be opened.
    fn open(&self, name: &str) -> io::Result<Arc<dyn LogFile>>;

    /// Renames a file. An open one stays open. The new name is durable on return.
    ///
    /// # Errors
    /// There is no such file, or the directory may not be written.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// There is no such file, or the directory may not be written.
    fn remove(&self, name: &str) -> io::Result<()>;
}

/// A file of a [`LogDirectory`].
pub trait LogFile: Send + Sync {
    /// Its length in bytes.
    ///
    /// # Errors
    /// The operating system cannot say.
    fn size(&self) -> io::Result<u64>;

    /// Reads from `offset` on as much as is there, up to the length of `buffer`: less only at the end of the file.
    ///
    /// # Errors
    /// The disk refuses.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Writes all of `bytes` at `offset`. They are not durable yet.
    ///
    /// # Errors
    /// The disk refuses; some of the bytes may have been written.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes durable all that was written before.
    ///
    /// # Errors
    /// The disk refuses; what was written since the last success may be lost then, whatever a later call says.
    fn sync(&self) -> io::Result<()>;
}

/// A directory of the operating system.
#[derive(Debug)]
pub struct FileDirectory {
    path: PathBuf,
    handle: Folder,
    read_only: bool,
    /// The error of the first flush of the names that failed. The operating system tells it once, to whoever asks first, and
    /// a later flush may succeed with names missing.
    failed: Mutex<Option<(io::ErrorKind, String)>>,
}

impl FileDirectory {
    /// Opens a directory that is there.
    ///
    /// # Errors
    /// There is none, or it may not be read.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref().to_owned();
        Ok(Self { handle: Folder::open(&path)?, path, read_only: false, failed: Mutex::new(None) })
    }

    /// Opens a directory to read only: its files are opened so that they cannot be written.
    ///
    /// # Errors
    /// There is none, or it may not be read.
    pub fn open_read_only(path: impl AsRef<Path>) -> io::Result<Self> {
        Ok(Self { read_only: true, ..Self::open(path)? })
    }

    /// Makes the names durable, one caller at a time. After an error it is not tried again.
    fn sync_names(&self) -> io::Result<()> {
        let mut failed = self.failed.lock();
        if let Some((kind, text)) = &*failed {
            return Err(io::Error::new(
                *kind,
                format!("the names in its folder could not be made durable: {text}"),
            ));
        }
        self.handle.sync().inspect_err(|error| *failed = Some((error.kind(), error.to_string())))
    }
}

impl LogDirectory for FileDirectory {
    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.path)? {
            // A name that is not UTF-8 is none of ours.
            names.extend(entry?.file_name().into_string().ok());
        }
        Ok(names)
    }

    fn create(&self, name: &str, size: u64) -> io::Result<Arc<dyn LogFile>> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(self.path.join(name))?;
        // Real zeros: over space that was only reserved, each sync would have to write the file's metadata as well.
        // Page by page: a large write makes large folios in the page cache, and ext4 then goes over all blocks of a
        // folio at each small write (1.2 to 2.7 us a record instead of 0.4).
        let zeros = vec![0; FILL_BYTES.min(usize::try_from(size).unwrap_or(usize::MAX))];
        let mut at = 0;
        while at < size {
            let len = (size - at).min(zeros.len() as u64);
            file.write_all_at(&zeros[..len as usize], at)?;
            at += len;
        }
        file.sync_all()?;
        self.sync_names()?;
        Ok(Arc::new(RealFile(file)))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn LogFile>> {
        let path = self.path.join(name);
        // Whoever gave us the folder may have put a link or a pipe there.
        let file = if self.read_only { open_plain(&path)? } else { open_plain_to_write(&path)? };
        Ok(Arc::new(RealFile(file)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.path.join(from), self.path.join(to))?;
        self.sync_names()
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.path.join(name))?;
        self.sync_names()
    }
}

struct RealFile(File);

impl LogFile for RealFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while done < buffer.len() {
            match self.0.read_at(&mut buffer[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(len) => done += len,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}
