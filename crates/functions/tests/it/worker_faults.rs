//! Workers and servers that die, and what else goes wrong around instances: F-1 (every effect once), F-2, F-4
//! (fencing), F-7 (neighbours), F-9 (nothing is overlooked) and F-10 (signals are kept).
//!
//! Every SQL effect is a row of a ledger, so that what was lost and what was done twice can be counted.

mod control;
mod cut_off;
mod cut_off_kinds;
mod deaths;
mod fencing;
mod housekeeping;
mod memory;
mod neighbours;
mod refusals;
mod shares;
mod timers;

use crate::common;
use crate::common::{maybe_one, one, rows, Database, Server};
use crate::worker;
use crate::worker::{execute, start, TestWorker, SOON};
use duramen_base::clock;
use std::time::Duration;
use tokio::time::sleep;
use tokio_postgres::Client;

/// A submitter with a ledger.
struct Scene<'a> {
    alice: String,
    client: Client,
    owner: Client,
    database: Database<'a>,
}

impl Scene<'static> {
    async fn set() -> Scene<'static> {
        Scene::on(common::database().await).await
    }
}

impl<'a> Scene<'a> {
    async fn on(database: Database<'a>) -> Scene<'a> {
        let (alice, client, owner) = worker::submitter(&database).await;
        execute(
            &owner,
            &[
                &format!(
                    "CREATE TABLE {alice}.ledger (entry text, worker_session int DEFAULT pg_backend_pid())"
                ),
                &format!("ALTER TABLE {alice}.ledger OWNER TO {alice}"),
            ],
        )
        .await;
        Scene { alice, client, owner, database }
    }

    async fn worker(&self) -> TestWorker {
        TestWorker::start(&self.database, 4).await
    }

    /// A step that enters something into the ledger.
    fn enter(&self, entry: &str) -> String {
        format!("INSERT INTO {}.ledger VALUES (''{entry}'')", self.alice)
    }

    /// An instance of three entries: two short steps, and one that may take long enough to be an activity.
    fn three_entries(&self, name: &str, nap_s: f64) -> String {
        let alice = &self.alice;
        format!(
            "'{}' ~> 'WITH nap AS MATERIALIZED (SELECT pg_sleep({nap_s}))
                 INSERT INTO {alice}.ledger SELECT ''{name} 2'' FROM nap' ~> '{}'",
            self.enter(&format!("{name} 1")),
            self.enter(&format!("{name} 3"))
        )
    }

    /// Starts many instances of three entries, some of which are slow, and returns how many entries they make.
    async fn start_many(&self, instances: usize, prefix: &str) -> usize {
        for number in 0..instances {
            let nap_s = if number % 8 == 0 { 0.15 } else { 0.0 };
            let id = start(&self.client, &self.three_entries(&format!("{prefix}{number}"), nap_s)).await;
            assert_eq!(id.len(), 8);
        }
        instances * 3
    }

    /// Waits until every instance has ended.
    async fn all_ended(&self, limit: Duration) {
        let began = clock::now();
        let unfinished = "SELECT count(*) FROM df._started i
            WHERE NOT EXISTS (SELECT FROM df._done d WHERE d.seq = i.seq)";
        loop {
            // The server may just be away.
            let client = self.try_connect().await;
            let left = match &client {
                Some(client) => maybe_one(client, unfinished).await.ok().flatten(),
                None => None,
            };
            if left.as_deref() == Some("0") {
                return;
            }
            if began.elapsed() > limit {
                let stuck = "SELECT df._id(i.seq), w.due_at::text, w.paused::text, a.cell,
                    a.owner::text, a.attempt::text,
                    (SELECT string_agg(epoch_id::text || ' ' || last_seen_at, ', ') FROM df._worker_epoch)
                    FROM df._started i LEFT JOIN df._work w USING (seq) LEFT JOIN df._activity a USING (seq)
                    WHERE NOT EXISTS (SELECT FROM df._done d WHERE d.seq = i.seq) LIMIT 5";
                let stuck = match &client {
                    Some(client) => rows(client, stuck).await,
                    None => Vec::new(),
                };
                panic!("{left:?} instances have not ended within {limit:?}, such as {stuck:#?}");
            }
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// A session of the owner's, if the server is there.
    async fn try_connect(&self) -> Option<Client> {
        let (client, connection) =
            tokio_postgres::connect(&self.database.url(), tokio_postgres::NoTls).await.ok()?;
        tokio::spawn(connection);
        Some(client)
    }

    /// New sessions in place of those that a crash has ended.
    async fn reconnect(&mut self) {
        let began = clock::now();
        while self.try_connect().await.is_none() {
            assert!(began.elapsed() < SOON, "the server does not come back");
            sleep(Duration::from_millis(50)).await;
        }
        self.owner = self.database.owner().await;
        self.client = self.database.connect(&self.alice).await;
    }

    /// Every entry is there once, and every instance has completed.
    async fn ledger_is_exact(&self, entries: usize) {
        let owner = self.database.owner().await;
        let failed = rows(&owner, "SELECT df._id(seq), output::text FROM df._done WHERE status <> 'c'").await;
        assert_eq!(
            failed,
            Vec::<Vec<Option<String>>>::new(),
            "no instance fails because something was killed"
        );
        let doubled =
            format!("SELECT entry, count(*)::text FROM {}.ledger GROUP BY 1 HAVING count(*) > 1", self.alice);
        assert_eq!(
            rows(&owner, &doubled).await,
            Vec::<Vec<Option<String>>>::new(),
            "entries that were made twice"
        );
        let found = one(&owner, &format!("SELECT count(*) FROM {}.ledger", self.alice)).await;
        assert_eq!(found, Some(entries.to_string()), "entries; fewer are lost ones");
        let rest =
            "SELECT (SELECT count(*) FROM df._work) || ' ' || (SELECT count(*) FROM df._activity) || ' '
            || (SELECT count(*) FROM df._ready)";
        assert_eq!(
            one(&owner, rest).await.as_deref(),
            Some("0 0 0"),
            "F-2: nothing is left of instances that ended"
        );
    }
}

/// A server whose commits survive the crash of its processes.
async fn own_server() -> Server {
    let start = || Server::start_with(&[("synchronous_commit", "on")]);
    tokio::task::spawn_blocking(start).await.expect("the server starts")
}
