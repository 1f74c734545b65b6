//! What a pack is read from: ranges of bytes, at positions.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Something of a fixed size whose bytes are read by ranges: a file, or an object elsewhere.
pub trait RangeRead: Send + Sync {
    /// Its size in bytes. It does not change.
    fn size(&self) -> u64;

    /// Fills `buffer` with the bytes from `offset` on.
    ///
    /// # Errors
    /// When they cannot be read, or there are fewer.
    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;
}

/// A file of the operating system, as long as it was when it was opened.
#[derive(Debug)]
pub struct FileSource {
    file: File,
    size: u64,
}

impl FileSource {
    /// Opens a file for reading.
    ///
    /// # Errors
    /// There is none, it may not be read, or it is not a regular file.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let not_regular = || io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file");
        // Checked before, because opening a pipe blocks until somebody writes to it, and again for what was opened.
        if !std::fs::metadata(&path)?.is_file() {
            return Err(not_regular());
        }
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(not_regular());
        }
        Ok(Self { size: metadata.len(), file })
    }
}

impl RangeRead for FileSource {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }
}
