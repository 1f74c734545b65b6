//! What a worker tells of the database's backlog when there is a lot of it, and when the database does not answer.

use crate::common;
use crate::worker::{execute, submitter, TestWorker};
use duramen_base::clock;
use std::time::Duration;

/// More than a role would let wait on a good day.
const MANY: usize = 100_000;

fn figure(page: &str, series: &str) -> Option<f64> {
    page.lines().find_map(|line| line.strip_prefix(&format!("duramen_functions_{series} "))?.parse().ok())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_backlog_is_told_in_time() {
    let database = common::database().await;
    let (_, client, owner) = submitter(&database).await;
    let fill = format!(
        "SELECT count(*) FROM generate_series(1, 20) q, LATERAL (SELECT df.queue('q' || q), df.pause_queue('q' || q)) m;
         SELECT count(*) FROM generate_series(1, 20) q,
             LATERAL df.start_many(array_fill('SELECT 1'::text, ARRAY[{}]), queue => 'q' || q) s",
        MANY / 20
    );
    execute(&client, &[&fill]).await;
    let worker = TestWorker::start(&database, 2).await;
    let began = clock::now();
    let page = worker.monitor().prometheus().await;
    let took = began.elapsed();
    assert_eq!(figure(&page, "queue_waiting{queue=\"q7\"}"), Some(MANY as f64 / 20.0), "{page}");
    assert!(figure(&page, "queue_oldest_seconds{queue=\"q7\"}").is_some_and(|age| age > 0.0), "{page}");
    assert!(took < Duration::from_secs(2), "{took:?}");
    // What is not vacuumed takes longer, and what was deleted is not there.
    execute(&owner, &["DELETE FROM df._queued"]).await;
    let page = worker.monitor().prometheus().await;
    assert_eq!(figure(&page, "queue_waiting{queue=\"q7\"}"), Some(0.0), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_does_not_answer_holds_no_reader_up() {
    let database = common::database().await;
    let owner = database.owner().await;
    let worker = TestWorker::start(&database, 2).await;
    let monitor = worker.monitor();
    // Whoever holds this lock keeps everybody from reading.
    execute(&owner, &["BEGIN; LOCK TABLE df._queued IN ACCESS EXCLUSIVE MODE"]).await;
    let began = clock::now();
    let page = monitor.prometheus().await;
    let took = began.elapsed();
    execute(&owner, &["ROLLBACK"]).await;
    assert!(took > Duration::from_secs(1) && took < Duration::from_secs(5), "{took:?}");
    assert_eq!(figure(&page, "queue_waiting{queue=\"\"}"), None, "{page}");
    assert_eq!(worker.metric("failed_backlogs_total"), 1);
    // It is not asked again at once, so that many readers do not hold it up either.
    let began = clock::now();
    assert!(figure(&monitor.prometheus().await, "lanes").is_some());
    assert!(began.elapsed() < Duration::from_millis(500), "{:?}", began.elapsed());
}
