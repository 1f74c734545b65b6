//! Why a lease is not given, changed or ended.

use super::{Coded, Kind};
use crate::{capacity::Shortage, model::Policy};

/// The longest lease, in days.
pub(crate) const DAYS_MAX: i64 = 90;

#[derive(Debug, thiserror::Error)]
pub(crate) enum LeaseError {
    #[error("branch {name:?} does not exist{}; run `duramen branch list` to see all branches", hint(closest.as_deref()))]
    NotFound { name: String, closest: Option<String> },
    #[error("branch {name} was destroyed meanwhile; create it again if it is needed")]
    Destroyed { name: String },
    #[error("branch {name} exists, of source {source_name} under policy {policy}; choose another name or destroy it")]
    NameClash { name: String, source_name: String, policy: Policy },
    #[error("the branch name {name} is somebody else's; choose another one")]
    NameTaken { name: String },
    #[error("{limit} branches are held by this token, which is as many as it may; destroy one first")]
    HolderHasAll { limit: u32 },
    #[error("{limit} branches are leased, which is what this machine's memory bears; destroy some first")]
    TooMany { limit: usize },
    #[error("no branch is leased now: {0}")]
    NoRoom(Shortage),
    #[error("there is no source yet; add one with `duramen source add NAME --url URL`, or `--sample flights` to try it")]
    NoSource,
    #[error("there is no source {name:?}{}; add one with `duramen source add`", hint(closest.as_deref()))]
    UnknownSource { name: String, closest: Option<String> },
    #[error("there are {count} sources ({}); say which with --source", names.join(", "))]
    WhichSource { count: usize, names: Vec<String> },
    #[error("source {name} changed while the branch was handed over; create it again")]
    SourceChanged { name: String },
    #[error("no branch of {source_name} can be made: {reason}")]
    PoolBroken { source_name: String, reason: String },
    #[error("no {policy} branch of {source_name} became ready within {waited_ms} ms; wait longer (--wait), or keep more ready: duramen source settings {source_name} --hot {policy}=N")]
    NothingReady { source_name: String, policy: Policy, waited_ms: u128 },
    #[error("no {policy} branch of {source_name} was leased: the servers of {silent} that were ready could not answer, because a signal held them (SIGSTOP) or their sessions had been killed, and were given up; find out who does that to servers, and try again, with a longer --wait")]
    NoneAnswers { source_name: String, policy: Policy, silent: u32 },
    #[error("source {source_name} has no login role {role:?}{}; `duramen source show {source_name}` lists those that a branch can be entered as", hint(closest.as_deref()))]
    UnknownRole { source_name: String, role: String, closest: Option<String> },
    #[error("no branch can be entered as {role:?}: {reason}")]
    RoleRefused { role: String, reason: String },
    #[error("source {source_name} was imported by an earlier version, which did not note its login roles; run `duramen source refresh {source_name}`")]
    RolesUnknown { source_name: String },
    #[error("branch {name} does not work: {problem}; run `duramen branch reset {name}`")]
    Failed { name: String, problem: String },
    #[error("branch {name} is protected; run `duramen branch unprotect {name}` first")]
    Protected { name: String },
    #[error("branch {name} is being reset")]
    Resetting { name: String },
    #[error("the reset of branch {name} was given up, and the branch is as it was: the daemon stops, or the volume store lost writes; try again")]
    Interrupted { name: String },
    #[error("{0}")]
    ResetCrashed(tokio::task::JoinError),
    #[error("require_clean_source reads all of the source, so it is only for who is on the daemon's own socket; create the branch there")]
    CleanSourceElsewhere,
    #[error("give ttl_s or expires_at, not both")]
    TwoEnds,
    #[error("the lease would end {seconds} s ago; give a time to live above zero")]
    EndsInThePast { seconds: i64 },
    #[error("a lease may last {DAYS_MAX} days at most; protect the branch to keep it longer")]
    TooLong,
    #[error("{0}")]
    NoSuchTime(jiff::Error),
}

impl Coded for LeaseError {
    fn code(&self) -> (Kind, &'static str) {
        match self {
            LeaseError::NotFound { .. } => (Kind::NotFound, "not_found"),
            LeaseError::Destroyed { .. } => (Kind::Conflict, "destroyed"),
            LeaseError::HolderHasAll { .. } => (Kind::Quota, "quota_exceeded"),
            LeaseError::NameClash { .. } | LeaseError::NameTaken { .. } => (Kind::Conflict, "name_clash"),
            LeaseError::TooMany { .. } | LeaseError::NoRoom(_) => (Kind::Unavailable, "too_many_leases"),
            LeaseError::NoSource => (Kind::NotFound, "no_source"),
            LeaseError::UnknownSource { .. } => (Kind::NotFound, "unknown_source"),
            LeaseError::WhichSource { .. } => (Kind::Invalid, "which_source"),
            LeaseError::UnknownRole { .. } => (Kind::NotFound, "unknown_role"),
            LeaseError::RoleRefused { .. } => (Kind::Invalid, "role_refused"),
            LeaseError::RolesUnknown { .. } => (Kind::Unavailable, "snapshot_outdated"),
            LeaseError::SourceChanged { .. } => (Kind::Unavailable, "source_changed"),
            LeaseError::PoolBroken { .. } => (Kind::Unavailable, "pool_broken"),
            LeaseError::NothingReady { .. } => (Kind::Unavailable, "no_branch_ready"),
            LeaseError::NoneAnswers { .. } => (Kind::Unavailable, "no_branch_answers"),
            LeaseError::Failed { .. } => (Kind::Failed, "branch_failed"),
            LeaseError::Protected { .. } => (Kind::Conflict, "protected"),
            LeaseError::Resetting { .. } => (Kind::Conflict, "resetting"),
            LeaseError::Interrupted { .. } => (Kind::Unavailable, "interrupted"),
            LeaseError::ResetCrashed(_) => (Kind::Failed, "reset_failed"),
            LeaseError::EndsInThePast { .. } => (Kind::Invalid, "ttl_in_the_past"),
            LeaseError::CleanSourceElsewhere => (Kind::Invalid, "own_socket_only"),
            LeaseError::TwoEnds | LeaseError::TooLong | LeaseError::NoSuchTime(_) => {
                (Kind::Invalid, "bad_ttl")
            }
        }
    }
}

/// The name that was probably meant, as the end of half a sentence.
pub(in crate::error) fn hint(closest: Option<&str>) -> String {
    closest.map(|known| format!("; did you mean {known}?")).unwrap_or_default()
}
