//! `duramen fn worker`: runs the functions of a database until it is told to stop.

use super::{
    handle::{note, Handle, Place},
    rehearse::{self, Rehearse},
    supervisor::Supervisor,
    traces::{self, Tracing},
};
use crate::{
    context::{Context, Outcome},
    failure::{Failure, FAILED},
    log,
    metrics::{self, Figures},
    output, parse,
};
use clap::Args;
use duramen_functions::cluster::ClusterMonitor;
use duramen_functions::worker::{self, Monitor, Options};
use serde_json::json;
use std::{future::Future, net::SocketAddr, process::ExitCode, time::Duration};
use tokio::{
    net::TcpListener,
    signal::unix::{signal, Signal, SignalKind},
    task::JoinSet,
};

pub(crate) const EXAMPLES: &str = "\
Examples:
  duramen fn worker postgres://df_worker@localhost/shop
  duramen fn worker postgres://df_worker@localhost/shop --connections 50 --metrics 127.0.0.1:9464
  duramen fn worker postgres://df_worker@localhost/shop --cluster     all shards of `duramen fn cluster list`
  duramen fn worker --branch try --external=stub --answers answers.toml --until-idle    rehearse in a branch
  duramen fn worker --branch try --external=stub --answers record    with the answers that earlier instances were given
  DURAMEN_LOG=debug duramen fn worker postgres://df_worker@localhost/shop
  duramen fn worker postgres://postgres@localhost/shop --allow-superuser    to try it out
After Ctrl-C or SIGTERM it finishes running steps for up to --drain-limit; a second signal stops it at once. Nothing is lost
either way: steps that had not committed are repeated. Under systemd it says when it is ready, stops and lives (Type=notify,
WatchdogSec): see the unit duramen-fn-worker@.service.";

/// The longest limit for draining.
const DRAIN_MAX: Duration = Duration::from_secs(24 * 3600);

#[derive(Debug, Args)]
pub(crate) struct Work {
    /// The database, as the role that installed the schema or a member of it [default: --url or DURAMEN_FN_URL]
    pub(crate) url: Option<String>,
    /// How many long steps run at once, each on its own connection
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1000))]
    connections: u16,
    /// How many of them one role may have at once [default: all, if no other role wants any]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    per_role: Option<u16>,
    /// How many turns of short steps to take at once [default: one a processor, from 2 to 8]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=64))]
    lanes: Option<u16>,
    /// How much memory the results of instances may take at once, in MiB
    #[arg(long, value_name = "MIB", default_value_t = (worker::MEMORY >> 20) as u32,
        value_parser = clap::value_parser!(u32).range((worker::MEMORY_MIN >> 20) as i64..=1 << 20))]
    memory: u32,
    /// Serve every shard of the cluster that the database belongs to, also those that come; places and memory are divided among them
    #[arg(long, conflicts_with_all = ["until_idle", "branch", "external"])]
    cluster: bool,
    /// Work even if the role is a superuser; `fn install --worker-role` makes one that is not
    #[arg(long)]
    pub(super) allow_superuser: bool,
    /// Serve figures for Prometheus at http://ADDRESS/metrics, and whether the worker is well at /health; a port alone is one
    /// of this machine only, and port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", value_parser = metrics::address)]
    metrics: Option<SocketAddr>,
    /// How long running steps may go on after the first signal, before they are given back to other workers
    #[arg(long, value_name = "SPAN", default_value = "30s", value_parser = drain_limit)]
    drain_limit: Duration,
    /// End when nothing runs, and nothing is due within SPAN (60s unless given); exit status 1 if instances have failed or were cancelled
    #[arg(long, value_name = "SPAN", num_args = 0..=1, require_equals = true, default_missing_value = "60s", value_parser = horizon)]
    until_idle: Option<Duration>,
    #[command(flatten)]
    pub(super) rehearse: Rehearse,
    #[command(flatten)]
    tracing: Tracing,
}

fn drain_limit(text: &str) -> Result<Duration, String> {
    let limit = parse::span(text)?;
    match limit <= DRAIN_MAX {
        true => Ok(limit),
        false => Err(format!("{text:?} is longer than a day; write it like 30s or 10m")),
    }
}

/// The longest time for which something that is due later is waited for.
const HORIZON_MAX: Duration = Duration::from_secs(366 * 24 * 3600);

fn horizon(text: &str) -> Result<Duration, String> {
    let span = parse::span(text)?;
    match span <= HORIZON_MAX {
        true => Ok(span),
        false => Err(format!("{text:?} is longer than a year; write it like 30s or 2h")),
    }
}

/// The two signals that end a worker.
struct Stops {
    terminate: Signal,
    interrupt: Signal,
}

impl Stops {
    fn listen() -> Result<Stops, Failure> {
        let listen = |kind| signal(kind).map_err(Failure::Runtime);
        Ok(Stops { terminate: listen(SignalKind::terminate())?, interrupt: listen(SignalKind::interrupt())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

impl Figures for Monitor {
    async fn text(&self) -> String {
        self.prometheus().await
    }

    fn health(&self) -> Result<&'static str, String> {
        Monitor::health(self).map_err(|reason| reason.to_string())?;
        Ok(if self.is_draining() { "draining" } else { "ok" })
    }
}

impl Figures for ClusterMonitor {
    async fn text(&self) -> String {
        self.prometheus().await
    }

    fn health(&self) -> Result<&'static str, String> {
        ClusterMonitor::health(self)?;
        Ok(if self.is_draining() { "draining" } else { "ok" })
    }
}

pub(crate) async fn run(context: &Context, place: &Place, work: &Work) -> Outcome {
    log::to_stderr()?;
    let mut stops = Stops::listen()?;
    let (handle, rehearsal) = tokio::select! {
        begun = rehearse::begin(context, place, work) => begun?,
        () = stops.next() => return Ok(ExitCode::SUCCESS),
    };
    let handle = &handle;
    let listener = match work.metrics {
        Some(address) => Some(metrics::listen(address).await?),
        None => None,
    };
    let options = Options {
        url: handle.url.clone(),
        connections: work.connections.into(),
        per_role: work.per_role.map(Into::into),
        memory: (work.memory as usize) << 20,
        lanes: work.lanes.map(Into::into),
        allow_superuser: work.allow_superuser,
        rehearsal: rehearsal.as_ref().and_then(|begun| begun.rehearsal.clone()),
    };
    if work.cluster {
        return of_cluster(handle, work, options, listener, stops).await;
    }
    let worker = tokio::select! {
        worker = traces::start(options, &work.tracing) => worker?,
        () = stops.next() => return Ok(ExitCode::SUCCESS),
    };
    ready(handle, work, listener.as_ref().map(|(_, address)| *address))?;
    let supervisor = Supervisor::of_environment();
    supervisor.ready(&handle.target.describe()).await;
    // It ends with this function: a worker that drains is still asked.
    let mut tasks = JoinSet::new();
    if let Some((listener, _)) = listener {
        tasks.spawn(metrics::serve(listener, worker.monitor()));
    }
    tasks.spawn(supervisor.clone().watch(worker.monitor()));
    let monitor = worker.monitor();
    let rests = async {
        match work.until_idle {
            Some(horizon) => monitor.rests(horizon).await,
            None => std::future::pending().await,
        }
    };
    let ended = tokio::select! {
        () = stops.next() => None,
        ended = rests => Some(ended.map_err(rehearse::replaced)?),
        gone = rehearse::is_gone(context, rehearsal.as_ref(), &monitor) => return Err(gone),
    };
    supervisor.stopping(work.drain_limit).await;
    if let Some(ended) = ended {
        worker.drain(work.drain_limit).await;
        return rehearse::tell(handle, &ended);
    }
    drained(worker.drain(work.drain_limit), &mut stops, work.drain_limit).await
}

/// Waits until a worker has drained, or a second signal comes.
async fn drained(drain: impl Future<Output = ()>, stops: &mut Stops, limit: Duration) -> Outcome {
    tracing::info!("stopping: running steps may continue for {limit:?}; a second signal stops them at once");
    tokio::select! {
        () = drain => Ok(ExitCode::SUCCESS),
        () = stops.next() => {
            tracing::warn!("stopped at once: another worker will repeat what had not committed");
            Ok(ExitCode::from(FAILED))
        }
    }
}

/// Serves all shards of a cluster until it is told to stop.
async fn of_cluster(
    handle: &Handle,
    work: &Work,
    options: Options,
    listener: Option<(TcpListener, SocketAddr)>,
    mut stops: Stops,
) -> Outcome {
    let worker = tokio::select! {
        worker = traces::start_of_cluster(options, &work.tracing) => worker?,
        () = stops.next() => return Ok(ExitCode::SUCCESS),
    };
    for (shard, standing) in worker.monitor().shards() {
        if let Err(error) = standing {
            note(format_args!("shard {shard} is not served yet, and is tried again: {error}"));
        }
    }
    ready(handle, work, listener.as_ref().map(|(_, address)| *address))?;
    let supervisor = Supervisor::of_environment();
    supervisor.ready(&handle.target.describe()).await;
    let mut tasks = JoinSet::new();
    if let Some((listener, _)) = listener {
        tasks.spawn(metrics::serve(listener, worker.monitor()));
    }
    tasks.spawn(supervisor.clone().watch(worker.monitor()));
    stops.next().await;
    supervisor.stopping(work.drain_limit).await;
    drained(worker.drain(work.drain_limit), &mut stops, work.drain_limit).await
}

/// The one line on the standard output: programs wait for it.
fn ready(handle: &Handle, work: &Work, metrics: Option<SocketAddr>) -> Result<(), Failure> {
    let place = handle.target.describe();
    let url = metrics.map(|address| format!("http://{address}/metrics"));
    if handle.json {
        let value = json!({ "ready": place, "connections": work.connections, "metrics": url });
        output::line(value);
    } else {
        let url = url.map_or_else(String::new, |url| format!(", metrics at {url}"));
        output::line(format_args!("worker ready: {place}, {} connections{url}", work.connections));
    }
    Ok(())
}
