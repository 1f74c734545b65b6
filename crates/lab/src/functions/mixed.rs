//! Instances of several kinds at once: no kind is to suffer from another.

use std::sync::Arc;
use std::time::Duration;

use duramen_base::clock;
use duramen_measure::evidence::{Evidence, Measurement};
use tokio::task::JoinSet;

use super::bench::{Bench, TRIVIAL};
use super::error::database;
use super::load::{over_and_over, Book, Expect, Work};
use duramen_reports::suite::SuiteError;

/// Sessions of each kind.
const SESSIONS: usize = 4;
/// The kinds that the functions of the schema make, by the SQL that makes them.
const MADE: [(&str, &str, Expect, Duration); 3] = [
    (
        "sequence",
        "df.seq(df.seq(df.seq(df.seq('SELECT 1', 'SELECT 2'), 'SELECT 3'), 'SELECT 4'), 'SELECT 5')",
        Expect::Row,
        Duration::ZERO,
    ),
    ("join", "df.join3('SELECT 1', 'SELECT 2', 'SELECT 3')", Expect::Any, Duration::ZERO),
    ("timer", "df.sleep(0.2)", Expect::Any, Duration::from_millis(200)),
];

pub(crate) async fn measure(bench: &mut Bench<'_>, evidence: &mut Evidence) -> Result<(), SuiteError> {
    bench.worker_up().await?;
    bench.say("instances of several kinds at once");
    let waiter = bench.waiter().await?;
    let maker = bench.clients(1).await?.remove(0);
    let mut kinds = vec![("trivial", Work::new(TRIVIAL, Expect::Row))];
    for (name, sql, expect, least) in MADE {
        let row = maker.raw().query_one(&format!("SELECT {sql}"), &[]).await;
        let graph: String = row.map_err(database("make a graph"))?.get(0);
        kinds.push((name, Work { least, ..Work::new(&graph, expect) }));
    }
    kinds.push(("failing", Work::new("SELECT 1/0", Expect::Failure)));
    let mut sessions = Vec::new();
    for (name, work) in kinds {
        sessions.push((name, work, bench.clients(SESSIONS).await?));
    }
    let slice = bench.sizes.slice;
    let deadline = clock::now() + slice;
    let mut running = JoinSet::new();
    let mut books = Vec::new();
    for (name, work, clients) in sessions {
        let book = Book::new(slice, 1);
        for client in clients {
            running.spawn(over_and_over(
                client,
                Arc::clone(&waiter),
                work.clone(),
                deadline,
                Arc::clone(&book),
            ));
        }
        books.push((name, book));
    }
    // A session that panicked has shown why.
    while running.join_next().await.is_some() {}
    for (name, book) in books {
        let tally = book.read().pop().unwrap_or_default();
        evidence.measurements.push(Measurement::from_histogram(format!("mixed_ms/{name}"), &tally.latencies));
        bench.note_failed(name, &tally);
        if tally.completed == 0 {
            bench.note_failure(format!("no instance of the kind {name} has ended"));
        }
    }
    Ok(())
}
