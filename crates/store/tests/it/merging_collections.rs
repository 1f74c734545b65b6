//! Merges of vector collections that a side made anew with other dimensions, or deleted.

use duramen_store::vector::{Metric, SearchOptions};
use duramen_store::{Branch, Conflict, MergeOptions, Part, Resolution, Scope, Store, StoreError, Strategy};
use serde_json::json;

/// A collection of two dimensions on `main` that `fork` has too, with a row on both sides; then what each side does to it.
fn collections(ours: impl Fn(&Branch), theirs: impl Fn(&Branch)) -> Store {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    main.vectors().create("c", 2, Metric::Dot).unwrap();
    main.vectors().collection("c").upsert("both", &[1.0, 0.0], None).unwrap();
    let fork = store.fork("main", "fork").unwrap();
    ours(&main);
    theirs(&fork);
    store
}

fn put(key: &'static str, vector: &'static [f32]) -> impl Fn(&Branch) {
    move |branch| branch.vectors().collection("c").upsert(key, vector, None).map(drop).unwrap()
}

fn remake(branch: &Branch) {
    branch.vectors().drop("c").unwrap();
    branch.vectors().create("c", 3, Metric::Dot).unwrap();
    branch.vectors().collection("c").upsert("new", &[0.0, 0.0, 1.0], None).unwrap();
}

/// What the collection of `main` has: its dimensions, and every key that a search finds.
fn found(store: &Store) -> Option<(usize, Vec<String>)> {
    let main = store.branch("main").unwrap();
    let info = main.vectors().info("c").ok()?;
    let query = vec![1.0; info.dimension];
    let matches = main.vectors().collection("c").search(&query, 10, &SearchOptions::default()).unwrap();
    let mut keys: Vec<_> = matches.into_iter().map(|found| found.key).collect();
    keys.sort();
    assert_eq!(info.count, keys.len() as u64, "every row is found");
    Some((info.dimension, keys))
}

#[test]
fn a_collection_is_of_one_shape_after_every_merge() {
    let drop_it = |branch: &Branch| assert!(branch.vectors().drop("c").unwrap());
    type Side = Box<dyn Fn(&Branch)>;
    type Case = (&'static str, fn() -> Side, fn() -> Side);
    let cases: [Case; 5] = [
        ("remade here, a row there", || Box::new(remake), || Box::new(put("theirs", &[0.0, 1.0]))),
        ("a row here, remade there", || Box::new(put("ours", &[0.0, 1.0])), || Box::new(remake)),
        (
            "dropped here, a row there",
            || Box::new(|b| drop(b.vectors().drop("c"))),
            || Box::new(put("theirs", &[0.0, 1.0])),
        ),
        (
            "a row here, dropped there",
            || Box::new(put("ours", &[0.0, 1.0])),
            || Box::new(|b| drop(b.vectors().drop("c"))),
        ),
        ("a row here, remade and a row there", || Box::new(put("both", &[2.0, 2.0])), || Box::new(remake)),
    ];
    for (name, ours, theirs) in cases {
        let make = || collections(ours(), theirs());
        let store = make();
        let before = found(&store);
        let error = store.merge("fork", "main", MergeOptions::default()).expect_err(name);
        assert!(
            matches!(&error, StoreError::MergeConflict { count: 1, first } if first.ends_with("/c")),
            "{name}: {error}"
        );
        assert_eq!(found(&store), before, "{name}: nothing is written");
        let strategy = |strategy| MergeOptions { strategy, ..MergeOptions::default() };
        store.merge("fork", "main", strategy(Strategy::Ours)).expect(name);
        assert_eq!(found(&store), before, "{name}: ours");
        let store = make();
        store.merge("fork", "main", strategy(Strategy::Theirs)).expect(name);
        let diff = store.diff("main", "fork", &Part::default(), 10).unwrap();
        assert!(diff.entries.is_empty(), "{name}: theirs: {diff:?}");
        found(&store);
        let store = make();
        let mut all = |_: &Conflict| Resolution::Delete;
        let options = MergeOptions { resolver: Some(&mut all), ..MergeOptions::default() };
        store.merge("fork", "main", options).expect(name);
        assert_eq!(found(&store), None, "{name}: deleted");
    }
    // Where one side changed nothing of it, there is nothing to decide.
    let store = collections(|_| {}, remake);
    store.merge("fork", "main", MergeOptions::default()).unwrap();
    assert_eq!(found(&store), Some((3, vec!["new".to_owned()])));
    let store = collections(remake, |_| {});
    store.merge("fork", "main", MergeOptions::default()).unwrap();
    assert_eq!(found(&store), Some((3, vec!["new".to_owned()])));
    let store = collections(|_| {}, drop_it);
    store.merge("fork", "main", MergeOptions::default()).unwrap();
    assert_eq!(found(&store), None);
    // Both made one of that name for themselves.
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    let fork = store.fork("main", "fork").unwrap();
    remake_as(&main, 2);
    remake_as(&fork, 3);
    let dry = MergeOptions { dry_run: true, ..MergeOptions::default() };
    let report = store.merge("fork", "main", dry).unwrap();
    assert_eq!(report.conflicts.len(), 1);
    assert_eq!(report.conflicts[0].theirs, Some(json!({ "dimension": 3, "metric": "dot" })));
}

fn remake_as(branch: &Branch, dimension: usize) {
    branch.vectors().create("c", dimension, Metric::Dot).unwrap();
    branch.vectors().collection("c").upsert("x", &vec![1.0; dimension], None).unwrap();
}
