//! The machine stops at every single write and sync, and nothing that was promised is lost or half there.
//!
//! The plans of the model test do the work; what must hold after a crash is checked there too: the version that is
//! found is that of a whole commit, at least that of the last one that was promised, and everything is as it was then.

use std::sync::Arc;
use std::time::Duration;

use duramen_base::entropy;
use duramen_store::kv::Pair;
use duramen_store::{Durability, MergeOptions, Options, Scope, Store, StoreError, Value};

use crate::crash_log::CrashLog;
use crate::crash_nodes::{CrashNodeStore, CrashScript};
use crate::model::device::Crash;
use crate::model::plan::{Device, Plan, Step};
use crate::model::run::run;

/// Cuts a plan off at each step of the device, for both ways to stop. Returns how often it was cut.
fn cut_everywhere(plan: &Plan, every: usize) -> u64 {
    let whole = run(plan, Some((u64::MAX, Crash::PowerCut)));
    let whole = whole.unwrap_or_else(|error| panic!("{error}\n{}", plan.to_text()));
    assert_eq!(whole.crashes, 0);
    let mut cuts = 0;
    let mut step = 1;
    loop {
        let mut reached = false;
        for crash in [Crash::PowerCut, Crash::Kill] {
            let tally = run(plan, Some((step, crash)))
                .unwrap_or_else(|error| panic!("{crash:?} at {step}: {error}\n{}", plan.to_text()));
            reached |= tally.crashes > 0;
            cuts += tally.crashes;
        }
        if !reached {
            return cuts;
        }
        step += every as u64;
    }
}

fn plan_of(seed: u64, level: u32, lines: &str) -> Plan {
    let config = format!(
        "config seed={seed} device=doubles keys=40 memory=65536 checkpoint=1073741824 segment=4096 sync_ms=3600000 level={level}"
    );
    Plan::parse(&format!("{config}\n{lines}")).unwrap()
}

#[test]
fn random_work_survives_a_crash_at_every_write() {
    let first = entropy::seed();
    println!("DURAMEN_SEED={first}");
    let mut cuts = 0;
    for (number, seed) in (first..).take(4).enumerate() {
        let mut plan = Plan::random(seed, Device::Doubles, 260);
        // The crash is the test's, and the plan's own would only come in its way.
        plan.steps.retain(|step: &Step| {
            !matches!(step.name(), "power-cut" | "kill" | "stop-in" | "reopen" | "snapshot" | "verify")
        });
        (plan.segment_bytes, plan.sync_every_ms) = ([4096, 16384][number % 2], 3_600_000);
        cuts += cut_everywhere(&plan, 3);
    }
    println!("{cuts} cuts");
    assert!(cuts > 100, "{cuts}");
}

#[test]
fn a_small_life_survives_a_crash_at_every_write_at_every_level() {
    let seed = entropy::seed();
    println!("DURAMEN_SEED={seed}");
    for level in 0..3 {
        let lines = format!(
            "put 0 0 1 17 {level}\nput-many 0 0 2 9 500 {level}\nfork 0 1 0\nput 1 0 3 49 {level}\nput 0 0 4 98 {level}\n\
             checkpoint\ncell-set 1 0 5 18 {level}\nbegin 0 1 {level}\ntx-put 0 0 6 31\ntx-cell-set 0 1 7 32\n\
             tx-delete 0 0 3\ncommit 0\nfork 1 2 0\nput 2 0 1 48 {level}\nreset 1\nput 1 0 8 20 {level}\ncheckpoint\n\
             delete-branch 1\nput 2 0 9 99 {level}\ncreate 3\nprotect 3 0\nput-many 3 0 1 20 148 {level}\ncompact\n\
             delete-many 0 0 2 9 {level}\nsync\nput 0 0 1 19 {level}\n"
        );
        let cuts = cut_everywhere(&plan_of(seed, level, &lines), 1);
        println!("{level}: {cuts} cuts");
        assert!(cuts > 60, "{cuts}");
    }
}

/// A store on doubles, and the doubles.
struct Machine {
    nodes: Arc<CrashNodeStore>,
    log: Arc<CrashLog>,
    script: CrashScript,
}

impl Machine {
    fn new(script: CrashScript) -> Self {
        Self {
            nodes: Arc::new(CrashNodeStore::new(script.clone())),
            log: Arc::new(CrashLog::new(script.clone())),
            script,
        }
    }

    fn open(&self) -> Result<Store, StoreError> {
        let options = Options {
            sync_every: Duration::from_secs(3600),
            checkpoint_log_bytes: 1 << 40,
            segment_bytes: 4096,
            ..Options::default()
        };
        Store::open_parts(self.nodes.clone(), self.log.clone(), options)
    }

    /// The machine after the power was cut and came back.
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

fn large(fill: u8) -> Value {
    Value::Bytes(vec![fill; 9 << 20])
}

/// Puts four large values in one commit: it is cut into parts, none of which may be seen without the others.
fn put_large(store: &Store, fill: u8) -> Result<(), StoreError> {
    let main = store.branch("main")?.with_durability(Durability::Strict);
    main.kv().put_many((0..4).map(|i| (format!("large {i}"), large(fill)))).map(drop)
}

fn large_found(store: &Store) -> Option<u8> {
    let kv = store.branch("main").unwrap();
    let found = kv.kv().get_many((0..4).map(|i| format!("large {i}"))).unwrap();
    let fills: Vec<_> = found.iter().map(|value| value.as_ref().map(|v| v.as_bytes().unwrap()[0])).collect();
    assert!(fills.windows(2).all(|pair| pair[0] == pair[1]), "a part of a commit is there: {fills:?}");
    for (value, fill) in found.iter().zip(&fills) {
        assert_eq!(*value, fill.map(large), "a value is damaged");
    }
    fills[0]
}

#[test]
fn a_commit_in_parts_is_there_or_it_is_not() {
    let seed = entropy::seed();
    println!("DURAMEN_SEED={seed}");
    let begin = |step: u64| {
        let machine = Machine::new(CrashScript::new(seed.wrapping_add(step)));
        let store = machine.open().unwrap();
        store.branch("main").unwrap().with_durability(Durability::Strict).kv().put("small", 1).unwrap();
        (machine, store)
    };
    let (machine, store) = begin(0);
    let before = machine.script.steps();
    put_large(&store, 1).unwrap();
    let steps = machine.script.steps() - before;
    drop((store, machine));
    let (mut lost, mut orphans) = (0, 0);
    // From the end, where parts are most likely left without their last; each takes some seconds, so not all.
    for step in (1..=steps).rev() {
        let (machine, store) = begin(step);
        let before = store.info().version;
        machine.script.stop_in(step);
        let is_done = put_large(&store, 1).is_ok();
        drop(store);
        let next = machine.restarted(seed);
        let store = next.open().unwrap_or_else(|error| panic!("step {step}: {error}"));
        let found = large_found(&store);
        assert!(found == Some(1) || (found.is_none() && !is_done), "step {step}: a strict commit is lost");
        lost += u64::from(found.is_none());
        if found.is_none() && store.info().version > before {
            // What the crash left of the commit must not get into the next one that is cut into parts.
            orphans += 1;
            if orphans == 2 {
                store.branch("main").unwrap().kv().put("between", 1).unwrap();
            }
            put_large(&store, 2).unwrap();
            next.script.stop_in(0);
            drop(store);
            let store = next.restarted(seed).open().unwrap_or_else(|error| panic!("step {step}: {error}"));
            assert_eq!(large_found(&store), Some(2), "step {step}");
        }
        if lost >= 2 && orphans > 0 {
            break;
        }
    }
    println!("lost {lost} times, {orphans} times with parts left");
    assert!(lost > 0, "the machine never stopped in the middle");
}

/// What a branch holds, key by key.
fn held(store: &Store, branch: &str) -> Vec<Pair> {
    store.branch(branch).unwrap().kv().range(.., usize::MAX).unwrap()
}

/// Does something to a store that is either all there after a crash or not at all, and cuts it at each of its steps.
fn all_or_nothing(prepare: impl Fn(&Store), change: impl Fn(&Store) -> Result<(), StoreError>) {
    let seed = entropy::seed();
    println!("DURAMEN_SEED={seed}");
    let (mut outcomes, mut right) = ([0; 2], None);
    // The whole first, for what it should come to.
    for step in std::iter::once(10_000).chain(1..) {
        let machine = Machine::new(CrashScript::new(seed.wrapping_add(step)));
        let store = machine.open().unwrap();
        prepare(&store);
        store.sync().unwrap();
        let before = held(&store, "main");
        machine.script.stop_in(step);
        let is_done = change(&store).and_then(|()| store.sync()).is_ok();
        if step == 10_000 {
            assert!(is_done);
            right = Some(held(&store, "main"));
            continue;
        }
        drop(store);
        let next = machine.restarted(seed);
        let store = next.open().unwrap_or_else(|error| panic!("step {step}: {error}"));
        let found = held(&store, "main");
        let is_there = Some(&found) == right.as_ref();
        assert!(is_there || (found == before && !is_done), "step {step}: a part is there, or it is lost");
        outcomes[usize::from(is_there)] += 1;
        // It goes on from either.
        if !is_there {
            change(&store).unwrap_or_else(|error| panic!("step {step}, once more: {error}"));
            assert_eq!(Some(held(&store, "main")), right, "step {step}, once more");
        }
        store.close().unwrap();
        drop(store);
        assert_eq!(Some(held(&next.restarted(seed).open().unwrap(), "main")), right, "step {step}, at last");
        if is_done {
            break;
        }
    }
    println!("not there, there: {outcomes:?}");
    assert!(outcomes[0] > 0 && outcomes[1] > 0, "{outcomes:?}");
}

#[test]
fn a_merge_is_there_or_it_is_not() {
    let prepare = |store: &Store| {
        let main = store.branch("main").unwrap();
        main.kv().put_many((0..300).map(|n| (format!("key {n:03}"), vec![1_u8; 60]))).unwrap();
        let side = store.fork("main", "side").unwrap();
        side.kv().put_many((0..300).step_by(3).map(|n| (format!("key {n:03}"), vec![2_u8; 90]))).unwrap();
        side.kv().delete_many((1..300).step_by(7).map(|n| format!("key {n:03}"))).unwrap();
        main.kv().put("mine", 1).unwrap();
    };
    all_or_nothing(prepare, |store| {
        let options = MergeOptions { strategy: duramen_store::Strategy::Theirs, ..MergeOptions::default() };
        store.merge("side", "main", options).map(drop)
    });
}

#[test]
fn a_bulk_load_is_there_or_it_is_not() {
    let prepare = |store: &Store| {
        let main = store.branch("main").unwrap();
        main.kv().put_many((0..300).map(|n| (format!("key {n:03}"), vec![1_u8; 60]))).unwrap();
        store.fork("main", "side").unwrap();
    };
    all_or_nothing(prepare, |store| {
        let pairs = (0..1000).map(|n| (format!("key {n:04}"), vec![3_u8; 100]));
        store.branch("main")?.bulk_load("default", pairs).map(drop)
    });
}

#[test]
fn crash_after_crash_loses_nothing_that_was_promised() {
    let first = entropy::seed();
    println!("DURAMEN_SEED={first}");
    for seed in (first..).take(12) {
        let mut rng = entropy::rng(seed);
        let mut plan = Plan::random(seed, Device::Doubles, 300);
        plan.sync_every_ms = [1, 3_600_000][rng.usize(..2)];
        // A fuse after every few steps, so that most lives are short.
        let template = Plan::random(seed, Device::Doubles, 0);
        let fuse = Plan::parse(&format!("{}stop-in 0 0\n", template.to_text())).unwrap().steps[0];
        for at in (0..plan.steps.len()).rev().step_by(9) {
            let mut step = fuse;
            (step.n[0], step.n[1]) = (rng.u32(1..25), rng.u32(..2));
            plan.steps.insert(at, step);
        }
        run(&plan, None).unwrap_or_else(|error| panic!("seed {seed}: {error}\n{}", plan.to_text()));
    }
}
