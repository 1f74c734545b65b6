//! `duramen fn top`: what waits, runs and ends, again and again.

use super::{
    handle::{Handle, Session},
    queue, text,
};
use crate::{context::Outcome, failure::Failure, output, parse};
use clap::Args;
use duramen_functions::inspect::Queue;
use jiff::Timestamp;
use serde::Serialize;
use std::{
    io::{IsTerminal, Write},
    process::ExitCode,
    time::Duration,
};
use tokio::time::sleep;

pub(crate) const EXAMPLES: &str = "\
Examples:
  duramen fn top
  duramen fn top --interval 10s >> top.log         a line each time when it is not a terminal
  duramen fn top --count 2 --json | tail -n 1 | jq .completed_per_s
  duramen fn top --count 1 --json | jq '.queues[] | select(.waiting > 0) | .name'
A role that is not the schema's owner sees its own instances, and no workers.";

/// Ends are counted by the server's statistics, which lag by up to a second: counting rows would cost more and more.
const FIGURES: &str = "\
    SELECT clock_timestamp() AS at, \
        (SELECT count(*) FROM df._ready) + (SELECT count(*) FROM df._queued) AS pending, \
        (SELECT count(*) FROM df._work) AS running, \
        (SELECT count(*) FROM df._activity) AS activities, \
        (SELECT count(*) FROM df._activity WHERE owner IS NOT NULL) AS activities_running, \
        (SELECT extract(epoch FROM clock_timestamp() - least((SELECT min(r.created_at) FROM df._ready r), \
            (SELECT min(q.created_at) FROM df._queued q)))::float8) AS oldest_pending_s, \
        (SELECT coalesce(sum(s.n_tup_ins), 0)::int8 FROM pg_stat_all_tables s \
         JOIN pg_inherits p ON p.inhrelid = s.relid \
         WHERE p.inhparent = 'df._done'::regclass) AS ended, \
        has_table_privilege('df._worker_epoch', 'SELECT') AS sees_workers";
const WORKERS: &str = "\
    SELECT epoch_id::text, host, extract(epoch FROM clock_timestamp() - started_at)::float8, \
        extract(epoch FROM clock_timestamp() - last_seen_at)::float8 \
    FROM df._worker_epoch ORDER BY started_at, epoch_id";
/// To the upper left, then clear from there on.
const CLEAR: &str = "\x1b[H\x1b[2J";

#[derive(Debug, Args)]
pub(crate) struct Top {
    /// How often to refresh
    #[arg(long, value_name = "SPAN", default_value = "2s", value_parser = parse::span)]
    interval: Duration,
    /// How many times to refresh [default: until Ctrl-C]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
}

/// What is seen at one moment.
#[derive(Debug, Serialize)]
struct Sample {
    at: Timestamp,
    pending: i64,
    oldest_pending_s: Option<f64>,
    running: i64,
    /// Long steps, HTTP calls and the like: waiting and running.
    activities: i64,
    activities_running: i64,
    /// Instances that ended, over all roles, since the sample before.
    completed_per_s: Option<f64>,
    queues: Vec<Queue>,
    /// Absent: this role may not see them.
    workers: Option<Vec<Worker>>,
    #[serde(skip)]
    ended: i64,
}

#[derive(Debug, Serialize)]
struct Worker {
    id: String,
    host: Option<String>,
    alive_s: f64,
    last_seen_s: f64,
}

pub(crate) async fn run(handle: &Handle, top: &Top) -> Outcome {
    let session = handle.connect().await?;
    let screen = !handle.json && std::io::stdout().is_terminal();
    let mut before: Option<Sample> = None;
    let mut left = top.count;
    loop {
        let sample = look(&session, before.as_ref()).await?;
        let text = if handle.json {
            let line = serde_json::to_string(&sample);
            line.map_err(|error| Failure::Other(format!("the figures have no JSON form: {error}")))?
        } else if screen {
            format!("{CLEAR}{}", page(handle, &sample))
        } else {
            line(&sample)
        };
        let mut out = std::io::stdout().lock();
        // A reader that has left (`| head`) ends this without an error.
        let gone = writeln!(out, "{text}").and_then(|()| out.flush()).is_err();
        drop(out);
        left = left.map(|left| left - 1);
        if gone || left == Some(0) {
            return Ok(ExitCode::SUCCESS);
        }
        before = Some(sample);
        sleep(top.interval).await;
    }
}

async fn look(session: &Session<'_>, before: Option<&Sample>) -> Result<Sample, Failure> {
    let row = session.row(FIGURES, &[]).await?;
    let at: Timestamp = row.get("at");
    let ended: i64 = row.get("ended");
    let completed_per_s = before.map(|before| {
        let seconds = text::between(before.at, at).as_secs_f64();
        // Partitions that were dropped take their counts along.
        let new = (ended - before.ended).max(0) as f64;
        if seconds > 0.0 {
            (10.0 * new / seconds).round() / 10.0
        } else {
            0.0
        }
    });
    let queues = queue::read(session).await?;
    let workers = if row.get("sees_workers") {
        let rows = session.rows(WORKERS, &[]).await?;
        let worker = |row: &tokio_postgres::Row| Worker {
            id: row.get(0),
            host: row.get(1),
            alive_s: row.get(2),
            last_seen_s: row.get(3),
        };
        Some(rows.iter().map(worker).collect())
    } else {
        None
    };
    Ok(Sample {
        at,
        pending: row.get("pending"),
        oldest_pending_s: row.get("oldest_pending_s"),
        running: row.get("running"),
        activities: row.get("activities"),
        activities_running: row.get("activities_running"),
        completed_per_s,
        queues,
        workers,
        ended,
    })
}

fn rate(sample: &Sample) -> String {
    sample.completed_per_s.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.0}/s"))
}

fn oldest(sample: &Sample) -> String {
    sample.oldest_pending_s.map_or_else(|| "-".to_owned(), text::seconds)
}

fn line(sample: &Sample) -> String {
    let workers = match &sample.workers {
        None => "unknown".to_owned(),
        Some(workers) => {
            let latest = workers.iter().map(|worker| worker.last_seen_s).fold(f64::INFINITY, f64::min);
            let heard = if latest.is_finite() {
                format!(" (heard {} ago)", text::seconds(latest))
            } else {
                String::new()
            };
            format!("{}{heard}", workers.len())
        }
    };
    let queues = match queue::line(&sample.queues) {
        line if line.is_empty() => line,
        line => format!("  queues {line}"),
    };
    format!(
        "{}  pending {} (oldest {})  running {}  activities {}  completed {}  workers {workers}{queues}",
        output::time(sample.at),
        sample.pending,
        oldest(sample),
        sample.running,
        sample.activities,
        rate(sample),
    )
}

fn page(handle: &Handle, sample: &Sample) -> String {
    let figures = output::pairs([
        ("database", format!("{}  {}", handle.target.describe(), output::time(sample.at))),
        ("pending", format!("{}, the oldest {}", sample.pending, oldest(sample))),
        ("running", sample.running.to_string()),
        ("activities", format!("{}, of which {} run", sample.activities, sample.activities_running)),
        ("completed", rate(sample)),
    ]);
    let workers = match &sample.workers {
        None => "this role may not see the workers".to_owned(),
        Some(workers) if workers.is_empty() => {
            "no worker runs here; start one with `duramen fn worker URL`".to_owned()
        }
        Some(workers) => output::table(
            ["WORKER", "HOST", "ALIVE", "HEARD"],
            workers.iter().map(|worker| {
                [
                    text::short(&worker.id, 36),
                    text::cell(worker.host.as_deref(), 40),
                    text::seconds(worker.alive_s),
                    format!("{} ago", text::seconds(worker.last_seen_s)),
                ]
            }),
        ),
    };
    let queues = if sample.queues.is_empty() { String::new() } else { queue::fullest(&sample.queues) + "\n" };
    format!("{figures}\n{queues}{workers}")
}
