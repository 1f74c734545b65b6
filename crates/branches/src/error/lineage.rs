//! Why a branch cannot be made of another one, kept as it is, or put back.

use super::{Coded, Kind};
use crate::model::Policy;

#[derive(Debug, thiserror::Error)]
pub(crate) enum LineageError {
    #[error("branch {parent} is of source {source_name}: a branch that is made of it is, too; leave the source out")]
    OtherSource { parent: String, source_name: String },
    #[error("branch {parent} has the policy {policy}: a branch that is made of it has that, too; leave the policy out")]
    OtherPolicy { parent: String, policy: Policy },
    #[error("branch {name} exists, and was not made of {parent}; choose another name or destroy it")]
    NameClash { name: String, parent: String },
    #[error("branch {branch} has no snapshot {wanted:?}{}; `duramen branch snapshots {branch}` lists those that it has", super::lease::hint(closest.as_deref()))]
    NoSnapshot { branch: String, wanted: String, closest: Option<String> },
    #[error("branch {branch} has no snapshot of {wanted} or before; `duramen branch snapshots {branch}` lists those that it has")]
    NoneSoEarly { branch: String, wanted: jiff::Timestamp },
    #[error("branch {branch} was neither reset nor restored of late, so that nothing can be undone; `duramen branch snapshots {branch}` lists what it can go back to")]
    NothingToUndo { branch: String },
    #[error("branch {branch} has a snapshot {name} already; choose another name, or remove it with `duramen branch snapshot {branch} {name} --remove`")]
    SnapshotExists { branch: String, name: String },
    #[error(
        "branch {branch} has {limit} snapshots with names, which is as many as it may; remove one first"
    )]
    TooMany { branch: String, limit: usize },
    #[error("snapshot {id} of branch {branch} is not used: {problem}")]
    Damaged { branch: String, id: String, problem: String },
    #[error("branch {branch} cannot be copied: {reason}; try again, or with --quiesce, which stops its server for it")]
    NotCaptured { branch: String, reason: String },
    #[error("the snapshots of branches are at least {least} s apart; give a longer interval")]
    TooOften { least: u32 },
    #[error("at most {most} snapshots of a branch are kept without being asked for; give a smaller number")]
    TooManyKept { most: u32 },
    #[error("the caller went away, so that the branch was not leased")]
    CallerLeft,
}

impl Coded for LineageError {
    fn code(&self) -> (Kind, &'static str) {
        match self {
            LineageError::OtherSource { .. } | LineageError::OtherPolicy { .. } => {
                (Kind::Invalid, "other_than_parent")
            }
            LineageError::NameClash { .. } => (Kind::Conflict, "name_clash"),
            LineageError::NoSnapshot { .. } | LineageError::NoneSoEarly { .. } => {
                (Kind::NotFound, "unknown_snapshot")
            }
            LineageError::NothingToUndo { .. } => (Kind::Conflict, "nothing_to_undo"),
            LineageError::SnapshotExists { .. } => (Kind::Conflict, "snapshot_exists"),
            LineageError::TooMany { .. } => (Kind::Conflict, "too_many_snapshots"),
            LineageError::Damaged { .. } => (Kind::Failed, "snapshot_damaged"),
            LineageError::NotCaptured { .. } => (Kind::Failed, "not_captured"),
            LineageError::TooOften { .. } | LineageError::TooManyKept { .. } => {
                (Kind::Invalid, "bad_snapshot_settings")
            }
            LineageError::CallerLeft => (Kind::Unavailable, "caller_left"),
        }
    }
}
