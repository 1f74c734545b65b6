//! What is wrong with a workload, and where.

use std::io;
use std::path::PathBuf;

/// Why a workload is not run. Nothing has been touched by then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkloadError {
    /// A file could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Something in a file is wrong or not supported.
    #[error("{file}, line {}: {:?}: {}", fault.line, fault.word, fault.why)]
    Text {
        /// The file.
        file: String,
        /// What.
        fault: Fault,
    },
    /// The whole of it makes no sense.
    #[error("{0}")]
    Whole(String),
    /// A server refused, or could not be reached.
    #[error("{doing}: {said}")]
    Server {
        /// What was tried.
        doing: String,
        /// What came of it.
        said: String,
    },
}

/// A word that is wrong, with its line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// From 1.
    pub line: usize,
    /// The word as it stands there; shown with escapes.
    pub word: String,
    /// What is wrong with it, and what to do.
    pub why: String,
}

impl Fault {
    /// A fault of a word.
    pub(crate) fn new(line: usize, word: impl Into<String>, why: impl Into<String>) -> Self {
        let word: String = word.into();
        // A whole file may be one word.
        Self { line, word: word.chars().take(60).collect(), why: why.into() }
    }

    /// In a file.
    pub(crate) fn of(self, file: &str) -> WorkloadError {
        WorkloadError::Text { file: file.to_owned(), fault: self }
    }
}
