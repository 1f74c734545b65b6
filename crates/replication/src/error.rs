//! What servers say when they cannot be reached, or refuse something that the suite itself needs.

use duramen_postgres::connection::ConnectError;
use duramen_reports::suite::SuiteError;

use super::scenario::Node;

/// What a server, or the connection to it, said.
pub(crate) fn said(error: &tokio_postgres::Error) -> String {
    error.as_db_error().map_or_else(|| error.to_string(), ToString::to_string)
}

/// Wraps what a server said with what was tried.
pub(crate) fn refused(
    doing: impl Into<String>,
    node: Node,
) -> impl FnOnce(tokio_postgres::Error) -> SuiteError {
    let doing = format!("{} on the {node}", doing.into());
    move |error| SuiteError::refused(doing)(said(&error))
}

/// Says which server cannot be reached.
pub(crate) fn cannot_reach(node: Node) -> impl Fn(ConnectError) -> SuiteError + Copy {
    move |error| SuiteError::Failed(format!("the {node}: {error}"))
}

/// What did not happen in time.
pub(crate) fn timeout(what: impl Into<String>, limit: std::time::Duration) -> SuiteError {
    SuiteError::Timeout { what: what.into(), seconds: limit.as_secs() }
}

/// There is nothing to wait in.
pub(crate) fn no_runtime(error: std::io::Error) -> SuiteError {
    SuiteError::Failed(format!("cannot make a runtime: {error}"))
}
