//! F-19 for queues, schedules, tasks and events: whatever somebody writes into rows of her own, or locks, others go on.

use super::{counts, entry, ledger};
use crate::common::{database, one, refusal, Database};
use crate::worker::{ended, eventually, execute, start, submitter, TestWorker, SOON};
use std::time::Duration;
use tokio_postgres::Client;

/// In this time somebody who asks for little gets it, whatever another one has done.
const PROMPT: Duration = Duration::from_secs(10);

async fn mallory(database: &Database<'_>) -> (String, Client) {
    let role = database.role("mallory").await;
    let client = database.connect(&role).await;
    (role, client)
}

/// An instance of a queue, a plain one and a schedule of alice's are served.
async fn others_go_on(client: &Client) {
    execute(
        client,
        &["SELECT df.queue('hers')", "SELECT df.schedule('hers', 'SELECT 1', every => '1 second')"],
    )
    .await;
    for expression in ["'SELECT 1', queue => 'hers'", "'SELECT 2'", "'SELECT 3', delay => '50 milliseconds'"]
    {
        let id = start(client, expression).await;
        ended(client, &id, PROMPT).await.completed();
    }
    eventually(client, "SELECT started > 0 FROM df.schedules() WHERE name = 'hers'", "t", PROMPT).await;
    execute(client, &["SELECT df.drop_schedule('hers')"]).await;
}

/// What workers cannot reckon with cannot be written: it would fail a look that is for all.
#[tokio::test]
async fn what_cannot_be_reckoned_with_is_refused() {
    let database = database().await;
    let (_, alice, _) = submitter(&database).await;
    let (_, mallory) = mallory(&database).await;
    let _worker = TestWorker::start(&database, 2).await;
    execute(
        &mallory,
        &[
            "SELECT df.queue('q', rate => 5), df.pause_queue('q')",
            "SELECT df.start('SELECT 1', queue => 'q')",
            "SELECT df.schedule('s', 'SELECT 1', every => '1 hour')",
        ],
    )
    .await;
    for sql in [
        "UPDATE df._queue SET per = '290000 years'",
        "UPDATE df._queue SET per = '-1 second'",
        "UPDATE df._queue SET concurrency = 2000000000",
        "UPDATE df._queue SET rate = 2000000000",
        "UPDATE df._queue SET state = 'gone'",
        "UPDATE df._queued SET due_at = 'infinity'",
        "UPDATE df._queued SET due_at = '-infinity'",
        "UPDATE df._queued SET delay = '290000 years'",
        "UPDATE df._schedule SET next_at = 'infinity'",
        "UPDATE df._schedule SET due_at = '-infinity'",
        "UPDATE df._schedule SET backfill_from = '4000-01-01'",
        "UPDATE df._schedule SET every = '290000 years'",
        "UPDATE df._schedule SET every = '1 microsecond'",
        "UPDATE df._schedule SET catch_up = '290000 years'",
        "UPDATE df._schedule SET jitter = '-1 year'",
        "UPDATE df._schedule SET overlap = 'other'",
        "UPDATE df._schedule SET cron = '* * * * *'",
        r#"UPDATE df._schedule SET input = '{"n": "\u0000"}'"#,
    ] {
        let said = refusal(&mallory, sql).await;
        assert!(said.contains("check constraint") || said.contains("\\u0000"), "{sql}: {said}");
    }
    // What is written and makes no sense harms its own row alone.
    execute(
        &mallory,
        &[
            "INSERT INTO df._schedule (name, cron, graph, overlap, catch_up, jitter)
                 VALUES ('a', 'nonsense', '[]', 'allow', '0', '0'), ('b', '* * * * *', '7', 'allow', '1 year', '0')",
            "UPDATE df._schedule SET next_at = '2020-01-01', due_at = '2020-01-01', input = '5'",
            "SELECT df.resume_queue('q')",
        ],
    )
    .await;
    others_go_on(&alice).await;
}

/// Many queues in which nothing may begin, and many partitions that are full.
#[tokio::test]
async fn many_that_are_full_keep_nobody_waiting() {
    let database = database().await;
    let (_, alice, _) = submitter(&database).await;
    let (_, mallory) = mallory(&database).await;
    let _worker = TestWorker::start(&database, 2).await;
    execute(
        &mallory,
        &[
            "SELECT count(df.queue('q' || g, concurrency => 1)) FROM generate_series(1, 250) g",
            "SELECT count(df.start(df.wait_for_signal('never'), queue => 'q' || g))
                 FROM generate_series(1, 250) g, generate_series(1, 2)",
            "SELECT df.queue('parts', partition_concurrency => 1)",
            "SELECT count(df.start(df.wait_for_signal('never'), queue => 'parts', partition => 'p' || g))
                 FROM generate_series(1, 2500) g, generate_series(1, 2)",
        ],
    )
    .await;
    others_go_on(&alice).await;
    // All of hers that may begin do: 250 of as many queues, and 2,500 of as many partitions; and the one behind these.
    eventually(&mallory, "SELECT sum(running) FROM df.queues()", "2750", SOON).await;
    let last = start(&mallory, "'SELECT 1', queue => 'parts', partition => 'zzz'").await;
    ended(&mallory, &last, PROMPT).await.completed();
    let first = start(&mallory, "'SELECT 1', queue => 'parts', partition => 'a'").await;
    ended(&mallory, &first, PROMPT).await.completed();
    others_go_on(&alice).await;
}

#[tokio::test]
async fn queues_and_schedules_of_a_role_are_limited() {
    let database = database().await;
    let (_, mallory, _) = submitter(&database).await;
    execute(
        &mallory,
        &["SELECT count(df.queue('q' || g)) FROM generate_series(1, 1000) g", "SELECT df.queue('q7', 5)"],
    )
    .await;
    let said = refusal(&mallory, "SELECT df.queue('more')").await;
    assert!(said.contains("cannot have more") && said.contains("df.drop_queue"), "{said}");
    assert!(refusal(&mallory, "INSERT INTO df._queue (name) VALUES ('more')")
        .await
        .contains("cannot have more"));
    let many =
        "SELECT count(df.schedule('s' || g, 'SELECT 1', every => '1 year')) FROM generate_series(1, 1001) g";
    assert!(refusal(&mallory, many).await.contains("cannot have more"));
    let large = "SELECT df.set_event(df.start('SELECT 1'), 'k', to_jsonb(repeat('x', 1100000)))";
    assert!(refusal(&mallory, large).await.contains("at most 1 MiB"));
}

/// Whoever holds rows of her own locked, for hours, is passed over.
#[tokio::test]
async fn locked_rows_are_passed_over() {
    let database = database().await;
    let (_, alice, owner) = submitter(&database).await;
    let (role, mallory) = mallory(&database).await;
    let holder = database.connect(&role).await;
    let worker = TestWorker::start(&database, 2).await;
    let done = start(&mallory, "'SELECT df.set_event(''{sys_instance_id}'', ''k'', ''1'')'").await;
    ended(&mallory, &done, SOON).await.completed();
    execute(
        &mallory,
        &[
            "SELECT df.queue('q', concurrency => 1)",
            "SELECT df.start('SELECT 1', queue => 'q', delay => '1 day')",
            "SELECT df.schedule('s', 'SELECT 1', every => '1 hour')",
        ],
    )
    .await;
    let task = start(&mallory, "df.task('t')").await;
    eventually(&mallory, "SELECT count(*) FROM df._task", "1", SOON).await;
    execute(
        &holder,
        &[
            "BEGIN",
            "SELECT FROM df._queue FOR UPDATE",
            "SELECT FROM df._queued FOR UPDATE",
            "SELECT FROM df._schedule FOR UPDATE",
            "SELECT FROM df._event FOR UPDATE",
            "SELECT df.complete_task(token) FROM df.claim_tasks('{t}')",
        ],
    )
    .await;
    // Her own turns do not wait for that transaction, and nobody else's do.
    execute(&mallory, &[&format!("SELECT df.cancel('{task}')")]).await;
    assert_eq!(ended(&mallory, &task, PROMPT).await.status, "cancelled");
    let own = start(&mallory, "'SELECT 1'").await;
    ended(&mallory, &own, PROMPT).await.completed();
    others_go_on(&alice).await;
    // The housekeeping, and a heartbeat that finds the clock set back, pass over them, too.
    execute(
        &owner,
        &[
            "SET lock_timeout = 300",
            "SELECT df._expire(clock_timestamp() + interval '1 hour')",
            "INSERT INTO df._worker_epoch (epoch_id, last_seen_at)
                 VALUES (gen_random_uuid(), clock_timestamp() + interval '1 hour')",
            "SELECT df._clock_went_back()",
            "SELECT df._maintain()",
        ],
    )
    .await;
    execute(&holder, &["COMMIT"]).await;
    // What was left of the task goes with the housekeeping.
    execute(&owner, &["SELECT df._maintain()"]).await;
    assert_eq!(one(&owner, "SELECT count(*) FROM df._task").await.as_deref(), Some("0"));
    drop(worker);
}

/// A program that holds its task in an open transaction, and is cut off, holds up neither the turn that gives the task up nor
/// the instance, which goes on; and what it then commits is taken for no other step's end.
#[tokio::test]
async fn a_task_that_is_held_is_given_up() {
    let database = database().await;
    let (role, client, owner) = submitter(&database).await;
    ledger(&client, &role).await;
    let holder = database.connect(&role).await;
    let _worker = TestWorker::start(&database, 2).await;
    let id = start(
        &client,
        &format!(
            "df.catch(df.timeout(df.task('t'), 1), {}) ~> df.task('u') ~> {}",
            entry(&role, "late"),
            entry(&role, "end")
        ),
    )
    .await;
    eventually(&client, "SELECT count(*) FROM df._task", "1", SOON).await;
    execute(&holder, &["BEGIN", "SELECT df.complete_task(token, '1') FROM df.claim_tasks('{t}')"]).await;
    eventually(&client, "SELECT count(*) FROM df._task WHERE name = 'u'", "1", PROMPT).await;
    execute(&holder, &["COMMIT"]).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(one(&client, &format!("SELECT df.status('{id}')")).await.as_deref(), Some("running"));
    execute(&owner, &["SELECT df._maintain()"]).await;
    assert_eq!(
        one(&client, "SELECT string_agg(name, ' ') FROM df._task").await.as_deref(),
        Some("u"),
        "that is wanted"
    );
    execute(&client, &["SELECT df.complete_task(token) FROM df.claim_tasks('{u}')"]).await;
    ended(&client, &id, SOON).await.completed();
    assert_eq!(super::entries(&client, &role).await, "late end");
    execute(&client, &["SELECT df.queue('q')"]).await;
    assert_eq!(counts(&client, "q").await, "0 0 0");
}
