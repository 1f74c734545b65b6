//! What can go wrong in a store.

use std::path::PathBuf;
use std::sync::Arc;

use duramen_tree::{NodeStoreError, TreeError};

use crate::history::Moment;
use crate::json::JsonError;
use crate::log::LogError;
use crate::value::ValueError;
use crate::vector::VectorError;

/// What a caller can do about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Severity {
    /// Ask for something else: the request cannot be done as it stands.
    Request,
    /// Try again: somebody else was faster, or the store is busy.
    Retry,
    /// Look after the machine or the files: nothing more can be written.
    System,
}

/// Why an operation on a store failed. The store is as it was before the operation.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// There is no such branch.
    #[error("there is no branch {name:?}{}", did_you_mean(.hint))]
    BranchNotFound {
        /// The name that was asked for.
        name: String,
        /// The name that was probably meant.
        hint: Option<String>,
    },
    /// The name is taken.
    #[error("there is a branch {name:?} already; choose another name or delete it first")]
    BranchExists {
        /// The name.
        name: String,
    },
    /// The branch may not be deleted, reset or expire.
    #[error("branch {name:?} is protected: {reason}")]
    BranchProtected {
        /// The name.
        name: String,
        /// Why, and how to lift it.
        reason: &'static str,
    },
    /// The operation needs a branch that was forked from another that is still there.
    #[error("branch {name:?} has no parent any more; fork a new branch instead")]
    NoParent {
        /// The name.
        name: String,
    },
    /// Nothing of the branch is retained that is as old.
    #[error("nothing of branch {name:?} is retained at {asked}{}", oldest_retained(.oldest))]
    NotRetained {
        /// The branch.
        name: String,
        /// What was asked for.
        asked: Moment,
        /// The version of the oldest state that is retained.
        oldest: Option<u64>,
    },
    /// The branch has no such tag.
    #[error("branch {branch:?} has no tag {tag:?}; `store tag list` shows those that it has")]
    TagNotFound {
        /// The branch.
        branch: String,
        /// The tag.
        tag: String,
    },
    /// The branch has such a tag.
    #[error("branch {branch:?} has a tag {tag:?} already; choose another name or delete it first")]
    TagExists {
        /// The branch.
        branch: String,
        /// The tag.
        tag: String,
    },
    /// There is no such collection of vectors.
    #[error("there is no collection {name:?} in space {space:?}{}", did_you_mean(.hint))]
    CollectionNotFound {
        /// The name that was asked for.
        name: String,
        /// The space that was looked in.
        space: String,
        /// The name that was probably meant.
        hint: Option<String>,
    },
    /// There is a collection of that name with another dimension or metric.
    #[error("there is a collection {name:?} already, with {dimension} dimensions and metric {metric}")]
    CollectionExists {
        /// The name.
        name: String,
        /// Its dimension.
        dimension: usize,
        /// Its metric.
        metric: String,
    },
    /// There is no such index.
    #[error("there is no index {name:?} in space {space:?}{}", did_you_mean(.hint))]
    IndexNotFound {
        /// The name that was asked for.
        name: String,
        /// The space that was looked in.
        space: String,
        /// The name that was probably meant.
        hint: Option<String>,
    },
    /// There is another index of that name.
    #[error("there is an index {name:?} already: {index}; choose another name or drop it first")]
    IndexExists {
        /// The name.
        name: String,
        /// What it is of.
        index: String,
    },
    /// Two rows would have the same values in a unique index.
    #[error("{row} and {other} would have the same values in unique index {index:?} of space {space:?}; change one of the two")]
    NotUnique {
        /// The index.
        index: String,
        /// Its space.
        space: String,
        /// The key of a row.
        row: String,
        /// The key of the other.
        other: String,
    },
    /// A name is not allowed.
    #[error("{what} {name:?} is not allowed: {reason}")]
    InvalidName {
        /// What it would name.
        what: &'static str,
        /// The name.
        name: String,
        /// Why not.
        reason: &'static str,
    },
    /// Input is not allowed.
    #[error("{what} is not allowed: {reason}")]
    InvalidInput {
        /// What was given.
        what: &'static str,
        /// Why not, and what is.
        reason: String,
    },
    /// Something is longer than it may be.
    #[error("a {what} of {len} bytes is too long: {max} are allowed")]
    TooLarge {
        /// What it is.
        what: &'static str,
        /// Its length in bytes.
        len: usize,
        /// The longest allowed.
        max: usize,
    },
    /// A stored value is of another kind than was asked for.
    #[error("{what} is of another kind: {reason}")]
    WrongType {
        /// Which value.
        what: String,
        /// What it is, and how to read it.
        reason: String,
    },
    /// A value breaks a limit, or its bytes are damaged.
    #[error(transparent)]
    Value(#[from] ValueError),
    /// A JSON document, path or patch is not allowed.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// A vector is not allowed.
    #[error(transparent)]
    Vector(#[from] VectorError),
    /// The folder holds something other than a store. Nothing in it was touched.
    #[error("{} is not a store: it holds {found:?}; nothing in it was changed; name an empty folder or an existing store", path.display())]
    Foreign {
        /// The folder.
        path: PathBuf,
        /// The name of something in it.
        found: String,
    },
    /// Something is where a new folder was to be made. Nothing in it was touched.
    #[error("{} is not empty: it holds {found:?}; name a folder that is not there yet", path.display())]
    NotEmpty {
        /// The folder.
        path: PathBuf,
        /// The name of something in it.
        found: String,
    },
    /// A cell is not at the version that was expected.
    #[error("cell {key:?} is at version {actual:?}, not {expected:?}; read it again and retry")]
    VersionConflict {
        /// The cell.
        key: String,
        /// The version that was expected; none for a cell that must not exist.
        expected: Option<u64>,
        /// The version that it has; none if it does not exist.
        actual: Option<u64>,
    },
    /// Another commit changed what a transaction writes, or what a serialisable one read.
    #[error("another commit changed {key} first; run the transaction again")]
    TransactionConflict {
        /// A key that the other commit wrote.
        key: String,
    },
    /// A serialisable transaction read more than can be kept in mind.
    #[error("a serialisable transaction reads at most {reads} keys and ranges, of {bytes} bytes together; read a range instead of its keys, or less, or use `transact` and put what must not change")]
    TooManyReads {
        /// Keys and ranges that it may read.
        reads: usize,
        /// The bytes that they may have.
        bytes: usize,
    },
    /// A transaction lost against others as often as it may.
    #[error("the transaction lost against other commits {attempts} times; retry later or write less in one")]
    RetriesExhausted {
        /// How often it was run.
        attempts: u32,
    },
    /// A merge met keys that both sides changed.
    #[error("{count} keys were changed on both sides, first {first}; look at a dry run, then merge with ours, theirs, keep or a resolver")]
    MergeConflict {
        /// How many.
        count: usize,
        /// The first of them.
        first: String,
    },
    /// There is no such conflict that a merge kept.
    #[error("{row} has no open conflict; `store branch conflicts` lists those that the branch has")]
    ConflictNotFound {
        /// The row that was asked for.
        row: String,
    },
    /// The row of a conflict is no longer what it was when the merge kept the conflict.
    #[error(
        "{row} has changed since its conflict was kept; look at what it is now, then settle the conflict with `now`, or all the same"
    )]
    ConflictChanged {
        /// The row.
        row: String,
    },
    /// The record of a conflict, or the value that was chosen of it, cannot be read.
    #[error("the record of the conflict of {row} cannot be used: {reason}; settle it with `now`, which drops the record")]
    ConflictUnreadable {
        /// The row.
        row: String,
        /// What is wrong.
        reason: String,
    },
    /// Another process has the store open, or another handle of this one: to write, or to read if this one is to
    /// write.
    #[error("{} is open in {}; close it there, or wait for it", .path.display(), holder(.pid))]
    Locked {
        /// Where the store is.
        path: PathBuf,
        /// The process that has it, if it is known.
        pid: Option<u32>,
    },
    /// The store was opened for reading only.
    #[error("the store is open read-only; open it without that to write")]
    ReadOnly,
    /// There is no store.
    #[error("there is no store at {}; open it for writing to make one", .path.display())]
    StoreNotFound {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// The store was closed: all that was acknowledged is in it.
    #[error("the store was closed; open it again to write")]
    Closed,
    /// After a failed write nothing more is written.
    #[error(
        "the store takes no more writes since an error: {first}; close it, fix the cause, and open it again"
    )]
    Poisoned {
        /// The first error.
        first: String,
    },
    /// Another writer has taken the store over. What was acknowledged before is in it; nothing more is written here.
    #[error(
        "another writer has taken the store over: {by}; nothing more is written here: open it again to take it back"
    )]
    Fenced {
        /// Who, as far as it is known.
        by: String,
    },
    /// A wait came to its deadline.
    #[error("{what} took longer than {waited_ms} ms; retry when there is less load")]
    TimedOut {
        /// What was waited for.
        what: &'static str,
        /// How long, in milliseconds.
        waited_ms: u64,
    },
    /// The store's own files are not what they should be.
    #[error("the store is damaged: {0}; restore it from a copy")]
    Damaged(String),
    /// Version 0.1 wrote the store, and keeps its nodes in another way.
    #[error(
        "{} was written by version 0.1; `duramen store upgrade` brings it to the present format, and keeps all that is in it",
        .path.display()
    )]
    Legacy {
        /// Where it is.
        path: PathBuf,
    },
    /// A later version wrote the store.
    #[error("{what} has format {found}, and this version knows up to {known}; open it with the version that wrote it")]
    FromTheFuture {
        /// Which part.
        what: &'static str,
        /// Its format.
        found: u64,
        /// The latest format that is known here.
        known: u64,
    },
    /// The commit log failed.
    #[error(transparent)]
    Log(Arc<LogError>),
    /// A tree failed.
    #[error(transparent)]
    Tree(TreeError),
    /// The operating system failed.
    #[error("cannot {action} {}: {error}", .path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// With which file.
        path: PathBuf,
        /// What the operating system said.
        error: Arc<std::io::Error>,
    },
}

fn did_you_mean(hint: &Option<String>) -> String {
    hint.as_ref().map_or(String::new(), |hint| format!("; did you mean {hint:?}?"))
}

fn oldest_retained(oldest: &Option<u64>) -> String {
    match oldest {
        Some(version) => format!("; the oldest state is that of version {version}"),
        None => "; `store history keep` retains what comes from now on".to_owned(),
    }
}

fn holder(pid: &Option<u32>) -> String {
    match pid {
        Some(pid) if *pid == std::process::id() => "this process already".to_owned(),
        Some(pid) => format!("another process (process {pid})"),
        None => "another process".to_owned(),
    }
}

impl StoreError {
    /// What the caller can do.
    pub fn severity(&self) -> Severity {
        match self {
            Self::VersionConflict { .. }
            | Self::TransactionConflict { .. }
            | Self::RetriesExhausted { .. }
            | Self::Locked { .. }
            | Self::TimedOut { .. } => Severity::Retry,
            Self::Poisoned { .. }
            | Self::Fenced { .. }
            | Self::Damaged(_)
            | Self::FromTheFuture { .. }
            | Self::Log(_)
            | Self::Io { .. } => Severity::System,
            Self::Tree(TreeError::Store(_) | TreeError::Damaged { .. }) => Severity::System,
            _ => Severity::Request,
        }
    }

    /// The name that was probably meant, if the error is about one that does not exist.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::BranchNotFound { hint, .. }
            | Self::CollectionNotFound { hint, .. }
            | Self::IndexNotFound { hint, .. } => hint.as_deref(),
            _ => None,
        }
    }

    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |error| Self::Io { action, path, error: Arc::new(error) }
    }
}

impl From<LogError> for StoreError {
    fn from(error: LogError) -> Self {
        match error {
            LogError::Fenced { by } => Self::Fenced { by },
            error => Self::Log(Arc::new(error)),
        }
    }
}

impl From<TreeError> for StoreError {
    fn from(error: TreeError) -> Self {
        match error {
            TreeError::Store(NodeStoreError::Fenced(by)) => Self::Fenced { by },
            error => Self::Tree(error),
        }
    }
}

impl From<NodeStoreError> for StoreError {
    fn from(error: NodeStoreError) -> Self {
        match error {
            NodeStoreError::Fenced(by) => Self::Fenced { by },
            error => Self::Tree(TreeError::Store(error)),
        }
    }
}
