//! Schedules: each time once, whoever looks and whatever is killed; overlaps, what was missed, and control.

use crate::common::{database, one, refusal, rows};
use crate::worker::{ended, eventually, execute, submitter, TestWorker, SOON};
use std::time::Duration;

const STARTED: &str = "SELECT started FROM df.schedules()";

async fn number(client: &tokio_postgres::Client, sql: &str) -> i64 {
    one(client, sql).await.unwrap_or_default().parse().unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// With several workers, one of which is killed again and again, each time is started once.
#[tokio::test]
async fn each_time_is_started_once() {
    let database = database().await;
    let (role, client, _) = submitter(&database).await;
    execute(
        &client,
        &[
            &format!("CREATE TABLE {role}.ledger (at timestamptz)"),
            &format!(
                "SELECT df.schedule('s', 'INSERT INTO {role}.ledger VALUES ($input.scheduled_at)', every => '1 second',
                     overlap => 'allow', label => 'tick')"
            ),
        ],
    )
    .await;
    let mut workers = Vec::new();
    for _ in 0..3 {
        workers.push(TestWorker::start(&database, 2).await);
    }
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_millis(1_100)).await;
        workers.remove(0).kill();
        workers.push(TestWorker::start(&database, 2).await);
    }
    execute(&client, &["SELECT df.pause_schedule('s')"]).await;
    let all = "SELECT count(*) = 0 FROM df.instances WHERE status NOT IN ('completed')";
    eventually(&client, all, "t", SOON).await;
    let ledger = format!("SELECT count(*), count(DISTINCT at), max(at) - min(at) FROM {role}.ledger");
    let found = rows(&client, &ledger).await.remove(0);
    assert_eq!(found[0], found[1], "a time was started twice: {found:?}");
    let count: i64 = found[0].as_deref().unwrap().parse().unwrap();
    assert!(count >= 4, "{found:?}");
    assert_eq!(number(&client, STARTED).await, count);
    // None is missing between the first and the last.
    let span = format!("SELECT extract(epoch FROM max(at) - min(at))::int + 1 FROM {role}.ledger");
    assert_eq!(number(&client, &span).await, count);
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert_eq!(number(&client, STARTED).await, count, "it is paused");
}

#[tokio::test]
async fn what_still_goes_on_decides_what_is_started() {
    let database = database().await;
    let (_, client, owner) = submitter(&database).await;
    let _worker = TestWorker::start(&database, 2).await;
    for overlap in ["skip", "buffer", "cancel", "allow"] {
        execute(
            &client,
            &[&format!(
                "SELECT df.schedule('{overlap}', df.wait_for_signal('go'), every => '1 second', overlap => '{overlap}',
                     label => '{overlap}')"
            )],
        )
        .await;
    }
    // Three times for each of them.
    let times = "SELECT bool_and(started + skipped + (overlap = 'buffer')::int >= 3) FROM df.schedules()";
    eventually(&client, times, "t", SOON).await;
    execute(&client, &["SELECT df.pause_schedule(name) FROM df.schedules() WHERE name <> 'buffer'"]).await;
    let of = |overlap: &str, what: &str| {
        format!("SELECT count(*) FROM df.instances WHERE label = '{overlap}' AND status = '{what}'")
    };
    // What was started may not have begun yet.
    let at_least = |overlap: &str, what: &str, many: u32| format!("SELECT ({}) >= {many}", of(overlap, what));
    eventually(&client, &of("skip", "running"), "1", SOON).await;
    eventually(&client, &at_least("allow", "running", 3), "t", SOON).await;
    eventually(&client, &of("cancel", "running"), "1", SOON).await;
    eventually(&client, &at_least("cancel", "cancelled", 2), "t", SOON).await;
    assert_eq!(number(&client, "SELECT count(*) FROM df.instances WHERE label = 'buffer'").await, 1);
    // When that ends, one begins, for the first time that had to wait; not all of them.
    let waited =
        one(&owner, "SELECT buffered_at FROM df._schedule WHERE name = 'buffer'").await.expect("one waits");
    let first = one(&client, "SELECT id FROM df.instances WHERE label = 'buffer'").await.unwrap();
    execute(&client, &[&format!("SELECT df.signal('{first}', 'go')")]).await;
    eventually(&client, "SELECT count(*) FROM df.instances WHERE label = 'buffer'", "2", SOON).await;
    let last = "SELECT last_at FROM df.schedules() WHERE name = 'buffer'";
    assert_eq!(one(&client, last).await, Some(waited));
}

#[tokio::test]
async fn what_was_missed_is_made_up_for() {
    let database = database().await;
    let (_, client, owner) = submitter(&database).await;
    execute(
        &client,
        &[
            "SELECT df.schedule('near', 'SELECT 1', cron => '* * * * *', overlap => 'allow', catch_up => '10 minutes')",
            "SELECT df.schedule('far', 'SELECT 1', cron => '* * * * *', overlap => 'allow', catch_up => '0')",
        ],
    )
    .await;
    let worker = TestWorker::start(&database, 2).await;
    eventually(&client, "SELECT bool_and(next_at IS NOT NULL) FROM df.schedules()", "t", SOON).await;
    worker.kill();
    let before = number(&client, "SELECT sum(started) FROM df.schedules()").await;
    execute(
        &owner,
        &["UPDATE df._schedule SET next_at = date_trunc('minute', now()) - interval '5 minutes', due_at = now()"],
    )
    .await;
    let _worker = TestWorker::start(&database, 2).await;
    eventually(&client, "SELECT bool_and(next_at > now()) FROM df.schedules()", "t", SOON).await;
    let near = number(&client, "SELECT started FROM df.schedules() WHERE name = 'near'").await;
    assert!((6..=8).contains(&near), "{near}");
    let far = number(&client, "SELECT started FROM df.schedules() WHERE name = 'far'").await;
    assert!(far <= before + 2, "{far}");
    // In the past, on purpose.
    execute(&client, &["SELECT df.backfill_schedule('far', '2026-01-01 00:00Z', '2026-01-01 03:59Z')"]).await;
    let filled = "SELECT count(*), count(DISTINCT input ->> 'scheduled_at') FROM df._instance
        WHERE (input ->> 'scheduled_at')::timestamptz < '2026-02-01'";
    for _ in 0..200 {
        if rows(&owner, filled).await[0][0].as_deref() == Some("240") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(rows(&owner, filled).await, [[Some("240".to_owned()), Some("240".to_owned())]]);
    execute(&client, &["SELECT df.backfill_schedule('far', '2026-01-01', '2026-01-01')"]).await;
}

#[tokio::test]
async fn a_schedule_is_triggered_changed_and_dropped() {
    let database = database().await;
    let (_, client, owner) = submitter(&database).await;
    let mallory = database.role("mallory").await;
    let mallory = database.connect(&mallory).await;
    let _worker = TestWorker::start(&database, 2).await;
    execute(
        &client,
        &[
            "SELECT df.queue('q', concurrency => 1)",
            "SELECT df.schedule('s', 'SELECT $input.n + 1 AS n', cron => '0 0 1 1 *', time_zone => 'Europe/Berlin',
                 input => '{\"n\": 4}', queue => 'q', jitter => '1 hour')",
        ],
    )
    .await;
    let id = one(&client, "SELECT df.trigger_schedule('s')").await.unwrap();
    assert!(ended(&client, &id, SOON).await.completed().contains("\"n\":5"));
    eventually(&client, "SELECT next_at IS NOT NULL FROM df.schedules()", "t", SOON).await;
    let next = one(&client, "SELECT next_at FROM df.schedules()").await;
    // Another text at the same times: they stay; other times: they are found anew.
    execute(
        &client,
        &["SELECT df.schedule('s', 'SELECT 1', cron => '0 0 1 1 *', time_zone => 'Europe/Berlin', jitter => '1 hour')"],
    )
    .await;
    assert_eq!(one(&client, "SELECT next_at FROM df.schedules()").await, next);
    assert!(rows(&mallory, "SELECT * FROM df.schedules()").await.is_empty());
    for (sql, reason) in [
        ("SELECT df.trigger_schedule('s')", "there is no schedule"),
        ("SELECT df.pause_schedule('s')", "there is no schedule"),
        ("SELECT df.drop_schedule('s')", "there is no schedule"),
        ("SELECT df.backfill_schedule('s', '2026-01-01', '2026-01-02')", "there is no schedule"),
        ("SELECT df._fire(1, '{}', now(), now(), '{}', NULL)", "permission denied"),
        ("DELETE FROM df._schedule", "permission denied"),
        ("INSERT INTO df._schedule (submitted_by, name) VALUES (10, 'x')", "permission denied"),
        ("LOCK TABLE df._schedule IN SHARE MODE", "LOCK TABLE can only be used"),
        ("UPDATE df._schedule SET last_seq = 1", "permission denied"),
        ("SELECT df.schedule('s', 'SELECT 1')", "say either cron or every"),
        ("SELECT df.schedule('s', 'SELECT 1', cron => '61 * * * *')", "df.schedule: "),
        ("SELECT df.schedule('s', 'SELECT 1', every => '0.5 seconds')", "from 1 s"),
        (
            "SELECT df.schedule('s', 'SELECT 1', every => '1 day', overlap => 'x')",
            "skip, allow, buffer or cancel",
        ),
        ("SELECT df.schedule('s', 'SELECT 1', every => '1 day', input => '5')", "a JSON object"),
        ("SELECT df.schedule('s', '', every => '1 day')", "a SQL step is empty"),
    ] {
        let said = refusal(&mallory, sql).await;
        assert!(said.contains(reason), "{sql}: {said}");
    }
    execute(&client, &["SELECT df.drop_schedule('s')"]).await;
    assert_eq!(one(&owner, "SELECT count(*) FROM df._schedule").await.as_deref(), Some("0"));
}
