//! Why a drill could not be held.

use std::io;
use std::path::PathBuf;

use duramen_reports::suite::SuiteError;

/// Why a drill could not be held.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DrillError {
    /// What a drill needs is not there. One line a reason, each with what to do.
    #[error("{}", .0.join("\n"))]
    Missing(Vec<String>),
    /// A file, folder or process could not be used.
    #[error("cannot {doing} {}: {source}", path.display())]
    File {
        /// What was tried.
        doing: &'static str,
        /// With what.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// A program ended, or said that it failed.
    #[error("{what} failed: {detail}")]
    Failed {
        /// What was tried.
        what: String,
        /// What was said.
        detail: String,
    },
    /// Something did not happen in time.
    #[error("waited {seconds} s for {what}, in vain{}", if .said.is_empty() { String::new() } else { format!("; the last that was said:\n{said}") })]
    Timeout {
        /// What was waited for.
        what: String,
        /// For how long.
        seconds: u64,
        /// The end of a log that may say why.
        said: String,
    },
}

impl DrillError {
    /// Wraps what the operating system said about a path.
    pub(crate) fn file(
        doing: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> DrillError {
        let path = path.into();
        move |source| DrillError::File { doing, path, source }
    }

    /// Something failed, and said why.
    pub(crate) fn failed(what: impl Into<String>, detail: impl ToString) -> DrillError {
        DrillError::Failed { what: what.into(), detail: detail.to_string() }
    }
}

impl From<DrillError> for SuiteError {
    fn from(error: DrillError) -> SuiteError {
        match error {
            DrillError::Missing(reasons) => SuiteError::Preconditions(reasons),
            other => SuiteError::other(other),
        }
    }
}
