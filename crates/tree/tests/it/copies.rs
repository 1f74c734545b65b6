//! Copying nodes elsewhere: the copy is the tree, the tree stays as it is, and what is known is left out.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use duramen_tree::{
    Checksum, Forest, KeyRange, MemoryNodeStore, NodeCopy, NodeId, NodeRef, NodeStore, Tree, TreeError,
};

/// A place that counts ids from 1, and knows what it was given before.
#[derive(Default)]
struct Place {
    nodes: Vec<(NodeId, Vec<u8>)>,
    copies: HashMap<NodeRef, NodeRef>,
    given: usize,
}

impl NodeCopy for Place {
    type Error = TreeError;

    fn known(&mut self, origin: NodeRef) -> Result<Option<NodeRef>, TreeError> {
        Ok(self.copies.get(&origin).copied())
    }

    fn keep(&mut self, origin: NodeRef, level: u8, bytes: &[u8]) -> Result<NodeId, TreeError> {
        assert_eq!(bytes[1], level);
        let id = self.nodes.len() as u64 + 1;
        self.nodes.push((id, bytes.to_vec()));
        self.copies.insert(origin, (id, Checksum::compute(bytes)));
        self.given += 1;
        Ok(id)
    }
}

fn rows(tree: &Tree, forest: &Forest) -> Vec<(Vec<u8>, u64, Vec<u8>)> {
    let mut rows = Vec::new();
    tree.scan(forest, &KeyRange::all(), |entry| {
        rows.push((entry.key.to_vec(), entry.version, entry.value.to_vec()));
        ControlFlow::Continue(())
    })
    .unwrap();
    rows
}

fn filled(forest: &Forest) -> Tree {
    let mut tree = Tree::new(forest);
    for number in 0..20_000_u64 {
        tree.insert(forest, format!("key {number:05}").as_bytes(), number + 1, b"a value of some length")
            .unwrap();
    }
    tree
}

fn checkpoint(tree: &Tree, forest: &Forest) {
    let mark = forest.begin_checkpoint();
    let mut nodes = Vec::new();
    tree.clone()
        .persist(&mut |id, bytes| {
            nodes.push((id, bytes));
            Ok(())
        })
        .unwrap();
    nodes.sort();
    forest.store().put(&nodes).unwrap();
    forest.store().commit(b"", &[]).unwrap();
    forest.end_checkpoint(mark);
}

/// Opens the copy over the place alone.
fn check_copy(place: &Place, tree: &Tree, forest: &Forest, root: &duramen_tree::StoredRoot) {
    let nodes = Arc::new(MemoryNodeStore::new());
    nodes.put(&place.nodes).unwrap();
    let there = Forest::new(nodes, place.nodes.len() as u64 + 1, 64 << 20);
    let copy = Tree::open(&there, root).unwrap();
    assert_eq!(copy.len(), tree.len());
    assert!(rows(&copy, &there) == rows(tree, forest));
}

#[test]
fn a_copy_holds_what_the_tree_holds_stored_or_not() {
    let forest = Forest::new(Arc::new(MemoryNodeStore::new()), 1, 64 << 20);
    let mut tree = filled(&forest);
    let mut place = Place::default();
    let root = tree.copy_nodes(&forest, &mut place).unwrap();
    check_copy(&place, &tree, &forest, &root);
    assert_eq!(root.id, place.nodes.len() as u64, "parents come after their children");
    let all = place.given;

    // Storing it afterwards stores all of it: the copy marked nothing as stored.
    checkpoint(&tree, &forest);
    let again = tree.copy_nodes(&forest, &mut place).unwrap();
    assert_eq!((again, place.given), (root, all), "what is stored now is what was copied before");

    // Half of it in memory, half of it not.
    tree.evict(&forest, b"", 1 << 20);
    tree.evict(&forest, b"", 1 << 20);
    tree.insert(&forest, b"key 10000", 30_000, b"changed").unwrap();
    let resident = forest.stats().resident_bytes;
    let changed = tree.copy_nodes(&forest, &mut place).unwrap();
    let depth = place.given - all;
    assert!((1..=3).contains(&depth), "{depth} nodes for one changed key");
    let mut whole = Place::default();
    let root = tree.copy_nodes(&forest, &mut whole).unwrap();
    assert_eq!(whole.given, all);
    assert!(forest.stats().resident_bytes <= resident, "copying kept nodes in memory");
    check_copy(&place, &tree, &forest, &changed);
    check_copy(&whole, &tree, &forest, &root);
}

#[test]
fn an_empty_tree_has_a_copy() {
    let forest = Forest::new(Arc::new(MemoryNodeStore::new()), 1, 64 << 20);
    let tree = Tree::new(&forest);
    let mut place = Place::default();
    let root = tree.copy_nodes(&forest, &mut place).unwrap();
    assert_eq!((root.count, place.given), (0, 1));
    check_copy(&place, &tree, &forest, &root);
}

/// Two trees may have the same versions by chance; by value they differ all the same.
#[test]
fn a_comparison_by_value_does_not_believe_versions() {
    let forest = Forest::new(Arc::new(MemoryNodeStore::new()), 1, 64 << 20);
    let left = filled(&forest);
    let mut right = filled(&forest);
    right.insert(&forest, b"key 00500", 501, b"other").unwrap();
    right.remove(&forest, b"key 00600").unwrap();
    let keys = |by_value: bool| {
        let mut keys = Vec::new();
        let show = |change: duramen_tree::Change<'_>| {
            keys.push(String::from_utf8(change.key.to_vec()).unwrap());
            ControlFlow::Continue(())
        };
        if by_value {
            left.diff_by_value(&forest, &right, &KeyRange::all(), show).unwrap();
        } else {
            left.diff(&forest, &right, &KeyRange::all(), show).unwrap();
        }
        keys
    };
    assert_eq!(keys(true), ["key 00500", "key 00600"]);
    assert_eq!(keys(false), ["key 00600"], "one version is one write, where one store gives them");
}
