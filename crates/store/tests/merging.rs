//! Merges of branches: what goes over by itself, what is a conflict, who decides, and what a later merge starts from.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use duramen_store::event::Direction;
use duramen_store::{MergeOptions, Part, Primitive, Resolution, Scope, Store, StoreError, Strategy, Value};
use serde_json::json;

fn forked() -> Store {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    for number in 0..2000 {
        main.kv().put(&format!("key {number:04}"), number).unwrap();
    }
    main.json().set("doc", "$", json!({ "a": 1, "b": { "c": 2 } })).unwrap();
    main.state().init("cell", 0).unwrap();
    main.events().append("start", json!({})).unwrap();
    store.fork("main", "work").unwrap();
    store
}

fn options(strategy: Strategy) -> MergeOptions<'static> {
    MergeOptions { strategy, ..MergeOptions::default() }
}

#[test]
fn what_only_one_side_changed_goes_over_and_what_both_made_alike_is_no_conflict() {
    let store = forked();
    let (main, work) = (store.branch("main").unwrap(), store.branch("work").unwrap());
    work.kv().put("key 0001", "theirs").unwrap();
    work.kv().delete("key 0002").unwrap();
    work.kv().put("new", 1).unwrap();
    main.kv().put("key 0003", "ours").unwrap();
    main.kv().put("key 0004", "alike").unwrap();
    work.kv().put("key 0004", "alike").unwrap();
    work.json().set("doc", "$.b.c", json!(3)).unwrap();
    main.json().set("doc", "$.a", json!(7)).unwrap();
    work.events().append("more", json!({ "n": 1 })).unwrap();
    let report = store.merge("work", "main", MergeOptions::default()).unwrap();
    assert!(report.conflicts.is_empty());
    assert_eq!(report.deleted, 1);
    assert_eq!(main.kv().get("key 0001").unwrap(), Some("theirs".into()));
    assert_eq!(main.kv().get("key 0002").unwrap(), None);
    assert_eq!(main.kv().get("key 0003").unwrap(), Some("ours".into()));
    assert_eq!(
        main.json().get("doc", "$").unwrap().unwrap().to_value().unwrap(),
        json!({ "a": 7, "b": { "c": 3 } })
    );
    assert_eq!(main.events().len().unwrap(), 2);
    assert!(main.events().verify().unwrap().first_bad.is_none());
}

#[test]
fn a_conflict_fails_the_merge_whole_and_a_strategy_decides_it() {
    for (strategy, expected) in [(Strategy::Ours, "ours"), (Strategy::Theirs, "theirs")] {
        let store = forked();
        let (main, work) = (store.branch("main").unwrap(), store.branch("work").unwrap());
        work.kv().put("key 0001", "theirs").unwrap();
        work.kv().put("other", 1).unwrap();
        main.kv().put("key 0001", "ours").unwrap();
        let failed = store.merge("work", "main", MergeOptions::default()).unwrap_err();
        assert!(matches!(failed, StoreError::MergeConflict { count: 1, .. }), "{failed}");
        assert_eq!(main.kv().get("other").unwrap(), None);
        let dry = MergeOptions { dry_run: true, ..MergeOptions::default() };
        let report = store.merge("work", "main", dry).unwrap();
        assert_eq!((report.conflicts.len(), report.written, report.version), (1, 1, None));
        assert_eq!(report.conflicts[0].base, Some(json!(1)));
        store.merge("work", "main", options(strategy)).unwrap();
        assert_eq!(main.kv().get("key 0001").unwrap(), Some(expected.into()));
        assert_eq!(main.kv().get("other").unwrap(), Some(1.into()));
    }
}

#[test]
fn a_resolver_decides_key_by_key() {
    let store = forked();
    let (main, work) = (store.branch("main").unwrap(), store.branch("work").unwrap());
    for key in ["key 0001", "key 0002", "key 0003", "key 0004"] {
        work.kv().put(key, "theirs").unwrap();
        main.kv().put(key, "ours").unwrap();
    }
    work.state().set("cell", "theirs").unwrap();
    main.state().set("cell", "ours").unwrap();
    let mut resolver = |conflict: &duramen_store::Conflict| match conflict.key.as_str() {
        "key 0001" => Resolution::Ours,
        "key 0002" => Resolution::Theirs,
        "key 0003" => Resolution::Delete,
        _ => Resolution::Value(json!("both")),
    };
    let options = MergeOptions { resolver: Some(&mut resolver), ..MergeOptions::default() };
    let report = store.merge("work", "main", options).unwrap();
    assert_eq!(report.conflicts.len(), 5);
    let value = |key: &str| main.kv().get(key).unwrap();
    assert_eq!(value("key 0001"), Some("ours".into()));
    assert_eq!(value("key 0002"), Some("theirs".into()));
    assert_eq!(value("key 0003"), None);
    assert_eq!(value("key 0004"), Some("both".into()));
    let cell = main.state().read("cell").unwrap().unwrap();
    assert_eq!((cell.value, cell.version), (Value::from("both"), 3));
}

#[test]
fn logs_to_which_both_appended_are_a_conflict_unless_events_get_new_numbers() {
    for resequence in [false, true] {
        let store = forked();
        let (main, work) = (store.branch("main").unwrap(), store.branch("work").unwrap());
        main.events().append("ours", json!({ "n": 1 })).unwrap();
        work.events().append("theirs", json!({ "n": 2 })).unwrap();
        work.events().append("theirs", json!({ "n": 3 })).unwrap();
        let merged = store.merge(
            "work",
            "main",
            MergeOptions { resequence_events: resequence, ..MergeOptions::default() },
        );
        if resequence {
            assert_eq!(merged.unwrap().events_resequenced, 2);
            let types: Vec<_> = main.events().range(.., Direction::Forwards, None, 10).unwrap().events;
            let types: Vec<_> = types.into_iter().map(|event| event.event_type).collect();
            assert_eq!(types, ["start", "ours", "theirs", "theirs"]);
        } else {
            assert!(matches!(merged, Err(StoreError::MergeConflict { .. })));
            store.merge("work", "main", options(Strategy::Theirs)).unwrap();
            assert_eq!(main.events().len().unwrap(), 3);
            assert_eq!(main.events().get(1).unwrap().unwrap().event_type, "theirs");
        }
        assert!(main.events().verify().unwrap().first_bad.is_none());
    }
}

#[test]
fn a_later_merge_starts_from_the_one_before() {
    let store = forked();
    let (main, work) = (store.branch("main").unwrap(), store.branch("work").unwrap());
    work.kv().put("key 0001", "first").unwrap();
    store.merge("work", "main", MergeOptions::default()).unwrap();
    // Main goes on from what it got: work did not change the key since, so this is no conflict.
    main.kv().put("key 0001", "second").unwrap();
    work.kv().put("key 0002", "more").unwrap();
    let report = store.merge("work", "main", MergeOptions::default()).unwrap();
    assert_eq!((report.written, report.conflicts.len()), (1, 0));
    assert_eq!(main.kv().get("key 0001").unwrap(), Some("second".into()));
    // And back: only what main changed goes over.
    let report = store.merge("main", "work", MergeOptions::default()).unwrap();
    assert_eq!(report.written, 1);
    assert_eq!(work.kv().get("key 0001").unwrap(), Some("second".into()));
    assert_eq!(store.diff("main", "work", &Part::default(), 10).unwrap().entries, []);
}

#[test]
fn siblings_and_grandchildren_merge_from_their_common_ancestor() {
    let store = forked();
    let (main, work) = (store.branch("main").unwrap(), store.branch("work").unwrap());
    work.kv().put("key 0001", "work").unwrap();
    let deep = store.fork("work", "deep").unwrap();
    deep.kv().put("key 0002", "deep").unwrap();
    main.kv().put("key 0003", "main").unwrap();
    let late = store.fork("main", "late").unwrap();
    late.kv().put("key 0004", "late").unwrap();
    // The earlier fork counts: what main changed between both forks is late's change, not one that deep undid.
    store.merge("deep", "late", MergeOptions::default()).unwrap();
    let value = |key: &str| late.kv().get(key).unwrap();
    assert_eq!(value("key 0001"), Some("work".into()));
    assert_eq!(value("key 0002"), Some("deep".into()));
    assert_eq!(value("key 0003"), Some("main".into()));
    assert_eq!(value("key 0004"), Some("late".into()));
    // Without its parent, a branch still knows what it had in common with the next one up.
    store.delete_branch("work").unwrap();
    let report = store.merge("deep", "main", MergeOptions::default()).unwrap();
    assert_eq!((report.written, report.conflicts.len()), (2, 0));
    assert_eq!(main.kv().get("key 0003").unwrap(), Some("main".into()));
}

#[test]
fn a_part_is_merged_and_the_rest_stays_to_be_merged() {
    let store = forked();
    let (main, work) = (store.branch("main").unwrap(), store.branch("work").unwrap());
    work.kv().put("key 0001", "work").unwrap();
    work.state().set("cell", "work").unwrap();
    work.space("other").unwrap().kv().put("key 0001", "work").unwrap();
    let part =
        Part { primitive: Some(Primitive::Kv), space: Some("default".into()), prefix: Some("key".into()) };
    let report = store.merge("work", "main", MergeOptions { part, ..MergeOptions::default() }).unwrap();
    assert_eq!(report.written, 1);
    assert_eq!(main.space("other").unwrap().kv().get("key 0001").unwrap(), None);
    let report = store.merge("work", "main", MergeOptions::default()).unwrap();
    assert_eq!(report.written, 2);
}

#[test]
fn bases_of_merges_survive_checkpoints_and_restarts() {
    let folder = tempfile::tempdir().unwrap();
    let open = || Store::open(folder.path(), duramen_store::Options::default()).unwrap();
    {
        let store = open();
        let main = store.branch("main").unwrap();
        for number in 0..500 {
            main.kv().put(&format!("key {number}"), number).unwrap();
        }
        let work = store.fork("main", "work").unwrap();
        work.kv().put("key 1", "first").unwrap();
        store.merge("work", "main", MergeOptions::default()).unwrap();
        main.kv().put("key 1", "second").unwrap();
        store.close().unwrap();
    }
    let store = open();
    store.branch("work").unwrap().kv().put("key 2", "more").unwrap();
    let report = store.merge("work", "main", MergeOptions::default()).unwrap();
    assert_eq!((report.written, report.conflicts.len()), (1, 0));
    drop(store);
    // Once more, from the log alone.
    let store = open();
    let main = store.branch("main").unwrap();
    assert_eq!(main.kv().get("key 1").unwrap(), Some("second".into()));
    assert_eq!(main.kv().get("key 2").unwrap(), Some("more".into()));
    assert!(matches!(
        store.merge("main", "main", MergeOptions::default()),
        Err(StoreError::InvalidInput { .. })
    ));
}
