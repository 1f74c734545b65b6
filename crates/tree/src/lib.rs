//! A copy-on-write B+tree over a node store.
//!
//! A [`Tree`] is a root; cloning it is a snapshot or a fork, and costs a pointer. Nodes are shared until one of the
//! trees writes, and copied once per epoch: as long as nobody else holds a node, it is changed in place. What two trees
//! share is found by the identity of nodes, so [`Tree::diff`] and [`Tree::merge_items`] cost what was written since
//! they parted.
//!
//! | type | what it is for |
//! | --- | --- |
//! | [`Tree`] | reading, writing, snapshots, diff, merge, storing, eviction |
//! | [`Forest`] | what trees over one node store share: numbers of nodes, the memory budget, counts |
//! | [`NodeStore`] | where nodes lie when they are not in memory; [`MemoryNodeStore`] for tests |
//! | [`BulkBuilder`] | a tree from sorted entries |
//! | [`NodeCopy`] | a place that the nodes of a tree are copied to, such as a file |
//! | [`KeyRange`] | which keys, and in which direction |
//!
//! The crate knows no file and no clock. The format of nodes and the invariants are in `docs/design/tree.md`.
//!
//! ```
//! use std::ops::ControlFlow;
//! use std::sync::Arc;
//! use duramen_tree::{Forest, KeyRange, MemoryNodeStore, Tree};
//!
//! let forest = Forest::new(Arc::new(MemoryNodeStore::new()), 1, 64 << 20);
//! let mut tree = Tree::new(&forest);
//! for number in 0..1000_u64 {
//!     tree.insert(&forest, format!("key {number:04}").as_bytes(), number + 1, b"value")?;
//! }
//! let fork = tree.clone();
//! tree.remove(&forest, b"key 0500")?;
//!
//! let mut removed = Vec::new();
//! fork.diff(&forest, &tree, &KeyRange::all(), |change| {
//!     removed.push(change.key.to_vec());
//!     ControlFlow::Continue(())
//! })?;
//! assert_eq!(removed, [b"key 0500"]);
//! # Ok::<(), duramen_tree::TreeError>(())
//! ```

mod bulk;
mod children;
mod codec;
mod copy;
mod diff;
mod error;
mod evict;
mod forest;
mod node;
mod node_store;
mod persist;
mod range;
mod reclaim;
mod records;
mod sidecar;
mod tree;
mod write;

pub use bulk::BulkBuilder;
pub use codec::{check_node, FORMAT};
pub use copy::{NodeCopy, NodeRef};
pub use diff::{Change, MergeItem, OursIs};
pub use error::{DecodeError, TreeError};
pub use forest::{Forest, ForestStats};
pub use node::Checksum;
pub use node_store::{MemoryNodeStore, NodeId, NodeStore, NodeStoreError, NodeStoreStats};
pub use range::KeyRange;
pub use sidecar::Sidecar;
pub use tree::{Entry, LeafView, RunView, StoredRoot, Tree, KEY_MAX, VALUE_MAX};
pub use write::Replaced;
