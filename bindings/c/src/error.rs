//! What can go wrong, and the number that says so beyond the boundary.

use duramen_access::c1z::C1zError;
use duramen_access::file::FileError;
use duramen_access::messages::MessageError;

/// What a call returns. The numbers are those of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Status {
    /// It is done.
    Ok = 0,
    /// What was given makes no sense, or not now.
    Invalid = 1,
    /// What was asked for is not there.
    NotFound = 2,
    /// A file could not be read or written.
    Failed = 3,
    /// There is no such graph: it was closed, or never opened.
    NoGraph = 4,
    /// A mistake in the library. The graph of the call can only be closed.
    Panic = 5,
}

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("what was given makes no sense at byte {at}: {reason}")]
    Malformed { at: usize, reason: &'static str },
    #[error("{0}")]
    Invalid(String),
    #[error("there is no {0}")]
    NotFound(String),
    #[error(transparent)]
    Message(#[from] MessageError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error("the file is damaged: {0}; fetch it again")]
    Damaged(&'static str),
    #[error("there is no graph {0}: it was closed, or never opened")]
    NoGraph(u64),
    #[error("a mistake in the library: {0}; close the graph, and report this")]
    Panic(String),
}

impl Error {
    pub(crate) fn status(&self) -> Status {
        match self {
            Error::Malformed { .. } | Error::Invalid(_) | Error::Message(_) => Status::Invalid,
            Error::NotFound(_) => Status::NotFound,
            Error::File(FileError::C1z(C1zError::Row { .. } | C1zError::Order { .. })) => Status::Invalid,
            Error::File(_) | Error::Damaged(_) => Status::Failed,
            Error::NoGraph(_) => Status::NoGraph,
            Error::Panic(_) => Status::Panic,
        }
    }
}

impl From<C1zError> for Error {
    fn from(error: C1zError) -> Error {
        Error::File(FileError::C1z(error))
    }
}
