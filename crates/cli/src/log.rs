//! What libraries say, on the standard error.

use crate::failure::Failure;
use tracing_subscriber::{filter::Targets, layer::SubscriberExt, util::SubscriberInitExt, Layer};

/// Writes what the library says to the standard error, as much as DURAMEN_LOG asks for.
pub(crate) fn to_stderr() -> Result<(), Failure> {
    let wanted = std::env::var("DURAMEN_LOG").unwrap_or_default();
    let wanted = if wanted.is_empty() { "info" } else { &wanted };
    let filter: Targets = wanted.parse().map_err(|error| {
        Failure::Usage(format!(
            "DURAMEN_LOG={wanted:?} is not a log filter ({error}); write it like info or duramen_branches=debug"
        ))
    })?;
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(false);
    tracing_subscriber::registry().with(lines.with_filter(filter)).init();
    Ok(())
}
