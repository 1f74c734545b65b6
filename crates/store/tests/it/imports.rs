//! Branches from elsewhere: read where their nodes lie, compared, and taken in whole or not at all.

use std::ops::ControlFlow;
use std::sync::Arc;

use duramen_base::entropy;
use duramen_store::{Durability, Options, Part, Scope, Snapshot, Store, StoreError, Value};

use crate::crash_log::CrashLog;
use crate::crash_nodes::{CrashNodeStore, CrashScript};

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

/// A store elsewhere, with more than one leaf.
fn elsewhere() -> Store {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    for number in 0..800 {
        main.kv().put(format!("key {number:04}"), format!("value {number}")).unwrap();
    }
    main.space("other").unwrap().state().set("cell", 1).unwrap();
    store
}

fn snapshot(store: &Store, branch: &str) -> Snapshot {
    store.branch(branch).unwrap().snapshot().unwrap()
}

fn differ(left: &Snapshot, right: &Snapshot) -> u64 {
    let diff = left.diff(right, &Part::default(), 0).unwrap();
    diff.added + diff.removed + diff.modified
}

/// S4: the power is cut at each step of an import, and the branch is there whole, or not at all.
#[test]
fn an_import_that_is_cut_off_leaves_nothing_or_everything() {
    let seed = entropy::seed();
    println!("DURAMEN_SEED={seed}");
    let theirs = elsewhere();
    let from = snapshot(&theirs, "main");
    let (mut nothing, mut everything) = (0, 0);
    for name in ["theirs", "main"] {
        for steps in 0..200 {
            let machine = Machine::new(seed + steps);
            let store = machine.open();
            store.create_branch("mine").unwrap().kv().put("mine", 1).unwrap();
            machine.script.stop_in(steps);
            let imported = store.import_branch(name, &from, &mut |_| {});
            let was_cut = machine.script.is_stopped();
            drop(store);
            let store = machine.restarted(seed).open();
            let at = format!("seed {seed}, branch {name}, {steps} steps, {imported:?}");
            assert_eq!(store.branch("mine").unwrap().kv().get("mine").unwrap(), Some(Value::Int(1)), "{at}");
            match store.branch(name) {
                Ok(branch) if branch.snapshot().unwrap().entries() > 0 => {
                    assert_eq!(differ(&from, &branch.snapshot().unwrap()), 0, "{at}");
                    everything += 1;
                }
                Ok(_) => {
                    assert!(name == "main" && imported.is_err(), "{at}: an empty branch is left");
                    nothing += 1;
                }
                Err(StoreError::BranchNotFound { .. }) => {
                    assert!(imported.is_err(), "{at}: it was acknowledged");
                    nothing += 1;
                }
                Err(error) => panic!("{at}: {error}"),
            }
            // It can be tried again, and branches made afterwards are others.
            store.create_branch("next").unwrap().kv().put("next", 2).unwrap();
            if imported.is_err() && everything == 0 {
                store.import_branch("again", &from, &mut |_| {}).unwrap();
                assert_eq!(differ(&from, &snapshot(&store, "again")), 0, "{at}");
            }
            if !was_cut {
                break;
            }
        }
    }
    assert!(nothing > 2 && everything > 1, "seed {seed}: {nothing} times nothing, {everything} everything");
}

#[test]
fn an_import_takes_a_free_name_or_an_empty_branch() {
    let (here, theirs) = (Store::memory(), elsewhere());
    let from = snapshot(&theirs, "main");
    let mut told = Vec::new();
    assert_eq!(here.import_branch("theirs", &from, &mut |rows| told.push(rows)).unwrap(), from.entries());
    assert_eq!(told.last(), Some(&from.entries()));
    let again = here.import_branch("theirs", &from, &mut |_| {});
    assert!(matches!(again, Err(StoreError::BranchExists { .. })));
    let bad = here.import_branch("no name", &from, &mut |_| {});
    assert!(matches!(bad, Err(StoreError::InvalidName { .. })));
    here.import_branch("main", &from, &mut |_| {}).unwrap();
    assert_eq!(differ(&snapshot(&here, "main"), &snapshot(&here, "theirs")), 0);
    // The same rows of two imports are different writes, and alike.
    here.branch("main").unwrap().kv().put("key 0001", "changed").unwrap();
    let diff = here.diff("main", "theirs", &Part::default(), 5).unwrap();
    assert_eq!((diff.modified, diff.added, diff.removed), (1, 0, 0));
    assert_eq!(here.branches(false).unwrap().len(), 2);
}

/// Stores give the same versions to different writes: a comparison must not go by them.
#[test]
fn snapshots_of_different_stores_are_compared_by_what_they_hold() {
    let (one, two) = (Store::memory(), Store::memory());
    for (store, mark) in [(&one, 1), (&two, 2)] {
        let main = store.branch("main").unwrap();
        for number in 0..3000 {
            let value = if number % 100 == 0 { mark } else { 0 };
            main.kv().put(format!("key {number:05}"), value).unwrap();
        }
        main.kv().put(format!("only {mark}"), 0).unwrap();
    }
    let (left, right) = (snapshot(&one, "main"), snapshot(&two, "main"));
    let diff = left.diff(&right, &Part::default(), 2).unwrap();
    assert_eq!((diff.added, diff.removed, diff.modified, diff.truncated), (1, 1, 30, true));
    assert_eq!(diff.entries[1].key, "key 00100");
    let part = Part { prefix: Some("only".into()), ..Part::default() };
    assert_eq!(left.diff(&right, &part, 2).unwrap().entries.len(), 2);
    let mut seen = 0;
    left.diff_with(&right, &Part::default(), |_| {
        seen += 1;
        ControlFlow::Break(())
    })
    .unwrap();
    assert_eq!(seen, 1);
}
