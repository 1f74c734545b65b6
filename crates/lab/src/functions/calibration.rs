//! What one trivial instance costs: time, round trips, commits, bytes of the log.

use std::time::Duration;

use duramen_base::clock;
use duramen_measure::evidence::{Evidence, Measurement, Severity};
use duramen_measure::histogram::LatencyHistogram;

use super::bench::{Bench, DATABASE, TRIVIAL};
use super::counters::Counters;
use super::error::database;
use super::load::{closed, Expect, Tally, Work};
use super::statements::{count_statements, length, written_since};
use super::throughput::note_rung;
use super::waits::Waits;
use duramen_reports::suite::SuiteError;

/// The concurrency at which costs are amortised.
const AMORTISED: usize = 32;
/// More starts than this tell nothing more.
const STARTS_MAX: u64 = 20_000;
/// How long statements are logged, at most: it is the counts that matter.
const LOGGED: Duration = Duration::from_secs(1);
/// What was started without being waited for has ended within this.
const DRAIN: Duration = Duration::from_secs(120);

pub(crate) async fn measure(bench: &mut Bench<'_>, evidence: &mut Evidence) -> Result<(), SuiteError> {
    let slice = bench.sizes.slice;
    bench.worker_up().await?;
    bench.say("warming up");
    let waiter = bench.waiter().await?;
    let trivial = Work::new(TRIVIAL, Expect::Row);
    let (tally, _) = closed(&bench.clients(AMORTISED).await?, &waiter, &trivial, slice / 4).await;
    bench.note_failed("warming up", &tally);

    bench.say("one session starts");
    bench.sync_floor()?;
    serial_starts(bench, evidence, slice).await?;
    bench.drained("the starts of one session", DRAIN).await?;

    bench.say("one session, end to end");
    let (tally, elapsed) = closed(&bench.clients(1).await?, &waiter, &trivial, slice).await;
    note_rung(bench, evidence, 1, &tally, elapsed);
    bench.sync_floor()?;
    drop(waiter);

    bench.say("counting commits and bytes of the log");
    count_costs(bench, evidence, slice).await?;
    bench.say("counting statements");
    count_round_trips(bench, evidence, slice.min(LOGGED)).await
}

/// Starts alone, one after the other.
async fn serial_starts(
    bench: &mut Bench<'_>,
    evidence: &mut Evidence,
    slice: Duration,
) -> Result<(), SuiteError> {
    let client = bench.clients(1).await?.remove(0);
    let mut starts = LatencyHistogram::new();
    let begin = clock::now();
    while begin.elapsed() < slice && starts.count() < STARTS_MAX {
        let start = clock::now();
        let started = client.start(TRIVIAL, None).await;
        started.map_err(database("start an instance"))?;
        starts.record(start.elapsed());
    }
    evidence.measurements.push(Measurement::from_histogram("start_ms", &starts));
    Ok(())
}

/// Commits and bytes from the starts to the stored results. Every session begins and ends between the two readings, so
/// that nothing is missing; what they need to connect is counted with the rest.
async fn count_costs(
    bench: &mut Bench<'_>,
    evidence: &mut Evidence,
    slice: Duration,
) -> Result<(), SuiteError> {
    bench.worker_down().await?;
    let before = Counters::read(bench).await?;
    bench.worker_up().await?;
    let (tally, waits) = watched(bench, slice).await?;
    bench.worker_down().await?;
    let after = Counters::read(bench).await?;
    bench.worker_up().await?;
    let instances = tally.completed.max(1) as f64;
    let commits = (after.commits - before.commits) as f64 / instances;
    let bytes = (after.log_bytes - before.log_bytes) as f64 / instances;
    evidence.measurements.push(Measurement::scalar("commits_per_instance", "commits", commits));
    evidence.measurements.push(Measurement::scalar("wal_bytes_per_instance", "bytes", bytes));
    let text = format!(
        "Commits and bytes were counted over {} instances at concurrency {AMORTISED}, from the start to the stored \
         result: xact_commit of pg_stat_database (which counts read-only transactions and the looks of the worker \
         too; {} were rolled back) and pg_current_wal_insert_lsn, read while no session was connected. Reading a \
         result is one more transaction, which writes nothing.",
        tally.completed,
        after.rollbacks - before.rollbacks
    );
    evidence.find("how_costs_were_counted", Severity::Info, None, text);
    if let Some(waits) = waits.in_words() {
        let text =
            format!("At concurrency {AMORTISED} the active sessions of the server were seen in: {waits}.");
        evidence.find("waits", Severity::Info, None, text);
    }
    read_results(bench, &tally).await
}

/// A closed loop that does not read results, with a look at what the server waits for.
async fn watched(bench: &mut Bench<'_>, slice: Duration) -> Result<(Tally, Waits), SuiteError> {
    let waiter = bench.waiter().await?;
    let clients = bench.clients(AMORTISED).await?;
    let later = Work::new(TRIVIAL, Expect::Later);
    let mut waits = Waits::default();
    let tally = tokio::select! {
        (tally, _) = closed(&clients, &waiter, &later, slice) => tally,
        failed = waits.watch(bench) => {
            failed?;
            Tally::default()
        }
    };
    bench.note_failed("costs", &tally);
    Ok((tally, waits))
}

/// Reads all results that were left for later, and notes those that are not there.
async fn read_results(bench: &mut Bench<'_>, tally: &Tally) -> Result<(), SuiteError> {
    let client = bench.clients(1).await?.remove(0);
    let row = client
        .raw()
        .query_one(
            "SELECT count(*) FROM unnest($1::text[]) AS started(id)
             WHERE (df.result(id)::json ->> 'row_count') IS DISTINCT FROM '1'",
            &[&tally.ids],
        )
        .await
        .map_err(database("read results"))?;
    let missing: i64 = row.get(0);
    if missing > 0 {
        bench.note_failure(format!("{missing} of {} results cannot be read", tally.ids.len()));
    }
    Ok(())
}

/// Statements that were sent, by the server's log, of a short load.
async fn count_round_trips(
    bench: &mut Bench<'_>,
    evidence: &mut Evidence,
    how_long: Duration,
) -> Result<(), SuiteError> {
    log_statements(bench, true).await?;
    let waiter = bench.waiter().await?;
    let clients = bench.clients(AMORTISED).await?;
    let log = bench.server.log();
    let unreadable = |path: &std::path::Path| SuiteError::file("read the server's log", path);
    let from = length(&log).map_err(unreadable(&log))?;
    let trivial = Work::new(TRIVIAL, Expect::Row);
    let (tally, _) = closed(&clients, &waiter, &trivial, how_long).await;
    bench.note_failed("round trips", &tally);
    let text = written_since(&log, from).map_err(unreadable(&log))?;
    drop(waiter);
    log_statements(bench, false).await?;
    let counted = count_statements(&text);
    let instances = tally.completed.max(1) as f64;
    let (clients, worker) = (counted.clients as f64 / instances, counted.worker as f64 / instances);
    evidence.measurements.push(Measurement::scalar(
        "round_trips_per_instance",
        "statements",
        clients + worker,
    ));
    let text = format!(
        "Of {:.2} round trips an instance, {clients:.2} are the client's (df.start, and a share of df.results, \
         which reads what has ended together; notifications cost none) and {worker:.2} the worker's, counted at concurrency {AMORTISED} over {} instances as \
         the statements in the server's log under log_statement = all. Statements that are sent together are counted \
         apart, so it may be less.",
        clients + worker,
        tally.completed
    );
    evidence.find("how_round_trips_were_counted", Severity::Info, Some(clients + worker), text);
    Ok(())
}

/// Lets the server log every statement of the measured database, or not, and starts the worker anew, because only new
/// sessions do as the database says.
pub(crate) async fn log_statements(bench: &mut Bench<'_>, on: bool) -> Result<(), SuiteError> {
    bench.worker_down().await?;
    let change = if on { "SET log_statement = 'all'" } else { "RESET log_statement" };
    let observer = bench.observer().await?;
    observer
        .batch_execute(&format!("ALTER DATABASE {DATABASE} {change}"))
        .await
        .map_err(database("change what the server logs"))?;
    bench.worker_up().await
}
