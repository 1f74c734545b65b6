//! Starts a worker that traces what it runs, if the environment says where to.

use crate::failure::Failure;
use clap::Args;
use duramen_functions::worker::{Options, Worker};

#[derive(Debug, Args)]
pub(crate) struct Tracing {
    /// Send the SQL of steps and the messages of failures with their traces; both may hold data
    #[cfg(feature = "otlp")]
    #[arg(long)]
    trace_texts: bool,
}

/// Starts a worker.
#[cfg(feature = "otlp")]
pub(crate) async fn start(options: Options, tracing: &Tracing) -> Result<Worker, Failure> {
    Ok(match crate::traces::settings()? {
        Some(settings) => Worker::start_traced(options, settings.with_texts(tracing.trace_texts)).await?,
        None => Worker::start(options).await?,
    })
}

/// Starts a worker.
#[cfg(not(feature = "otlp"))]
pub(crate) async fn start(options: Options, _: &Tracing) -> Result<Worker, Failure> {
    crate::traces::warn();
    Ok(Worker::start(options).await?)
}

/// Says that a worker of a cluster traces nothing, where the environment wants traces.
#[cfg(feature = "otlp")]
pub(crate) fn none_of_clusters() -> Result<(), Failure> {
    if crate::traces::settings()?.is_some() {
        super::handle::note("a worker with --cluster sends no traces");
    }
    Ok(())
}

/// Says that a worker of a cluster traces nothing, where the environment wants traces.
#[cfg(not(feature = "otlp"))]
pub(crate) fn none_of_clusters() -> Result<(), Failure> {
    crate::traces::warn();
    Ok(())
}
