//! The functions around instances, without a worker: what `df.start` stores and refuses, and what the rest says of
//! rows that a worker would have written.

mod control;
mod inspect;
mod new_transaction;
mod start;
mod traceparent;
mod variables;

use crate::common;
use crate::common::{one, Database};
use tokio_postgres::Client;

/// A database, and a session of a role that may use durable functions.
async fn session() -> (Database<'static>, Client) {
    let database = common::database().await;
    let alice = database.role("Alice").await;
    let client = database.connect(&alice).await;
    (database, client)
}

/// Starts something, and returns its id.
async fn started(client: &Client, fut: &str) -> String {
    one(client, &format!("SELECT df.start({fut})")).await.unwrap()
}

/// What a worker does when an instance ends in its first turn. `status` is c, f or x.
async fn ended(database: &Database<'_>, id: &str, status: &str, output: &str) {
    let owner = database.owner().await;
    owner
        .batch_execute(&format!(
            "{};
             DELETE FROM df._work WHERE seq = df._seq('{id}');
             INSERT INTO df._done (seq, submitted_by, status, started_at, output)
             SELECT seq, submitted_by, '{status}', clock_timestamp(), '{output}' FROM df._instance WHERE id = '{id}'",
            common::take(&format!("seq = df._seq('{id}')"))
        ))
        .await
        .unwrap();
}

/// What a worker does when an instance goes on after its first turn, or after a later one.
async fn at_work(database: &Database<'_>, id: &str, execution: i64, cells: &str) {
    let owner = database.owner().await;
    let state = format!(r#"{{"v":1,"execution":{execution},"cells":{cells}}}"#);
    owner
        .batch_execute(&format!(
            "{};
             INSERT INTO df._work (seq, submitted_by, started_at, updated_at, execution, state)
             SELECT seq, submitted_by, clock_timestamp(), clock_timestamp(), {execution}, '{state}'
             FROM df._instance WHERE id = '{id}'
             ON CONFLICT (seq) DO UPDATE SET execution = excluded.execution, state = excluded.state",
            common::take(&format!("seq = df._seq('{id}')"))
        ))
        .await
        .unwrap();
}
