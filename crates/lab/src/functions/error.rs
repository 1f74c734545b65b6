//! What keeps the suite from being run. An instance that fails does not: that is told, and fails a check.

use std::io;
use std::path::PathBuf;

use duramen_functions::client::ClientError;
use duramen_functions::schema::SchemaError;
use duramen_measure::evidence::EvidenceError;
use duramen_measure::host::HostError;
use duramen_measure::report::ReportError;
use duramen_postgres::{ClusterError, InstallationError, StartError, UserError};

use crate::scratch::ScratchError;

/// Why the suite could not be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FunctionsLabError {
    /// The options make no sense.
    #[error("{0}")]
    Options(String),
    /// The folder of the run could not be used.
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
    /// The data directory could not be made.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The server did not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The schema could not be installed.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// The worker did not start or stop.
    #[error("cannot {doing} the worker: {detail}")]
    Worker {
        /// What was tried.
        doing: &'static str,
        /// Why it failed, with the end of what the worker said.
        detail: String,
    },
    /// The database refused something that the suite itself needs.
    #[error("cannot {doing}: {source}")]
    Database {
        /// What was tried.
        doing: &'static str,
        /// Why it failed.
        source: Box<ClientError>,
    },
    /// What was started did not end.
    #[error(
        "waiting for {doing}: {left} instances had not ended after {after_s:.0} s; the worker says:\n{log}"
    )]
    Stuck {
        /// What was waited for.
        doing: &'static str,
        /// How many were left.
        left: i64,
        /// How long was waited, in seconds.
        after_s: f64,
        /// The end of the worker's log.
        log: String,
    },
    /// Somebody pressed Ctrl-C, or asked the process to end.
    #[error("the run was interrupted; the server and the worker are stopped, and nothing is written")]
    Interrupted,
    /// The runtime could not be started.
    #[error("cannot start the runtime: {0}")]
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
}

impl FunctionsLabError {
    /// Wraps what the database said with what was tried.
    pub(crate) fn database<E: Into<ClientError>>(doing: &'static str) -> impl FnOnce(E) -> Self {
        move |error| Self::Database { doing, source: Box::new(error.into()) }
    }

    /// Wraps what the operating system said about a path.
    pub(crate) fn folder(
        doing: &'static str,
        path: &std::path::Path,
    ) -> impl FnOnce(io::Error) -> FunctionsLabError {
        let path = path.to_owned();
        move |source| Self::Folder { doing, path, source }
    }
}
