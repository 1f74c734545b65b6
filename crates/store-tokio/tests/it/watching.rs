//! Watches: whoever is slow misses nothing, and holds up nobody.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::mpsc::channel;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use duramen_store::{Part, Primitive, Scope, Store, StoreError, Watch};
use duramen_store_tokio::{AsyncStore, THREADS_DEFAULT};
use futures_util::StreamExt;

fn pairs() -> Part {
    Part { primitive: Some(Primitive::Kv), ..Part::default() }
}

#[tokio::test(flavor = "current_thread")]
async fn a_slow_consumer_sees_the_last_of_each_key_and_the_writer_does_not_wait() {
    let store = AsyncStore::of(Store::memory(), THREADS_DEFAULT);
    let main = store.branch("main").await.unwrap();
    let mut watch = main.watch(pairs(), None).await.unwrap();
    for round in 0..100_i64 {
        main.commit(move |branch| branch.kv().put_many((0..10).map(|key| (format!("{key}"), round))))
            .await
            .unwrap();
    }
    // A thousand writes happened before the first look.
    let (version, changes) = watch.next().await.unwrap().unwrap();
    assert_eq!(version, watch.version());
    let seen: BTreeMap<_, _> =
        changes.into_iter().map(|change| (change.key, change.right.unwrap())).collect();
    let expected: BTreeMap<_, _> = (0..10).map(|key| (key.to_string(), 99.into())).collect();
    assert_eq!(seen, expected);

    // Beside a writer, as a stream.
    let writer = tokio::spawn({
        let main = main.clone();
        async move {
            for number in 0..300_i64 {
                main.kv_put(format!("{}", number % 7), number).await.unwrap();
            }
            main.kv_put("end", 1).await.unwrap();
        }
    });
    let mut map = seen;
    while !map.contains_key("end") {
        let next = tokio::time::timeout(Duration::from_secs(60), StreamExt::next(&mut watch)).await;
        for change in next.unwrap().unwrap().unwrap().1 {
            // Each change begins where the one before ended.
            assert_eq!(map.insert(change.key, change.right.unwrap()), change.left);
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    writer.await.unwrap();
    assert_eq!((&map["5"], &map["9"]), (&299.into(), &99.into()));
}

/// More watches wait than the store has threads, and one that was given up in `select!` loses nothing.
#[tokio::test(flavor = "current_thread")]
async fn watches_that_wait_hold_no_thread() {
    let store = AsyncStore::of(Store::memory(), NonZeroUsize::MIN);
    let main = store.branch("main").await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let mut watch = main.watch(pairs(), None).await.unwrap();
        tasks.spawn(async move {
            let mut given_up = 0;
            loop {
                tokio::select! {
                    biased;
                    () = tokio::task::yield_now(), if given_up < 20 => given_up += 1,
                    next = watch.next() => return next.unwrap().unwrap().1[0].key.clone(),
                }
            }
        });
    }
    // What is not in the part wakes them all, and is not shown.
    main.state_set("other", 1).await.unwrap();
    main.kv_put("leaf", "fallen").await.unwrap();
    while let Some(key) = tokio::time::timeout(Duration::from_secs(60), tasks.join_next()).await.unwrap() {
        assert_eq!(key.unwrap(), "leaf");
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_watch_of_a_branch_that_is_deleted_ends() {
    let store = AsyncStore::of(Store::memory(), THREADS_DEFAULT);
    let side = store.fork("main", "side").await.unwrap();
    let mut watch = side.watch(Part::default(), None).await.unwrap();
    store.run(|store| store.delete_branch("side")).await.unwrap();
    assert!(matches!(watch.next().await, Some(Err(StoreError::BranchNotFound { .. }))));
    assert!(watch.next().await.is_none());
}

/// What wakes a task keeps the task, and so the watches in it, which end when it is dropped.
struct Owner(#[expect(dead_code, reason = "it is only dropped")] Watch);

impl Wake for Owner {
    fn wake(self: Arc<Self>) {}
}

#[test]
fn a_waker_that_is_dropped_may_end_other_watches() {
    let (done, ended) = channel();
    std::thread::spawn(move || {
        let main = Store::memory().branch("main").unwrap();
        let waiting = || {
            let mut watch = main.watch(Part::default(), None).unwrap();
            assert!(watch.poll_later(&mut Context::from_waker(Waker::noop())).is_pending());
            watch
        };
        let mut watch = waiting();
        for _ in 0..2 {
            // The second one takes the place of the first.
            let owner = Waker::from(Arc::new(Owner(waiting())));
            assert!(watch.poll_later(&mut Context::from_waker(&owner)).is_pending());
        }
        drop(watch);
        main.kv().put("a", 1).unwrap();
        done.send(()).unwrap();
    });
    ended.recv_timeout(Duration::from_secs(60)).expect("nothing waits for itself");
}
