//! F-19: nobody stops others, or slows them much, whatever she asks for: long steps, messages, locks.

use super::Scene;
use crate::common::{one, refusal, rows, Database};
use crate::worker::{ended, eventually, execute, start, start_step, TestWorker, SOON};
use duramen_base::clock;
use duramen_functions::schema::{self, SchemaError};
use std::time::Duration;
use tokio_postgres::Client;

/// Somebody else, with a schema of her own.
async fn another(database: &Database<'_>, name: &str) -> (String, Client) {
    let role = database.role(name).await;
    execute(&database.owner().await, &[&format!("CREATE SCHEMA {role} AUTHORIZATION {role}")]).await;
    let client = database.connect(&role).await;
    (role, client)
}

/// How many steps of a role run outside of turns.
fn running(role: &str) -> String {
    format!("SELECT count(*) FROM df._activity WHERE owner IS NOT NULL AND submitted_by = '{role}'::regrole")
}

#[tokio::test(flavor = "multi_thread")]
async fn long_steps_of_one_role_do_not_keep_another_waiting() {
    let scene = Scene::set().await;
    let (mallory, mallorys) = another(&scene.database, "mallory").await;
    let _worker = TestWorker::start(&scene.database, 10).await;
    for _ in 0..14 {
        start_step(&mallorys, "SELECT pg_sleep(30)").await;
    }
    eventually(&scene.owner, &running(&mallory), "10", SOON).await;
    let began = clock::now();
    let id = start_step(&scene.client, "SELECT pg_sleep(0.2)").await;
    ended(&scene.client, &id, SOON).await.completed();
    let took = began.elapsed();
    assert!(took < Duration::from_millis(1300), "alice's 0.2 s took {took:?}");
    // A third role is served, too, while the second one has a spare place; and who has all the places gets no more of them.
    let (bob, bobs) = another(&scene.database, "bob").await;
    for _ in 0..3 {
        start_step(&scene.client, "SELECT pg_sleep(30)").await;
    }
    eventually(&scene.owner, &running(&scene.alice), "1", SOON).await;
    let began = clock::now();
    let id = start_step(&bobs, "SELECT pg_sleep(0.2)").await;
    ended(&bobs, &id, SOON).await.completed();
    let took = began.elapsed();
    assert!(took < Duration::from_millis(1300), "{bob}'s 0.2 s took {took:?}");
    assert_eq!(one(&scene.owner, &running(&mallory)).await.as_deref(), Some("10"));
}

/// Places that become free go to whoever has the fewest, and of the rest nobody is left out.
#[tokio::test(flavor = "multi_thread")]
async fn places_are_shared_out_evenly() {
    let scene = Scene::set().await;
    let (mallory, mallorys) = another(&scene.database, "mallory").await;
    let _worker = TestWorker::start(&scene.database, 4).await;
    for _ in 0..40 {
        start_step(&mallorys, "SELECT pg_sleep(0.5)").await;
    }
    eventually(&scene.owner, &running(&mallory), "4", SOON).await;
    for _ in 0..8 {
        start_step(&scene.client, "SELECT pg_sleep(0.5)").await;
    }
    eventually(&scene.owner, &running(&scene.alice), "2", SOON).await;
    scene.all_ended(Duration::from_secs(60)).await;
    let last = |role: &str| {
        format!("SELECT extract(epoch FROM max(completed_at) - min(started_at)) FROM df._done WHERE submitted_by = '{role}'::regrole")
    };
    let hers: f64 = one(&scene.owner, &last(&scene.alice)).await.unwrap().parse().unwrap();
    assert!(hers < 4.5, "8 steps of 0.5 s, two at a time, beside 40 of another: {hers} s");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_has_no_more_places_than_it_may() {
    let scene = Scene::set().await;
    let worker = TestWorker::start_limited(&scene.database, 4, 2).await;
    for _ in 0..6 {
        start_step(&scene.client, "SELECT pg_sleep(0.4)").await;
    }
    let mut most = 0;
    for _ in 0..40 {
        most = most.max(worker.running_activities());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(most, 2);
    scene.all_ended(SOON).await;
}

/// Who may not steer an instance may not send it anything either, and an instance has room for so many messages.
#[tokio::test(flavor = "multi_thread")]
async fn messages_are_for_ones_own_and_have_a_limit() {
    let scene = Scene::set().await;
    let (mallory, mallorys) = another(&scene.database, "mallory").await;
    let worker = scene.worker().await;
    let id = start(&scene.client, "df.wait_for_signal('go') ~> 'SELECT 1'").await;
    eventually(&scene.client, &format!("SELECT df.status('{id}')"), "running", SOON).await;
    let send = |many: u32, submitter: &str| {
        format!(
            "INSERT INTO df._inbox (seq, submitted_by, kind, name)
             SELECT df._seq('{id}'), '{submitter}'::regrole, 'signal', 'x' FROM generate_series(1, {many})"
        )
    };
    for submitter in [mallory.as_str(), scene.alice.as_str()] {
        let said = refusal(&mallorys, &send(1, submitter)).await;
        assert!(said.contains("row-level security"), "{said}");
    }
    let said = refusal(&mallorys, &format!("SELECT df.signal('{id}', 'go')")).await;
    assert!(said.contains("not found or access denied"), "{said}");
    worker.kill();
    // In one statement, and one after the other.
    let said = refusal(&scene.client, &send(300_000, &scene.alice)).await;
    assert!(said.contains("has 1000 messages that no worker has read yet"), "{said}");
    execute(&scene.client, &[&send(999, &scene.alice), &format!("SELECT df.signal('{id}', 'go')")]).await;
    let said = refusal(&scene.client, &format!("SELECT df.signal('{id}', 'go')")).await;
    assert!(said.contains("takes no more"), "{said}");
    // It can still be stopped and ended.
    execute(&scene.client, &[&format!("SELECT df.pause('{id}'), df.resume('{id}')")]).await;
    let _worker = scene.worker().await;
    ended(&scene.client, &id, SOON).await.completed();
    // What nobody will ever read goes: here, what an earlier version let somebody write.
    execute(
        &scene.owner,
        &[
            "INSERT INTO df._inbox (seq, submitted_by, kind, sent_at) SELECT 1, 10, 'signal', now() - interval '1 hour'
             FROM generate_series(1, 20000)",
            "SELECT df._maintain()",
        ],
    )
    .await;
    assert_eq!(one(&scene.owner, "SELECT count(*) FROM df._inbox").await.as_deref(), Some("0"));
}

/// No lock that a submitter can hold keeps the schema from being installed again, an instance from being started, or the
/// housekeeping from making room.
#[tokio::test(flavor = "multi_thread")]
async fn locks_of_a_submitter_hold_up_nothing_that_matters() {
    let scene = Scene::set().await;
    let (_, mallorys) = another(&scene.database, "mallory").await;
    let locks: Vec<String> = (-3..4).map(|key| format!("pg_advisory_lock(6579571, {key})")).collect();
    execute(
        &mallorys,
        &[
            &format!("SELECT {}, pg_advisory_lock(6579571)", locks.join(", ")),
            "SELECT df.setvar('mine', '1')",
        ],
    )
    .await;
    let installed = tokio::time::timeout(SOON, schema::install(&scene.database.url())).await;
    installed.expect("advisory locks do not hold it up").unwrap();
    // The strongest lock on each table that she is allowed to have.
    let tables = rows(
        &scene.owner,
        "SELECT c.oid::regclass::text FROM pg_class c
         WHERE c.relnamespace = 'df'::regnamespace AND c.relkind IN ('r', 'p', 'v') AND NOT c.relispartition",
    )
    .await;
    execute(&mallorys, &["BEGIN", "SELECT count(*) FROM df.nodes"]).await;
    for table in tables.iter().filter_map(|row| row[0].as_deref()) {
        for mode in ["ACCESS EXCLUSIVE", "SHARE", "SHARE UPDATE EXCLUSIVE", "ROW EXCLUSIVE", "ACCESS SHARE"] {
            execute(&mallorys, &["SAVEPOINT tried"]).await;
            match mallorys.batch_execute(&format!("LOCK TABLE {table} IN {mode} MODE")).await {
                Ok(()) => {
                    let is_weak = ["ROW EXCLUSIVE", "ACCESS SHARE"].contains(&mode);
                    assert!(is_weak, "she holds {mode} on {table}");
                    break;
                }
                Err(_) => execute(&mallorys, &["ROLLBACK TO tried"]).await,
            }
        }
    }
    // Starts go on, with variables and without, also while an installation waits.
    let waits = tokio::spawn({
        let url = scene.database.url();
        async move { schema::install(&url).await }
    });
    execute(&scene.client, &["SELECT df.setvar('hers', '1')", "SELECT df.unsetvar('hers')"]).await;
    let _worker = scene.worker().await;
    let mut slowest = Duration::ZERO;
    for _ in 0..20 {
        let began = clock::now();
        let id = start(&scene.client, "'SELECT 1' ~> 'SELECT 2'").await;
        ended(&scene.client, &id, SOON).await.completed();
        slowest = slowest.max(began.elapsed());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(slowest < Duration::from_secs(2), "an instance took {slowest:?} beside the installation");
    // The housekeeping makes partitions, though it cannot drop the one that is over.
    execute(
        &scene.owner,
        &[
            "SELECT setval('df._instance_seq', (9::bigint << 22) + 1)",
            "UPDATE df._done SET completed_at = now() - interval '100 days'",
            "SET lock_timeout = 200",
            "SELECT df._maintain()",
        ],
    )
    .await;
    let there = "SELECT to_regclass('df._instance_12') IS NOT NULL";
    assert_eq!(one(&scene.owner, there).await.as_deref(), Some("t"));
    let done = "SELECT count(*) FROM df._done WHERE completed_at < now() - interval '30 days'";
    assert_eq!(one(&scene.owner, done).await.as_deref(), Some("0"), "what is over goes row by row");
    // Who is in the way is named in the end.
    match waits.await.unwrap() {
        Err(SchemaError::Busy { holders, .. }) => assert!(holders.contains("mallory"), "{holders}"),
        other => panic!("{other:?}"),
    }
    execute(&mallorys, &["ROLLBACK"]).await;
    schema::install(&scene.database.url()).await.unwrap();
}
