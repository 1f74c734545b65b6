//! Merges by rules: counters, sets, the last writer.

use std::collections::BTreeSet;

use duramen_base::entropy;
use duramen_store::{
    Decision, Equal, MergeOptions, MergeReport, Options, Part, Primitive, Rule, Scope, Store, StoreError,
    Strategy, Value,
};
use serde_json::json;

fn by(rules: &[&str]) -> MergeOptions<'static> {
    let rules = rules.iter().map(|rule| rule.parse().unwrap()).collect();
    MergeOptions { rules, ..MergeOptions::default() }
}

fn merge(store: &Store, from: &str, to: &str, rules: &[&str]) -> MergeReport {
    store.merge(from, to, by(rules)).unwrap()
}

/// What was added in a branch, by number of the addition: what a merge brings is what the other has and this has not.
type Added = BTreeSet<u64>;

/// However a branch and the one that it was forked from are merged, each has the sum of what was added in it and what was merged
/// into it, each once.
#[test]
fn counters_have_what_was_added_anywhere_once() {
    for seed in 0..12 {
        let mut rng = entropy::rng(seed);
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::open(dir.path(), Options::default()).unwrap();
        store.branch("main").unwrap().kv().add("n", 0).unwrap();
        store.fork("main", "work").unwrap();
        let (mut main, mut work): (Added, Added) = Default::default();
        let mut amounts = Vec::new();
        for step in 0..150_u64 {
            match rng.u8(..12) {
                0..=3 => {
                    main.insert(amounts.len() as u64);
                    amounts.push(rng.i64(-5..9));
                    store.branch("main").unwrap().kv().add("n", amounts[amounts.len() - 1]).unwrap();
                }
                4..=7 => {
                    work.insert(amounts.len() as u64);
                    amounts.push(rng.i64(-5..9));
                    store.branch("work").unwrap().kv().add("n", amounts[amounts.len() - 1]).unwrap();
                }
                8 => {
                    merge(&store, "work", "main", &["kv=add"]);
                    main.extend(&work);
                }
                9 => {
                    merge(&store, "main", "work", &["kv:default:n=add"]);
                    work.extend(&main);
                }
                10 => {
                    store.reset_branch("work").unwrap();
                    work = main.clone();
                }
                _ => {
                    store.close().unwrap();
                    drop(store);
                    store = Store::open(dir.path(), Options::default()).unwrap();
                }
            }
            for (branch, added) in [("main", &main), ("work", &work)] {
                let expected: i64 = added.iter().map(|at| amounts[*at as usize]).sum();
                let found = store.branch(branch).unwrap().kv().get("n").unwrap();
                assert_eq!(found, Some(expected.into()), "seed {seed}, step {step}, {branch}");
            }
        }
    }
}

#[test]
fn counters_are_added_only_where_that_is_remembered() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    main.kv().add("n", 10).unwrap();
    let (one, two) = (main.fork("one").unwrap(), main.fork("two").unwrap());
    for branch in [&main, &one, &two] {
        branch.kv().add("n", -1).unwrap();
    }
    let part = Part { primitive: Some(Primitive::Kv), ..Part::default() };
    let add = Rule { part: Part::default(), decision: Decision::Add };
    let options = MergeOptions { part, rules: vec![add], ..MergeOptions::default() };
    let error = store.merge("one", "main", options).unwrap_err();
    assert!(matches!(&error, StoreError::InvalidInput { what: "a rule", .. }), "{error}");
    let error = store.merge("one", "two", by(&["=add"])).unwrap_err();
    assert!(error.to_string().contains("forked from"), "{error}");
    assert_eq!(main.kv().get("n").unwrap(), Some(9.into()));
    merge(&store, "one", "main", &["=add"]);
    merge(&store, "one", "main", &["=add"]);
    merge(&store, "two", "main", &["=add"]);
    assert_eq!(main.kv().get("n").unwrap(), Some(7.into()));
}

/// A branch whose parent went has another one that it was not forked from: what they have in common is older than what it has of
/// both.
#[test]
fn counters_are_not_added_to_a_later_parent() {
    for ends in ["delete", "reset", "never merged"] {
        let store = Store::memory();
        let main = store.branch("main").unwrap();
        main.kv().add("n", 10).unwrap();
        let middle = main.fork("middle").unwrap();
        middle.kv().add("n", -1).unwrap();
        let (leaf, other) = (middle.fork("leaf").unwrap(), middle.fork("other").unwrap());
        if ends != "never merged" {
            merge(&store, "middle", "main", &["=add"]);
            assert_eq!(main.kv().get("n").unwrap(), Some(9.into()));
        }
        match ends {
            "reset" => store.reset_branch("middle").unwrap(),
            _ => store.delete_branch("middle").unwrap(),
        }
        for branch in [&leaf, &other] {
            branch.kv().add("n", -1).unwrap();
            let error = store.merge(branch.name(), "main", by(&["=add"])).unwrap_err();
            assert!(matches!(&error, StoreError::InvalidInput { what: "a rule", .. }), "{ends}: {error}");
        }
        // From a merge of everything on it is known what they have in common.
        let options = MergeOptions { strategy: Strategy::Theirs, ..MergeOptions::default() };
        store.merge("leaf", "main", options).unwrap();
        leaf.kv().add("n", 5).unwrap();
        main.kv().add("n", 7).unwrap();
        merge(&store, "leaf", "main", &["=add"]);
        assert_eq!(main.kv().get("n").unwrap(), Some((8 + 5 + 7).into()), "{ends}");
    }
}

/// What both sides agreed about is remembered as what was merged is.
#[test]
fn what_both_agreed_about_is_not_added_later() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    main.kv().put("n", 10).unwrap();
    let work = main.fork("work").unwrap();
    for branch in [&main, &work] {
        branch.kv().put("n", 9).unwrap();
    }
    let report = store.merge("work", "main", MergeOptions::default()).unwrap();
    assert_eq!((report.written, report.conflicts.len()), (0, 0));
    work.kv().add("n", -1).unwrap();
    merge(&store, "work", "main", &["=add"]);
    assert_eq!(main.kv().get("n").unwrap(), Some(8.into()));
}

/// A rule that adds makes no conflict of what is equal and no counter.
#[test]
fn what_is_equal_and_no_counter_is_agreed_about() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    main.kv().put_many([("title", Value::from("a")), ("gone", 1.into())]).unwrap();
    main.vectors().create("docs", 2, duramen_store::vector::Metric::Dot).unwrap();
    main.vectors().collection("docs").upsert("a", &[1.0, 0.0], None).unwrap();
    let work = main.fork("work").unwrap();
    for (branch, at) in [(&main, 2.0), (&work, 3.0)] {
        branch.kv().put("title", "b").unwrap();
        branch.kv().delete("gone").unwrap();
        branch.vectors().collection("docs").upsert("a", &[at, 0.0], None).unwrap();
    }
    // The row of the collection is decided by the prefix of its collection.
    let report = merge(&store, "work", "main", &["vector:default:docs=theirs", "kv=add"]);
    assert_eq!(report.conflicts.len(), 1);
    assert_eq!(main.vectors().collection("docs").get("a").unwrap().unwrap().vector, [3.0, 0.0]);
}

#[test]
fn what_is_no_counter_stays_a_conflict() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    let texts =
        [("int", 1.into()), ("text", Value::from("a")), ("gone", 1.into()), ("huge", (i64::MAX - 5).into())];
    main.kv().put_many(texts.clone()).unwrap();
    main.state().init("cell", 5).unwrap();
    main.kv().put("other", 1).unwrap();
    let work = main.fork("work").unwrap();
    main.kv()
        .put_many([("int", 2.into()), ("text", Value::from("b")), ("gone", 2.into()), ("new", 3.into())])
        .unwrap();
    work.kv().put_many([("int", 5.into()), ("text", Value::from("c")), ("new", 4.into())]).unwrap();
    work.kv().delete("gone").unwrap();
    for branch in [&main, &work] {
        branch.state().set("cell", 4).unwrap();
        branch.kv().put("other", 2).unwrap();
    }
    let rules = || by(&["kv:default:other=ours", "=add"]);
    let error = store.merge("work", "main", rules()).unwrap_err();
    assert!(matches!(error, StoreError::MergeConflict { count: 2, .. }), "{error}");
    let options = MergeOptions { strategy: Strategy::Theirs, equal: Some(Equal::Agree), ..rules() };
    store.merge("work", "main", options).unwrap();
    let found = |key: &str| main.kv().get(key).unwrap();
    assert_eq!((found("int"), found("new")), (Some(6.into()), Some(7.into())));
    assert_eq!((found("text"), found("gone")), (Some("c".into()), None));
    assert_eq!(found("other"), Some(2.into()), "by the first rule about it, both agree");
    assert_eq!(main.state().read("cell").unwrap().unwrap().value, 3.into());
    // A sum that has no place is no sum.
    let far = main.fork("far").unwrap();
    main.kv().add("huge", 4).unwrap();
    far.kv().add("huge", 4).unwrap();
    let error = store.merge("far", "main", by(&["=add"])).unwrap_err();
    assert!(error.to_string().contains("64 bits"), "{error}");
    let error = main.kv().add("huge", 4).unwrap_err();
    assert!(error.to_string().contains("64 bits"), "{error}");
    assert!(matches!(main.kv().add("text", 1).unwrap_err(), StoreError::WrongType { .. }));
}

#[test]
fn sets_and_the_last_writer() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    let list = |items: &[i64]| Value::Array(items.iter().map(|item| (*item).into()).collect());
    main.kv().put("tags", list(&[1, 2, 3])).unwrap();
    main.json().set("tags", "$", json!(["a", "b"])).unwrap();
    main.kv().put("name", "old").unwrap();
    let work = main.fork("work").unwrap();
    main.kv().put("tags", list(&[1, 3, 4, 5])).unwrap();
    work.kv().put("tags", list(&[2, 3, 5, 6])).unwrap();
    main.json().set("tags", "$", json!(["a", "b", "c"])).unwrap();
    work.json().set("tags", "$", json!(["b", "d"])).unwrap();
    main.kv().put("name", "first").unwrap();
    work.kv().put("name", "second").unwrap();
    work.kv().put("nick", "early").unwrap();
    main.kv().put("nick", "late").unwrap();
    let report = merge(&store, "work", "main", &["kv:default:tags=union", "json=union", "=latest"]);
    assert!(report.conflicts.iter().all(|conflict| conflict.resolved) && report.conflicts.len() == 4);
    assert_eq!(
        main.kv().get("tags").unwrap(),
        Some(list(&[3, 4, 5, 6])),
        "1 and 2 were each taken out by a side"
    );
    assert_eq!(main.json().get("tags", "$").unwrap().unwrap().to_value().unwrap(), json!(["b", "c", "d"]));
    assert_eq!(main.kv().get("name").unwrap(), Some("second".into()));
    assert_eq!(main.kv().get("nick").unwrap(), Some("late".into()));
}

#[test]
fn rules_are_text() {
    let rule: Rule = "kv:default:stock/a=b=add".parse().unwrap();
    let part = Part {
        primitive: Some(Primitive::Kv),
        space: Some("default".into()),
        prefix: Some("stock/a=b".into()),
    };
    assert_eq!(rule, Rule { part, decision: Decision::Add });
    let rule: Rule = "::a:b=latest".parse().unwrap();
    assert_eq!(rule.part, Part { prefix: Some("a:b".into()), ..Part::default() });
    assert_eq!("=union".parse::<Rule>().unwrap().part, Part::default());
    for text in ["", "add", "kv", "kv=newest", "pairs=add", "kv=", "=ADD"] {
        assert!(text.parse::<Rule>().is_err(), "{text}");
    }
}
