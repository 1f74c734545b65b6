//! What can go wrong with a pack.

use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why a pack cannot be read or written. Offsets are in bytes from the beginning of the file; the end of a range is the
/// first byte after it.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PackError {
    /// The file is something else.
    #[error(
        "{file} is not a pack: {found}; give a file that `duramen pack write` or `duramen store export` made"
    )]
    NotAPack {
        /// Which file.
        file: String,
        /// What it seems to be.
        found: String,
    },
    /// A later version wrote it.
    #[error("{what} of {file} is {found}, and this version knows up to {known}; read it with the version that wrote it")]
    Newer {
        /// Which file.
        file: String,
        /// Which number: the format, or the kind.
        what: &'static str,
        /// What the file says.
        found: u64,
        /// The latest that is known here.
        known: u64,
    },
    /// The pack holds another kind of data than was asked for.
    #[error("{file} is a pack of kind {found}, and not of kind {wanted}; see `duramen pack info {file}`")]
    WrongKind {
        /// Which file.
        file: String,
        /// What it holds.
        found: &'static str,
        /// What was asked for.
        wanted: &'static str,
    },
    /// The end of the file is missing.
    #[error("{file} is cut off at byte {at}: {what} reaches to byte {expected}; copy it again from where it came from")]
    Truncated {
        /// Which file.
        file: String,
        /// Where it ends.
        at: u64,
        /// Where it should end.
        expected: u64,
        /// What reaches beyond its end.
        what: &'static str,
    },
    /// Something was added to the end of the file.
    #[error("{file} goes on after its end at byte {from}, with {count} bytes; copy it again from where it came from")]
    TrailingBytes {
        /// Which file.
        file: String,
        /// Where the pack ends.
        from: u64,
        /// How many bytes follow.
        count: u64,
    },
    /// Bytes are not those that were written.
    #[error(
        "{file} is damaged between byte {from} and byte {to}: {what}; copy it again from where it came from"
    )]
    Damaged {
        /// Which file.
        file: String,
        /// The first byte of the damaged range.
        from: u64,
        /// The first byte after it.
        to: u64,
        /// What lies there, and what is wrong with it.
        what: String,
    },
    /// Something is larger than a pack may hold.
    #[error("{what} of {file} has {found}, and the limit is {limit}; split it")]
    TooLarge {
        /// Which file.
        file: String,
        /// What is too large, with its unit.
        what: &'static str,
        /// How large it is.
        found: u64,
        /// How large it may be.
        limit: u64,
    },
    /// Somebody else is writing the same file.
    #[error("{} is being written by another process; wait for it, or write to another name", .path.display())]
    Locked {
        /// Which file.
        path: PathBuf,
    },
    /// What is to be written cannot be.
    #[error("{what} cannot go into {file}: {reason}")]
    InvalidInput {
        /// Which file.
        file: String,
        /// What was given.
        what: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// Writing failed before: nothing more is written.
    #[error("{file} takes no more writes after an error: {first}; begin it again")]
    Poisoned {
        /// Which file.
        file: String,
        /// The first error.
        first: String,
    },
    /// The operating system failed.
    #[error("cannot {doing} {}: {source}", .path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// With which file.
        path: PathBuf,
        /// What the operating system said.
        source: Arc<std::io::Error>,
    },
}

impl PackError {
    pub(crate) fn io(doing: &'static str, path: impl AsRef<Path>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.as_ref().to_owned();
        move |error| Self::Io { doing, path, source: Arc::new(error) }
    }

    pub(crate) fn damaged(file: &str, range: std::ops::Range<u64>, what: impl Into<String>) -> Self {
        Self::Damaged { file: file.to_owned(), from: range.start, to: range.end, what: what.into() }
    }
}
