//! Conflicts that a merge keeps, and how they are settled.

use std::time::Duration;

use duramen_store::conflict::{ConflictId, OpenConflict, Settle};
use duramen_store::filter::Filter;
use duramen_store::index::{Index, Query};
use duramen_store::vector::Metric;
use duramen_store::{
    Branch, Follower, Keep, MergeOptions, MergeReport, Moment, Options, Part, Primitive, Rule, Scope, Store,
    StoreError, Strategy,
};
use serde_json::json;

pub(crate) fn keeping() -> MergeOptions<'static> {
    MergeOptions { strategy: Strategy::Keep, ..MergeOptions::default() }
}

pub(crate) fn keep(store: &Store, source: &str, target: &str) -> MergeReport {
    store.merge(source, target, keeping()).unwrap()
}

pub(crate) fn id(key: &str) -> ConflictId {
    ConflictId::new(Primitive::Kv, "default", key)
}

pub(crate) fn open<S: Scope>(scope: &S) -> Vec<OpenConflict> {
    let page = scope.conflicts().list(&Part::default(), None, usize::MAX).unwrap();
    assert_eq!(page.items.len() as u64, scope.conflicts().count(&Part::default()).unwrap());
    page.items
}

/// A pair that was 1, and is 2 in the main branch and 3 in the fork.
pub(crate) fn parted(store: &Store) -> (Branch, Branch) {
    let main = store.branch("main").unwrap();
    main.kv().put("a", 1).unwrap();
    let fork = store.fork("main", "fork").unwrap();
    main.kv().put("a", 2).unwrap();
    fork.kv().put("a", 3).unwrap();
    (main, fork)
}

/// Every kind that is kept, changed on both sides, in two spaces.
fn parted_in_every_kind(store: &Store) -> (Branch, Branch) {
    fn write(branch: &Branch, n: i64) {
        for space in ["default", "second"] {
            let space = branch.space(space).unwrap();
            space.kv().put("pair", n).unwrap();
            space.kv().put(&b"\xff\x01"[..], n).unwrap();
            space.state().set("cell", n).unwrap();
            space.json().set("doc", "", json!({ "n": n, "same": 0 })).unwrap();
            space.vectors().create("docs/en", 2, Metric::Dot).unwrap();
            space.vectors().collection("docs/en").upsert("v", &[n as f32, 0.5], None).unwrap();
        }
    }
    let main = store.branch("main").unwrap();
    write(&main, 1);
    let fork = store.fork("main", "fork").unwrap();
    write(&main, 2);
    write(&fork, 3);
    (main, fork)
}

fn sides(open: &OpenConflict) -> [Option<serde_json::Value>; 4] {
    [open.base.clone(), open.ours.clone(), open.theirs.clone(), open.now.clone()]
}

/// What every side should be of a conflict of `parted_in_every_kind`.
fn assert_every_kind(found: &[OpenConflict], source: &str) {
    assert_eq!(found.len(), 10);
    for open in found {
        let of = |n: i64| match open.id.primitive {
            Primitive::Kv => json!(n),
            Primitive::State => json!({ "writes": if n == 1 { 1 } else { 2 }, "value": n }),
            Primitive::Json => json!({ "n": n, "same": 0 }),
            _ => json!({ "vector": [n as f32, 0.5], "metadata": null }),
        };
        assert_eq!(sides(open), [1, 2, 3, 2].map(|n| Some(of(n))), "{open:?}");
        assert_eq!(open.source.as_deref(), Some(source));
        assert!(!open.changed && open.unreadable.is_none() && open.merged_ms > 0 && open.version > 0);
        let paths: &[&str] = if open.id.primitive == Primitive::Json { &["$.n"] } else { &[] };
        assert_eq!(open.paths, paths);
    }
}

/// K1, K2: each kind is kept; forks, followers, backups, retained states and another process have it.
#[test]
fn nothing_is_lost_of_any_kind_wherever_the_branch_goes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let options = Options { checkpoint_log_bytes: 1 << 14, ..Options::default() };
    let store = Store::open(&path, options.clone()).unwrap();
    let (main, fork) = parted_in_every_kind(&store);
    fork.kv().put("only theirs", 1).unwrap();
    let follower = Follower::open(&path, options.clone()).unwrap();
    store.keep_history("main", Some(Keep::each_commit())).unwrap();
    let report = keep(&store, "fork", "main");
    assert_eq!((report.kept, report.written, report.deleted, report.conflicts.len()), (10, 1, 0, 10));
    assert!(report.conflicts.iter().all(|conflict| conflict.kept && conflict.resolved));
    assert_eq!(main.kv().get("only theirs").unwrap(), Some(1.into()));
    assert_every_kind(&open(&main), "fork");
    assert!(open(&fork).is_empty());
    // They are no data that anybody sees.
    let diff = store.diff("main", "fork", &Part::default(), 100).unwrap();
    assert_eq!((diff.added, diff.removed, diff.modified), (0, 0, 10));
    assert_eq!(main.kv().count("").unwrap(), 3);
    assert_eq!(main.spaces().unwrap().len(), 2);

    store.fork("main", "again").unwrap();
    assert_every_kind(&open(&store.branch("again").unwrap()), "fork");
    // A reset takes over what the parent has, and lets go of what the branch had.
    store.reset_branch("fork").unwrap();
    assert_every_kind(&open(&fork), "fork");
    store.sync().unwrap();
    assert_every_kind(&open(&follower.branch("main").unwrap()), "fork");
    Store::backup(&path, folder.path().join("backup"), None, &mut |_, _| {}).unwrap();
    let kept = report.version.unwrap();
    main.conflicts().resolve_with(&Part::default(), &mut |_| Some(Settle::Theirs)).unwrap();
    assert!(open(&main).is_empty());
    assert_every_kind(&open(&main.at(&Moment::Version(kept)).unwrap()), "fork");
    assert!(store.verify(&mut |_| {}).unwrap().is_whole());
    drop((main, fork, follower, store));
    let store = Store::open(&path, options.clone()).unwrap();
    assert!(open(&store.branch("main").unwrap()).is_empty());
    assert_every_kind(&open(&store.branch("again").unwrap()), "fork");
    let backup = Store::open(folder.path().join("backup"), options).unwrap();
    assert_every_kind(&open(&backup.branch("main").unwrap()), "fork");
    // What is taken in by another store has them.
    let other = Store::memory();
    let snapshot = backup.branch("main").unwrap().snapshot().unwrap();
    other.import_branch("copy", &snapshot, &mut |_| {}).unwrap();
    assert_every_kind(&open(&other.branch("copy").unwrap()), "fork");
    assert!(other.verify(&mut |_| {}).unwrap().is_whole());
    let done = other.branch("copy").unwrap();
    let done = done.conflicts().resolve_with(&Part::default(), &mut |_| Some(Settle::Base)).unwrap();
    assert_eq!((done.settled, done.open), (10, 0));
}

/// K4: each way to settle does what it says to each kind, in one commit.
#[test]
fn each_kind_is_settled_in_each_way() {
    let value = |main: &Branch, primitive: Primitive| {
        let space = main.space("second").unwrap();
        match primitive {
            Primitive::Kv => space.kv().get("pair").unwrap().map(|value| value.as_i64().unwrap()),
            Primitive::State => space.state().read("cell").unwrap().map(|cell| cell.value.as_i64().unwrap()),
            Primitive::Json => {
                space.json().get("doc", "n").unwrap().map(|n| n.to_value().unwrap().as_i64().unwrap())
            }
            _ => {
                let found = space.vectors().collection("docs/en").get("v").unwrap();
                found.map(|found| found.vector[0] as i64)
            }
        }
    };
    let kinds = [
        (Primitive::Kv, "pair", json!(7)),
        (Primitive::State, "cell", json!(7)),
        (Primitive::Json, "doc", json!({ "n": 7 })),
        (Primitive::Vector, "docs/en/v", json!(7)),
    ];
    for (settle, expected) in [
        (Settle::Ours, Some(2)),
        (Settle::Theirs, Some(3)),
        (Settle::Base, Some(1)),
        (Settle::Now, Some(2)),
        (Settle::Delete, None),
        (Settle::Value(json!(7)), Some(7)),
    ] {
        let store = Store::memory();
        let (main, _) = parted_in_every_kind(&store);
        keep(&store, "fork", "main");
        store.keep_history("main", Some(Keep::each_commit())).unwrap();
        for (primitive, key, seven) in &kinds {
            let id = ConflictId::new(*primitive, "second", key);
            let settle = match &settle {
                Settle::Value(_) => Settle::Value(seven.clone()),
                settle => settle.clone(),
            };
            let states = main.history().unwrap().states.len();
            let cell = main.space("second").unwrap().state().read("cell").unwrap().map(|cell| cell.version);
            let done = main.conflicts().resolve(&id, settle.clone());
            if let (Primitive::Vector, Settle::Value(_)) = (primitive, &settle) {
                assert!(matches!(done, Err(StoreError::InvalidInput { .. })), "{done:?}");
                assert!(main.conflicts().get(&id).unwrap().is_some());
                continue;
            }
            done.unwrap();
            assert_eq!(value(&main, *primitive), expected, "{primitive} {settle:?}");
            assert_eq!(main.conflicts().get(&id).unwrap(), None);
            assert_eq!(main.history().unwrap().states.len(), states + 1, "one commit");
            // S14: a cell that was written has a version that it never had.
            if *primitive == Primitive::State {
                let now = main.space("second").unwrap().state().read("cell").unwrap();
                let was_written = matches!(settle, Settle::Theirs | Settle::Base | Settle::Value(_));
                let now = now.map(|cell| cell.version);
                assert!(now.is_none() || if was_written { now > cell } else { now == cell });
            }
            // A second time there is nothing to settle.
            let again = main.conflicts().resolve(&id, Settle::Ours).unwrap_err();
            assert!(
                matches!(&again, StoreError::ConflictNotFound { row } if *row == id.to_string()),
                "{again}"
            );
        }
        assert!(main
            .conflicts()
            .get(&ConflictId::new(Primitive::Kv, "default", "0xff01"))
            .unwrap()
            .is_some());
        assert!(store.verify(&mut |_| {}).unwrap().is_whole());
    }
}

/// K5: a row that has changed is not overwritten by accident.
#[test]
fn a_row_that_has_changed_is_told_and_settled_only_on_purpose() {
    for delete in [false, true] {
        let store = Store::memory();
        let (main, _) = parted(&store);
        keep(&store, "fork", "main");
        if delete {
            main.kv().delete("a").unwrap();
        } else {
            main.kv().put("a", 9).unwrap();
        }
        let now = (!delete).then(|| json!(9));
        let found = main.conflicts().get(&id("a")).unwrap().unwrap();
        assert_eq!((found.changed, found.now), (true, now));
        for settle in [Settle::Ours, Settle::Theirs, Settle::Base, Settle::Delete, Settle::Value(json!(4))] {
            let refused = main.conflicts().resolve(&id("a"), settle).unwrap_err();
            assert!(matches!(refused, StoreError::ConflictChanged { .. }), "{refused}");
        }
        // In a fork, so that both ways are seen.
        let fork = store.fork("main", "other").unwrap();
        fork.conflicts().resolve_if_changed(&id("a"), Settle::Theirs).unwrap();
        assert_eq!(fork.kv().get("a").unwrap(), Some(3.into()));
        main.conflicts().resolve(&id("a"), Settle::Now).unwrap();
        assert_eq!(main.kv().get("a").unwrap(), (!delete).then(|| 9.into()));
        assert!(open(&main).is_empty() && open(&fork).is_empty());
    }
    // What was changed and changed back is what it was.
    let store = Store::memory();
    let (main, _) = parted(&store);
    keep(&store, "fork", "main");
    main.kv().put("a", 9).unwrap();
    main.kv().put("a", 2).unwrap();
    main.conflicts().resolve(&id("a"), Settle::Theirs).unwrap();
    assert_eq!(main.kv().get("a").unwrap(), Some(3.into()));
}

#[test]
fn deletions_are_sides_too() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    main.kv().put_many([("ours", 1), ("theirs", 1)]).unwrap();
    let fork = store.fork("main", "fork").unwrap();
    main.kv().delete("ours").unwrap();
    main.kv().put_many([("theirs", 2), ("new", 2)]).unwrap();
    fork.kv().delete("theirs").unwrap();
    fork.kv().put_many([("ours", 3), ("new", 3)]).unwrap();
    keep(&store, "fork", "main");
    let found: Vec<_> = open(&main).iter().map(|open| (open.id.key.clone(), sides(open))).collect();
    let [one, two, three] = [1, 2, 3].map(|n| Some(json!(n)));
    assert_eq!(
        found,
        [
            ("new".to_owned(), [None, two.clone(), three.clone(), two.clone()]),
            ("ours".to_owned(), [one.clone(), None, three, None]),
            ("theirs".to_owned(), [one, two.clone(), None, two]),
        ]
    );
    main.conflicts().resolve(&id("theirs"), Settle::Theirs).unwrap();
    main.conflicts().resolve(&id("ours"), Settle::Theirs).unwrap();
    main.conflicts().resolve(&id("new"), Settle::Base).unwrap();
    assert_eq!(main.kv().list("", None, 9).unwrap().items, ["ours"]);
}

/// K3: what cannot be kept is refused, all of it at once, and nothing is written.
#[test]
fn kinds_that_cannot_be_kept_refuse_the_merge_and_rules_decide_them() {
    let store = Store::memory();
    let (main, fork) = parted(&store);
    for (branch, n) in [(&main, 4), (&fork, 5)] {
        branch.blobs().put("b", &[n; 9][..]).unwrap();
        branch.events().append("e", json!({ "n": n })).unwrap();
        branch.vectors().create("c", usize::from(n), Metric::Dot).unwrap();
        branch.indexes().create("i", &Index::new(Primitive::Kv, [format!("f{n}")])).unwrap();
    }
    let refused = store.merge("fork", "main", keeping()).unwrap_err();
    assert!(matches!(refused, StoreError::MergeConflict { count: 4, .. }), "{refused}");
    assert!(refused.to_string().contains("are not kept"), "{refused}");
    assert!(open(&main).is_empty());
    let dry = store.merge("fork", "main", MergeOptions { dry_run: true, ..keeping() }).unwrap();
    assert_eq!((dry.kept, dry.conflicts.len()), (1, 5));
    for conflict in &dry.conflicts {
        let is_pair = conflict.primitive == Primitive::Kv;
        assert_eq!(
            (conflict.kept, conflict.resolved, conflict.reason.is_none()),
            (is_pair, is_pair, is_pair)
        );
    }
    assert!(open(&main).is_empty());
    let rules = ["blob=theirs", "event=ours", "vector=ours", "index=theirs"];
    let rules = rules.map(|rule| rule.parse::<Rule>().unwrap()).to_vec();
    let report = store.merge("fork", "main", MergeOptions { rules, ..keeping() }).unwrap();
    assert_eq!((report.kept, report.conflicts.len()), (1, 5));
    assert_eq!(open(&main).len(), 1);
    assert!(store.verify(&mut |_| {}).unwrap().is_whole());
}

/// K4: what is settled goes the way of every write: indexes, watchers, ends of pairs, transactions.
#[test]
fn settling_is_a_write_as_any_other() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    main.indexes().create("by-n", &Index::new(Primitive::Json, ["n"]).unique()).unwrap();
    main.json().set("a", "", json!({ "n": 1 })).unwrap();
    main.kv().put("ends", 1).unwrap();
    let fork = store.fork("main", "fork").unwrap();
    main.json().set("a", "", json!({ "n": 2 })).unwrap();
    fork.json().set("a", "", json!({ "n": 3 })).unwrap();
    main.kv().put_with_ttl("ends", 2, Duration::from_secs(3600)).unwrap();
    fork.kv().put_with_ttl("ends", 3, Duration::from_secs(7200)).unwrap();
    keep(&store, "fork", "main");
    let id_of_a = ConflictId::new(Primitive::Json, "default", "a");
    // Another row has got the value of theirs.
    main.json().set("b", "", json!({ "n": 3 })).unwrap();
    let refused = main.conflicts().resolve(&id_of_a, Settle::Theirs).unwrap_err();
    assert!(matches!(refused, StoreError::NotUnique { .. }), "{refused}");
    assert_eq!(open(&main).len(), 2);
    main.json().delete("b", "").unwrap();
    let mut watch = main.watch(Part::default(), None).unwrap();
    main.conflicts().resolve(&id_of_a, Settle::Theirs).unwrap();
    main.conflicts().resolve(&id("ends"), Settle::Theirs).unwrap();
    let found = |n: i64| {
        let filter: Filter = format!("n = {n}").parse().unwrap();
        main.json().find(&Query::new(filter), 9).unwrap().rows.len()
    };
    assert_eq!([found(1), found(2), found(3)], [0, 0, 1]);
    assert!(main.kv().ttl("ends").unwrap().is_some_and(|left| left > Duration::from_secs(3700)));
    let (_, changes) = watch.next(Duration::from_secs(10)).unwrap().expect("there are changes");
    assert_eq!(changes.iter().map(|change| &change.key[..]).collect::<Vec<_>>(), ["ends", "a"]);
    assert!(store.verify(&mut |_| {}).unwrap().is_whole());
}

/// X5 and K6: that a pair is over is no change; what is over is not brought back.
#[test]
fn a_side_that_is_over_is_not_there() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    main.kv().put_many([("ours", 1), ("theirs", 1)]).unwrap();
    let fork = store.fork("main", "fork").unwrap();
    let soon = Duration::from_millis(300);
    main.kv().put_with_ttl("ours", 2, soon).unwrap();
    fork.kv().put("ours", 3).unwrap();
    main.kv().put("theirs", 2).unwrap();
    fork.kv().put_with_ttl("theirs", 3, soon).unwrap();
    let report = keep(&store, "fork", "main");
    if report.kept < 2 {
        // The machine was asleep: there is nothing to see.
        return;
    }
    std::thread::sleep(Duration::from_millis(600));
    let found = open(&main);
    assert_eq!(found.iter().map(|open| open.changed).collect::<Vec<_>>(), [false, false]);
    // The record tells what was, whatever ended since.
    assert_eq!((found[0].now.clone(), found[0].ours.clone()), (None, Some(json!(2))));
    main.conflicts().resolve(&id("ours"), Settle::Theirs).unwrap();
    main.conflicts().resolve(&id("theirs"), Settle::Theirs).unwrap();
    assert_eq!(main.kv().list("", None, 9).unwrap().items, ["ours"]);
    assert!(store.verify(&mut |_| {}).unwrap().is_whole());
}

#[test]
fn conflicts_are_settled_in_transactions_of_both_levels() {
    for serialisable in [false, true] {
        let store = Store::memory();
        let (main, _) = parted(&store);
        keep(&store, "fork", "main");
        let begin = || if serialisable { main.begin_serialisable() } else { main.begin() }.unwrap();
        let (first, second, third) = (begin(), begin(), begin());
        for (tx, settle) in [(&first, Settle::Theirs), (&second, Settle::Base), (&third, Settle::Ours)] {
            tx.conflicts().resolve(&id("a"), settle).unwrap();
            assert!(open(tx).is_empty());
        }
        assert_eq!(open(&main).len(), 1);
        second.commit().unwrap();
        assert!(matches!(first.commit(), Err(StoreError::TransactionConflict { .. })));
        assert!(matches!(third.commit(), Err(StoreError::TransactionConflict { .. })));
        assert_eq!(main.kv().get("a").unwrap(), Some(1.into()));
    }
    // One that is settled for what the row has depends on that.
    let store = Store::memory();
    let (main, _) = parted(&store);
    keep(&store, "fork", "main");
    let tx = main.begin().unwrap();
    tx.conflicts().resolve(&id("a"), Settle::Ours).unwrap();
    main.kv().put("a", 8).unwrap();
    assert!(matches!(tx.commit(), Err(StoreError::TransactionConflict { .. })));
    assert!(matches!(
        main.snapshot().unwrap().conflicts().resolve(&id("a"), Settle::Now),
        Err(StoreError::ReadOnly)
    ));
}

/// K7: one commit, pages of a bounded size, commits of a bounded size.
#[test]
fn ten_thousand_conflicts_are_one_commit_and_settled_page_by_page() {
    const COUNT: usize = 10_000;
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), Options { memory_bytes: 1 << 22, ..Options::default() }).unwrap();
    let main = store.branch("main").unwrap();
    let write = |branch: &Branch, n: usize| {
        branch
            .kv()
            .put_many((0..COUNT).map(|key| (format!("key {key:05}"), (n * COUNT + key) as i64)))
            .unwrap();
    };
    write(&main, 1);
    let fork = store.fork("main", "fork").unwrap();
    write(&main, 2);
    write(&fork, 3);
    store.keep_history("main", Some(Keep::each_commit())).unwrap();
    let states = main.history().unwrap().states.len();
    let report = keep(&store, "fork", "main");
    assert_eq!((report.kept, report.written), (COUNT as u64, 0));
    assert_eq!(main.history().unwrap().states.len(), states + 1);
    let (mut after, mut seen) = (None, 0);
    loop {
        let page = main.conflicts().list(&Part::default(), after.as_ref(), 333).unwrap();
        assert!(page.items.len() <= 333);
        for open in &page.items {
            assert_eq!(open.id.key, format!("key {seen:05}"));
            seen += 1;
        }
        match page.next {
            Some(next) => after = Some(next.id),
            None => break,
        }
    }
    assert_eq!(seen, COUNT);
    let part = Part { prefix: Some("key 00".into()), ..Part::default() };
    assert_eq!(main.conflicts().count(&part).unwrap(), 1000);
    let states = main.history().unwrap().states.len();
    let mut asked = 0;
    let done = main.conflicts().resolve_with(&Part::default(), &mut |open| {
        asked += 1;
        let number: usize = open.id.key[4..].parse().unwrap();
        number.is_multiple_of(2).then_some(Settle::Theirs)
    });
    let done = done.unwrap();
    assert_eq!((done.settled, done.open, asked), (COUNT as u64 / 2, COUNT as u64 / 2, COUNT));
    assert_eq!(main.history().unwrap().states.len(), states + COUNT.div_ceil(256));
    assert_eq!(main.conflicts().count(&Part::default()).unwrap(), COUNT as u64 / 2);
    assert_eq!(main.kv().get("key 00002").unwrap(), Some((3 * COUNT as i64 + 2).into()));
    assert_eq!(main.kv().get("key 00003").unwrap(), Some((2 * COUNT as i64 + 3).into()));
}

/// One that changes between question and answer stays open.
#[test]
fn an_answer_is_about_what_was_asked() {
    let store = Store::memory();
    let (main, _) = parted(&store);
    keep(&store, "fork", "main");
    let mut ask = |open: &OpenConflict| {
        main.kv().put("a", open.now.as_ref().unwrap().as_i64().unwrap() + 10).unwrap();
        Some(Settle::Theirs)
    };
    let done = main.conflicts().resolve_with(&Part::default(), &mut ask).unwrap();
    assert_eq!((done.settled, done.open), (0, 1));
    assert_eq!(main.kv().get("a").unwrap(), Some(12.into()));
    let done = main.conflicts().resolve_with(&Part::default(), &mut |_| Some(Settle::Theirs)).unwrap();
    assert_eq!((done.settled, done.open), (1, 0));
    assert_eq!(main.kv().get("a").unwrap(), Some(3.into()));
}
