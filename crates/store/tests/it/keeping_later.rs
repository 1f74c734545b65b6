//! What later merges, reverts, crashes and strangers do to conflicts that were kept.

use std::sync::Arc;

use duramen_base::entropy;
use duramen_store::conflict::{ConflictId, Settle};
use duramen_store::vector::Metric;
use duramen_store::{
    Durability, Keep, MergeOptions, Moment, Options, Part, Primitive, Scope, Store, StoreError, Strategy,
};
use serde_json::json;

use crate::crash_log::CrashLog;
use crate::crash_nodes::{CrashNodeStore, CrashScript};
use crate::keeping::{id, keep, keeping, open, parted};

/// Base, ours and theirs of the only conflict.
fn only<S: Scope>(scope: &S) -> [i64; 3] {
    let found = open(scope);
    assert_eq!(found.len(), 1, "{found:?}");
    [&found[0].base, &found[0].ours, &found[0].theirs].map(|side| side.as_ref().unwrap().as_i64().unwrap())
}

/// K9: a merge over an open conflict keeps the oldest base, and lets go of theirs only for what came of it.
#[test]
fn a_second_conflict_of_the_same_source_takes_the_place_of_the_first() {
    let store = Store::memory();
    let (main, fork) = parted(&store);
    keep(&store, "fork", "main");
    // There is nothing new: the conflict is not met again.
    let report = keep(&store, "fork", "main");
    assert_eq!((report.kept, report.conflicts.len()), (0, 0));
    fork.kv().put("a", 4).unwrap();
    let failed = store.merge("fork", "main", MergeOptions::default()).unwrap_err();
    assert!(matches!(failed, StoreError::MergeConflict { count: 1, .. }));
    assert_eq!(keep(&store, "fork", "main").kept, 1);
    assert_eq!(only(&main), [1, 2, 4]);
    main.kv().put("a", 7).unwrap();
    fork.kv().put("a", 5).unwrap();
    keep(&store, "fork", "main");
    assert_eq!(only(&main), [1, 7, 5]);
    // Of another branch, what is kept would be lost.
    let other = store.fork("main", "other").unwrap();
    other.kv().put("a", 30).unwrap();
    main.kv().put("a", 8).unwrap();
    let refused = store.merge("other", "main", keeping()).unwrap_err();
    assert!(refused.to_string().contains("settle that first"), "{refused}");
    assert_eq!(only(&main), [1, 7, 5]);
    main.conflicts().resolve(&id("a"), Settle::Now).unwrap();
    assert_eq!(keep(&store, "other", "main").kept, 1);
    assert_eq!(only(&main), [7, 8, 30]);
}

/// K9: between branches of which no merge is remembered, the same conflict is met again and stays one.
#[test]
fn the_same_conflict_is_kept_once() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    main.kv().put("a", 1).unwrap();
    let (one, two) = (store.fork("main", "one").unwrap(), store.fork("main", "two").unwrap());
    one.kv().put("a", 2).unwrap();
    two.kv().put("a", 3).unwrap();
    for _ in 0..2 {
        assert_eq!(keep(&store, "two", "one").kept, 1);
        assert_eq!(only(&one), [1, 2, 3]);
    }
    two.kv().put("a", 4).unwrap();
    let refused = store.merge("two", "one", keeping()).unwrap_err();
    assert!(matches!(refused, StoreError::MergeConflict { count: 1, .. }), "{refused}");
    // A strategy that decides is no settling: who decided, and what, is not known of the record.
    store
        .merge("two", "one", MergeOptions { strategy: Strategy::Theirs, ..MergeOptions::default() })
        .unwrap();
    assert_eq!(only(&one), [1, 2, 3]);
    assert!(open(&one)[0].changed);
}

/// K10: a record goes with its row: what is kept in a branch is open in the one that takes the row over, and what is settled there
/// is settled here.
#[test]
fn records_go_over_with_their_rows() {
    let store = Store::memory();
    let (main, fork) = parted(&store);
    keep(&store, "fork", "main");
    // Out of the branch with the open conflict: the fork gets the row, and does not lose its own value for it.
    let report = store.merge("main", "fork", MergeOptions::default()).unwrap();
    assert_eq!((report.written, report.carried), (1, 1));
    assert_eq!(fork.kv().get("a").unwrap(), Some(2.into()));
    assert_eq!(only(&fork), [1, 2, 3]);
    // It is settled in the fork, for theirs, and that goes back.
    fork.conflicts().resolve(&id("a"), Settle::Theirs).unwrap();
    let report = store.merge("fork", "main", MergeOptions::default()).unwrap();
    assert_eq!((report.written, report.carried), (1, 1));
    assert_eq!(main.kv().get("a").unwrap(), Some(3.into()));
    assert!(open(&main).is_empty());
    assert!(store.verify(&mut |_| {}).unwrap().is_whole());
}

/// K10: a fork in which the conflict is settled for what the row has anyway.
#[test]
fn what_is_settled_in_a_fork_is_settled_by_its_merge() {
    for settle in [Settle::Ours, Settle::Now, Settle::Theirs, Settle::Value(json!(9))] {
        for part in [Part::default(), Part { primitive: Some(Primitive::Kv), ..Part::default() }] {
            let store = Store::memory();
            let (main, _) = parted(&store);
            keep(&store, "fork", "main");
            let draft = store.fork("main", "draft").unwrap();
            draft.conflicts().resolve(&id("a"), settle.clone()).unwrap();
            let elsewhere = Part { space: Some("elsewhere".into()), ..Part::default() };
            let nothing =
                store.merge("draft", "main", MergeOptions { part: elsewhere, ..keeping() }).unwrap();
            assert_eq!((nothing.carried, open(&main).len()), (0, 1));
            let report =
                store.merge("draft", "main", MergeOptions { part, ..MergeOptions::default() }).unwrap();
            assert_eq!(report.carried, 1, "{settle:?}");
            assert!(open(&main).is_empty());
            assert_eq!(main.kv().get("a").unwrap(), draft.kv().get("a").unwrap());
        }
    }
}

/// K10: where the target's row does not become the source's, its record stays what it is.
#[test]
fn a_record_does_not_come_without_its_row() {
    let store = Store::memory();
    let (main, fork) = parted(&store);
    keep(&store, "fork", "main");
    let third = store.fork("main", "third").unwrap();
    // The fork has changed the row further: that is a conflict there.
    fork.kv().put("a", 6).unwrap();
    let ours = MergeOptions { strategy: Strategy::Ours, ..MergeOptions::default() };
    assert_eq!(store.merge("main", "fork", ours).unwrap().carried, 0);
    assert_eq!(fork.kv().get("a").unwrap(), Some(6.into()));
    assert!(open(&fork).is_empty());
    // The main branch settles it, and the other has changed the row: that is the conflict that is open there, met again.
    third.kv().put("a", 11).unwrap();
    main.conflicts().resolve(&id("a"), Settle::Theirs).unwrap();
    let report = keep(&store, "main", "third");
    assert_eq!((report.kept, report.carried), (1, 0));
    assert_eq!(only(&third), [1, 11, 3]);
}

/// K2: a revert brings back, and takes away, as it does with rows.
#[test]
fn reverts_have_them() {
    let store = Store::memory();
    let (main, _) = parted(&store);
    store.keep_history("main", Some(Keep::each_commit())).unwrap();
    let before = main.kv().put("other", 1).unwrap();
    let kept = keep(&store, "fork", "main").version.unwrap();
    let settled = main.conflicts().resolve(&id("a"), Settle::Theirs).unwrap();
    main.revert_to(&Moment::Version(kept)).unwrap();
    assert_eq!(only(&main), [1, 2, 3]);
    main.revert_to(&Moment::Version(before)).unwrap();
    assert!(open(&main).is_empty());
    assert_eq!(main.kv().get("a").unwrap(), Some(2.into()));
    main.revert_to(&Moment::Version(settled)).unwrap();
    assert!(open(&main).is_empty());
    assert_eq!(main.kv().get("a").unwrap(), Some(3.into()));
    // A change that is picked is kept, too, and has no branch.
    main.kv().put("a", 50).unwrap();
    let (from, to) =
        (main.at(&Moment::Version(before)).unwrap(), main.at(&Moment::Version(settled)).unwrap());
    assert_eq!(store.apply_change(&from, &to, "main", keeping()).unwrap().kept, 1);
    assert_eq!(only(&main), [2, 50, 3]);
    assert_eq!(open(&main)[0].source, None);
}

#[test]
fn a_space_that_is_dropped_takes_its_conflicts_along() {
    let store = Store::memory();
    let (main, _) = parted(&store);
    keep(&store, "fork", "main");
    main.drop_space("default").unwrap();
    assert!(open(&main).is_empty());
}

/// A row of a collection that is not what it was is refused, and can be let go.
#[test]
fn a_vector_does_not_come_into_a_collection_of_another_shape() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    let put = |scope: &duramen_store::Branch, x: f32| {
        scope.vectors().collection("c").upsert("v", &[x, 0.0], None).unwrap();
    };
    main.vectors().create("c", 2, Metric::Dot).unwrap();
    put(&main, 1.0);
    let fork = store.fork("main", "fork").unwrap();
    put(&main, 2.0);
    put(&fork, 3.0);
    keep(&store, "fork", "main");
    let id = ConflictId::new(Primitive::Vector, "default", "c/v");
    main.vectors().drop("c").unwrap();
    let refused = main.conflicts().resolve_if_changed(&id, Settle::Theirs).unwrap_err();
    assert!(matches!(refused, StoreError::CollectionNotFound { .. }), "{refused}");
    main.vectors().create("c", 3, Metric::Dot).unwrap();
    let refused = main.conflicts().resolve_if_changed(&id, Settle::Theirs).unwrap_err();
    assert!(matches!(refused, StoreError::Vector(_)), "{refused}");
    main.conflicts().resolve(&id, Settle::Now).unwrap();
    assert!(open(&main).is_empty());
}

fn raw<S: Scope>(scope: &S, key: &[u8], value: &[u8]) {
    scope.write(|edit| edit.put(key, &mut |out| out.extend_from_slice(value))).unwrap();
}

/// The bytes of a record whose sides are all the same.
fn record(side: &[u8]) -> Vec<u8> {
    let mut record = vec![1; 1];
    record.extend_from_slice(&[0; 17]);
    for _ in 0..3 {
        record.extend_from_slice(&(side.len() as u32).to_le_bytes());
        record.extend_from_slice(side);
    }
    record
}

/// K8: a record that nobody wrote neither panics nor spoils anything; it is told, and can be dropped.
#[test]
fn a_forged_record_is_told_and_dropped() {
    let mut rng = entropy::rng(65);
    let mut sides: Vec<Vec<u8>> =
        (0..60).map(|_| (0..rng.usize(0..30)).map(|_| rng.u8(..)).collect()).collect();
    sides.extend([
        vec![],
        vec![9, 0],
        vec![9; 9],
        vec![7; 3],
        b"[[[[".to_vec(),
        vec![b'['; 4000],
        vec![0xff; 4],
    ]);
    let rows: [(Primitive, &[u8], &str); 4] = [
        (Primitive::Kv, b"\x10\0k", "k"),
        (Primitive::State, b"\x20\0k", "k"),
        (Primitive::Json, b"\x40\0k", "k"),
        (Primitive::Vector, b"\x50\0\x02c\0k", "c/k"),
    ];
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    main.vectors().create("c", 2, Metric::Dot).unwrap();
    for side in sides {
        for (primitive, row, key) in rows {
            let at = [&[0x65][..], row].concat();
            for forged in [side.clone(), record(&side)] {
                raw(&main, &at, &forged);
                let id = ConflictId::new(primitive, "default", key);
                let found = main.conflicts().get(&id).unwrap().unwrap();
                assert_eq!(open(&main).len(), 1);
                // What is in it goes into the row only if a write could have made it.
                if main.conflicts().resolve_if_changed(&id, Settle::Theirs).is_ok() {
                    assert_eq!(found.unreadable, None);
                    main.kv().get("k").unwrap();
                    main.state().read("k").unwrap();
                    main.json().get("k", "").unwrap();
                    main.vectors().collection("c").get("k").unwrap();
                } else {
                    let _ = main.conflicts().resolve_with(&Part::default(), &mut |_| Some(Settle::Base));
                    // It goes to another store as it is, and is told there.
                    let other = Store::memory();
                    other.import_branch("main", &main.snapshot().unwrap(), &mut |_| {}).unwrap();
                    let copy = other.branch("main").unwrap();
                    assert_eq!(open(&copy).len(), open(&main).len());
                    main.conflicts().resolve(&id, Settle::Now).unwrap();
                }
                assert!(open(&main).is_empty());
                let _ = main.kv().delete("k");
                let _ = main.state().delete("k");
                let _ = main.json().delete("k", "");
            }
        }
    }
    main.kv().put("still", "written").unwrap();
    assert!(store.verify(&mut |_| {}).unwrap().is_whole());
    // An unreadable record stands in the way of another conflict of its row, and of nothing else.
    let (main, _) = parted(&store);
    raw(&main, b"\x65\x10\0a", b"\x02 of the future");
    assert!(!store.verify(&mut |_| {}).unwrap().is_whole());
    let found = main.conflicts().get(&id("a")).unwrap().unwrap();
    assert!(found.unreadable.is_some_and(|reason| reason.contains("format 2")));
    let refused = main.conflicts().resolve(&id("a"), Settle::Theirs).unwrap_err();
    assert!(matches!(refused, StoreError::ConflictUnreadable { .. }), "{refused}");
    let refused = store.merge("fork", "main", keeping()).unwrap_err();
    assert!(refused.to_string().contains("cannot be read"), "{refused}");
    main.conflicts().resolve(&id("a"), Settle::Now).unwrap();
    assert_eq!(keep(&store, "fork", "main").kept, 1);
}

/// K8: hidden keys that no merge writes are refused at an import, and bear with everything else.
#[test]
fn a_record_of_no_row_is_refused_by_an_import() {
    for key in [
        &b"\x65"[..],
        b"\x65\x10",
        b"\x65\x10\0",
        b"\x65\x18\0k",
        b"\x65\x30\0k",
        b"\x65\x10default\0k",
        b"\x65\xff",
    ] {
        let store = Store::memory();
        let (main, _) = parted(&store);
        raw(&main, key, &record(b"x"));
        assert!(!store.verify(&mut |_| {}).unwrap().is_whole(), "{key:?}");
        let refused = Store::memory().import_branch("b", &main.snapshot().unwrap(), &mut |_| {});
        assert!(matches!(refused, Err(StoreError::Damaged(_))), "{key:?}: {refused:?}");
        assert!(open(&main).is_empty());
        keep(&store, "fork", "main");
        assert_eq!(open(&main).len(), 1);
        store.merge("main", "fork", MergeOptions::default()).unwrap();
        main.drop_space("default").unwrap();
    }
}

/// A disk of which the power can be cut.
struct Machine {
    script: CrashScript,
    nodes: Arc<CrashNodeStore>,
    log: Arc<CrashLog>,
}

impl Machine {
    fn new(seed: u64) -> Self {
        let script = CrashScript::new(seed);
        let nodes = Arc::new(CrashNodeStore::new(script.clone()));
        Self { nodes, log: Arc::new(CrashLog::new(script.clone())), script }
    }

    fn open(&self) -> Store {
        let options = Options { durability: Durability::Strict, segment_bytes: 4096, ..Options::default() };
        Store::open_parts(self.nodes.clone(), self.log.clone(), options).unwrap()
    }

    fn restarted(&self, seed: u64) -> Self {
        if !self.script.is_stopped() {
            self.script.stop_in(0);
        }
        let script = CrashScript::new(seed);
        Self {
            nodes: Arc::new(self.nodes.durable_image(script.clone())),
            log: Arc::new(self.log.after_power_cut(script.clone())),
            script,
        }
    }
}

/// K1, K4, S4: the power is cut at each step of a merge that keeps and of what settles it. Rows and records are of one moment.
#[test]
fn a_row_and_its_record_are_there_together_or_not_at_all() {
    let seed = entropy::seed();
    println!("DURAMEN_SEED={seed}");
    let mut states = [0; 3];
    for steps in 0..60 {
        let machine = Machine::new(seed + steps);
        let store = machine.open();
        let (main, fork) = parted(&store);
        fork.kv().put("b", 3).unwrap();
        if steps % 2 == 0 {
            store.checkpoint().unwrap();
        }
        machine.script.stop_in(steps / 2);
        let merged = store.merge("fork", "main", keeping()).is_ok();
        let settled = merged && main.conflicts().resolve(&id("a"), Settle::Theirs).is_ok();
        let _ = store.checkpoint();
        drop((main, fork, store));
        let store = machine.restarted(seed).open();
        let main = store.branch("main").unwrap();
        let at = format!("seed {seed}, {steps} steps, {merged}, {settled}");
        let (a, b) = (main.kv().get("a").unwrap(), main.kv().get("b").unwrap());
        let found = open(&main);
        let state = match (a.and_then(|a| a.as_i64()), b.is_some(), found.len()) {
            (Some(2), false, 0) => 0,
            (Some(2), true, 1) => 1,
            (Some(3), true, 0) => 2,
            other => panic!("{at}: {other:?}"),
        };
        if state == 1 {
            assert_eq!(only(&main), [1, 2, 3], "{at}");
        }
        assert!(state >= usize::from(merged) + usize::from(settled), "{at}: state {state}");
        states[state] += 1;
    }
    assert!(states.iter().all(|count| *count > 0), "seed {seed}: {states:?}");
}
