//! Writing: insert, replace, remove. A node is copied if anybody else holds it, and changed in place otherwise.

use std::sync::Arc;

use crate::error::TreeError;
use crate::forest::Forest;
use crate::node::{Body, Child, Inner, Leaf, Node};
use crate::node_store::NodeId;
use crate::records::{common_prefix, Records};
use crate::tree::{Tree, KEY_MAX, VALUE_MAX};

/// A leaf with more bytes of records is split, if it has two.
pub(crate) const LEAF_BYTES: usize = 8 * 1024;

/// An inner node with more children is split.
pub(crate) const CHILDREN_MAX: usize = 512;

/// An inner node with more bytes of separators is split, if it has four children.
pub(crate) const SEPARATOR_BYTES: usize = 16 * 1024;

/// What an insert changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replaced {
    /// The length of the value that was there, if one was.
    pub old_value_len: Option<usize>,
}

/// What a write passes down.
struct Edit<'a> {
    forest: &'a Forest,
    mark: NodeId,
    dropped: &'a mut Vec<NodeId>,
}

/// A separator and the node on its right.
type Split = Option<(Vec<u8>, Arc<Node>)>;

impl Tree {
    /// Puts an entry, replacing one under the same key.
    ///
    /// # Errors
    /// When key or value are too long, or a node cannot be read. The tree is then as it was.
    pub fn insert(
        &mut self,
        forest: &Forest,
        key: &[u8],
        version: u64,
        value: &[u8],
    ) -> Result<Replaced, TreeError> {
        if key.len() > KEY_MAX {
            return Err(TreeError::KeyTooLong { len: key.len(), max: KEY_MAX });
        }
        if value.len() > VALUE_MAX {
            return Err(TreeError::ValueTooLong { len: value.len(), max: VALUE_MAX });
        }
        let mut edit = Edit { forest, mark: forest.mark(), dropped: &mut self.dropped };
        let (old_value_len, split) = insert_in(&mut self.root, &mut edit, key, version, value)?;
        if let Some((separator, right)) = split {
            let left = self.root.clone();
            let mut separators = Records::default();
            separators.push(&separator, &[]);
            let level = left.level() + 1;
            let inner = Inner {
                level,
                separators: Arc::new(separators),
                children: [left, right].map(Child::loaded).into_iter().collect(),
            };
            self.root = Arc::new(Node::new(forest, Body::Inner(inner)));
        }
        match old_value_len {
            Some(old) => self.bytes = self.bytes - old as u64 + value.len() as u64,
            None => {
                self.count += 1;
                self.bytes += (key.len() + value.len()) as u64;
            }
        }
        Ok(Replaced { old_value_len })
    }

    /// Removes an entry. Returns whether there was one.
    ///
    /// # Errors
    /// When a node cannot be read. The tree is then as it was.
    pub fn remove(&mut self, forest: &Forest, key: &[u8]) -> Result<bool, TreeError> {
        // Without this look, a key that is not there would copy its path.
        let Some(value_len) = self.get(forest, key, |entry| entry.value.len())? else { return Ok(false) };
        let mut edit = Edit { forest, mark: forest.mark(), dropped: &mut self.dropped };
        remove_in(&mut self.root, &mut edit, key)?;
        self.count -= 1;
        self.bytes -= (key.len() + value_len) as u64;
        loop {
            let only = match &self.root.body {
                Body::Inner(inner) if inner.children.len() == 1 => match inner.children.get(0).get(forest) {
                    Ok(only) => only,
                    // A root with one child is right, if tall: the next write retries.
                    Err(_) => return Ok(true),
                },
                Body::Inner(inner) if inner.children.len() == 0 => {
                    Arc::new(Node::new(forest, Body::Leaf(Leaf::default())))
                }
                _ => return Ok(true),
            };
            if self.root.id < forest.mark() {
                self.dropped.push(self.root.id);
            }
            self.root = only;
        }
    }

    /// Loads the path to a key, so that a write to it cannot fail.
    ///
    /// # Errors
    /// When a node cannot be read or is damaged.
    pub fn prepare(&self, forest: &Forest, key: &[u8]) -> Result<(), TreeError> {
        self.get(forest, key, |_| ()).map(|_| ())
    }
}

/// The node for writing: itself if nobody else holds it, else a copy.
fn writable<'n>(slot: &'n mut Arc<Node>, edit: &mut Edit<'_>) -> &'n mut Node {
    let stored = slot.id < edit.mark || slot.sum.get().is_some();
    let shared = Arc::strong_count(slot) != 1;
    // A shared node may yet be stored by whoever else holds it.
    if (stored || shared) && edit.forest.stores() {
        edit.dropped.push(slot.id);
    }
    // Nobody can get hold of the node meanwhile: there are no weak pointers, and this is the only strong one.
    if shared {
        *slot = Arc::new(slot.copied(edit.forest));
    } else if stored {
        Arc::get_mut(slot).expect("the only pointer to a node").renumber(edit.forest);
    }
    Arc::get_mut(slot).expect("the only pointer to a node")
}

fn insert_in(
    slot: &mut Arc<Node>,
    edit: &mut Edit<'_>,
    key: &[u8],
    version: u64,
    value: &[u8],
) -> Result<(Option<usize>, Split), TreeError> {
    let forest = edit.forest;
    let node = writable(slot, edit);
    let (old, split) = match &mut node.body {
        Body::Leaf(_) => {
            node.invalidate();
            let Body::Leaf(leaf) = &mut node.body else { unreachable!("a leaf stays a leaf") };
            insert_in_leaf(leaf, forest, key, version, value)
        }
        Body::Inner(inner) => {
            let at = inner.child_of(key);
            let child = inner.children.get_mut(at).get_mut(forest)?;
            let (old, split) = insert_in(child, edit, key, version, value)?;
            let Some((separator, right)) = split else { return Ok((old, None)) };
            Arc::make_mut(&mut inner.separators).insert(at, &separator, &[]);
            inner.children.insert(at + 1, Child::loaded(right));
            (old, split_inner(inner, forest, at + 1))
        }
    };
    node.recharge();
    Ok((old, split))
}

fn insert_in_leaf(
    leaf: &mut Leaf,
    forest: &Forest,
    key: &[u8],
    version: u64,
    value: &[u8],
) -> (Option<usize>, Split) {
    let (at, old) = match leaf.records.search(key) {
        Ok(at) => {
            let old = leaf.records.entry(at).1.len();
            leaf.records.replace(at, value);
            leaf.versions[at] = version;
            (at, Some(old))
        }
        Err(at) => {
            leaf.records.insert(at, key, value);
            leaf.versions.insert(at, version);
            (at, None)
        }
    };
    let count = leaf.records.len();
    if leaf.records.live_bytes() <= LEAF_BYTES || count < 2 {
        return (old, None);
    }
    // Keys that come in order leave full leaves behind.
    let cut = if at + 1 == count && old.is_none() { at } else { leaf.records.middle() };
    let records = leaf.records.split_off(cut);
    let versions = leaf.versions.split_off(cut);
    let separator = separator(leaf.records.key(cut - 1), records.key(0)).to_vec();
    (old, Some((separator, Arc::new(Node::new(forest, Body::Leaf(Leaf::new(records, versions)))))))
}

/// The shortest key that is above `left` and not above `right`.
pub(crate) fn separator<'k>(left: &[u8], right: &'k [u8]) -> &'k [u8] {
    &right[..common_prefix(left, right) + 1]
}

fn too_big(inner: &Inner) -> bool {
    let children = inner.children.len();
    children > CHILDREN_MAX || (children >= 4 && inner.separators.live_bytes() > SEPARATOR_BYTES)
}

fn split_inner(inner: &mut Inner, forest: &Forest, inserted: usize) -> Split {
    if !too_big(inner) {
        return None;
    }
    let children = inner.children.len();
    let cut = if inserted + 1 == children { children - 2 } else { children / 2 };
    let right_children = inner.children.split_off(cut);
    let mut right = Arc::make_mut(&mut inner.separators).split_off(cut - 1);
    let between = right.key(0).to_vec();
    right.remove(0);
    right.tighten();
    let node = Inner { level: inner.level, separators: Arc::new(right), children: right_children };
    Some((between, Arc::new(Node::new(forest, Body::Inner(node)))))
}

fn remove_in(slot: &mut Arc<Node>, edit: &mut Edit<'_>, key: &[u8]) -> Result<(), TreeError> {
    let forest = edit.forest;
    let node = writable(slot, edit);
    node.invalidate();
    match &mut node.body {
        Body::Leaf(leaf) => {
            if let Ok(at) = leaf.records.search(key) {
                leaf.records.remove(at);
                leaf.versions.remove(at);
            }
        }
        Body::Inner(inner) => {
            let at = inner.child_of(key);
            remove_in(inner.children.get_mut(at).get_mut(forest)?, edit, key)?;
            rebalance(inner, edit, at);
        }
    }
    node.recharge();
    Ok(())
}

/// How full a node is: 0 when empty, above 100 when it must be split.
fn fullness(node: &Node) -> usize {
    match &node.body {
        Body::Leaf(leaf) => leaf.records.live_bytes() * 100 / LEAF_BYTES,
        Body::Inner(inner) => {
            let children = inner.children.len() * 100 / CHILDREN_MAX;
            children.max(inner.separators.live_bytes() * 100 / SEPARATOR_BYTES)
        }
    }
}

fn is_hollow(node: &Node) -> bool {
    match &node.body {
        Body::Leaf(leaf) => leaf.records.len() == 0,
        Body::Inner(inner) => inner.children.len() == 0,
    }
}

/// Takes an empty child away, and joins a sparse one with a neighbour.
fn rebalance(inner: &mut Inner, edit: &mut Edit<'_>, at: usize) {
    let Ok(child) = inner.children.get_mut(at).get_mut(edit.forest) else { return };
    if is_hollow(child) {
        // It was made writable on the way down, so its number was never stored.
        inner.children.remove(at);
        if inner.separators.len() > 0 {
            let separators = Arc::make_mut(&mut inner.separators);
            separators.remove(at.saturating_sub(1));
            separators.tighten();
        }
        return;
    }
    if fullness(child) >= 25 || inner.children.len() < 2 {
        return;
    }
    let left = if at + 1 < inner.children.len() { at } else { at - 1 };
    // A neighbour that cannot be read now is left alone: the tree is right without the join.
    let mut full = 0;
    for index in [left, left + 1] {
        match inner.children.get_mut(index).get_mut(edit.forest) {
            Ok(child) => full += fullness(child),
            Err(_) => return,
        }
    }
    if full > 75 {
        return;
    }
    let right = inner.children.remove(left + 1);
    let between = inner.separators.key(left).to_vec();
    let separators = Arc::make_mut(&mut inner.separators);
    separators.remove(left);
    separators.tighten();
    join(inner, edit, left, right, &between);
}

fn join(inner: &mut Inner, edit: &mut Edit<'_>, left: usize, mut right: Child, between: &[u8]) {
    let forest = edit.forest;
    let (Ok(left), Ok(right)) = (inner.children.get_mut(left).get_mut(forest), right.get_mut(forest)) else {
        unreachable!("both were loaded when their fullness was looked at");
    };
    let left = writable(left, edit);
    // Copied or not, the right one is taken apart: as a tree's own it needs no number of its own.
    let right = writable(right, edit);
    left.invalidate();
    match (&mut left.body, &mut right.body) {
        (Body::Leaf(left), Body::Leaf(right)) => {
            for index in 0..right.records.len() {
                let (key, value) = right.records.entry(index);
                left.records.push(key, value);
            }
            left.versions.append(&mut right.versions);
        }
        (Body::Inner(left), Body::Inner(right)) => {
            let separators = Arc::make_mut(&mut left.separators);
            separators.push(between, &[]);
            for index in 0..right.separators.len() {
                separators.push(right.separators.key(index), &[]);
            }
            left.children.append(std::mem::take(&mut right.children));
        }
        _ => unreachable!("neighbours have the same level"),
    }
    left.recharge();
}
