//! Stores of every format that was ever written are opened, and hold what they held.
//!
//! `tests/fixtures/make.rs` made them. A format that changes gets a new one; those that are there stay. Those of version
//! 0.1 are in `crates/store-legacy`.

use std::path::Path;

use duramen_store::{Options, Scope, Store, StoreError, Value};
use serde_json::json;

#[path = "../fixtures/as_made.rs"]
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

#[test]
fn a_store_of_format_2_is_opened_and_goes_on() {
    let dir = fixture("v2");
    let read_only = Options { read_only: true, ..Options::default() };
    assert_as_made(&Store::open(dir.path(), read_only).unwrap());
    let version = {
        let store = Store::open(dir.path(), Options::default()).unwrap();
        assert_as_made(&store);
        let version = store.info().version;
        store.close().unwrap();
        version
    };
    let store = Store::open(dir.path(), Options::default()).unwrap();
    assert_as_made(&store);
    let main = store.branch("main").unwrap();
    assert_eq!(main.kv().put("new", 1).unwrap(), version + 1);
    main.events().append("made", json!({"n": 5})).unwrap();
    main.json().set("doc", "rings[0]", json!(0)).unwrap();
    let third = main.state().read("cell").unwrap().unwrap().version;
    assert!(main.state().cas("cell", Some(third), "fourth").unwrap() > version);
    store.delete_branch("side").unwrap();
    store.compact().unwrap();
    drop((main, store));
    let store = Store::open(dir.path(), Options::default()).unwrap();
    let main = store.branch("main").unwrap();
    assert_eq!(main.events().verify().unwrap().checked, 5);
    assert_eq!(main.kv().count("").unwrap(), 39);
    assert_eq!(store.branch_info("late").unwrap().parent.as_deref(), Some("main"));
    assert_eq!(store.branch("late").unwrap().kv().get("int").unwrap(), Some(Value::Int(7)));
}

/// Version 0.1 kept its nodes otherwise. Nothing of such a store is touched.
#[test]
fn a_store_of_version_0_1_says_how_it_is_brought_here() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("nodes/keyspaces")).unwrap();
    std::fs::write(dir.path().join("nodes/version"), b"FJL\x03").unwrap();
    for read_only in [true, false] {
        let error = Store::open(dir.path(), Options { read_only, ..Options::default() }).unwrap_err();
        assert!(matches!(error, StoreError::Legacy { .. }), "{error}");
        assert!(error.to_string().contains("duramen store upgrade"), "{error}");
    }
    assert!(Store::is_in(dir.path()).unwrap());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}
