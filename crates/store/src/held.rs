//! Snapshots that somebody holds: what only they need can be stored and forgotten, too.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use duramen_tree::Tree;
use parking_lot::Mutex;

/// The trees of the snapshots that are there.
#[derive(Default)]
pub(crate) struct HeldTrees {
    /// A leaf among the locks: nothing else is taken under it.
    trees: Mutex<BTreeMap<u64, Tree>>,
    next: AtomicU64,
}

impl HeldTrees {
    /// Notes the tree of a snapshot. Returns the number by which it is let go of.
    pub(crate) fn hold(&self, tree: Tree) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.trees.lock().insert(number, tree);
        number
    }

    pub(crate) fn let_go(&self, number: u64) {
        let tree = self.trees.lock().remove(&number);
        // Its nodes are freed after the lock.
        drop(tree);
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<Tree> {
        self.trees.lock().values().cloned().collect()
    }
}
