//! What is said when the server of an origin does not answer, or refuses.

use crate::error::{EngineError, Kind};

/// Errors about the origin never show its address: only what the server or the network said.
pub(crate) fn unreachable_source(error: &tokio_postgres::Error) -> EngineError {
    let reason = error.as_db_error().map_or_else(
        || {
            let mut text = error.to_string();
            let mut cause = std::error::Error::source(error);
            while let Some(inner) = cause {
                text = format!("{text}: {inner}");
                cause = inner.source();
            }
            text
        },
        |refusal| refusal.message().to_owned(),
    );
    EngineError::new(
        Kind::Failed,
        "source_unreachable",
        format!("the source's server cannot be reached ({reason}); check that it runs and accepts this user from here, with or without TLS as the URL's sslmode says"),
    )
}

pub(crate) fn read_error(error: &tokio_postgres::Error) -> EngineError {
    let reason =
        error.as_db_error().map_or_else(|| error.to_string(), |refusal| refusal.message().to_owned());
    EngineError::new(
        Kind::Failed,
        "source_error",
        format!("the source's server refused to be read: {reason}"),
    )
}
