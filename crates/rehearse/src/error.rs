//! Why a rehearsal was not made.

use duramen_client::ClientError;
use duramen_postgres::connection::ConnectError;
use std::{io, path::PathBuf};

/// Why a rehearsal was not made. A migration that fails is not among them: that is in its report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RehearseError {
    /// What was asked for makes no sense.
    #[error("{0}")]
    Options(String),
    /// A file with a load or with queries.
    #[error("cannot read {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The operating system's answer.
        source: io::Error,
    },
    /// A file is not a valid script.
    #[error("{}, line {line}: {what}", path.display())]
    Script {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong, and what can be written.
        what: String,
    },
    /// A file is not a recording.
    #[error("{}: {what}", path.display())]
    Recording {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        what: String,
    },
    /// The daemon could not provide a branch, or refused another request.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The branch's URL is of another form than this version knows.
    #[error(
        "the URL of the branch {branch} cannot be read; daemon and program may be of different versions"
    )]
    Url {
        /// The branch.
        branch: String,
    },
    /// The branch was not reached.
    #[error("cannot enter the branch: {0}")]
    Connect(#[from] ConnectError),
    /// A question of ours to the branch failed.
    #[error("cannot {doing}: {cause}")]
    Query {
        /// What was asked for.
        doing: &'static str,
        /// The server's words.
        cause: String,
    },
    /// The command was not started or not waited for.
    #[error("cannot {doing}: {source}")]
    Process {
        /// What was tried.
        doing: &'static str,
        /// The operating system's answer.
        source: io::Error,
    },
    /// A signal ended it; the branch was given back.
    #[error("ended by signal {0}; the branch was given back, and there is no report")]
    Ended(i32),
}

impl RehearseError {
    /// The exit status: 2 for what was asked wrongly, 128 and the number for a signal, else 1.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            RehearseError::Options(_)
            | RehearseError::File { .. }
            | RehearseError::Script { .. }
            | RehearseError::Recording { .. } => 2,
            RehearseError::Ended(signal) => {
                u8::try_from(*signal).map_or(128, |signal| signal.saturating_add(128))
            }
            _ => 1,
        }
    }

    /// An error of a statement of ours, with everything below it.
    pub(crate) fn query(doing: &'static str) -> impl FnOnce(tokio_postgres::Error) -> RehearseError {
        move |error| RehearseError::Query { doing, cause: duramen_postgres::connection::with_sources(&error) }
    }
}
