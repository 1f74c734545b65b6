//! What keeps a suite from being run. What fails while it is measured does not: that is a finding, or fails a check.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};

use duramen_measure::evidence::EvidenceError;
use duramen_measure::host::HostError;
use duramen_measure::load::LoadError;

use crate::page::ReportError;

/// Any error, with its type forgotten.
pub type Cause = Box<dyn Error + Send + Sync>;

/// Why a suite could not be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SuiteError {
    /// The options make no sense.
    #[error("{0}")]
    Options(String),
    /// What the suite needs is not there, and nothing has been changed. One line a reason, each with what to do.
    #[error("{}", .0.join("\n"))]
    Preconditions(Vec<String>),
    /// A file, folder or process of the run could not be used.
    #[error("cannot {doing} {}: {source}", path.display())]
    File {
        /// What was tried.
        doing: &'static str,
        /// With what.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// A server, a daemon or a store refused something that the suite itself needs.
    #[error("cannot {doing}: {source}")]
    Refused {
        /// What was tried, and where.
        doing: String,
        /// Why it failed.
        source: Cause,
    },
    /// Something did not happen in time.
    #[error("waited {seconds} s for {what}, in vain")]
    Timeout {
        /// What was waited for.
        what: String,
        /// For how long.
        seconds: u64,
    },
    /// A setting is somebody else's, and is left as it is: what needs another value cannot be measured.
    #[error("{0}")]
    Theirs(String),
    /// Somebody asked the process to end. All is as it was found; the text says so.
    #[error("{0}")]
    Interrupted(&'static str),
    /// Not all is as it was found.
    #[error("{detail}")]
    Unrestored {
        /// What differs, and what to do.
        detail: String,
        /// The file that says what is to be put back, if something is.
        file: Option<PathBuf>,
    },
    /// Anything else, said in full: what, where, next step.
    #[error("{0}")]
    Failed(String),
    /// Something that says itself what was tried.
    #[error(transparent)]
    Other(Cause),
}

impl SuiteError {
    /// Wraps what a server, a daemon or a store said with what was tried.
    pub fn refused<E: Into<Cause>>(doing: impl Into<String>) -> impl FnOnce(E) -> Self {
        let doing = doing.into();
        move |source| Self::Refused { doing, source: source.into() }
    }

    /// Wraps what the operating system said about a path.
    pub fn file(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::File { doing, path, source }
    }

    /// Takes over an error that says itself what was tried.
    pub fn other(cause: impl Into<Cause>) -> Self {
        Self::Other(cause.into())
    }
}

macro_rules! says_itself {
    ($($error:ty),*) => {
        $(impl From<$error> for SuiteError {
            fn from(error: $error) -> Self {
                Self::other(error)
            }
        })*
    };
}

says_itself!(EvidenceError, HostError, LoadError, ReportError);
