//! Why a command failed, and the exit status that says so.

use duramen_experiment::series::SeriesError;
use duramen_lab::{
    branches::LabError, functions::FunctionsLabError, packs::PacksLabError, replication::ReplicationError,
    store::StoreLabError,
};
use duramen_server::{client::ClientError, daemon::ServeError, lock::LockError, process::DaemonError};
use std::{io, path::Path, process::ExitCode};

/// Exit status of a command that failed.
pub(crate) const FAILED: u8 = 1;
/// Exit status of a command that was not understood. The argument parser uses the same.
pub(crate) const USAGE: u8 = 2;
/// Exit status of a measurement whose mechanism did not happen.
pub(crate) const INVALID: u8 = 3;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The arguments make no sense together.
    #[error("{0}")]
    Usage(String),
    /// The daemon was not reached, or refused.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The daemon did not run.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The home is in use.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// A daemon of our own did not start or stop.
    #[error(transparent)]
    Daemon(#[from] DaemonError),
    /// The lab could not measure.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// The lab could not measure the store.
    #[error(transparent)]
    StoreLab(#[from] StoreLabError),
    /// The lab could not measure durable functions.
    #[error(transparent)]
    FunctionsLab(#[from] FunctionsLabError),
    /// The suite `packs`.
    #[error(transparent)]
    PacksLab(#[from] PacksLabError),
    /// The suite `replication`, and putting back what it changed.
    #[error(transparent)]
    Replication(#[from] ReplicationError),
    /// An experiment could not go on.
    #[error(transparent)]
    Series(#[from] SeriesError),
    /// A pack cannot be read without the one that it is based on.
    #[error("{0}")]
    NeedsBase(String),
    /// A file or directory.
    #[error("cannot {doing} {path}: {source}")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// The file or directory.
        path: String,
        /// The operating system's answer.
        source: io::Error,
    },
    /// No runtime to wait in.
    #[error("cannot start the runtime: {0}; are processes or memory short?")]
    Runtime(io::Error),
    /// Anything else, said in full: what, where, next step.
    #[error("{0}")]
    Other(String),
}

impl Failure {
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Failure {
        let path = path.display().to_string();
        move |source| Failure::Io { doing, path, source }
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Failure::Usage(_)
            | Failure::Lab(LabError::Options(_))
            | Failure::StoreLab(StoreLabError::Options(_))
            | Failure::FunctionsLab(FunctionsLabError::Options(_))
            | Failure::PacksLab(PacksLabError::Options(_))
            | Failure::Replication(ReplicationError::Options(_))
            | Failure::Series(SeriesError::Spec(_) | SeriesError::Claim { .. }) => USAGE,
            _ => FAILED,
        })
    }
}
