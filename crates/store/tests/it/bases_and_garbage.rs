//! What is given back, and what must not be: nodes of bases and children, versions that a merge starts from.

use duramen_store::{Branch, MergeOptions, Options, Scope, Store};

fn fill(branch: &Branch, from: i64) {
    let pairs = (from..from + 3000).map(|number| (format!("key {number:06}"), number));
    branch.kv().put_many(pairs.collect::<Vec<_>>()).unwrap();
}

/// The nodes on disk, as `du` would count them after a compaction.
fn node_bytes(store: &Store) -> u64 {
    for _ in 0..3 {
        store.compact().unwrap();
    }
    store.info().node_bytes
}

#[test]
fn loading_in_bulk_keeps_the_base_of_the_last_merge() {
    let folder = tempfile::tempdir().unwrap();
    {
        let store = Store::open(folder.path(), Options::default()).unwrap();
        let main = store.branch("main").unwrap();
        fill(&main, 0);
        let side = store.fork("main", "side").unwrap();
        fill(&side, 10_000);
        store.merge("side", "main", MergeOptions::default()).unwrap();
        store.checkpoint().unwrap();
        side.bulk_load("bulk", (0..100).map(|number| (format!("{number:04}"), number))).unwrap();
        store.compact().unwrap();
        store.close().unwrap();
    }
    let store = Store::open(folder.path(), Options::default()).unwrap();
    let report = store.merge("side", "main", MergeOptions::default()).unwrap();
    assert_eq!((report.written, report.conflicts.len()), (100, 0));
}

#[test]
fn what_a_reset_branch_had_is_still_the_base_of_its_children() {
    for then_delete in [false, true] {
        let store = Store::memory();
        let main = store.branch("main").unwrap();
        main.kv().put("k", 1).unwrap();
        store.fork("main", "x").unwrap();
        store.fork("x", "c").unwrap();
        main.kv().put("k", 2).unwrap();
        store.reset_branch("x").unwrap();
        if then_delete {
            store.delete_branch("x").unwrap();
        }
        let report = store.merge("c", "main", MergeOptions::default()).unwrap();
        assert_eq!((report.written, report.conflicts.len()), (0, 0));
        assert_eq!(main.kv().get("k").unwrap(), Some(2.into()), "then_delete {then_delete}");
    }
}

#[test]
fn a_branch_is_there_whole_or_not_at_all_while_it_is_deleted() {
    let store = Store::memory();
    store.branch("main").unwrap().kv().put("k", 1).unwrap();
    for round in 0..500 {
        let name = format!("fork-{round}");
        let fork = store.fork("main", &name).unwrap();
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                for _ in 0..50 {
                    match fork.kv().get("k") {
                        Ok(value) => assert_eq!(value, Some(1.into()), "round {round}"),
                        Err(_) => break,
                    }
                }
            });
            store.delete_branch(&name).unwrap();
            reader.join().unwrap();
        });
    }
}

#[test]
fn failed_loads_and_deleted_forks_leave_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), Options::default()).unwrap();
    let main = store.branch("main").unwrap();
    fill(&main, 0);
    let before = node_bytes(&store);
    for round in 0..20 {
        // Sorted but for the last row, and large enough to be stored on the way.
        let rows = (0..3000).map(|number| (format!("{number:06}"), number)).chain([("0".to_owned(), 0)]);
        main.bulk_load("failed", rows).unwrap_err();
        // Dirty when it is forked, and dirty again after it.
        fill(&main, 0);
        let name = format!("fork-{round}");
        let fork = store.fork("main", &name).unwrap();
        fill(&main, 0);
        fill(&fork, 0);
        store.checkpoint().unwrap();
        store.delete_branch(&name).unwrap();
    }
    let after = node_bytes(&store);
    assert!(after < before * 6 + (2 << 20), "{before} bytes became {after}");
}
