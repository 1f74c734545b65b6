//! Starts a worker that traces what it runs, if the environment says where to.

use crate::failure::Failure;
use clap::Args;
use duramen_functions::worker::{Options, Worker};

/// The variable without which nothing is traced.
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

#[derive(Debug, Args)]
pub(crate) struct Tracing {
    /// Send the SQL of steps and the messages of failures with their traces; both may hold data
    #[cfg(feature = "otlp")]
    #[arg(long)]
    trace_texts: bool,
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Starts a worker.
#[cfg(feature = "otlp")]
pub(crate) async fn start(options: Options, tracing: &Tracing) -> Result<Worker, Failure> {
    use duramen_functions::worker::TraceSettings;
    let settings =
        TraceSettings::from_variables(variable).map_err(|error| Failure::Usage(error.to_string()))?;
    Ok(match settings {
        Some(settings) => {
            tracing::info!("traces are sent to what {ENDPOINT} says");
            Worker::start_traced(options, settings.with_texts(tracing.trace_texts)).await?
        }
        None => Worker::start(options).await?,
    })
}

/// Starts a worker.
#[cfg(not(feature = "otlp"))]
pub(crate) async fn start(options: Options, _: &Tracing) -> Result<Worker, Failure> {
    if variable(ENDPOINT).is_some_and(|endpoint| !endpoint.trim().is_empty()) {
        tracing::warn!(
            "{ENDPOINT} is set, and this program was built without traces: build it with --features otlp, or take a package"
        );
    }
    Ok(Worker::start(options).await?)
}
