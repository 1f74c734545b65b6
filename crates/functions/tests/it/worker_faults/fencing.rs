//! F-4: a worker that others have given up, and that goes on, commits nothing; here and in other databases.

use super::{common::one, Scene};
use crate::worker::{ended, eventually, execute, run_step, start, TestWorker, SOON};
use std::time::Duration;
use tokio::time::sleep;

/// What others do when they bury a worker, but for ending its sessions: as if it ran on a host that cannot be reached.
async fn give_up(scene: &Scene<'_>) {
    execute(
        &scene.owner,
        &["BEGIN; UPDATE df._activity SET owner = NULL; DELETE FROM df._worker_epoch; COMMIT"],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_buried_worker_commits_nothing() {
    let scene = Scene::set().await;
    let buried = scene.worker().await;
    let id = start(&scene.client, &scene.three_entries("x", 3.0)).await;
    eventually(&scene.owner, "SELECT count(*) FROM df._activity WHERE owner IS NOT NULL", "1", SOON).await;
    sleep(Duration::from_millis(300)).await;
    give_up(&scene).await;
    let other = TestWorker::start(&scene.database, 2).await;
    assert_eq!(ended(&scene.client, &id, SOON).await.status, "completed");
    // The buried one comes to the end of its step, too, and finds itself buried.
    sleep(Duration::from_secs(4)).await;
    scene.ledger_is_exact(3).await;
    let fenced = buried.metric("fenced_total") + buried.metric("buried_total");
    assert!(fenced > 0, "the buried worker has noticed nothing");
    // It goes on under a new name.
    other.kill();
    assert_eq!(run_step(&scene.client, "SELECT 1").await.status, "completed");
    let live =
        "SELECT count(*) FROM df._worker_epoch WHERE last_seen_at > clock_timestamp() - interval '8 s'";
    eventually(&scene.owner, live, "1", SOON).await;
}

/// The epoch's row is deleted and nothing else: what the worker holds must not be stuck for ever.
#[tokio::test(flavor = "multi_thread")]
async fn steps_of_a_worker_whose_epoch_is_gone_are_not_stuck() {
    let scene = Scene::set().await;
    let _worker = scene.worker().await;
    for number in 0..3 {
        start(&scene.client, &scene.three_entries(&format!("s{number}"), 7.0)).await;
    }
    eventually(&scene.owner, "SELECT count(*) FROM df._activity WHERE owner IS NOT NULL", "3", SOON).await;
    execute(&scene.owner, &["DELETE FROM df._worker_epoch"]).await;
    scene.all_ended(Duration::from_secs(60)).await;
    scene.ledger_is_exact(9).await;
}

/// F-1 in another database: the effect and the mark are one transaction there. Whoever tries again finds the mark, also
/// when the two try at the same time, and also after the first has been told that it was too late.
#[tokio::test(flavor = "multi_thread")]
async fn a_step_in_another_database_has_its_effect_once() {
    let scene = Scene::set().await;
    let alice = &scene.alice;
    let other = scene.database.server().empty_database().await;
    let there = scene.database.server().connect(crate::common::OWNER, &other).await;
    execute(
        &there,
        &[
            &format!("CREATE SCHEMA {alice} AUTHORIZATION {alice}"),
            &format!("CREATE TABLE {alice}.ledger (entry text)"),
            &format!("ALTER TABLE {alice}.ledger OWNER TO {alice}"),
        ],
    )
    .await;
    let step = format!(
        "WITH nap AS MATERIALIZED (SELECT pg_sleep(2))
         INSERT INTO {alice}.ledger SELECT ''there'' FROM nap RETURNING entry"
    );
    let first = scene.worker().await;
    let id = start(&scene.client, &format!("'{step}', database => '{other}'")).await;
    let running = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND pid <> pg_backend_pid()
        AND datname = current_database() AND query LIKE '%duramen_step%'";
    eventually(&there, running, "1", SOON).await;
    sleep(Duration::from_millis(500)).await;
    give_up(&scene).await;
    let second = TestWorker::start(&scene.database, 2).await;
    let output = ended(&scene.client, &id, SOON).await;
    assert_eq!(output.status, "completed", "{}", output.output);
    assert_eq!(
        output.output, r#"{"rows":[{"entry":"there"}],"row_count":1}"#,
        "the result is the step's own"
    );
    sleep(Duration::from_secs(3)).await;
    let entries = one(&there, &format!("SELECT count(*) FROM {alice}.ledger")).await;
    assert_eq!(entries.as_deref(), Some("1"), "the effect in the other database");
    drop((first, second));
}

/// F-1 in another database: the worker dies behind the commit there and before the record here.
#[tokio::test(flavor = "multi_thread")]
async fn a_mark_is_found_after_a_death() {
    let scene = Scene::set().await;
    let alice = &scene.alice;
    let other = scene.database.server().empty_database().await;
    let there = scene.database.server().connect(crate::common::OWNER, &other).await;
    execute(
        &there,
        &[
            &format!("CREATE SCHEMA {alice} AUTHORIZATION {alice}"),
            &format!("CREATE TABLE {alice}.ledger (entry text)"),
            &format!("ALTER TABLE {alice}.ledger OWNER TO {alice}"),
        ],
    )
    .await;
    let step = format!("INSERT INTO {alice}.ledger VALUES (''there'') RETURNING entry");
    // The first makes what is needed there.
    let worker = scene.worker().await;
    let id = start(&scene.client, &format!("'{step}', database => '{other}'")).await;
    assert_eq!(ended(&scene.client, &id, SOON).await.status, "completed");
    // The record here cannot be made while somebody holds the instance's row.
    let locker = scene.database.owner().await;
    let id = start(&scene.client, &format!("df.sleep(0.5) ~> '{step}', database => '{other}'")).await;
    eventually(&scene.client, &format!("SELECT df.status('{id}')"), "running", SOON).await;
    eventually(&scene.owner, "SELECT count(*) FROM df._activity", "1", SOON).await;
    execute(&locker, &[&format!("BEGIN; SELECT FROM df._work WHERE seq = df._seq('{id}') FOR UPDATE")]).await;
    eventually(&there, &format!("SELECT count(*) FROM {alice}.ledger"), "2", SOON).await;
    worker.kill();
    execute(&locker, &["COMMIT"]).await;
    execute(&scene.owner, &["SELECT df._bury(epoch_id) FROM df._worker_epoch"]).await;
    let _next = scene.worker().await;
    let output = ended(&scene.client, &id, SOON).await;
    assert_eq!(output.completed(), r#"{"rows":[{"entry":"there"}],"row_count":1}"#);
    let entries = one(&there, &format!("SELECT count(*) FROM {alice}.ledger")).await;
    assert_eq!(entries.as_deref(), Some("2"), "the effect of the second instance, once");
    // Marks that have served go; of a step that was attempted twice stays that it is over (F-13).
    let marks = "SELECT count(*) || ' ' || count(outcome) FROM df_run.marker";
    eventually(&there, marks, "1 0", SOON).await;
}
