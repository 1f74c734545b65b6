//! Why a branch is not merged.

use super::{Coded, Kind};
use crate::model::Policy;
use duramen_carry::{ApplyError, SetError};
use std::time::Duration;

#[derive(Debug, thiserror::Error)]
pub(crate) enum MergeError {
    #[error("branch {name} cannot be merged into itself; name the branch that it was made of")]
    Itself { name: String },
    #[error("branch {child} was not made of {parent}, nor of what {parent} was made of; it can be merged into {}", .of.as_deref().unwrap_or("branches of the same source and generation that were made of it as well"))]
    Unrelated { child: String, parent: String, of: Option<String> },
    #[error("branch {parent} has the policy {policy}, under which nothing is written, so nothing can be merged into it")]
    ReadOnly { parent: String, policy: Policy },
    #[error("{child} changed definitions, and {parent} has the policy {policy}, under which these cannot be changed: {list}")]
    Definitions { child: String, parent: String, policy: Policy, list: String },
    #[error("{child} and {parent} both changed definitions, and not to the same; {child}: {theirs}; {parent}: {ours}; make them the same in both, or make a new branch of {parent}")]
    BothDefined { child: String, parent: String, ours: String, theirs: String },
    #[error("{name} was being changed while it was compared; let that end, and merge again")]
    Restless { name: String },
    #[error(
        "more than {limit} {what} differ in {name}, which is more than is merged; change less in one branch"
    )]
    TooMuch { name: String, limit: u64, what: &'static str },
    #[error("the comparison took longer than {limit:?}; merge a branch in which less was changed")]
    TooSlow { limit: Duration },
    #[error("what differs could not be written down: {0}")]
    Folder(std::io::Error),
    #[error("the schema duramen of {parent} is not one in which a merge can be written down: {reason}; look at who made it")]
    Registry { parent: String, reason: String },
    #[error(transparent)]
    Set(#[from] SetError),
    #[error(transparent)]
    Apply(#[from] ApplyError),
}

impl Coded for MergeError {
    fn code(&self) -> (Kind, &'static str) {
        match self {
            MergeError::Itself { .. } | MergeError::Unrelated { .. } => (Kind::Invalid, "not_related"),
            MergeError::ReadOnly { .. } | MergeError::Definitions { .. } => {
                (Kind::Conflict, "policy_forbids")
            }
            MergeError::BothDefined { .. } => (Kind::Conflict, "definitions_differ"),
            MergeError::Restless { .. } => (Kind::Unavailable, "branch_changed"),
            MergeError::TooMuch { .. } => (Kind::Failed, "too_many_changes"),
            MergeError::TooSlow { .. } => (Kind::Timeout, "comparison_timeout"),
            MergeError::Folder(_) => (Kind::Failed, "merge_failed"),
            MergeError::Registry { .. } => (Kind::Conflict, "merge_not_recorded"),
            MergeError::Set(_) => (Kind::Failed, "not_mergeable"),
            MergeError::Apply(error) => match error {
                ApplyError::Locked { .. } => (Kind::Unavailable, "rows_locked"),
                ApplyError::Triggers { .. } => (Kind::Conflict, "has_triggers"),
                ApplyError::MergedBefore { .. } => (Kind::Conflict, "merged_before"),
                ApplyError::Registry(_) => (Kind::Conflict, "merge_not_recorded"),
                ApplyError::Set(_) => (Kind::Failed, "not_mergeable"),
                ApplyError::Connect(_) | ApplyError::Lost { .. } => (Kind::Unavailable, "server_failed"),
                ApplyError::Unknown { .. } => (Kind::Unavailable, "merge_unknown"),
                ApplyError::TooSlow { .. } => (Kind::Timeout, "merge_timeout"),
                // What the server refused, and what is added later.
                _ => (Kind::Failed, "merge_refused"),
            },
        }
    }
}
