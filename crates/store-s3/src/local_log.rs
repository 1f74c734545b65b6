//! A commit log on this host, of a store whose nodes are in a bucket.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use duramen_base::lock::{FileLock, LockError};
use duramen_store::log::{FileDirectory, LogDirectory, LogFile};

use crate::error::RemoteError;
use crate::nodes::Database;

/// The folder of the segments, and the file that is locked, in the folder of a log.
const SEGMENTS: &str = "log";
const LOCK: &str = "lock";

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> RemoteError {
    let path = path.display().to_string();
    move |error| RemoteError::Io { action, path, error }
}

/// A folder for a log that nobody else has.
pub(crate) struct Folder {
    path: PathBuf,
    lock: FileLock,
}

impl Folder {
    /// Locks a folder, which is made if it is not there.
    pub(crate) fn lock(path: &Path, url: &str) -> Result<Self, RemoteError> {
        fs::create_dir_all(path).map_err(failed("make the folder", path))?;
        let name = path.join(LOCK);
        let lock = FileLock::open(&name).map_err(|error| match error {
            LockError::Held => {
                let by = format!("another process, which has its log in {}", path.display());
                RemoteError::InUse { url: url.to_owned(), by }
            }
            LockError::Io(action, error) => failed(action, &name)(error),
        })?;
        Ok(Self { path: path.to_owned(), lock })
    }

    /// Where the log is. Of one that was given up, nothing is left in it.
    pub(crate) fn log(&self, database: &Database, begins: bool) -> Result<LocalLog, RemoteError> {
        let path = self.path.join(SEGMENTS);
        if begins && path.is_dir() {
            fs::remove_dir_all(&path).map_err(failed("remove", &path))?;
        }
        fs::create_dir_all(&path).map_err(failed("make the folder", &path))?;
        duramen_base::file::sync_folder(&self.path).map_err(failed("make durable", &self.path))?;
        let inner = FileDirectory::open(&path).map_err(failed("open the log", &path))?;
        Ok(LocalLog { inner, database: database.clone() })
    }

    pub(crate) fn into_lock(self) -> FileLock {
        self.lock
    }
}

/// The log in a folder, to be read only, if nobody writes it.
pub(crate) fn to_read(path: &Path) -> Result<Option<(FileDirectory, FileLock)>, RemoteError> {
    let (name, segments) = (path.join(LOCK), path.join(SEGMENTS));
    let lock = match duramen_base::file::open_plain(&name).map(FileLock::shared) {
        Ok(Ok(lock)) => lock,
        Ok(Err(LockError::Held)) => return Ok(None),
        Ok(Err(LockError::Io(action, error))) => return Err(failed(action, &name)(error)),
        Err(error) => return Err(failed("open", &name)(error)),
    };
    let log = FileDirectory::open_read_only(&segments).map_err(failed("open the log", &segments))?;
    Ok(Some((log, lock)))
}

/// A log on this host, which acknowledges nothing any more when it is known that another writer has the store.
pub(crate) struct LocalLog {
    inner: FileDirectory,
    database: Database,
}

struct LocalFile {
    inner: Arc<dyn LogFile>,
    database: Database,
}

impl LocalLog {
    fn file(&self, inner: io::Result<Arc<dyn LogFile>>) -> io::Result<Arc<dyn LogFile>> {
        Ok(Arc::new(LocalFile { inner: inner?, database: self.database.clone() }))
    }
}

impl LogDirectory for LocalLog {
    fn list(&self) -> io::Result<Vec<String>> {
        self.inner.list()
    }

    fn create(&self, name: &str, size: u64) -> io::Result<Arc<dyn LogFile>> {
        self.file(self.inner.create(name, size))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn LogFile>> {
        self.file(self.inner.open(name))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.inner.remove(name)
    }
}

impl LogFile for LocalFile {
    fn size(&self) -> io::Result<u64> {
        self.inner.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.inner.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.database.check_known()?;
        self.inner.write_at(offset, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.inner.sync()?;
        Ok(self.database.check_known()?)
    }
}
