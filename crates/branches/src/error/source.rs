//! Why a source is not added, changed or removed.

use super::{lease::hint, Coded, Kind};
use std::io;

/// The most branches of one kind that a pool is asked to keep.
pub(crate) const POOL_MAX: u32 = 2000;

#[derive(Debug, thiserror::Error)]
pub(crate) enum SourceError {
    #[error("there is no source {name:?}{}; list the sources with `duramen source list`", hint(closest.as_deref()))]
    Unknown { name: String, closest: Option<String> },
    #[error("there is no source {name:?}")]
    NoGeneration { name: String },
    #[error("source {name} exists; `duramen source refresh {name}` imports it anew")]
    Exists { name: String },
    #[error("{leases} branches of {name} are leased; destroy them first")]
    InUse { name: String, leases: usize },
    #[error("the daemon stops, and the import with it; nothing is left of it")]
    Stopping,
    #[error("whoever asked for the import has left, so it was given up; nothing is left of it")]
    CallerLeft,
    #[error("a source keeps at most {POOL_MAX} branches ready")]
    PoolTooLarge,
    #[error("{name:?} cannot be set for branches: it is not a setting, could let them reach out, or is the engine's own (--durable turns flushing on)")]
    SettingRefused { name: String },
    #[error("a branch does not run with these settings, and nothing was changed: {reason}")]
    SettingsDoNotRun { reason: String },
    #[error("the limit of {what} is too low: a branch needs {least}{unit} at least")]
    LimitTooLow { what: &'static str, least: u64, unit: &'static str },
    #[error("the weight of the processors is 1 to {most}")]
    BadWeight { most: u32 },
    #[error(
        "the numbers of clones, starts and sessions at a time must be 1 to {most}, or 0 for the default"
    )]
    BadConcurrency { most: u32 },
    #[error("the masking rules of source {name} have changed since its snapshot was made, so it serves no branches: run `duramen source refresh {name}`")]
    OtherRules { name: String },
    #[error("a source that is an upgrade of {of} is masked as {of} is: change the rules there, refresh {of}, and refresh the upgrade then")]
    RulesOfUpgrade { of: String },
    #[error("the import of source {name} did not look for personal data, because its version did not: run `duramen source refresh {name}`")]
    NotScanned { name: String },
    #[error("source {name} is not known to be as it was imported: {reason}; look at `duramen source verify {name}` and `duramen source fingerprint {name}`, or refresh it")]
    NotClean { name: String, reason: String },
    #[error("cannot find {path}: {error}")]
    NoPath { path: String, error: io::Error },
    #[error("{0}")]
    NoServer(duramen_postgres::InstallationError),
    #[error("the servers of the source have no system user to run as: {0}; run `duramen doctor`")]
    NoUser(duramen_postgres::UserError),
    #[error("the servers of source {name} cannot run as they did: {error}; run `duramen source refresh {name}`, and free the number for branches that are leased")]
    UserLost { name: String, error: duramen_postgres::UserError },
    #[error("the generations of source {name} are made on the node {keeper} of the fleet, and this node has a copy; ask {keeper}")]
    IsACopy { name: String, keeper: String },
    #[error("nothing is known here of the origin of source {name}, which came from another node; add it anew where its origin is reached")]
    OriginUnknown { name: String },
    #[error("a source is on 1 to {most} nodes")]
    BadReplicas { most: u32 },
    #[error("{reason}; the source is as it was")]
    NotBrought { code: &'static str, reason: String },
    #[error("the import ended without a word ({0}); the daemon's log says more")]
    ImportCrashed(tokio::task::JoinError),
    #[error("{0}")]
    VerifyCrashed(tokio::task::JoinError),
}

impl Coded for SourceError {
    fn code(&self) -> (Kind, &'static str) {
        match self {
            SourceError::Unknown { .. } | SourceError::NoGeneration { .. } => {
                (Kind::NotFound, "unknown_source")
            }
            SourceError::Exists { .. } => (Kind::Conflict, "source_exists"),
            SourceError::NotClean { .. } => (Kind::Conflict, "source_not_clean"),
            SourceError::InUse { .. } => (Kind::Conflict, "source_in_use"),
            SourceError::CallerLeft => (Kind::Unavailable, "client_gone"),
            SourceError::Stopping => (Kind::Unavailable, "stopping"),
            SourceError::LimitTooLow { .. }
            | SourceError::BadWeight { .. }
            | SourceError::BadConcurrency { .. } => (Kind::Invalid, "bad_limit"),
            SourceError::PoolTooLarge => (Kind::Invalid, "pool_too_large"),
            SourceError::SettingRefused { .. } | SourceError::SettingsDoNotRun { .. } => {
                (Kind::Invalid, "bad_setting")
            }
            SourceError::IsACopy { .. } => (Kind::Conflict, "source_is_a_copy"),
            SourceError::OriginUnknown { .. } => (Kind::Conflict, "origin_unknown"),
            SourceError::BadReplicas { .. } => (Kind::Invalid, "bad_replicas"),
            SourceError::NotBrought { code, .. } => (Kind::Failed, code),
            SourceError::NotScanned { .. } => (Kind::Conflict, "not_scanned"),
            SourceError::RulesOfUpgrade { .. } => (Kind::Invalid, "bad_rules"),
            SourceError::OtherRules { .. } => (Kind::Failed, "rules_changed"),
            SourceError::NoPath { .. } => (Kind::Invalid, "bad_path"),
            SourceError::NoServer(_) => (Kind::Failed, "no_server"),
            SourceError::NoUser(_) | SourceError::UserLost { .. } => (Kind::Failed, "no_source_user"),
            SourceError::ImportCrashed(_) => (Kind::Failed, "internal"),
            SourceError::VerifyCrashed(_) => (Kind::Failed, "verify_failed"),
        }
    }
}
