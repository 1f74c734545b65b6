//! An open loop shows what a stall costs those who wait; a closed loop does not; neither hides what it left out.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::Duration;

use duramen_base::clock;
use duramen_measure::load::{closed_loop, closed_loop_with, open_loop, open_loop_until, LoadError};
use tokio::sync::Mutex;

const STALL: Duration = Duration::from_millis(300);
const LONG: Duration = Duration::from_secs(30);

type Serve = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A system that serves one operation at a time and stalls in the one of the number `stalled`.
fn stalling(stalled: u64) -> impl Fn() -> Serve + Send + Sync + 'static {
    let system = Arc::new(Mutex::new(0_u64));
    move || {
        let system = Arc::clone(&system);
        Box::pin(async move {
            let mut served = system.lock().await;
            if *served == stalled {
                tokio::time::sleep(STALL).await;
            }
            *served += 1;
        })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stall_shows_in_the_later_operations_of_an_open_loop() {
    let serve = stalling(20);
    let run = open_loop(200.0, 100, 1000, LONG, move |_| serve()).await.unwrap();
    assert!(run.is_complete());
    // At 200 a second, 60 operations fall due within the 300 ms, and wait for what is left of them.
    let waited = run.samples.iter().filter(|sample| sample.latency > Duration::from_millis(50)).count();
    assert!(waited >= 40, "only {waited} operations show the stall");
    assert!(run.latencies().quantile(0.75) > Duration::from_millis(50));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stall_shows_once_in_a_closed_loop() {
    let serve = stalling(20);
    let run = closed_loop(1, 100, move |_| serve()).await.unwrap();
    let waited = run.samples.iter().filter(|sample| sample.latency > STALL / 2).count();
    assert_eq!(waited, 1);
    assert!(run.latencies().quantile(0.98) < Duration::from_millis(50));
}

#[tokio::test]
async fn a_blocked_runtime_cannot_hide_a_stall() {
    // Nothing else runs while the only thread of the runtime is blocked, but the schedule goes on.
    let run = open_loop(200.0, 60, 1000, LONG, |call| async move {
        if call.index == 5 {
            std::thread::sleep(STALL);
        }
    });
    let run = run.await.unwrap();
    let waited = run.samples.iter().filter(|sample| sample.latency > Duration::from_millis(50)).count();
    assert!(waited >= 35, "only {waited} operations show the stall");
    assert!(run.lateness().max() > Duration::from_millis(100), "nor does the generator hide its lateness");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operations_start_on_schedule() {
    let begin = clock::now();
    let run = open_loop(500.0, 101, 100, LONG, |call| async move { call.index }).await.unwrap();
    assert!(begin.elapsed() >= Duration::from_millis(200));
    for sample in &run.samples {
        assert_eq!(sample.output, sample.call.index);
        assert_eq!(sample.scheduled, Duration::from_secs_f64(sample.call.index as f64 / 500.0));
        assert!(sample.started >= sample.scheduled);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drops_are_counted() {
    let running = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    let (inner_running, inner_most) = (Arc::clone(&running), Arc::clone(&most));
    let run = open_loop(1000.0, 100, 3, LONG, move |_| {
        let (running, most) = (Arc::clone(&inner_running), Arc::clone(&inner_most));
        async move {
            most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(40)).await;
            running.fetch_sub(1, Ordering::SeqCst);
        }
    });
    let run = run.await.unwrap();
    assert!(run.dropped > 50, "{}", run.dropped);
    assert_eq!(run.samples.len() as u64 + run.dropped, 100);
    assert!(most.load(Ordering::SeqCst) <= 3);
    assert!(!run.is_complete());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_deadline_cuts_off_and_counts() {
    let deadline = Duration::from_millis(150);
    let begin = clock::now();
    let run = open_loop(100.0, 50, 1000, deadline, |call| async move {
        if call.index % 2 == 1 {
            tokio::time::sleep(LONG).await;
        }
    });
    let run = run.await.unwrap();
    assert!(begin.elapsed() < Duration::from_secs(10));
    assert_eq!(run.not_started, 35);
    assert_eq!(run.samples.len() + run.unfinished.len(), 15);
    assert!(run.unfinished.len() >= 7);
    // The first one cut off was due at 10 ms.
    assert!(run.unfinished.iter().max() >= Some(&Duration::from_millis(139)));
    assert_eq!(run.latencies().count(), 15);
    assert!(run.elapsed >= deadline);
}

#[tokio::test]
async fn a_run_that_is_given_up_stops() {
    let started = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&started);
    let run = open_loop(200.0, 1_000_000, 10, Duration::MAX, move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        async {}
    });
    assert!(tokio::time::timeout(Duration::from_millis(100), run).await.is_err());
    tokio::time::sleep(Duration::from_millis(200)).await;
    let after = started.load(Ordering::SeqCst);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(started.load(Ordering::SeqCst), after);
}

#[tokio::test]
async fn a_load_that_is_stopped_ends_what_it_has_begun() {
    let begun = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&begun);
    let stop = {
        let begun = Arc::clone(&begun);
        async move {
            while begun.load(Ordering::SeqCst) < 5 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    };
    let run = open_loop_until(stop, 200.0, 1_000_000, 1_000, LONG, move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        async { tokio::time::sleep(Duration::from_millis(100)).await }
    });
    let run = run.await.unwrap();
    assert_eq!(run.samples.len() as u64, begun.load(Ordering::SeqCst));
    assert!(run.samples.len() >= 5 && run.samples.len() < 1_000_000);
    assert_eq!(run.samples.len() as u64 + run.not_started, 1_000_000);
    assert!(run.unfinished.is_empty() && run.dropped == 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_clients_begin_together_and_keep_their_order() {
    let run = closed_loop(8, 50, |call| async move {
        tokio::time::sleep(Duration::from_millis(1)).await;
        (call.client, call.index)
    });
    let run = run.await.unwrap();
    let expected: Vec<_> = (0..8).flat_map(|client| (0..50).map(move |index| (client, index))).collect();
    assert_eq!(run.samples.iter().map(|sample| sample.output).collect::<Vec<_>>(), expected);
    // All eight were under way before any of them had done ten operations.
    let last = run.samples.iter().filter(|sample| sample.call.index == 0).map(|sample| sample.started).max();
    let tenth =
        run.samples.iter().filter(|sample| sample.call.index == 10).map(|sample| sample.started).min();
    assert!(last < tenth, "{last:?} {tenth:?}");
    assert!(run.throughput_per_s() > 0.0);
}

#[tokio::test]
async fn each_client_keeps_its_state() {
    let run = closed_loop_with(vec![100_u64, 200], 3, |state, _| async move { (state + 1, state) });
    let run = run.await.unwrap();
    let outputs: Vec<u64> = run.samples.into_iter().map(|sample| sample.output).collect();
    assert_eq!(outputs, [100, 101, 102, 200, 201, 202]);
}

#[tokio::test]
async fn a_panic_is_an_error_and_not_a_latency() {
    let closed =
        closed_loop(2, 10, |call| async move { assert_ne!((call.client, call.index), (1, 5)) }).await;
    assert_eq!(closed.unwrap_err(), LoadError::Panicked(1));
    let open = open_loop(1000.0, 10, 10, LONG, |call| async move { assert!(call.index < 8) }).await;
    assert_eq!(open.unwrap_err(), LoadError::Panicked(2));
}

#[tokio::test]
async fn senseless_limits_are_refused() {
    assert_eq!(closed_loop(0, 1, |_| async {}).await.unwrap_err(), LoadError::Nobody);
    assert_eq!(open_loop(1.0, 1, 0, LONG, |_| async {}).await.unwrap_err(), LoadError::Nobody);
    for rate in [0.0, -1.0, f64::INFINITY] {
        assert_eq!(open_loop(rate, 1, 1, LONG, |_| async {}).await.unwrap_err(), LoadError::Rate(rate));
    }
    let nothing = open_loop(1.0, 0, 1, LONG, |_| async {}).await.unwrap();
    assert!(nothing.samples.is_empty() && nothing.is_complete());
}
