//! Stores of every format that was ever written are opened, and hold what they held.
//!
//! `tests/fixtures/make.rs` made them. A format that changes gets a new one; those that are there stay.

use std::path::Path;

use duramen_store::vector::Metric;
use duramen_store::{Options, Scope, Store, StoreError, Value};
use serde_json::json;

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

/// What `tests/fixtures/make.rs` wrote.
fn assert_as_made(store: &Store) {
    let main = store.branch("main").unwrap();
    let kv = main.kv();
    let expected = [
        ("null", Value::Null),
        ("bool", Value::Bool(true)),
        ("int", Value::Int(-43)),
        ("float", Value::Float(0.5)),
        ("string", Value::from("gr\u{fc}n")),
        ("bytes", Value::Bytes(vec![0, 1, 254, 255])),
        ("array", Value::Array(vec![Value::Int(1), Value::from("two")])),
        ("object", Value::from_json(&json!({"a": {"b": [null]}})).unwrap()),
    ];
    for (key, value) in expected {
        assert_eq!(kv.get(key).unwrap(), Some(value), "{key}");
    }
    assert_eq!(kv.count("").unwrap(), 38);
    assert!(!kv.exists("gone").unwrap());
    for n in 0..30 {
        assert_eq!(kv.get(&format!("many/{n:02}")).unwrap(), Some(Value::Int(n)));
    }
    assert_eq!(main.space("other").unwrap().kv().get("key").unwrap(), Some("in another space".into()));
    let cell = main.state().read("cell").unwrap().unwrap();
    assert_eq!(cell.value, "third".into());

    let events = main.events();
    let made = [("made", 1), ("sold", 2), ("made", 3), ("sold", 4)];
    for (seq, (event_type, n)) in made.into_iter().enumerate() {
        let event = events.get(seq as u64).unwrap().unwrap();
        assert_eq!(
            (event.event_type.as_str(), event.payload.as_str()),
            (event_type, &*json!({ "n": n }).to_string())
        );
    }
    let report = events.verify().unwrap();
    assert_eq!((report.checked, report.first_bad), (4, None));

    let document = main.json().get("doc", "").unwrap().unwrap();
    assert_eq!(document.as_str(), r#"{"name":"Quercus","rings":[1,2,3,4]}"#);

    let trees = main.vectors().collection("trees");
    let oak = trees.get("oak").unwrap().unwrap();
    assert_eq!((oak.vector, oak.metadata), (vec![1.0, 0.5, -0.25], Some(json!({"kind": "hard"}))));
    assert_eq!(trees.get("pine").unwrap().unwrap().vector, [0.0, 0.0, 2.0]);
    assert_eq!(trees.get("birch").unwrap(), None);
    let info = main.vectors().info("trees").unwrap();
    assert_eq!((info.dimension, info.metric, info.count), (3, Metric::Cosine, 2));

    let side = store.branch("side").unwrap();
    assert_eq!(side.kv().get("int").unwrap(), Some(Value::Int(7)));
    assert!(!side.kv().exists("gone").unwrap());
    // The version of a cell is that of its write, also where the store counted its writes once.
    let of_side = side.state().read("cell").unwrap().unwrap();
    assert_eq!(of_side.value, "second".into());
    assert!(of_side.version < cell.version && cell.version <= 69);
    let late = store.branch("late").unwrap();
    assert_eq!(late.kv().get("late").unwrap(), Some(Value::Bool(true)));
    assert_eq!(late.kv().get("int").unwrap(), Some(Value::Int(7)));

    let infos = store.branches(true).unwrap();
    let branches: Vec<_> =
        infos.iter().map(|info| (info.name.as_str(), info.parent.as_deref(), info.protected)).collect();
    assert_eq!(branches, [("late", Some("side"), true), ("main", None, true), ("side", Some("main"), false)]);
    assert!(matches!(store.branch("dead"), Err(StoreError::BranchNotFound { .. })));
}

#[test]
fn a_store_of_format_1_is_opened_and_goes_on() {
    let dir = fixture("v1");
    let read_only = Options { read_only: true, ..Options::default() };
    assert_as_made(&Store::open(dir.path(), read_only).unwrap());
    let version = {
        let store = Store::open(dir.path(), Options::default()).unwrap();
        assert_as_made(&store);
        let version = store.info().version;
        assert_eq!(version, 69, "the numbers of the commits count on");
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

/// `fixtures/v1-torn` is `v1` as a power cut leaves it within its next checkpoint: the journal of the nodes ends with a
/// commit of which one page never reached the disk.
#[test]
fn a_store_of_format_1_whose_last_checkpoint_was_torn_is_whole() {
    for read_only in [true, false] {
        let dir = fixture("v1-torn");
        let store = Store::open(dir.path(), Options { read_only, ..Options::default() }).unwrap();
        assert_as_made(&store);
        if !read_only {
            store.branch("main").unwrap().kv().put("new", 1).unwrap();
            store.close().unwrap();
            drop(store);
            let store = Store::open(dir.path(), Options::default()).unwrap();
            assert_eq!(store.branch("main").unwrap().kv().count("").unwrap(), 39);
        }
    }
}

/// The same in a journal that is not torn but damaged: a whole batch follows. Nothing is cut off.
#[test]
fn a_store_whose_journal_of_nodes_is_damaged_is_refused_and_left_as_it_is() {
    let dir = fixture("v1");
    let journal = dir.path().join("nodes/0.jnl");
    let mut bytes = std::fs::read(&journal).unwrap();
    bytes[40] ^= 1;
    std::fs::write(&journal, &bytes).unwrap();
    let error = Store::open(dir.path(), Options::default()).unwrap_err();
    assert!(
        error.to_string().contains("0.jnl at byte 0: a batch is broken, and whole ones follow"),
        "{error}"
    );
    assert_eq!(std::fs::read(&journal).unwrap(), bytes);
}

/// A store of version 0.1 that a power cut left. It is too large for the repository.
#[test]
fn a_torn_store_from_elsewhere_is_whole() {
    let Some(path) = std::env::var_os("DURAMEN_TEST_TORN_STORE") else { return };
    let dir = tempfile::tempdir().unwrap();
    copy(Path::new(&path), dir.path());
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
