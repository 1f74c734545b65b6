//! Queues: what waits, what is let in, and in which order. Invariants Q1 to Q9 of the design page.

mod arrivals;
mod entry;
mod hostile;
mod limits;
mod turns;

use crate::common::{one, rows};
use crate::worker::{execute, literal};
use tokio_postgres::Client;

/// A table in the submitter's schema in which instances note that they have been there.
async fn ledger(client: &Client, role: &str) {
    execute(
        client,
        &[&format!("CREATE TABLE {role}.ledger (entry text, at timestamptz DEFAULT clock_timestamp())")],
    )
    .await;
}

/// A step that makes an entry.
fn entry(role: &str, text: &str) -> String {
    literal(&format!("INSERT INTO {role}.ledger VALUES ('{text}')"))
}

async fn entries(client: &Client, role: &str) -> String {
    let sql = format!("SELECT coalesce(string_agg(entry, ' ' ORDER BY at), '') FROM {role}.ledger");
    one(client, &sql).await.unwrap_or_default()
}

/// Waiting, delayed and running instances of a queue.
async fn counts(client: &Client, queue: &str) -> String {
    let sql = format!("SELECT waiting, delayed, running FROM df.queues() WHERE name = '{queue}'");
    let row = rows(client, &sql).await.into_iter().next().unwrap_or_else(|| panic!("no queue {queue}"));
    row.into_iter().map(Option::unwrap_or_default).collect::<Vec<_>>().join(" ")
}

/// How many instances were let in and not ended at the same time, at most: by what is written down of them.
async fn most_at_once(client: &Client, label: &str) -> String {
    let sql = format!(
        "WITH span AS (SELECT d.started_at AS begin, d.completed_at AS \"end\"
                       FROM df._done d JOIN df._instance i USING (seq) WHERE i.label = '{label}')
         SELECT max((SELECT count(*) FROM span o WHERE o.begin <= s.begin AND o.\"end\" > s.begin)) FROM span s"
    );
    one(client, &sql).await.unwrap_or_default()
}
