//! Storing a tree: every node that is not stored yet, children before parents.

use std::sync::Arc;

use crate::codec;
use crate::error::TreeError;
use crate::node::{Body, Checksum, Child, Link, Node};
use crate::node_store::NodeId;
use crate::tree::{StoredRoot, Tree};

impl Tree {
    /// Gives every node of the tree that is not stored yet to `sink`, with its bytes, and returns how to open the
    /// tree again once they are stored. The tree must not be written meanwhile: call it on a clone, and
    /// [`Forest::begin_checkpoint`](crate::Forest::begin_checkpoint) before cloning.
    ///
    /// Trees that share nodes give each to a sink once.
    ///
    /// # Errors
    /// What `sink` returned. The tree is then not stored; all clones of it must be taken as unstored for good.
    pub fn persist(
        &self,
        sink: &mut dyn FnMut(NodeId, Vec<u8>) -> Result<(), TreeError>,
    ) -> Result<StoredRoot, TreeError> {
        let sum = persist_in(&self.root, sink)?;
        Ok(StoredRoot { id: self.root.id, sum, count: self.count, bytes: self.bytes })
    }
}

fn persist_in(
    node: &Arc<Node>,
    sink: &mut dyn FnMut(NodeId, Vec<u8>) -> Result<(), TreeError>,
) -> Result<Checksum, TreeError> {
    if let Some(sum) = node.sum.get() {
        return Ok(*sum);
    }
    if let Body::Inner(inner) = &node.body {
        for child in inner.children.iter() {
            if let Link::Loaded(child) = child.link() {
                persist_in(&child, sink)?;
            }
        }
    }
    let bytes = codec::encode(&node.body, &Child::stored)
        .ok_or(TreeError::Damaged { id: node.id, reason: "a child was not stored before it" })?;
    let sum = Checksum::compute(&bytes);
    sink(node.id, bytes)?;
    Ok(*node.sum.get_or_init(|| sum))
}
