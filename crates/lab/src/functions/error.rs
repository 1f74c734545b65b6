//! What the database says when it refuses something that the suite itself needs.

use duramen_functions::client::ClientError;
use duramen_reports::suite::SuiteError;

/// Wraps what the database said with what was tried.
pub(crate) fn database<E: Into<ClientError>>(doing: &'static str) -> impl FnOnce(E) -> SuiteError {
    move |error| SuiteError::refused(doing)(error.into())
}
