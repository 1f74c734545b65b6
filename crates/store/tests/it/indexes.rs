//! Indexes: invariants I2 to I8 of `docs/design/store-indexes.md`.

use std::collections::BTreeMap;

use duramen_base::entropy;
use duramen_store::filter::Filter;
use duramen_store::index::{Cursor, Index, Query};
use duramen_store::{
    Branch, Keep, MergeOptions, Moment, Options, Primitive, Scope, Snapshot, Store, StoreError, Strategy,
};
use serde_json::{json, Value};

type Rows = Vec<(String, Value)>;

fn filter(text: &str) -> Filter {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn all_documents<S: Scope>(scope: &S) -> Rows {
    let keys: Vec<String> = scope.json().list("", None, usize::MAX).unwrap().items;
    keys.into_iter()
        .map(|key| {
            let value = scope.json().get(&key, "").unwrap().expect("it is listed").to_value().unwrap();
            (key, value)
        })
        .collect()
}

/// The kind and the value of a field, in the order of queries. What the test asks for has no arrays.
fn rank(value: Option<&Value>) -> (u8, f64, String) {
    match value {
        None => (1, 0.0, String::new()),
        Some(Value::Null) => (2, 0.0, String::new()),
        Some(Value::Bool(yes)) => (3, f64::from(u8::from(*yes)), String::new()),
        Some(Value::Number(number)) => (4, number.as_f64().unwrap(), String::new()),
        Some(Value::String(text)) => (5, 0.0, text.clone()),
        Some(_) => unreachable!("no arrays"),
    }
}

/// What a query has to find, by a look at each row.
fn expected(mut rows: Rows, condition: &Filter, order: &[&str], prefix: &str, backwards: bool) -> Rows {
    rows.retain(|(key, value)| key.starts_with(prefix) && condition.matches(value));
    rows.sort_by(|(a_key, a), (b_key, b)| {
        let ranks = |value: &Value| order.iter().map(|field| rank(value.get(field))).collect::<Vec<_>>();
        ranks(a).partial_cmp(&ranks(b)).unwrap().then_with(|| a_key.cmp(b_key))
    });
    if backwards {
        rows.reverse();
    }
    rows
}

/// All pages of a query, each continued by the text of the last one's end.
fn pages<S: Scope>(scope: &S, query: &Query, limit: usize) -> Rows {
    let (mut rows, mut asked) = (Rows::new(), query.clone());
    loop {
        let found = scope.json().find(&asked, limit).unwrap();
        assert!(found.rows.len() <= limit);
        rows.extend(found.rows.into_iter().map(|(key, value)| (key, value.to_value().unwrap())));
        let Some(next) = found.next else { return rows };
        asked = query.clone().after(next.to_string().parse::<Cursor>().unwrap());
    }
}

const CONDITIONS: &[&str] = &[
    "",
    "n = 3",
    "n > 2 and n <= 7",
    "n >= 2.5 and n < 100 and s = \"b\"",
    "s = a",
    "s = a and n > 4",
    "s in [\"c\", \"a\", \"a\", 7]",
    "s = b and n in [1, 2.0, 3, null]",
    "s > a",
    "s != a",
    "ok = true",
    "ok = true and n < 5",
    "n = null",
    "n > null",
    "n > 7 and n < 3",
    "s = a and n = 3 and ok = true",
    "s contains \"b\"",
];

const ORDERS: &[&[&str]] = &[&[], &["n"], &["s"], &["s", "n"], &["n", "s"], &["ok"]];

fn check_queries<S: Scope>(scope: &S, random: &mut fastrand::Rng, context: &str) {
    let rows = all_documents(scope);
    for _ in 0..6 {
        let text = CONDITIONS[random.usize(..CONDITIONS.len())];
        let order = ORDERS[random.usize(..ORDERS.len())];
        let (prefix, backwards) = (["", "", "d1"][random.usize(..3)], random.bool());
        let condition = filter(text);
        let mut query = Query::new(condition.clone()).order(order.iter().copied()).prefix(prefix);
        if backwards {
            query = query.backwards();
        }
        let limit = [1, 3, 1000][random.usize(..3)];
        let plan = scope.json().explain(&query).unwrap();
        let wanted = expected(rows.clone(), &condition, order, prefix, backwards);
        let found = pages(scope, &query, limit);
        assert_eq!(
            found, wanted,
            "{context}: {text:?} by {order:?} after {prefix:?}, backwards {backwards}, {limit} at a time, by {plan}"
        );
    }
}

fn document(random: &mut fastrand::Rng) -> Value {
    let mut members = serde_json::Map::new();
    let n = [json!(null), json!(2.5), json!(-1), json!(true), json!("7")];
    match random.u8(..8) {
        0 => None,
        1 => members.insert("n".into(), n[random.usize(..n.len())].clone()),
        _ => members.insert("n".into(), json!(random.u8(..10))),
    };
    if random.u8(..6) > 0 {
        members.insert("s".into(), json!(["a", "b", "c", "ab", "a\0"][random.usize(..5)]));
    }
    if random.bool() {
        members.insert("ok".into(), json!(random.bool()));
    }
    members.into()
}

fn an_index(random: &mut fastrand::Rng) -> Index {
    let fields: &[&[&str]] = &[&["n"], &["s"], &["s", "n"], &["n", "s"], &["ok", "n"], &["s", "n", "ok"]];
    let index = Index::new(Primitive::Json, fields[random.usize(..fields.len())].iter().copied());
    match random.u8(..4) {
        0 => index.only(filter("ok = true")),
        _ => index,
    }
}

/// A change of documents or indexes at random.
fn change<S: Scope>(scope: &S, random: &mut fastrand::Rng) {
    let key = format!("d{}", random.u8(..30));
    match random.u8(..12) {
        0 => drop(scope.json().delete(&key, "").unwrap()),
        1 => drop(scope.json().delete(&key, "n").unwrap()),
        2 => drop(scope.json().set(&key, "n", json!(random.u8(..10))).unwrap()),
        3 => drop(scope.json().merge_patch(&key, &json!({"s": "b", "ok": null})).unwrap()),
        4 => {
            let name = format!("i{}", random.u8(..4));
            scope.indexes().drop(&name).unwrap();
            if random.u8(..3) > 0 {
                scope.indexes().create(&name, &an_index(random)).unwrap();
            }
        }
        5 => {
            let items: Vec<_> = (0..8).map(|n| (format!("d{n}"), "", document(random))).collect();
            scope.json().set_many(items).unwrap();
        }
        _ => drop(scope.json().set(&key, "", document(random)).unwrap()),
    }
}

fn is_whole(store: &Store, context: &str) {
    for branch in store.verify(&mut |_| {}).unwrap().branches {
        assert_eq!(branch.damage, None, "{context}: {}", branch.name);
    }
}

/// I2, I4, I5: through commits, transactions, forks, merges, resets, the past, and a store that is opened again, an index has
/// the entries of its rows and no others, and what is found is what a look at each row finds.
#[test]
fn what_is_found_is_what_a_look_at_each_row_finds() {
    let seed = entropy::seed();
    for round in 0..12 {
        let mut random = entropy::rng(seed ^ round);
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::open(dir.path(), Options::default()).unwrap();
        store.keep_history("main", Some(Keep::each_commit())).unwrap();
        let mut done = Vec::new();
        for step in 0..60 {
            let names: Vec<String> =
                store.branches(false).unwrap().into_iter().map(|info| info.name).collect();
            let name = &names[random.usize(..names.len())];
            let branch = store.branch(name).unwrap();
            let what = random.u8(..14);
            done.push((step, name.clone(), what));
            let context = format!("seed {seed}, round {round}: {done:?}");
            match what {
                0 if names.len() < 4 => drop(branch.fork(&format!("f{step}")).unwrap()),
                1 => {
                    let other = &names[random.usize(..names.len())];
                    if other != name {
                        let strategy = Strategy::Theirs;
                        let options = MergeOptions { strategy, ..MergeOptions::default() };
                        store
                            .merge(name, other, options)
                            .unwrap_or_else(|error| panic!("{context}: {error}"));
                    }
                }
                2 if name != "main" => store.reset_branch(name).unwrap(),
                3 => {
                    drop(branch);
                    drop(store);
                    store = Store::open(dir.path(), Options::default()).unwrap();
                }
                4 => store.checkpoint().unwrap(),
                5 => {
                    let states = store.branch("main").unwrap().history().unwrap().states;
                    if let Some(state) = states.get(random.usize(..states.len().max(1))) {
                        let past = store.branch("main").unwrap().at(&Moment::Version(state.version)).unwrap();
                        check_queries(&past, &mut random, &context);
                    }
                }
                6 | 7 => {
                    let committed = branch.transact(|transaction| {
                        for _ in 0..random.u8(1..6) {
                            change(transaction, &mut random);
                            check_queries(transaction, &mut random, &context);
                        }
                        Ok(())
                    });
                    committed.unwrap_or_else(|error| panic!("{context}: {error}"));
                }
                8 => drop(branch.drop_space("default").unwrap()),
                _ => change(&branch, &mut random),
            }
            let branch = store.branch(name).unwrap();
            check_queries(&branch, &mut random, &context);
            is_whole(&store, &context);
        }
    }
}

/// I3: of two rows with the same values in a unique index, the second is refused with nothing written, on every way by which
/// a row can come.
#[test]
fn a_unique_index_has_no_two_rows_with_the_same_values() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    main.indexes().create("u", &Index::new(Primitive::Json, ["a", "b"]).unique()).unwrap();
    let docs = main.json();
    docs.set("one", "", json!({"a": 1, "b": "x"})).unwrap();
    let version = docs.set("two", "", json!({"a": 1, "b": "y"})).unwrap();
    let refused = |done: Result<u64, StoreError>| match done {
        Err(StoreError::NotUnique { index, space, row, other }) => {
            assert_eq!((index.as_str(), space.as_str()), ("u", "default"));
            (row, other)
        }
        other => panic!("{other:?}"),
    };
    // By a put, at a path, by a patch, as another notation, and among several.
    assert_eq!(refused(docs.set("three", "", json!({"b": "y", "a": 1.0}))), ("three".into(), "two".into()));
    refused(docs.set("one", "b", json!("y")));
    refused(docs.merge_patch("one", &json!({"b": "y"})));
    let both = json!({"a": 5, "b": 5});
    refused(docs.set_many([("four", "", &both), ("five", "", &both)]));
    let transact = |write: &dyn Fn(&duramen_store::Transaction) -> Result<(), StoreError>| {
        main.transact(|transaction| write(transaction)).map(|()| 0)
    };
    refused(transact(&|transaction| transaction.json().set("six", "", json!({"a": 1, "b": "x"})).map(drop)));
    assert_eq!(all_documents(&main).len(), 2);
    assert_eq!(main.snapshot().unwrap().json().count("").unwrap(), 2);
    // Null and missing are no values that could be the same; what is taken back is free at once.
    docs.set_many([
        ("n1", "", json!({"a": 1})),
        ("n2", "", json!({"a": 1})),
        ("n3", "", json!({"a": 1, "b": null})),
    ])
    .unwrap();
    main.transact(|transaction| {
        transaction.json().delete("two", "")?;
        transaction.json().set("seven", "", json!({"a": 1, "b": "y"})).map(drop)
    })
    .unwrap();
    // Two that swap their values.
    docs.set_many([("one", "b", json!("y")), ("seven", "b", json!("x"))]).unwrap();
    assert!(main.snapshot().unwrap().json().get("one", "b").unwrap().is_some() && version > 0);
    // By a merge of two sides, each of which is right by itself.
    let fork = main.fork("side").unwrap();
    fork.json().set("eight", "", json!({"a": 9, "b": 9})).unwrap();
    docs.set("nine", "", json!({"a": 9, "b": 9})).unwrap();
    let merged = store.merge("side", "main", MergeOptions::default()).map(|_| 0);
    assert_eq!(refused(merged), ("eight".into(), "nine".into()));
    docs.delete("nine", "").unwrap();
    store.merge("side", "main", MergeOptions::default()).unwrap();
    // By an index that comes later, and by one that comes with a merge.
    main.kv().put_many([("k", 1), ("l", 1)]).unwrap();
    let values = Index::new(Primitive::Kv, ["$"]).unique();
    let late = main.indexes().create("u", &values).unwrap_err();
    assert!(matches!(late, StoreError::IndexExists { .. }), "{late}");
    assert!(matches!(main.indexes().create("v", &values), Err(StoreError::NotUnique { .. })));
    assert_eq!(main.indexes().list().unwrap().len(), 1);
    is_whole(&store, "at the end");
}

/// I6: threads that put the same value: one of them does.
#[test]
fn of_threads_that_put_the_same_value_one_does() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), Options::default()).unwrap();
    let main = store.branch("main").unwrap();
    main.indexes().create("u", &Index::new(Primitive::Kv, ["$"]).unique()).unwrap();
    let won: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let main = &main;
                scope.spawn(move || {
                    let put = |n: i64| match thread % 2 {
                        0 => main.kv().put(format!("t{thread}-{n}"), n).map(drop),
                        _ => main.transact(|it| it.kv().put(format!("t{thread}-{n}"), n)).map(drop),
                    };
                    (0..200).filter(|n| put(*n).is_ok()).count()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!((won, main.kv().count("").unwrap()), (200, 200));
    is_whole(&store, "after the threads");
}

fn plan_of<S: Scope>(scope: &S, text: &str, order: &[&str]) -> String {
    scope.json().explain(&Query::new(filter(text)).order(order.iter().copied())).unwrap().to_string()
}

/// The index that is chosen, and what is told of it.
#[test]
fn the_best_index_is_chosen_and_told() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    let json = |fields: &[&str]| Index::new(Primitive::Json, fields.iter().copied());
    main.indexes().create("n", &json(&["n"])).unwrap();
    main.indexes().create("s-n", &json(&["s", "n"])).unwrap();
    main.indexes().create("open", &json(&["n"]).only(filter("open = true"))).unwrap();
    main.indexes().create("pairs", &Index::new(Primitive::Kv, ["s"])).unwrap();
    let told = [
        ("", &[][..], "all rows, in its order"),
        ("t = 1", &[], "all rows, each held against t = 1, in its order"),
        ("t = 1", &["t"], "all rows, each held against t = 1, then sorted"),
        ("n = 1", &[], "index n for n = 1, in its order"),
        ("n > 1 and n < 5", &["n"], "index n for n > 1 and n < 5, in its order"),
        ("n > 1", &[], "index n for n > 1, then sorted"),
        ("", &["n"], "index n, in its order"),
        ("s = a", &["n"], "index s-n for s = \"a\", in its order"),
        ("s = a and n > 3", &["n"], "index s-n for s = \"a\" and n > 3, in its order"),
        ("s in [\"a\", \"b\"]", &["s", "n"], "index s-n for s in [\"a\",\"b\"], in its order"),
        ("s = a and t = 1", &[], "index s-n for s = \"a\", each held against t = 1, then sorted"),
        ("open = true and n = 1", &[], "index n for n = 1, each held against open = true, in its order"),
        ("s != a", &[], "all rows, each held against s != \"a\", in its order"),
    ];
    for (text, order, plan) in told {
        assert_eq!(plan_of(&main, text, order), plan, "{text} by {order:?}");
    }
    main.indexes().drop("n").unwrap();
    let partial = plan_of(&main, "open = true and n = 1", &[]);
    assert_eq!(partial, "index open for open = true and n = 1, in its order");
    assert_eq!(plan_of(&main, "n = 1", &[]), "all rows, each held against n = 1, in its order");
    // Another space has its own.
    let other = main.space("other").unwrap();
    assert_eq!(other.json().explain(&Query::default()).unwrap().index, None);
}

/// An index saves what it is for: rows that are not looked at.
#[test]
fn few_rows_are_looked_at_where_an_index_leads_to_them() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    let rows = (0..5000).map(|n| (format!("r{n:04}"), "", json!({"n": n, "half": n % 2})));
    main.json().set_many(rows).unwrap();
    let asked = Query::new(filter("n >= 1000")).order(["n"]);
    let all = main.json().find(&asked, 5).unwrap();
    assert_eq!(all.examined, 5000);
    main.indexes().create("n", &Index::new(Primitive::Json, ["n"])).unwrap();
    let found = main.json().find(&asked, 5).unwrap();
    assert_eq!((found.rows == all.rows, found.examined), (true, 6));
    let last = main.json().find(&asked.clone().backwards(), 5).unwrap();
    assert_eq!((last.rows[0].0.as_str(), last.examined), ("r4999", 6));
    let next = main.json().find(&asked.after(found.next.unwrap()), 5).unwrap();
    assert_eq!((next.rows[0].0.as_str(), next.examined), ("r1005", 6));
}

/// I7: what the declarations do when sides differ, and what the past has.
#[test]
fn declarations_are_merged_compared_and_kept_as_other_data_are() {
    let store = Store::memory();
    store.keep_history("main", Some(Keep::each_commit())).unwrap();
    let main = store.branch("main").unwrap();
    let before = main.json().set("a", "", json!({"n": 1})).unwrap();
    let fork = main.fork("side").unwrap();
    fork.indexes().create("n", &Index::new(Primitive::Json, ["n"])).unwrap();
    main.json().set("b", "", json!({"n": 2})).unwrap();
    let diff = store.diff("main", "side", &Default::default(), 10).unwrap();
    let shown: Vec<_> = diff.entries.iter().map(|it| (it.primitive, it.key.as_str())).collect();
    assert_eq!(shown, [(Primitive::Json, "b"), (Primitive::Index, "n")]);
    store.merge("side", "main", MergeOptions::default()).unwrap();
    assert_eq!(plan_of(&main, "n = 2", &[]), "index n for n = 2, in its order");
    assert_eq!(main.json().find(&Query::new(filter("n = 2")), 9).unwrap().rows.len(), 1);
    let past: Snapshot = main.at(&Moment::Version(before)).unwrap();
    assert!(past.indexes().list().unwrap().is_empty());
    // The same name for another thing on both sides.
    let third = main.fork("third").unwrap();
    for (branch, field) in [(&third, "x"), (&main, "y")] {
        branch.indexes().create("new", &Index::new(Primitive::Json, [field])).unwrap();
    }
    let refused = store.merge("third", "main", MergeOptions::default()).unwrap_err();
    assert!(matches!(refused, StoreError::MergeConflict { count: 1, .. }), "{refused}");
    let theirs = MergeOptions { strategy: Strategy::Theirs, ..MergeOptions::default() };
    store.merge("third", "main", theirs).unwrap();
    assert_eq!(main.indexes().get("new").unwrap().fields, ["x"]);
    is_whole(&store, "merged");
    // A branch that is handed to another store has its indexes there.
    let other = Store::memory();
    other.import_branch("copy", &main.snapshot().unwrap(), &mut |_| {}).unwrap();
    let copy = other.branch("copy").unwrap();
    assert_eq!(plan_of(&copy, "n = 2", &[]), "index n for n = 2, in its order");
    copy.json().set("c", "", json!({"n": 2})).unwrap();
    assert_eq!(copy.json().find(&Query::new(filter("n = 2")), 9).unwrap().rows.len(), 2);
    is_whole(&other, "copied");
}

/// I8: what an index could not hold is refused before anything is written, and by name.
#[test]
fn what_an_index_cannot_hold_is_refused_with_what_to_do() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    let json = |fields: &[&str]| Index::new(Primitive::Json, fields.iter().copied());
    let bad = [
        Index::new(Primitive::Event, ["a"]),
        json(&[]),
        json(&["a", "a"]),
        json(&["a", "b", "c", "d", "e", "f", "g", "h", "i"]),
        json(&[""]),
        json(&["a\0"]),
    ];
    for index in bad {
        assert!(main.indexes().create("i", &index).is_err(), "{index}");
    }
    assert!(main.indexes().create("", &json(&["a"])).is_err());
    assert!(main.indexes().create("i", &json(&["a"])).unwrap());
    assert!(!main.indexes().create("i", &json(&["a"])).unwrap());
    assert!(matches!(main.indexes().create("i", &json(&["b"])), Err(StoreError::IndexExists { .. })));
    main.json().set("fits", "", json!({"a": "x".repeat(4093)})).unwrap();
    let refused = main.json().set("k\u{7f}", "", json!({"a": "x".repeat(4094)})).unwrap_err().to_string();
    assert_eq!(
        refused,
        "a value is not allowed: what index \"i\" is of takes 4097 bytes in json default/k\\x7f, and 4096 are allowed; shorten \
         it, or drop the index"
    );
    assert_eq!(main.json().count("").unwrap(), 1);
    // The longest key and the longest name do fit.
    let (space, name, key) = ("s".repeat(64), "i".repeat(256), "k".repeat(8192));
    let far = main.space(&space).unwrap();
    far.indexes().create(&name, &json(&["a"])).unwrap();
    far.json().set(&key, "", json!({"a": "x".repeat(4093)})).unwrap();
    assert_eq!(far.json().find(&Query::new(filter("a > x")), 2).unwrap().rows[0].0, key);
    let missing = far.indexes().get("other").unwrap_err();
    assert!(matches!(missing, StoreError::IndexNotFound { .. }), "{missing}");
    // A load goes past the commits that write entries.
    main.indexes().create("pairs", &Index::new(Primitive::Kv, ["$"])).unwrap();
    let refused = main.bulk_load("default", [("a", 1)]).unwrap_err().to_string();
    assert!(refused.contains("index \"pairs\" is of pairs of space \"default\""), "{refused}");
    assert_eq!(main.bulk_load("free", [("a", 1)]).unwrap(), 1);
    main.kv().put("b", 2).unwrap();
    assert!("0".parse::<Cursor>().is_err() && "zz".parse::<Cursor>().is_err());
    is_whole(&store, "at the end");
}

/// Pairs by their values, whatever these are.
#[test]
fn pairs_are_found_by_their_values_and_members() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    let member = duramen_store::Value::from_json(&json!({"n": 5})).unwrap();
    main.kv().put_many([("a", 7.into()), ("b", member), ("c", "text".into())]).unwrap();
    main.kv().put("d", [0_u8, 255]).unwrap();
    let keys = |main: &Branch, text: &str| -> Vec<String> {
        let found = main.kv().find(&Query::new(filter(text)), 10).unwrap();
        found.rows.into_iter().map(|(key, _)| key.to_string()).collect()
    };
    let look =
        |main: &Branch| [keys(main, "$ = 7"), keys(main, "n >= 5"), keys(main, "$ = text"), keys(main, "")];
    let without = look(&main);
    assert_eq!(without[..3], [vec!["a".to_owned()], vec!["b".into()], vec!["c".into()]]);
    assert_eq!(without[3], ["a", "b", "c", "d"]);
    for field in ["$", "n"] {
        main.indexes().create(field, &Index::new(Primitive::Kv, [field])).unwrap();
    }
    assert_eq!(look(&main), without);
    let sorted = main.kv().find(&Query::default().order(["$"]), 10).unwrap();
    assert_eq!(sorted.rows.len(), 4);
    is_whole(&store, "at the end");
}

/// Numbers that JSON does not have stand in the way of no query and of no index.
#[test]
fn numbers_that_are_not_finite_are_null() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    main.kv().put_many([("a", f64::INFINITY), ("b", f64::NAN), ("c", 5.0)]).unwrap();
    let found = |text: &str| main.kv().find(&Query::new(filter(text)), 9).unwrap().rows.len();
    assert_eq!((found("$ = 5"), found("$ = null"), found("$ > 5")), (1, 2, 0));
    main.indexes().create("v", &Index::new(Primitive::Kv, ["$"]).unique()).unwrap();
    main.kv().put("d", f64::NEG_INFINITY).unwrap();
    assert_eq!((found("$ = 5"), found("$ = null"), found("$ > 5")), (1, 3, 0));
    is_whole(&store, "at the end");
}

/// Writes a key of the tree as nobody does but by damage, or a hand.
fn write<S: Scope>(scope: &S, key: &[u8], value: Option<&[u8]>) {
    let written = scope.write(|edit| match value {
        Some(value) => edit.put(key, &mut |out| out.extend_from_slice(value)),
        None => edit.delete(key),
    });
    written.map(|_| ()).unwrap();
}

fn entry(name: &str, values: &[u8], key: &str) -> Vec<u8> {
    [&[0x61, 0], name.as_bytes(), &[0], values, key.as_bytes()].concat()
}

/// What is told of a change of a branch that leaves an index wrong.
type Wrong<'w> = (&'static str, &'w dyn Fn(&Branch));

/// What is imported has the indexes that it says it has.
#[test]
fn what_is_imported_is_refused_if_its_indexes_are_wrong() {
    let number = |n: u8| [&[5][..], &(f64::from(n).to_bits() | 1 << 63).to_be_bytes(), &[0, 0]].concat();
    let wrongs: [Wrong<'_>; 4] = [
        ("has no entry of json default/a", &|main| write(main, &entry("n", &number(1), "a"), None)),
        ("has 3 entries of 2 rows", &|main| write(main, &entry("n", &number(9), "none"), Some(b""))),
        ("1 entries belong to no index", &|main| write(main, &entry("other", &number(9), "a"), Some(b""))),
        ("has no entry of json default/b", &|main| {
            write(main, &entry("n", &number(2), "b"), None);
            write(main, &entry("n", &number(1), "b"), Some(b""));
        }),
    ];
    for (told, wrong) in wrongs {
        let store = Store::memory();
        let main = store.branch("main").unwrap();
        main.indexes().create("n", &Index::new(Primitive::Json, ["n"]).unique()).unwrap();
        main.json().set_many([("a", "", json!({"n": 1})), ("b", "", json!({"n": 2}))]).unwrap();
        is_whole(&store, "before");
        wrong(&main);
        let damage = store.verify(&mut |_| {}).unwrap().branches[0].damage.clone().unwrap();
        assert!(damage.contains(told), "{damage}");
        let other = Store::memory();
        let refused =
            other.import_branch("copy", &main.snapshot().unwrap(), &mut |_| {}).unwrap_err().to_string();
        assert!(refused.contains(told), "{refused}");
        assert_eq!(other.branches(false).unwrap().len(), 1);
    }
}

/// A key that does not fit the log is refused, and the store goes on.
#[test]
fn a_key_that_is_too_long_for_the_log_is_refused() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    main.indexes().create("n", &Index::new(Primitive::Json, ["n"])).unwrap();
    fn put<S: Scope>(scope: &S, key: &[u8]) -> Result<(), StoreError> {
        let key = [&[0x40, 0], key].concat();
        scope.write(|edit| edit.put(&key, &mut |out| out.extend_from_slice(b"{}"))).map(|_| ())
    }
    let refused = put(&main, &[b'k'; 65_533]).unwrap_err();
    assert!(matches!(refused, StoreError::TooLarge { len: 65_538, .. }), "{refused}");
    assert!(put(&main, &[b'k'; 65_534]).is_err());
    put(&main, b"short").unwrap();
    is_whole(&store, "at the end");
}

/// Where the keys of rows decide, too, no more entries are read than are asked for.
#[test]
fn a_prefix_narrows_an_index_whose_fields_are_all_equal() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    main.indexes().create("s", &Index::new(Primitive::Json, ["s"])).unwrap();
    let rows = (0..2000).map(|n| (format!("r{n:04}"), "", json!({"s": "open"})));
    main.json().set_many(rows).unwrap();
    let asked = Query::new(filter("s = open")).prefix("r001");
    let found = main.json().find(&asked, 100).unwrap();
    assert_eq!((found.rows.len(), found.examined), (10, 10));
    let backwards = main.json().find(&asked.backwards(), 3).unwrap();
    assert_eq!((backwards.rows[0].0.as_str(), backwards.examined), ("r0019", 4));
    // A field that is equal says nothing in an order.
    let plan = plan_of(&main, "s = open", &["s"]);
    assert_eq!(plan, "index s for s = \"open\", in its order");
}

/// What is told in a transaction is what is done there.
#[test]
fn a_plan_in_a_transaction_is_what_is_done_there() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    main.indexes().create("n", &Index::new(Primitive::Json, ["n"])).unwrap();
    main.transact(|transaction| {
        assert_eq!(plan_of(transaction, "n = 1", &[]), "index n for n = 1, in its order");
        transaction.json().set("a", "", json!({"n": 1}))?;
        assert_eq!(plan_of(transaction, "n = 1", &[]), "index n for n = 1, then sorted");
        transaction.indexes().drop("n")?;
        transaction.indexes().create("n", &Index::new(Primitive::Json, ["n", "s"]))?;
        assert_eq!(plan_of(transaction, "n = 1", &[]), "all rows, each held against n = 1, in its order");
        Ok(())
    })
    .unwrap();
    assert_eq!(plan_of(&main, "n = 1", &["s"]), "index n for n = 1, in its order");
}

/// I2 holds for readers in another process, whose entries come by the log.
#[test]
fn a_follower_finds_what_the_writer_wrote() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), Options::default()).unwrap();
    let main = store.branch("main").unwrap();
    let follower = duramen_store::Follower::open(dir.path(), Options::default()).unwrap();
    main.indexes().create("n", &Index::new(Primitive::Json, ["n"])).unwrap();
    for n in 0..50 {
        main.json().set(&format!("d{n}"), "", json!({"n": n % 10})).unwrap();
    }
    store.checkpoint().unwrap();
    main.json().set("d0", "n", json!(7)).unwrap();
    let there = follower.branch("main").unwrap();
    assert_eq!(there.json().find(&Query::new(filter("n = 7")), 99).unwrap().rows.len(), 6);
    is_whole(&follower.store().unwrap(), "the follower");
}

#[test]
fn names_and_order_of_listings_are_those_of_the_indexes() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    for name in ["b", "a", "c"] {
        main.indexes().create(name, &Index::new(Primitive::Json, [name])).unwrap();
    }
    let listed: BTreeMap<String, Index> = main.indexes().list().unwrap().into_iter().collect();
    assert_eq!(listed.keys().collect::<Vec<_>>(), ["a", "b", "c"]);
    assert!(main.indexes().drop("b").unwrap() && !main.indexes().drop("b").unwrap());
    assert_eq!(main.spaces().unwrap()[0].kinds, [Primitive::Index]);
    assert_eq!(main.drop_space("default").unwrap(), 2);
    assert!(main.spaces().unwrap().is_empty());
}

/// A cursor is text from outside: whatever it is, no row comes that does not belong to the query, and nothing panics.
#[test]
fn a_cursor_of_anything_shows_no_other_rows() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    for name in ["d", "e"] {
        let space = main.space(name).unwrap();
        space.indexes().create("n", &Index::new(Primitive::Json, ["s", "n"])).unwrap();
        let rows = (0..20).map(|n| (format!("{name}{n}"), "", json!({"n": n % 5, "s": name})));
        space.json().set_many(rows).unwrap();
    }
    let mut random = entropy::rng(entropy::seed());
    for _ in 0..3000 {
        let bytes: Vec<u8> =
            (0..random.usize(..12)).map(|_| [0, 1, 5, 6, 255, random.u8(..)][random.usize(..6)]).collect();
        let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let order: &[&str] = [&["n"][..], &["s", "n"], &[], &["other"]][random.usize(..4)];
        let mut query = Query::new(filter("s = d and n > 1")).order(order.iter().copied());
        if random.bool() {
            query = query.backwards();
        }
        let space = main.space("d").unwrap();
        let found = space.json().find(&query.after(text.parse().unwrap()), 100).unwrap();
        assert!(found.rows.len() <= 12 && found.rows.iter().all(|(key, _)| key.starts_with('d')), "{text}");
    }
}
