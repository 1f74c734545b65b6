//! `duramen lab watch replication`: what commits of a live pair wait for.

use super::Documents;
use crate::{
    context::{Context, Outcome},
    failure::Failure,
    metrics::{self, Figures},
    output, parse,
    progress::Progress,
};
use clap::{Args, Subcommand};
use duramen_measure::evidence::Evidence;
use duramen_reports::suite::Suite;
use duramen_watch::{
    document::{self, StallView, Watching},
    watch::{locked, Event, State},
    Options,
};
use serde_json::json;
use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    signal::unix::{signal, SignalKind},
    time::{interval, sleep},
};

/// How often the line of the terminal is written anew.
const SHOWN: Duration = Duration::from_millis(500);

pub(super) const EXAMPLES: &str = "\
Examples:
  duramen lab watch replication --primary 'host=db1 user=watcher dbname=postgres'
  duramen lab watch replication --primary postgres://watcher@db1/postgres --standby postgres://watcher@db2/postgres
  duramen lab watch replication --primary 'host=db1 user=watcher' --for 10m --json out/watch.json --html out/watch.html
  duramen lab watch replication --primary 'host=db1 user=watcher' --metrics 127.0.0.1:9465

It puts no load on the servers and changes nothing on them. The role needs pg_monitor: CREATE ROLE watcher LOGIN;
GRANT pg_monitor TO watcher. From the primary alone it tells the stage at which commits wait (send, write, flush, replay,
or no standby at all); a standby that is named says why its replay is behind, too. It ends with Ctrl-C or after --for.

Exit status: 1 when part of the time was not seen";

#[derive(Debug, Subcommand)]
pub(crate) enum Watch {
    /// Which commits of a pair wait, at which stage, and what for
    #[command(after_help = EXAMPLES)]
    Replication(Replication),
}

#[derive(Debug, Args)]
pub(crate) struct Replication {
    /// The primary
    #[arg(long, value_name = "DSN")]
    primary: String,
    /// A standby, which says why its replay is behind; may be given several times
    #[arg(long, value_name = "DSN")]
    standby: Vec<String>,
    /// End after this time, as 90s or 10m [default: with Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = parse::span)]
    how_long: Option<Duration>,
    /// Serve figures for Prometheus and the health at this address, or at this port of the loopback interface
    #[arg(long, value_name = "ADDRESS", value_parser = metrics::address)]
    metrics: Option<SocketAddr>,
    #[command(flatten)]
    documents: Documents,
}

/// What is seen, for Prometheus.
struct Seen(Arc<Mutex<State>>);

impl Figures for Seen {
    async fn text(&self) -> String {
        duramen_watch::metrics::text(&locked(&self.0))
    }

    fn health(&self) -> Result<&'static str, String> {
        match locked(&self.0).last {
            Some(_) => Ok("ok"),
            None => Err("the primary does not answer".to_owned()),
        }
    }
}

pub(super) async fn run(context: &Context, watch: Watch) -> Outcome {
    let Watch::Replication(asked) = watch;
    let output = asked.documents.output();
    let is_dash = output.json.as_deref().is_some_and(|file| file.as_os_str() == "-");
    for file in [&output.json, &output.html].into_iter().flatten() {
        super::make_room_for(file)?;
    }
    let options = Options { primary: asked.primary, standbys: asked.standby };
    let mut watch = duramen_watch::Watch::begin(&options).await.map_err(other)?;
    let served = match asked.metrics {
        Some(address) => Some(metrics::listen(address).await?),
        None => None,
    };
    let progress = Progress::new("watching");
    let is_quiet = context.json || is_dash;
    if !is_quiet {
        let servers: Vec<&str> = watch.servers().iter().map(|(server, _)| server.as_str()).collect();
        progress.aside(|| output::line(format_args!("watching {}; Ctrl-C ends it", servers.join(", "))));
        if let Some((_, address)) = &served {
            progress.aside(|| output::line(format_args!("figures: http://{address}/metrics")));
        }
    }
    let state = watch.state();
    let figures =
        served.map(|(listener, _)| tokio::spawn(metrics::serve(listener, Seen(Arc::clone(&state)))));
    let shown = show(&progress, &state);
    let stop = stop(asked.how_long)?;
    let tell = |event: &Event| {
        if !is_quiet {
            progress.aside(|| output::line(sentence(event)));
        } else if !is_dash {
            progress.aside(|| output::line(view(event)));
        }
    };
    tokio::select! {
        () = watch.run(stop, tell) => {}
        () = shown => {}
    }
    if let Some(figures) = figures {
        figures.abort();
    }
    drop(progress);
    let evidence = document::evidence(&watch, super::command_line()).map_err(other)?;
    write(&output.json, &output.html, is_dash, &evidence)?;
    super::file(&context.home, &evidence);
    if is_dash {
        output::json(&evidence)?;
    } else if context.json {
        output::line(json!({ "ended": &evidence }));
    } else {
        output::line(format_args!("\n{}", Watching.table(&evidence).trim_end()));
        for file in [&output.json, &output.html].into_iter().flatten() {
            output::line(format_args!("written: {}", file.display()));
        }
    }
    Ok(super::verdict_code(&evidence))
}

fn write(
    document: &Option<std::path::PathBuf>,
    page: &Option<std::path::PathBuf>,
    is_dash: bool,
    evidence: &Evidence,
) -> Result<(), Failure> {
    if let Some(file) = document.as_ref().filter(|_| !is_dash) {
        evidence.write(file).map_err(other)?;
    }
    if let Some(file) = page {
        Watching.page(evidence).write(file).map_err(other)?;
    }
    Ok(())
}

/// Ends after a time, or with the first signal.
fn stop(how_long: Option<Duration>) -> Result<impl std::future::Future<Output = ()>, Failure> {
    let listen = |kind| signal(kind).map_err(other);
    let (mut interrupted, mut terminated) =
        (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
    let limit = async move {
        match how_long {
            Some(limit) => sleep(limit).await,
            None => std::future::pending().await,
        }
    };
    Ok(async move {
        tokio::select! {
            _ = interrupted.recv() => {}
            _ = terminated.recv() => {}
            () = limit => {}
        }
    })
}

/// Says what is now, for ever.
async fn show(progress: &Progress, state: &Mutex<State>) {
    let mut ticks = interval(SHOWN);
    loop {
        ticks.tick().await;
        progress.step(&document::status(&locked(state)), None);
    }
}

fn sentence(event: &Event) -> String {
    let now = output::time(duramen_base::clock::utc_now());
    match event {
        Event::Begun(stall) => format!("{now}  stalled for {}", document::sentence(stall)),
        Event::Ended(stall) => format!("{now}  over after {}", document::sentence(stall)),
        Event::Lost(why) => format!("{now}  the primary does not answer: {why}"),
        Event::Found => format!("{now}  the primary answers again"),
    }
}

fn view(event: &Event) -> serde_json::Value {
    match event {
        Event::Begun(stall) => json!({ "begun": StallView::of(stall) }),
        Event::Ended(stall) => json!({ "stall": StallView::of(stall) }),
        Event::Lost(why) => json!({ "lost": why }),
        Event::Found => json!({ "found": true }),
    }
}

fn other(error: impl std::fmt::Display) -> Failure {
    Failure::Other(error.to_string())
}
