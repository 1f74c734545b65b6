//! What keeps the suite from being run. An operation that fails does not: that is told, and fails a check.

use std::io;
use std::path::PathBuf;

use duramen_measure::evidence::EvidenceError;
use duramen_measure::host::HostError;
use duramen_measure::report::ReportError;
use duramen_store::StoreError;

/// Why the suite could not be run, or a document of it not be diagnosed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreLabError {
    /// The options make no sense.
    #[error("{0}")]
    Options(String),
    /// The store of a level could not be made or filled.
    #[error("cannot {doing} the store of the level {level}: {source}")]
    Store {
        /// What was tried.
        doing: &'static str,
        /// The level.
        level: &'static str,
        /// Why it failed.
        source: Box<StoreError>,
    },
    /// The folder of the stores could not be used.
    #[error("cannot {doing} {}: {source}", path.display())]
    Folder {
        /// What was tried.
        doing: &'static str,
        /// The folder.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// The threads could not be given real-time priority.
    #[error("cannot run with --fifo: {0}; it needs chrt, and root or CAP_SYS_NICE")]
    Priority(String),
    /// The machine could not be described.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The evidence could not be read or written.
    #[error(transparent)]
    Evidence(#[from] EvidenceError),
    /// The page could not be written.
    #[error(transparent)]
    Report(#[from] ReportError),
}
