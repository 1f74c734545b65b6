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
/// The tables whose rows live only for as long as an instance goes on.
const HOT: [&str; 9] =
    ["_ready", "_work", "_inbox", "_activity", "_task", "_queued", "_slot", "_admission", "_dedup"];
/// How often the tables are looked at: several times between two vacuums.
const LOOK: Duration = Duration::from_millis(100);
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
    let watched = watch_tables(bench, whole).await?;
    // A session that panicked has shown why.
    while running.join_next().await.is_some() {}
    bench.drained("the end of the soak", DRAIN).await?;

    let note = &mut evidence.measurements;
    // The worst table decides: one that swells must not hide behind others that do not.
    let worst = watched.tables.iter().map(Sizes::under_snapshot).fold(0.0, f64::max);
    note.push(Measurement::scalar("hot_bytes_under_snapshot", "x", worst));
    note.push(Measurement::scalar("hot_bytes_under_snapshot/all", "x", watched.all.under_snapshot()));
    for (table, sizes) in HOT.iter().zip(&watched.tables) {
        for (quarter, bytes) in sizes.largest.iter().enumerate().filter(|_| sizes.is_used()) {
            note.push(Measurement::scalar(format!("hot_bytes/{table}/q{}", quarter + 1), "bytes", *bytes));
        }
    }
    for (quarter, bytes) in watched.catalog.largest.iter().enumerate() {
        note.push(Measurement::scalar(format!("pg_class_bytes/q{}", quarter + 1), "bytes", *bytes));
    }
    let bytes = watched.all.largest;
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

/// How large something was at the most in each quarter.
#[derive(Default)]
struct Sizes {
    largest: [f64; QUARTERS as usize],
    smallest: Option<f64>,
}

impl Sizes {
    fn note(&mut self, quarter: usize, bytes: f64) {
        self.largest[quarter] = f64::max(self.largest[quarter], bytes);
        self.smallest = Some(self.smallest.map_or(bytes, |smallest| smallest.min(bytes)));
    }

    /// The two quarters with a snapshot over the one before.
    fn under_snapshot(&self) -> f64 {
        let [_, before, third, last] = self.largest;
        f64::max(third, last) / before.max(1.0)
    }

    /// It has changed at all.
    fn is_used(&self) -> bool {
        self.largest.iter().any(|largest| Some(*largest) != self.smallest)
    }
}

/// What was seen of the tables.
#[derive(Default)]
struct Watched {
    tables: [Sizes; HOT.len()],
    all: Sizes,
    /// `pg_class`, whose rows die when tables are emptied.
    catalog: Sizes,
}

/// Looks at the sizes of the hot tables with their indexes while the load runs, and holds a snapshot open for the
/// second half.
async fn watch_tables(bench: &Bench<'_>, whole: Duration) -> Result<Watched, SuiteError> {
    let inside = bench.inside().await?;
    let failed = || database("look at the hot tables");
    let statement = inside
        .prepare(
            "SELECT ARRAY(SELECT pg_total_relation_size(('df.' || t.name)::regclass)::float8
                          FROM unnest($1::text[]) WITH ORDINALITY AS t(name, place) ORDER BY t.place),
                pg_total_relation_size('pg_class')::float8",
        )
        .await
        .map_err(failed())?;
    let mut holder = None;
    let mut watched = Watched::default();
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
        let row = inside.query_one(&statement, &[&&HOT[..]]).await.map_err(failed())?;
        let bytes: Vec<f64> = row.get(0);
        let quarter = ((part * f64::from(QUARTERS)) as usize).min(QUARTERS as usize - 1);
        for (sizes, bytes) in watched.tables.iter_mut().zip(&bytes) {
            sizes.note(quarter, *bytes);
        }
        watched.all.note(quarter, bytes.iter().sum());
        watched.catalog.note(quarter, row.get(1));
        tokio::time::sleep(LOOK).await;
    }
    drop(holder);
    Ok(watched)
}

#[cfg(test)]
#[path = "../../tests/unit/functions/soak.rs"]
mod tests;
