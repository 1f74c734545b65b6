//! Nothing that waits for a disk holds up the runtime.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use duramen_store::{Durability, Scope};
use duramen_store_tokio::AsyncStore;
use duramen_tree::MemoryNodeStore;
use tokio::task::JoinSet;

use crate::machine::{self, Disk};

const TASKS: i64 = 1000;

/// Without threads for what blocks, one sync would stop a runtime that has one thread; with a thread for each wait, a thousand
/// commits would need a thousand.
#[tokio::test(flavor = "current_thread")]
async fn a_thousand_tasks_go_on_while_strict_commits_wait_for_a_disk_that_stands_still() {
    let folder = tempfile::tempdir().unwrap();
    let (disk, nodes) = (Disk::default(), Arc::default());
    let store = AsyncStore::of(machine::store(folder.path(), &nodes, &disk), NonZeroUsize::new(2).unwrap());
    let main = store.branch("main").await.unwrap();
    let before = disk.syncs();
    disk.set_stuck(true);

    let mut strict = JoinSet::new();
    for number in 0..TASKS {
        let main = main.clone();
        strict.spawn(async move { main.kv_put(format!("strict/{number:04}"), number).await });
    }
    // Others, on the same thread of the runtime and the same two of the store, write and read.
    let mut others = JoinSet::new();
    let quick = main.with_durability(Durability::Memory);
    for number in 0..TASKS {
        let quick = quick.clone();
        others.spawn(async move {
            quick.kv_put(format!("quick/{number:04}"), number).await?;
            quick.kv_get(format!("quick/{number:04}")).await
        });
    }
    let mut read = 0;
    while let Some(done) = others.join_next().await {
        assert!(done.unwrap().unwrap().is_some());
        read += 1;
    }
    assert_eq!(read, TASKS);
    let mut ticks = tokio::time::interval(Duration::from_millis(1));
    for _ in 0..20 {
        ticks.tick().await;
    }
    // All strict commits are applied, which takes threads for a moment, and none is acknowledged.
    let applied =
        async { while main.run(|branch| branch.kv().count("strict/")).await.unwrap() < TASKS as u64 {} };
    tokio::time::timeout(Duration::from_secs(60), applied).await.unwrap();
    assert!(strict.try_join_next().is_none());
    disk.set_stuck(false);
    while let Some(done) = strict.join_next().await {
        done.unwrap().unwrap();
    }
    // The first sync served a few, the next one all that came meanwhile.
    let syncs = disk.syncs() - before;
    assert!(syncs <= 10, "{syncs} syncs");
    store.close().await.unwrap();
}

#[tokio::test(flavor = "current_thread")]
async fn a_timer_ticks_while_a_strict_commit_waits() {
    let folder = tempfile::tempdir().unwrap();
    let (disk, nodes) = (Disk::default(), Arc::<MemoryNodeStore>::default());
    let store = AsyncStore::of(machine::store(folder.path(), &nodes, &disk), NonZeroUsize::MIN);
    let main = store.branch("main").await.unwrap();
    disk.set_stuck(true);
    let before = disk.syncs();
    let waiting = tokio::spawn({
        let main = main.clone();
        async move { main.transact(|tx| tx.kv().put("paid", true)).await }
    });
    let mut ticks = tokio::time::interval(Duration::from_millis(1));
    let mut counted = 0;
    // Counted only while the sync stands still, on the one thread that there is.
    while counted < 100 {
        ticks.tick().await;
        if disk.syncs() > before {
            counted += 1;
        }
    }
    assert!(!waiting.is_finished());
    disk.set_stuck(false);
    waiting.await.unwrap().unwrap();
    assert_eq!(main.kv_get("paid").await.unwrap(), Some(true.into()));
}
