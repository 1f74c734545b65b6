//! Vector collections through the public interface, against a search that computes every score.

use std::collections::BTreeMap;

use duramen_store::filter::Filter;
use duramen_store::limits::KEY_BYTES_MAX;
use duramen_store::vector::{Match, Metric, SearchOptions, VectorError};
use duramen_store::{Branch, Scope, Store, StoreError};
use serde_json::{json, Value};

const METRICS: [Metric; 3] = [Metric::Cosine, Metric::Dot, Metric::Euclidean];

type Rows = BTreeMap<String, (Vec<f32>, Option<Value>)>;

fn brute(metric: Metric, rows: &Rows, query: &[f32], k: usize, filter: &Filter) -> Vec<(String, f64)> {
    let null = Value::Null;
    let mut all: Vec<_> = rows
        .iter()
        .filter(|(_, (_, metadata))| filter.matches(metadata.as_ref().unwrap_or(&null)))
        .map(|(key, (vector, _))| (key.clone(), metric.score(query, vector)))
        .collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    all.truncate(k);
    all
}

fn pairs(matches: Vec<Match>) -> Vec<(String, f64)> {
    matches.into_iter().map(|found| (found.key, found.score)).collect()
}

fn vector(rng: &mut fastrand::Rng, dimension: usize) -> Vec<f32> {
    // Coarse numbers, so that some scores are equal.
    (0..dimension).map(|_| (rng.i32(-8..9) as f32) / 4.0).collect()
}

fn random_row(rng: &mut fastrand::Rng, dimension: usize) -> (Vec<f32>, Option<Value>) {
    let tag = if rng.bool() { "a" } else { "b" };
    let metadata = (rng.u8(..4) > 0).then(|| json!({"n": rng.u32(0..10), "tag": tag}));
    (vector(rng, dimension), metadata)
}

fn check<S: Scope>(scope: &S, metric: Metric, rows: &Rows, rng: &mut fastrand::Rng, seed: u64) {
    let vectors = scope.vectors();
    let collection = vectors.collection("c");
    assert_eq!(collection.count().unwrap(), rows.len() as u64, "seed {seed}");
    let dimension = vectors.info("c").unwrap().dimension;
    for filter in ["", "n >= 5", "n != 3 and tag = a", "nothing = 1"] {
        let options = SearchOptions { filter: filter.parse().unwrap_or_default() };
        assert_eq!(options.filter.is_empty(), filter.is_empty());
        let k_max = if filter.is_empty() { rows.len() + 3 } else { 40 };
        for k in [1, 10, k_max] {
            let query = vector(rng, dimension);
            let found = pairs(collection.search(&query, k, &options).unwrap());
            let expected = brute(metric, rows, &query, k, &options.filter);
            assert_eq!(found, expected, "seed {seed}, {metric}, filter {filter:?}, k {k}");
        }
    }
}

fn put_some(branch: &Branch, rows: &mut Rows, dimension: usize, keys: u32, rng: &mut fastrand::Rng) {
    let new: Vec<_> =
        (0..keys / 2).map(|_| (format!("k{:05}", rng.u32(0..keys)), random_row(rng, dimension))).collect();
    let collection = branch.vectors().collection("c");
    let given = new.iter().map(|(key, (vector, metadata))| (key, vector, metadata.as_ref()));
    collection.upsert_many(given).unwrap();
    rows.extend(new);
}

#[test]
fn searches_are_exact_in_branches_forks_snapshots_and_transactions() {
    for (seed, metric) in (0..).zip(METRICS) {
        let mut rng = fastrand::Rng::with_seed(seed);
        let dimension = [3, 24, 129][seed as usize];
        let store = Store::memory();
        let main = store.branch("main").unwrap();
        main.vectors().create("c", dimension, metric).unwrap();
        // Neighbours, in whose leaves the collection begins and ends.
        for other in ["b", "d"] {
            main.vectors().create(other, 2, Metric::Dot).unwrap();
            main.vectors().collection(other).upsert("x", &[1e30, 1e30], None).unwrap();
        }
        main.kv().put("x", 1).unwrap();
        let mut rows = Rows::new();
        check(&main, metric, &rows, &mut rng, seed);
        for round in 0..3 {
            put_some(&main, &mut rows, dimension, 1200, &mut rng);
            check(&main, metric, &rows, &mut rng, seed);

            let fork = store.fork("main", &format!("fork{round}")).unwrap();
            let mut forked = rows.clone();
            let snapshot = main.snapshot().unwrap();
            put_some(&fork, &mut forked, dimension, 100, &mut rng);
            let gone: Vec<String> = forked.keys().filter(|_| rng.u8(..10) == 0).cloned().collect();
            assert_eq!(fork.vectors().collection("c").delete_many(&gone).unwrap(), gone.len() as u64);
            forked.retain(|key, _| !gone.contains(key));
            check(&fork, metric, &forked, &mut rng, seed);
            check(&main, metric, &rows, &mut rng, seed);

            let then = rows.clone();
            put_some(&main, &mut rows, dimension, 60, &mut rng);
            check(&snapshot, metric, &then, &mut rng, seed);
            check(&main, metric, &rows, &mut rng, seed);
            check(&fork, metric, &forked, &mut rng, seed);

            let tx = main.begin().unwrap();
            let mut own = rows.clone();
            for _ in 0..40 {
                let key = format!("k{:05}", rng.u32(0..1200));
                if rng.bool() {
                    let row = random_row(&mut rng, dimension);
                    tx.vectors().collection("c").upsert(&key, &row.0, row.1.as_ref()).unwrap();
                    own.insert(key, row);
                } else {
                    let existed = tx.vectors().collection("c").delete(&key).unwrap();
                    assert_eq!(existed, own.remove(&key).is_some());
                }
            }
            check(&tx, metric, &own, &mut rng, seed);
            check(&main, metric, &rows, &mut rng, seed);
            if round % 2 == 0 {
                tx.commit().unwrap();
                rows = own;
            } else {
                drop(tx);
            }
            check(&main, metric, &rows, &mut rng, seed);
        }
    }
}

#[test]
fn ties_come_in_the_order_of_keys_even_against_own_writes() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    main.vectors().create("c", 2, Metric::Cosine).unwrap();
    let collection = main.vectors().collection("c");
    collection.upsert_many(["b", "d", "f"].map(|key| (key, [1.0, 1.0], None))).unwrap();
    let tx = main.begin().unwrap();
    let own = tx.vectors().collection("c");
    own.upsert_many(["a", "c", "f"].map(|key| (key, [2.0, 2.0], None))).unwrap();
    let found = own.search(&[1.0, 1.0], 4, &SearchOptions::default()).unwrap();
    let keys: Vec<_> = found.iter().map(|found| found.key.as_str()).collect();
    assert_eq!(keys, ["a", "b", "c", "d"]);
}

#[test]
fn rows_can_be_read_listed_and_deleted() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    assert!(main.vectors().create("c", 2, Metric::Dot).unwrap());
    assert!(!main.vectors().create("c", 2, Metric::Dot).unwrap());
    let collection = main.vectors().collection("c");
    for key in ["a/1", "a/2", "a/3", "b/1"] {
        collection.upsert(key, &[0.25, -1.5], Some(&json!({"key": key}))).unwrap();
    }
    let record = collection.get("a/2").unwrap().unwrap();
    assert_eq!((record.vector, record.metadata), (vec![0.25, -1.5], Some(json!({"key": "a/2"}))));
    assert_eq!(collection.get("a").unwrap(), None);
    let page = collection.list("a/", None, 2).unwrap();
    assert_eq!((page.items, page.next.as_deref()), (vec!["a/1".into(), "a/2".into()], Some("a/2")));
    let page = collection.list("a/", Some("a/2"), 2).unwrap();
    assert_eq!((page.items, page.next), (vec!["a/3".to_owned()], None));
    assert!(collection.exists("b/1").unwrap());
    assert!(collection.delete("b/1").unwrap());
    assert!(!collection.delete("b/1").unwrap());
    assert!(!collection.exists("b/1").unwrap());
    assert_eq!(main.vectors().list().unwrap(), ["c"]);
    let info = main.vectors().info("c").unwrap();
    assert_eq!((info.dimension, info.metric, info.count), (2, Metric::Dot, 3));
    // Another space is another world.
    assert_eq!(main.space("other").unwrap().vectors().list().unwrap(), [""; 0]);
}

#[test]
fn names_that_begin_alike_are_different_collections() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    for (name, x) in [("a", 1.0), ("ab", 2.0), ("a\u{1}", 3.0)] {
        main.vectors().create(name, 1, Metric::Dot).unwrap();
        main.vectors().collection(name).upsert(name, &[x], None).unwrap();
    }
    for (name, x) in [("a", 1.0), ("ab", 2.0), ("a\u{1}", 3.0)] {
        let found = main.vectors().collection(name).search(&[1.0], 9, &SearchOptions::default()).unwrap();
        assert_eq!(pairs(found), [(name.to_owned(), x)]);
    }
    assert!(main.vectors().drop("a").unwrap());
    assert_eq!(main.vectors().list().unwrap(), ["a\u{1}", "ab"]);
    assert_eq!(main.vectors().collection("ab").count().unwrap(), 1);
}

#[test]
fn a_collection_made_again_has_nothing_of_the_old_one() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    let options = SearchOptions::default();
    let vectors = main.vectors();
    vectors.create("c", 3, Metric::Cosine).unwrap();
    let collection = vectors.collection("c");
    collection.upsert_many((0..500).map(|n| (format!("{n:04}"), [n as f32, 1.0, 0.0], None))).unwrap();
    assert_eq!(collection.search(&[0.0, 1.0, 0.0], 1, &options).unwrap()[0].key, "0000");
    let fork = store.fork("main", "fork").unwrap();
    assert!(vectors.drop("c").unwrap());
    assert!(!vectors.drop("c").unwrap());
    assert!(matches!(collection.count(), Err(StoreError::CollectionNotFound { .. })));
    vectors.create("c", 2, Metric::Euclidean).unwrap();
    assert_eq!(collection.count().unwrap(), 0);
    assert_eq!(collection.search(&[1.0, 2.0], 5, &options).unwrap(), []);
    collection.upsert("x", &[1.0, 2.0], None).unwrap();
    assert_eq!(pairs(collection.search(&[4.0, 6.0], 5, &options).unwrap()), [("x".to_owned(), -5.0)]);
    let old = collection.search(&[1.0, 2.0, 3.0], 5, &options);
    assert!(
        matches!(old, Err(StoreError::Vector(VectorError::DimensionMismatch { expected: 2, actual: 3 }))),
        "{old:?}"
    );
    // In one transaction, too: other metric and dimension over rows that are still in the leaves.
    fork.transact(|tx| {
        tx.vectors().drop("c")?;
        tx.vectors().create("c", 1, Metric::Dot)?;
        let collection = tx.vectors().collection("c");
        collection.upsert("0007", &[2.0], None)?;
        assert_eq!(collection.count()?, 1);
        Ok(())
    })
    .unwrap();
    let found = fork.vectors().collection("c").search(&[2.0], 5, &options).unwrap();
    assert_eq!(pairs(found), [("0007".to_owned(), 4.0)]);
}

#[test]
fn what_a_lost_race_left_behind_is_not_in_a_new_collection() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    main.vectors().create("c", 3, Metric::Cosine).unwrap();
    let tx = main.begin().unwrap();
    main.vectors().collection("c").upsert("late", &[1.0, 2.0, 3.0], None).unwrap();
    tx.vectors().drop("c").unwrap();
    tx.commit().unwrap();
    main.vectors().create("c", 2, Metric::Dot).unwrap();
    assert_eq!(main.vectors().collection("c").count().unwrap(), 0);
    assert_eq!(main.vectors().collection("c").search(&[1.0, 1.0], 1, &SearchOptions::default()).unwrap(), []);
}

/// A vector of another dimension would be among those of the new collection otherwise.
#[test]
fn a_vector_does_not_outlive_its_collection() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    main.vectors().create("points", 2, Metric::Euclidean).unwrap();
    let tx = main.begin().unwrap();
    tx.vectors().collection("points").upsert("a", &[1.0, 2.0], None).unwrap();
    main.vectors().drop("points").unwrap();
    main.vectors().create("points", 3, Metric::Euclidean).unwrap();
    assert!(matches!(tx.commit(), Err(StoreError::TransactionConflict { .. })));
    assert_eq!(main.vectors().collection("points").count().unwrap(), 0);
}

#[test]
fn a_dropped_collection_can_be_searched_anew_in_the_transaction_that_dropped_it() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    main.vectors().create("c", 3, Metric::Cosine).unwrap();
    main.vectors().collection("c").upsert("old", &[1.0, 2.0, 3.0], None).unwrap();
    let tx = main.begin().unwrap();
    tx.vectors().drop("c").unwrap();
    tx.vectors().create("c", 2, Metric::Dot).unwrap();
    let collection = tx.vectors().collection("c");
    collection.upsert("new", &[1.0, 2.0], None).unwrap();
    let found = collection.search(&[1.0, 1.0], 5, &SearchOptions::default()).unwrap();
    assert_eq!(pairs(found), [("new".to_owned(), 3.0)]);
}

#[test]
fn bad_input_is_refused_and_changes_nothing() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    let vectors = main.vectors();
    for dimension in [0, 8193] {
        let error = vectors.create("c", dimension, Metric::Dot);
        assert!(
            matches!(error, Err(StoreError::Vector(VectorError::DimensionOutOfRange { .. }))),
            "{error:?}"
        );
    }
    for name in ["", "a\0b", &"x".repeat(257)] {
        vectors.create(name, 2, Metric::Dot).unwrap_err();
        vectors.collection(name).count().unwrap_err();
    }
    vectors.create("docs", 2, Metric::Dot).unwrap();
    for (dimension, metric) in [(3, Metric::Dot), (2, Metric::Cosine)] {
        let error = vectors.create("docs", dimension, metric);
        assert!(matches!(error, Err(StoreError::CollectionExists { dimension: 2, .. })), "{error:?}");
    }
    let docs = vectors.collection("docs");
    docs.upsert("a", &[1.0, 2.0], None).unwrap();
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let refused = |error: StoreError| {
            assert!(matches!(error, StoreError::Vector(VectorError::NotFinite { index: 1 })), "{error}");
        };
        refused(docs.upsert("a", &[0.0, bad], None).unwrap_err());
        refused(docs.upsert_many([("b", [0.0, 0.0], None), ("a", [0.0, bad], None)]).unwrap_err());
        refused(docs.search(&[0.0, bad], 1, &SearchOptions::default()).unwrap_err());
    }
    for wrong in [&[][..], &[1.0], &[1.0, 2.0, 3.0]] {
        docs.upsert("a", wrong, None).unwrap_err();
        docs.search(wrong, 1, &SearchOptions::default()).unwrap_err();
    }
    for key in ["", "a\0", &"x".repeat(KEY_BYTES_MAX + 1)] {
        docs.upsert(key, &[1.0, 2.0], None).unwrap_err();
        docs.get(key).unwrap_err();
    }
    let zero = docs.search(&[1.0, 2.0], 0, &SearchOptions::default());
    assert!(matches!(zero, Err(StoreError::Vector(VectorError::ZeroResults))), "{zero:?}");
    assert_eq!(docs.search(&[1.0, 2.0], usize::MAX, &SearchOptions::default()).unwrap().len(), 1);
    let deep = (0..101).fold(json!(1), |inner, _| json!([inner]));
    docs.upsert("a", &[1.0, 2.0], Some(&deep)).unwrap_err();
    let long = json!("x".repeat(1 << 20));
    assert!(matches!(docs.upsert("a", &[1.0, 2.0], Some(&long)), Err(StoreError::TooLarge { .. })));
    assert_eq!((docs.count().unwrap(), docs.get("a").unwrap().unwrap().vector), (1, vec![1.0, 2.0]));

    let unknown = vectors.collection("dosc");
    let errors = [
        unknown.count().unwrap_err(),
        unknown.get("a").unwrap_err(),
        unknown.exists("a").unwrap_err(),
        unknown.delete("a").unwrap_err(),
        unknown.list("", None, 1).unwrap_err(),
        unknown.upsert("a", &[1.0], None).unwrap_err(),
        unknown.search(&[1.0], 1, &SearchOptions::default()).unwrap_err(),
        vectors.info("dosc").unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, StoreError::CollectionNotFound { .. }), "{error}");
        assert_eq!(error.hint(), Some("docs"), "{error}");
    }
}

#[test]
fn vectors_survive_a_checkpoint_and_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let mut rng = fastrand::Rng::with_seed(5);
    let mut rows = Rows::new();
    {
        let store = Store::open(dir.path().join("store"), duramen_store::Options::default()).unwrap();
        let main = store.branch("main").unwrap();
        main.vectors().create("c", 40, Metric::Cosine).unwrap();
        put_some(&main, &mut rows, 40, 4000, &mut rng);
        check(&main, Metric::Cosine, &rows, &mut rng, 5);
        store.checkpoint().unwrap();
        put_some(&main, &mut rows, 40, 200, &mut rng);
        check(&main, Metric::Cosine, &rows, &mut rng, 5);
    }
    let store = Store::open(dir.path().join("store"), duramen_store::Options::default()).unwrap();
    check(&store.branch("main").unwrap(), Metric::Cosine, &rows, &mut rng, 5);
}

#[test]
fn searches_and_writes_in_several_threads_agree() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    main.vectors().create("c", 8, Metric::Dot).unwrap();
    let fill = |x: f32| (0..2000).map(move |n| (format!("{n:05}"), [x; 8], None));
    main.vectors().collection("c").upsert_many(fill(0.0)).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut last = 0.0;
                while last < 8.0 * 20.0 {
                    let found = main
                        .vectors()
                        .collection("c")
                        .search(&[1.0; 8], 3, &SearchOptions::default())
                        .unwrap();
                    // A commit is seen whole: all scores are equal, so the first keys win, and none goes back.
                    let keys: Vec<_> = found.iter().map(|found| found.key.as_str()).collect();
                    assert_eq!(keys, ["00000", "00001", "00002"]);
                    assert!(found[0].score >= last && found[2].score == found[0].score);
                    last = found[0].score;
                }
            });
        }
        for round in 1..=20u8 {
            main.vectors().collection("c").upsert_many(fill(f32::from(round))).unwrap();
        }
    });
}
