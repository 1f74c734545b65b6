//! A branch outside a store: what is needed to read it from where its nodes were copied to.

use duramen_tree::{NodeId, StoredRoot};

/// A branch whose nodes were copied out of a store, for example into a pack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredBranch {
    /// What it is called.
    pub name: String,
    /// Where its tree begins in that place.
    pub root: StoredRoot,
    /// An id above those of all its nodes.
    pub next_node: NodeId,
    /// The last version that it has.
    pub version: u64,
    /// When it was copied, in milliseconds since 1970 (UTC).
    pub created_ms: i64,
}
