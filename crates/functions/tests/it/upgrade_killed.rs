//! An upgrade with ten thousand instances in flight that is killed at each of its steps (F-1, F-2, F-10): the database is
//! of the old version then, or of the new one, and every instance is there. In the end each runs once.

use crate::common::{one, Server, OWNER};
use crate::proxy::{Proxy, RoundTrip, Side};
use crate::upgrade::{left_by, ROLE};
use crate::worker::{eventually, execute, TestWorker};
use duramen_functions::schema::{self, SCHEMA_VERSION};
use std::time::Duration;
use tokio_postgres::Client;

/// Instances in flight beside those of the dump.
const INSTANCES: u32 = 10_000;
/// How long they may take to end.
const LIMIT: Duration = Duration::from_secs(120);

/// Kills an installation at one of its round trips. Returns whether it has that many.
async fn killed_at(nth: usize, side: Side, server: &Server, database: &str, owner: &Client) -> bool {
    let stall_at = RoundTrip { database: database.to_owned(), asks: "", nth, side };
    let proxy = Proxy::start(server, stall_at);
    proxy.arm();
    let url = proxy.url(OWNER, database);
    let mut installing = tokio::spawn(async move { schema::install(&url).await });
    tokio::select! {
        done = &mut installing => {
            done.expect("it does not panic").expect("nothing was in its way");
            false
        }
        () = proxy.stalled() => {
            installing.abort();
            let kill = "SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity
                        WHERE application_name = 'duramen fn install'";
            execute(owner, &[kill]).await;
            true
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_that_is_killed_at_any_step_loses_and_doubles_nothing() {
    for version in 1..SCHEMA_VERSION {
        let (server, database) = left_by(version).await;
        let owner = server.connect(OWNER, &database).await;
        let client = server.connect(ROLE, &database).await;
        let begin = format!(
            "SELECT count(df.start(format('INSERT INTO {ROLE}.ledger VALUES (''n%s'')', n)))
             FROM generate_series(1, {INSTANCES}) n"
        );
        assert_eq!(one(&client, &begin).await, Some(INSTANCES.to_string()));
        let all = "SELECT count(*) FROM df._instance";
        let in_flight = one(&owner, all).await;

        let mut steps = 0;
        'steps: for nth in 0.. {
            // The request first: what is answered last is the commit, and with it the upgrade is done.
            for side in [Side::Request, Side::Answer] {
                if !killed_at(nth, side, &server, &database, &owner).await {
                    break 'steps;
                }
                steps += 1;
                let found = one(&owner, "SELECT schema_version FROM df._meta").await;
                let known = [version, SCHEMA_VERSION].map(|version| Some(version.to_string()));
                assert!(known.contains(&found), "version {version}, {side:?} {nth}: {found:?}");
                assert_eq!(one(&owner, all).await, in_flight, "version {version}, {side:?} {nth}");
            }
        }
        assert!(steps > 40, "the steps of an installation are killed one by one: {steps}");

        let url = server.url(OWNER, &database);
        schema::adopt(&url, schema::External::Run).await.expect("it runs here from now on");
        let worker = TestWorker::start_at(&url, 4).await;
        let entered = format!("SELECT count(*) FROM {ROLE}.ledger WHERE entry ~ '^n[0-9]+$'");
        eventually(&owner, &entered, &INSTANCES.to_string(), LIMIT).await;
        worker.drain(LIMIT).await;
        let twice =
            format!("SELECT count(*) - count(DISTINCT entry) FROM {ROLE}.ledger WHERE entry ~ '^n[0-9]+$'");
        assert_eq!(one(&owner, &twice).await.as_deref(), Some("0"), "version {version}");
    }
}
