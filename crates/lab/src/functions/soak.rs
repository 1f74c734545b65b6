//! The same load for long, with a snapshot held open for the second half of it: nothing may drift.

use std::sync::Arc;
use std::time::Duration;

use duramen_base::clock;
use duramen_measure::evidence::{Evidence, Measurement};
use tokio::task::JoinSet;

use super::bench::{Bench, TRIVIAL};
use super::error::database;
use super::load::{closed, over_and_over, Book, Expect, Work};
use duramen_reports::suite::SuiteError;

/// Sessions with trivial instances.
const TRIVIALS: usize = 6;
/// Sessions with instances that sleep for a moment, and so are stored between two turns.
const SLEEPERS: usize = 2;
const SLEEPER: &str = "df.seq(df.sleep(0.05), 'SELECT 1')";
pub(super) const QUARTERS: u32 = 4;
/// How often the tables are looked at.
const LOOK: Duration = Duration::from_millis(500);
/// What has warmed up before the first quarter.
const WARM_UP: Duration = Duration::from_secs(2);
const DRAIN: Duration = Duration::from_secs(120);

pub(crate) async fn measure(bench: &mut Bench<'_>, evidence: &mut Evidence) -> Result<(), SuiteError> {
    bench.worker_up().await?;
    bench.say("warming up for the soak");
    let waiter = bench.waiter().await?;
    let trivial = Work::new(TRIVIAL, Expect::Row);
    let maker = bench.clients(1).await?.remove(0);
    let row = maker.raw().query_one(&format!("SELECT {SLEEPER}"), &[]).await;
    let graph: String = row.map_err(database("make a graph"))?.get(0);
    let sleeper = Work::new(&graph, Expect::Row);
    let (tally, _) = closed(&bench.clients(TRIVIALS).await?, &waiter, &trivial, WARM_UP).await;
    bench.note_failed("warming up for the soak", &tally);

    let whole = bench.sizes.soak;
    bench.say(&format!("soaking for {:.0} s", whole.as_secs_f64()));
    let trivials = bench.clients(TRIVIALS).await?;
    let sleepers = bench.clients(SLEEPERS).await?;
    let (book, slow_book) = (Book::new(whole, QUARTERS), Book::new(whole, QUARTERS));
    let deadline = clock::now() + whole;
    let mut running = JoinSet::new();
    for client in trivials {
        let book = Arc::clone(&book);
        running.spawn(over_and_over(client, Arc::clone(&waiter), trivial.clone(), deadline, book));
    }
    for client in sleepers {
        let book = Arc::clone(&slow_book);
        running.spawn(over_and_over(client, Arc::clone(&waiter), sleeper.clone(), deadline, book));
    }
    let bytes = watch_tables(bench, whole).await?;
    // A session that panicked has shown why.
    while running.join_next().await.is_some() {}
    bench.drained("the end of the soak", DRAIN).await?;

    if let [first, second, third, last] = bytes[..] {
        let ratio = f64::max(third, last) / f64::max(first, second).max(1.0);
        evidence.measurements.push(Measurement::scalar("hot_bytes_under_snapshot", "x", ratio));
    }
    let quarter_s = whole.as_secs_f64() / f64::from(QUARTERS);
    for (index, (tally, slow)) in book.read().into_iter().zip(slow_book.read()).enumerate() {
        let number = index + 1;
        bench.note_failed("soak", &tally);
        bench.note_failed("soak, sleeping", &slow);
        let per_s = (tally.completed + slow.completed) as f64 / quarter_s;
        let bytes = bytes.get(index).copied().unwrap_or(0.0);
        let note = &mut evidence.measurements;
        note.push(Measurement::scalar(format!("soak_completed_per_s/q{number}"), "1/s", per_s));
        note.push(Measurement::from_histogram(format!("soak_ms/q{number}"), &tally.latencies));
        note.push(Measurement::scalar(format!("hot_bytes/q{number}"), "bytes", bytes));
    }
    Ok(())
}

/// Looks at the size of the hot tables with their indexes while the load runs, and holds a snapshot open for the
/// second half. Returns the largest size in each quarter.
async fn watch_tables(bench: &Bench<'_>, whole: Duration) -> Result<Vec<f64>, SuiteError> {
    let inside = bench.inside().await?;
    let failed = || database("look at the hot tables");
    let statement = inside
        .prepare(
            "SELECT sum(pg_total_relation_size(c.oid))::bigint FROM pg_class c WHERE c.oid = ANY ('{df._ready,df._work,
                df._inbox,df._activity,df._task,df._queued,df._slot,df._admission,df._dedup}'::regclass[])",
        )
        .await
        .map_err(failed())?;
    let mut holder = None;
    let mut largest = vec![0.0; QUARTERS as usize];
    let begin = clock::now();
    while begin.elapsed() < whole {
        let part = begin.elapsed().as_secs_f64() / whole.as_secs_f64();
        if part >= 0.5 && holder.is_none() {
            let session = bench.inside().await?;
            session
                // A report over the user's own tables: who reads a hot table itself holds a lock on it.
                .batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM public.ledger")
                .await
                .map_err(failed())?;
            holder = Some(session);
        }
        let row = inside.query_one(&statement, &[]).await.map_err(failed())?;
        let quarter = ((part * f64::from(QUARTERS)) as usize).min(largest.len() - 1);
        largest[quarter] = f64::max(largest[quarter], row.get::<_, i64>(0) as f64);
        tokio::time::sleep(LOOK).await;
    }
    drop(holder);
    Ok(largest)
}
