//! What can go wrong with an access graph.

use std::io;
use std::path::PathBuf;

use duramen_pack::PackError;

/// Why an operation on an access graph failed. What was there before it is there still.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    /// The file underneath.
    #[error(transparent)]
    Pack(#[from] PackError),
    /// The pack is whole but is something else, such as a branch of a store.
    #[error("{} holds no access graph; `duramen pack info` says what it holds", path.display())]
    NotAGraph {
        /// The file.
        path: PathBuf,
    },
    /// Bytes that carry the right digest make no sense as what they should be.
    #[error("{what} is malformed at byte {at}: it was written by a faulty or a later version")]
    Malformed {
        /// What was being read.
        what: &'static str,
        /// Where in it, in bytes from its beginning.
        at: usize,
    },
    /// The graph was written by a later version.
    #[error(
        "this access graph has format {found}, and this version reads up to {known}; use a later version"
    )]
    Newer {
        /// The format that was found.
        found: u64,
        /// The latest format that is known.
        known: u64,
    },
    /// A row or a file goes beyond a limit.
    #[error("{what} has {size} where at most {limit} are allowed")]
    TooLarge {
        /// What it is.
        what: &'static str,
        /// How large it is, in bytes unless `what` says otherwise.
        size: u64,
        /// The limit.
        limit: u64,
    },
    /// A row has no id.
    #[error("a {what} without an id cannot be kept; give it one")]
    NoId {
        /// What it is.
        what: &'static str,
    },
    /// There is no such sync.
    #[error("there is no sync {id:?} in this file; `syncs` names those that there are")]
    NoSync {
        /// The id that was asked for.
        id: String,
    },
    /// There is a sync of that id already.
    #[error("there is a sync {id:?} already; resume it or take another id")]
    SyncExists {
        /// The id.
        id: String,
    },
    /// The file has no sync at all that could be read.
    #[error("this file has no sync to read; name one, or write one first")]
    NothingToRead,
    /// A write came while no sync was open.
    #[error("no sync is open: start one, or resume one, before rows are put")]
    NoOpenSync,
    /// The id of a sync is not a KSUID.
    #[error("{id:?} is not an id of a sync: 27 letters and digits are")]
    InvalidSyncId {
        /// What was given.
        id: String,
    },
    /// A page token is from elsewhere.
    #[error("the page token does not belong to this query; start again without one")]
    InvalidPageToken,
    /// Too many entitlements in one query.
    #[error("{count} entitlements in one query are over the limit of {limit}; ask in several queries")]
    TooManyEntitlements {
        /// How many were given.
        count: usize,
        /// The limit.
        limit: usize,
    },
    /// A write failed before, so what the journal holds is not known.
    #[error(
        "an earlier write failed; close the graph and open it again, which recovers what was written whole"
    )]
    Poisoned,
    /// The journal beside the file belongs to another state of the file.
    #[error("{} belongs to another state of the graph: the graph was replaced since; move one of them away", path.display())]
    ForeignJournal {
        /// The journal.
        path: PathBuf,
    },
    /// A file stands in the place of the journal that is none.
    #[error("{} has the name of a graph's journal and is none; move it away, or give the graph another name", path.display())]
    NotAJournal {
        /// The file.
        path: PathBuf,
    },
    /// Somebody else writes.
    #[error("{} is being written by another process; wait for it to end", path.display())]
    Locked {
        /// The graph.
        path: PathBuf,
    },
    /// The system refused.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// With which file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// Rows could not be written as CSV.
    #[error("cannot write CSV: {0}")]
    Csv(#[from] csv::Error),
}

/// Names what was done with which file, for `map_err`.
pub(crate) fn io_error(
    doing: &'static str,
    path: &std::path::Path,
) -> impl FnOnce(io::Error) -> GraphError + use<> {
    let path = path.to_owned();
    move |source| GraphError::Io { doing, path, source }
}
