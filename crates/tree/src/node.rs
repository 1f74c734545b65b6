//! A node: a leaf with records, or an inner node with children.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::RwLock;

use crate::children::Children;
use crate::error::TreeError;
use crate::forest::{Forest, Meter};
use crate::node_store::NodeId;
use crate::records::Records;
use crate::sidecar::Slot;

/// XXH3 with 128 bits over the encoded bytes of a node, kept where the node is pointed at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Checksum(pub [u8; 16]);

impl Checksum {
    /// The checksum of encoded bytes.
    pub fn compute(bytes: &[u8]) -> Self {
        Self(xxhash_rust::xxh3::xxh3_128(bytes).to_le_bytes())
    }
}

/// A node in memory. It is written only by a tree that holds it alone.
pub(crate) struct Node {
    /// Changed whenever the contents change and anybody could hold them under the old number.
    pub(crate) id: NodeId,
    /// Set when the node was encoded for its node store: the node never changes under this id again.
    pub(crate) sum: OnceLock<Checksum>,
    /// Read since the evictor came by.
    touched: AtomicBool,
    pub(crate) body: Body,
    /// Memory that was reported, in bytes.
    charged: usize,
    meter: Arc<Meter>,
}

pub(crate) enum Body {
    Leaf(Leaf),
    Inner(Inner),
}

/// Records with the version at which each was written.
#[derive(Default)]
pub(crate) struct Leaf {
    pub(crate) records: Records,
    pub(crate) versions: Vec<u64>,
    /// What a reader derived from the records and wants to find again.
    sidecar: Slot,
}

/// Children, and between each two of them a separator: at most the first key on its right, above all keys on its left.
pub(crate) struct Inner {
    /// 1 above leaves.
    pub(crate) level: u8,
    /// Shared by copies until one of them changes it.
    pub(crate) separators: Arc<Records>,
    pub(crate) children: Children,
}

/// A pointer to a child: the node itself, or where it is stored.
///
/// It is read recursively: a reader may read again inside, while a writer that waits to load must not come between.
pub(crate) struct Child(RwLock<Link>);

#[derive(Clone)]
pub(crate) enum Link {
    Loaded(Arc<Node>),
    Stored(Box<(NodeId, Checksum)>),
}

impl Link {
    pub(crate) fn stored(id: NodeId, sum: Checksum) -> Self {
        Self::Stored(Box::new((id, sum)))
    }
}

impl Leaf {
    pub(crate) fn new(records: Records, versions: Vec<u64>) -> Self {
        Self { records, versions, sidecar: Slot::default() }
    }

    fn copied(&self) -> Self {
        let mut versions = Vec::with_capacity(self.versions.len() + 8);
        versions.extend_from_slice(&self.versions);
        Self::new(self.records.clone(), versions)
    }

    pub(crate) fn sidecar(&self) -> &Slot {
        &self.sidecar
    }
}

impl Inner {
    /// The child that holds a key, if any does.
    #[inline]
    pub(crate) fn child_of(&self, key: &[u8]) -> usize {
        match self.separators.search(key) {
            Ok(at) => at + 1,
            Err(at) => at,
        }
    }

    fn copied(&self) -> Self {
        Self { level: self.level, separators: self.separators.clone(), children: self.children.clone() }
    }
}

impl Child {
    pub(crate) fn new(link: Link) -> Self {
        Self(RwLock::new(link))
    }

    pub(crate) fn loaded(node: Arc<Node>) -> Self {
        Self::new(Link::Loaded(node))
    }

    pub(crate) fn link(&self) -> Link {
        self.0.read_recursive().clone()
    }

    /// Reads the child where it is, loading it if need be.
    #[inline]
    pub(crate) fn with<R>(&self, forest: &Forest, read: impl FnOnce(&Node) -> R) -> Result<R, TreeError> {
        {
            let link = self.0.read_recursive();
            if let Link::Loaded(node) = &*link {
                node.touch();
                forest.meter().count_hit();
                return Ok(read(node));
            }
        }
        let node = self.load(forest)?;
        Ok(read(&node))
    }

    /// The child, loaded if need be.
    pub(crate) fn get(&self, forest: &Forest) -> Result<Arc<Node>, TreeError> {
        if let Link::Loaded(node) = &*self.0.read_recursive() {
            node.touch();
            return Ok(node.clone());
        }
        self.load(forest)
    }

    /// Loads the child. It stays linked only while the memory budget has room, so that a scan of everything leaves
    /// what others use in memory.
    #[cold]
    fn load(&self, forest: &Forest) -> Result<Arc<Node>, TreeError> {
        let mut link = self.0.write();
        let (id, sum) = match &*link {
            Link::Loaded(node) => return Ok(node.clone()),
            Link::Stored(stored) => **stored,
        };
        let node = forest.load(id, sum)?;
        if forest.has_room() {
            *link = Link::Loaded(node.clone());
        }
        Ok(node)
    }

    /// The child for writing: loaded and linked, whatever the budget says.
    pub(crate) fn get_mut(&mut self, forest: &Forest) -> Result<&mut Arc<Node>, TreeError> {
        let link = self.0.get_mut();
        if let Link::Stored(stored) = link {
            *link = Link::Loaded(forest.load(stored.0, stored.1)?);
        }
        match link {
            Link::Loaded(node) => Ok(node),
            Link::Stored(_) => unreachable!("the child was loaded just now"),
        }
    }

    /// Forgets a loaded child that is stored, if nobody is reading it now. Returns whether it was one.
    pub(crate) fn unload(&self, may: impl FnOnce(&Node) -> bool) -> bool {
        let Some(mut link) = self.0.try_write() else { return false };
        let stored = match &*link {
            Link::Loaded(node) if may(node) => node.sum.get().map(|sum| (node.id, *sum)),
            _ => None,
        };
        let Some(stored) = stored else { return false };
        *link = Link::stored(stored.0, stored.1);
        true
    }

    /// Where the child is stored, if it is.
    pub(crate) fn stored(&self) -> Option<(NodeId, Checksum)> {
        match &*self.0.read_recursive() {
            Link::Loaded(node) => node.sum.get().map(|sum| (node.id, *sum)),
            Link::Stored(stored) => Some(**stored),
        }
    }

    /// Whether the child is not in memory.
    pub(crate) fn is_stored(&self) -> bool {
        matches!(&*self.0.read_recursive(), Link::Stored(_))
    }

    /// Whether two pointers lead to one node. Pointers to nodes in memory are compared first: to read the ids of all
    /// children of two trees costs more than the rest of a diff.
    pub(crate) fn same(&self, other: &Self) -> bool {
        {
            let (left, right) = (self.0.read_recursive(), other.0.read_recursive());
            if let (Link::Loaded(left), Link::Loaded(right)) = (&*left, &*right) {
                if Arc::ptr_eq(left, right) {
                    return true;
                }
            }
        }
        self.id() == other.id()
    }

    /// The id of the child, loaded or not.
    pub(crate) fn id(&self) -> NodeId {
        match &*self.0.read_recursive() {
            Link::Loaded(node) => node.id,
            Link::Stored(stored) => stored.0,
        }
    }
}

impl Node {
    pub(crate) fn new(forest: &Forest, body: Body) -> Self {
        Self::with_id(forest, forest.fresh_id(), OnceLock::new(), body)
    }

    pub(crate) fn with_id(forest: &Forest, id: NodeId, sum: OnceLock<Checksum>, body: Body) -> Self {
        let mut node =
            Self { id, sum, touched: AtomicBool::new(true), body, charged: 0, meter: forest.meter().clone() };
        node.recharge();
        node
    }

    /// A copy with a number of its own.
    pub(crate) fn copied(&self, forest: &Forest) -> Self {
        let body = match &self.body {
            Body::Leaf(leaf) => Body::Leaf(leaf.copied()),
            Body::Inner(inner) => Body::Inner(inner.copied()),
        };
        forest.meter().count_copy();
        Self::new(forest, body)
    }

    /// Becomes another node for everyone who knows it by its number.
    pub(crate) fn renumber(&mut self, forest: &Forest) {
        self.meter.freshen(self.id, self.charged);
        self.id = forest.fresh_id();
        self.sum = OnceLock::new();
    }

    /// Forgets what was derived from the records, because they are about to change.
    pub(crate) fn invalidate(&mut self) {
        if let Body::Leaf(leaf) = &mut self.body {
            leaf.sidecar.clear();
        }
    }

    /// Reports the memory that it takes now.
    pub(crate) fn recharge(&mut self) {
        let now = std::mem::size_of::<Self>()
            + match &self.body {
                Body::Leaf(leaf) => leaf.records.memory() + 8 * leaf.versions.capacity(),
                Body::Inner(inner) => inner.separators.memory() + inner.children.memory(),
            };
        if now != self.charged {
            self.meter.resize_node(self.id, self.charged, now);
            self.charged = now;
        }
    }

    #[inline]
    fn touch(&self) {
        if !self.touched.load(Ordering::Relaxed) {
            self.touched.store(true, Ordering::Relaxed);
        }
    }

    /// Whether it was read since this was asked before.
    pub(crate) fn take_touched(&self) -> bool {
        self.touched.swap(false, Ordering::Relaxed)
    }

    pub(crate) fn level(&self) -> u8 {
        match &self.body {
            Body::Leaf(_) => 0,
            Body::Inner(inner) => inner.level,
        }
    }

    pub(crate) fn memory(&self) -> usize {
        self.charged
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.meter.resize_node(self.id, self.charged, 0);
    }
}
