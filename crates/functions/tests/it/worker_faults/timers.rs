//! F-9 and F-11: what is due is done in time, and an idle worker is silent.

use super::{common::one, rows, Scene};
use crate::worker::{ended, eventually, execute, run_step, start, SOON};
use duramen_base::clock;
use duramen_postgres::connection::Target;
use std::time::Duration;
use tokio::time::sleep;

/// Many timers that were set in any order fire in time while nothing else happens.
#[tokio::test(flavor = "multi_thread")]
async fn timers_fire_in_time() {
    let scene = Scene::set().await;
    let _worker = scene.worker().await;
    run_step(&scene.client, "SELECT 1").await.completed();
    let mut ids = Vec::new();
    for tenths in [9, 3, 31, 12, 24, 17, 45, 38, 6, 52] {
        let seconds = f64::from(tenths) / 10.0;
        ids.push((seconds, start(&scene.client, &format!("df.sleep({seconds})")).await));
    }
    for (_, id) in &ids {
        ended(&scene.client, id, SOON).await.completed();
    }
    for (seconds, id) in &ids {
        let took = format!(
            "SELECT extract(epoch FROM completed_at - started_at) FROM df._done WHERE seq = df._seq('{id}')"
        );
        let took: f64 = one(&scene.owner, &took).await.unwrap().parse().unwrap();
        assert!(took >= *seconds, "a sleep of {seconds} s took {took} s");
        assert!(took < seconds + 0.5, "a sleep of {seconds} s took {took} s");
    }
}

/// A start is noticed at once by a worker that sleeps, however long it has slept.
#[tokio::test(flavor = "multi_thread")]
async fn a_sleeping_worker_notices_a_start() {
    let scene = Scene::set().await;
    let _worker = scene.worker().await;
    run_step(&scene.client, "SELECT 1").await.completed();
    for pause_ms in [0, 10, 20, 30, 60, 100, 250, 400, 1200, 6500] {
        sleep(Duration::from_millis(pause_ms)).await;
        let began = clock::now();
        run_step(&scene.client, "SELECT 1").await.completed();
        assert!(began.elapsed() < Duration::from_secs(1), "after {pause_ms} ms: {:?}", began.elapsed());
    }
}

/// F-9: starters notify only if a worker sleeps. Notifications make their commits wait for one another, for nothing if no
/// worker is there.
#[tokio::test(flavor = "multi_thread")]
async fn starters_notify_only_those_who_sleep() {
    let scene = Scene::set().await;
    let target = Target::parse(&scene.database.url_as(&scene.alice)).unwrap();
    let (listener, mut heard) = target.connect_listening().await.unwrap();
    execute(&listener, &["LISTEN df_wake", "LISTEN df_test"]).await;
    let mut notified = async || {
        let id = start(&scene.client, "'SELECT 1'").await;
        // Notifications come in the order of commits.
        execute(&scene.owner, &["NOTIFY df_test"]).await;
        let mut wakes = 0;
        while heard.recv().await.expect("the listener lives").channel() == "df_wake" {
            wakes += 1;
        }
        (wakes, id)
    };
    let asleep = "SELECT last_value FROM df._asleep";
    let (wakes, early) = notified().await;
    assert_eq!(wakes, 0, "no worker has ever been there");
    let workers = [scene.worker().await, scene.worker().await];
    ended(&scene.client, &early, SOON).await.completed();
    eventually(&scene.owner, asleep, "2", SOON).await;
    let (wakes, id) = notified().await;
    assert_eq!(wakes, 1, "they sleep");
    ended(&scene.client, &id, SOON).await.completed();
    let [one, other] = workers;
    one.drain(SOON).await;
    eventually(&scene.owner, asleep, "2", SOON).await;
    assert_eq!(notified().await.0, 1, "one is left, which sleeps");
    other.drain(SOON).await;
    let (wakes, late) = notified().await;
    assert_eq!(wakes, 0, "all have gone");
    let _worker = scene.worker().await;
    ended(&scene.client, &late, SOON).await.completed();
}

/// F-11: one transaction in five seconds.
#[tokio::test(flavor = "multi_thread")]
async fn an_idle_worker_is_silent() {
    let scene = Scene::set().await;
    let _worker = scene.worker().await;
    run_step(&scene.client, "SELECT 1").await.completed();
    // Something that waits is no reason to look.
    start(&scene.client, "df.sleep(3600)").await;
    start(&scene.client, "df.wait_for_signal('never')").await;
    let count = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()";
    let reader = scene.database.server().connect(crate::common::OWNER, "postgres").await;
    let count = count.replace("current_database()", &format!("'{}'", scene.database.name()));
    let counted = async || -> i64 { one(&reader, &count).await.unwrap().parse().unwrap() };
    // An idle session tells its statistics after ten seconds.
    sleep(Duration::from_secs(13)).await;
    // Autovacuum looks into each database once a minute, and so do the leader's rounds; each takes some transactions of its
    // own. Of three times 21 s neither comes into all.
    let mut spans = Vec::new();
    while spans.len() < 3 && spans.last().is_none_or(|transactions| *transactions > 5) {
        let before = counted().await;
        sleep(Duration::from_secs(21)).await;
        spans.push(counted().await - before);
    }
    let transactions = *spans.last().unwrap();
    assert!(transactions <= 5, "transactions in 21 s, three times: {spans:?}");
    assert!(transactions > 0, "the worker lives");
    // A heartbeat may just be under way; what lasts is a transaction that is held.
    let sessions = rows(
        &scene.owner,
        "SELECT state FROM pg_stat_activity WHERE application_name LIKE 'duramen fn %'
            AND xact_start < clock_timestamp() - interval '2 seconds'",
    )
    .await;
    assert!(sessions.is_empty(), "an idle worker holds no transaction: {sessions:?}");
    execute(&scene.client, &["SELECT 1"]).await;
}

/// A clock that is set back makes nobody wait until it has come to the old time again. Here the times that were written are put
/// an hour ahead, which is the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_set_back_stops_nothing() {
    let scene = Scene::set().await;
    let _worker = scene.worker().await;
    let looped = format!("df.loop('{}' ~> df.sleep(0.2))", scene.enter("looped"));
    let id = start(&scene.client, &looped).await;
    let waits = start(&scene.client, "df.retry('SELECT 1 / 0', 3, 2, 2, 1, 0)").await;
    let slept = start(&scene.client, "df.sleep(3)").await;
    let entries = format!("SELECT count(*) > 1 FROM {}.ledger", scene.alice);
    eventually(&scene.owner, &entries, "t", SOON).await;
    execute(
        &scene.owner,
        &[
            "BEGIN; LOCK TABLE df._work IN EXCLUSIVE MODE;
             UPDATE df._work w SET due_at = due_at + interval '1 hour', updated_at = updated_at + interval '1 hour',
                 state = (SELECT string_agg(CASE WHEN t.part ~ '^20[0-9-]+T[0-9:.]+Z$'
                         THEN to_char(t.part::timestamptz AT TIME ZONE 'UTC' + interval '1 hour',
                             'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')
                         ELSE t.part END, '\"' ORDER BY t.place)
                     FROM string_to_table(w.state::text, '\"') WITH ORDINALITY AS t(part, place))::json;
             UPDATE df._worker_epoch SET last_seen_at = last_seen_at + interval '1 hour'; COMMIT",
            &format!("DELETE FROM {}.ledger", scene.alice),
        ],
    )
    .await;
    eventually(&scene.owner, &entries, "t", SOON).await;
    ended(&scene.client, &slept, SOON).await.completed();
    ended(&scene.client, &waits, SOON).await.failed();
    execute(&scene.client, &[&format!("SELECT df.cancel('{id}')")]).await;
    ended(&scene.client, &id, SOON).await;
}
