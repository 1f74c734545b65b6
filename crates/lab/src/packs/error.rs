//! What keeps the suite from being run.

use std::io;
use std::path::PathBuf;

use duramen_measure::evidence::EvidenceError;
use duramen_measure::host::HostError;
use duramen_measure::report::ReportError;
use duramen_pack::c1z::C1zError;
use duramen_pack::graph::GraphError;

/// Why the suite could not be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PacksLabError {
    /// The options make no sense.
    #[error("{0}")]
    Options(String),
    /// A graph could not be written or read.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// A `.c1z` file could not be written or read.
    #[error(transparent)]
    C1z(#[from] C1zError),
    /// SQLite failed.
    #[error("SQLite: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// A file or process could not be used.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// With what.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// A process of the suite failed, or said something else than figures.
    #[error("the part {part} of the suite failed: {said}")]
    Part {
        /// Which part.
        part: String,
        /// What it said.
        said: String,
    },
    /// The machine could not be described.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The evidence could not be written.
    #[error(transparent)]
    Evidence(#[from] EvidenceError),
    /// The page could not be written.
    #[error(transparent)]
    Report(#[from] ReportError),
}

impl PacksLabError {
    pub(crate) fn io(doing: &'static str, path: &std::path::Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| PacksLabError::Io { doing, path, source }
    }
}
