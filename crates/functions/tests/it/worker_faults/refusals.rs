//! What the database refuses for a while: the worker counts it, tries again, and loses nothing.

use super::{common::one, Scene};
use crate::worker::{ended, eventually, execute, start, start_step, TestWorker, SOON};
use duramen_base::clock;
use std::time::Duration;
use tokio::time::sleep;

/// A step that is slow enough to leave its turn and to become an activity.
const SLOW_STEP: &str = "SELECT 1 FROM pg_sleep(0.2)";

async fn counts(worker: &TestWorker, metric: &str) {
    let began = clock::now();
    while worker.metric(metric) == 0 {
        assert!(began.elapsed() < SOON, "{metric} stays 0");
        sleep(Duration::from_millis(20)).await;
    }
}

/// Nobody would know why slow steps do not run.
#[tokio::test(flavor = "multi_thread")]
async fn activities_that_cannot_be_taken_are_counted_and_taken_later() {
    let scene = Scene::set().await;
    let worker = scene.worker().await;
    execute(
        &scene.owner,
        &["ALTER FUNCTION df._take(uuid, int, int, int, oid[], int[]) RENAME TO _take_away"],
    )
    .await;
    let id = start_step(&scene.client, SLOW_STEP).await;
    counts(&worker, "failed_takes_total").await;
    execute(
        &scene.owner,
        &["ALTER FUNCTION df._take_away(uuid, int, int, int, oid[], int[]) RENAME TO _take"],
    )
    .await;
    ended(&scene.client, &id, SOON).await.completed();
}

/// The row of an activity goes when it ends: an instance whose step it does not name would wait for it for ever.
#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_step_that_is_of_no_cell_ends_the_instance() {
    let scene = Scene::set().await;
    let _worker = scene.worker().await;
    execute(
        &scene.owner,
        &["ALTER FUNCTION df._take(uuid, int, int, int, oid[], int[]) RENAME TO _take_away"],
    )
    .await;
    let id = start_step(&scene.client, SLOW_STEP).await;
    eventually(&scene.owner, "SELECT count(*) FROM df._activity", "1", SOON).await;
    execute(
        &scene.owner,
        &[
            "UPDATE df._activity SET cell = 'nowhere'",
            "ALTER FUNCTION df._take_away(uuid, int, int, int, oid[], int[]) RENAME TO _take",
        ],
    )
    .await;
    let failure = ended(&scene.client, &id, SOON).await.failed();
    assert!(failure.contains("a step of this instance is of no cell: \"nowhere\""), "{failure}");
}

/// A starter that takes a sleeping worker to be awake does not wake it.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_cannot_say_that_it_sleeps_does_not_fall_asleep() {
    let scene = Scene::set().await;
    let _worker = scene.worker().await;
    let asleep = "SELECT last_value FROM df._asleep";
    eventually(&scene.owner, asleep, "2", SOON).await;
    execute(
        &scene.owner,
        &[
            "ALTER FUNCTION df._set_asleep(boolean) RENAME TO _set_aside",
            "SELECT setval('df._asleep', 1)",
            "NOTIFY df_wake",
        ],
    )
    .await;
    // Long enough for all looks that come before sleep.
    sleep(Duration::from_secs(1)).await;
    assert_eq!(one(&scene.owner, asleep).await.as_deref(), Some("1"));
    execute(&scene.owner, &["ALTER FUNCTION df._set_aside(boolean) RENAME TO _set_asleep"]).await;
    eventually(&scene.owner, asleep, "2", Duration::from_secs(5)).await;
}

/// Tables that nobody keeps in order grow until somebody looks.
#[tokio::test(flavor = "multi_thread")]
async fn housekeeping_that_fails_is_counted() {
    let scene = Scene::set().await;
    execute(&scene.owner, &["ALTER FUNCTION df._maintain() RENAME TO _maintained"]).await;
    let worker = scene.worker().await;
    counts(&worker, "failed_maintenance_total").await;
}

/// A worker under which a newer version of the schema was installed does nothing any more, and spoils nothing: what it has
/// taken is left for workers of that version.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_older_than_the_schema_leaves_everything_alone() {
    let scene = Scene::set().await;
    let worker = scene.worker().await;
    let slow = start(&scene.client, &scene.three_entries("slow", 1.0)).await;
    eventually(&scene.owner, "SELECT count(*) FROM df._activity WHERE owner IS NOT NULL", "1", SOON).await;
    execute(&scene.owner, &["UPDATE df._meta SET schema_version = schema_version + 1"]).await;
    let short = start(&scene.client, &scene.three_entries("short", 0.0)).await;
    // Long enough for the end of the step, and for a refusal that would count against an instance.
    sleep(Duration::from_secs(3)).await;
    for (id, status) in [(&slow, "running"), (&short, "pending")] {
        assert_eq!(one(&scene.client, &format!("SELECT df.status('{id}')")).await.as_deref(), Some(status));
    }
    let ledger = format!("SELECT count(*) FROM {}.ledger", scene.alice);
    assert_eq!(one(&scene.owner, &ledger).await.as_deref(), Some("1"), "what it did was undone");
    drop(worker);
    execute(&scene.owner, &["UPDATE df._meta SET schema_version = schema_version - 1"]).await;
    let _worker = scene.worker().await;
    scene.all_ended(Duration::from_secs(60)).await;
    scene.ledger_is_exact(6).await;
}
