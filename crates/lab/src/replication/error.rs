//! What keeps the suite from being run. A scenario that fails does not: that is told, and fails a check.

use std::io;
use std::path::PathBuf;

use duramen_functions::connect::ConnectError;
use duramen_measure::evidence::EvidenceError;
use duramen_measure::host::HostError;
use duramen_measure::load::LoadError;
use duramen_measure::report::ReportError;
use duramen_postgres::{ClusterError, InstallationError, StartError, UserError};

use crate::scratch::ScratchError;

/// Why the suite could not be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplicationError {
    /// The options make no sense.
    #[error("{0}")]
    Options(String),
    /// The servers are not what is needed. Nothing has been changed. One line a reason, each with what to do.
    #[error("{}", .0.join("\n"))]
    Preconditions(Vec<String>),
    /// A folder or file of the run could not be used.
    #[error("cannot {doing} {}: {source}", path.display())]
    Folder {
        /// What was tried.
        doing: &'static str,
        /// The folder.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// There is no folder to work in.
    #[error(transparent)]
    Scratch(#[from] ScratchError),
    /// There is no PostgreSQL to run.
    #[error(transparent)]
    Installation(#[from] InstallationError),
    /// There is no user to run it as.
    #[error(transparent)]
    User(#[from] UserError),
    /// A data directory could not be made.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// A server did not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// A server cannot be reached.
    #[error("the {node}: {source}")]
    Connect {
        /// `primary` or `standby`.
        node: &'static str,
        /// Why.
        source: ConnectError,
    },
    /// A server refused something that the suite itself needs.
    #[error("cannot {doing} on the {node}: {}", said(source))]
    Database {
        /// What was tried.
        doing: String,
        /// `primary` or `standby`.
        node: &'static str,
        /// Why it failed.
        source: tokio_postgres::Error,
    },
    /// Something did not happen in time.
    #[error("waited {seconds} s for {what}, in vain")]
    Timeout {
        /// What was waited for.
        what: String,
        /// For how long.
        seconds: u64,
    },
    /// A load did not do what it is for.
    #[error("{0}")]
    Load(String),
    /// The load could not be run.
    #[error("the load: {0}")]
    Generator(#[from] LoadError),
    /// What was changed could not be put back. The file says what; `duramen lab restore` tries again.
    #[error("cannot put back the settings of the {node}: {detail}\nrun `duramen lab restore` when it can be reached; {} says what is to be put back", file.display())]
    Restore {
        /// `primary` or `standby`.
        node: &'static str,
        /// Why.
        detail: String,
        /// The restore file.
        file: PathBuf,
    },
    /// The pair is managed by Patroni, whose settings the suite does not change. Conditions, or scenarios, that need another
    /// value are left out, and a finding tells so.
    #[error("{name} is managed by Patroni; to have this measured, run: {command}")]
    Managed {
        /// The setting.
        name: String,
        /// What sets it.
        command: String,
    },
    /// Somebody else has set what the run has set before. Theirs is left as it is; conditions, or scenarios, that need
    /// another value are left out, and a finding tells so.
    #[error("somebody else has set {name} on the {node} during the run: it is left as it is")]
    Taken {
        /// The setting.
        name: String,
        /// `primary` or `standby`.
        node: &'static str,
    },
    /// The runtime could not be made.
    #[error("cannot make a runtime: {0}")]
    Runtime(io::Error),
    /// The machine could not be described.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The evidence could not be written.
    #[error(transparent)]
    Evidence(#[from] EvidenceError),
    /// The page could not be written.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// Somebody asked the process to end. What was changed has been put back.
    #[error("interrupted; what was changed has been put back")]
    Interrupted,
    /// Somebody asked the process to end, and not everything has been put back.
    #[error("interrupted; not everything has been put back yet: {} says what is left\nits guardian may still be trying; run `duramen lab restore` when both servers can be reached", file.display())]
    InterruptedLeft {
        /// The restore file.
        file: PathBuf,
    },
    /// Somebody asked the process to end. What the run had changed has been put back, and yet not all is as it was.
    #[error(
        "interrupted; what the run had changed has been put back, but not all is as it was found: {detail}"
    )]
    InterruptedDiffers {
        /// What differs.
        detail: String,
    },
}

impl ReplicationError {
    /// Whether a setting is somebody else's: what needs another value is left out, and the run goes on.
    pub(super) fn is_theirs(&self) -> bool {
        matches!(self, ReplicationError::Managed { .. } | ReplicationError::Taken { .. })
    }
}

/// What a server, or the connection to it, said.
pub(super) fn said(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(error) => error.to_string(),
        None => error.to_string(),
    }
}
