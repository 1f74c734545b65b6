//! Why what is attached cannot be shown.

use duramen_access::{expand::OverBudget, file::FileError};
use duramen_pack::{branch::BranchPackError, PackError};
use duramen_store::{Severity, StoreError};
use std::io;

/// Why something that is attached was not read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// It is not where it was.
    #[error("{at} cannot be read: {source}; put it back, or attach it anew")]
    Gone {
        /// Where it should be.
        at: String,
        /// Why.
        source: io::Error,
    },
    /// It is another thing than what was asked of.
    #[error("{at} holds {found}, and this is asked of {wanted}")]
    OtherContent {
        /// Where it is.
        at: String,
        /// What it holds.
        found: &'static str,
        /// What it would have to hold.
        wanted: &'static str,
    },
    /// The store, or one that a pack holds.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The pack of a branch.
    #[error(transparent)]
    Branch(#[from] BranchPackError),
    /// The access graph.
    #[error(transparent)]
    Graph(#[from] FileError),
    /// It is more than is read into the memory of a daemon.
    #[error(
        "{at} has {found} {what}, and no more than {limit} are shown here; use `duramen` on the machine"
    )]
    TooLarge {
        /// Where it is.
        at: String,
        /// What there is too much of.
        what: &'static str,
        /// How much there is; at least, where it was not read on.
        found: u64,
        /// How much there may be.
        limit: u64,
    },
    /// The answer follows from more than is followed.
    #[error(transparent)]
    OverBudget(#[from] OverBudget),
    /// The answer takes longer than somebody waits.
    #[error("nothing was found in {limit_s} s; ask for a kind, a space or a longer prefix")]
    TooSlow {
        /// How long it was looked for, in seconds.
        limit_s: u64,
    },
    /// What was asked for is not there.
    #[error("{0}")]
    Unknown(String),
    /// What was asked for makes no sense.
    #[error("{0}")]
    Invalid(String),
}

/// What who asked can do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remedy {
    /// Ask for something that is there.
    AskForAnother,
    /// Ask in another way.
    AskDifferently,
    /// Ask again.
    AskAgain,
    /// Look after the file.
    MendIt,
}

impl From<PackError> for ReadError {
    fn from(error: PackError) -> ReadError {
        ReadError::Branch(error.into())
    }
}

impl ReadError {
    /// What can be done about it.
    ///
    /// # Examples
    /// ```
    /// use duramen_attachments::error::{ReadError, Remedy};
    /// let error = ReadError::Unknown("there is no entry \"x\"".to_owned());
    /// assert_eq!((error.remedy(), error.code()), (Remedy::AskForAnother, "not_there"));
    /// ```
    #[must_use]
    pub fn remedy(&self) -> Remedy {
        match self {
            ReadError::Unknown(_) => Remedy::AskForAnother,
            ReadError::Invalid(_) | ReadError::OtherContent { .. } | ReadError::OverBudget(_) => {
                Remedy::AskDifferently
            }
            ReadError::TooSlow { .. } => Remedy::AskAgain,
            ReadError::Store(error) => of_store(error),
            ReadError::Branch(BranchPackError::Store(error)) => of_store(error),
            _ => Remedy::MendIt,
        }
    }

    /// A stable word for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            ReadError::Gone { .. } => "attachment_gone",
            ReadError::OtherContent { .. } => "other_content",
            ReadError::TooLarge { .. } => "too_large_to_show",
            ReadError::OverBudget(_) => "too_much_to_follow",
            ReadError::TooSlow { .. } => "too_slow",
            ReadError::Unknown(_) => "not_there",
            ReadError::Invalid(_) => "bad_request",
            ReadError::Store(error) | ReadError::Branch(BranchPackError::Store(error)) => match error {
                StoreError::BranchNotFound { .. } => "unknown_branch",
                StoreError::CollectionNotFound { .. } => "unknown_collection",
                StoreError::NotRetained { .. } | StoreError::TagNotFound { .. } => "not_retained",
                StoreError::Foreign { .. } => "not_a_store",
                StoreError::StoreNotFound { .. } => "attachment_gone",
                StoreError::Legacy { .. } | StoreError::FromTheFuture { .. } => "other_format",
                error => match error.severity() {
                    Severity::Request => "bad_request",
                    Severity::Retry => "busy",
                    _ => "damaged",
                },
            },
            _ => "damaged",
        }
    }
}

fn of_store(error: &StoreError) -> Remedy {
    match error {
        StoreError::BranchNotFound { .. }
        | StoreError::CollectionNotFound { .. }
        | StoreError::NotRetained { .. }
        | StoreError::TagNotFound { .. } => Remedy::AskForAnother,
        StoreError::Foreign { .. } | StoreError::StoreNotFound { .. } | StoreError::Legacy { .. } => {
            Remedy::MendIt
        }
        error => match error.severity() {
            Severity::Request => Remedy::AskDifferently,
            Severity::Retry => Remedy::AskAgain,
            _ => Remedy::MendIt,
        },
    }
}
