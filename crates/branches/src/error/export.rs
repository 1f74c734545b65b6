//! Why a branch is not exported.

use super::{Coded, Kind};
use std::time::Duration;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ExportError {
    #[error("other exports run, and this one has waited for {limit:?}; try again later")]
    Busy { limit: Duration },
    #[error("{program} is not there: {error}; install the client programs of PostgreSQL {major}, or set DURAMEN_PG_BIN")]
    NoProgram { program: String, major: u32, error: std::io::Error },
    #[error("{program} failed, and nothing was exported to the end: {output}")]
    Failed { program: &'static str, output: String },
    #[error("the copy of the branch was not stopped in order, so its files are not exported; try again")]
    NotStopped,
    #[error("the copy of the branch cannot be read: {0}")]
    Unreadable(std::io::Error),
    #[error("who the export was for has left, so it was given up")]
    CallerLeft,
    #[error("the export ended without a word ({0}); the daemon's log says more")]
    Crashed(tokio::task::JoinError),
}

impl Coded for ExportError {
    fn code(&self) -> (Kind, &'static str) {
        match self {
            ExportError::Busy { .. } => (Kind::Unavailable, "exports_busy"),
            ExportError::NoProgram { .. } => (Kind::Failed, "no_program"),
            ExportError::Failed { .. } => (Kind::Failed, "export_failed"),
            ExportError::NotStopped | ExportError::Unreadable(_) => (Kind::Failed, "export_failed"),
            ExportError::CallerLeft => (Kind::Unavailable, "client_gone"),
            ExportError::Crashed(_) => (Kind::Failed, "internal"),
        }
    }
}
