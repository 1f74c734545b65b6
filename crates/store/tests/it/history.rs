//! History: states of branches that are retained, named, read, forked and forgotten. H1 to H8 are invariants of
//! `docs/design/store-history.md`.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use duramen_base::entropy;
use duramen_store::{
    Branch, Keep, MergeOptions, Moment, Options, Primitive, Scope, Snapshot, Store, StoreError,
};

fn pairs<S: Scope>(scope: &S) -> Pairs {
    let mut found = BTreeMap::new();
    let row = |key: &[u8], value: duramen_store::value::ValueRef<'_>| {
        found.insert(key.to_vec(), format!("{:?}", value.to_value().unwrap()));
        ControlFlow::Continue(())
    };
    scope.kv().scan(.., row).unwrap();
    found
}

fn colour(snapshot: &Snapshot) -> Option<String> {
    snapshot.kv().get("colour").unwrap().map(|value| value.as_str().unwrap().to_owned())
}

/// A copy of the files of a store, as a killed process leaves them.
fn image(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            image(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

#[test]
fn each_commit_can_be_read_and_forked_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), Options::default()).unwrap();
    let main = store.branch("main").unwrap();
    let before = main.kv().put("colour", "grey").unwrap();
    store.keep_history("main", Some(Keep::each_commit())).unwrap();
    let mut versions = Vec::new();
    for colour in ["green", "yellow", "red"] {
        versions.push((main.kv().put("colour", colour).unwrap(), colour));
        store.checkpoint().unwrap();
    }
    for (version, name) in &versions {
        let then = main.at(&Moment::Version(*version)).unwrap();
        assert_eq!((colour(&then).as_deref(), then.version()), (Some(*name), *version));
        let fork = store.fork_at("main", &Moment::Version(*version), &format!("was-{name}")).unwrap();
        assert_eq!(fork.kv().get("colour").unwrap(), Some((*name).into()));
        // Its merge compares with that state: nothing of what came later is taken back.
        fork.kv().put(*name, 1).unwrap();
        let report = store.merge(fork.name(), "main", MergeOptions::default()).unwrap();
        assert_eq!((report.written, report.conflicts.len()), (1, 0));
    }
    assert_eq!(main.kv().get("colour").unwrap(), Some("red".into()));
    let refused = main.at(&Moment::Version(before)).unwrap_err();
    assert!(matches!(refused, StoreError::NotRetained { oldest: Some(_), .. }), "{refused}");
    let future = main.at(&Moment::Version(u64::MAX)).unwrap_err();
    assert!(matches!(future, StoreError::InvalidInput { .. }), "{future}");
}

#[test]
fn a_reset_and_a_load_in_bulk_can_be_taken_back() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), Options::default()).unwrap();
    store.branch("main").unwrap().kv().put("colour", "grey").unwrap();
    let side = store.fork("main", "side").unwrap();
    store.keep_history("side", Some(Keep::each_commit())).unwrap();
    let green = side.kv().put("colour", "green").unwrap();
    let cell = side.state().init("c", 1).unwrap();
    store.reset_branch("side").unwrap();
    let reset = side.snapshot().unwrap().version();
    side.bulk_load("default", (0..5000).map(|number| (format!("{number:05}"), number))).unwrap();
    for _ in 0..2 {
        store.compact().unwrap();
        let then = side.at(&Moment::Version(cell)).unwrap();
        assert_eq!(
            (colour(&then).as_deref(), then.state().read("c").unwrap().unwrap().version),
            (Some("green"), cell)
        );
        assert_eq!(colour(&side.at(&Moment::Version(green)).unwrap()).as_deref(), Some("green"));
        let after = side.at(&Moment::Version(reset)).unwrap();
        assert_eq!((colour(&after).as_deref(), after.kv().count("").unwrap()), (Some("grey"), 1));
        assert_eq!(side.kv().count("").unwrap(), 5001);
        assert!(store.verify(&mut |_| ()).unwrap().is_whole());
    }
    let states = side.key_history(Primitive::Kv, "default", "colour", 10).unwrap();
    let values: Vec<_> = states.iter().map(|state| state.value.as_ref().unwrap().as_str().unwrap()).collect();
    assert_eq!(values, ["grey", "green"]);
}

#[test]
fn tags_name_states_and_keep_their_branch() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), Options::default()).unwrap();
    let main = store.branch("main").unwrap();
    let side = store.fork("main", "side").unwrap();
    side.kv().put("colour", "green").unwrap();
    let first = store.tag("side", "v1").unwrap();
    assert_eq!(store.tag("side", "first").unwrap(), first, "nothing changed: one state, two names");
    side.kv().put("colour", "red").unwrap();
    assert!(matches!(store.tag("side", "v1"), Err(StoreError::TagExists { .. })));
    for bad in ["", "1", "-x", "a b", "#"] {
        assert!(matches!(store.tag("side", bad), Err(StoreError::InvalidName { .. })), "{bad}");
    }
    assert!(matches!(store.delete_branch("side"), Err(StoreError::BranchProtected { .. })));
    store.close().unwrap();
    drop((store, main, side));

    let store = Store::open(folder.path(), Options::default()).unwrap();
    let side = store.branch("side").unwrap();
    assert_eq!(colour(&side.at(&Moment::Tag("v1".into())).unwrap()).as_deref(), Some("green"));
    store.delete_tag("side", "v1").unwrap();
    assert!(matches!(side.at(&Moment::Tag("v1".into())), Err(StoreError::TagNotFound { .. })));
    assert_eq!(colour(&side.at(&Moment::Version(first)).unwrap()).as_deref(), Some("green"));
    store.delete_tag("side", "first").unwrap();
    assert!(side.history().unwrap().states.is_empty());
    store.delete_branch("side").unwrap();
}

#[test]
fn as_much_is_kept_as_was_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), Options::default()).unwrap();
    let main = store.branch("main").unwrap();
    for zero in [
        Keep::each_commit().versions(0),
        Keep::each_commit().age(Duration::ZERO),
        Keep::every(Duration::from_millis(999)),
    ] {
        assert!(matches!(store.keep_history("main", Some(zero)), Err(StoreError::InvalidInput { .. })));
    }
    store.keep_history("main", Some(Keep::each_commit().versions(16))).unwrap();
    main.kv().put("n", -1).unwrap();
    store.tag("main", "begin").unwrap();
    for number in 0..100 {
        main.kv().put("n", number).unwrap();
        let kept = main.history().unwrap().states;
        let free = kept.iter().filter(|state| state.tags.is_empty()).count();
        assert!(free <= 18 && free >= usize::min(16, number as usize), "{free} after {number}");
    }
    assert_eq!(main.at(&Moment::Tag("begin".into())).unwrap().kv().get("n").unwrap(), Some((-1).into()));
    store.keep_history("main", None).unwrap();
    assert_eq!(main.history().unwrap().states.len(), 1);
    main.kv().put("n", 1000).unwrap();
    assert_eq!(main.history().unwrap().states.len(), 1);
}

#[test]
fn the_clock_retains_and_forgets() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), Options::default()).unwrap();
    let main = store.branch("main").unwrap();
    let keep = Keep::every(Duration::from_secs(1)).age(Duration::from_secs(2));
    store.keep_history("main", Some(keep)).unwrap();
    let begin = duramen_base::clock::now();
    let mut most = 0;
    let mut number = 0;
    while begin.elapsed() < Duration::from_secs(7) {
        main.kv().put("n", number).unwrap();
        number += 1;
        let states = main.history().unwrap().states;
        most = most.max(states.len());
        std::thread::sleep(Duration::from_millis(20));
    }
    let states = main.history().unwrap().states;
    assert!(states.windows(2).all(|pair| pair[1].time_ms - pair[0].time_ms >= 900), "{states:?}");
    // Two seconds of states, and the one before them, which was the state when they began.
    assert!((2..=5).contains(&states.len()) && most <= 5, "{most}, {states:?}");
    let then = main.at(&Moment::Time(states[0].time_ms)).unwrap();
    assert_eq!(then.version(), states[0].version);
    assert!(matches!(main.at(&Moment::Time(states[0].time_ms - 1)), Err(StoreError::NotRetained { .. })));
    // Nothing changes any more: nothing is retained, and what was the state all the time is not forgotten.
    let begin = duramen_base::clock::now();
    while main.history().unwrap().states.len() > 1 {
        assert!(begin.elapsed() < Duration::from_secs(30));
        std::thread::sleep(Duration::from_millis(50));
    }
    std::thread::sleep(Duration::from_millis(1200));
    assert_eq!(main.history().unwrap().states.len(), 1);
}

#[test]
fn so_many_bytes_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), Options::default()).unwrap();
    let main = store.branch("main").unwrap();
    store.keep_history("main", Some(Keep::each_commit().bytes(1 << 20))).unwrap();
    let text = "x".repeat(100_000);
    for number in 0..40 {
        main.kv().put("n", format!("{number}{text}")).unwrap();
        store.checkpoint().unwrap();
    }
    let held = || main.history().unwrap().states.iter().map(|state| state.bytes.unwrap()).sum::<u64>();
    let begin = duramen_base::clock::now();
    while held() > 1 << 20 {
        assert!(begin.elapsed() < Duration::from_secs(10), "{} bytes", held());
        std::thread::sleep(Duration::from_millis(50));
    }
    let states = main.history().unwrap().states;
    assert!((8..=11).contains(&states.len()), "{}", states.len());
    for _ in 0..3 {
        store.compact().unwrap();
    }
    assert!(store.info().node_bytes < 2 << 20, "{}", store.info().node_bytes);
}

#[test]
fn a_key_tells_how_it_changed() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), Options::default()).unwrap();
    let main = store.branch("main").unwrap();
    store.keep_history("main", Some(Keep::each_commit())).unwrap();
    main.kv().put("other", 0).unwrap();
    let first = main.kv().put("k", 1).unwrap();
    for number in 0..5 {
        main.kv().put("other", number).unwrap();
    }
    let second = main.kv().put("k", 2).unwrap();
    main.kv().delete("k").unwrap();
    let gone = main.snapshot().unwrap().version();
    main.kv().put("other", 7).unwrap();
    let third = main.kv().put("k", 3).unwrap();
    let told = |limit| -> Vec<_> {
        let states = main.key_history(Primitive::Kv, "default", "k", limit).unwrap();
        states
            .into_iter()
            .map(|state| (state.version, state.value.map(|value| value.as_i64().unwrap())))
            .collect()
    };
    let all =
        [(Some(third), Some(3)), (Some(gone - 1), None), (Some(second), Some(2)), (Some(first), Some(1))];
    assert_eq!(told(10), all);
    assert_eq!(told(2), all[..2]);
    assert!(main.key_history(Primitive::Kv, "default", "never", 10).unwrap().is_empty());
    assert!(main.key_history(Primitive::Event, "default", "x", 10).is_err());
}

#[test]
fn a_branch_becomes_what_it_was_and_its_history_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), Options::default()).unwrap();
    let main = store.branch("main").unwrap();
    store.keep_history("main", Some(Keep::each_commit())).unwrap();
    main.kv().put("colour", "green").unwrap();
    let cell = main.state().init("c", 1).unwrap();
    main.json().set("d", "$", serde_json::json!({ "a": 1 })).unwrap();
    main.events().append("leaf", serde_json::json!({ "n": 1 })).unwrap();
    main.vectors().create("v", 2, duramen_store::vector::Metric::Cosine).unwrap();
    let then = store.tag("main", "then").unwrap();
    let pinned = main.snapshot().unwrap();
    main.kv().put("colour", "red").unwrap();
    let later = main.state().set("c", 2).unwrap();
    main.json().set("d", "$.b", serde_json::json!(2)).unwrap();
    main.events().append("leaf", serde_json::json!({ "n": 2 })).unwrap();
    main.vectors().collection("v").upsert("x", &[1.0, 0.0], None).unwrap();
    let report = main.revert_to(&Moment::Tag("then".into())).unwrap();
    let diff = pinned.diff(&main.snapshot().unwrap(), &Default::default(), 100).unwrap();
    assert_eq!(diff.added + diff.modified + diff.removed, 0, "{diff:?}");
    assert_eq!(main.events().len().unwrap(), 1);
    // S14: what the cell is now is no version that it had.
    let now = main.state().read("c").unwrap().unwrap().version;
    assert!(now > later && later > cell, "{now} {later} {cell}");
    assert!(main.state().cas("c", Some(later), 3).is_err());
    assert!(report.version.unwrap() > then);
    assert_eq!(
        colour(
            &main.at(&Moment::Version(report.version.unwrap() - report.written - report.deleted)).unwrap()
        )
        .as_deref(),
        Some("red")
    );
    let other = Store::memory();
    let foreign = other.branch("main").unwrap().snapshot().unwrap();
    assert!(store.apply_change(&foreign, &pinned, "main", MergeOptions::default()).is_err());
}

#[test]
fn a_state_that_is_forgotten_between_two_others_takes_nothing_of_theirs() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), Options::default()).unwrap();
    let main = store.branch("main").unwrap();
    let write = |from: u32, value: i64| {
        let rows = (from..from + 500).map(|number| (format!("{number:05}"), value)).collect::<Vec<_>>();
        main.kv().put_many(rows).unwrap();
    };
    // What changes after `b` was there at `a`, and is in both.
    (0..4).for_each(|part| write(part * 1000, 0));
    store.tag("main", "a").unwrap();
    write(0, 1);
    store.tag("main", "b").unwrap();
    store.checkpoint().unwrap();
    write(1000, 2);
    store.tag("main", "c").unwrap();
    write(2000, 3);
    let states = |tags: &[&str]| -> Vec<_> {
        tags.iter().map(|tag| pairs(&main.at(&Moment::Tag((*tag).into())).unwrap())).collect()
    };
    let before = states(&["a", "c"]);
    store.compact().unwrap();
    store.delete_tag("main", "b").unwrap();
    for _ in 0..3 {
        store.compact().unwrap();
    }
    assert_eq!(states(&["a", "c"]), before);
    assert!(store.verify(&mut |_| ()).unwrap().is_whole());
}

type Pairs = BTreeMap<Vec<u8>, String>;

#[test]
fn a_fork_of_the_past_is_merged_with_its_siblings_from_there() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    main.kv().put("k", 1).unwrap();
    store.tag("main", "then").unwrap();
    main.kv().put("k", 2).unwrap();
    let now = store.fork("main", "now").unwrap();
    store.fork_at("main", &Moment::Tag("then".into()), "past").unwrap().kv().put("own", 1).unwrap();
    let report = store.merge("past", "now", MergeOptions::default()).unwrap();
    assert_eq!((report.written, report.conflicts.len()), (1, 0));
    assert_eq!(now.kv().get("k").unwrap(), Some(2.into()), "what came later is not taken back");
}

#[test]
fn states_with_a_tag_do_not_count() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), Options::default()).unwrap();
    let main = store.branch("main").unwrap();
    let text = "x".repeat(100_000);
    main.kv().put_many((0..20).map(|number| (format!("{number}"), text.clone()))).unwrap();
    store.tag("main", "large").unwrap();
    main.kv().put_many((0..20).map(|number| (format!("{number}"), 0))).unwrap();
    store.keep_history("main", Some(Keep::each_commit().bytes(1 << 20))).unwrap();
    for number in 0..5 {
        main.kv().put("n", number).unwrap();
        store.checkpoint().unwrap();
    }
    let untagged = || main.history().unwrap().states.iter().filter(|state| state.tags.is_empty()).count();
    let begin = untagged();
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(untagged(), begin, "the tag holds more than a megabyte, and they do not");
    // Less is wanted: the rest goes at once.
    store.keep_history("main", Some(Keep::each_commit().versions(2))).unwrap();
    assert_eq!(untagged(), 2);
}

#[test]
fn the_last_version_is_the_present_whatever_was_retained() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    main.kv().put("colour", "green").unwrap();
    store.tag("main", "old").unwrap();
    let last = Moment::Version(main.kv().put("colour", "red").unwrap());
    assert_eq!(colour(&main.at(&last).unwrap()).as_deref(), Some("red"));
    let fork = store.fork_at("main", &last, "now").unwrap();
    assert_eq!(fork.kv().get("colour").unwrap(), Some("red".into()));
    let last = Moment::Version(store.info().version);
    store.tag_at("main", &last, "new").unwrap();
    assert_eq!(colour(&main.at(&Moment::Tag("new".into())).unwrap()).as_deref(), Some("red"));
    let future = Moment::Version(u64::MAX);
    assert!(matches!(store.fork_at("main", &future, "f"), Err(StoreError::InvalidInput { .. })));
    assert!(matches!(store.tag_at("main", &future, "f"), Err(StoreError::InvalidInput { .. })));
}

/// A store beside what it must hold: each branch, and each of its retained states by version.
struct Model {
    branches: BTreeMap<String, (Pairs, BTreeMap<u64, Pairs>)>,
}

impl Model {
    fn check(&self, store: &Store, seed: u64, step: usize) {
        let mut names: Vec<_> = store.branches(false).unwrap().into_iter().map(|info| info.name).collect();
        names.sort();
        assert!(names.iter().eq(self.branches.keys()), "seed {seed}, step {step}");
        for (name, (now, states)) in &self.branches {
            let branch = store.branch(name).unwrap();
            assert_eq!(&pairs(&branch), now, "seed {seed}, step {step}: {name}");
            let history = branch.history().unwrap();
            let versions: Vec<_> = history.states.iter().map(|state| state.version).collect();
            assert!(
                versions.iter().eq(states.keys()),
                "seed {seed}, step {step}: {name} {versions:?} {:?}",
                states.keys()
            );
            for (version, state) in states {
                let then = branch.at(&Moment::Version(*version)).unwrap();
                assert_eq!(&pairs(&then), state, "seed {seed}, step {step}: {name} at {version}");
            }
        }
        assert!(store.verify(&mut |_| ()).unwrap().is_whole(), "seed {seed}, step {step}");
    }
}

fn write(branch: &Branch, rng: &mut fastrand::Rng, model: &mut Pairs) {
    branch
        .transact(|transaction| {
            for _ in 0..rng.usize(1..40) {
                let key = format!("{:04}", rng.u32(0..600));
                if rng.u8(0..4) == 0 {
                    transaction.kv().delete(key.as_str())?;
                } else {
                    transaction.kv().put(key.as_str(), "x".repeat(rng.usize(1..200)))?;
                }
            }
            Ok(())
        })
        .unwrap();
    *model = pairs(branch);
}

/// H1 to H6, over kills and checkpoints: what is retained is what was, and nothing stays of what is not.
fn random_histories(seed: u64, steps: usize) {
    let mut rng = entropy::rng(seed);
    let folder = tempfile::tempdir().unwrap();
    let mut place = folder.path().join("0");
    let options = || Options { segment_bytes: 1 << 16, ..Options::default() };
    let mut store = Store::open(&place, options()).unwrap();
    let mut model = Model { branches: BTreeMap::from([("main".to_owned(), Default::default())]) };
    let mut tags = 0;
    for step in 0..steps {
        let names: Vec<_> = model.branches.keys().cloned().collect();
        let name = names[rng.usize(0..names.len())].clone();
        let branch = store.branch(&name).unwrap();
        match rng.u8(0..20) {
            0..=8 => {
                let (now, states) = model.branches.get_mut(&name).unwrap();
                let was = now.clone();
                write(&branch, &mut rng, now);
                let is_kept = branch.history().unwrap().keep.is_some();
                let newest = branch.history().unwrap().states.last().map(|state| state.version);
                if is_kept && (*now != was || newest != states.keys().last().copied()) {
                    states.insert(newest.unwrap(), now.clone());
                }
            }
            9 | 10 => {
                tags += 1;
                let version = store.tag(&name, &format!("t{tags}")).unwrap();
                let (now, states) = model.branches.get_mut(&name).unwrap();
                states.insert(version, now.clone());
            }
            11 | 12 => {
                let states = branch.history().unwrap().states;
                let Some(tag) = states.iter().flat_map(|state| &state.tags).nth(rng.usize(0..4)) else {
                    continue;
                };
                store.delete_tag(&name, tag).unwrap();
                let left: Vec<_> =
                    branch.history().unwrap().states.iter().map(|state| state.version).collect();
                model.branches.get_mut(&name).unwrap().1.retain(|version, _| left.contains(version));
            }
            13 => {
                let keep = [None, Some(Keep::each_commit()), Some(Keep::each_commit().versions(4))];
                store.keep_history(&name, keep[rng.usize(0..3)]).unwrap();
            }
            14 if names.len() < 5 => {
                let versions: Vec<_> = model.branches[&name].1.keys().copied().collect();
                if let Some(version) = versions.get(rng.usize(0..versions.len().max(1))) {
                    let fork = format!("fork{step}");
                    store.fork_at(&name, &Moment::Version(*version), &fork).unwrap();
                    let state = model.branches[&name].1[version].clone();
                    model.branches.insert(fork, (state, BTreeMap::new()));
                }
            }
            15 if name != "main" => match rng.bool() {
                true => {
                    for state in branch.history().unwrap().states {
                        state.tags.iter().for_each(|tag| store.delete_tag(&name, tag).unwrap());
                    }
                    store.delete_branch(&name).unwrap();
                    model.branches.remove(&name);
                    continue;
                }
                false => {
                    store.reset_branch(&name).unwrap();
                    model.branches.get_mut(&name).unwrap().0 = pairs(&branch);
                }
            },
            16 => {
                let from = rng.u32(0..1000);
                let rows = (from..from + 300).map(|number| (format!("b{number:05}"), number));
                branch.bulk_load("default", rows).unwrap();
                model.branches.get_mut(&name).unwrap().0 = pairs(&branch);
            }
            17 => store.checkpoint().unwrap(),
            18 => store.compact().unwrap(),
            _ => {
                let next = folder.path().join(format!("step-{step}"));
                drop(branch);
                if rng.bool() {
                    store.close().unwrap();
                } else {
                    store.sync().unwrap();
                }
                image(&place, &next);
                drop(store);
                store = Store::open(&next, options()).unwrap();
                std::fs::remove_dir_all(std::mem::replace(&mut place, next)).unwrap();
            }
        }
        // What a reset, a load or a limit did to the list is told by the store; what is in the list is checked.
        if let Some((now, states)) = model.branches.get_mut(&name) {
            let left = store.branch(&name).unwrap().history().unwrap().states;
            if let Some(newest) = left.last() {
                states.entry(newest.version).or_insert_with(|| now.clone());
            }
            states.retain(|version, _| left.iter().any(|state| state.version == *version));
        }
        if step % 10 == 9 {
            model.check(&store, seed, step);
        }
    }
    model.check(&store, seed, steps);
    // Nothing is left of what is not retained any more.
    for name in model.branches.keys().filter(|name| *name != "main") {
        let branch = store.branch(name).unwrap();
        for state in branch.history().unwrap().states {
            state.tags.iter().for_each(|tag| store.delete_tag(name, tag).unwrap());
        }
        store.delete_branch(name).unwrap();
    }
    let main = store.branch("main").unwrap();
    for state in main.history().unwrap().states {
        state.tags.iter().for_each(|tag| store.delete_tag("main", tag).unwrap());
    }
    store.keep_history("main", None).unwrap();
    let (now, _) = &model.branches["main"];
    assert_eq!(&pairs(&main), now, "seed {seed}");
    for _ in 0..3 {
        store.compact().unwrap();
    }
    let nodes = store.verify(&mut |_| ()).unwrap();
    let held = store.info().node_bytes;
    assert!(held <= nodes.bytes * 12 / 10 + (64 << 10), "seed {seed}: {held} for {} bytes", nodes.bytes);
}

/// For longer: `DURAMEN_SOAK_HISTORIES=300 cargo test -p duramen-store --test it -- history::retained`.
#[test]
fn retained_states_are_what_was_and_nothing_else_stays() {
    let soak = std::env::var("DURAMEN_SOAK_HISTORIES").ok();
    let seeds = soak.map_or(6, |seeds| seeds.parse().expect("a number of histories"));
    for seed in 0..seeds {
        random_histories(seed, 150);
    }
}
