//! What can go wrong with the log.

use std::io;

/// An error of the commit log.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The operating system refused something. The log takes no more records until it is opened again.
    #[error("cannot {action} {file}: {source}; the log takes no more records: free space or fix the disk, then reopen the store")]
    Io {
        /// What was tried.
        action: &'static str,
        /// The name of the file, or a dot for the directory.
        file: String,
        /// What the operating system said.
        source: io::Error,
    },
    /// Records that had been durable are missing or changed. Nothing was repaired.
    #[error(
        "log segment {segment} is damaged at byte {offset}: {reason}; nothing was changed: restore a copy of the store, or have what can be had of it with `Store::repair` (`duramen store repair`)"
    )]
    Damaged {
        /// The number of the segment.
        segment: u64,
        /// Where in the segment, in bytes.
        offset: u64,
        /// What was found.
        reason: String,
    },
    /// A file of the log is not there. Nothing was changed.
    #[error(
        "{file} of the log is missing, and with it what was written after version {after}: put it back into the store's folder, or restore a copy of the store; what the last checkpoint holds can be read without it (`Options::checkpoint_only`, or `--checkpoint-only`), and `Store::repair` (`duramen store repair`) goes on from there"
    )]
    Missing {
        /// The name of the file or folder.
        file: String,
        /// The last version that is there without it.
        after: u64,
    },
    /// Another writer has taken the store over. Nothing that was not acknowledged before is acknowledged any more.
    #[error(
        "another writer has taken the store over: {by}; nothing more is written here: open it again to take it back"
    )]
    Fenced {
        /// Who.
        by: String,
    },
    /// A later version of this program wrote the log.
    #[error(
        "log segment {segment} has format version {version}, and this program knows up to {known}: it is from the future; open the store with the program that wrote it, or a later one"
    )]
    FromTheFuture {
        /// The number in the name of the segment.
        segment: u64,
        /// The version that the segment says.
        version: u32,
        /// The last version that this program knows.
        known: u32,
    },
    /// A body is larger than one record may be.
    #[error("a record of {bytes} bytes is too large: cut the commit into records of at most {max} bytes")]
    TooLarge {
        /// The length of the body.
        bytes: usize,
        /// The largest length that is taken.
        max: usize,
    },
    /// A record was to take no version, or more versions than are left.
    #[error("a record cannot take {count} versions after version {last}: it takes at least one")]
    Versions {
        /// How many were asked for.
        count: u32,
        /// The last version before.
        last: u64,
    },
    /// An earlier error has closed the log for writing.
    #[error("the log takes no more records because of an earlier error: {first}; reopen the store")]
    Poisoned {
        /// The text of the first error.
        first: String,
    },
    /// Whoever took the records at replay could not take one.
    #[error("the log record of version {first} cannot be replayed: {source}")]
    Replay {
        /// The first version of the record.
        first: u64,
        /// What the taker said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// What a [`LogDirectory`](super::LogDirectory) and its files say, inside of an [`io::Error`], when another writer has
/// taken the log over: see [`LogError::Fenced`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("another writer has taken the log over: {by}")]
pub struct Fenced {
    /// Who.
    pub by: String,
}

impl LogError {
    /// Names the action and the file of an error of the operating system.
    pub(crate) fn io(action: &'static str, file: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        move |source| match source.get_ref().and_then(|inner| inner.downcast_ref::<Fenced>()) {
            Some(Fenced { by }) => Self::Fenced { by: by.clone() },
            None => Self::Io { action, file: file.into(), source },
        }
    }

    pub(crate) fn damaged(segment: u64, offset: u64, reason: impl Into<String>) -> Self {
        Self::Damaged { segment, offset, reason: reason.into() }
    }
}
