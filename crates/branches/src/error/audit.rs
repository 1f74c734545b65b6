//! Errors of reading the audit log.

use super::{Coded, Kind};
use crate::audit::Position;

#[derive(Debug, thiserror::Error)]
pub(crate) enum AuditError {
    #[error("the audit log cannot be read: {0}")]
    NotRead(std::io::Error),
    #[error("the audit log has no position {0}: it is of another log, or its segment was taken away; leave it out to follow what happens from now on")]
    NoSuchPosition(Position),
}

impl Coded for AuditError {
    fn code(&self) -> (Kind, &'static str) {
        match self {
            AuditError::NotRead(_) => (Kind::Failed, "audit_unreadable"),
            AuditError::NoSuchPosition(_) => (Kind::NotFound, "unknown_position"),
        }
    }
}
