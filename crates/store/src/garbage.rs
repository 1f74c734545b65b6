//! What is on its way out of a store: the trees of deleted branches, and stored nodes that nobody needs.

use std::collections::HashSet;

use duramen_tree::NodeId;

use crate::manifest::Manifest;
use crate::reclaim::PendingFree;
use crate::slot::Slot;

/// A tree of a deleted branch.
pub(crate) struct Tombstone {
    pub(crate) slot: Slot,
    /// Nodes below this belong to others, too.
    pub(crate) low: NodeId,
    /// Nodes from here on belong to nobody else.
    pub(crate) high: NodeId,
    /// Nodes that only the retained states of the branch held.
    pub(crate) dead: Vec<NodeId>,
}

/// Stored nodes on their way out.
#[derive(Default)]
pub(crate) struct Garbage {
    pub(crate) tombstones: Vec<Tombstone>,
    /// Nodes that nobody needs once all readers that began before are gone.
    pub(crate) pending: PendingFree,
    /// Nodes that a branch dropped and another may hold.
    pub(crate) candidates: HashSet<NodeId>,
    /// Candidates that the last search left.
    pub(crate) kept: usize,
}

impl Garbage {
    /// Takes back what a checkpoint left over.
    pub(crate) fn give_back(&mut self, rest: Self) {
        self.tombstones.extend(rest.tombstones);
        self.candidates.extend(rest.candidates);
        self.kept = rest.kept;
        self.pending.prepend(rest.pending);
    }

    /// What a manifest says.
    pub(crate) fn recovered(manifest: &Manifest) -> Self {
        Self {
            pending: PendingFree::unreachable(manifest.free.clone()),
            candidates: manifest.candidates.iter().copied().collect(),
            ..Self::default()
        }
    }
}
