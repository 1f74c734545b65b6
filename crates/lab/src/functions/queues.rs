//! Queues: what an instance costs that comes through one, and whether a backlog in one queue slows another.

use std::sync::Arc;
use std::time::Duration;

use duramen_measure::evidence::{Evidence, Measurement};
use duramen_measure::histogram::LatencyHistogram;

use super::bench::{Bench, BATCH, TRIVIAL};
use super::error::database;
use super::load::{closed, Expect, Tally, Work};
use duramen_functions::client::{Client, Waiter};
use duramen_reports::suite::SuiteError;

/// The sessions that compare instances with and without a queue.
const SESSIONS: usize = 32;
/// The sessions beside a backlog: few, so that it is the queue that takes the time, and not the processors.
const BESIDE: usize = 4;
/// How often each side is measured, by turns.
const TURNS: usize = 3;
/// The queue through which the load goes. It has a limit, which the load does not reach.
const OPEN: &str = "open";
/// The queue in which everything waits: it lets one in a day.
const FULL: &str = "full";
const DRAIN: Duration = Duration::from_secs(120);

pub(crate) async fn measure(bench: &mut Bench<'_>, evidence: &mut Evidence) -> Result<(), SuiteError> {
    bench.worker_up().await?;
    let client = bench.clients(1).await?.remove(0);
    let waiter = bench.waiter().await?;
    bench.say("instances without a queue, and none there");
    let plain = Work::new(TRIVIAL, Expect::Row);
    let queued = Work { queue: Some(OPEN), ..Work::new(TRIVIAL, Expect::Row) };
    let before = rate(bench, &waiter, &plain).await?;
    run(&client, &format!("SELECT df.queue('{OPEN}', concurrency => 1000)")).await?;
    run(&client, &format!("SELECT df.queue('{FULL}', rate => 1, per => interval '1 day')")).await?;
    // By turns: the machine's speed changes.
    bench.say("instances without a queue, beside queues, and through one");
    let (mut beside, mut through) = (0.0, 0.0);
    for _ in 0..TURNS {
        beside += rate(bench, &waiter, &plain).await? / TURNS as f64;
        through += rate(bench, &waiter, &queued).await? / TURNS as f64;
    }
    for (name, per_s) in [("no_queues", before), ("beside_queues", beside), ("through_a_queue", through)] {
        evidence.measurements.push(Measurement::scalar(format!("queues_per_s/{name}"), "1/s", per_s));
    }
    evidence.measurements.push(Measurement::scalar("queue_rate_share", "x", through / beside.max(1e-9)));
    backlog(bench, evidence, &client, &waiter, &queued).await
}

/// A second and the slice of a rung at most: there are many turns.
fn slice(bench: &Bench<'_>) -> Duration {
    bench.sizes.slice.min(Duration::from_secs(2))
}

async fn rate(bench: &mut Bench<'_>, waiter: &Arc<Waiter>, work: &Work) -> Result<f64, SuiteError> {
    let clients = bench.clients(SESSIONS).await?;
    let (tally, elapsed) = closed(&clients, waiter, work, slice(bench)).await;
    bench.note_failed("queues", &tally);
    bench.drained("the end of a turn", DRAIN).await?;
    Ok(tally.completed as f64 / elapsed.as_secs_f64().max(1e-9))
}

/// Instances through one queue, without and then beside many that wait in another one.
async fn backlog(
    bench: &mut Bench<'_>,
    evidence: &mut Evidence,
    client: &Client,
    waiter: &Arc<Waiter>,
    work: &Work,
) -> Result<(), SuiteError> {
    let before = latencies(bench, waiter, work).await?;
    bench.say("a backlog in another queue");
    let count = bench.sizes.queued;
    for part in (0..count).step_by(BATCH * 10) {
        let many = (count - part).min(BATCH * 10);
        run(
            client,
            &format!(
                "SELECT count(*) FROM df.start_many(array_fill('{TRIVIAL}'::text, ARRAY[{many}]), queue => '{FULL}')"
            ),
        )
        .await?;
    }
    let beside = latencies(bench, waiter, work).await?;
    let ratio = beside.quantile(0.5).as_secs_f64() / before.quantile(0.5).as_secs_f64().max(1e-9);
    evidence.configure("queued", count);
    evidence.measurements.push(Measurement::from_histogram("through_a_queue_ms/alone", &before));
    evidence.measurements.push(Measurement::from_histogram("through_a_queue_ms/beside_a_backlog", &beside));
    evidence.measurements.push(Measurement::scalar("beside_a_backlog", "x", ratio));
    // What still waits is not to be waited for.
    let inside = bench.inside().await?;
    inside
        .batch_execute("TRUNCATE df._queued; DELETE FROM df._slot; DELETE FROM df._queue")
        .await
        .map_err(database("empty the queues"))
}

async fn latencies(
    bench: &mut Bench<'_>,
    waiter: &Arc<Waiter>,
    work: &Work,
) -> Result<LatencyHistogram, SuiteError> {
    let clients = bench.clients(BESIDE).await?;
    let (tally, _): (Tally, _) = closed(&clients, waiter, work, bench.sizes.slice).await;
    bench.note_failed("beside a backlog", &tally);
    Ok(tally.latencies)
}

async fn run(client: &Client, sql: &str) -> Result<(), SuiteError> {
    client.raw().batch_execute(sql).await.map_err(database("make and fill queues"))
}
