//! Spaces are found and dropped, savepoints are gone back to, and values of programs come back.

use std::collections::BTreeMap;

use duramen_base::entropy;
use duramen_store::index::Index;
use duramen_store::{
    vector::Metric, MergeOptions, Part, Primitive, Scope, Store, StoreError, Strategy, Value,
};

#[test]
fn spaces_are_found_with_what_they_have_and_dropped_whole() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), Default::default()).unwrap();
    let main = store.branch("main").unwrap();
    assert!(main.spaces().unwrap().is_empty());
    // Names of which one begins as another.
    for name in ["a", "ab", "a-b", "default", "z"] {
        let space = main.space(name).unwrap();
        space.kv().put("k", name).unwrap();
        space.kv().put(&[0_u8, 255][..], 1).unwrap();
        if name != "a" {
            space.events().append("e", serde_json::json!({})).unwrap();
            space.json().set("d", "$", serde_json::json!(1)).unwrap();
            space.state().set("c", 1).unwrap();
            space.blobs().put("b", &b"blob"[..]).unwrap();
            space.vectors().create("v", 2, Metric::Cosine).unwrap();
            space.vectors().collection("v").upsert("x", &[1.0, 0.0], None).unwrap();
            space.indexes().create("i", &Index::new(Primitive::Json, ["$"])).unwrap();
        }
    }
    let names = || main.spaces().unwrap().into_iter().map(|space| space.name).collect::<Vec<_>>();
    assert_eq!(names(), ["a", "a-b", "ab", "default", "z"]);
    assert_eq!(main.spaces().unwrap()[0].kinds, [Primitive::Kv]);
    assert_eq!(main.spaces().unwrap()[1].kinds, Primitive::ALL);
    let before = main.fork("before").unwrap();
    assert!(main.drop_space("a-b").unwrap() > 5);
    assert_eq!(main.drop_space("a-b").unwrap(), 0);
    assert!(matches!(main.drop_space("A"), Err(StoreError::InvalidName { .. })));
    assert_eq!(names(), ["a", "ab", "default", "z"]);
    let diff = store.diff("before", "main", &Part::default(), 100).unwrap();
    assert!(diff.entries.iter().all(|entry| entry.space == "a-b"), "{diff:?}");
    assert_eq!(before.spaces().unwrap().len(), 5);
    main.drop_space("z").unwrap();
    // In a transaction, what was written is there.
    main.transact(|transaction| {
        transaction.space("new")?.kv().put("k", 1)?;
        let spaces: Vec<_> = transaction.spaces()?.into_iter().map(|space| space.name).collect();
        assert_eq!(spaces, ["a", "ab", "default", "new"]);
        Ok(())
    })
    .unwrap();
    assert_eq!(names(), ["a", "ab", "default", "new"]);
    assert!(store.verify(&mut |_| ()).unwrap().is_whole());
}

#[test]
fn a_log_that_one_side_took_back_is_not_gone_on_with_by_the_other() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    let events = |branch: &duramen_store::Branch| {
        branch.events().range(.., Default::default(), None, 100).unwrap().events
    };
    let append = |branch: &duramen_store::Branch, n: i64| {
        branch.events().append("e", serde_json::json!({ "n": n })).unwrap();
    };
    (0..3).for_each(|n| append(&main, n));
    let side = main.fork("side").unwrap();
    append(&side, 3);
    main.drop_space("default").unwrap();
    let refused = store.merge("side", "main", MergeOptions::default()).unwrap_err();
    assert!(matches!(refused, StoreError::MergeConflict { .. }), "{refused}");
    let theirs = MergeOptions { strategy: Strategy::Theirs, ..MergeOptions::default() };
    assert!(matches!(store.merge("side", "main", theirs), Err(StoreError::InvalidInput { .. })));
    let again = MergeOptions { resequence_events: true, ..MergeOptions::default() };
    store.merge("side", "main", again).unwrap();
    assert_eq!(events(&main).iter().map(|event| event.seq).collect::<Vec<_>>(), [0]);
    append(&main, 4);
    main.events().verify().unwrap();
    assert_eq!(main.events().len().unwrap(), 2);
    // A transaction that appended to what is dropped meanwhile does not commit.
    let transaction = main.begin().unwrap();
    transaction.events().append("e", serde_json::json!({ "n": 5 })).unwrap();
    main.drop_space("default").unwrap();
    assert!(matches!(transaction.commit(), Err(StoreError::TransactionConflict { .. })));
    append(&main, 6);
    main.events().verify().unwrap();
}

#[test]
fn savepoints_take_back_what_came_after_them() {
    for seed in 0..200 {
        let mut rng = entropy::rng(seed);
        let store = Store::memory();
        let main = store.branch("main").unwrap();
        main.kv().put_many((0..20).map(|number| (format!("{number}"), 0))).unwrap();
        let transaction = main.begin().unwrap();
        let mut now: BTreeMap<String, i64> = (0..20).map(|number| (number.to_string(), 0)).collect();
        let mut saved = Vec::new();
        let mut gone = Vec::new();
        for step in 0..100 {
            match rng.u8(0..10) {
                0 => saved.push((transaction.savepoint(), now.clone())),
                1 if !saved.is_empty() => {
                    let at = rng.usize(0..saved.len());
                    gone.extend(saved.split_off(at + 1).into_iter().map(|(savepoint, _)| savepoint));
                    transaction.rollback_to(saved[at].0).unwrap();
                    now = saved[at].1.clone();
                }
                2 => {
                    let key = rng.u8(0..30).to_string();
                    transaction.kv().delete(key.as_str()).unwrap();
                    now.remove(&key);
                }
                _ => {
                    let key = rng.u8(0..30).to_string();
                    transaction.kv().put(key.as_str(), step).unwrap();
                    now.insert(key, step);
                }
            }
            for key in 0..30 {
                let found = transaction.kv().get(key.to_string()).unwrap().and_then(|value| value.as_i64());
                assert_eq!(found, now.get(&key.to_string()).copied(), "seed {seed}, step {step}");
            }
        }
        for savepoint in gone {
            assert!(matches!(transaction.rollback_to(savepoint), Err(StoreError::InvalidInput { .. })));
        }
        transaction.commit().unwrap();
        let pairs = main.kv().range(.., 100).unwrap();
        let found: BTreeMap<_, _> =
            pairs.into_iter().map(|(key, value)| (key.to_string(), value.as_i64().unwrap())).collect();
        assert_eq!(found, now, "seed {seed}");
    }
}

#[test]
fn values_of_programs_come_back_or_are_refused() {
    #[derive(serde::Serialize, serde::Deserialize, PartialEq, Debug)]
    enum Shape {
        Point,
        Circle { radius: f64 },
        Many(Vec<Shape>),
    }
    let shape = Shape::Many(vec![Shape::Point, Shape::Circle { radius: 0.5 }]);
    assert_eq!(Value::from_serde(&shape).unwrap().to_serde::<Shape>().unwrap(), shape);
    assert!(Value::from_serde(&u64::MAX).is_err(), "it has no sign");
    assert!(Value::from_serde(&BTreeMap::from([(vec![1], 1)])).is_err(), "keys of JSON are texts");
    assert!(Value::from("round").to_serde::<Shape>().is_err());
}
