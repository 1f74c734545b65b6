//! What all trees over one node store share: numbers for nodes, the line between stored and unstored, the budget.

use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::codec;
use crate::error::TreeError;
use crate::node::{Checksum, Node};
use crate::node_store::{NodeId, NodeStore};

/// The trees of one node store, seen from below.
///
/// A node with an id below the *mark* is stored or is being stored, so a change gives it another id; one at or above
/// it was made since the last checkpoint began, and whoever holds it alone changes it in place.
pub struct Forest {
    store: Arc<dyn NodeStore>,
    next_id: AtomicU64,
    durable: AtomicU64,
    budget: AtomicUsize,
    /// What the node store takes of the budget.
    below: AtomicUsize,
    stores: bool,
    meter: Arc<Meter>,
}

/// Counts that never go back, but for `resident_bytes`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ForestStats {
    /// Nodes read from the node store.
    pub node_reads: u64,
    /// Bytes read from the node store.
    pub node_read_bytes: u64,
    /// Children that were found in memory.
    pub cache_hits: u64,
    /// Nodes copied because a snapshot, a fork or a checkpoint held them.
    pub node_copies: u64,
    /// Memory that nodes take now, in bytes.
    pub resident_bytes: u64,
}

#[derive(Default)]
pub(crate) struct Meter {
    resident: AtomicUsize,
    /// Nodes with an id below this are stored or are being stored.
    mark: AtomicU64,
    /// Memory of the others. Whoever frees a node while the mark is moved may be missed: it begins anew with each checkpoint.
    fresh: AtomicI64,
    hits: Stripes,
    reads: AtomicU64,
    read_bytes: AtomicU64,
    copies: AtomicU64,
}

/// A counter that threads do not fight for: each counts in a line of its own, mostly.
#[derive(Default)]
struct Stripes([Stripe; 16]);

#[derive(Default)]
#[repr(align(128))]
struct Stripe(AtomicU64);

static NEXT_STRIPE: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static STRIPE: usize = NEXT_STRIPE.fetch_add(1, Ordering::Relaxed) % 16;
}

impl Stripes {
    #[inline]
    fn add(&self) {
        let stripe = STRIPE.try_with(|stripe| *stripe).unwrap_or(0);
        self.0[stripe].0.fetch_add(1, Ordering::Relaxed);
    }

    fn sum(&self) -> u64 {
        self.0.iter().map(|stripe| stripe.0.load(Ordering::Relaxed)).sum()
    }
}

impl Meter {
    #[inline]
    pub(crate) fn count_hit(&self) {
        self.hits.add();
    }

    pub(crate) fn resize(&self, before: usize, after: usize) {
        if after >= before {
            self.resident.fetch_add(after - before, Ordering::Relaxed);
        } else {
            self.resident.fetch_sub(before - after, Ordering::Relaxed);
        }
    }

    /// The memory of a node has changed.
    pub(crate) fn resize_node(&self, id: NodeId, before: usize, after: usize) {
        self.resize(before, after);
        if id >= self.mark.load(Ordering::Relaxed) {
            self.fresh.fetch_add(after as i64 - before as i64, Ordering::Relaxed);
        }
    }

    /// A node of this id gets a new one.
    pub(crate) fn freshen(&self, id: NodeId, bytes: usize) {
        if id < self.mark.load(Ordering::Relaxed) {
            self.fresh.fetch_add(bytes as i64, Ordering::Relaxed);
        }
    }

    pub(crate) fn count_copy(&self) {
        self.copies.fetch_add(1, Ordering::Relaxed);
    }
}

impl Forest {
    /// A forest whose nodes are numbered from `next_id` on (at least 1) and whose clean nodes are forgotten when all
    /// nodes, and what the node store finds them in, take more than `budget` bytes of memory. Of the latter no more than
    /// half the budget is counted: some of it has to be left for nodes, however many are stored.
    pub fn new(store: Arc<dyn NodeStore>, next_id: NodeId, budget: usize) -> Self {
        let next_id = next_id.max(1);
        let forest = Self {
            stores: store.keeps(),
            store,
            next_id: AtomicU64::new(next_id),
            durable: AtomicU64::new(next_id),
            budget: AtomicUsize::new(budget),
            below: AtomicUsize::new(0),
            meter: Arc::new(Meter { mark: AtomicU64::new(next_id), ..Meter::default() }),
        };
        forest.weigh_store();
        forest
    }

    pub(crate) fn stores(&self) -> bool {
        self.stores
    }

    /// The node store below.
    pub fn store(&self) -> &Arc<dyn NodeStore> {
        &self.store
    }

    /// The id that the next node will get. Ids are never reused, not even after a restart.
    pub fn next_id(&self) -> NodeId {
        self.next_id.load(Ordering::Acquire)
    }

    /// Begins a checkpoint: whatever exists now is changed under a new id only. The caller lets no tree be written
    /// between this and taking its snapshots. Returns the new mark.
    pub fn begin_checkpoint(&self) -> NodeId {
        let mark = self.next_id();
        self.meter.mark.store(mark, Ordering::Release);
        self.meter.fresh.store(0, Ordering::Relaxed);
        mark
    }

    /// Ends a checkpoint whose mark was `mark`: what lies below it can be forgotten, because it can be loaded again.
    pub fn end_checkpoint(&self, mark: NodeId) {
        self.durable.fetch_max(mark, Ordering::AcqRel);
        self.weigh_store();
    }

    /// Counts what the node store takes by now.
    fn weigh_store(&self) {
        self.below.store(self.store.memory().min(self.budget() / 2), Ordering::Relaxed);
    }

    /// Bytes that count.
    fn taken(&self) -> usize {
        self.meter.resident.load(Ordering::Relaxed) + self.below.load(Ordering::Relaxed)
    }

    /// Figures since the forest was made.
    pub fn stats(&self) -> ForestStats {
        ForestStats {
            node_reads: self.meter.reads.load(Ordering::Relaxed),
            node_read_bytes: self.meter.read_bytes.load(Ordering::Relaxed),
            cache_hits: self.meter.hits.sum(),
            node_copies: self.meter.copies.load(Ordering::Relaxed),
            resident_bytes: self.meter.resident.load(Ordering::Relaxed) as u64,
        }
    }

    /// Memory that nodes take which were made since the last checkpoint began, in bytes: what cannot be forgotten without another.
    pub fn fresh_bytes(&self) -> usize {
        usize::try_from(self.meter.fresh.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// The memory budget in bytes.
    pub fn budget(&self) -> usize {
        self.budget.load(Ordering::Relaxed)
    }

    /// The part of the budget that is left for nodes, in bytes.
    pub fn node_budget(&self) -> usize {
        self.budget().saturating_sub(self.below.load(Ordering::Relaxed))
    }

    /// Bytes of memory above the budget, 0 when there is room.
    pub fn excess(&self) -> usize {
        self.taken().saturating_sub(self.budget())
    }

    /// Bytes of memory above a part of the budget, of which `spare` is to be left free.
    pub fn excess_with(&self, spare: usize) -> usize {
        self.taken().saturating_sub(self.budget().saturating_sub(spare))
    }

    pub(crate) fn has_room(&self) -> bool {
        self.excess() == 0
    }

    /// Nodes with an id below this are stored or are being stored.
    pub fn mark(&self) -> NodeId {
        self.meter.mark.load(Ordering::Acquire)
    }

    /// Nodes with an id below this are stored for good.
    pub fn durable_mark(&self) -> NodeId {
        self.durable.load(Ordering::Acquire)
    }

    pub(crate) fn fresh_id(&self) -> NodeId {
        self.next_id.fetch_add(1, Ordering::AcqRel)
    }

    pub(crate) fn meter(&self) -> &Arc<Meter> {
        &self.meter
    }

    /// Reads, checks and decodes a node.
    pub(crate) fn load(&self, id: NodeId, sum: Checksum) -> Result<Arc<Node>, TreeError> {
        let bytes = self.load_bytes(id, sum)?;
        let body = codec::decode(&bytes).map_err(|error| TreeError::Damaged { id, reason: error.0 })?;
        Ok(Arc::new(Node::with_id(self, id, OnceLock::from(sum), body)))
    }

    /// Reads a node and holds it against its checksum.
    pub(crate) fn load_bytes(&self, id: NodeId, sum: Checksum) -> Result<Vec<u8>, TreeError> {
        let bytes = self.store.get(id)?.ok_or(TreeError::Damaged { id, reason: "it is missing" })?;
        self.meter.reads.fetch_add(1, Ordering::Relaxed);
        self.meter.read_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        if Checksum::compute(&bytes) != sum {
            return Err(TreeError::Damaged { id, reason: "its checksum is not that of its parent" });
        }
        Ok(bytes)
    }
}

impl std::fmt::Debug for Forest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Forest").field("next_id", &self.next_id()).field("stats", &self.stats()).finish()
    }
}
