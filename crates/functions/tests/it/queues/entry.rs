//! How instances come into a queue and leave it: keys, times, cancelling, control, rights.

use super::{counts, entries, entry, ledger};
use crate::common::{database, one, refusal, rows};
use crate::worker::{ended, eventually, execute, run, start, submitter, TestWorker, SOON};
use std::time::Duration;

/// Invariant Q1: what waits is an instance like others: it is listed, has a status, takes signals, and runs once.
#[tokio::test]
async fn what_waits_is_an_instance_like_others() {
    let database = database().await;
    let (role, client, owner) = submitter(&database).await;
    ledger(&client, &role).await;
    execute(&client, &["SELECT df.queue('q', concurrency => 1)", "SELECT df.pause_queue('q')"]).await;
    let step = entry(&role, "ran");
    let id = start(
        &client,
        &format!("{step} ~> (df.wait_for_signal('go') |=> 's') ~> 'SELECT ($s.data)::json ->> ''n'' AS n', label => 'l', queue => 'q'"),
    )
    .await;
    assert_eq!(one(&client, &format!("SELECT df.status('{id}')")).await.as_deref(), Some("pending"));
    let listed = rows(&client, "SELECT instance_id, label, status FROM df.list_instances('pending')").await;
    assert_eq!(listed.len(), 1, "{listed:?}");
    let seen = format!("SELECT status || ' ' || label FROM df.instances WHERE id = '{id}'");
    assert_eq!(one(&client, &seen).await.as_deref(), Some("pending l"));
    assert!(one(&client, &format!("SELECT df.explain('{id}')")).await.unwrap().contains("SIGNAL go"));
    assert_eq!(one(&owner, &format!("SELECT df.status('{id}')")).await.as_deref(), Some("pending"));
    execute(&client, &[&format!("SELECT df.signal('{id}', 'go', '{{\"n\": 7}}')")]).await;
    // The housekeeping leaves what is for it.
    execute(&owner, &["UPDATE df._inbox SET sent_at = sent_at - interval '1 hour'", "SELECT df._maintain()"])
        .await;
    execute(&client, &["SELECT df.resume_queue('q')"]).await;
    let _worker = TestWorker::start(&database, 2).await;
    assert!(ended(&client, &id, SOON).await.completed().contains("\"n\":\"7\""));
    assert_eq!(entries(&client, &role).await, "ran");
    assert_eq!(one(&owner, "SELECT count(*) FROM df._slot").await.as_deref(), Some("0"));
}

/// A start is undone with its transaction, and `new` commits by itself, into a queue, too.
#[tokio::test]
async fn a_start_into_a_queue_is_part_of_its_transaction() {
    let database = database().await;
    let (_, client, owner) = submitter(&database).await;
    execute(&owner, &["CREATE EXTENSION dblink"]).await;
    execute(
        &client,
        &[
            "SELECT df.queue('q'), df.pause_queue('q')",
            "BEGIN; SELECT df.start('SELECT 1', queue => 'q'); ROLLBACK",
        ],
    )
    .await;
    assert_eq!(counts(&client, "q").await, "0 0 0");
    execute(
        &client,
        &["BEGIN; SELECT df.start('SELECT 1', queue => 'q', priority => 3, transaction_mode => 'new'); ROLLBACK"],
    )
    .await;
    assert_eq!(counts(&client, "q").await, "1 0 0");
    assert_eq!(one(&client, "SELECT priority FROM df._queued").await.as_deref(), Some("3"));
    let key = "SELECT df.start('SELECT 1', queue => 'q', idempotency_key => 'k')";
    assert_eq!(one(&client, key).await, one(&client, key).await);
    assert_eq!(counts(&client, "q").await, "2 0 0");
}

/// Invariant Q9: with a key, an instance is in a queue once, as long as it waits or goes on.
#[tokio::test]
async fn with_a_key_an_instance_is_in_a_queue_once() {
    let database = database().await;
    let (_, client, _) = submitter(&database).await;
    execute(&client, &["SELECT df.queue('q', concurrency => 1)", "SELECT df.queue('other')"]).await;
    let wait = "df.wait_for_signal('go'), queue => 'q', dedup => 'k'";
    let first = start(&client, wait).await;
    assert_eq!(start(&client, wait).await, first, "it waits");
    assert_ne!(start(&client, "'SELECT 1', queue => 'other', dedup => 'k'").await, first, "in another queue");
    let _worker = TestWorker::start(&database, 2).await;
    eventually(&client, "SELECT running FROM df.queues() WHERE name = 'q'", "1", SOON).await;
    assert_eq!(start(&client, wait).await, first, "it goes on");
    execute(&client, &[&format!("SELECT df.signal('{first}', 'go')")]).await;
    ended(&client, &first, SOON).await.completed();
    let second = start(&client, wait).await;
    assert_ne!(second, first, "it has ended");
    // Cancelled while it waits or goes on: the key is free.
    execute(&client, &[&format!("SELECT df.cancel('{second}')")]).await;
    assert_eq!(ended(&client, &second, SOON).await.status, "cancelled");
    // Two sessions at once: the one that is later waits for the other, and gets its id.
    let role = one(&client, "SELECT current_user").await.unwrap();
    let beside = database.connect(&role).await;
    execute(&client, &["BEGIN"]).await;
    let third = start(&client, wait).await;
    let racing = tokio::spawn(async move { start(&beside, wait).await });
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!racing.is_finished(), "it cannot know yet");
    execute(&client, &["COMMIT"]).await;
    assert_eq!(racing.await.unwrap(), third);
}

/// A delay passes first, in a queue or without one; the last of several starts within a debounce wins.
#[tokio::test]
async fn delays_pass_and_the_last_start_wins() {
    let database = database().await;
    let (role, client, _) = submitter(&database).await;
    ledger(&client, &role).await;
    let _worker = TestWorker::start(&database, 2).await;
    let asked_at = one(&client, "SELECT clock_timestamp()").await.unwrap();
    let delayed = start(&client, &format!("{}, delay => '600 milliseconds'", entry(&role, "late"))).await;
    let soon = start(&client, &entry(&role, "soon")).await;
    ended(&client, &soon, SOON).await.completed();
    ended(&client, &delayed, SOON).await.completed();
    let waited = format!(
        "SELECT d.started_at - '{asked_at}'::timestamptz >= interval '600 milliseconds'
        FROM df._done d JOIN df._instance i USING (seq) WHERE i.queue IS NOT NULL"
    );
    assert_eq!(one(&client, &waited).await.as_deref(), Some("t"));
    assert_eq!(counts(&client, "default").await, "0 0 0");
    let mut ids = Vec::new();
    for text in ["one", "two", "three"] {
        let step = entry(&role, text);
        ids.push(start(&client, &format!("{step}, dedup => 'same', debounce => '400 milliseconds'")).await);
        tokio::time::sleep(Duration::from_millis(150)).await;
    }
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    ended(&client, &ids[0], SOON).await.completed();
    assert_eq!(entries(&client, &role).await, "soon late three");
    let next = start(&client, "'SELECT 1', dedup => 'same', debounce => '1 milliseconds'").await;
    assert_ne!(next, ids[0], "that one was let in");
    ended(&client, &next, SOON).await.completed();
}

/// What waits can be cancelled, and does not run; nor does it take a place.
#[tokio::test]
async fn what_waits_can_be_cancelled() {
    let database = database().await;
    let (role, client, _) = submitter(&database).await;
    ledger(&client, &role).await;
    execute(&client, &["SELECT df.queue('q', concurrency => 1)", "SELECT df.pause_queue('q')"]).await;
    let waiting = start(&client, &format!("{}, queue => 'q'", entry(&role, "no"))).await;
    let delayed = start(&client, &format!("{}, queue => 'q', delay => '1 day'", entry(&role, "no"))).await;
    let _worker = TestWorker::start(&database, 2).await;
    for id in [&waiting, &delayed] {
        execute(&client, &[&format!("SELECT df.cancel('{id}', 'enough')")]).await;
        let end = ended(&client, id, SOON).await;
        assert_eq!((end.status.as_str(), end.output.as_str()), ("cancelled", "enough"));
    }
    assert_eq!(entries(&client, &role).await, "");
    assert_eq!(counts(&client, "q").await, "0 0 0");
}

/// A child waits in the queue that its call names; one that cannot fails its step, awaited or not.
#[tokio::test]
async fn children_wait_in_queues() {
    let database = database().await;
    let (_, client, _) = submitter(&database).await;
    let _worker = TestWorker::start(&database, 2).await;
    execute(&client, &["SELECT df.queue('q', concurrency => 2)", "SELECT df.queue('closed')"]).await;
    let items = "SELECT g FROM generate_series(1, 9) AS g";
    let body = "df.call(df.sleep(0.03) ~> 'SELECT $item * 2 AS twice', label => 'child', queue => 'q', priority => 1)";
    let output = run(&client, &format!("df.map('{items}', {body})")).await.completed();
    assert!(output.contains("18"), "{output}");
    assert_eq!(super::most_at_once(&client, "child").await, "2");
    execute(&client, &["SELECT df.drain_queue('closed')"]).await;
    for queue in ["nowhere", "closed"] {
        for awaited in ["true", "false"] {
            let call = format!("df.call('SELECT 1', await => {awaited}, queue => '{queue}')");
            let message = run(&client, &call).await.failed();
            assert!(message.contains(&format!("no queue \"{queue}\"")), "{message}");
        }
    }
    let caught = run(&client, "df.catch(df.call('SELECT 1', queue => 'nowhere'), 'SELECT 5 AS five')").await;
    assert!(caught.completed().contains("\"five\":5"));
}

#[tokio::test]
async fn a_queue_is_paused_drained_and_dropped() {
    let database = database().await;
    let (_, client, _) = submitter(&database).await;
    let _worker = TestWorker::start(&database, 2).await;
    execute(&client, &["SELECT df.queue('q', concurrency => 1)", "SELECT df.pause_queue('q')"]).await;
    let id = start(&client, "'SELECT 1', queue => 'q'").await;
    let not_empty = refusal(&client, "SELECT df.drop_queue('q')").await;
    assert!(not_empty.contains("queue \"q\" is not empty"), "{not_empty}");
    // That was undone.
    assert_eq!(one(&client, "SELECT state FROM df.queues()").await.as_deref(), Some("paused"));
    execute(&client, &["SELECT df.drain_queue('q')"]).await;
    ended(&client, &id, SOON).await.completed();
    let drained = refusal(&client, "SELECT df.start('SELECT 1', queue => 'q')").await;
    assert!(drained.contains("is being drained"), "{drained}");
    execute(&client, &["SELECT df.drop_queue('q')"]).await;
    assert!(rows(&client, "SELECT * FROM df.queues()").await.is_empty());
    let gone = refusal(&client, "SELECT df.start('SELECT 1', queue => 'q')").await;
    assert!(gone.contains("there is no queue \"q\"") && gone.contains("SELECT df.queue('q'"), "{gone}");
}

/// What came into a queue in the moment in which it was dropped is not lost.
#[tokio::test]
async fn what_has_no_queue_any_more_is_let_in() {
    let database = database().await;
    let (_, client, owner) = submitter(&database).await;
    execute(&client, &["SELECT df.queue('q'), df.pause_queue('q')"]).await;
    let id = start(&client, "'SELECT 1', queue => 'q'").await;
    execute(&owner, &["DELETE FROM df._queue", "SELECT df._maintain()"]).await;
    let _worker = TestWorker::start(&database, 2).await;
    ended(&client, &id, SOON).await.completed();
}

#[tokio::test]
async fn what_makes_no_sense_is_refused() {
    let database = database().await;
    let (_, client, _) = submitter(&database).await;
    execute(&client, &["SELECT df.queue('q')"]).await;
    for (sql, reason) in [
        ("df.queue('')", "1 to 200 characters"),
        ("df.queue('x', concurrency => 0)", "a limit is from 1 to 10,000"),
        ("df.queue('x', rate => 5, per => '0')", "a time of up to 30 days"),
        ("df.start('SELECT 1', queue => 'q', dedup => '')", "dedup 1 to 200"),
        ("df.start('SELECT 1', queue => 'q', delay => '-1 second')", "from 0 to 100 years"),
        ("df.start('SELECT 1', queue => 'q', debounce => '1 second')", "debounce goes with dedup"),
        ("df.start('SELECT 1', queue => 'nowhere')", "there is no queue \"nowhere\""),
        ("df.start(df.call('SELECT 1', priority => 1))", "priority and partition are for a queue"),
        ("df.pause_queue('nowhere')", "there is no queue"),
    ] {
        let said = refusal(&client, &format!("SELECT {sql}")).await;
        assert!(said.contains(reason), "{sql}: {said}");
    }
}

/// Nobody sees, changes or fills the queue of another role, or stops one that is not hers by a lock.
#[tokio::test]
async fn a_queue_is_its_roles_own() {
    let database = database().await;
    let (_, alice, owner) = submitter(&database).await;
    let mallory = database.role("mallory").await;
    let mallory = database.connect(&mallory).await;
    execute(&alice, &["SELECT df.queue('q', concurrency => 1), df.pause_queue('q')"]).await;
    let id = start(&alice, "'SELECT 1', queue => 'q', dedup => 'k'").await;
    let number = one(&owner, "SELECT id FROM df._queue").await.unwrap();
    for table in ["_queue", "_queued", "_dedup", "_slot", "_admission"] {
        assert!(rows(&mallory, &format!("SELECT * FROM df.{table}")).await.is_empty(), "{table}");
    }
    assert!(rows(&mallory, "SELECT * FROM df.queues()").await.is_empty());
    for (sql, reason) in [
        (
            format!("INSERT INTO df._queued (queue, statement) VALUES ({number}, 'SELECT 1')"),
            "has no such queue",
        ),
        ("INSERT INTO df._queued (seq, queue) VALUES (7, 1)".to_owned(), "permission denied"),
        ("INSERT INTO df._queued (submitted_by, queue) VALUES (10, 1)".to_owned(), "permission denied"),
        ("INSERT INTO df._slot (seq, queue) VALUES (7, 1)".to_owned(), "permission denied"),
        ("DELETE FROM df._queued".to_owned(), "permission denied"),
        ("DELETE FROM df._queue".to_owned(), "permission denied"),
        ("UPDATE df._queued SET priority = -9".to_owned(), "permission denied"),
        ("DO $$ BEGIN LOCK TABLE df._queued IN SHARE MODE; END $$".to_owned(), "permission denied"),
        ("DO $$ BEGIN LOCK TABLE df._queue IN SHARE MODE; END $$".to_owned(), "permission denied"),
        ("SELECT df._admit(0)".to_owned(), "permission denied"),
        ("SELECT df._let_in('{}', true)".to_owned(), "permission denied"),
        ("SELECT nextval('df._instance_seq')".to_owned(), "permission denied"),
        ("SELECT df.drop_queue('q')".to_owned(), "there is no queue"),
    ] {
        let said = refusal(&mallory, &sql).await;
        assert!(said.contains(reason), "{sql}: {said}");
    }
    execute(
        &mallory,
        &[
            "UPDATE df._queue SET state = 'open', concurrency = 99",
            "UPDATE df._queued SET due_at = now()",
            "SELECT df.queue('q')",
            // With her own queue she may do what she likes.
            "BEGIN; SELECT FROM df._queue FOR UPDATE",
        ],
    )
    .await;
    assert_eq!(one(&alice, "SELECT state || concurrency FROM df.queues()").await.as_deref(), Some("paused1"));
    let _worker = TestWorker::start(&database, 2).await;
    execute(&alice, &["SELECT df.resume_queue('q')"]).await;
    ended(&alice, &id, SOON).await.completed();
}
