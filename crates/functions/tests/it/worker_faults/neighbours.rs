//! F-7: what is slow, locked, full of errors or many harms nobody else.

use super::Scene;
use super::{
    common::one,
    worker::{ended, eventually, execute, run_step, start, start_step, TestWorker, SOON},
};
use duramen_base::{clock, entropy};
use std::time::Duration;
use tokio::time::sleep;

/// A lock that an outside session holds delays the step that wants it, and no other of its batch.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_delays_only_the_step_that_wants_it() {
    let scene = Scene::set().await;
    let alice = &scene.alice;
    execute(
        &scene.owner,
        &[&format!("CREATE TABLE {alice}.locked AS SELECT 1 AS n; GRANT ALL ON {alice}.locked TO {alice}")],
    )
    .await;
    let _worker = scene.worker().await;
    run_step(&scene.client, "SELECT 1").await.completed();
    let locker = scene.database.owner().await;
    execute(&locker, &[&format!("BEGIN; UPDATE {alice}.locked SET n = n + 10")]).await;
    let mut ids = Vec::new();
    scene.client.batch_execute("BEGIN").await.unwrap();
    for number in 0..60 {
        let step = match number {
            5 | 20 => format!("UPDATE {alice}.locked SET n = n + 1"),
            _ => format!("INSERT INTO {alice}.ledger VALUES ('{number}')"),
        };
        ids.push(start_step(&scene.client, &step).await);
    }
    let began = clock::now();
    scene.client.batch_execute("COMMIT").await.unwrap();
    for (number, id) in ids.iter().enumerate().filter(|(number, _)| ![5, 20].contains(number)) {
        let status = ended(&scene.client, id, SOON).await.status;
        assert_eq!(status, "completed", "instance {number}");
    }
    let took = began.elapsed();
    assert!(took < Duration::from_secs(5), "the neighbours took {took:?}");
    for number in [5, 20] {
        let status = one(&scene.client, &format!("SELECT df.status('{}')", ids[number])).await;
        assert_eq!(status.as_deref(), Some("running"), "it waits for the lock");
    }
    // Who waits does not keep a lane from working either.
    for _ in 0..5 {
        run_step(&scene.client, "SELECT 1").await.completed();
    }
    execute(&locker, &["COMMIT"]).await;
    for number in [5, 20] {
        assert_eq!(ended(&scene.client, &ids[number], SOON).await.status, "completed");
    }
    let n = one(&scene.owner, &format!("SELECT n FROM {alice}.locked")).await;
    assert_eq!(n.as_deref(), Some("13"));
    let entries =
        one(&scene.owner, &format!("SELECT count(*) || ' ' || count(DISTINCT entry) FROM {alice}.ledger"))
            .await;
    assert_eq!(entries.as_deref(), Some("58 58"));
}

/// Slow steps do not delay short ones, and as many run at once as there are connections.
#[tokio::test(flavor = "multi_thread")]
async fn slow_steps_do_not_delay_others() {
    let scene = Scene::set().await;
    let _worker = scene.worker().await;
    run_step(&scene.client, "SELECT 1").await.completed();
    let began = clock::now();
    let mut slow = Vec::new();
    for _ in 0..12 {
        slow.push(start_step(&scene.client, "SELECT pg_sleep(1)").await);
    }
    let mut worst = Duration::ZERO;
    for _ in 0..20 {
        let one_began = clock::now();
        run_step(&scene.client, "SELECT 1").await.completed();
        worst = worst.max(one_began.elapsed());
    }
    assert!(worst < Duration::from_secs(1), "a short step took {worst:?} beside slow ones");
    for id in &slow {
        ended(&scene.client, id, SOON).await.completed();
    }
    // Twelve seconds of sleep on four connections.
    let took = began.elapsed();
    assert!(took < Duration::from_secs(8), "12 steps of 1 s on 4 connections took {took:?}");
}

/// A step that catches the server's cancel requests does not keep the worker from its other work, and an instance
/// that runs such a step can be cancelled: nothing of it stays.
#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_cannot_be_cancelled_is_ended() {
    let scene = Scene::set().await;
    let bob = scene.database.role("bob").await;
    let bobs = scene.database.connect(&bob).await;
    let _worker = scene.worker().await;
    run_step(&bobs, "SELECT 1").await.completed();
    let stubborn = "DO $$ BEGIN
        FOR i IN 1 .. 120 LOOP
            BEGIN PERFORM pg_sleep(0.5); EXCEPTION WHEN query_canceled THEN NULL; END;
        END LOOP; END $$";
    let mut ids = Vec::new();
    for _ in 0..2 {
        ids.push(start_step(&scene.client, stubborn).await);
        sleep(Duration::from_millis(300)).await;
    }
    for number in 0..5 {
        let began = clock::now();
        run_step(&bobs, "SELECT 1").await.completed();
        assert!(
            began.elapsed() < Duration::from_secs(5),
            "bob's instance {number} took {:?}",
            began.elapsed()
        );
    }
    for id in &ids {
        execute(&scene.client, &[&format!("SELECT df.cancel('{id}')")]).await;
        assert_eq!(ended(&scene.client, id, SOON).await.status, "cancelled");
    }
    let active =
        "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%duramen_step%'
        AND datname = current_database() AND pid <> pg_backend_pid()";
    eventually(&scene.owner, active, "0", Duration::from_secs(15)).await;
}

/// A worker that is not a superuser works for the roles that it is a member of. Another role's instance fails, and says
/// why; it holds nobody up.
#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_the_worker_cannot_act_for_holds_nobody_up() {
    let scene = Scene::set().await;
    let operator = scene.database.stranger("operator").await;
    let carol = scene.database.role("carol").await;
    let carols = scene.database.connect(&carol).await;
    execute(&scene.owner, &[&format!("GRANT postgres, {} TO {operator}", scene.alice)]).await;
    let refused = start_step(&carols, "SELECT 1").await;
    let _worker = TestWorker::start_at(&scene.database.url_as(&operator), 2).await;
    for number in 0..5 {
        let began = clock::now();
        let output = run_step(&scene.client, "SELECT current_user::text AS me").await.completed();
        assert!(output.contains(&scene.alice), "{output}");
        assert!(began.elapsed() < Duration::from_secs(3), "instance {number} took {:?}", began.elapsed());
    }
    run_step(&scene.client, "SELECT pg_sleep(0.1)").await.completed();
    let said = ended(&carols, &refused, SOON).await.failed();
    assert!(said.contains(&carol), "it says whose member the worker must be: {said}");
}

/// A backlog of one role does not keep the instances of another waiting for its end, nor the older ones of either
/// behind the newer.
#[tokio::test(flavor = "multi_thread")]
async fn a_backlog_starves_nobody() {
    let scene = Scene::set().await;
    let bob = scene.database.role("bob").await;
    let carol = scene.database.role("carol").await;
    let bobs = scene.database.connect(&bob).await;
    let carols = scene.database.connect(&carol).await;
    let flood = "SELECT count(*) FROM df.start_many(array_fill('SELECT 1'::text, ARRAY[400]), 'flood')";
    // Interleaved: old ones of both, then new ones of both.
    for _ in 0..4 {
        for client in [&scene.client, &bobs] {
            execute(client, &[flood]).await;
        }
    }
    let _worker = scene.worker().await;
    let began = clock::now();
    let mut worst = Duration::ZERO;
    let mut floods = 8;
    while began.elapsed() < Duration::from_secs(8) {
        // As much comes in as goes out, or more.
        let pending = one(&scene.owner, "SELECT count(*) FROM df._ready").await.unwrap();
        if pending.parse::<u32>().unwrap() < 3000 {
            execute(&scene.client, &[flood]).await;
            execute(&bobs, &[flood]).await;
            floods += 2;
        }
        let one_began = clock::now();
        run_step(&carols, "SELECT 1").await.completed();
        worst = worst.max(one_began.elapsed());
    }
    assert!(worst < Duration::from_secs(4), "an instance of a third role took {worst:?}");
    scene.all_ended(Duration::from_secs(120)).await;
    let done = one(&scene.owner, "SELECT count(*) FROM df._instance WHERE label = 'flood'").await;
    assert_eq!(done, Some((floods * 400).to_string()));
    // Among those of one role, the older ones ended first: none was passed over for long.
    let passed_over = "SELECT coalesce(max(late), 0) FROM (
            SELECT extract(epoch FROM d.completed_at - min(d.completed_at) OVER (
                PARTITION BY d.submitted_by ORDER BY d.seq DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 800 PRECEDING)) AS late
            FROM df._done d) l";
    let late: f64 = one(&scene.owner, passed_over).await.unwrap().parse().unwrap();
    assert!(late < 2.0, "an instance ended {late} s behind one that was started 800 later");
}

/// Mixed at random: short, failing, slow, locking, branching; each ends as it should, once.
#[tokio::test(flavor = "multi_thread")]
async fn a_mixture_ends_as_it_should() {
    let seed = entropy::seed();
    println!("seed {seed}");
    let mut random = entropy::rng(seed);
    let scene = Scene::set().await;
    let alice = &scene.alice;
    execute(
        &scene.owner,
        &[&format!("CREATE TABLE {alice}.counter AS SELECT 0 AS n; GRANT ALL ON {alice}.counter TO {alice}")],
    )
    .await;
    let _worker = scene.worker().await;
    let mut expected = Vec::new();
    let mut counted = 0;
    for number in 0..150 {
        let enter = scene.enter(&format!("m{number}"));
        let (expression, status) = match random.u32(0..8) {
            0 => (format!("'{enter}'"), "completed"),
            1 => (format!("'{enter}' ~> 'SELECT 1 / 0'"), "failed"),
            2 => (format!("'SELECT pg_sleep(0.1)' ~> '{enter}'"), "completed"),
            3 => (format!("df.sleep(0.2) ~> '{enter}'"), "completed"),
            4 => (format!("'SELECT 1' & '{enter}' & 'SELECT 2'"), "completed"),
            5 => {
                counted += 1;
                let count = format!("UPDATE {alice}.counter SET n = n + 1");
                (format!("'{count}' ~> '{enter}'"), "completed")
            }
            6 => (format!("'{enter}' ~> ('SELECT 1' | df.sleep(60))"), "completed"),
            _ => (format!("df.catch('SELECT 1 / 0', '{enter}')"), "completed"),
        };
        expected.push((start(&scene.client, &expression).await, status, expression));
    }
    for (id, status, expression) in &expected {
        let ended = ended(&scene.client, id, Duration::from_secs(60)).await;
        assert_eq!(ended.status, *status, "{expression}: {}", ended.output);
    }
    let entries =
        one(&scene.owner, &format!("SELECT count(*) || ' ' || count(DISTINCT entry) FROM {alice}.ledger"))
            .await;
    assert_eq!(entries.as_deref(), Some("150 150"));
    let n = one(&scene.owner, &format!("SELECT n FROM {alice}.counter")).await;
    assert_eq!(n, Some(counted.to_string()));
}
