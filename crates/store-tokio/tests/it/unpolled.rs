//! A future that is alive and not polled, as one in `select!` is, keeps nobody waiting.

use std::future::Future;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

use duramen_store::{Durability, Scope, Store, StoreError};
use duramen_store_tokio::{AsyncStore, THREADS_DEFAULT};
use duramen_tree::MemoryNodeStore;
use futures_util::StreamExt;

use crate::machine::{self, wait_until, Disk};

/// Longer than anything here takes on a busy machine.
async fn soon<R>(what: impl Future<Output = R>) -> R {
    tokio::time::timeout(Duration::from_secs(30), what).await.expect("it waits for nobody")
}

#[tokio::test(flavor = "current_thread")]
async fn a_close_ends_beside_work_that_nobody_polls() {
    let store = AsyncStore::of(Store::memory(), THREADS_DEFAULT);
    let main = store.branch("main").await.unwrap();
    let (begun, gate) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let mut work = Box::pin(main.run({
        let (begun, gate) = (begun.clone(), gate.clone());
        move |branch| {
            begun.store(true, Ordering::SeqCst);
            while !gate.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(1));
            }
            branch.kv().put("a", 1)
        }
    }));
    tokio::select! {
        biased;
        _ = &mut work => panic!("it waits for the gate"),
        () = wait_until(|| begun.load(Ordering::SeqCst)) => {
            gate.store(true, Ordering::SeqCst);
            soon(store.close()).await.unwrap();
        }
    }
    assert!(soon(work).await.is_ok());
}

/// A close that is begun and not polled ends as well, and so does what others asked for behind it.
#[tokio::test(flavor = "current_thread")]
async fn work_is_refused_behind_a_close_that_nobody_polls() {
    let folder = tempfile::tempdir().unwrap();
    let (disk, nodes) = (Disk::default(), Arc::<MemoryNodeStore>::default());
    let store = AsyncStore::of(machine::store(folder.path(), &nodes, &disk), NonZeroUsize::MIN);
    let main = store.branch("main").await.unwrap();
    main.with_durability(Durability::Memory).kv_put("a", 1).await.unwrap();
    disk.set_stuck(true);
    let before = disk.syncs();
    let mut closing = Box::pin(store.close());
    tokio::select! {
        biased;
        _ = &mut closing => panic!("the disk stands still"),
        () = wait_until(|| disk.syncs() > before) => {}
    }
    disk.set_stuck(false);
    assert!(matches!(soon(main.kv_put("b", 2)).await, Err(StoreError::Closed)));
    soon(closing).await.unwrap();
}

#[tokio::test(flavor = "current_thread")]
async fn a_strict_commit_ends_beside_one_that_nobody_polls() {
    let folder = tempfile::tempdir().unwrap();
    let (disk, nodes) = (Disk::default(), Arc::<MemoryNodeStore>::default());
    let store = AsyncStore::of(machine::store(folder.path(), &nodes, &disk), NonZeroUsize::MIN);
    let main = store.branch("main").await.unwrap();
    disk.set_stuck(true);
    let before = disk.syncs();
    let mut first = Box::pin(main.kv_put("a", 1));
    tokio::select! {
        biased;
        _ = &mut first => panic!("the disk stands still"),
        () = wait_until(|| disk.syncs() > before) => {}
    }
    disk.set_stuck(false);
    soon(main.kv_put("b", 2)).await.unwrap();
    soon(store.close()).await.unwrap();
    assert!(soon(first).await.is_ok());
}

#[tokio::test(flavor = "current_thread")]
async fn a_loop_over_puts_may_put_in_its_body() {
    let folder = tempfile::tempdir().unwrap();
    let (disk, nodes) = (Disk::default(), Arc::<MemoryNodeStore>::default());
    for threads in [1, 3] {
        let threads = NonZeroUsize::new(threads).unwrap();
        let store = AsyncStore::of(machine::store(folder.path(), &nodes, &disk), threads);
        let main = store.branch("main").await.unwrap();
        let puts = (0..100_i64).map(|number| main.kv_put(format!("a/{number}"), number));
        let mut puts = futures_util::stream::iter(puts).buffer_unordered(32);
        let mut number = 0_i64;
        while let Some(put) = soon(puts.next()).await {
            put.unwrap();
            soon(main.kv_put(format!("b/{number}"), number)).await.unwrap();
            number += 1;
        }
        assert_eq!(soon(main.run(|branch| branch.kv().count(""))).await.unwrap(), 200);
        soon(store.close()).await.unwrap();
    }
}

/// What the work committed before it failed is there, and so the disk must have it.
#[tokio::test(flavor = "current_thread")]
async fn what_failed_work_committed_is_durable() {
    let folder = tempfile::tempdir().unwrap();
    let (disk, nodes) = (Disk::default(), Arc::<MemoryNodeStore>::default());
    let store = AsyncStore::of(machine::store(folder.path(), &nodes, &disk), THREADS_DEFAULT);
    let main = store.branch("main").await.unwrap();
    let before = disk.syncs();
    let failed = main.commit(|branch| -> Result<(), StoreError> {
        branch.kv().put("a", 1)?;
        Err(StoreError::InvalidInput { what: "the rest", reason: "it does not come".to_owned() })
    });
    assert!(matches!(failed.await, Err(StoreError::InvalidInput { .. })));
    assert_eq!(disk.syncs(), before + 1);
    let panicked = tokio::spawn({
        let main = main.clone();
        async move {
            main.commit(|branch| -> Result<(), StoreError> {
                branch.kv().put("b", 1)?;
                panic!("of the work")
            })
            .await
        }
    });
    assert!(soon(panicked).await.unwrap_err().is_panic());
    assert_eq!(disk.syncs(), before + 2);
}
