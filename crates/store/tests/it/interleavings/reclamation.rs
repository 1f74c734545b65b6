//! The snapshots of readers against the deletes of checkpoints: reclamation itself, over the primitives of the checker,
//! with real trees over a node store.
#![allow(dead_code, reason = "the file is whole, and not all of it is called from here")]

#[path = "../../../src/reclaim.rs"]
mod reclaim;

use std::sync::Arc;

use duramen_tree::{Forest, MemoryNodeStore, NodeStore, Tree};
use reclaim::{Epochs, PendingFree, Pin};
use shuttle::thread::{self, yield_now};

use super::check;
use crate::sync::Mutex;

/// Enough for inner nodes, and for a write to leave most leaves as they are.
const ROWS: u64 = 300;

/// As much of a store as its checkpoints and its readers meet in. Locks are taken as the engine takes them: the
/// writer's before the branch's.
struct Branch {
    forest: Forest,
    nodes: Arc<MemoryNodeStore>,
    epochs: Epochs,
    writer: Mutex<PendingFree>,
    tree: Mutex<Tree>,
}

fn key(row: u64) -> Vec<u8> {
    format!("key {row:08}").into_bytes()
}

impl Branch {
    fn new() -> Self {
        let nodes = Arc::new(MemoryNodeStore::new());
        // Without room, so that what is stored is read from the node store each time.
        let forest = Forest::new(nodes.clone(), 1, 0);
        let mut tree = Tree::new(&forest);
        for row in 0..ROWS {
            tree.insert(&forest, &key(row), row + 1, &[0; 200]).unwrap();
        }
        let (writer, tree) = (Mutex::new(PendingFree::default()), Mutex::new(tree));
        Self { forest, nodes, epochs: Epochs::new(), writer, tree }
    }

    fn write(&self, version: u64) {
        let _writer = self.writer.lock();
        self.tree.lock().insert(&self.forest, &key(version % ROWS), ROWS + version, b"new").unwrap();
    }

    /// As the engine makes one: the moment of it under the writer's lock, the work without.
    fn checkpoint(&self) {
        let (mark, tree, mut pending) = {
            let mut writer = self.writer.lock();
            let epoch = self.epochs.advance();
            let stored_before = self.forest.mark();
            let mark = self.forest.begin_checkpoint();
            let mut tree = self.tree.lock();
            let dropped = tree.take_dropped().into_iter().filter(|id| *id < stored_before).collect();
            writer.push(epoch, dropped);
            (mark, tree.clone(), std::mem::take(&mut *writer))
        };
        let mut nodes = Vec::new();
        tree.persist(&mut |id, bytes| {
            nodes.push((id, bytes));
            Ok(())
        })
        .unwrap();
        nodes.sort_unstable_by_key(|(id, _)| *id);
        yield_now();
        self.nodes.put(&nodes).unwrap();
        let free = pending.take_free(usize::MAX);
        yield_now();
        self.nodes.commit(b"", &free).unwrap();
        self.forest.end_checkpoint(mark);
        self.writer.lock().prepend(pending);
        // What is stored leaves memory, so that readers meet the node store.
        let tree = self.tree.lock().clone();
        (0..2).for_each(|_| drop(tree.evict(&self.forest, b"", usize::MAX)));
    }

    /// A reader that pins the epoch before it takes the tree, as snapshots do.
    fn snapshot(&self) -> (Pin, Tree) {
        let pin = self.epochs.pin();
        (pin, self.tree.lock().clone())
    }

    fn read(&self, (_pin, tree): (Pin, Tree)) {
        for row in (0..ROWS).step_by(60) {
            yield_now();
            assert!(tree.get(&self.forest, &key(row), |_| ()).expect("no node is missing").is_some());
        }
    }
}

fn scenario(read: fn(&Branch)) {
    let branch = Arc::new(Branch::new());
    branch.checkpoint();
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let branch = branch.clone();
            thread::spawn(move || read(&branch))
        })
        .collect();
    let writer = {
        let branch = branch.clone();
        thread::spawn(move || (0..3).for_each(|version| branch.write(version * 60)))
    };
    (0..3).for_each(|_| branch.checkpoint());
    readers.into_iter().for_each(|reader| reader.join().unwrap());
    writer.join().unwrap();
    // Nobody reads any more: two checkpoints later, what is stored is what the branch has.
    branch.checkpoint();
    branch.checkpoint();
    let mut ids = 0;
    branch.tree.lock().ids_from(&branch.forest, 0, &mut |_| ids += 1).unwrap();
    assert_eq!(branch.nodes.len(), ids, "nodes are left that nobody needs");
}

#[test]
fn a_snapshot_keeps_its_nodes_and_nothing_is_kept_without_one() {
    check(200, || scenario(|branch| branch.read(branch.snapshot())));
}

/// The checker finds what it is there for.
#[test]
#[should_panic(expected = "no node is missing")]
fn a_reader_that_pins_too_late_loses_nodes() {
    check(5000, || {
        scenario(|branch| {
            let tree = branch.tree.lock().clone();
            yield_now();
            branch.read((branch.epochs.pin(), tree));
        });
    });
}
