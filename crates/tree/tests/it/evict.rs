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
    // The first time it clears the marks of what was read.
    for _ in 0..2 {
        let mut from = Vec::new();
        while let (_, Some(next)) = tree.evict(forest, &from, 256) {
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
