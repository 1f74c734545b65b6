//! Why a comparison failed.

use std::io;

/// Why a comparison failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChangesError {
    /// Neither side has a table of that name.
    #[error("neither the branch nor its snapshot has a table {0:?} with rows of its own; write it SCHEMA.TABLE, and name the partitions of a partitioned table")]
    UnknownTable(String),
    /// Somebody holds a lock on a table.
    #[error("a table of the branch is being altered or vacuumed, and stayed locked for {seconds} s; end that transaction, or compare again later")]
    Locked {
        /// How long it was waited for.
        seconds: u64,
    },
    /// Tables come and go faster than they can be locked.
    #[error("tables of the branch are dropped faster than they can be locked; compare again later")]
    Restless,
    /// A server refused a statement, or its connection broke.
    #[error("the server of the {side} {doing}: {source}")]
    Server {
        /// `branch` or `snapshot`.
        side: &'static str,
        /// What it did not do.
        doing: &'static str,
        /// Its answer.
        source: tokio_postgres::Error,
    },
    /// A file could not be looked at.
    #[error("the files of table {table} cannot be compared: {source}")]
    Files {
        /// The table.
        table: String,
        /// The operating system's answer.
        source: io::Error,
    },
    /// More differs than may be held in memory.
    #[error("more than {bytes_max} bytes of rows of table {table} differ, which are not compared here; compare other tables by their names, or reset the branch and change less")]
    TooMuch {
        /// The table.
        table: String,
        /// The limit.
        bytes_max: usize,
    },
    /// Whoever was told does not listen any more.
    #[error("nobody listens to the comparison any more")]
    Unheard,
    /// The work ended without a result.
    #[error("the comparison ended without a result: {0}")]
    Crashed(String),
}
