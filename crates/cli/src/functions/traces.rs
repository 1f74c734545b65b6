//! Starts a worker that traces what it runs, if the environment says where to.

use crate::failure::Failure;
use clap::Args;
use duramen_functions::cluster::ClusterWorker;
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

/// Starts a worker of all shards of a cluster.
#[cfg(feature = "otlp")]
pub(crate) async fn start_of_cluster(options: Options, tracing: &Tracing) -> Result<ClusterWorker, Failure> {
    Ok(match crate::traces::settings()? {
        Some(settings) => {
            ClusterWorker::start_traced(options, settings.with_texts(tracing.trace_texts)).await?
        }
        None => ClusterWorker::start(options).await?,
    })
}

/// Starts a worker of all shards of a cluster.
#[cfg(not(feature = "otlp"))]
pub(crate) async fn start_of_cluster(options: Options, _: &Tracing) -> Result<ClusterWorker, Failure> {
    crate::traces::warn();
    Ok(ClusterWorker::start(options).await?)
}
