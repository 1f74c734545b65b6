//! Why an HTTP step fails.

use thiserror::Error;

use crate::interpret::Failure;

/// Why an HTTP step fails. The texts end up before the person who wrote the step, so they never hold a whole URL or
/// a header's value: both may carry secrets, and both may have come from a variable that somebody else set.
#[derive(Debug, Error)]
#[non_exhaustive]
pub(super) enum HttpError {
    /// No HTTP step may run.
    #[error(
        "df.http() is disabled: to enable it, an operator of the database sets df.http = 'on' and names the hosts \
         that may be called in df.http_allowed_hosts (ALTER DATABASE ... SET ...)"
    )]
    Disabled,
    /// The step is not a request that can be made.
    #[error("{0}")]
    Malformed(String),
    /// The policy forbids the request.
    #[error("{0}")]
    Refused(String),
    /// A limit on sizes or numbers would be passed.
    #[error("{0}")]
    TooLarge(String),
    /// The worker could not make its HTTP client.
    #[error("the worker cannot prepare its HTTP client: {0}")]
    Client(String),
    /// No whole answer came back.
    #[error("{0}")]
    Network(String),
    /// The time was over first.
    #[error(
        "no complete answer within {0} s (timeout_seconds); whether the server has acted on the request is unknown"
    )]
    Timeout(u32),
    /// The server says that it failed.
    #[error("the server answered {0}")]
    Server(String),
}

impl HttpError {
    /// The SQLSTATE that `df.catch` shows its handler.
    fn sqlstate(&self) -> &'static str {
        match self {
            Self::Disabled | Self::Refused(_) => "42501",
            Self::Malformed(_) => "22023",
            Self::TooLarge(_) => "54000",
            Self::Client(_) | Self::Server(_) => "58000",
            Self::Network(_) => "08006",
            Self::Timeout(_) => "57014",
        }
    }

    /// The failure of the step; `what` names the request, as far as it is known.
    pub(super) fn into_failure(self, what: &str) -> Failure {
        let message = match &self {
            Self::Disabled => self.to_string(),
            Self::Refused(_) | Self::Malformed(_) => format!("{what} was not sent: {self}"),
            _ => format!("{what} failed: {self}"),
        };
        Failure { message, sqlstate: Some(self.sqlstate().to_owned()) }
    }
}
