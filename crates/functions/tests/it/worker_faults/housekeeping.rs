//! Retention, partitions, hot tables, and maintenance that must not get into anybody's way.

use super::{
    common::{maybe_one, one, rows, take},
    Scene,
};
use crate::worker::{ended, eventually, execute, run_step, start, start_step, SOON};
use duramen_base::clock;
use std::time::Duration;
use tokio::time::sleep;

/// Retention deletes what ended long ago, with everything that belongs to it, and keeps what is young or still runs. A
/// partition of which nothing is left goes as a whole.
#[tokio::test(flavor = "multi_thread")]
async fn retention_deletes_and_drops_partitions() {
    let scene = Scene::set().await;
    let _worker = scene.worker().await;
    let old = start(&scene.client, "'SELECT 1' ~> 'SELECT 2', idempotency_key => 'old'").await;
    ended(&scene.client, &old, SOON).await.completed();
    let looped = "df.loop('SELECT 1', 'SELECT false')";
    let loop_id = start(&scene.client, looped).await;
    ended(&scene.client, &loop_id, SOON).await.completed();
    let waits = start(&scene.client, "df.wait_for_signal('go')").await;
    eventually(&scene.client, &format!("SELECT df.status('{waits}')"), "running", SOON).await;
    let ended_ids = "SELECT count(*) FROM df._instance i JOIN df._done d USING (seq)";
    assert_eq!(one(&scene.owner, ended_ids).await.as_deref(), Some("2"));
    // Nothing is that old.
    assert_eq!(one(&scene.owner, "SELECT df._expire(now() - interval '1 day')").await.as_deref(), Some("0"));
    assert_eq!(one(&scene.owner, "SELECT df._expire(clock_timestamp())").await.as_deref(), Some("2"));
    for table in ["_done", "_execution", "_key"] {
        let left = one(&scene.owner, &format!("SELECT count(*) FROM df.{table}")).await;
        assert_eq!(left.as_deref(), Some("0"), "{table}");
    }
    assert_eq!(one(&scene.client, &format!("SELECT df.status('{waits}')")).await.as_deref(), Some("running"));
    assert_eq!(one(&scene.client, &format!("SELECT df.status('{old}')")).await, None);
    execute(&scene.client, &[&format!("SELECT df.signal('{waits}', 'go')")]).await;
    ended(&scene.client, &waits, SOON).await.completed();
    // The next partition begins, and the one after it is there.
    let size = partition_size(&scene).await;
    execute(&scene.owner, &[&format!("SELECT setval('df._instance_seq', {size} - 3)")]).await;
    for _ in 0..6 {
        run_step(&scene.client, "SELECT 1").await.completed();
    }
    execute(&scene.owner, &["SELECT df._maintain()"]).await;
    let partition = |number: u32| format!("SELECT to_regclass('df._instance_{number}') IS NOT NULL");
    assert_eq!(
        one(&scene.owner, &partition(2)).await.as_deref(),
        Some("t"),
        "partitions are made ahead of need"
    );
    let young = start_step(&scene.client, "SELECT 1").await;
    ended(&scene.client, &young, SOON).await.completed();
    while one(&scene.owner, "SELECT df._expire(clock_timestamp())").await.as_deref() != Some("0") {}
    assert_eq!(one(&scene.owner, &partition(0)).await.as_deref(), Some("f"), "an empty partition is dropped");
    assert_eq!(one(&scene.owner, &partition(1)).await.as_deref(), Some("t"), "the current one is not");
    assert_eq!(one(&scene.owner, "SELECT count(*) FROM df._instance").await.as_deref(), Some("0"));
    run_step(&scene.client, "SELECT 1").await.completed();
}

/// F-1: a start that waits for its worker longer than the retention is not lost with the partition of its number; not
/// even when its transaction was still open while that went.
#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_waits_long_keeps_its_place() {
    let scene = Scene::set().await;
    let waits = start(&scene.client, "'SELECT 1'").await;
    let over = start(&scene.client, "'SELECT 2'").await;
    let size = partition_size(&scene).await;
    execute(
        &scene.owner,
        &[
            &take(&format!("seq = df._seq('{over}')")),
            "INSERT INTO df._done (seq, submitted_by, status, started_at)
             SELECT seq, submitted_by, 'c', now() FROM df._instance",
            &format!("SELECT setval('df._instance_seq', {size} + 5)"),
            "SELECT df._maintain()",
        ],
    )
    .await;
    assert_eq!(one(&scene.owner, "SELECT df._expire(clock_timestamp())").await.as_deref(), Some("1"));
    let there = "SELECT to_regclass('df._instance_0') IS NOT NULL";
    assert_eq!(one(&scene.owner, there).await.as_deref(), Some("t"), "it is still needed");
    execute(&scene.owner, &["DROP TABLE df._instance_0, df._done_0, df._execution_0"]).await;
    execute(&scene.owner, &["SELECT df._maintain()"]).await;
    assert_eq!(one(&scene.owner, there).await.as_deref(), Some("t"), "it is needed again");
    let _worker = scene.worker().await;
    ended(&scene.client, &waits, SOON).await.completed();
}

/// How many numbers a partition holds.
async fn partition_size(scene: &Scene<'_>) -> String {
    let bound = "SELECT (regexp_match(pg_get_expr(relpartbound, oid), 'TO .''([0-9]+)'))[1]
        FROM pg_class WHERE oid = 'df._instance_0'::regclass";
    one(&scene.owner, bound).await.expect("a range")
}

/// Retention walks past what is young looking at few blocks, and its slices keep up with many.
#[tokio::test(flavor = "multi_thread")]
async fn retention_is_quick_when_there_is_nothing_to_do() {
    let scene = Scene::set().await;
    let alice = &scene.alice;
    execute(
        &scene.owner,
        &[
            &format!(
                "INSERT INTO df._instance (seq, id, submitted_by, created_at, graph)
                SELECT n, df._id(n), '{alice}'::regrole, now(), '[]' FROM generate_series(1, 300000) n"
            ),
            &format!(
                "INSERT INTO df._done (seq, submitted_by, status, started_at)
                SELECT n, '{alice}'::regrole, 'c', now() FROM generate_series(1, 300000) n"
            ),
            "SELECT setval('df._instance_seq', 300000)",
            "ANALYZE df._instance, df._done",
        ],
    )
    .await;
    let measured = "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) SELECT df._maintain()";
    let plan = one(&scene.owner, measured).await.expect("housekeeping");
    let plan: serde_json::Value = serde_json::from_str(&plan).expect("a plan");
    let blocks = |name: &str| plan[0]["Plan"][name].as_u64().expect("a count");
    let blocks = blocks("Shared Hit Blocks") + blocks("Shared Read Blocks");
    assert!(blocks < 5_000, "housekeeping that had nothing to do looked at {blocks} blocks");
}

/// A reader whose transaction stays open holds up neither starts, nor turns, nor the worker's ear, whatever the
/// housekeeping wants to do.
#[tokio::test(flavor = "multi_thread")]
async fn housekeeping_waits_for_nobody() {
    let scene = Scene::set().await;
    let _worker = scene.worker().await;
    run_step(&scene.client, "SELECT 1").await.completed();
    let reader = scene.database.connect(&scene.alice).await;
    execute(&reader, &["BEGIN; SELECT count(*) FROM df.instances; SELECT count(*) FROM df._ready"]).await;
    // New partitions are wanted, and the oldest is to go.
    let size = partition_size(&scene).await;
    execute(&scene.owner, &[&format!("SELECT setval('df._instance_seq', {size} + 5)")]).await;
    let keeper = scene.database.owner().await;
    let keeping = tokio::spawn(async move {
        // As the worker does it: it may give up; it may not wait, for others would wait behind it.
        keeper.batch_execute("SET lock_timeout = 200").await.unwrap();
        let began = clock::now();
        let _ = keeper.batch_execute("SELECT df._maintain()").await;
        let _ = keeper.batch_execute("SELECT df._expire(clock_timestamp())").await;
        began.elapsed()
    });
    sleep(Duration::from_millis(300)).await;
    for number in 0..5 {
        let began = clock::now();
        run_step(&scene.client, "SELECT 1").await.completed();
        assert!(began.elapsed() < Duration::from_secs(4), "instance {number} took {:?}", began.elapsed());
    }
    let took = tokio::time::timeout(SOON, keeping).await.expect("housekeeping ends").unwrap();
    assert!(took < Duration::from_secs(10), "housekeeping waited {took:?}");
    execute(&reader, &["COMMIT"]).await;
}

/// With a snapshot held open, so that vacuum can remove nothing, `_ready` stays small under a load that never ceases,
/// and the time of an instance does not grow.
#[tokio::test(flavor = "multi_thread")]
async fn hot_tables_stay_small_under_a_snapshot() {
    let scene = Scene::set().await;
    let holder = scene.database.owner().await;
    execute(&holder, &["BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class"]).await;
    let _worker = scene.worker().await;
    run_step(&scene.client, "SELECT 1").await.completed();
    // Far more rows than fit into 8 MB have passed through.
    let me = format!("'{}'::regrole", scene.alice);
    for _ in 0..4 {
        execute(
            &scene.owner,
            &[
                &format!(
                    "INSERT INTO df._ready (seq, submitted_by, wake)
                    SELECT n, {me}, false FROM generate_series(2000000000, 2000100000) n"
                ),
                "DELETE FROM df._ready WHERE seq >= 2000000000",
            ],
        )
        .await;
    }
    let size = "SELECT pg_table_size('df._ready') > 8 << 20";
    assert_eq!(one(&scene.owner, size).await.as_deref(), Some("t"), "the table has swollen");
    // A load that never ceases: somebody always starts something.
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let mut starters = Vec::new();
    for _ in 0..6 {
        let client = scene.database.connect(&scene.alice).await;
        let stop = std::sync::Arc::clone(&stop);
        starters.push(tokio::spawn(async move {
            let mut started = 0;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                client.batch_execute("SELECT df.start('SELECT 1')").await.unwrap();
                started += 1;
            }
            started
        }));
    }
    let keeper = scene.database.owner().await;
    execute(&keeper, &["SET lock_timeout = 200"]).await;
    let began = clock::now();
    let mut rotated = false;
    while !rotated && began.elapsed() < Duration::from_secs(20) {
        execute(&keeper, &["SELECT df._rotate(ARRAY['df._ready'::regclass])"]).await;
        rotated = one(&scene.owner, size).await.as_deref() == Some("f");
        sleep(Duration::from_millis(500)).await;
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    let mut started = 1;
    for starter in starters {
        started += starter.await.unwrap();
    }
    assert!(rotated, "_ready was not made small again in 20 s of load");
    scene.all_ended(Duration::from_secs(60)).await;
    let ended = one(&scene.owner, "SELECT count(*) FROM df._done WHERE status = 'c'").await;
    assert_eq!(ended, Some(started.to_string()), "no start was lost");
    execute(&holder, &["COMMIT"]).await;
}

/// No hot table grows, whatever goes through it, as long as a snapshot is held: neither what comes one after the other nor what
/// waits for timers in between.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_keeps_every_hot_table_small_under_a_snapshot() {
    let scene = Scene::set().await;
    let holder = scene.database.owner().await;
    execute(&holder, &["BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class"]).await;
    let worker = scene.worker().await;
    let limit: u64 = one(&scene.owner, "SELECT df._hot_bytes()").await.unwrap().parse().unwrap();
    // What has come since the last look comes on top.
    let swollen = format!("SELECT count(*) FROM df._swollen({limit}) WHERE bytes >= 2 * {limit}");
    for _ in 0..24 {
        // The rows of those that sleep are larger.
        let batch = "SELECT count(*) FROM (VALUES ('SELECT 1', 300),
                (df.seq('SELECT repeat(''x'', 1500)', df.seq(df.sleep(0.01), 'SELECT 1')), 30)) AS v(f, many),
            df.start_many(array_fill(f, ARRAY[many]))";
        execute(&scene.client, &[batch]).await;
        let working = "SELECT count(*) FROM df._started i WHERE NOT EXISTS (SELECT FROM df._done d WHERE d.seq = i.seq)";
        eventually(&scene.owner, working, "0", SOON).await;
        eventually(&scene.owner, &swollen, "0", SOON).await;
    }
    assert!(worker.metric("rotated_total") > 1, "tables were emptied");
    let ended = one(&scene.owner, "SELECT count(*) FROM df._done WHERE status = 'c'").await;
    assert_eq!(ended.as_deref(), Some("7920"), "F-1: nothing was lost");
    execute(&holder, &["COMMIT"]).await;
}

/// The tables that are emptied when they have swollen.
const HOT: [&str; 9] =
    ["_ready", "_work", "_inbox", "_activity", "_queued", "_slot", "_admission", "_dedup", "_task"];

/// F-1: what lives in a hot table is there as it was when the table has been emptied: instances of every kind that were under
/// way go on and end, each once.
#[tokio::test(flavor = "multi_thread")]
async fn what_lives_in_a_hot_table_outlives_its_emptying() {
    let scene = Scene::set().await;
    let client = &scene.client;
    let worker = scene.worker().await;
    execute(client, &["SELECT df.queue('narrow', concurrency => 1, rate => 5, per => interval '1 second')"])
        .await;
    let mut ids = Vec::new();
    for entry in 1..=3 {
        let note = |kind: &str| format!("'{}'", scene.enter(&format!("{kind} {entry}")));
        ids.push(start(client, &format!("df.wait_for_signal('go') ~> {}", note("signal"))).await);
        ids.push(start(client, &format!("df.task('outside', '{{}}') ~> {}", note("task"))).await);
        ids.push(start(client, &format!("'SELECT pg_sleep(3)' ~> {}", note("long"))).await);
        let queued = format!("df.wait_for_signal('go') ~> {}", note("queue"));
        ids.push(start(client, &format!("{queued}, queue => 'narrow', dedup => 'k{entry}'")).await);
    }
    let at_work = "SELECT count(*) FROM df._activity WHERE owner IS NOT NULL";
    eventually(&scene.owner, at_work, "3", SOON).await;
    eventually(&scene.owner, "SELECT count(*) FROM df._slot", "1", SOON).await;
    worker.drain(Duration::ZERO).await;
    ids.push(start(client, &format!("'{}'", scene.enter("ready"))).await);
    for id in &ids[..4] {
        execute(client, &[&format!("SELECT df.signal('{id}', 'go')")]).await;
    }
    execute(&scene.owner, &["INSERT INTO df._admission (queue, many) SELECT id, 1 FROM df._queue"]).await;
    let content = |table: &str| format!("SELECT string_agg(r::text, ' ' ORDER BY r::text) FROM df.{table} r");
    let holder = scene.database.owner().await;
    execute(&holder, &["BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class"]).await;
    let swell = |table: &str| {
        let column = if table == "_admission" { "many" } else { "submitted_by" };
        format!("UPDATE df.{table} SET {column} = {column}")
    };
    for table in HOT {
        let before = one(&scene.owner, &content(table)).await;
        assert!(before.is_some(), "nothing lives in {table}");
        // Whoever reads in it for hours is not waited for.
        let reader = scene.database.owner().await;
        execute(&reader, &["BEGIN", &format!("SELECT FROM df.{table}")]).await;
        // Mostly dead rows, as it would be.
        for _ in 0..16 {
            execute(&scene.owner, &[&swell(table)]).await;
        }
        let rotate = format!("SELECT df._rotate_table('df.{table}', 0)");
        let impatient = format!("SET lock_timeout = 50; {rotate}");
        execute(&scene.owner, &[&impatient]).await;
        assert_eq!(one(&scene.owner, &rotate).await.as_deref(), Some("f"), "{table} is being read");
        execute(&reader, &["COMMIT", "SET application_name = 'pg_dump'"]).await;
        assert_eq!(one(&scene.owner, &rotate).await.as_deref(), Some("f"), "a dump begins");
        drop(reader);
        eventually(&scene.owner, &rotate, "t", SOON).await;
        assert_eq!(one(&scene.owner, &content(table)).await, before, "{table} holds what it held");
    }
    let _worker = scene.worker().await;
    for id in &ids {
        execute(client, &[&format!("SELECT df.signal('{id}', 'go')")]).await;
    }
    for _ in 0..3 {
        let claim = "SELECT df.complete_task(t.token, '1') FROM df.claim_tasks('{outside}') t";
        assert_eq!(rows(client, claim).await.len(), 1, "a task can be claimed");
    }
    scene.all_ended(Duration::from_secs(90)).await;
    scene.ledger_is_exact(13).await;
}

/// A table is emptied only if vacuum cannot remove what is dead: to empty it takes a lock.
#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_vacuum_can_clean_is_not_emptied() {
    let scene = Scene::set().await;
    let me = format!("'{}'::regrole", scene.alice);
    let swell = format!(
        "INSERT INTO df._ready (seq, submitted_by, wake) SELECT n, {me}, false FROM generate_series(2000000000, 2000030000) n"
    );
    let holder = scene.database.owner().await;
    for (held, emptied) in [(false, "{}"), (true, "{df._ready}")] {
        if held {
            execute(&holder, &["BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class"]).await;
        }
        execute(&scene.owner, &[&swell, "DELETE FROM df._ready", "SELECT pg_stat_force_next_flush()"]).await;
        execute(&scene.owner, &["VACUUM (SKIP_LOCKED, TRUNCATE off) df._ready"]).await;
        let size = one(&scene.owner, "SELECT pg_total_relation_size('df._ready') > 1 << 20").await;
        assert_eq!(size.as_deref(), Some("t"), "it has swollen");
        assert_eq!(
            one(&scene.owner, "SELECT df._rotate(ARRAY['df._ready'::regclass])").await.as_deref(),
            Some(emptied),
            "held: {held}"
        );
    }
}

/// Who looks an instance up while the table that it is in is being emptied finds it: what it reads by is as new as the lock for
/// which it has waited.
#[tokio::test(flavor = "multi_thread")]
async fn who_looks_up_in_the_moment_of_an_emptying_finds_it() {
    let scene = Scene::set().await;
    execute(&scene.client, &["SELECT df.queue('q')", "SELECT df.pause_queue('q')"]).await;
    let ready = start(&scene.client, "'SELECT 1', label => 'l'").await;
    let queued = start(&scene.client, "'SELECT 1', queue => 'q'").await;
    let emptier = scene.database.owner().await;
    for (id, hot) in [(&ready, "_ready"), (&queued, "_queued")] {
        for lookup in [
            "SELECT df.status('$')",
            "SELECT status FROM df.instance_info('$')",
            "SELECT count(*) || ' nodes' FROM df.instance_nodes('$')",
            "SELECT lower(status) FROM df.instance_executions('$')",
            "SELECT 'it ' || event FROM df.timeline('$') LIMIT 1",
            "SELECT 'it started' WHERE df.explain('$') LIKE '%SELECT 1%'",
            "SELECT df.signal('$', 'go')",
        ] {
            execute(&emptier, &["BEGIN"]).await;
            let emptied = one(&emptier, &format!("SELECT df._rotate_table('df.{hot}', 0)")).await;
            assert_eq!(emptied.as_deref(), Some("t"));
            let looker = scene.database.connect(&scene.alice).await;
            let sql = lookup.replace('$', id);
            let looking = tokio::spawn(async move { maybe_one(&looker, &sql).await });
            let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
            eventually(&scene.owner, waits, "1", SOON).await;
            execute(&emptier, &["COMMIT"]).await;
            let found = looking.await.unwrap().unwrap_or_else(|error| panic!("{lookup} in {hot}: {error}"));
            let found = found.unwrap_or_else(|| panic!("{lookup} in {hot} finds nothing"));
            assert!(
                ["pending", "1 nodes", "it started", "OK"].contains(&found.as_str()),
                "{lookup}: {found}"
            );
        }
    }
}
