//! `.c1z` files: the access graphs of the connector ecosystem.
//!
//! Two versions are read and written. They share the rows of [`graph`](crate::graph), and both are a
//! [`GraphSource`](crate::graph::GraphSource) and a [`GraphSink`](crate::graph::GraphSink):
//!
//! | version | what it is | read | written |
//! | --- | --- | --- | --- |
//! | 1 | an SQLite database in one zstd frame | [`C1z1`] | [`C1z1Writer`] |
//! | 3 | the files of a merge tree, each a zstd frame | [`C1z3`]: logs, and tables of rows | [`C1z3Writer`]: tables of rows |
//!
//! A file that is cut, flipped or padded is refused with the place and the reason. What a version cannot hold of a row
//! is counted by the sink; what a file holds that is not a row is reported by the source. How the files look, byte by byte, is
//! in `docs/design/c1z.md`.

pub(crate) mod connector;
mod decompress;
pub(crate) mod error;
pub mod limits;
pub(crate) mod losses;
pub(crate) mod storage;
pub(crate) mod stored_grant;
mod v1;
pub(crate) mod v3;
mod wire;

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use jiff::tz::TimeZone;

pub use error::C1zError;
pub use v1::{C1z1, C1z1Writer};
pub use v3::{C1z3, C1z3Writer};

/// Which of the two versions a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Version {
    /// An SQLite database in a zstd frame.
    V1,
    /// A directory of a merge tree in zstd frames.
    V3,
}

impl Version {
    /// The version of a file, by its first bytes. Its name does not count.
    ///
    /// # Errors
    ///
    /// [`C1zError::NotC1z`] when it begins with neither magic; [`C1zError::Truncated`] when it ends within one;
    /// [`C1zError::Io`] when it cannot be read.
    pub fn detect(path: &Path) -> Result<Version, C1zError> {
        let mut head = Vec::new();
        // Opening a pipe would block until somebody writes to it.
        let kind = std::fs::metadata(path).map_err(C1zError::io("opening", path))?;
        if !kind.is_file() && !kind.is_dir() {
            let what = "it is a pipe, a socket or a device, which cannot be read twice".to_owned();
            return Err(C1zError::Unsupported {
                file: path.to_owned(),
                what,
                advice: "save it as a file first",
            });
        }
        let file = File::open(path).map_err(C1zError::io("opening", path))?;
        file.take(v1::MAGIC.len() as u64).read_to_end(&mut head).map_err(C1zError::io("reading", path))?;
        if head == v1::MAGIC {
            return Ok(Version::V1);
        }
        if head == v3::envelope::MAGIC {
            return Ok(Version::V3);
        }
        if v1::MAGIC.starts_with(&head) || v3::envelope::MAGIC.starts_with(&head) {
            let reason = "it ends within its magic".to_owned();
            return Err(C1zError::Truncated { file: path.to_owned(), at: head.len() as u64, reason });
        }
        Err(C1zError::NotC1z { file: path.to_owned(), found: format!("\"{}\"", head.escape_ascii()) })
    }
}

/// Refuses a file of the other version.
fn expect(version: Version, path: &Path) -> Result<(), C1zError> {
    let (what, advice) = match Version::detect(path)? {
        found if found == version => return Ok(()),
        Version::V1 => ("it is a version 1 file", "open it as one"),
        Version::V3 => ("it is a version 3 file", "open it as one"),
    };
    Err(C1zError::Unsupported { file: path.to_owned(), what: what.to_owned(), advice })
}

/// How a file is read.
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    /// How many bytes may come out of the file, in bytes. None: [`limits::DECOMPRESSED_BYTES_MAX`], and for short files
    /// [`limits::DECOMPRESSION_RATIO_MAX`] times their length, but no less than [`limits::DECOMPRESSED_BYTES_FREE`].
    pub decompressed_bytes_max: Option<u64>,
    /// Whether the SHA-256 of each file in a version 3 file is checked too. Their 64-bit checksums always are; a SHA-256
    /// costs more than all the rest of reading.
    pub check_sha256: bool,
    /// Whether all rows of a version 3 file are read when it is opened, and held against its own indexes and digests, so
    /// that a file that lies under right checksums is refused before a row is given. Without it a table is verified when
    /// one of its rows is asked for first, and what an index says is taken as it is.
    pub check_rows: bool,
    /// How many times longer than the file what comes out of it may be. None: [`limits::DECOMPRESSION_RATIO_MAX`]. An
    /// absolute limit above counts alone.
    pub decompression_ratio_max: Option<u64>,
    /// The time zone in which the times of a version 1 file were written, which the file does not say: the ecosystem's
    /// tools write the local time of their machine. None: UTC.
    pub zone: Option<TimeZone>,
}

impl ReadOptions {
    /// How many bytes may come out of a file of `len` bytes.
    pub(crate) fn decompressed_limit(&self, len: u64) -> u64 {
        let ratio = self.decompression_ratio_max.unwrap_or(limits::DECOMPRESSION_RATIO_MAX);
        let by_length = len.saturating_mul(ratio).max(limits::DECOMPRESSED_BYTES_FREE);
        self.decompressed_bytes_max.unwrap_or(by_length.min(limits::DECOMPRESSED_BYTES_MAX))
    }
}

/// How a file is written.
#[derive(Clone, Debug)]
pub struct WriteOptions {
    /// The level of zstd, 1 to 19: higher is smaller and slower.
    pub level: i32,
    /// The time zone of times in a version 1 file, which does not say it. None: UTC.
    pub zone: Option<TimeZone>,
}

impl Default for WriteOptions {
    fn default() -> Self {
        WriteOptions { level: 3, zone: None }
    }
}
