//! How many trivial instances a second: closed loops of growing concurrency, and starts alone.

use std::time::Duration;

use duramen_base::clock;
use duramen_measure::evidence::{Evidence, Measurement};
use tokio::task::JoinSet;

use super::bench::{Bench, BATCH, TRIVIAL};
use super::error::database;
use super::load::{closed, Expect, Tally, Work};
use duramen_reports::suite::SuiteError;

/// The concurrencies above one, which the calibration has measured.
const RUNGS: [usize; 5] = [4, 8, 16, 32, 128];
/// The concurrency at which it is looked who uses the processors.
const LOOKED_AT: usize = 32;
/// Sessions that only start.
const STARTERS: usize = 16;
/// Bulk starts go on no longer than this: what they start must be done, too.
const BULK: Duration = Duration::from_secs(1);
/// A backlog is done within this.
const DRAIN: Duration = Duration::from_secs(180);

pub(crate) async fn measure(bench: &mut Bench<'_>, evidence: &mut Evidence) -> Result<(), SuiteError> {
    bench.worker_up().await?;
    let waiter = bench.waiter().await?;
    let trivial = Work::new(TRIVIAL, Expect::Row);
    let slice = bench.sizes.slice;
    let mut rates = Vec::new();
    for rung in RUNGS {
        bench.say(&format!("{rung} sessions, end to end"));
        let clients = bench.clients(rung).await?;
        bench.sync_floor()?;
        let before = bench.cpu_times();
        let (tally, elapsed) = closed(&clients, &waiter, &trivial, slice).await;
        let after = bench.cpu_times();
        if rung == LOOKED_AT {
            note_processors(evidence, before, after, elapsed);
        }
        note_rung(bench, evidence, rung, &tally, elapsed);
        rates.push(tally.completed as f64 / elapsed.as_secs_f64().max(1e-9));
        bench.drained("the end of a rung", DRAIN).await?;
    }
    drop(waiter);
    if let [.., before, last] = rates[..] {
        let over = Measurement::scalar("completed_128_over_32", "x", last / f64::max(before, 1e-9));
        evidence.measurements.push(over);
    }
    bench.say(&format!("{STARTERS} sessions start"));
    let per_s = starts(bench, slice).await?;
    evidence.measurements.push(Measurement::scalar("started_per_s", "1/s", per_s));
    bench.drained("what was started", DRAIN).await?;
    bench.say("starts in bulk");
    let per_s = bulk_starts(bench, slice.min(BULK)).await?;
    evidence.measurements.push(Measurement::scalar("bulk_started_per_s", "1/s", per_s));
    bench.drained("what was started in bulk", DRAIN).await?;
    Ok(())
}

/// Notes the figures of one concurrency.
pub(crate) fn note_rung(
    bench: &mut Bench<'_>,
    evidence: &mut Evidence,
    rung: usize,
    tally: &Tally,
    elapsed: Duration,
) {
    let per_s = tally.completed as f64 / elapsed.as_secs_f64().max(1e-9);
    evidence.measurements.push(Measurement::scalar(format!("completed_per_s/c={rung}"), "1/s", per_s));
    evidence
        .measurements
        .push(Measurement::from_histogram(format!("end_to_end_ms/c={rung}"), &tally.latencies));
    evidence.measurements.push(Measurement::from_histogram(format!("start_ms/c={rung}"), &tally.starts));
    bench.note_failed(&format!("concurrency {rung}"), tally);
}

/// Notes how many cores each part used.
fn note_processors(evidence: &mut Evidence, before: [Duration; 3], after: [Duration; 3], elapsed: Duration) {
    for (index, name) in ["postgres", "worker", "load"].into_iter().enumerate() {
        let used = after[index].saturating_sub(before[index]).as_secs_f64();
        let cores = used / elapsed.as_secs_f64().max(1e-9);
        evidence.measurements.push(Measurement::scalar(format!("cores_used/{name}"), "cores", cores));
    }
}

/// Starts per second of sessions that wait for nothing, while the worker runs what they start.
async fn starts(bench: &mut Bench<'_>, slice: Duration) -> Result<f64, SuiteError> {
    let sessions = bench.clients(STARTERS).await?;
    let begin = clock::now();
    let mut running = JoinSet::new();
    for session in sessions {
        running.spawn(async move {
            let mut started = 0_u64;
            while begin.elapsed() < slice {
                session.start(TRIVIAL, None).await?;
                started += 1;
            }
            Ok(started)
        });
    }
    let mut started = 0;
    while let Some(ended) = running.join_next().await {
        // A session that panicked has shown why.
        let Ok(ended) = ended else { continue };
        started += ended.map_err(database::<duramen_functions::client::ClientError>("start instances"))?;
    }
    Ok(started as f64 / begin.elapsed().as_secs_f64())
}

/// Instances per second that one session starts with `df.start_many`, a thousand a call.
async fn bulk_starts(bench: &mut Bench<'_>, most: Duration) -> Result<f64, SuiteError> {
    let client = bench.clients(1).await?.remove(0);
    let graphs = [TRIVIAL; BATCH];
    let mut started = 0;
    let begin = clock::now();
    while begin.elapsed() < most {
        let ids = client.start_many(&graphs).await;
        started += ids.map_err(database("start many instances"))?.len();
    }
    Ok(started as f64 / begin.elapsed().as_secs_f64())
}
