//! A future that is dropped does half of nothing.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::Duration;

use duramen_store::{Scope, Store, StoreError};
use duramen_store_tokio::{AsyncBranch, AsyncStore, THREADS_DEFAULT};
use duramen_tree::MemoryNodeStore;

use crate::machine::{self, wait_until, Disk};

async fn count(branch: &AsyncBranch, prefix: &'static str) -> u64 {
    branch.run(move |branch| branch.kv().count(prefix)).await.unwrap()
}

#[tokio::test(flavor = "current_thread")]
async fn work_that_waits_for_a_thread_is_not_begun_and_work_that_has_one_is_done_whole() {
    let store = AsyncStore::of(Store::memory(), NonZeroUsize::MIN);
    let main = store.branch("main").await.unwrap();
    let (begun, gate) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let transaction = main.transact({
        let (begun, gate) = (begun.clone(), gate.clone());
        move |tx| {
            begun.store(true, Ordering::SeqCst);
            while !gate.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(1));
            }
            tx.kv().put("begun/a", 1)?;
            tx.kv().put("begun/b", 2)
        }
    });
    tokio::select! {
        biased;
        _ = transaction => panic!("it waits for the gate"),
        () = wait_until(|| begun.load(Ordering::SeqCst)) => {}
    }
    // The one thread is taken.
    tokio::select! {
        biased;
        _ = main.kv_put("queued", 1) => panic!("there is no thread for it"),
        () = tokio::time::sleep(Duration::from_millis(5)) => {}
    }
    gate.store(true, Ordering::SeqCst);
    // Turns are given in order, so this comes behind the transaction.
    assert_eq!(count(&main, "begun/").await, 2);
    assert_eq!(main.kv_get("queued").await.unwrap(), None);
}

#[tokio::test(flavor = "current_thread")]
async fn a_strict_commit_that_is_dropped_in_its_wait_is_there_as_a_whole() {
    let folder = tempfile::tempdir().unwrap();
    let (disk, nodes) = (Disk::default(), Arc::<MemoryNodeStore>::default());
    let store = AsyncStore::of(machine::store(folder.path(), &nodes, &disk), THREADS_DEFAULT);
    let main = store.branch("main").await.unwrap();
    disk.set_stuck(true);
    let before = disk.syncs();
    tokio::select! {
        biased;
        _ = main.transact(|tx| { tx.kv().put("a", 1)?; tx.kv().put("b", 2) }) => panic!("the disk stands still"),
        () = wait_until(|| disk.syncs() > before) => {}
    }
    // Whoever comes next does not wait for one that is gone.
    let next = tokio::spawn({
        let main = main.clone();
        async move { main.kv_put("c", 3).await }
    });
    wait_until(|| disk.syncs() > before).await;
    disk.set_stuck(false);
    next.await.unwrap().unwrap();
    assert_eq!(count(&main, "").await, 3);
    store.close().await.unwrap();
    drop((store, main));
    let main = machine::store(folder.path(), &nodes, &disk).branch("main").unwrap();
    assert_eq!(main.kv().count("").unwrap(), 3);
}

#[tokio::test(flavor = "current_thread")]
async fn transactions_that_are_dropped_anywhere_write_both_keys_or_none() {
    let folder = tempfile::tempdir().unwrap();
    let (disk, nodes) = (Disk::default(), Arc::<MemoryNodeStore>::default());
    let store = AsyncStore::of(machine::store(folder.path(), &nodes, &disk), NonZeroUsize::new(3).unwrap());
    let main = store.branch("main").await.unwrap();
    let done = Arc::new(AtomicUsize::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..200_u64 {
        let (main, done) = (main.clone(), done.clone());
        tasks.spawn(async move {
            let transaction = main.transact(move |tx| {
                tx.kv().put(format!("a/{number}"), 1)?;
                tx.kv().put(format!("b/{number}"), 1)
            });
            tokio::select! {
                result = transaction => {
                    result.unwrap();
                    done.fetch_add(1, Ordering::SeqCst);
                }
                () = tokio::time::sleep(Duration::from_micros(number * 20)) => {}
            }
        });
    }
    while let Some(joined) = tasks.join_next().await {
        joined.unwrap();
    }
    // What was dropped may still be done: the end waits for it.
    store.close().await.unwrap();
    drop((store, main));
    let main = machine::store(folder.path(), &nodes, &disk).branch("main").unwrap();
    let rest = |prefix: &str| {
        let keys = main.kv().list(prefix, None, 1000).unwrap().items;
        keys.into_iter().map(|key| key.as_text().unwrap()[2..].to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(rest("a/"), rest("b/"));
    assert!(rest("a/").len() >= done.load(Ordering::SeqCst));
}

#[tokio::test(flavor = "current_thread")]
async fn a_panic_of_the_work_goes_on_in_whoever_waits_and_its_thread_is_free_again() {
    let store = AsyncStore::of(Store::memory(), NonZeroUsize::MIN);
    let main = store.branch("main").await.unwrap();
    let panicked = tokio::spawn({
        let main = main.clone();
        async move {
            main.transact(|tx| -> Result<(), StoreError> {
                tx.kv().put("a", 1)?;
                panic!("of the work")
            })
            .await
        }
    });
    assert!(panicked.await.unwrap_err().is_panic());
    assert_eq!(main.kv_get("a").await.unwrap(), None);
    store.close().await.unwrap();
}
