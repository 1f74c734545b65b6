//! One store, several runtimes.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use duramen_store::{Options, Part, Scope, Store, StoreError};
use duramen_store_tokio::{AsyncStore, THREADS_DEFAULT};
use tokio::runtime::{Builder, Runtime};

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn two_runtimes_share_a_store_and_one_may_end_before_the_other() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (runtime(), runtime());
    let store = first.block_on(AsyncStore::open(folder.path(), Options::default())).unwrap();
    let main = first.block_on(store.branch("main")).unwrap();
    std::thread::scope(|scope| {
        for (name, runtime) in [("first", &first), ("second", &second)] {
            let main = main.clone();
            scope.spawn(move || {
                runtime.block_on(async {
                    for _ in 0..50 {
                        main.transact(move |tx| tx.kv().add("both", 1)).await.unwrap();
                        main.kv_put(name, 1).await.unwrap();
                    }
                });
            });
        }
    });
    // A watch of one runtime is told of what another writes.
    let mut watch = first.block_on(main.watch(Part::default(), None)).unwrap();
    let writer = std::thread::spawn({
        let main = main.clone();
        move || {
            second.block_on(main.kv_put("last", 1)).unwrap();
            second
        }
    });
    let next = async { tokio::time::timeout(Duration::from_secs(60), watch.next()).await.unwrap() };
    let (_, changes) = first.block_on(next).unwrap().unwrap();
    assert_eq!(changes[0].key, "last");
    let second = writer.join().unwrap();
    drop(first);
    second.block_on(async {
        assert_eq!(main.kv_get("both").await.unwrap(), Some(100.into()));
        store.close().await.unwrap();
    });
}

#[test]
fn a_runtime_that_ends_takes_no_work_and_another_one_does() {
    let store = AsyncStore::of(Store::memory(), THREADS_DEFAULT);
    let (ended, other) = (runtime(), runtime());
    let main = ended.block_on(store.branch("main")).unwrap();
    let handle = ended.handle().clone();
    ended.shutdown_timeout(Duration::from_secs(60));
    {
        let _within = handle.enter();
        let put = pin!(main.kv_put("a", 1));
        let polled = put.poll(&mut Context::from_waker(Waker::noop()));
        let Poll::Ready(Err(error)) = polled else { panic!("{polled:?}") };
        assert!(matches!(error, StoreError::InvalidInput { .. }), "{error}");
    }
    assert_eq!(other.block_on(main.kv_get("a")).unwrap(), None);
    other.block_on(main.kv_put("a", 2)).unwrap();
    other.block_on(store.close()).unwrap();
}
