//! Pairs with a time to live: invariants X1 to X5 of `docs/design/store.md`.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Duration;

use duramen_base::{clock, entropy};
use duramen_store::index::{Index, Query};
use duramen_store::kv::Prefix;
use duramen_store::limits::TTL_MAX;
use duramen_store::{
    Branch, Decision, Keep, MergeOptions, Moment, Options, Part, Primitive, Rule, Scope, Store, StoreError,
    Strategy,
};

const HOUR: Duration = Duration::from_secs(3600);
const MOMENT: Duration = Duration::from_millis(1);

/// Until after what had a moment to live is over.
fn let_a_moment_pass() {
    std::thread::sleep(Duration::from_millis(3));
}

fn is_whole(store: &Store, context: &str) {
    let verified = store.verify(&mut |_| {}).unwrap();
    assert!(verified.is_whole(), "{context}: {verified:?}");
}

/// What a branch should hold: a number by key, and which write said that it ends some day. No number is written twice.
type Model = BTreeMap<String, (i64, Option<i64>)>;

/// X2: all ways of reading tell the same.
fn check<S: Scope>(scope: &S, model: &Model, context: &str) {
    let kv = scope.kv();
    let expected: Vec<(String, i64)> = model.iter().map(|(key, (value, _))| (key.clone(), *value)).collect();
    let found = |pairs: Vec<duramen_store::kv::Pair>| -> Vec<(String, i64)> {
        let text = |key: &[u8]| String::from_utf8(key.to_vec()).unwrap();
        pairs.into_iter().map(|(key, value)| (text(&key), value.as_i64().unwrap())).collect()
    };
    assert_eq!(found(kv.range(.., usize::MAX).unwrap()), expected, "{context}");
    let forwards: Vec<_> = kv.iter(..).unwrap().map(Result::unwrap).collect();
    assert_eq!(found(forwards), expected, "{context}");
    let mut backwards: Vec<_> = kv.iter(..).unwrap().rev().map(Result::unwrap).collect();
    backwards.reverse();
    assert_eq!(found(backwards), expected, "{context}");
    assert_eq!(kv.count("").unwrap(), expected.len() as u64, "{context}");
    let listed = kv.list("", None, usize::MAX).unwrap().items;
    assert!(listed.iter().zip(&expected).all(|(key, (name, _))| key == name), "{context}");
    assert_eq!(listed.len(), expected.len(), "{context}");
    for query in [Query::new("$ >= 0".parse().unwrap()), Query::new("$ >= 0".parse().unwrap()).order(["$"])] {
        let mut rows = found(kv.find(&query, usize::MAX).unwrap().rows);
        rows.sort();
        assert_eq!(rows, expected, "{context}");
    }
    for number in 0..KEYS {
        let key = format!("k{number}");
        let here = model.get(&key);
        assert_eq!(kv.get(&key).unwrap().and_then(|value| value.as_i64()), here.map(|(value, _)| *value));
        assert_eq!(kv.exists(&key).unwrap(), here.is_some(), "{context}: {key}");
        assert_eq!(
            kv.ttl(&key).unwrap().is_some(),
            here.is_some_and(|(_, ends)| ends.is_some()),
            "{context}: {key}"
        );
    }
}

const KEYS: u8 = 12;

/// Something on one branch, and on its model. What has a moment to live is over when it returns.
fn change<S: Scope>(scope: &S, model: &mut Model, random: &mut fastrand::Rng, value: i64) -> String {
    let kv = scope.kv();
    let key = format!("k{}", random.u8(..KEYS));
    let what = random.u8(..10);
    match what {
        0 | 1 => {
            kv.put(&key, value).unwrap();
            model.insert(key, (value, None));
        }
        2 | 3 => {
            kv.put_with_ttl(&key, value, HOUR).unwrap();
            model.insert(key, (value, Some(value)));
        }
        4 => {
            kv.put_with_ttl(&key, value, MOMENT).unwrap();
            model.remove(&key);
            let_a_moment_pass();
        }
        5 => {
            let ttl = if random.bool() { HOUR } else { MOMENT };
            assert_eq!(kv.expire(&key, ttl).unwrap(), model.contains_key(&key));
            match model.get_mut(&key).filter(|_| ttl == HOUR) {
                Some(here) => here.1 = Some(value),
                None => drop(model.remove(&key)),
            }
            let_a_moment_pass();
        }
        6 => {
            assert_eq!(kv.persist(&key).unwrap(), model.contains_key(&key));
            if let Some(here) = model.get_mut(&key) {
                here.1 = None;
            }
        }
        7 => {
            let before = model.get(&key).copied().unwrap_or((0, None));
            assert_eq!(kv.add(&key, 1).unwrap(), before.0 + 1);
            model.insert(key, (before.0 + 1, before.1));
        }
        8 => assert_eq!(kv.delete(&key).unwrap(), model.remove(&key).is_some()),
        _ => {
            let prefix = format!("k{}", random.u8(..2));
            let there = model.keys().filter(|key| key.starts_with(&prefix)).count() as u64;
            assert_eq!(kv.delete_range(Prefix(&prefix)).unwrap(), there);
            model.retain(|key, _| !key.starts_with(&prefix));
        }
    }
    format!("change {what}")
}

/// What a merge makes of two models that parted from a third, where the source wins.
fn merged(base: &Model, ours: &Model, theirs: &Model) -> Model {
    let mut result = ours.clone();
    for number in 0..KEYS {
        let key = format!("k{number}");
        if base.get(&key) != theirs.get(&key) {
            match theirs.get(&key) {
                Some(value) => result.insert(key, *value),
                None => result.remove(&key),
            };
        }
    }
    result
}

/// X1 to X4: random changes of two branches, with merges, resets, transactions, loads, snapshots, checkpoints and
/// reopening, against maps.
#[test]
fn what_ends_is_gone_and_nothing_else() {
    let seed = entropy::seed();
    for round in 0..12 {
        let mut random = entropy::rng(seed ^ round);
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(folder.path().join("store"), Options::default()).unwrap();
        if round % 2 == 0 {
            store.branch("main").unwrap().indexes().create("by", &Index::new(Primitive::Kv, ["$"])).unwrap();
        }
        store.fork("main", "fork").unwrap();
        let mut models = [Model::new(), Model::new()];
        // What both had alike; equal values on both sides would be told apart by when they end.
        let mut base = Model::new();
        let mut done = Vec::new();
        for number in 1..=120 {
            // Steps add less than a thousand to a number.
            let value = number * 1000;
            let at = random.usize(..2);
            let name = ["main", "fork"][at];
            let branch = store.branch(name).unwrap();
            match random.u8(..12) {
                0 => {
                    let options = MergeOptions { strategy: Strategy::Theirs, ..MergeOptions::default() };
                    store.merge("fork", "main", options).unwrap();
                    models[0] = merged(&base, &models[0], &models[1]);
                    base.clone_from(&models[1]);
                    done.push("merge".to_owned());
                }
                1 => {
                    store.reset_branch("fork").unwrap();
                    models[1] = models[0].clone();
                    base.clone_from(&models[0]);
                    done.push("reset".to_owned());
                }
                2 => {
                    let mut model = models[at].clone();
                    let before = branch.snapshot().unwrap();
                    check(&before, &models[at], "a snapshot");
                    let tx = branch.begin().unwrap();
                    for more in 0..3 {
                        // What had a moment to live stays in the eyes of a transaction that began before.
                        let (key, value) = (format!("k{}", random.u8(..KEYS)), value + 500 + more);
                        match random.bool() {
                            true => tx.kv().put_with_ttl(&key, value, HOUR).unwrap(),
                            false => tx.kv().put(&key, value).unwrap(),
                        }
                        let ends = tx.kv().ttl(&key).unwrap().map(|_| value);
                        model.insert(key, (value, ends));
                    }
                    check(&tx, &model, "a transaction");
                    match tx.commit() {
                        Ok(_) => models[at] = model,
                        // What is over was deleted meanwhile.
                        Err(StoreError::TransactionConflict { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                    done.push("transaction".to_owned());
                }
                3 if round % 2 == 1 => {
                    let pairs = [("k1", value), ("k3", value + 1), ("k5", value + 2)];
                    match branch.bulk_load("default", pairs) {
                        Ok(_) => models[at].extend(pairs.map(|(key, value)| (key.to_owned(), (value, None)))),
                        Err(StoreError::TransactionConflict { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                    done.push(format!("load {name}"));
                }
                4 => {
                    drop(branch);
                    drop(store);
                    store = Store::open(folder.path().join("store"), Options::default()).unwrap();
                    done.push("reopen".to_owned());
                }
                5 => {
                    store.checkpoint().unwrap();
                    done.push("checkpoint".to_owned());
                }
                _ => done.push(format!("{name}: {}", change(&branch, &mut models[at], &mut random, value))),
            }
            let context = format!("seed {seed}, round {round}: {done:?}");
            for (name, model) in ["main", "fork"].iter().zip(&models) {
                check(&store.branch(name).unwrap(), model, &format!("{context}: {name}"));
            }
        }
        is_whole(&store, &format!("seed {seed}, round {round}: {done:?}"));
    }
}

/// The entries of a branch, hidden ones counted.
fn entries(branch: &Branch) -> u64 {
    branch.snapshot().unwrap().entries()
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let begin = clock::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// X3: what is over is deleted by commits, more than fit into one, and nothing is left of it.
#[test]
fn what_is_over_is_deleted_by_the_store_itself() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    main.kv().put("stays", 1).unwrap();
    let before = entries(&main);
    main.transact(|tx| {
        for number in 0..3000_u64 {
            tx.kv().put_with_ttl(number, "x", Duration::from_millis(20))?;
        }
        Ok(())
    })
    .unwrap();
    assert_eq!(entries(&main), before + 6000);
    let version = main.snapshot().unwrap().version();
    until("they are deleted", || entries(&main) == before);
    assert!(main.snapshot().unwrap().version() >= version + 6000, "by commits");
    is_whole(&store, "after that");
    // A branch that is not written is looked after, too, once it was looked at.
    let fork = main.fork("fork").unwrap();
    fork.kv().put_with_ttl("moment", 1, MOMENT).unwrap();
    let again = fork.fork("again").unwrap();
    assert_eq!(again.kv().get("moment").unwrap(), fork.kv().get("moment").unwrap());
    until("both are empty", || entries(&fork) == before && entries(&again) == before);
}

/// X3: a commit deletes what is over, so that a row that is hidden does not stand in the way of a unique index.
#[test]
fn what_is_over_is_in_nobodys_way() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    main.indexes().create("one", &Index::new(Primitive::Kv, ["$"]).unique()).unwrap();
    for number in 0..50 {
        main.kv().put_with_ttl(format!("session/{number}"), "alice", MOMENT).unwrap();
        let_a_moment_pass();
    }
    main.kv().put("session/last", "alice").unwrap();
    assert!(matches!(main.kv().put("other", "alice"), Err(StoreError::NotUnique { .. })));
    assert_eq!(main.kv().count("").unwrap(), 1);
    is_whole(&store, "unique");
}

/// X4: a snapshot and a state of the past have one time.
#[test]
fn a_moment_has_one_time() {
    let store = Store::memory();
    store.keep_history("main", Some(Keep::each_commit())).unwrap();
    let main = store.branch("main").unwrap();
    main.kv().put_with_ttl("session", 7, Duration::from_millis(200)).unwrap();
    let looked = main.snapshot().unwrap();
    let fresh = main.snapshot().unwrap();
    assert_eq!(looked.kv().get("session").unwrap(), Some(7.into()));
    let then = main.kv().put("other", 1).unwrap();
    std::thread::sleep(Duration::from_millis(250));
    assert_eq!(main.kv().get("session").unwrap(), None);
    assert_eq!(fresh.kv().get("session").unwrap(), None, "it was over at the first look");
    for _ in 0..2 {
        assert_eq!(looked.kv().get("session").unwrap(), Some(7.into()), "it was not at this one's");
        assert_eq!(looked.kv().count("").unwrap(), 1);
        let past = main.at(&Moment::Version(then)).unwrap();
        assert_eq!(past.kv().get("session").unwrap(), Some(7.into()));
        assert!(past.kv().ttl("session").unwrap().is_some());
        until("it is deleted", || entries(&main) == 1);
    }
    // Its history says when it was and that it is no more.
    let states = main.key_history(Primitive::Kv, "default", "session", 10).unwrap();
    let values: Vec<_> = states.iter().map(|state| state.value.clone()).collect();
    assert_eq!(values, [None, Some(7.into())]);
    // What is made of the past is over as well, unless it is made to stay.
    let fork = store.fork_at("main", &Moment::Version(then), "again").unwrap();
    assert_eq!(fork.kv().get("session").unwrap(), None);
}

/// X5: that somebody's time is over is no change that a side made.
#[test]
fn an_end_is_no_conflict() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    for key in ["renewed here", "renewed there", "left", "counted"] {
        main.kv().put_with_ttl(key, 10, Duration::from_millis(150)).unwrap();
    }
    let fork = main.fork("fork").unwrap();
    main.kv().expire("counted", HOUR).unwrap();
    fork.kv().expire("counted", HOUR * 2).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    // Whoever writes deletes what is over, too.
    main.kv().put("renewed here", 1).unwrap();
    fork.kv().put_with_ttl("renewed there", 2, HOUR).unwrap();
    main.kv().add("counted", -1).unwrap();
    fork.kv().add("counted", -1).unwrap();
    let rules = vec![Rule {
        part: Part { primitive: Some(Primitive::Kv), ..Part::default() },
        decision: Decision::Add,
    }];
    let report = store.merge("fork", "main", MergeOptions { rules, ..MergeOptions::default() }).unwrap();
    assert_eq!(report.conflicts.len(), 1, "{report:?}");
    assert_eq!(report.conflicts[0].key, "counted");
    assert_eq!(main.kv().get("counted").unwrap(), Some(8.into()));
    assert!(main.kv().ttl("counted").unwrap().is_some_and(|left| left <= HOUR), "as long as here");
    assert_eq!(main.kv().get("renewed here").unwrap(), Some(1.into()));
    assert_eq!(main.kv().get("renewed there").unwrap(), Some(2.into()));
    assert!(main.kv().ttl("renewed there").unwrap().is_some(), "a merge takes the time along");
    assert_eq!(main.kv().get("left").unwrap(), None);
    is_whole(&store, "merged");
}

/// X1, X3: a process that was killed, and one that only reads.
#[test]
fn ends_outlive_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    {
        let store = Store::open(&path, Options::default()).unwrap();
        let main = store.branch("main").unwrap();
        main.kv().put_with_ttl("soon", 1, Duration::from_millis(300)).unwrap();
        main.kv().put_with_ttl("later", 2, HOUR).unwrap();
        let follower = duramen_store::Follower::open(&path, Options::default()).unwrap();
        let there = follower.store().unwrap().branch("main").unwrap();
        assert_eq!(there.kv().get("later").unwrap(), Some(2.into()));
        assert!(there.kv().ttl("later").unwrap().is_some_and(|left| left <= HOUR));
    }
    std::thread::sleep(Duration::from_millis(350));
    let read_only = Options { read_only: true, ..Options::default() };
    {
        let store = Store::open(&path, read_only).unwrap();
        let main = store.branch("main").unwrap();
        assert_eq!(main.kv().get("soon").unwrap(), None, "hidden where nobody may delete it");
        assert_eq!(main.kv().count("").unwrap(), 1);
    }
    let store = Store::open(&path, Options::default()).unwrap();
    let main = store.branch("main").unwrap();
    assert_eq!(main.kv().get("soon").unwrap(), None);
    until("it is deleted", || entries(&main) == 2);
    is_whole(&store, "reopened");
    // A copy of a branch has what the branch had.
    let other = Store::memory();
    other.import_branch("copy", &main.snapshot().unwrap(), &mut |_| {}).unwrap();
    assert!(other.branch("copy").unwrap().kv().ttl("later").unwrap().is_some());
    is_whole(&other, "imported");
}

fn raw<S: Scope>(scope: &S, key: &[u8], value: Option<&[u8]>) {
    scope
        .write(|edit| match value {
            Some(value) => edit.put(key, &mut |out| out.extend_from_slice(value)),
            None => edit.delete(key),
        })
        .unwrap();
}

fn find_entry<S: Scope>(scope: &S, found: &mut Vec<u8>) {
    scope
        .read(|view| {
            view.scan(&duramen_tree::KeyRange::new(&[0x62], Some(&[0x63])), &mut |key, _, _| {
                *found = key.to_vec();
                ControlFlow::Continue(())
            })
        })
        .unwrap();
}

/// X1: what is taken in from elsewhere has its entries, and no others.
#[test]
fn what_is_imported_is_refused_if_its_ends_are_wrong() {
    let entry = |at: i64, key: &[u8]| [&[0x62], &at.to_be_bytes()[..], key].concat();
    let forged: &[&dyn Fn(&Branch)] = &[
        &|main| raw(main, &entry(5, b"\x10\0nobody"), Some(b"")),
        &|main| raw(main, b"\x62short", Some(b"")),
        &|main| raw(main, b"\x62", Some(b"")),
        &|main| {
            main.kv().put_with_ttl("a", 1, HOUR).unwrap();
            let mut found = Vec::new();
            find_entry(main, &mut found);
            raw(main, &found, None);
        },
    ];
    for (number, forge) in forged.iter().enumerate() {
        let store = Store::memory();
        let main = store.branch("main").unwrap();
        forge(&main);
        assert!(!store.verify(&mut |_| {}).unwrap().is_whole(), "{number}");
        let refused = Store::memory().import_branch("b", &main.snapshot().unwrap(), &mut |_| {});
        assert!(matches!(refused, Err(StoreError::Damaged(_))), "{number}: {refused:?}");
        // It is borne nevertheless.
        main.kv().put_with_ttl("more", 1, MOMENT).unwrap();
        let_a_moment_pass();
        main.kv().put("last", 1).unwrap();
        assert_eq!(main.kv().get("more").unwrap(), None);
    }
}

#[test]
fn a_time_to_live_has_limits() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    for ttl in [Duration::ZERO, TTL_MAX + Duration::from_millis(1), Duration::MAX] {
        assert!(matches!(main.kv().put_with_ttl("a", 1, ttl), Err(StoreError::InvalidInput { .. })));
        assert!(matches!(main.kv().expire("a", ttl), Err(StoreError::InvalidInput { .. })));
    }
    main.kv().put_with_ttl("a", 1, TTL_MAX).unwrap();
    assert!(main.kv().ttl("a").unwrap().is_some_and(|left| left > TTL_MAX / 2));
    // The longest key has room for its entry.
    main.kv().put_with_ttl(vec![7_u8; 8192], 1, HOUR).unwrap();
    is_whole(&store, "limits");
}

/// X2: what is hidden ends no iteration, however much of it there is.
#[test]
fn an_iteration_goes_on_behind_what_is_over() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    main.transact(|tx| {
        for number in 0..3000_u64 {
            tx.kv().put_with_ttl(number, "x".repeat(1000), Duration::from_millis(30))?;
        }
        tx.kv().put("first\0", 1)?;
        tx.kv().put(u64::MAX, 2).map(drop)
    })
    .unwrap();
    let held = main.snapshot().unwrap();
    std::thread::sleep(Duration::from_millis(40));
    let values = |backwards: bool| -> Vec<i64> {
        let pairs = held.kv().iter(..).unwrap();
        let value = |pair: Result<duramen_store::kv::Pair, StoreError>| pair.unwrap().1.as_i64().unwrap();
        match backwards {
            true => pairs.rev().map(value).collect(),
            false => pairs.map(value).collect(),
        }
    };
    assert_eq!((values(false), values(true)), (vec![1, 2], vec![2, 1]));
    let mut both = held.kv().iter(..).unwrap();
    assert_eq!(both.next_back().unwrap().unwrap().1, 2.into());
    assert_eq!(both.next().unwrap().unwrap().1, 1.into());
    assert!(both.next().is_none() && both.next_back().is_none());
}

/// A serialisable transaction that read a pair does not commit when that is over, which no version says.
#[test]
fn a_lease_that_is_over_is_not_relied_on() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    for read in [
        (|tx| Ok(tx.kv().get("lease")?.is_some()))
            as fn(&duramen_store::Transaction) -> Result<bool, StoreError>,
        |tx| Ok(tx.kv().range(.., 9)?.len() == 1),
        |tx| Ok(tx.kv().count("")? == 1),
        |tx| Ok(tx.kv().iter(..)?.count() == 1),
    ] {
        main.kv().delete_range(..).unwrap();
        main.kv().put_with_ttl("lease", 1, Duration::from_millis(60)).unwrap();
        let holder = main.begin_serialisable().unwrap();
        assert!(read(&holder).unwrap());
        holder.state().set("owner", "holder").unwrap();
        std::thread::sleep(Duration::from_millis(70));
        let conflict = holder.commit().unwrap_err();
        assert!(matches!(conflict, StoreError::TransactionConflict { .. }), "{conflict}");
        assert!(conflict.to_string().contains("over"), "{conflict}");
    }
    assert_eq!(main.state().count("").unwrap(), 0);
    // One that is not over is relied on, and a count does not depend on what ends in other spaces.
    main.kv().put_with_ttl("lease", 1, HOUR).unwrap();
    let holder = main.begin_serialisable().unwrap();
    assert_eq!(holder.kv().count("").unwrap(), 1);
    holder.state().set("owner", "holder").unwrap();
    main.space("other").unwrap().kv().put_with_ttl("session", 1, HOUR / 2).unwrap();
    holder.commit().unwrap();
}

/// X1: a commit that is refused leaves nothing that the store comes back to for ever.
#[test]
fn a_refused_pair_leaves_no_end() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    main.indexes().create("one", &Index::new(Primitive::Kv, ["$"]).unique()).unwrap();
    main.kv().put("taken", "alice").unwrap();
    assert!(main.kv().put_with_ttl("other", "alice", MOMENT).is_err());
    let before = main.snapshot().unwrap().version();
    std::thread::sleep(Duration::from_millis(1200));
    assert_eq!(main.snapshot().unwrap().version(), before);
    main.kv().put("third", "bob").unwrap();
    is_whole(&store, "after a refusal");
}
