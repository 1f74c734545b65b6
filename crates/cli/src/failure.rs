//! Why a command failed, and the exit status that says so.

use duramen_client::{ClientError, LoginError};
#[cfg(feature = "engines")]
use duramen_experiment::series::SeriesError;
use duramen_mcp::McpError;
#[cfg(feature = "engines")]
use duramen_reports::suite::SuiteError;
#[cfg(feature = "engines")]
use duramen_server::{daemon::ServeError, lock::LockError, process::DaemonError};
use std::{io, path::Path, process::ExitCode};

/// Exit status of a command that failed.
pub(crate) const FAILED: u8 = 1;
/// Exit status of a command that was not understood. The argument parser uses the same.
pub(crate) const USAGE: u8 = 2;
/// Exit status of a measurement whose mechanism did not happen.
#[cfg(feature = "engines")]
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
    /// It is not known which daemon is meant, or how it is entered.
    #[error(transparent)]
    Login(#[from] LoginError),
    #[cfg(feature = "engines")]
    /// The daemon did not run.
    #[error(transparent)]
    Serve(#[from] ServeError),
    #[cfg(feature = "engines")]
    /// The home is in use.
    #[error(transparent)]
    Lock(#[from] LockError),
    #[cfg(feature = "engines")]
    /// A daemon of our own did not start or stop.
    #[error(transparent)]
    Daemon(#[from] DaemonError),
    /// An agent could not be served.
    #[error(transparent)]
    Mcp(#[from] McpError),
    #[cfg(feature = "engines")]
    /// A suite could not be run, or what it changed not be put back.
    #[error(transparent)]
    Suite(#[from] SuiteError),
    #[cfg(feature = "engines")]
    /// An experiment could not go on.
    #[error(transparent)]
    Series(#[from] SeriesError),
    #[cfg(feature = "engines")]
    /// A pack cannot be read without the one that it is based on.
    #[error("{0}")]
    NeedsBase(String),
    #[cfg(feature = "engines")]
    /// A change set cannot be made or read.
    #[error(transparent)]
    ChangeSet(#[from] duramen_carry::SetError),
    #[cfg(feature = "engines")]
    /// A change set cannot be signed, or its signature not be relied on.
    #[error(transparent)]
    Sign(#[from] duramen_carry::SignError),
    #[cfg(feature = "engines")]
    /// A change set was not applied.
    #[error(transparent)]
    Apply(#[from] duramen_carry::ApplyError),
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
    #[error("cannot start the runtime: {0}; is the machine out of processes or memory?")]
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

    /// A stable word for programs: that of the daemon, if it is what refused.
    pub(crate) fn code(&self) -> &str {
        match self {
            Failure::Client(ClientError::Refused { body, .. })
            | Failure::Login(LoginError::Client(ClientError::Refused { body, .. })) => &body.code,
            Failure::Client(ClientError::NotRunning { .. }) => "not_running",
            #[cfg(feature = "engines")]
            Failure::Mcp(McpError::Client(ClientError::NotRunning { .. })) => "not_running",
            Failure::Client(ClientError::Timeout { .. }) => "timeout",
            #[cfg(feature = "engines")]
            Failure::Lock(LockError::Held { .. }) => "held",
            #[cfg(feature = "engines")]
            Failure::NeedsBase(_) => "needs_base",
            #[cfg(feature = "engines")]
            Failure::Apply(error) => crate::change::code(error),
            _ if self.is_usage() => "usage",
            _ => "failed",
        }
    }

    fn is_usage(&self) -> bool {
        match self {
            Failure::Usage(_)
            | Failure::Client(ClientError::BadUrl { .. })
            | Failure::Login(LoginError::NoToken | LoginError::Client(ClientError::BadUrl { .. })) => true,
            #[cfg(feature = "engines")]
            Failure::Suite(SuiteError::Options(_))
            | Failure::Series(SeriesError::Spec(_) | SeriesError::Claim { .. } | SeriesError::NoProposer) => {
                true
            }
            _ => false,
        }
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(if self.is_usage() { USAGE } else { FAILED })
    }
}
