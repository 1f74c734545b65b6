//! Building a tree from sorted input: full leaves, no search, no path copied.

use std::sync::Arc;

use crate::children::Children;
use crate::codec;
use crate::error::TreeError;
use crate::forest::Forest;
use crate::node::{Body, Checksum, Child, Inner, Leaf, Link, Node};
use crate::node_store::NodeId;
use crate::records::Records;
use crate::tree::{Tree, KEY_MAX, VALUE_MAX};
use crate::write::{separator, CHILDREN_MAX, LEAF_BYTES, SEPARATOR_BYTES};

/// Encoded nodes that wait to be put, in bytes.
const BATCH_BYTES: usize = 32 << 20;

/// One level that is being filled: its newest node is open.
struct Level {
    separators: Records,
    children: Children,
    /// The separator on the left of this level's open node, if it has a left neighbour.
    left: Option<Vec<u8>>,
}

/// Builds a tree from entries in the order of their keys.
///
/// Nodes are given to the node store as they become full, so that what is built may be larger than memory; they
/// count only once a manifest that names the tree is committed.
pub struct BulkBuilder<'f> {
    forest: &'f Forest,
    records: Records,
    versions: Vec<u64>,
    left: Option<Vec<u8>>,
    last: Vec<u8>,
    levels: Vec<Level>,
    batch: Vec<(NodeId, Vec<u8>)>,
    batch_bytes: usize,
    /// Nodes that the node store was given.
    stored: Vec<NodeId>,
    count: u64,
    bytes: u64,
}

impl<'f> BulkBuilder<'f> {
    /// A builder of one tree.
    pub fn new(forest: &'f Forest) -> Self {
        Self {
            forest,
            records: Records::with_capacity(LEAF_BYTES / 64, LEAF_BYTES + 1024),
            versions: Vec::new(),
            left: None,
            last: Vec::new(),
            levels: Vec::new(),
            batch: Vec::new(),
            batch_bytes: 0,
            stored: Vec::new(),
            count: 0,
            bytes: 0,
        }
    }

    /// Appends an entry, whose key is above that of the one before.
    ///
    /// # Errors
    /// When it is not, when key or value are too long, or when the node store fails.
    pub fn push(&mut self, key: &[u8], version: u64, value: &[u8]) -> Result<(), TreeError> {
        if self.count > 0 && key <= self.last.as_slice() {
            return Err(TreeError::NotSorted { row: self.count });
        }
        if key.len() > KEY_MAX {
            return Err(TreeError::KeyTooLong { len: key.len(), max: KEY_MAX });
        }
        if value.len() > VALUE_MAX {
            return Err(TreeError::ValueTooLong { len: value.len(), max: VALUE_MAX });
        }
        let full = self.records.live_bytes() + Records::bytes_of(key, value) > LEAF_BYTES;
        if full && self.records.len() > 0 {
            let between = separator(&self.last, key).to_vec();
            self.close_leaf(Some(between))?;
        }
        self.records.push_raw(key, value);
        self.versions.push(version);
        self.last.clear();
        self.last.extend_from_slice(key);
        self.count += 1;
        self.bytes += (key.len() + value.len()) as u64;
        Ok(())
    }

    /// Ends the tree.
    ///
    /// # Errors
    /// When the node store fails.
    pub fn finish(mut self) -> Result<Tree, TreeError> {
        self.close_leaf(None)?;
        let mut level = 0;
        loop {
            let top = level + 1 == self.levels.len();
            let only = self.levels[level].children.len() == 1 && self.levels[level].left.is_none();
            if top && only {
                self.flush()?;
                let root = self.levels[level].children.remove(0).get(self.forest)?;
                return Ok(Tree { root, count: self.count, bytes: self.bytes, dropped: Vec::new() });
            }
            self.close_inner(level, None)?;
            level += 1;
        }
    }

    /// Gives the tree up. Returns the nodes that the node store was given for nothing.
    pub fn abandon(self) -> Vec<NodeId> {
        self.stored
    }

    fn close_leaf(&mut self, next: Option<Vec<u8>>) -> Result<(), TreeError> {
        let capacity = (self.records.len() + 1, LEAF_BYTES + 1024);
        let mut records =
            std::mem::replace(&mut self.records, Records::with_capacity(capacity.0, capacity.1));
        records.finish();
        let leaf = Leaf::new(records, std::mem::take(&mut self.versions));
        self.versions.reserve(capacity.0);
        let child = self.close(Body::Leaf(leaf))?;
        let left = std::mem::replace(&mut self.left, next);
        self.add(0, left, child)
    }

    /// Hangs a child below the open node of a level.
    fn add(&mut self, level: usize, separator: Option<Vec<u8>>, child: Child) -> Result<(), TreeError> {
        if level == self.levels.len() {
            self.levels.push(Level {
                separators: Records::default(),
                children: Children::default(),
                left: None,
            });
        }
        let open = &mut self.levels[level];
        let full =
            open.children.len() == CHILDREN_MAX || open.separators.live_bytes() > SEPARATOR_BYTES - 1024;
        match separator {
            Some(key) if full => {
                self.close_inner(level, Some(key))?;
                self.levels[level].children.push(child);
            }
            Some(key) => {
                open.separators.push_raw(&key, &[]);
                open.children.push(child);
            }
            None => open.children.push(child),
        }
        Ok(())
    }

    fn close_inner(&mut self, level: usize, next: Option<Vec<u8>>) -> Result<(), TreeError> {
        let open = &mut self.levels[level];
        let mut separators = std::mem::take(&mut open.separators);
        separators.finish();
        let inner = Inner {
            level: level as u8 + 1,
            separators: Arc::new(separators),
            children: std::mem::take(&mut open.children),
        };
        let left = std::mem::replace(&mut open.left, next);
        let child = self.close(Body::Inner(inner))?;
        self.add(level + 1, left, child)
    }

    /// Encodes a node and queues it. It stays in memory if there is room.
    fn close(&mut self, body: Body) -> Result<Child, TreeError> {
        let node = Arc::new(Node::new(self.forest, body));
        let missing = TreeError::Damaged { id: node.id, reason: "a child was not stored before it" };
        let bytes = codec::encode(&node.body, &|child| child.stored()).ok_or(missing)?;
        let sum = Checksum::compute(&bytes);
        let id = node.id;
        node.sum.get_or_init(|| sum);
        self.batch_bytes += bytes.len();
        self.batch.push((id, bytes));
        // What is kept nobody else can forget until the tree is whole: half of the room is theirs.
        let keep = self.forest.excess_with(self.forest.budget() / 2) == 0;
        if self.batch_bytes >= BATCH_BYTES {
            self.flush()?;
        }
        Ok(if keep { Child::loaded(node) } else { Child::new(Link::stored(id, sum)) })
    }

    fn flush(&mut self) -> Result<(), TreeError> {
        self.stored.extend(self.batch.iter().map(|(id, _)| *id));
        self.forest.store().put(&self.batch)?;
        self.batch.clear();
        self.batch_bytes = 0;
        Ok(())
    }
}
