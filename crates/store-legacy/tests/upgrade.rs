//! Stores of version 0.1 are brought to the present format, and hold what they held.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail the test by panicking")]

use std::path::Path;

use duramen_store::{Options, Scope, Store, StoreError};
use duramen_store_legacy::upgrade;
use serde_json::json;

#[path = "../../store/tests/fixtures/as_made.rs"]
mod as_made;

use as_made::assert_as_made;

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// A copy of a fixture, which may be written.
fn fixture(name: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name), dir.path());
    dir
}

/// The names in the folder of the nodes.
fn names(store: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(store.join("nodes")).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_store_of_version_0_1_is_whole_and_goes_on() {
    // `v1-torn` is `v1` as a power cut leaves it within its next checkpoint: the journal of the nodes ends with a
    // commit of which one page never reached the disk.
    for name in ["v1", "v1-torn"] {
        let dir = fixture(name);
        assert!(matches!(
            Store::open(dir.path(), Options::default()).unwrap_err(),
            StoreError::Legacy { .. }
        ));
        let carried = upgrade(dir.path()).unwrap().unwrap();
        assert!(carried.nodes == 3 && carried.bytes > 0, "{carried:?}");
        assert_eq!(names(dir.path()), ["segment-0000000000000001"]);
        assert_eq!(upgrade(dir.path()).unwrap(), None);
        let read_only = Options { read_only: true, ..Options::default() };
        assert_as_made(&Store::open(dir.path(), read_only).unwrap());

        let store = Store::open(dir.path(), Options::default()).unwrap();
        assert_as_made(&store);
        let version = store.info().version;
        assert_eq!(version, 69, "the numbers of the commits count on");
        let main = store.branch("main").unwrap();
        assert_eq!(main.kv().put("new", 1).unwrap(), version + 1);
        main.events().append("made", json!({"n": 5})).unwrap();
        let third = main.state().read("cell").unwrap().unwrap().version;
        assert!(main.state().cas("cell", Some(third), "fourth").unwrap() > version);
        store.delete_branch("side").unwrap();
        store.compact().unwrap();
        store.close().unwrap();
        drop((main, store));
        let store = Store::open(dir.path(), Options::default()).unwrap();
        let main = store.branch("main").unwrap();
        assert_eq!(main.events().verify().unwrap().checked, 5);
        assert_eq!(main.kv().count("").unwrap(), 39);
        assert_eq!(store.branch_info("late").unwrap().parent.as_deref(), Some("main"));
    }
}

/// The marker goes last: whatever was begun before is begun again, and what comes after is only cleaning up.
#[test]
fn an_upgrade_that_was_cut_off_is_made_again() {
    let dir = fixture("v1");
    std::fs::write(dir.path().join("nodes/segment-0000000000000001"), b"half of a segment").unwrap();
    std::fs::write(dir.path().join("nodes/segment-0000000000000009"), vec![7; 100_000]).unwrap();
    upgrade(dir.path()).unwrap().unwrap();
    assert_eq!(names(dir.path()), ["segment-0000000000000001"]);
    assert_as_made(&Store::open(dir.path(), Options::default()).unwrap());

    let nodes = dir.path().join("nodes");
    std::fs::write(nodes.join("0.jnl"), b"old").unwrap();
    std::fs::create_dir(nodes.join("keyspaces")).unwrap();
    assert_as_made(&Store::open(dir.path(), Options::default()).unwrap());
    assert_eq!(upgrade(dir.path()).unwrap(), None);
    assert_eq!(names(dir.path()).len(), 1);
    assert_as_made(&Store::open(dir.path(), Options::default()).unwrap());
}

/// The same in a journal that is not torn but damaged: a whole batch follows. Nothing is cut off.
#[test]
fn a_store_whose_journal_of_nodes_is_damaged_is_refused_and_left_as_it_is() {
    let dir = fixture("v1");
    let journal = dir.path().join("nodes/0.jnl");
    let mut bytes = std::fs::read(&journal).unwrap();
    bytes[40] ^= 1;
    std::fs::write(&journal, &bytes).unwrap();
    let error = upgrade(dir.path()).unwrap_err();
    assert!(
        error.to_string().contains("0.jnl at byte 0: a batch is broken, and whole ones follow"),
        "{error}"
    );
    assert_eq!(std::fs::read(&journal).unwrap(), bytes);
}

#[test]
fn what_is_no_store_of_version_0_1_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(upgrade(dir.path()).unwrap_err(), StoreError::StoreNotFound { .. }));
    std::fs::write(dir.path().join("letter"), "dear").unwrap();
    assert!(matches!(upgrade(dir.path()).unwrap_err(), StoreError::Foreign { .. }));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);

    let dir = fixture("v1");
    let lock = std::fs::File::open(dir.path().join("lock")).unwrap();
    lock.lock().unwrap();
    assert!(matches!(upgrade(dir.path()).unwrap_err(), StoreError::Locked { .. }));
}

/// A store of version 0.1 that a power cut left. It is too large for the repository.
#[test]
fn a_torn_store_from_elsewhere_is_whole() {
    let Some(path) = std::env::var_os("DURAMEN_TEST_TORN_STORE") else { return };
    let dir = tempfile::tempdir().unwrap();
    copy(Path::new(&path), dir.path());
    upgrade(dir.path()).unwrap().unwrap();
    let store = Store::open(dir.path(), Options::default()).unwrap();
    for info in store.branches(true).unwrap() {
        // Every row of it is read.
        let snapshot = store.branch(&info.name).unwrap().snapshot().unwrap();
        let mut rows = 0;
        let nothing = Store::memory().branch("main").unwrap().snapshot().unwrap();
        let count = |_: duramen_store::RawChange<'_>| {
            rows += 1;
            std::ops::ControlFlow::Continue(())
        };
        nothing.diff_with(&snapshot, &duramen_store::Part::default(), count).unwrap();
        println!("{}: {rows} rows, {} entries", info.name, info.entries);
        assert_eq!(rows, info.entries);
    }
    store.close().unwrap();
}
