//! Durable functions from start to end through a real worker: what composes them, statements that refuse transactions,
//! other databases, HTTP that is switched off, and results of every type.

mod composition;
mod elsewhere;
mod outside_turns;
mod results;

use crate::common;
use crate::common::{one, Database};
use crate::worker;
use crate::worker::{execute, TestWorker};
use tokio_postgres::Client;

/// A worker, and a submitter with a schema and a ledger.
struct Scene {
    worker: TestWorker,
    alice: String,
    client: Client,
    owner: Client,
    database: Database<'static>,
}

impl Scene {
    async fn set() -> Scene {
        let database = common::database().await;
        let (alice, client, owner) = worker::submitter(&database).await;
        execute(&client, &[&format!("CREATE TABLE {alice}.ledger (entry text)")]).await;
        let worker = TestWorker::start(&database, 4).await;
        Scene { worker, alice, client, owner, database }
    }

    /// The text of a step that enters something into the ledger, for use inside of a literal.
    fn enter(&self, entry: &str) -> String {
        format!("INSERT INTO {}.ledger VALUES (''{entry}'')", self.alice)
    }

    /// The entries of the ledger, sorted.
    async fn ledger(&self) -> String {
        let entries =
            format!("SELECT coalesce(string_agg(entry, ' ' ORDER BY entry), '') FROM {}.ledger", self.alice);
        one(&self.owner, &entries).await.unwrap()
    }
}
