//! Where nodes are kept when they are not in memory: a narrow trait, and the implementation in memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// The number of a node. Numbers grow with time and are never reused, so a store may take them as appends.
pub type NodeId = u64;

/// Why a node store could not do what it was asked.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeStoreError {
    /// The storage below failed: nothing more may be written.
    #[error("the node store failed: {0}; close the store, check the disk, and open it again")]
    Io(Arc<std::io::Error>),
    /// Somebody else writes there now: nothing more may be written here.
    #[error("another writer has taken the store over: {0}; nothing more is written here: open it again to take it back")]
    Fenced(String),
    /// The storage below says that its own files are damaged.
    #[error("the node store is damaged: {0}; restore it from a copy")]
    Damaged(String),
}

impl From<std::io::Error> for NodeStoreError {
    fn from(error: std::io::Error) -> Self {
        Self::Io(Arc::new(error))
    }
}

/// Figures of a node store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeStoreStats {
    /// Bytes that it occupies where it lies.
    pub bytes: u64,
}

/// A place to keep nodes: encoded bytes under growing numbers, and one manifest that says which of them count.
///
/// Only [`commit`](Self::commit) makes anything durable. What was `put` before the last commit that succeeded is
/// there after a crash; what was put after it may or may not be, and the store deletes it with
/// [`delete_from`](Self::delete_from) when it opens.
pub trait NodeStore: Send + Sync {
    /// The bytes of a node, or none if there is no such node.
    ///
    /// # Errors
    /// When the storage below cannot be read.
    fn get(&self, id: NodeId) -> Result<Option<Vec<u8>>, NodeStoreError>;

    /// Keeps nodes, which come in the order of their ids, none of which was ever put before. Not durable yet.
    ///
    /// # Errors
    /// When the storage below cannot be written.
    fn put(&self, nodes: &[(NodeId, Vec<u8>)]) -> Result<(), NodeStoreError>;

    /// Replaces the manifest and forgets `deleted` (ids that are not there are passed over), in one atomic step that
    /// is durable when it returns, together with everything that was put before.
    ///
    /// # Errors
    /// When the storage below cannot be written.
    fn commit(&self, manifest: &[u8], deleted: &[NodeId]) -> Result<(), NodeStoreError>;

    /// The manifest of the last commit.
    ///
    /// # Errors
    /// When the storage below cannot be read.
    fn manifest(&self) -> Result<Option<Vec<u8>>, NodeStoreError>;

    /// Deletes all nodes from `first` on: leftovers of a checkpoint that did not come to its commit. Returns their
    /// number. It costs what there is to delete, not what there is.
    ///
    /// # Errors
    /// When the storage below cannot be read or written.
    fn delete_from(&self, first: NodeId) -> Result<u64, NodeStoreError>;

    /// Gives back the space of nodes that were deleted, as far as that is worth it.
    ///
    /// # Errors
    /// When the storage below cannot be read or written.
    fn compact(&self) -> Result<(), NodeStoreError> {
        Ok(())
    }

    /// Whether nodes can be kept at all: if not, trees need not report which they stopped using.
    fn keeps(&self) -> bool {
        true
    }

    /// Bytes of memory in which it finds nodes; 0 if it has none, or is memory itself.
    fn memory(&self) -> usize {
        0
    }

    /// Whether [`bytes_of`](Self::bytes_of) knows what nodes take that are kept on a disk.
    fn tells_sizes(&self) -> bool {
        true
    }

    /// Bytes that nodes take where they are kept; those that are not there take none.
    fn bytes_of(&self, _nodes: &[NodeId]) -> u64 {
        0
    }

    /// Figures for `store info` and the lab.
    fn stats(&self) -> NodeStoreStats;
}

/// Nodes in memory: for stores that live no longer than their process, and for tests.
#[derive(Debug, Default)]
pub struct MemoryNodeStore {
    state: Mutex<MemoryState>,
}

#[derive(Debug, Default)]
struct MemoryState {
    nodes: BTreeMap<NodeId, Vec<u8>>,
    manifest: Option<Vec<u8>>,
}

impl MemoryNodeStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of nodes that are kept.
    pub fn len(&self) -> usize {
        self.state.lock().nodes.len()
    }

    /// Whether no node is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl NodeStore for MemoryNodeStore {
    fn get(&self, id: NodeId) -> Result<Option<Vec<u8>>, NodeStoreError> {
        Ok(self.state.lock().nodes.get(&id).cloned())
    }

    fn put(&self, nodes: &[(NodeId, Vec<u8>)]) -> Result<(), NodeStoreError> {
        self.state.lock().nodes.extend(nodes.iter().cloned());
        Ok(())
    }

    fn commit(&self, manifest: &[u8], deleted: &[NodeId]) -> Result<(), NodeStoreError> {
        let mut state = self.state.lock();
        for id in deleted {
            state.nodes.remove(id);
        }
        state.manifest = Some(manifest.to_vec());
        Ok(())
    }

    fn manifest(&self) -> Result<Option<Vec<u8>>, NodeStoreError> {
        Ok(self.state.lock().manifest.clone())
    }

    fn delete_from(&self, first: NodeId) -> Result<u64, NodeStoreError> {
        Ok(self.state.lock().nodes.split_off(&first).len() as u64)
    }

    fn stats(&self) -> NodeStoreStats {
        NodeStoreStats { bytes: self.state.lock().nodes.values().map(|node| node.len() as u64).sum() }
    }
}
