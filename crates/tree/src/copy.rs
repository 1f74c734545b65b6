//! Copying the nodes of a tree to another place, where they get other ids.

use std::cell::Cell;
use std::sync::Arc;

use crate::codec;
use crate::error::TreeError;
use crate::forest::Forest;
use crate::node::{Body, Checksum, Link, Node};
use crate::node_store::NodeId;
use crate::tree::{StoredRoot, Tree};

/// Where a node lies, and its checksum there.
pub type NodeRef = (NodeId, Checksum);

/// The place that nodes are copied to.
pub trait NodeCopy {
    /// Why it can fail.
    type Error: From<TreeError>;

    /// The copy of a node, if it was made before: then nothing below the node is looked at.
    ///
    /// # Errors
    /// When the place cannot be read.
    fn known(&mut self, origin: NodeRef) -> Result<Option<NodeRef>, Self::Error>;

    /// Keeps the copy of a node, which has `level` levels below it, and returns the id that it has there. The copies of
    /// its children were kept before, and it points to them.
    ///
    /// # Errors
    /// When the place cannot be written.
    fn keep(&mut self, origin: NodeRef, level: u8, bytes: &[u8]) -> Result<NodeId, Self::Error>;
}

impl Tree {
    /// Gives the nodes of the tree to `copy`, children before parents and in the order of their keys. The tree itself
    /// stays as it is, and what is read for this is not kept in memory: it takes a path of nodes at a time. Returns how
    /// to open the copy.
    ///
    /// # Errors
    /// When a node cannot be read or is damaged, and what `copy` returned.
    pub fn copy_nodes<E: From<TreeError>>(
        &self,
        forest: &Forest,
        copy: &mut dyn NodeCopy<Error = E>,
    ) -> Result<StoredRoot, E> {
        let (_, (id, sum)) = copy_loaded(&self.root, forest, copy)?;
        Ok(StoredRoot { id, sum, count: self.count, bytes: self.bytes })
    }
}

/// A node where it is, and its copy.
type Copied = (NodeRef, NodeRef);

fn copy_loaded<E: From<TreeError>>(
    node: &Arc<Node>,
    forest: &Forest,
    copy: &mut dyn NodeCopy<Error = E>,
) -> Result<Copied, E> {
    let stored = node.sum.get().map(|sum| (node.id, *sum));
    if let Some(origin) = stored {
        if let Some(known) = copy.known(origin)? {
            return Ok((origin, known));
        }
    }
    copy_body(&node.body, node.id, stored, None, forest, copy)
}

fn copy_stored<E: From<TreeError>>(
    origin: NodeRef,
    forest: &Forest,
    copy: &mut dyn NodeCopy<Error = E>,
) -> Result<Copied, E> {
    if let Some(known) = copy.known(origin)? {
        return Ok((origin, known));
    }
    let (id, sum) = origin;
    let bytes = forest.load_bytes(id, sum)?;
    let body = codec::decode(&bytes).map_err(|error| TreeError::Damaged { id, reason: error.0 })?;
    copy_body(&body, id, Some(origin), Some(bytes), forest, copy)
}

fn copy_body<E: From<TreeError>>(
    body: &Body,
    id: NodeId,
    stored: Option<NodeRef>,
    bytes: Option<Vec<u8>>,
    forest: &Forest,
    copy: &mut dyn NodeCopy<Error = E>,
) -> Result<Copied, E> {
    let (level, children) = match body {
        Body::Leaf(_) => (0, Vec::new()),
        Body::Inner(inner) => {
            let mut children: Vec<Copied> = Vec::with_capacity(inner.children.len());
            for child in inner.children.iter() {
                children.push(match child.link() {
                    Link::Loaded(child) => copy_loaded(&child, forest, copy)?,
                    Link::Stored(child) => copy_stored(*child, forest, copy)?,
                });
            }
            (inner.level, children)
        }
    };
    // A leaf points to nothing, so it is copied as it is.
    let as_it_is = match bytes {
        Some(bytes) => bytes,
        None => encode(body, id, children.iter().map(|(origin, _)| *origin))?,
    };
    let origin = stored.unwrap_or_else(|| (id, Checksum::compute(&as_it_is)));
    if stored.is_none() {
        if let Some(known) = copy.known(origin)? {
            return Ok((origin, known));
        }
    }
    let copied = match body {
        Body::Leaf(_) => as_it_is,
        Body::Inner(_) => encode(body, id, children.iter().map(|(_, copy)| *copy))?,
    };
    let kept = copy.keep(origin, level, &copied)?;
    Ok((origin, (kept, Checksum::compute(&copied))))
}

/// The bytes of a node whose children are `links`, in their order.
fn encode(body: &Body, id: NodeId, links: impl Iterator<Item = NodeRef>) -> Result<Vec<u8>, TreeError> {
    let links: Vec<NodeRef> = links.collect();
    let next = Cell::new(0);
    let link_of = |_: &_| {
        let at = next.replace(next.get() + 1);
        links.get(at).copied()
    };
    codec::encode(body, &link_of).ok_or(TreeError::Damaged { id, reason: "a child was not copied before it" })
}
