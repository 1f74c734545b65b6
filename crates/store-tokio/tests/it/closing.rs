//! The end of a store waits for what has begun, and refuses the rest.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

use duramen_base::clock;
use duramen_store::{Options, Part, Scope, Store, StoreError};
use duramen_store_tokio::{AsyncStore, THREADS_DEFAULT};

#[tokio::test(flavor = "current_thread")]
async fn a_close_waits_for_work_whose_future_was_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let store = AsyncStore::open(folder.path(), Options::default()).await.unwrap();
    let main = store.branch("main").await.unwrap();
    let (begun, gate) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let work = tokio::spawn({
        let (main, begun, gate) = (main.clone(), begun.clone(), gate.clone());
        async move {
            let work = main.run(move |branch| {
                begun.store(true, Ordering::SeqCst);
                while !gate.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                branch.kv().put("late", 1)
            });
            work.await
        }
    });
    let begin = clock::now();
    while !begun.load(Ordering::SeqCst) {
        assert!(begin.elapsed() < Duration::from_secs(60));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    work.abort();
    // A close that is given up leaves the store as it was.
    tokio::select! {
        biased;
        _ = store.close() => panic!("there is work"),
        () = tokio::time::sleep(Duration::from_millis(5)) => {}
    }
    assert_eq!(main.kv_get("late").await.unwrap(), None);
    let closing = tokio::spawn({
        let store = store.clone();
        async move { store.close().await }
    });
    tokio::task::yield_now().await;
    let refused = tokio::spawn({
        let main = main.clone();
        async move { main.kv_put("after", 1).await }
    });
    tokio::task::yield_now().await;
    assert!(!closing.is_finished() && !refused.is_finished());
    gate.store(true, Ordering::SeqCst);
    closing.await.unwrap().unwrap();
    assert!(matches!(refused.await.unwrap(), Err(StoreError::Closed)));
    store.close().await.unwrap();
    drop((store, main));
    // It is free for others when it is closed.
    let main = Store::open(folder.path(), Options::default()).unwrap().branch("main").unwrap();
    assert_eq!(main.kv().get("late").unwrap(), Some(1.into()));
    assert_eq!(main.kv().get("after").unwrap(), None);
}

#[tokio::test(flavor = "current_thread")]
async fn a_closed_store_says_so_to_everybody() {
    for memory in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let store = match memory {
            true => AsyncStore::of(Store::memory(), THREADS_DEFAULT),
            false => AsyncStore::open(folder.path(), Options::default()).await.unwrap(),
        };
        let main = store.branch("main").await.unwrap();
        let snapshot = main.snapshot().await.unwrap();
        let mut watch = main.watch(Part::default(), None).await.unwrap();
        let watching = tokio::spawn(async move { (watch.next().await, watch.next().await.is_none()) });
        tokio::task::yield_now().await;
        store.close().await.unwrap();
        assert!(matches!(main.kv_put("a", 1).await, Err(StoreError::Closed)));
        assert!(matches!(main.transact(|tx| tx.kv().put("a", 1)).await, Err(StoreError::Closed)));
        assert!(matches!(main.kv_get("a").await, Err(StoreError::Closed)));
        assert!(matches!(store.branch("main").await, Err(StoreError::Closed)));
        assert!(matches!(snapshot.run(|snapshot| snapshot.kv().get("a")).await, Err(StoreError::Closed)));
        let watched = tokio::time::timeout(Duration::from_secs(60), watching).await.unwrap().unwrap();
        assert!(matches!(watched, (Some(Err(StoreError::Closed)), true)), "{watched:?}");
    }
}

/// Dropping the last handle of a store makes a checkpoint, for which a disk is waited.
#[tokio::test(flavor = "current_thread")]
async fn a_store_that_is_dropped_is_closed_in_the_background() {
    let folder = tempfile::tempdir().unwrap();
    let store = AsyncStore::open(folder.path(), Options::default()).await.unwrap();
    store.branch("main").await.unwrap().kv_put("a", 1).await.unwrap();
    drop(store);
    let options = Options { lock_wait: Duration::from_secs(60), ..Options::default() };
    let store = AsyncStore::open(folder.path(), options).await.unwrap();
    assert_eq!(store.branch("main").await.unwrap().kv_get("a").await.unwrap(), Some(1.into()));
}
