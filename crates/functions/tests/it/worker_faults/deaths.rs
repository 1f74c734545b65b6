//! Workers, sessions and servers that are killed in the middle (F-1).

use super::{common::rows, own_server, Scene};
use crate::worker::{ended, eventually, run_step, start, start_step, TestWorker, SOON};
use duramen_base::{clock, entropy};
use std::time::Duration;
use tokio::time::sleep;

/// How long a dead worker may keep what it had taken: until it is buried (20 s and a heartbeat), and some.
const BURIED: Duration = Duration::from_secs(90);

/// F-1: a worker is killed in the middle, several times; the last one brings everything to its end, once.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_killed_loses_and_doubles_nothing() {
    let seed = entropy::seed();
    println!("seed {seed}");
    let mut random = entropy::rng(seed);
    let scene = Scene::set().await;
    let mut entries = 0;
    let mut interrupted = 0;
    for round in 0..6 {
        entries += scene.start_many(60, &format!("r{round}-")).await;
        let worker = scene.worker().await;
        eventually(&scene.owner, "SELECT count(*) > 0 FROM df._work", "t", SOON).await;
        sleep(Duration::from_millis(random.u64(0..400))).await;
        let running = "SELECT count(*) FROM df._work";
        let in_flight = rows(&scene.owner, running).await[0][0].clone().unwrap();
        interrupted += in_flight.parse::<usize>().unwrap();
        worker.kill();
    }
    assert!(interrupted > 0, "no kill met an instance in the middle");
    let _last = scene.worker().await;
    scene.all_ended(BURIED).await;
    scene.ledger_is_exact(entries).await;
}

/// F-1, F-7: sessions of the worker's, of all kinds, are ended at random while it works.
#[tokio::test(flavor = "multi_thread")]
async fn sessions_that_are_ended_lose_and_double_nothing() {
    let seed = entropy::seed();
    println!("seed {seed}");
    let mut random = entropy::rng(seed);
    let scene = Scene::set().await;
    let worker = scene.worker().await;
    let mut entries = 0;
    let mut killed = 0;
    for round in 0..8 {
        entries += scene.start_many(30, &format!("r{round}-")).await;
        for _ in 0..4 {
            sleep(Duration::from_millis(random.u64(0..60))).await;
            let some = format!(
                "SELECT pg_terminate_backend(pid) FROM (
                     SELECT pid FROM pg_stat_activity
                     WHERE application_name LIKE 'duramen fn %' AND datname = current_database()
                     ORDER BY md5(pid::text || '{}') LIMIT 2) s",
                random.u32(..)
            );
            killed += rows(&scene.owner, &some).await.len();
        }
    }
    assert!(killed > 20, "only {killed} sessions were ended");
    scene.all_ended(BURIED).await;
    scene.ledger_is_exact(entries).await;
    assert_eq!(run_step(&scene.client, "SELECT 1").await.status, "completed", "it still works");
    drop(worker);
}

/// F-1: the server crashes under load, several times. The worker stays and goes on; commits that were confirmed hold.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_crashes_loses_and_doubles_nothing() {
    let seed = entropy::seed();
    println!("seed {seed}");
    let mut random = entropy::rng(seed);
    let server = own_server().await;
    let mut scene = Scene::on(server.database().await).await;
    let worker = scene.worker().await;
    let mut entries = 0;
    for round in 0..4 {
        scene.reconnect().await;
        entries += scene.start_many(40, &format!("r{round}-")).await;
        // Slow ones run when the server goes.
        for number in 0..6 {
            start(&scene.client, &scene.three_entries(&format!("slow{round}-{number}"), 0.6)).await;
            entries += 3;
        }
        sleep(Duration::from_millis(random.u64(50..500))).await;
        if round == 3 {
            kill_a_backend(&scene).await;
        } else {
            tokio::task::block_in_place(|| server.crash_and_restart());
        }
    }
    scene.all_ended(BURIED).await;
    scene.ledger_is_exact(entries).await;
    drop(worker);
}

/// SIGKILL of one process of the server: the others end themselves, and it recovers as after a crash.
async fn kill_a_backend(scene: &Scene<'_>) {
    let began = clock::now();
    loop {
        let pids = "SELECT pid::text FROM pg_stat_activity WHERE application_name LIKE 'duramen fn %'";
        let pids = rows(&scene.owner, pids).await;
        if let Some(pid) = pids.first().and_then(|row| row[0].as_deref()) {
            let pid = rustix::process::Pid::from_raw(pid.parse().unwrap()).unwrap();
            let killed = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            return killed.expect("the process of the server can be killed");
        }
        assert!(began.elapsed() < SOON, "the worker does not come back");
        sleep(Duration::from_millis(50)).await;
    }
}

/// F-9: a step that was running when the server crashed runs again soon, and not only when the worker is replaced.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_step_survives_a_crash_of_the_server() {
    let server = own_server().await;
    let scene = Scene::on(server.database().await).await;
    let worker = scene.worker().await;
    for number in 0..3 {
        start(&scene.client, &scene.three_entries(&format!("s{number}"), 2.0)).await;
    }
    eventually(&scene.owner, "SELECT count(*) FROM df._activity WHERE owner IS NOT NULL", "3", SOON).await;
    sleep(Duration::from_millis(300)).await;
    tokio::task::block_in_place(|| server.crash_and_restart());
    scene.all_ended(Duration::from_secs(40)).await;
    scene.ledger_is_exact(9).await;
    drop(worker);
}

/// F-1, F-2: two workers at once, under load: nothing is done twice, and both work.
#[tokio::test(flavor = "multi_thread")]
async fn two_workers_do_nothing_twice() {
    let scene = Scene::set().await;
    let first = scene.worker().await;
    let second = scene.worker().await;
    let mut entries = scene.start_many(150, "a").await;
    entries += scene.start_many(150, "b").await;
    scene.all_ended(SOON).await;
    scene.ledger_is_exact(entries).await;
    let (a, b) = (first.metric("claimed_total"), second.metric("claimed_total"));
    assert!(a > 0 && b > 0, "one of the two did nothing: {a} and {b}");
}

/// F-1: a gentle end gives back what it could not finish. Nothing fails for it, and the next worker does it once.
#[tokio::test(flavor = "multi_thread")]
async fn a_drain_that_runs_out_of_patience_gives_steps_back() {
    let scene = Scene::set().await;
    for round in 0..3 {
        let worker = scene.worker().await;
        for number in 0..3 {
            let name = format!("d{round}-{number}");
            start(&scene.client, &scene.three_entries(&name, 3.0)).await;
        }
        eventually(&scene.owner, "SELECT count(*) >= 3 FROM df._activity WHERE owner IS NOT NULL", "t", SOON)
            .await;
        sleep(Duration::from_millis(200)).await;
        let began = clock::now();
        worker.drain(Duration::from_millis(300)).await;
        assert!(began.elapsed() < Duration::from_secs(10), "draining took {:?}", began.elapsed());
        let left = "SELECT (SELECT count(*) FROM df._worker_epoch) || ' ' || (SELECT count(*)
            FROM df._activity WHERE owner IS NOT NULL)";
        eventually(&scene.owner, left, "0 0", SOON).await;
        sleep(Duration::from_millis(300)).await;
    }
    let begun = clock::now();
    let _last = scene.worker().await;
    scene.all_ended(SOON).await;
    assert!(begun.elapsed() < Duration::from_secs(20), "what was given back need not wait for a burial");
    scene.ledger_is_exact(27).await;
}

/// A gentle end waits for what runs.
#[tokio::test(flavor = "multi_thread")]
async fn a_patient_drain_ends_what_it_has_begun() {
    let scene = Scene::set().await;
    let worker = scene.worker().await;
    let id = start_step(&scene.client, "SELECT pg_sleep(1.5)").await;
    eventually(&scene.owner, "SELECT count(*) FROM df._activity WHERE owner IS NOT NULL", "1", SOON).await;
    worker.drain(SOON).await;
    let activities = rows(&scene.owner, "SELECT count(*)::text FROM df._activity").await;
    assert_eq!(activities[0][0].as_deref(), Some("0"), "the step ended and was written down");
    let _next: TestWorker = scene.worker().await;
    assert_eq!(ended(&scene.client, &id, SOON).await.status, "completed");
}
