//! Eviction: what it forgets, and that all of it can be read again.

use std::sync::Arc;

use duramen_tree::{Forest, MemoryNodeStore, Tree};

const KEYS: u64 = 30_000;

fn key(number: u64) -> Vec<u8> {
    format!("key {number:06}").into_bytes()
}

fn value(number: u64) -> Vec<u8> {
    vec![number as u8; 400]
}

fn evict_all(tree: &Tree, forest: &Forest) {
    evict_in_slices_of(256, tree, forest);
}

fn evict_in_slices_of(looks: usize, tree: &Tree, forest: &Forest) {
    // The first time it clears the marks of leaves that were read, then those of nodes above them.
    for _ in 0..3 {
        let mut from = Vec::new();
        while let (_, Some(next)) = tree.evict(forest, &from, looks) {
            from = next;
        }
    }
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

/// Writes here and there leave hardly an inner node as it was stored. What hangs below them is forgotten all the same.
#[test]
fn leaves_below_inner_nodes_that_were_written_are_forgotten() {
    let forest = Forest::new(Arc::new(MemoryNodeStore::new()), 1, 1 << 30);
    let mut tree = Tree::new(&forest);
    for number in 0..KEYS {
        tree.insert(&forest, &key(number), number + 1, &value(number)).unwrap();
    }
    checkpoint(&tree, &forest);
    let full = forest.stats().resident_bytes;
    let written: Vec<u64> = (0..KEYS).step_by(2000).collect();
    for number in &written {
        tree.insert(&forest, &key(*number), KEYS + number + 1, b"written since").unwrap();
    }
    evict_all(&tree, &forest);
    let left = forest.stats().resident_bytes;
    assert!(left < full / 10, "{left} of {full} bytes are left");
    for number in 0..KEYS {
        let found = tree.get(&forest, &key(number), |entry| entry.value.to_vec()).unwrap().unwrap();
        let expected = if written.contains(&number) { b"written since".to_vec() } else { value(number) };
        assert!(found == expected, "key {number}");
    }
}

/// Slices end within inner nodes. Those are forgotten as well, once nothing is loaded below them.
#[test]
fn inner_nodes_in_which_a_slice_ends_are_forgotten() {
    for looks in [3, 7, 64, 256] {
        let forest = Forest::new(Arc::new(MemoryNodeStore::new()), 1, 1 << 30);
        let mut tree = Tree::new(&forest);
        for number in 0..KEYS {
            tree.insert(&forest, &key(number), number + 1, &value(number)).unwrap();
        }
        checkpoint(&tree, &forest);
        evict_in_slices_of(1 << 20, &tree, &forest);
        let least = forest.stats().resident_bytes;
        for number in (0..KEYS).step_by(10) {
            tree.get(&forest, &key(number), |_| ()).unwrap().unwrap();
        }
        evict_in_slices_of(looks, &tree, &forest);
        assert_eq!(forest.stats().resident_bytes, least, "slices of {looks}");
    }
}

/// What was made since a checkpoint began is told, whatever becomes of it.
#[test]
fn what_only_a_checkpoint_can_make_forgettable_is_told() {
    let forest = Forest::new(Arc::new(MemoryNodeStore::new()), 1, 1 << 30);
    let mut tree = Tree::new(&forest);
    for number in 0..KEYS {
        tree.insert(&forest, &key(number), number + 1, &value(number)).unwrap();
    }
    assert_eq!(forest.fresh_bytes() as u64, forest.stats().resident_bytes);
    checkpoint(&tree, &forest);
    assert_eq!(forest.fresh_bytes(), 0);
    let kept = tree.clone();
    for number in (0..KEYS).step_by(500) {
        tree.insert(&forest, &key(number), KEYS + number, b"changed").unwrap();
    }
    let fresh = forest.fresh_bytes();
    assert!(fresh > 60 * 4096 && fresh < forest.stats().resident_bytes as usize / 4, "{fresh}");
    drop(kept);
    // Alone now, it changes its nodes in place, under other numbers.
    for number in (100..KEYS).step_by(500) {
        tree.insert(&forest, &key(number), 2 * KEYS + number, b"changed").unwrap();
    }
    assert!(forest.fresh_bytes() > fresh * 3 / 2, "{} after {fresh}", forest.fresh_bytes());
    drop(tree);
    assert_eq!(forest.fresh_bytes(), 0);
}
