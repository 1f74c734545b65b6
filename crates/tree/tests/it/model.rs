//! The tree against a `BTreeMap`: random writes, snapshots, checkpoints, evictions, reopenings, diffs and merges.
//!
//! The seed of a failing run is in its message.

use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use duramen_tree::{Forest, KeyRange, MemoryNodeStore, NodeStore, Tree};

type Model = BTreeMap<Vec<u8>, (u64, Vec<u8>)>;

struct World {
    rng: fastrand::Rng,
    nodes: Arc<MemoryNodeStore>,
    forest: Forest,
    trees: Vec<(Tree, Model)>,
    version: u64,
    long_keys: bool,
}

impl World {
    fn new(seed: u64, budget: usize) -> Self {
        let nodes = Arc::new(MemoryNodeStore::new());
        let forest = Forest::new(nodes.clone(), 1, budget);
        let tree = Tree::new(&forest);
        let mut rng = fastrand::Rng::with_seed(seed);
        let long_keys = rng.bool();
        Self { rng, nodes, forest, trees: vec![(tree, Model::new())], version: 0, long_keys }
    }

    fn key(&mut self) -> Vec<u8> {
        let number = self.rng.u32(0..6000);
        match self.rng.u8(0..20) {
            0 => Vec::new(),
            1 => vec![0; self.rng.usize(0..6)],
            2 => vec![255; self.rng.usize(0..6)],
            3..=8 if self.long_keys => {
                format!("{}/{number}", "a prefix that is longer than what a node keeps of it, by far")
                    .into_bytes()
            }
            _ => format!("key {number:05}").into_bytes(),
        }
    }

    fn write(&mut self, which: usize) {
        for _ in 0..self.rng.usize(1..400) {
            let key = self.key();
            let forest = &self.forest;
            let (tree, model) = &mut self.trees[which];
            if self.rng.u8(0..10) < 3 {
                assert_eq!(tree.remove(forest, &key).unwrap(), model.remove(&key).is_some());
                continue;
            }
            self.version += 1;
            let len = match self.rng.u8(0..50) {
                0 => self.rng.usize(0..40_000),
                1..=5 => 0,
                _ => self.rng.usize(0..200),
            };
            let value = vec![self.rng.u8(..); len];
            let old = tree.insert(forest, &key, self.version, &value).unwrap().old_value_len;
            let expected = model.insert(key, (self.version, value)).map(|(_, value)| value.len());
            assert_eq!(old, expected);
        }
    }

    fn delete_run(&mut self, which: usize) {
        let (tree, model) = &mut self.trees[which];
        let from = format!("key {:05}", self.rng.u32(0..6000)).into_bytes();
        let run: Vec<_> =
            model.range(from..).take(self.rng.usize(0..2000)).map(|(key, _)| key.clone()).collect();
        for key in run {
            assert!(tree.remove(&self.forest, &key).unwrap());
            model.remove(&key);
        }
    }

    fn checkpoint(&mut self) {
        let mark = self.forest.begin_checkpoint();
        let nodes = self.nodes.clone();
        let mut roots = Vec::new();
        for (tree, _) in &mut self.trees {
            let mut sink = |id, bytes| Ok(nodes.put(&[(id, bytes)])?);
            roots.push(tree.clone().persist(&mut sink).unwrap());
        }
        self.forest.end_checkpoint(mark);
        for (at, root) in roots.into_iter().enumerate() {
            let opened = Tree::open(&self.forest, &root).unwrap();
            assert!(opened.same(&self.trees[at].0));
            if self.rng.bool() {
                self.trees[at].0 = opened;
            }
        }
        // What no tree reaches can go: nothing that is read later may be missed.
        let (mut reached, mut passed) = (HashSet::new(), HashSet::new());
        for (tree, _) in &self.trees {
            tree.reach(&self.forest, &mut passed, &mut |id| {
                reached.insert(id);
            })
            .unwrap();
        }
        let dropped: Vec<u64> = (0..mark).filter(|id| !reached.contains(id)).collect();
        self.nodes.commit(b"", &dropped).unwrap();
    }

    fn check(&self, which: usize) {
        let (tree, model) = &self.trees[which];
        assert_eq!(tree.len(), model.len() as u64);
        assert_eq!(tree.bytes(), model.iter().map(|(k, (_, v))| (k.len() + v.len()) as u64).sum::<u64>());
        let mut expected = model.iter();
        tree.scan(&self.forest, &KeyRange::all(), |entry| {
            let (key, (version, value)) = expected.next().expect("no entry beyond the model's");
            assert_eq!((entry.key, entry.version, entry.value), (&key[..], *version, &value[..]));
            ControlFlow::Continue(())
        })
        .unwrap();
        assert!(expected.next().is_none());
    }

    fn check_reads(&mut self, which: usize) {
        for _ in 0..50 {
            let (start, end) = (self.key(), self.key());
            let (tree, model) = &self.trees[which];
            let found = tree.get(&self.forest, &start, |entry| entry.value.to_vec()).unwrap();
            assert_eq!(found.as_ref(), model.get(&start).map(|(_, value)| value));
            let range = KeyRange::new(&start, Some(&end));
            let mut expected: Vec<_> = match start <= end {
                true => model.range(start.clone()..end.clone()).map(|(key, _)| key.clone()).collect(),
                false => Vec::new(),
            };
            assert_eq!(tree.count_range(&self.forest, &range).unwrap(), expected.len() as u64);
            for range in [range, range.reversed()] {
                let mut keys = Vec::new();
                tree.scan(&self.forest, &range, |entry| {
                    keys.push(entry.key.to_vec());
                    ControlFlow::Continue(())
                })
                .unwrap();
                assert_eq!(keys, expected);
                expected.reverse();
            }
        }
    }

    fn check_diff(&mut self, left: usize, right: usize) {
        let (start, end) = match self.rng.bool() {
            true => (Vec::new(), None),
            false => (self.key(), Some(self.key())),
        };
        let range = KeyRange::new(&start, end.as_deref());
        let (a, b) = (&self.trees[left], &self.trees[right]);
        let mut found = Vec::new();
        let value = |entry: Option<duramen_tree::Entry<'_>>| entry.map(|entry| entry.value.to_vec());
        a.0.diff(&self.forest, &b.0, &range, |change| {
            found.push((change.key.to_vec(), value(change.left), value(change.right)));
            ControlFlow::Continue(())
        })
        .unwrap();
        let keys: std::collections::BTreeSet<_> = a.1.keys().chain(b.1.keys()).collect();
        let value = |model: &Model, key: &Vec<u8>| model.get(key).map(|(_, value)| value.clone());
        let expected: Vec<_> = keys
            .into_iter()
            .filter(|key| range.contains(key))
            .map(|key| (key.clone(), value(&a.1, key), value(&b.1, key)))
            .filter(|(_, left, right)| left != right)
            .collect();
        assert_eq!(found, expected);
    }

    fn step(&mut self) {
        let which = self.rng.usize(0..self.trees.len());
        match self.rng.u8(0..20) {
            0..=6 => self.write(which),
            7 => self.delete_run(which),
            8 if self.trees.len() < 5 => {
                let (tree, model) = &self.trees[which];
                let fork = (tree.clone(), model.clone());
                self.trees.push(fork);
            }
            9 if self.trees.len() > 1 => drop(self.trees.swap_remove(which)),
            10..=12 => self.checkpoint(),
            13 | 14 => {
                let mut from = Vec::new();
                while let (_, Some(next)) = self.trees[which].0.evict(&self.forest, &from, 7) {
                    assert!(next > from);
                    from = next;
                }
            }
            15 => self.check(which),
            16 => self.check_reads(which),
            _ => {
                let other = self.rng.usize(0..self.trees.len());
                self.check_diff(which, other);
            }
        }
    }
}

fn run(seed: u64, steps: usize, budget: usize) {
    let result = std::panic::catch_unwind(|| {
        let mut world = World::new(seed, budget);
        for _ in 0..steps {
            world.step();
        }
        for which in 0..world.trees.len() {
            world.check(which);
        }
    });
    if let Err(cause) = result {
        eprintln!("failed with seed {seed}, budget {budget}");
        std::panic::resume_unwind(cause);
    }
}

#[test]
fn agrees_with_a_map_with_room_for_everything() {
    for seed in 0..20 {
        run(seed, 120, 1 << 30);
    }
}

/// Invariant T7: a budget far below the data changes nothing but the speed.
#[test]
fn agrees_with_a_map_with_hardly_any_memory() {
    for seed in 100..120 {
        run(seed, 120, 20_000);
    }
}
