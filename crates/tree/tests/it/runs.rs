//! What readers keep beside runs of leaves: shared by trees that share the run, gone when any of it changes.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ops::ControlFlow;
use std::sync::Arc;

use duramen_tree::{Forest, KeyRange, MemoryNodeStore, Sidecar, Tree};

type Rows = Vec<(Vec<u8>, Vec<u8>)>;

struct Kept(Rows);

impl Sidecar for Kept {
    fn memory(&self) -> usize {
        self.0.iter().map(|(key, value)| key.len() + value.len()).sum()
    }
}

/// The rows of a range, each run's from what it keeps; and how many runs had to derive theirs now.
fn rows_in_runs(tree: &Tree, forest: &Forest) -> (Rows, usize, usize) {
    let (mut rows, mut runs, mut derived) = (Rows::new(), 0, 0);
    tree.scan_runs(forest, &KeyRange::all(), |run| {
        runs += 1;
        let kept: Arc<Kept> = run
            .sidecar(|| {
                derived += 1;
                let mut rows = Rows::new();
                run.leaves(|leaf| {
                    rows.extend(
                        (0..leaf.len())
                            .map(|at| leaf.entry(at))
                            .map(|row| (row.key.into(), row.value.into())),
                    );
                    ControlFlow::Continue(())
                })
                .unwrap();
                Ok::<_, Infallible>(Kept(rows))
            })
            .unwrap();
        rows.extend(kept.0.iter().cloned());
        ControlFlow::Continue(())
    })
    .unwrap();
    (rows, runs, derived)
}

#[test]
fn what_runs_keep_is_never_out_of_date() {
    let forest = Forest::new(Arc::new(MemoryNodeStore::new()), 1, 1 << 30);
    let mut rng = fastrand::Rng::with_seed(11);
    let mut trees = vec![(Tree::new(&forest), BTreeMap::new())];
    for round in 0..120 {
        let at = rng.usize(0..trees.len());
        if trees.len() < 4 && round % 10 == 9 {
            let copy = (trees[at].0.clone(), trees[at].1.clone());
            trees.push(copy);
        }
        let (tree, model) = &mut trees[at];
        for _ in 0..rng.usize(0..400) {
            let key = format!("{:05}", rng.u32(0..9000)).into_bytes();
            if rng.u8(..3) > 0 {
                let value: Vec<u8> = (0..rng.usize(0..300)).map(|_| rng.u8(..)).collect();
                tree.insert(&forest, &key, 1, &value).unwrap();
                model.insert(key, value);
            } else {
                tree.remove(&forest, &key).unwrap();
                model.remove(&key);
            }
        }
        for (tree, model) in &trees {
            let expected: Rows = model.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
            assert!(rows_in_runs(tree, &forest).0 == expected, "round {round}");
        }
    }
}

#[test]
fn a_fork_derives_only_what_it_changed() {
    let forest = Forest::new(Arc::new(MemoryNodeStore::new()), 1, 1 << 30);
    let mut tree = Tree::new(&forest);
    for key in 0..20_000 {
        tree.insert(&forest, format!("{key:06}").as_bytes(), 1, &[7; 200]).unwrap();
    }
    let (_, runs, derived) = rows_in_runs(&tree, &forest);
    assert!(runs > 10 && derived == runs, "{derived} of {runs}");
    let mut fork = tree.clone();
    fork.insert(&forest, b"010000", 2, &[8; 200]).unwrap();
    assert_eq!(rows_in_runs(&fork, &forest).2, 1);
    assert_eq!(rows_in_runs(&fork, &forest).2, 0);
    assert_eq!(rows_in_runs(&tree, &forest).2, 0);
    // In place, too, when nobody else holds the tree.
    drop(tree);
    fork.insert(&forest, b"010000", 3, &[9; 200]).unwrap();
    assert_eq!(rows_in_runs(&fork, &forest).2, 1);
}

/// What is kept counts as memory, goes where it is not read again, and is not kept where there is no room for it.
#[test]
fn what_runs_keep_counts_as_memory_and_is_forgotten() {
    let rows = |forest: &Forest| {
        let mut tree = Tree::new(forest);
        for key in 0..20_000 {
            tree.insert(forest, format!("{key:06}").as_bytes(), 1, &[7; 200]).unwrap();
        }
        tree
    };
    let forest = Forest::new(Arc::new(MemoryNodeStore::new()), 1, 1 << 30);
    let tree = rows(&forest);
    let resident = || forest.stats().resident_bytes;
    let before = resident();
    let (_, runs, derived) = rows_in_runs(&tree, &forest);
    assert_eq!(derived, runs);
    let kept = resident() - before;
    assert!((20_000 * 206..20_000 * 210).contains(&kept), "{kept} bytes");
    assert_eq!(rows_in_runs(&tree, &forest).2, 0);
    let evict = || tree.evict(&forest, b"", 1 << 20).0 as u64;
    assert_eq!(evict(), 0, "all of it was read since");
    assert_eq!((evict(), resident()), (kept, before), "the nodes are not stored");
    let (found, _, derived) = rows_in_runs(&tree, &forest);
    assert_eq!((found.len(), derived), (20_000, runs));

    let forest = Forest::new(Arc::new(MemoryNodeStore::new()), 1, 1 << 20);
    let tree = rows(&forest);
    let before = forest.stats().resident_bytes;
    for _ in 0..2 {
        let (found, _, derived) = rows_in_runs(&tree, &forest);
        assert_eq!((found.len(), derived), (20_000, runs));
    }
    assert_eq!(forest.stats().resident_bytes, before);
}
