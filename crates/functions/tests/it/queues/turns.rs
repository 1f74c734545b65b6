//! What a turn lets in at once, beside other turns, other instances, and who changes its queue meanwhile.

use super::counts;
use crate::common::{database, maybe_one, one, refusal, OWNER};
use crate::proxy::{Proxy, RoundTrip, Side};
use crate::worker::{ended, eventually, execute, start, submitter, TestWorker, SOON};
use duramen_base::clock;
use duramen_functions::schema::SCHEMA_VERSION;
use std::time::Duration;

/// The statement by which a turn takes instances of a role: how many it took.
fn claim(role: &str, many: i32) -> String {
    format!(
        "SELECT count(seq) FROM df._claim({SCHEMA_VERSION}, '{role}'::regrole::oid, 0, {many}, 1000000, true)"
    )
}

/// Invariant Q3: what a turn has let in begins in this turn, also if others have come in between.
#[tokio::test]
async fn whoever_was_counted_begins() {
    let database = database().await;
    let (role, client, owner) = submitter(&database).await;
    execute(&client, &["SELECT df.queue('q', rate => 60, per => '1 hour')"]).await;
    let both = "SELECT count(df.start('SELECT 1', queue => CASE WHEN n % 2 = 0 THEN 'q' END)) FROM generate_series(1, 120) n";
    execute(&client, &["SELECT df.start('SELECT 1')", both]).await;
    execute(&owner, &["BEGIN"]).await;
    one(&owner, &claim(&role, 100)).await;
    let taken = one(&owner, "SELECT count(*) FROM df._instance WHERE queue IS NOT NULL").await;
    let counted = one(&owner, "SELECT coalesce(sum(many), 0) FROM df._admission").await;
    assert_eq!(taken, counted, "what a turn takes, and what it counts");
    execute(&owner, &["COMMIT"]).await;
}

/// Limits: what was let in is counted for `per`, and is not kept for longer.
#[tokio::test]
async fn what_was_let_in_is_not_kept_for_ever() {
    let database = database().await;
    let (role, client, owner) = submitter(&database).await;
    execute(&client, &["SELECT df.queue('q', rate => 10, per => '1 millisecond')"]).await;
    for _ in 0..20 {
        start(&client, "'SELECT 1', queue => 'q'").await;
        assert_eq!(one(&owner, &claim(&role, 100)).await.as_deref(), Some("1"));
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert_eq!(one(&owner, "SELECT count(*) FROM df._admission").await.as_deref(), Some("1"));
}

/// Invariant Q2: a limit that is set while a turn is open lets nothing in until there is room.
#[tokio::test]
async fn a_limit_that_is_set_counts_whom_an_open_turn_lets_in() {
    let database = database().await;
    let (role, client, owner) = submitter(&database).await;
    execute(&client, &["SELECT df.queue('q')"]).await;
    for _ in 0..3 {
        start(&client, "'SELECT 1', queue => 'q'").await;
    }
    execute(&owner, &["BEGIN"]).await;
    assert_eq!(one(&owner, &claim(&role, 100)).await.as_deref(), Some("3"));
    let changer = database.connect(&role).await;
    execute(&changer, &["SET lock_timeout = '300ms'"]).await;
    let changed = maybe_one(&changer, "SELECT df.queue('q', concurrency => 1)").await.is_ok();
    start(&client, "'SELECT 1', queue => 'q'").await;
    let other = database.owner().await;
    let taken = one(&other, &claim(&role, 100)).await;
    assert!(!changed || taken.as_deref() == Some("0"), "one more begins beside three, and the limit is 1");
    execute(&owner, &["ROLLBACK"]).await;
}

/// Several turns let in for a queue without limits at once.
#[tokio::test]
async fn turns_share_a_queue_without_limits() {
    let database = database().await;
    let (role, client, owner) = submitter(&database).await;
    execute(&client, &["SELECT df.queue('q')"]).await;
    let other = database.owner().await;
    for session in [&owner, &other] {
        start(&client, "'SELECT 1', queue => 'q'").await;
        execute(session, &["BEGIN"]).await;
        assert_eq!(one(session, &claim(&role, 100)).await.as_deref(), Some("1"));
    }
    execute(&owner, &["ROLLBACK"]).await;
    execute(&other, &["ROLLBACK"]).await;
    assert_eq!(counts(&client, "q").await, "2 0 0");
}

/// A function that takes no notice of being cancelled, and holds its turn for as long as it may.
fn deaf(role: &str) -> String {
    format!(
        "CREATE FUNCTION {role}.deaf() RETURNS void LANGUAGE plpgsql AS $$ BEGIN
            FOR n IN 1 .. 3 LOOP
                BEGIN PERFORM pg_sleep(0.5); EXCEPTION WHEN query_canceled THEN PERFORM pg_sleep(0.5); END;
            END LOOP; END $$"
    )
}

/// Invariant F-7: a step that holds its turn delays its neighbours in the turn, and not who comes through a queue later.
#[tokio::test]
async fn a_step_that_holds_its_turn_delays_no_queue() {
    let database = database().await;
    let (role, client, _) = submitter(&database).await;
    execute(&client, &[&deaf(&role), "SELECT df.queue('q')", "SELECT df.queue('limited', concurrency => 5)"])
        .await;
    let _worker = TestWorker::start(&database, 2).await;
    for queue in ["q", "limited"] {
        let warm = start(&client, &format!("'SELECT 1', queue => '{queue}'")).await;
        ended(&client, &warm, SOON).await;
        let id = start(&client, &format!("'SELECT {role}.deaf() /* {queue} */'")).await;
        tokio::time::sleep(Duration::from_millis(150)).await;
        let began = clock::now();
        let plain = start(&client, "'SELECT 2'").await;
        ended(&client, &plain, SOON).await;
        let of_plain = began.elapsed();
        let began = clock::now();
        let queued = start(&client, &format!("'SELECT 2', queue => '{queue}'")).await;
        ended(&client, &queued, SOON).await;
        let of_queued = began.elapsed();
        assert!(
            of_plain + of_queued < Duration::from_secs(1),
            "{queue}: {of_queued:?}, and {of_plain:?} without"
        );
        ended(&client, &id, SOON).await;
    }
}

/// Letting in: a queue that a turn has held locked is looked into when the turn is over, also if its worker has fallen asleep
/// meanwhile, and all its looks have passed the queue over.
#[tokio::test]
async fn a_queue_that_a_turn_held_is_looked_into_after_it() {
    let database = database().await;
    let (role, client, owner) = submitter(&database).await;
    execute(&client, &[&deaf(&role), "SELECT df.queue('q', concurrency => 5)"]).await;
    let name = database.name().to_owned();
    let commit = RoundTrip { database: name.clone(), asks: "CLOSE ALL; COMMIT", nth: 0, side: Side::Request };
    let proxy = Proxy::of_one_connection(database.server(), commit);
    let _worker = TestWorker::start_at(&proxy.url(OWNER, &name), 2).await;
    let is_asleep = "SELECT pg_sequence_last_value('df._asleep') = 2";
    // The lane that leads is to be busy with something else: while it is awake, nobody is notified, and it is the one that finds
    // that. Then the worker says for as long as it takes that it is awake.
    let mut busy = None;
    for number in 0..20 {
        let probe = start(&client, "'SELECT 1'").await;
        ended(&client, &probe, SOON).await;
        let id = start(&client, &format!("'SELECT {role}.deaf() /* {} */'", "x".repeat(number))).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        if one(&owner, is_asleep).await.as_deref() == Some("f") {
            busy = Some(id);
            break;
        }
        ended(&client, &id, SOON).await;
    }
    let busy = busy.expect("the lane that leads takes one of them");
    // Another lane lets one in, and its commit is slow.
    proxy.arm();
    let first = start(&client, "'SELECT 1', queue => 'q'").await;
    tokio::time::timeout(SOON, proxy.stalled()).await.expect("a turn takes it");
    ended(&client, &busy, SOON).await;
    // A heartbeat looks, too, and the next one comes seconds later.
    let last_heard = "SELECT last_seen_at::text FROM df._worker_epoch";
    let heard = one(&owner, last_heard).await.expect("a worker");
    eventually(&owner, &format!("SELECT ({last_heard}) <> '{heard}'"), "t", SOON).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    eventually(&owner, is_asleep, "t", SOON).await;
    let waiting =
        one(&client, "SELECT df.start('SELECT 2', queue => 'q', dedup => 'k')").await.expect("an id");
    // Longer than the looks of a worker that has been notified.
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(counts(&client, "q").await, "2 0 0", "the turn has the queue");
    assert_eq!(one(&owner, is_asleep).await.as_deref(), Some("t"));
    proxy.go_on();
    ended(&client, &first, Duration::from_secs(3)).await.completed();
    ended(&client, &waiting, Duration::from_secs(3)).await.completed();
}

/// Limits: a partition has up to 200 characters, however simple the start is.
#[tokio::test]
async fn a_partition_that_is_too_long_is_refused() {
    let database = database().await;
    let (_, client, _) = submitter(&database).await;
    execute(&client, &["SELECT df.queue('q')", "SELECT df.start('SELECT 1')"]).await;
    let refused =
        refusal(&client, "SELECT df.start('SELECT 1', queue => 'q', partition => repeat('x', 201))").await;
    assert!(refused.contains("200 characters"), "{refused}");
    start(&client, "'SELECT 1', queue => 'q', partition => repeat('x', 200)").await;
}

/// Invariant F-23: who has cancelled an instance that waits sees that, also in a list that was asked for before it ended.
#[tokio::test]
async fn a_list_shows_who_was_cancelled_by_one_snapshot() {
    let database = database().await;
    let (role, client, owner) = submitter(&database).await;
    let ready = start(&client, "'SELECT 1'").await;
    execute(&client, &[&format!("SELECT df.cancel('{ready}')")]).await;
    let listing = database.connect(&role).await;
    for list in [
        "SELECT f.status FROM (SELECT pg_sleep(1) OFFSET 0) s, LATERAL df.find_instances(limit_count => CASE WHEN s IS NULL THEN 1 ELSE 9 END) f",
        "SELECT f.status FROM (SELECT pg_sleep(1) OFFSET 0) s, LATERAL df.list_instances(limit_count => CASE WHEN s IS NULL THEN 1 ELSE 9 END) f",
    ] {
        let asked = tokio::join!(one(&listing, list), async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            execute(&owner, &["CREATE TEMPORARY TABLE kept AS SELECT * FROM df._inbox", "DELETE FROM df._inbox"]).await;
        });
        assert_eq!(asked.0.as_deref(), Some("cancelled"), "{list}");
        execute(&owner, &["INSERT INTO df._inbox OVERRIDING SYSTEM VALUE SELECT * FROM kept", "DROP TABLE kept"]).await;
    }
}
