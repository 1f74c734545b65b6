//! Finding stored nodes that nobody needs any more.

use std::collections::HashSet;

use crate::error::TreeError;
use crate::forest::Forest;
use crate::node::{Body, Child, Node};
use crate::node_store::NodeId;
use crate::tree::Tree;

impl Tree {
    /// Shows the ids of the nodes with an id of `bound` or above. Below such a bound that is at or above the id of the
    /// first node made after the tree was last shared, what is passed to `show` belongs to this tree alone. Costs what it shows.
    ///
    /// # Errors
    /// When a node cannot be read or is damaged; `show` has been called for some ids by then.
    pub fn ids_from(
        &self,
        forest: &Forest,
        bound: NodeId,
        show: &mut dyn FnMut(NodeId),
    ) -> Result<(), TreeError> {
        if self.root.id >= bound {
            show(self.root.id);
            ids_in(&self.root, forest, bound, show)?;
        }
        Ok(())
    }

    /// Memory and stored bytes are shared between trees; this is what this tree alone has: the bytes of keys and
    /// values in leaves with an id of `bound` or above.
    ///
    /// # Errors
    /// When a node cannot be read or is damaged.
    pub fn bytes_from(&self, forest: &Forest, bound: NodeId) -> Result<u64, TreeError> {
        if self.root.id < bound {
            return Ok(0);
        }
        bytes_in(&self.root, forest, bound)
    }

    /// Shows the ids of all nodes of the tree, without reading leaves, and without going below an inner node of which `passed` holds
    /// the id: those that it goes below are added to it. A leaf may be shown again for each inner node above it.
    ///
    /// # Errors
    /// When a node cannot be read or is damaged: then nothing may be concluded from what was not shown.
    pub fn reach(
        &self,
        forest: &Forest,
        passed: &mut HashSet<NodeId>,
        show: &mut dyn FnMut(NodeId),
    ) -> Result<(), TreeError> {
        show(self.root.id);
        reach_in(&self.root, forest, passed, show)
    }
}

fn ids_in(
    node: &Node,
    forest: &Forest,
    bound: NodeId,
    show: &mut dyn FnMut(NodeId),
) -> Result<(), TreeError> {
    let Body::Inner(inner) = &node.body else { return Ok(()) };
    for child in inner.children.iter() {
        let id = child.id();
        if id < bound {
            continue;
        }
        show(id);
        if inner.level > 1 {
            child.with(forest, |child| ids_in(child, forest, bound, show))??;
        }
    }
    Ok(())
}

fn bytes_in(node: &Node, forest: &Forest, bound: NodeId) -> Result<u64, TreeError> {
    let below = |child: &Child| -> Result<u64, TreeError> {
        if child.id() < bound {
            return Ok(0);
        }
        child.with(forest, |child| bytes_in(child, forest, bound))?
    };
    match &node.body {
        Body::Leaf(leaf) => Ok((0..leaf.records.len())
            .map(|index| {
                let (key, value) = leaf.records.entry(index);
                (key.len() + value.len()) as u64
            })
            .sum()),
        Body::Inner(inner) => inner.children.iter().map(below).sum(),
    }
}

fn reach_in(
    node: &Node,
    forest: &Forest,
    passed: &mut HashSet<NodeId>,
    show: &mut dyn FnMut(NodeId),
) -> Result<(), TreeError> {
    let Body::Inner(inner) = &node.body else { return Ok(()) };
    if !passed.insert(node.id) {
        return Ok(());
    }
    for child in inner.children.iter() {
        let id = child.id();
        show(id);
        if inner.level > 1 && !passed.contains(&id) {
            child.with(forest, |child| reach_in(child, forest, passed, show))??;
        }
    }
    Ok(())
}
