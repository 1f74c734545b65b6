//! A tree: a root, how much hangs on it, and reading from it.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::children::Chunk;
use crate::error::TreeError;
use crate::forest::Forest;
use crate::node::{Body, Checksum, Inner, Leaf, Node};
use crate::node_store::NodeId;
use crate::range::KeyRange;
use crate::sidecar::Sidecar;

/// The longest key in bytes.
pub const KEY_MAX: usize = u16::MAX as usize;

/// The longest value in bytes.
pub const VALUE_MAX: usize = 1 << 30;

/// One entry of a tree, where it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The version at which the entry was written: the same version in two trees means the same entry.
    pub version: u64,
    /// The value.
    pub value: &'a [u8],
}

/// Where a stored tree begins, and what hangs on it: all that is needed to open it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredRoot {
    /// The id of the root node.
    pub id: NodeId,
    /// The checksum of the root node. It covers the whole tree, since each node holds those of its children.
    pub sum: Checksum,
    /// Entries in the tree.
    pub count: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
}

/// An ordered map from bytes to bytes in which cloning costs nothing: the clone shares every node until one of the two
/// changes it.
///
/// ```
/// use std::sync::Arc;
/// use duramen_tree::{Forest, MemoryNodeStore, Tree};
///
/// let forest = Forest::new(Arc::new(MemoryNodeStore::new()), 1, 64 << 20);
/// let mut tree = Tree::new(&forest);
/// tree.insert(&forest, b"birch", 1, b"white")?;
/// let snapshot = tree.clone();
/// tree.insert(&forest, b"birch", 2, b"silver")?;
///
/// let bark = |tree: &Tree| tree.get(&forest, b"birch", |entry| entry.value.to_vec());
/// assert_eq!(bark(&tree)?.as_deref(), Some(&b"silver"[..]));
/// assert_eq!(bark(&snapshot)?.as_deref(), Some(&b"white"[..]));
/// # Ok::<(), duramen_tree::TreeError>(())
/// ```
pub struct Tree {
    pub(crate) root: Arc<Node>,
    pub(crate) count: u64,
    pub(crate) bytes: u64,
    /// Stored nodes that this tree no longer needs.
    pub(crate) dropped: Vec<NodeId>,
}

impl Clone for Tree {
    /// A snapshot. What the original dropped is the original's to report.
    fn clone(&self) -> Self {
        Self { root: self.root.clone(), count: self.count, bytes: self.bytes, dropped: Vec::new() }
    }
}

impl Tree {
    /// An empty tree.
    pub fn new(forest: &Forest) -> Self {
        let root = Arc::new(Node::new(forest, Body::Leaf(Leaf::default())));
        Self { root, count: 0, bytes: 0, dropped: Vec::new() }
    }

    /// Opens a tree that was stored. Only its root is read; the rest is read when it is needed.
    ///
    /// # Errors
    /// When the root cannot be read or is damaged.
    pub fn open(forest: &Forest, root: &StoredRoot) -> Result<Self, TreeError> {
        let node = forest.load(root.id, root.sum)?;
        Ok(Self { root: node, count: root.count, bytes: root.bytes, dropped: Vec::new() })
    }

    /// Entries in the tree.
    pub fn len(&self) -> u64 {
        self.count
    }

    /// Whether the tree has no entry.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes of all keys and values.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The id of its root. A tree that is written has another one, if anybody else has the tree or it is stored.
    pub fn id(&self) -> NodeId {
        self.root.id
    }

    /// Whether two trees are one and the same, without a look at what is in them.
    pub fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.root, &other.root) || self.root.id == other.root.id
    }

    /// Whether no other tree has this tree's root, so that dropping it frees memory.
    pub fn is_sole(&self) -> bool {
        Arc::strong_count(&self.root) == 1
    }

    /// The ids of stored nodes that this tree stopped using since this was asked before.
    pub fn take_dropped(&mut self) -> Vec<NodeId> {
        std::mem::take(&mut self.dropped)
    }

    /// Whether [`take_dropped`](Self::take_dropped) has anything to give.
    pub fn has_dropped(&self) -> bool {
        !self.dropped.is_empty()
    }

    /// Finds an entry and lets `read` see it.
    ///
    /// # Errors
    /// When a node cannot be read or is damaged.
    #[inline]
    pub fn get<R>(
        &self,
        forest: &Forest,
        key: &[u8],
        read: impl FnOnce(Entry<'_>) -> R,
    ) -> Result<Option<R>, TreeError> {
        get_in(&self.root, forest, key, read)
    }

    /// Shows the entries of a range in order, or backwards if the range says so, until `row` breaks off.
    ///
    /// # Errors
    /// When a node cannot be read or is damaged.
    pub fn scan(
        &self,
        forest: &Forest,
        range: &KeyRange<'_>,
        mut row: impl FnMut(Entry<'_>) -> ControlFlow<()>,
    ) -> Result<(), TreeError> {
        let mut leaf = |leaf: &Leaf, from: usize, to: usize| {
            let mut visit = |index: usize| {
                let (key, value) = leaf.records.entry(index);
                row(Entry { key, version: leaf.versions[index], value })
            };
            match range.backwards {
                false => (from..to).try_for_each(&mut visit),
                true => (from..to).rev().try_for_each(&mut visit),
            }
        };
        walk(&self.root, forest, range, &mut leaf).map(|_| ())
    }

    /// Shows the leaves of a range, for readers that keep something derived beside each.
    ///
    /// # Errors
    /// When a node cannot be read or is damaged.
    pub fn scan_leaves(
        &self,
        forest: &Forest,
        range: &KeyRange<'_>,
        mut visit: impl FnMut(LeafView<'_>) -> ControlFlow<()>,
    ) -> Result<(), TreeError> {
        let mut leaf = |leaf: &Leaf, from: usize, to: usize| visit(LeafView { forest, leaf, from, to });
        walk(&self.root, forest, range, &mut leaf).map(|_| ())
    }

    /// Shows the runs of neighbouring leaves that a range touches, in order, whatever direction the range has. It reads
    /// no leaf: for readers that keep something derived beside each run.
    ///
    /// # Errors
    /// When a node cannot be read or is damaged.
    pub fn scan_runs(
        &self,
        forest: &Forest,
        range: &KeyRange<'_>,
        mut visit: impl FnMut(RunView<'_>) -> ControlFlow<()>,
    ) -> Result<(), TreeError> {
        walk_runs(&self.root, forest, range, &mut visit).map(|_| ())
    }

    /// The number of entries in a range. It reads each of its leaves, but no entry.
    ///
    /// # Errors
    /// When a node cannot be read or is damaged.
    pub fn count_range(&self, forest: &Forest, range: &KeyRange<'_>) -> Result<u64, TreeError> {
        let mut count = 0;
        let mut leaf = |_: &Leaf, from: usize, to: usize| {
            count += (to - from) as u64;
            ControlFlow::Continue(())
        };
        walk(&self.root, forest, range, &mut leaf).map(|_| ())?;
        Ok(count)
    }
}

impl std::fmt::Debug for Tree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tree").field("root", &self.root.id).field("count", &self.count).finish()
    }
}

/// A leaf, and which of its entries a scan asked for.
#[derive(Clone, Copy)]
pub struct LeafView<'a> {
    forest: &'a Forest,
    leaf: &'a Leaf,
    from: usize,
    to: usize,
}

impl<'a> LeafView<'a> {
    /// Entries of the leaf in the range.
    pub fn len(&self) -> usize {
        self.to - self.from
    }

    /// Whether no entry of the leaf is in the range.
    pub fn is_empty(&self) -> bool {
        self.to == self.from
    }

    /// An entry by its place in the range, from 0.
    ///
    /// # Panics
    /// When there is no such place.
    pub fn entry(&self, index: usize) -> Entry<'a> {
        let index = self.from + index;
        let (key, value) = self.leaf.records.entry(index);
        Entry { key, version: self.leaf.versions[index], value }
    }

    /// What a reader derived from this leaf before, or what `derive` makes of it now. It is kept as long as the leaf does not change and
    /// memory is not short, is shared by all trees that share the leaf, and must depend on nothing but its entries. A leaf keeps one such
    /// thing: another type is not kept.
    ///
    /// # Errors
    /// Those of `derive`.
    pub fn sidecar<T: Sidecar, E>(&self, derive: impl FnOnce() -> Result<T, E>) -> Result<Arc<T>, E> {
        self.leaf.sidecar().keep(self.forest, derive)
    }
}

/// Some neighbouring leaves, at most 32, some of which a scan asked for.
#[derive(Clone, Copy)]
pub struct RunView<'a> {
    forest: &'a Forest,
    range: &'a KeyRange<'a>,
    run: Run<'a>,
}

#[derive(Clone, Copy)]
enum Run<'a> {
    /// The one leaf of a small tree.
    Leaf(&'a Leaf),
    Chunk(&'a Chunk),
}

impl RunView<'_> {
    /// Shows the leaves of the run that have entries in the range.
    ///
    /// # Errors
    /// When a leaf cannot be read or is damaged.
    pub fn leaves(&self, mut visit: impl FnMut(LeafView<'_>) -> ControlFlow<()>) -> Result<(), TreeError> {
        let mut leaf =
            |leaf: &Leaf, from: usize, to: usize| visit(LeafView { forest: self.forest, leaf, from, to });
        let range = KeyRange { backwards: false, ..*self.range };
        match self.run {
            Run::Leaf(only) => {
                let (from, to) = leaf_part(only, &range);
                if from < to {
                    let _ = leaf(only, from, to);
                }
            }
            Run::Chunk(chunk) => {
                for child in chunk.iter() {
                    if child.with(self.forest, |node| walk(node, self.forest, &range, &mut leaf))??.is_break()
                    {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// What a reader derived from this run before, or what `derive` makes of it now. It is kept as long as no leaf of
    /// the run changes and memory is not short, is shared by all trees that share the run, and must depend on nothing but its entries: if it
    /// is about those in a range only, it must say which, for whoever finds it. What has no place is not kept: a run
    /// keeps one such thing, and the only leaf of a small tree none.
    ///
    /// # Errors
    /// Those of `derive`.
    pub fn sidecar<T: Sidecar, E>(&self, derive: impl FnOnce() -> Result<T, E>) -> Result<Arc<T>, E> {
        match self.run {
            Run::Leaf(_) => derive().map(Arc::new),
            Run::Chunk(chunk) => chunk.sidecar().keep(self.forest, derive),
        }
    }
}

fn get_in<R>(
    node: &Node,
    forest: &Forest,
    key: &[u8],
    read: impl FnOnce(Entry<'_>) -> R,
) -> Result<Option<R>, TreeError> {
    match &node.body {
        Body::Leaf(leaf) => Ok(leaf.records.search(key).ok().map(|index| {
            let (key, value) = leaf.records.entry(index);
            read(Entry { key, version: leaf.versions[index], value })
        })),
        Body::Inner(inner) => {
            inner.children.get(inner.child_of(key)).with(forest, |child| get_in(child, forest, key, read))?
        }
    }
}

type LeafVisitor<'v> = dyn FnMut(&Leaf, usize, usize) -> ControlFlow<()> + 'v;

/// Visits the leaves that a range touches.
fn walk(
    node: &Node,
    forest: &Forest,
    range: &KeyRange<'_>,
    visit: &mut LeafVisitor<'_>,
) -> Result<ControlFlow<()>, TreeError> {
    match &node.body {
        Body::Leaf(leaf) => {
            let (from, to) = leaf_part(leaf, range);
            Ok(if from < to { visit(leaf, from, to) } else { ControlFlow::Continue(()) })
        }
        Body::Inner(inner) => {
            let (from, to) = child_part(inner, range);
            for step in 0..to - from {
                let index = if range.backwards { to - 1 - step } else { from + step };
                let flow =
                    inner.children.get(index).with(forest, |child| walk(child, forest, range, visit))??;
                if flow.is_break() {
                    return Ok(flow);
                }
            }
            Ok(ControlFlow::Continue(()))
        }
    }
}

/// Visits the runs of leaves that a range touches.
fn walk_runs(
    node: &Node,
    forest: &Forest,
    range: &KeyRange<'_>,
    visit: &mut dyn FnMut(RunView<'_>) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, TreeError> {
    match &node.body {
        Body::Leaf(leaf) => Ok(visit(RunView { forest, range, run: Run::Leaf(leaf) })),
        Body::Inner(inner) => {
            let (from, to) = child_part(inner, range);
            if inner.level == 1 {
                let mut chunks = inner.children.chunks(from, to).iter();
                return Ok(
                    chunks.try_for_each(|chunk| visit(RunView { forest, range, run: Run::Chunk(chunk) }))
                );
            }
            for index in from..to {
                let flow = inner
                    .children
                    .get(index)
                    .with(forest, |child| walk_runs(child, forest, range, visit))??;
                if flow.is_break() {
                    return Ok(flow);
                }
            }
            Ok(ControlFlow::Continue(()))
        }
    }
}

/// The records of a leaf that are in a range.
pub(crate) fn leaf_part(leaf: &Leaf, range: &KeyRange<'_>) -> (usize, usize) {
    let from = if range.start.is_empty() { 0 } else { leaf.records.lower_bound(range.start) };
    let to = match range.end {
        Some(end) => leaf.records.lower_bound(end),
        None => leaf.records.len(),
    };
    (from, to)
}

/// The children of an inner node that may have entries in a range.
pub(crate) fn child_part(inner: &Inner, range: &KeyRange<'_>) -> (usize, usize) {
    let from = if range.start.is_empty() { 0 } else { inner.child_of(range.start) };
    let to = match range.end {
        // A separator equal to the end begins what the range leaves out.
        Some(end) => inner.separators.lower_bound(end) + 1,
        None => inner.children.len(),
    };
    (from, to.max(from))
}
