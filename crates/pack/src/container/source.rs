//! What a pack is read from: ranges of bytes, at positions.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use crate::error::PackError;

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

/// The schemes of URLs that mean an object in a store of objects, or on a web server.
const SCHEMES: [&str; 9] = ["s3", "s3a", "gs", "az", "azure", "abfs", "abfss", "http", "https"];

/// Whether a path is the URL of an object, such as `s3://bucket/key`, and so not a file of this machine.
///
/// ```
/// use duramen_pack::container::is_url;
/// assert!(is_url("s3://bucket/main.dpack") && !is_url("s3/main.dpack"));
/// ```
pub fn is_url(path: impl AsRef<Path>) -> bool {
    let scheme = path.as_ref().to_str().and_then(|text| text.split_once("://")).map(|(scheme, _)| scheme);
    scheme.is_some_and(|scheme| SCHEMES.contains(&scheme))
}

/// Opens what lies at a path or a URL. Returns it with what messages call it.
///
/// # Errors
/// When it cannot be read, or is a URL and this program was built without them.
pub(crate) fn open(path: &Path) -> Result<(Arc<dyn RangeRead>, String), PackError> {
    if !is_url(path) {
        let source = FileSource::open(path).map_err(PackError::io("open", path))?;
        return Ok((Arc::new(source), path.display().to_string()));
    }
    #[cfg(feature = "remote")]
    {
        let url = path.to_str().unwrap_or_default();
        let name = crate::container::remote::public_name(url);
        let source =
            crate::container::remote::RemoteSource::open(url).map_err(PackError::io("open", &name))?;
        Ok((Arc::new(source), name))
    }
    #[cfg(not(feature = "remote"))]
    {
        let unsupported =
            "this program was built without object storage: build it with `--features remote`, or copy the \
                           file";
        let error = io::Error::new(io::ErrorKind::Unsupported, unsupported);
        // A URL may hold a password.
        Err(PackError::io("open", "the object of that URL")(error))
    }
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
