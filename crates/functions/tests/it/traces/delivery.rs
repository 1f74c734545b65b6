//! T-3, T-4: whatever a collector does, turns go on, and what is lost is counted.

use std::time::Duration;

use duramen_base::clock;
use duramen_functions::worker::TraceSettings;
use tokio::time::sleep;

use super::collector::{Collector, Mood};
use crate::common;
use crate::worker::{ended, execute, start_step, submitter, TestWorker, SOON};

/// Waits until a counter of the worker has a value.
async fn counts(worker: &TestWorker, metric: &str, expected: u64) {
    let began = clock::now();
    while worker.metric(metric) != expected {
        let found = worker.metric(metric);
        assert!(began.elapsed() < SOON, "{metric} is {found}, not {expected}");
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stalling_collector_holds_up_neither_turns_nor_draining() {
    let database = common::database().await;
    let (_, client, _owner) = submitter(&database).await;
    let collector = Collector::start(&[Mood::Stalls; 100]).await;
    let worker = TestWorker::start_traced(&database, 2, collector.settings(&[])).await;
    // Twice as many spans as there is room for, while a batch is under way.
    let first = start_step(&client, "SELECT 1").await;
    ended(&client, &first, SOON).await.completed();
    let began = clock::now();
    while collector.batches() == 0 {
        assert!(began.elapsed() < SOON);
        sleep(Duration::from_millis(20)).await;
    }
    execute(&client, &["SELECT count(*) FROM df.start_many(array_fill('SELECT 1'::text, ARRAY[5000]))"])
        .await;
    let done = "SELECT count(*) FROM df._done";
    crate::worker::eventually(&client, done, "5001", SOON).await;
    assert_eq!(collector.spans().len(), 0);
    // A role has half of the room. A batch may have gone into the void meanwhile.
    let dropped = worker.metric("dropped_spans_total");
    assert!((10_000 - 4_096 - 512 * 3..=10_000).contains(&dropped), "{dropped}");
    let began = clock::now();
    worker.drain(Duration::from_secs(30)).await;
    assert!(began.elapsed() < Duration::from_secs(9), "{:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_collector_gets_the_same_spans_again() {
    let database = common::database().await;
    let (_, client, _owner) = submitter(&database).await;
    let collector = Collector::start(&[Mood::Says(503), Mood::Says(429)]).await;
    let worker = TestWorker::start_traced(&database, 2, collector.settings(&[])).await;
    let id = start_step(&client, "SELECT 1").await;
    ended(&client, &id, SOON).await.completed();
    assert_eq!(collector.spans_of(2).await.len(), 2);
    counts(&worker, "spans_total", 2).await;
    assert_eq!(worker.metric("dropped_spans_total"), 0);
    assert_eq!(collector.batches(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_collector_refuses_is_counted_and_not_sent_again() {
    let database = common::database().await;
    let (_, client, _owner) = submitter(&database).await;
    let collector = Collector::start(&[Mood::Says(400), Mood::Rejects(1)]).await;
    let worker = TestWorker::start_traced(&database, 2, collector.settings(&[])).await;
    for dropped in [2, 3] {
        let id = start_step(&client, "SELECT 1").await;
        ended(&client, &id, SOON).await.completed();
        counts(&worker, "dropped_spans_total", dropped).await;
    }
    counts(&worker, "spans_total", 1).await;
    assert_eq!(collector.batches(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_drains_sends_what_it_has() {
    let database = common::database().await;
    let (_, client, _owner) = submitter(&database).await;
    let collector = Collector::start(&[]).await;
    let worker = TestWorker::start_traced(&database, 2, collector.settings(&[])).await;
    let id = start_step(&client, "SELECT 1").await;
    ended(&client, &id, SOON).await.completed();
    worker.drain(SOON).await;
    assert_eq!(collector.spans().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_collector_is_no_reason_to_wait() {
    let database = common::database().await;
    let (_, client, _owner) = submitter(&database).await;
    // The port is nobody's any more.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let endpoint = format!("http://127.0.0.1:{port}");
    let settings = TraceSettings::from_variables(|name| {
        (name == "OTEL_EXPORTER_OTLP_ENDPOINT").then(|| endpoint.clone())
    });
    let worker = TestWorker::start_traced(&database, 2, settings.unwrap().unwrap()).await;
    let id = start_step(&client, "SELECT 1").await;
    ended(&client, &id, SOON).await.completed();
    let began = clock::now();
    worker.drain(Duration::from_secs(30)).await;
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}
