//! Why a request has no answer, or not the wanted one.

use duramen_api::model::ErrorBody;
use std::io;

/// Why a request has no answer, or not the wanted one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// Nobody listens on the home's socket.
    #[error("no daemon serves {home}; start one with `duramen serve --home {home}`, or name one elsewhere with `duramen login`")]
    NotRunning {
        /// The home directory.
        home: String,
    },
    /// The URL or the token cannot be used.
    #[error("{url} cannot be used: {what}")]
    BadUrl {
        /// The URL, without secrets.
        url: String,
        /// What is wrong, with it or with its token.
        what: String,
    },
    /// The socket or the door is there, but cannot be used.
    #[error("cannot connect to {socket}: {source}")]
    Connect {
        /// The socket, or the URL.
        socket: String,
        /// The operating system's answer.
        source: io::Error,
    },
    /// The daemon refused.
    #[error("{}", body.message)]
    Refused {
        /// The status of the reply.
        status: u16,
        /// The reason, with the next step.
        body: ErrorBody,
    },
    /// No answer in time. The connection is closed, which ends what the request was doing.
    #[error("{request} was not answered within {seconds:.1} s and was given up")]
    Timeout {
        /// The method and path.
        request: String,
        /// The time that was allowed.
        seconds: f64,
    },
    /// The connection broke before the answer was complete. Whether the request was done is unknown.
    #[error("the connection broke during {request}: {reason}; see whether the daemon still runs with `duramen status`")]
    Broken {
        /// The method and path.
        request: String,
        /// What was seen.
        reason: String,
    },
    /// The answer is not what this version of the client understands.
    #[error("cannot read the answer to {request}: {reason}; daemon and client may be of different versions")]
    BadReply {
        /// The method and path.
        request: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The request has no HTTP form.
    #[error("{request} cannot be sent: {reason}")]
    BadRequest {
        /// The method and path.
        request: String,
        /// What is wrong with it.
        reason: String,
    },
}

impl ClientError {
    /// The daemon's word for why it refused, if it did.
    #[must_use]
    pub fn code(&self) -> Option<&str> {
        match self {
            ClientError::Refused { body, .. } => Some(&body.code),
            _ => None,
        }
    }
}
