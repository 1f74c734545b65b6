//! More work than the worker has hands: slow steps, trivial instances beside them, and a backlog.

use std::time::Duration;

use duramen_base::clock;
use duramen_measure::evidence::{Evidence, Measurement};

use super::bench::{Bench, TRIVIAL};
use super::checks;
use super::error::database;
use super::load::{closed, Expect, Work};
use duramen_reports::suite::SuiteError;

const SLOW: &str = "SELECT pg_sleep(0.1)";
const SLOW_S: f64 = 0.1;
/// How often such a step is timed alone.
const ALONE: usize = 10;
/// Sessions that start trivial instances beside slow ones.
const BESIDE: usize = 4;
const DRAIN: Duration = Duration::from_secs(300);

pub(crate) async fn measure(bench: &mut Bench<'_>, evidence: &mut Evidence) -> Result<(), SuiteError> {
    bench.worker_up().await?;
    bench.say("slow steps on all connections");
    parallelism(bench, evidence).await?;
    bench.say("trivial instances beside slow ones");
    starvation(bench, evidence).await?;
    bench.say("a backlog");
    backlog(bench, evidence).await
}

/// How many slow steps a connection gets in a rung, so that beginning and end weigh little.
fn rounds(bench: &Bench<'_>) -> usize {
    ((bench.sizes.slice.as_secs_f64() / SLOW_S) as usize).clamp(20, 100)
}

/// How many slow steps are at work at once: how long they take one after the other, over how long they took. Once with a worker
/// that has run none before, and has to find out that they are slow and open its sessions, and once with the same one.
async fn parallelism(bench: &mut Bench<'_>, evidence: &mut Evidence) -> Result<(), SuiteError> {
    let alone = Measurement::from_values("slow_step_ms", "ms", &slow_alone(bench).await?);
    let count = bench.options.connections * rounds(bench);
    for name in ["effective_parallelism/first", "effective_parallelism"] {
        let begin = clock::now();
        bench.start_many(SLOW, "slow", count).await?;
        bench.drained("slow steps", DRAIN).await?;
        let parallelism = count as f64 * alone.p50 / clock::ms(begin.elapsed());
        evidence.measurements.push(Measurement::scalar(name, "steps at once", parallelism));
    }
    evidence.measurements.push(alone);
    Ok(())
}

/// What a slow step takes the server by itself, in milliseconds: it sleeps for a little longer than it is told.
async fn slow_alone(bench: &Bench<'_>) -> Result<Vec<f64>, SuiteError> {
    let inside = bench.inside().await?;
    let mut took = Vec::with_capacity(ALONE);
    for _ in 0..ALONE {
        // Timed where it runs: the way there and back is the worker's to save.
        let timed = "WITH began AS MATERIALIZED (SELECT clock_timestamp() AS at)
            SELECT (extract(epoch FROM clock_timestamp() - slept.at) * 1e3)::float8
            FROM (SELECT began.at, pg_sleep($1) FROM began OFFSET 0) AS slept(at, nothing)";
        let row = inside.query_one(timed, &[&SLOW_S]).await.map_err(database("time a slow step"))?;
        took.push(row.get(0));
    }
    Ok(took)
}

/// Trivial instances that come after a queue of slow ones.
async fn starvation(bench: &mut Bench<'_>, evidence: &mut Evidence) -> Result<(), SuiteError> {
    let rounds = rounds(bench);
    let waiter = bench.waiter().await?;
    let clients = bench.clients(BESIDE).await?;
    bench.start_many(SLOW, "queue", bench.options.connections * rounds).await?;
    // The queue lasts at least this long: there are no more connections than that.
    let lasts = Duration::from_secs_f64(rounds as f64 * SLOW_S * 0.75);
    let trivial = Work::new(TRIVIAL, Expect::Row);
    let (tally, _) = closed(&clients, &waiter, &trivial, lasts).await;
    let inside = bench.inside().await?;
    let left: i64 = inside
        .query_one(
            "SELECT count(*) FROM df.instances WHERE label = 'queue' AND status IN ('pending', 'running')",
            &[],
        )
        .await
        .map_err(database("count the queue"))?
        .get(0);
    bench.note_failed("beside slow ones", &tally);
    evidence.measurements.push(Measurement::from_histogram("beside_slow_ms", &tally.latencies));
    evidence.checks.push(checks::no_starvation(tally.completed, left));
    bench.drained("the queue of slow steps", DRAIN).await
}

/// Many instances that wait when the worker begins.
async fn backlog(bench: &mut Bench<'_>, evidence: &mut Evidence) -> Result<(), SuiteError> {
    bench.worker_down().await?;
    let count = bench.sizes.backlog;
    bench.start_many(TRIVIAL, "backlog", count).await?;
    let inside = bench.inside().await?;
    let failed = || database("read when the backlog was done");
    let begin = inside.query_one("SELECT extract(epoch FROM clock_timestamp())::float8", &[]).await;
    let begin: f64 = begin.map_err(failed())?.get(0);
    bench.worker_up().await?;
    bench.drained("the backlog", DRAIN).await?;
    let row = inside
        .query_one(
            "SELECT count(completed_at), coalesce(extract(epoch FROM min(completed_at))::float8, 0),
                coalesce(extract(epoch FROM max(completed_at))::float8, 0),
                coalesce(percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM completed_at)::float8), 0),
                coalesce((array_agg(extract(epoch FROM completed_at)::float8 ORDER BY created_at, id))[1], 0)
             FROM df.instances WHERE label = 'backlog'",
            &[],
        )
        .await
        .map_err(failed())?;
    let done: i64 = row.get(0);
    let [first, last, middle, oldest] = [1, 2, 3, 4].map(|column| row.get::<_, f64>(column));
    if done != count as i64 {
        bench.note_failure(format!("{done} of the {count} instances of the backlog have completed"));
    }
    let took = (last - first).max(1e-3);
    evidence.measurements.push(Measurement::scalar("drain_per_s", "1/s", done as f64 / took));
    evidence.measurements.push(Measurement::scalar("oldest_ms", "ms", (oldest - begin).max(0.0) * 1e3));
    let half = ((middle - first) / took).clamp(0.0, 1.0);
    evidence.measurements.push(Measurement::scalar("backlog_half_done_at", "ratio", half));
    Ok(())
}
