//! Cancel, pause, resume, and signals (F-10).

use super::{common::one, Scene};
use crate::worker::{ended, ended_yet, eventually, execute, run_step, start, start_step, SOON};
use duramen_base::clock;
use std::time::Duration;
use tokio::time::sleep;

/// A cancelled instance ends within three seconds, and so does the statement that it was running.
#[tokio::test(flavor = "multi_thread")]
async fn cancel_stops_a_running_statement() {
    let scene = Scene::set().await;
    let _worker = scene.worker().await;
    let wait = scene.enter("after");
    let id = start(&scene.client, &format!("'SELECT pg_sleep(60)' ~> '{wait}'")).await;
    let active =
        "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%duramen_step%'
        AND datname = current_database() AND pid <> pg_backend_pid()";
    eventually(&scene.owner, "SELECT count(*) FROM df._activity WHERE owner IS NOT NULL", "1", SOON).await;
    eventually(&scene.owner, active, "1", SOON).await;
    sleep(Duration::from_millis(200)).await;
    let began = clock::now();
    execute(&scene.client, &[&format!("SELECT df.cancel('{id}', 'enough')")]).await;
    let ended = ended(&scene.client, &id, SOON).await;
    assert_eq!((ended.status.as_str(), ended.output.as_str()), ("cancelled", "enough"));
    eventually(&scene.owner, active, "0", SOON).await;
    assert!(began.elapsed() < Duration::from_secs(3), "it took {:?}", began.elapsed());
    assert_eq!(
        one(&scene.owner, &format!("SELECT count(*) FROM {}.ledger", scene.alice)).await.as_deref(),
        Some("0")
    );
    // The connection serves others again, and none of them is hit by the cancel.
    for _ in 0..8 {
        run_step(&scene.client, "SELECT pg_sleep(0.1)").await.completed();
    }
}

/// Cancelled at any moment, an instance has had either none or all of a step's effect, and its neighbours all of
/// theirs.
#[tokio::test(flavor = "multi_thread")]
async fn cancel_hits_nobody_else() {
    let scene = Scene::set().await;
    let _worker = scene.worker().await;
    let nap = |name: &str| {
        format!(
            "'WITH nap AS MATERIALIZED (SELECT pg_sleep(0.06)) INSERT INTO {}.ledger SELECT ''{name}'' FROM nap'",
            scene.alice
        )
    };
    let (mut cancelled, mut kept) = (Vec::new(), Vec::new());
    for number in 0..40 {
        let id = start(&scene.client, &nap(&format!("cancelled {number}"))).await;
        kept.push(start(&scene.client, &nap(&format!("kept {number}"))).await);
        sleep(Duration::from_millis(number % 9 * 12)).await;
        execute(&scene.client, &[&format!("SELECT df.cancel('{id}')")]).await;
        cancelled.push(id);
    }
    for id in &kept {
        let ended = ended(&scene.client, id, SOON).await;
        assert_eq!(ended.status, "completed", "a neighbour: {}", ended.output);
    }
    let mut hit = 0;
    for (number, id) in cancelled.iter().enumerate() {
        let ended = ended(&scene.client, id, SOON).await;
        assert_ne!(ended.status, "failed", "{}", ended.output);
        let entry = format!("SELECT count(*) FROM {}.ledger WHERE entry = 'cancelled {number}'", scene.alice);
        let found = one(&scene.owner, &entry).await;
        if ended.status == "completed" {
            assert_eq!(found.as_deref(), Some("1"), "it completed");
        } else {
            hit += 1;
        }
    }
    assert!(hit > 0, "no cancel came in time");
    let all = format!("SELECT count(*) FROM {}.ledger WHERE entry LIKE 'kept%'", scene.alice);
    assert_eq!(one(&scene.owner, &all).await.as_deref(), Some("40"));
}

/// Children end with their parent.
#[tokio::test(flavor = "multi_thread")]
async fn cancel_reaches_children() {
    let scene = Scene::set().await;
    let _worker = scene.worker().await;
    let id = start(&scene.client, "df.call(df.call('SELECT pg_sleep(60)', 'grandchild'), 'child')").await;
    eventually(&scene.owner, "SELECT count(*) FROM df._activity WHERE owner IS NOT NULL", "1", SOON).await;
    execute(&scene.client, &[&format!("SELECT df.cancel('{id}')")]).await;
    assert_eq!(ended(&scene.client, &id, SOON).await.status, "cancelled");
    let cancelled = "SELECT count(*) FROM df.instances WHERE status = 'cancelled'";
    eventually(&scene.owner, cancelled, "3", SOON).await;
    eventually(&scene.owner, "SELECT count(*) FROM df._activity", "0", SOON).await;
}

/// An instance that is cancelled before a worker has seen it runs nothing.
#[tokio::test(flavor = "multi_thread")]
async fn cancel_before_the_beginning() {
    let scene = Scene::set().await;
    let id = start_step(&scene.client, &scene.enter("x").replace("''", "'")).await;
    execute(&scene.client, &[&format!("SELECT df.cancel('{id}')")]).await;
    let _worker = scene.worker().await;
    assert_eq!(ended(&scene.client, &id, SOON).await.status, "cancelled");
    assert_eq!(
        one(&scene.owner, &format!("SELECT count(*) FROM {}.ledger", scene.alice)).await.as_deref(),
        Some("0")
    );
}

/// A paused instance begins no step, also when its timer is due; resumed, it goes on where it was.
#[tokio::test(flavor = "multi_thread")]
async fn pause_and_resume() {
    let scene = Scene::set().await;
    let _worker = scene.worker().await;
    let id =
        start(&scene.client, &format!("df.sleep(1) ~> '{}' ~> '{}'", scene.enter("1"), scene.enter("2")))
            .await;
    eventually(&scene.client, &format!("SELECT df.status('{id}')"), "running", SOON).await;
    execute(&scene.client, &[&format!("SELECT df.pause('{id}')")]).await;
    let paused = format!("SELECT paused FROM df._work WHERE seq = df._seq('{id}')");
    eventually(&scene.owner, &paused, "t", SOON).await;
    sleep(Duration::from_secs(2)).await;
    let entries = format!("SELECT count(*) FROM {}.ledger", scene.alice);
    assert_eq!(one(&scene.owner, &entries).await.as_deref(), Some("0"), "its timer was due and it is paused");
    assert_eq!(ended_yet(&scene.client, &id).await, None);
    let began = clock::now();
    execute(&scene.client, &[&format!("SELECT df.resume('{id}')")]).await;
    ended(&scene.client, &id, SOON).await.completed();
    assert!(began.elapsed() < Duration::from_secs(3), "resumed, it took {:?}", began.elapsed());
    assert_eq!(one(&scene.owner, &entries).await.as_deref(), Some("2"));
    // What ran when the pause came ends and is kept; the step behind it waits.
    let slow = format!("SELECT pg_sleep(1) ~> {}", scene.enter("3")).replace(" ~> ", "' ~> '");
    let id = start(&scene.client, &format!("'{slow}'")).await;
    eventually(&scene.owner, "SELECT count(*) FROM df._activity WHERE owner IS NOT NULL", "1", SOON).await;
    execute(&scene.client, &[&format!("SELECT df.pause('{id}')")]).await;
    eventually(&scene.owner, "SELECT count(*) FROM df._activity", "0", SOON).await;
    sleep(Duration::from_millis(700)).await;
    assert_eq!(one(&scene.owner, &entries).await.as_deref(), Some("2"));
    // A paused instance can be cancelled.
    execute(&scene.client, &[&format!("SELECT df.cancel('{id}')")]).await;
    assert_eq!(ended(&scene.client, &id, SOON).await.status, "cancelled");
}

/// F-10: signals are kept, in their order, whether they come before the beginning, before the wait, or many at once,
/// and
/// over the death of a worker.
#[tokio::test(flavor = "multi_thread")]
async fn signals_before_the_wait_are_kept() {
    let scene = Scene::set().await;
    let wait = |name: &str| format!("(df.wait_for_signal('go', 60) |=> '{name}')");
    let told = "'SELECT $a.data AS a, $b.data AS b, $c.data AS c'";
    let expression = format!("df.sleep(1.5) ~> {} ~> {} ~> {} ~> {told}", wait("a"), wait("b"), wait("c"));
    let id = start(&scene.client, &expression).await;
    // Nobody has seen it yet.
    execute(
        &scene.client,
        &[&format!("SELECT df.signal('{id}', 'go', '1'), df.signal('{id}', 'other', '0')")],
    )
    .await;
    let worker = scene.worker().await;
    eventually(&scene.client, &format!("SELECT df.status('{id}')"), "running", SOON).await;
    execute(&scene.client, &[&format!("SELECT df.signal('{id}', 'go', '2')")]).await;
    eventually(&scene.owner, "SELECT count(*) FROM df._inbox", "0", SOON).await;
    worker.kill();
    execute(&scene.client, &[&format!("SELECT df.signal('{id}', 'go', '\"three\"')")]).await;
    let _next = scene.worker().await;
    let output = ended(&scene.client, &id, SOON).await.completed();
    for (name, value) in [("a", "1"), ("b", "2"), ("c", "three")] {
        let text = output.replace('"', "");
        assert!(text.contains(&format!("{name}:{value}")), "{name} = {value} in {output}");
    }
    // Not waited for any more: an instance that has ended takes no notice, and nothing is left of it.
    execute(&scene.client, &[&format!("SELECT df.signal('{id}', 'go')")]).await;
    eventually(&scene.owner, "SELECT count(*) FROM df._inbox", "0", Duration::from_secs(5)).await;
}

/// A start and its signals that commit together, a start whose transaction stays open for long, and one that is undone.
#[tokio::test(flavor = "multi_thread")]
async fn starts_belong_to_their_transaction() {
    let scene = Scene::set().await;
    let _worker = scene.worker().await;
    let other = scene.database.connect(&scene.alice).await;
    execute(&other, &["BEGIN"]).await;
    let waits = start(&other, "df.wait_for_signal('go', 60)").await;
    execute(&other, &[&format!("SELECT df.signal('{waits}', 'go', '7')")]).await;
    let undone = scene.database.connect(&scene.alice).await;
    execute(&undone, &["BEGIN"]).await;
    let never = start(&undone, &format!("'{}'", scene.enter("never"))).await;
    // Later ones pass them by.
    for _ in 0..3 {
        run_step(&scene.client, "SELECT 1").await.completed();
        sleep(Duration::from_millis(400)).await;
    }
    execute(&undone, &["ROLLBACK"]).await;
    let began = clock::now();
    execute(&other, &["COMMIT"]).await;
    assert!(ended(&scene.client, &waits, SOON).await.completed().contains('7'));
    assert!(began.elapsed() < Duration::from_secs(2), "F-9: it was noticed after {:?}", began.elapsed());
    assert_eq!(ended_yet(&scene.client, &never).await, None);
    assert_eq!(
        one(&scene.owner, &format!("SELECT count(*) FROM {}.ledger", scene.alice)).await.as_deref(),
        Some("0")
    );
}
