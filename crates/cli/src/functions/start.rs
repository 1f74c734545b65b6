//! `duramen fn start`.

use super::{ending, graph, handle::Handle};
use crate::{context::Outcome, failure::Failure, parse};
use clap::Args;
use duramen_functions::client::Waiter;
use duramen_functions::cluster::{Cluster, ClusterError};
use serde_json::json;
use std::time::Duration;
use tokio_postgres::types::Type;

pub(crate) const EXAMPLES: &str = "\
Examples:
  duramen fn start 'SELECT 1'                          prints the id of the instance
  duramen fn start 'SELECT count(*) FROM t' --wait     prints the result
  duramen fn start \"'INSERT INTO t VALUES (1)' ~> df.sleep(60) ~> 'DELETE FROM t'\" --label tidy
  duramen fn start 'SELECT $input.city' --input '{\"city\": \"Oslo\"}' --wait --timeout 30s
  duramen fn start - --key order-4711 < order.sql      a second start with this key starts nothing
  duramen fn start 'SELECT send(7)' --queue mail --priority 1
  duramen fn start 'SELECT remind(7)' --delay 24h
  duramen fn start 'SELECT 1' --shard any              on any shard of the cluster that is open
  duramen fn start 'REFRESH MATERIALIZED VIEW v' --dedup v --debounce 10s    the last of many starts wins";

const START: &str = "SELECT df.start($1, $2, $3, 'caller', $4::text::jsonb, $5, queue => $6, priority => $7, \
    partition => $8, dedup => $9, delay => make_interval(secs => $10), debounce => make_interval(secs => $11))";

#[derive(Debug, Args)]
pub(crate) struct Start {
    /// SQL, an expression such as "'SELECT 1' ~> 'SELECT 2'", or an envelope; `-` reads it from the standard input
    graph: String,
    /// A name to find it by
    #[arg(long, value_name = "TEXT")]
    label: Option<String>,
    /// The database on the same server in which its steps run [default: the connected one]
    #[arg(long, value_name = "NAME")]
    database: Option<String>,
    /// What its steps see as $input
    #[arg(long, value_name = "JSON", value_parser = json_text, allow_hyphen_values = true)]
    input: Option<String>,
    /// A key of this start: a second one with the same key returns the id of the first
    #[arg(long, value_name = "TEXT")]
    key: Option<String>,
    /// The queue in which it waits until there is room
    #[arg(long, value_name = "NAME", help_heading = "Queue")]
    queue: Option<String>,
    /// Its place in the queue: the smallest number is first [default: 0]
    #[arg(long, value_name = "N", allow_hyphen_values = true, help_heading = "Queue")]
    priority: Option<i32>,
    /// Its part of the queue; parts are served in turn
    #[arg(long, value_name = "TEXT", help_heading = "Queue")]
    partition: Option<String>,
    /// A key that it has as long as it waits or goes on in the queue: a second start gives its id
    #[arg(long, value_name = "TEXT", help_heading = "Queue")]
    dedup: Option<String>,
    /// Begin no earlier than this time from now
    #[arg(long, value_name = "SPAN", value_parser = parse::span, help_heading = "Queue")]
    delay: Option<Duration>,
    /// As --delay; another start with the same --dedup takes its place and begins the time anew
    #[arg(long, value_name = "SPAN", value_parser = parse::span, requires = "dedup", conflicts_with = "delay", help_heading = "Queue")]
    debounce: Option<Duration>,
    /// The shard on which it is started; `any`: one that is open, or with --key the key's own [default: the connected database]
    #[arg(long, value_name = "SHARD", value_parser = which)]
    shard: Option<Which>,
    /// Wait for its end and print its result; exit status 1 if it did not complete
    #[arg(long)]
    wait: bool,
    /// How long to wait [default: for ever]
    #[arg(long, value_name = "SPAN", value_parser = parse::span, requires = "wait")]
    timeout: Option<Duration>,
}

/// A shard of the cluster.
#[derive(Debug, Clone, Copy)]
enum Which {
    Any,
    Number(u16),
}

fn which(text: &str) -> Result<Which, String> {
    match text {
        "any" => Ok(Which::Any),
        number => number
            .parse()
            .map(Which::Number)
            .map_err(|_| format!("{text:?} is neither a shard number nor `any`")),
    }
}

/// The database of a shard.
async fn placed(handle: &Handle, which: Which, key: Option<&str>) -> Result<Handle, Failure> {
    let cluster = Cluster::read(&handle.url).await?;
    let number = match (which, key) {
        (Which::Number(number), _) => number,
        (Which::Any, Some(key)) => cluster.home(key)?,
        (Which::Any, None) => cluster.any_open()?.number,
    };
    let missing = ClusterError::NoShard { number, version: cluster.version() };
    let target = cluster.target_of(cluster.shard(number).ok_or(missing)?)?;
    Ok(Handle { url: target.exposed(), target, json: handle.json })
}

fn json_text(text: &str) -> Result<String, String> {
    let valid: Result<serde::de::IgnoredAny, _> = serde_json::from_str(text);
    match valid {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(format!("{text:?} is not JSON: {error}")),
    }
}

pub(crate) async fn run(handle: Handle, start: Start) -> Outcome {
    let text = graph::text(start.graph)?;
    let handle = &match start.shard {
        None => handle,
        Some(which) => placed(&handle, which, start.key.as_deref()).await?,
    };
    let session = handle.connect().await?;
    let graph = graph::evaluated(&session, text).await?;
    // Who listens before the start misses no end.
    let waiter = if start.wait { Some(Waiter::connect(&handle.url).await?) } else { None };
    let row = session
        .row(
            START,
            &[
                (&graph, Type::TEXT),
                (&start.label, Type::TEXT),
                (&start.database, Type::TEXT),
                (&start.input, Type::TEXT),
                (&start.key, Type::TEXT),
                (&start.queue, Type::TEXT),
                (&start.priority, Type::INT4),
                (&start.partition, Type::TEXT),
                (&start.dedup, Type::TEXT),
                (&start.delay.map(|delay| delay.as_secs_f64()), Type::FLOAT8),
                (&start.debounce.map(|debounce| debounce.as_secs_f64()), Type::FLOAT8),
            ],
        )
        .await?;
    let id: String = row.get(0);
    match waiter {
        None => handle.say(&json!({ "id": id }), &id),
        Some(waiter) => {
            let ending = ending::after(&session, &waiter, &id, start.timeout).await?;
            ending.report(handle)
        }
    }
}
