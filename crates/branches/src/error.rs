//! What can go wrong, in the caller's terms.

mod audit;
mod export;
mod generation;
mod history;
mod home;
mod lease;
mod lineage;
mod merge;
mod pair;
mod promotion;
mod query;
mod schema;
mod source;

pub(crate) use audit::AuditError;
pub(crate) use export::ExportError;
pub(crate) use generation::{GenerationError, LABELS_MAX};
pub(crate) use history::HistoryError;
pub(crate) use home::HomeError;
pub(crate) use lease::{LeaseError, DAYS_MAX};
pub(crate) use lineage::LineageError;
pub(crate) use merge::MergeError;
pub(crate) use pair::PairError;
pub(crate) use promotion::PromotionError;
pub(crate) use query::{failed_over_quota, query_failed, QueryError};
pub(crate) use schema::SchemaError;
pub(crate) use source::{SourceError, POOL_MAX};

use crate::model::ErrorBody;

/// What a caller can do about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// There is no such thing.
    NotFound,
    /// It clashes with what is there.
    Conflict,
    /// The request itself is wrong.
    Invalid,
    /// The database refused the statement.
    Sql,
    /// Not now: try again later or make room.
    Unavailable,
    /// The caller has as much as it may.
    Quota,
    /// A deadline passed.
    Timeout,
    /// Something broke on this side.
    Failed,
}

/// Why the engine refused or failed.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct EngineError {
    /// What the caller can do about it.
    pub kind: Kind,
    /// A stable word for programs.
    pub code: &'static str,
    /// What happened, where, and what to do next.
    pub message: String,
    /// The SQLSTATE, if the database refused.
    pub sqlstate: Option<String>,
    /// Where in the statement the database saw it, counted in characters from 1.
    pub position: Option<u32>,
}

impl EngineError {
    /// An error of a kind.
    #[must_use]
    pub fn new(kind: Kind, code: &'static str, message: impl Into<String>) -> EngineError {
        EngineError { kind, code, message: message.into(), sqlstate: None, position: None }
    }

    /// The body that callers are sent.
    #[must_use]
    pub fn body(&self) -> ErrorBody {
        ErrorBody {
            code: self.code.to_owned(),
            message: self.message.clone(),
            sqlstate: self.sqlstate.clone(),
            position: self.position,
        }
    }
}

/// What the errors of one operation are to callers.
pub(crate) trait Coded: std::error::Error {
    /// What the caller can do about it, and the stable word for programs.
    fn code(&self) -> (Kind, &'static str);
}

impl<E: Coded> From<E> for EngineError {
    fn from(error: E) -> EngineError {
        let (kind, code) = error.code();
        EngineError::new(kind, code, error.to_string())
    }
}
