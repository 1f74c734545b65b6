//! Limits: how many go on at once, how many begin in a time, and who is next.

use super::{counts, entries, entry, ledger, most_at_once};
use crate::common::{database, one, rows};
use crate::worker::{ended, eventually, execute, start, submitter, TestWorker, SOON};
use std::time::Duration;

fn ended_with(label: &str) -> String {
    format!("SELECT count(*) FROM df._done d JOIN df._instance i USING (seq) WHERE i.label = '{label}' AND d.status = 'c'")
}

/// Invariant Q2: never more than the limit, with several workers, and whatever is killed; all of them end.
#[tokio::test]
async fn no_more_go_on_at_once_than_the_limit_says() {
    let database = database().await;
    let (_, client, _) = submitter(&database).await;
    execute(&client, &["SELECT df.queue('three', concurrency => 3)"]).await;
    let mut workers = Vec::new();
    for _ in 0..2 {
        workers.push(TestWorker::start(&database, 4).await);
    }
    execute(
        &client,
        &["SELECT count(*) FROM df.start_many(array_fill(df.sleep(0.15), '{24}'), label => 'q', queue => 'three')"],
    )
    .await;
    eventually(&client, "SELECT running FROM df.queues()", "3", SOON).await;
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_millis(120)).await;
        workers.remove(0).kill();
        workers.push(TestWorker::start(&database, 4).await);
    }
    eventually(&client, &ended_with("q"), "24", SOON).await;
    assert_eq!(most_at_once(&client, "q").await, "3");
    assert_eq!(counts(&client, "three").await, "0 0 0");
}

/// Invariant Q2, for limits that are changed while instances wait.
#[tokio::test]
async fn a_limit_that_is_changed_holds_for_what_waits() {
    let database = database().await;
    let (_, client, _) = submitter(&database).await;
    let _worker = TestWorker::start(&database, 4).await;
    execute(
        &client,
        &[
            "SELECT df.queue('q', concurrency => 1)",
            "SELECT count(*) FROM df.start_many(array_fill(df.wait_for_signal('go'), '{6}'), label => 'q', queue => 'q')",
        ],
    )
    .await;
    eventually(&client, "SELECT running FROM df.queues()", "1", SOON).await;
    execute(&client, &["SELECT df.queue('q', concurrency => 4)"]).await;
    eventually(&client, "SELECT running FROM df.queues()", "4", SOON).await;
    // Fewer from now on: what goes on is left alone.
    execute(&client, &["SELECT df.queue('q', concurrency => 2)"]).await;
    let go = "SELECT df.signal(df._id(seq), 'go') FROM df._slot";
    execute(&client, &[go]).await;
    eventually(&client, &ended_with("q"), "4", SOON).await;
    eventually(&client, "SELECT running FROM df.queues()", "2", SOON).await;
    execute(&client, &["SELECT df.queue('q')", go]).await;
    eventually(&client, &ended_with("q"), "6", SOON).await;
}

/// Invariant Q3: in any time of that length no more begin than the rate says, whatever number of workers lets them in.
#[tokio::test]
async fn no_more_begin_in_a_time_than_the_rate_says() {
    let database = database().await;
    let (_, client, _) = submitter(&database).await;
    let mut workers = Vec::new();
    for _ in 0..3 {
        workers.push(TestWorker::start(&database, 2).await);
    }
    execute(
        &client,
        &[
            "SELECT df.queue('rated', rate => 5, per => '700 milliseconds')",
            "SELECT count(*) FROM df.start_many(array_fill('SELECT 1'::text, '{18}'), label => 'q', queue => 'rated')",
        ],
    )
    .await;
    eventually(&client, &ended_with("q"), "18", SOON).await;
    let most = "WITH began AS (SELECT d.started_at AS at FROM df._done d JOIN df._instance i USING (seq) WHERE i.label = 'q')
        SELECT max((SELECT count(*) FROM began o WHERE o.at >= b.at AND o.at < b.at + interval '700 milliseconds'))
        FROM began b";
    assert_eq!(one(&client, most).await.as_deref(), Some("5"));
}

/// Invariant Q4: the smallest priority first, and of the same one the oldest.
#[tokio::test]
async fn the_smallest_priority_is_first() {
    let database = database().await;
    let (role, client, _) = submitter(&database).await;
    ledger(&client, &role).await;
    execute(&client, &["SELECT df.queue('q', concurrency => 1)", "SELECT df.pause_queue('q')"]).await;
    for (text, priority) in
        [("late", "5"), ("first", "-1"), ("middle", "NULL"), ("later", "5"), ("second", "-1")]
    {
        let step = entry(&role, text);
        start(&client, &format!("{step}, label => 'q', queue => 'q', priority => {priority}")).await;
    }
    let _worker = TestWorker::start(&database, 2).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(entries(&client, &role).await, "", "it is paused");
    execute(&client, &["SELECT df.resume_queue('q')"]).await;
    eventually(&client, &ended_with("q"), "5", SOON).await;
    assert_eq!(entries(&client, &role).await, "first second middle late later");
}

/// Invariant Q5: a partition with much to do makes no other wait; and of one no more go on at once than its limit says.
#[tokio::test]
async fn partitions_are_served_in_turn() {
    let database = database().await;
    let (role, client, _) = submitter(&database).await;
    ledger(&client, &role).await;
    execute(
        &client,
        &["SELECT df.queue('q', concurrency => 3, partition_by => 'tenant', partition_concurrency => 1)"],
    )
    .await;
    let many = format!(
        "SELECT count(*) FROM df.start_many(array_fill({} ~> df.sleep(0.02), '{{30}}'), label => 'q',
             inputs => array_fill('{{\"tenant\": \"a\"}}'::jsonb, '{{30}}'), queue => 'q')",
        entry(&role, "a")
    );
    execute(&client, &[&many]).await;
    for tenant in ["b", "b", "c", "d"] {
        let step = entry(&role, tenant);
        start(
            &client,
            &format!("{step}, label => 'q', queue => 'q', input => '{{\"tenant\": \"{tenant}\"}}'"),
        )
        .await;
    }
    let _worker = TestWorker::start(&database, 2).await;
    eventually(&client, &ended_with("q"), "34", SOON).await;
    let order = entries(&client, &role).await;
    let early: Vec<&str> = order.split(' ').take(12).collect();
    for tenant in ["b", "c", "d"] {
        assert!(early.contains(&tenant), "{tenant} had to wait: {order}");
    }
    let sql = "WITH span AS (SELECT d.started_at AS begin, d.completed_at AS \"end\", i.input ->> 'tenant' AS tenant
                   FROM df._done d JOIN df._instance i USING (seq) WHERE i.label = 'q')
        SELECT max((SELECT count(*) FROM span o
            WHERE o.tenant = s.tenant AND o.begin <= s.begin AND o.\"end\" > s.begin)) FROM span s";
    assert_eq!(one(&client, sql).await.as_deref(), Some("1"));
}

/// Invariant Q6: of the long steps of a queue no more run on one worker than its limit says, and others run beside them.
#[tokio::test]
async fn a_worker_runs_so_many_long_steps_of_a_queue() {
    let database = database().await;
    let (_, client, _) = submitter(&database).await;
    let worker = TestWorker::start(&database, 6).await;
    execute(
        &client,
        &[
            "SELECT df.queue('heavy', worker_concurrency => 2)",
            "SELECT count(*) FROM df.start_many(array_fill('SELECT pg_sleep(0.4)'::text, '{6}'), label => 'heavy',
                 queue => 'heavy')",
        ],
    )
    .await;
    let other = start(&client, "'SELECT pg_sleep(0.1), 7'").await;
    let mut most = 0;
    let all = ended_with("heavy");
    while one(&client, &all).await.as_deref() != Some("6") {
        let sql = "SELECT count(*) FROM df._activity a WHERE a.queue IS NOT NULL AND a.owner IS NOT NULL";
        let owner = database.owner().await;
        most = most.max(one(&owner, sql).await.and_then(|count| count.parse().ok()).unwrap_or(0));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(most, 2);
    ended(&client, &other, SOON).await.completed();
    drop(worker);
}

/// Invariant Q7: what waits in one queue does not keep another from being served, nor those who do not wait.
#[tokio::test]
async fn a_long_queue_keeps_nobody_else_waiting() {
    let database = database().await;
    let (role, client, _) = submitter(&database).await;
    ledger(&client, &role).await;
    execute(
        &client,
        &[
            "SELECT df.queue('long', concurrency => 2)",
            "SELECT df.queue('short')",
            "SELECT count(*) FROM df.start_many(array_fill(df.sleep(0.3), '{20000}'), queue => 'long')",
        ],
    )
    .await;
    let _worker = TestWorker::start(&database, 2).await;
    eventually(&client, "SELECT running FROM df.queues() WHERE name = 'long'", "2", SOON).await;
    for _ in 0..5 {
        let queued = start(&client, &format!("{}, queue => 'short'", entry(&role, "queued"))).await;
        let plain = start(&client, &entry(&role, "plain")).await;
        // Far less than the thousands of seconds that are ahead in the long queue.
        ended(&client, &queued, Duration::from_secs(10)).await.completed();
        ended(&client, &plain, Duration::from_secs(10)).await.completed();
    }
    let left = one(&client, "SELECT waiting FROM df.queues() WHERE name = 'long'").await.unwrap();
    assert!(left.parse::<u32>().unwrap() > 19_000, "{left}");
    let looked = "SELECT count(*) FROM df.list_instances('pending', 10)";
    assert_eq!(one(&client, looked).await.as_deref(), Some("10"));
}

/// A start that nobody is told of, because a worker is awake, is found all the same; and one while all sleep, too.
#[tokio::test]
async fn what_is_started_is_noticed_whether_workers_sleep_or_not() {
    let database = database().await;
    let (_, client, owner) = submitter(&database).await;
    execute(&client, &["SELECT df.queue('q')"]).await;
    let worker = TestWorker::start(&database, 2).await;
    for pause_ms in [0, 3, 10, 30, 60, 120, 250, 400, 700, 1000] {
        tokio::time::sleep(Duration::from_millis(pause_ms)).await;
        let id = start(&client, "'SELECT 1', queue => 'q'").await;
        ended(&client, &id, Duration::from_secs(3)).await.completed();
    }
    // Asleep, with queues that are empty, it asks for nothing.
    eventually(&owner, "SELECT last_value FROM df._asleep", "2", SOON).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let calls = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()";
    execute(&owner, &["SELECT pg_stat_force_next_flush()"]).await;
    let before: i64 = one(&owner, calls).await.unwrap().parse().unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    execute(&owner, &["SELECT pg_stat_force_next_flush()"]).await;
    let after: i64 = one(&owner, calls).await.unwrap().parse().unwrap();
    // Its heartbeat and what this test asked.
    assert!(after - before < 12, "{} transactions in 3 s of sleep", after - before);
    drop(worker);
}

/// Invariant Q8: when somebody sets the clock back, delays and rates go on after one interval at most.
#[tokio::test]
async fn times_of_the_future_do_not_stop_a_queue() {
    let database = database().await;
    let (_, client, owner) = submitter(&database).await;
    execute(&client, &["SELECT df.queue('q', rate => 1, per => '500 milliseconds')"]).await;
    let waiting = start(&client, "'SELECT 1', queue => 'q', delay => '100 milliseconds'").await;
    execute(
        &owner,
        &[
            "UPDATE df._queued SET due_at = clock_timestamp() + interval '1 hour'",
            "INSERT INTO df._admission (queue, at, many) SELECT id, clock_timestamp() + interval '1 hour', 1 FROM df._queue",
            "INSERT INTO df._worker_epoch (epoch_id, last_seen_at)
                 VALUES (gen_random_uuid(), clock_timestamp() + interval '1 hour')",
        ],
    )
    .await;
    let _worker = TestWorker::start(&database, 2).await;
    ended(&client, &waiting, SOON).await.completed();
    assert!(rows(&client, "SELECT FROM df._queued").await.is_empty());
}
