//! Merges of branches: what goes over by itself, what is a conflict, who decides, and what a later merge starts from.

use std::process::Command;

use duramen_store::event::Direction;
use duramen_store::{
    Equal, MergeOptions, Options, Part, Primitive, Resolution, Scope, Store, StoreError, Strategy, Value,
};
use serde_json::json;

fn forked() -> Store {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    for number in 0..2000 {
        main.kv().put(format!("key {number:04}"), number).unwrap();
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
    assert_eq!((cell.value, Some(cell.version)), (Value::from("both"), report.version));
}

/// Whatever happens to a branch, whoever read a cell earlier finds another version of it, if it was written (S14).
#[test]
fn versions_of_a_cell_never_come_again() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    let cells = main.state();
    let mut seen = std::collections::BTreeSet::new();
    let mut fresh = |branch: &duramen_store::Branch, why: &str| {
        let version = branch.state().read("cell").unwrap().unwrap().version;
        assert!(seen.last().is_none_or(|last| *last < version), "{why}: {version} after {seen:?}");
        seen.insert(version);
        for stale in seen.iter().filter(|stale| **stale != version) {
            let result = branch.state().cas("cell", Some(*stale), "stale");
            assert!(matches!(result, Err(StoreError::VersionConflict { .. })), "{why}: {result:?}");
        }
        version
    };
    cells.init("cell", 10).unwrap();
    fresh(&main, "made");
    cells.delete("cell").unwrap();
    assert!(matches!(cells.cas("cell", Some(1), 0), Err(StoreError::VersionConflict { actual: None, .. })));
    cells.init("cell", 10).unwrap();
    fresh(&main, "made again");
    cells.delete("cell").unwrap();
    cells.cas("cell", None, 10).unwrap();
    fresh(&main, "made by cas");
    // The side writes it once, main often; then main becomes as the side is.
    let side = store.fork("main", "side").unwrap();
    side.state().set("cell", 3).unwrap();
    for value in 0..5 {
        cells.set("cell", value).unwrap();
    }
    fresh(&main, "set");
    let theirs = || MergeOptions { strategy: Strategy::Theirs, ..MergeOptions::default() };
    let part =
        || MergeOptions { part: Part { space: Some("default".to_owned()), ..Part::default() }, ..theirs() };
    for _ in 0..2 {
        // A merge of a part notes nothing, so the second takes the very same value again.
        store.merge("side", "main", part()).unwrap();
        assert_eq!(cells.read("cell").unwrap().unwrap().value, 3.into());
        fresh(&main, "merged in part");
        cells.set("cell", 11).unwrap();
        fresh(&main, "set after a merge");
    }
    store.merge("side", "main", theirs()).unwrap();
    fresh(&main, "merged");
    // A transaction that began before the cell was deleted and made again gives it a version of its own.
    let transaction = main.begin().unwrap();
    transaction.state().set("other", 1).unwrap();
    cells.init("other", 0).unwrap();
    let first = cells.read("other").unwrap().unwrap().version;
    cells.delete("other").unwrap();
    transaction.commit().unwrap();
    assert!(cells.read("other").unwrap().unwrap().version > first);

    // A reset takes back what was written, and no version.
    let (mut seen_aside, mut last) = (Vec::new(), 0);
    let mut aside = |why: &str| {
        let version = side.state().read("cell").unwrap().unwrap().version;
        assert!(version > last, "{why}: {version} after {last}");
        last = version;
        for stale in &seen_aside {
            assert!(side.state().cas("cell", Some(*stale), "stale").is_err(), "{why}: {stale}");
        }
        seen_aside.push(version);
    };
    aside("as it was");
    let transaction = side.begin().unwrap();
    let then = transaction.state().read("cell").unwrap().unwrap().version;
    transaction.state().cas("cell", Some(then), "late").unwrap();
    assert_eq!(transaction.state().read("cell").unwrap().unwrap().version, 0, "it is not known yet");
    store.reset_branch("side").unwrap();
    assert!(matches!(transaction.commit(), Err(StoreError::TransactionConflict { .. })));
    aside("reset");
    store.reset_branch("side").unwrap();
    aside("reset again");
    let snapshot = side.snapshot().unwrap();
    let fork = store.fork("side", "fork").unwrap();
    let version = side.state().read("cell").unwrap().unwrap().version;
    assert_eq!(snapshot.state().read("cell").unwrap().unwrap().version, version);
    assert_eq!(fork.state().read("cell").unwrap().unwrap().version, version);
    side.state().cas("cell", Some(version), "on").unwrap();
    aside("set after a reset");
}

/// The same after the store was opened anew, from its log and from a checkpoint.
#[test]
fn versions_of_a_cell_never_come_again_after_an_opening() {
    let dir = tempfile::tempdir().unwrap();
    let mut reset = None;
    for round in 0..4 {
        let store = Store::open(dir.path(), Options::default()).unwrap();
        if round == 0 {
            store.branch("main").unwrap().state().init("cell", 1).unwrap();
            store.fork("main", "side").unwrap().state().set("cell", 2).unwrap();
            store.reset_branch("side").unwrap();
        }
        let version = store.branch("side").unwrap().state().read("cell").unwrap().unwrap().version;
        assert_eq!(*reset.get_or_insert(version), version);
        assert!(version > store.branch("main").unwrap().state().read("cell").unwrap().unwrap().version);
        if round == 1 {
            store.checkpoint().unwrap();
        }
        if round == 0 {
            // As a process that is killed.
            let left = dir.path().with_extension("left");
            assert!(Command::new("cp").arg("-r").args([dir.path(), &left]).status().unwrap().success());
            drop(store);
            std::fs::remove_dir_all(dir.path()).unwrap();
            std::fs::rename(left, dir.path()).unwrap();
        }
    }
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
    // Main goes on from what it got: work did not change the key since, so this is not a conflict.
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
            main.kv().put(format!("key {number}"), number).unwrap();
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

/// Both sides sell one of ten, and both write nine: one of the sales is lost if that is agreement.
#[test]
fn equal_changes_of_cells_are_a_conflict_and_those_of_pairs_if_it_is_asked() {
    let made = || {
        let store = Store::memory();
        let main = store.branch("main").unwrap();
        main.state().init("stock", 10).unwrap();
        main.state().init("job", "waits").unwrap();
        main.kv().put("stock", 10).unwrap();
        main.json().set("doc", "$", json!({ "stock": 10 })).unwrap();
        let side = store.fork("main", "side").unwrap();
        for branch in [&main, &side] {
            branch.state().set("stock", 9).unwrap();
            // Both took it.
            branch.state().delete("job").unwrap();
            branch.kv().put("stock", 9).unwrap();
            branch.json().set("doc", "$.stock", json!(9)).unwrap();
            branch.events().append("sold", json!({})).unwrap();
        }
        store
    };
    let merge = |store: &Store, equal, strategy| {
        let resequence_events = true;
        store.merge(
            "side",
            "main",
            MergeOptions { equal, strategy, resequence_events, ..MergeOptions::default() },
        )
    };
    let keys = |equal| {
        let options =
            MergeOptions { equal, dry_run: true, resequence_events: true, ..MergeOptions::default() };
        let report = made().merge("side", "main", options).unwrap();
        report.conflicts.into_iter().map(|it| format!("{}/{}", it.primitive, it.key)).collect::<Vec<_>>()
    };
    assert_eq!(keys(None), ["state/job", "state/stock"]);
    assert_eq!(keys(Some(Equal::Agree)), Vec::<String>::new());
    assert_eq!(keys(Some(Equal::Conflict)), ["kv/stock", "state/job", "state/stock", "json/doc"]);

    let store = made();
    let error = merge(&store, None, Strategy::Fail).unwrap_err();
    assert!(matches!(error, StoreError::MergeConflict { count: 2, .. }), "{error}");
    // Who knows what the value means says what it is.
    let mut both_sold = |conflict: &duramen_store::Conflict| {
        let number = |side: &Option<serde_json::Value>| side.as_ref().and_then(|cell| cell["value"].as_i64());
        match (number(&conflict.base), number(&conflict.ours), number(&conflict.theirs)) {
            (Some(base), Some(ours), Some(theirs)) => Resolution::Value(json!(ours + theirs - base)),
            _ => Resolution::Ours,
        }
    };
    let options =
        MergeOptions { resolver: Some(&mut both_sold), resequence_events: true, ..MergeOptions::default() };
    store.merge("side", "main", options).unwrap();
    let main = store.branch("main").unwrap();
    assert_eq!(main.state().read("stock").unwrap().unwrap().value, 8.into());
    assert_eq!(main.kv().get("stock").unwrap(), Some(9.into()));
    // It is decided: the next merge begins from here.
    let report = merge(&store, None, Strategy::Fail).unwrap();
    assert_eq!((report.conflicts.len(), report.written, report.deleted), (0, 0, 0));
}
