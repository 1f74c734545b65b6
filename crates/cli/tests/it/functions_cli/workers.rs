//! A worker as a process: how it says that it is ready, how it ends, what it counts.

use super::{
    common::{self, one},
    metrics::get,
    shell::{until, Shell},
};
use duramen_base::clock;
use rustix::process::Signal;
use serde_json::{json, Value};
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_says_when_it_is_ready_and_what_it_counts() {
    let database = common::database().await;
    let alice = database.role("alice").await;
    let operator = Shell::new(&database.url());
    let mut worker = operator.worker(&["--connections", "3", "--metrics", "127.0.0.1:0"]);
    let (place, url) = worker.ready.split_once(", 3 connections, metrics at http://").unwrap();
    assert!(place.starts_with("worker ready: ") && place.ends_with(database.name()), "{}", worker.ready);
    let address = url.strip_suffix("/metrics").unwrap().to_owned();

    let shell = Shell::new(&database.url_as(&alice));
    shell.ok(&["start", "SELECT 1", "--wait"]);
    let page = get(&address, "/metrics");
    assert!(page.starts_with("HTTP/1.1 200 ") && page.contains("text/plain; version=0.0.4"), "{page}");
    assert!(page.contains("# TYPE duramen_functions_ended_total counter"), "{page}");
    assert!(page.contains("\nduramen_functions_ended_total 1\n"), "{page}");
    assert!(get(&address, "/").starts_with("HTTP/1.1 404 "));

    // The port is taken; the message says by what it can be helped.
    let error = operator.fails(1, &["worker", "--metrics", &address]);
    assert!(error.contains(&address) && error.contains("--metrics"), "{error}");

    let sample = operator.json(&["top", "--count", "1"]);
    let workers = sample["workers"].as_array().unwrap();
    assert_eq!(workers.len(), 1, "{sample}");
    assert!(workers[0]["last_seen_s"].as_f64().unwrap() < 30.0, "{sample}");

    worker.signal(Signal::INT);
    assert_eq!(worker.end().code(), Some(0), "{}", worker.log());
    assert_eq!(operator.json(&["top", "--count", "1"])["workers"], json!([]), "a worker that ended is gone");

    let mut worker = operator.worker(&["--json"]);
    let ready: Value = serde_json::from_str(&worker.ready).unwrap();
    assert_eq!((&ready["connections"], &ready["metrics"]), (&json!(10), &json!(null)), "{ready}");
    assert!(ready["ready"].as_str().unwrap().ends_with(database.name()), "{ready}");
    worker.signal(Signal::TERM);
    assert_eq!(worker.end().code(), Some(0), "{}", worker.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_lets_what_runs_end() {
    let database = common::database().await;
    let alice = database.role("alice").await;
    let owner = database.owner().await;
    owner.batch_execute(&format!("CREATE TABLE t (v int); ALTER TABLE t OWNER TO {alice}")).await.unwrap();
    let operator = Shell::new(&database.url());
    let mut worker = operator.worker(&[]);
    let shell = Shell::new(&database.url_as(&alice));
    let id = shell.start("INSERT INTO t SELECT 1 FROM pg_sleep(3) RETURNING v");
    until("it runs", || operator.json(&["top", "--count", "1"])["activities_running"] == 1);
    worker.signal(Signal::TERM);
    assert_eq!(worker.end().code(), Some(0), "{}", worker.log());
    let log = worker.log();
    assert!(log.contains("stopping"), "{log}");
    // The statement has committed, with the record that it has; nobody runs it again.
    assert_eq!(one(&owner, "SELECT count(*) FROM t").await.unwrap(), "1");
    let _next = operator.worker(&[]);
    assert_eq!(shell.ok(&["await", &id, "--timeout", "30s"]), "{\"rows\":[{\"v\":1}],\"row_count\":1}\n");
    assert_eq!(one(&owner, "SELECT count(*) FROM t").await.unwrap(), "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_stops_at_once_and_loses_nothing() {
    let database = common::database().await;
    let alice = database.role("alice").await;
    let operator = Shell::new(&database.url());
    let mut worker = operator.worker(&[]);
    let shell = Shell::new(&database.url_as(&alice));
    let id = shell.start("SELECT 'slept' AS v FROM pg_sleep(8)");
    until("it runs", || operator.json(&["top", "--count", "1"])["activities_running"] == 1);
    worker.signal(Signal::TERM);
    std::thread::sleep(Duration::from_millis(500));
    let begin = clock::now();
    worker.signal(Signal::TERM);
    assert_eq!(worker.end().code(), Some(1), "{}", worker.log());
    assert!(begin.elapsed() < Duration::from_secs(5), "it took {:?}", begin.elapsed());
    assert_eq!(shell.ok(&["status", &id]), "running\n");
    let _next = operator.worker(&[]);
    let result = shell.ok(&["await", &id, "--timeout", "60s"]);
    assert!(result.contains("slept"), "{result}");
}

/// A copy of a database, here made by the server itself: a worker is refused until somebody has decided.
#[tokio::test(flavor = "multi_thread")]
async fn a_copy_is_adopted_before_a_worker_runs_it() {
    let server = common::server().await;
    let original = server.database().await;
    let name = format!("{}_copy", original.name());
    let admin = server.connect(common::OWNER, "postgres").await;
    admin.batch_execute(&format!("CREATE DATABASE {name} TEMPLATE {}", original.name())).await.unwrap();
    let copy = Shell::new(&server.url(common::OWNER, &name));
    let error = copy.fails(1, &["worker"]);
    assert!(error.contains("duramen fn adopt URL --external=skip|stub|run"), "{error}");
    let said = copy.ok(&["adopt", "--external=stub"]);
    assert!(said.contains("has adopted 0 instances") && said.contains("stub"), "{said}");
    let again = copy.json(&["adopt", "--external=run"]);
    assert_eq!((&again["adopted"], &again["external"]), (&false.into(), &serde_json::Value::Null), "{again}");
    drop(copy.worker(&[]));
    let said = Shell::new(&original.url()).ok(&["adopt", "--external", "skip"]);
    assert!(said.contains("nothing to adopt"), "{said}");
    admin.batch_execute(&format!("DROP DATABASE {name} WITH (FORCE)")).await.unwrap();
}
