//! Why schemas are not compared.

use super::{Coded, Kind};
use std::time::Duration;

#[derive(Debug, thiserror::Error)]
pub(crate) enum SchemaError {
    #[error("{0}")]
    NotRead(duramen_schema::ReadError),
    #[error("reading the definitions of a database took longer than {limit:?}; end what holds locks on them, then try again")]
    TooSlow { limit: Duration },
}

impl Coded for SchemaError {
    fn code(&self) -> (Kind, &'static str) {
        match self {
            SchemaError::NotRead(_) => (Kind::Failed, "schema_unreadable"),
            SchemaError::TooSlow { .. } => (Kind::Timeout, "schema_timeout"),
        }
    }
}
