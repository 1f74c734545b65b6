//! Where a tree is: open in memory, or stored.

use duramen_tree::{Forest, NodeId, StoredRoot, Tree};

use crate::error::StoreError;

/// A tree that is open, or where it is stored.
pub(crate) enum Slot {
    Open(Tree),
    Stored(StoredRoot),
}

impl Slot {
    /// The tree, opened if it is not.
    pub(crate) fn tree(&mut self, forest: &Forest) -> Result<&mut Tree, StoreError> {
        if let Self::Stored(root) = self {
            *self = Self::Open(Tree::open(forest, root)?);
        }
        match self {
            Self::Open(tree) => Ok(tree),
            Self::Stored(_) => unreachable!("the tree was opened just now"),
        }
    }

    /// Whether it holds the same tree, without a look at what is in it.
    pub(crate) fn same(&self, other: &Self) -> bool {
        self.id() == other.id()
    }

    fn id(&self) -> NodeId {
        match self {
            Self::Open(tree) => tree.id(),
            Self::Stored(root) => root.id,
        }
    }

    /// Another slot with the same tree.
    pub(crate) fn share(&self) -> Self {
        match self {
            Self::Open(tree) => Self::Open(tree.clone()),
            Self::Stored(root) => Self::Stored(*root),
        }
    }
}
