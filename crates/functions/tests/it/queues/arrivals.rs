//! What is started one by one comes into `_ready`, and the turn that takes it lets it in if there is room: the same limits hold
//! as for what waits, and who cannot begin waits in the queue.

use super::{counts, entries, entry, ledger, most_at_once};
use crate::common::{database, one};
use crate::worker::{ended, eventually, execute, start, submitter, TestWorker, SOON};
use std::time::Duration;

fn all_ended(label: &str, many: usize) -> String {
    format!(
        "SELECT count(*) = {many} FROM df._done d JOIN df._instance i USING (seq) WHERE i.label = '{label}' AND d.status = 'c'"
    )
}

/// Invariants Q2, Q3 and Q5 with three workers, of which some are killed.
#[tokio::test]
async fn what_comes_one_by_one_meets_the_same_limits() {
    let database = database().await;
    let (_, client, owner) = submitter(&database).await;
    execute(
        &client,
        &[
            "SELECT df.queue('three', concurrency => 3)",
            "SELECT df.queue('rated', rate => 5, per => '700 milliseconds')",
            "SELECT df.queue('parts', partition_concurrency => 1)",
            "SELECT df.queue('free')",
        ],
    )
    .await;
    let mut workers = Vec::new();
    for _ in 0..3 {
        workers.push(TestWorker::start(&database, 4).await);
    }
    for number in 0..18 {
        let part = if number % 3 == 0 { "a" } else { "b" };
        for (step, queue) in [
            ("df.sleep(0.1)", "three"),
            ("'SELECT 1'", "rated"),
            ("df.sleep(0.05)", "parts"),
            ("'SELECT 1'", "free"),
        ] {
            start(&client, &format!("{step}, label => '{queue}', queue => '{queue}', partition => '{part}'"))
                .await;
        }
        if number % 6 == 5 {
            workers.remove(0).kill();
            workers.push(TestWorker::start(&database, 4).await);
        }
    }
    for queue in ["three", "rated", "parts", "free"] {
        eventually(&client, &all_ended(queue, 18), "t", SOON).await;
        assert_eq!(counts(&client, queue).await, "0 0 0", "{queue}");
    }
    let most: usize = most_at_once(&client, "three").await.parse().unwrap();
    assert!(most <= 3, "{most} at once");
    let most = "WITH began AS (SELECT d.started_at AS at FROM df._done d JOIN df._instance i USING (seq) WHERE i.label = 'rated')
        SELECT max((SELECT count(*) FROM began o WHERE o.at >= b.at AND o.at < b.at + interval '700 milliseconds')) <= 5
        FROM began b";
    assert_eq!(one(&client, most).await.as_deref(), Some("t"), "more than the rate says");
    // A span with a sleep goes from the turn that let it in to the one that ended it: of a partition none overlap.
    let overlaps = "WITH span AS (SELECT i.seq, d.started_at AS begin, d.completed_at AS \"end\",
                CASE WHEN row_number() OVER (ORDER BY i.seq) % 3 = 1 THEN 'a' ELSE 'b' END AS part
            FROM df._done d JOIN df._instance i USING (seq) WHERE i.label = 'parts')
        SELECT count(*) FROM span a JOIN span b ON a.part = b.part AND a.seq < b.seq AND a.begin < b.\"end\" AND b.begin < a.\"end\"";
    assert_eq!(one(&owner, overlaps).await.as_deref(), Some("0"));
    assert_eq!(one(&owner, "SELECT count(*) FROM df._slot").await.as_deref(), Some("0"));
}

/// Invariant Q4: who comes together with others begins by priority.
#[tokio::test]
async fn who_comes_together_begins_by_priority() {
    let database = database().await;
    let (role, client, _) = submitter(&database).await;
    ledger(&client, &role).await;
    execute(&client, &["SELECT df.queue('q', concurrency => 1)"]).await;
    let step = entry(&role, "later");
    let many = format!("SELECT count(df.start({step}, queue => 'q', label => 'q', priority => 5)) FROM generate_series(1, 60)");
    let first =
        format!("SELECT df.start({}, queue => 'q', label => 'q', priority => -1)", entry(&role, "first"));
    execute(&client, &["BEGIN", &many, &first, "COMMIT"]).await;
    assert_eq!(counts(&client, "q").await, "61 0 0", "no worker has seen them");
    let _worker = TestWorker::start(&database, 2).await;
    eventually(&client, &all_ended("q", 61), "t", SOON).await;
    assert!(entries(&client, &role).await.starts_with("first later"), "the smallest priority is first");
}

/// F-8: rows that somebody writes by hand. What names a queue that is not there, or another role's, waits for nothing, and
/// takes no room of it.
#[tokio::test]
async fn a_queue_that_is_not_ones_own_is_none() {
    let database = database().await;
    let (_, alice, owner) = submitter(&database).await;
    let mallory = database.role("mallory").await;
    let mallory = database.connect(&mallory).await;
    execute(&alice, &["SELECT df.queue('hers', concurrency => 2, rate => 2, per => '1 hour')"]).await;
    let hers = one(&owner, "SELECT id FROM df._queue").await.unwrap();
    for queue in [hers.as_str(), "-1", "9223372036854775807"] {
        let row = format!(
            "INSERT INTO df._ready (statement, label, queue, priority, partition)
             SELECT 'SELECT pg_sleep(0.2)', 'forged', {queue}, -2147483648, repeat('x', 100000) FROM generate_series(1, 3)"
        );
        execute(&mallory, &[&row]).await;
    }
    let _worker = TestWorker::start(&database, 4).await;
    for _ in 0..2 {
        let id = start(&alice, "'SELECT 1', queue => 'hers'").await;
        ended(&alice, &id, Duration::from_secs(5)).await.completed();
    }
    eventually(&mallory, &all_ended("forged", 9), "t", SOON).await;
    assert_eq!(one(&owner, "SELECT count(*) FROM df._slot").await.as_deref(), Some("0"));
    assert_eq!(
        one(&owner, "SELECT count(*) FROM df._instance WHERE label = 'forged' AND queue IS NOT NULL")
            .await
            .as_deref(),
        Some("0")
    );
}

/// A queue whose row somebody holds locked, and one that is paused after a start: what came for it waits, and others go on.
#[tokio::test]
async fn what_came_for_a_queue_that_is_shut_waits() {
    let database = database().await;
    let (role, client, owner) = submitter(&database).await;
    let holder = database.connect(&role).await;
    execute(
        &client,
        &["SELECT df.queue('held', concurrency => 5)", "SELECT df.queue('shut')", "SELECT df.queue('open')"],
    )
    .await;
    let mut ids = Vec::new();
    for queue in ["held", "shut", "open"] {
        ids.push(start(&client, &format!("'SELECT 1', queue => '{queue}'")).await);
    }
    execute(&client, &["SELECT df.pause_queue('shut')"]).await;
    execute(&holder, &["BEGIN", "SELECT df.queue('held', concurrency => 4)"]).await;
    let _worker = TestWorker::start(&database, 2).await;
    ended(&client, &ids[2], SOON).await.completed();
    eventually(&owner, "SELECT count(*) FROM df._queued", "2", SOON).await;
    assert_eq!(counts(&client, "held").await, "1 0 0");
    // It can be cancelled there, and let in.
    execute(&client, &[&format!("SELECT df.cancel('{}')", ids[1])]).await;
    ended(&client, &ids[1], SOON).await;
    let status = format!("SELECT df.status('{}')", ids[1]);
    assert_eq!(one(&client, &status).await.as_deref(), Some("cancelled"));
    execute(&holder, &["COMMIT"]).await;
    ended(&client, &ids[0], SOON).await.completed();
    let plain = start(&client, "'SELECT 1'").await;
    ended(&client, &plain, SOON).await.completed();
}
