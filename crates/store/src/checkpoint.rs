//! Checkpoints: what changed since the last one is stored, then the log before it is released; and what becomes of
//! stored nodes that nobody needs.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use duramen_tree::{NodeId, StoredRoot, TreeError};

use parking_lot::MutexGuard;

use crate::branch::{BranchState, Slot};
use crate::engine::{Engine, Writer};
use crate::error::StoreError;
use crate::manifest::{BranchMore, BranchRecord, Manifest, More, RootRecord};

/// Nodes are given to the node store in batches of about this many bytes.
const BATCH_BYTES: usize = 16 << 20;

/// Nodes that are deleted by one checkpoint, at most: the rest waits for the next.
const DELETES_MAX: usize = 1 << 20;

/// Candidates that are kept before all trees are searched for them.
const CANDIDATES_MAX: usize = 1 << 14;

/// How long a checkpoint waits for another one, or for a bulk load.
const CHECKPOINT_WAIT: Duration = Duration::from_secs(60);

/// A tree of a deleted branch.
pub(crate) struct Grave {
    pub(crate) slot: Slot,
    pub(crate) low: NodeId,
    pub(crate) high: NodeId,
}

/// Stored nodes on their way out.
#[derive(Default)]
pub(crate) struct Garbage {
    pub(crate) graves: Vec<Grave>,
    /// Nodes that nobody needs once all readers that began before are gone; the oldest first.
    pub(crate) free: VecDeque<(Arc<()>, Vec<NodeId>)>,
    /// Nodes that a branch dropped and another may hold.
    pub(crate) candidates: HashSet<NodeId>,
    /// Candidates that the last search left.
    kept: usize,
}

/// A branch as it was when the checkpoint began.
struct Captured {
    state: Arc<BranchState>,
    slot: Slot,
    base: Option<Slot>,
    merge_base: Option<Slot>,
    record: BranchRecord,
    more: BranchMore,
}

/// Everything as it was when the checkpoint began.
struct Capture {
    mark: NodeId,
    /// The segment in which the log goes on.
    segment: u64,
    version: u64,
    next_branch: u64,
    branches: Vec<Captured>,
    graves: Vec<Grave>,
    free: VecDeque<(Arc<()>, Vec<NodeId>)>,
    candidates: HashSet<NodeId>,
    kept: usize,
}

impl Engine {
    /// Stores everything that is not stored, and releases the log before it. `sweep` searches all trees for nodes
    /// that nobody holds, which otherwise happens only now and then.
    pub(crate) fn checkpoint(&self, sweep: bool) -> Result<(), StoreError> {
        let _guard = self.lock_checkpoints()?;
        self.checkpoint_locked(sweep)
    }

    /// The right to make checkpoints, for which a bulk load may have to be waited for.
    pub(crate) fn lock_checkpoints(&self) -> Result<MutexGuard<'_, ()>, StoreError> {
        let waited_ms = CHECKPOINT_WAIT.as_millis() as u64;
        let late = || StoreError::TimedOut { what: "another checkpoint or bulk load", waited_ms };
        self.checkpointing.try_lock_for(CHECKPOINT_WAIT).ok_or_else(late)
    }

    /// A checkpoint, unless somebody else is making one or loading in bulk. Returns whether it was made.
    pub(crate) fn try_checkpoint(&self) -> Result<bool, StoreError> {
        match self.checkpointing.try_lock() {
            Some(_guard) => self.checkpoint_locked(false).map(|()| true),
            None => Ok(false),
        }
    }

    /// A checkpoint by whoever holds the lock of checkpoints.
    pub(crate) fn checkpoint_locked(&self, sweep: bool) -> Result<(), StoreError> {
        self.check_writable()?;
        if self.log.is_none() {
            return Ok(());
        }
        let capture = self.capture(&mut self.writer.lock())?;
        let (mark, version) = (capture.mark, capture.version);
        let rest = self.store_capture(capture, sweep).map_err(|error| self.poisoned_by(error))?;
        let more = self.end_checkpoint(mark, rest, &mut self.writer.lock());
        if more {
            self.request_checkpoint();
        }
        self.release_log(version)
    }

    /// A checkpoint while all writers wait, by whoever holds both locks.
    pub(crate) fn checkpoint_within(&self, writer: &mut Writer) -> Result<(), StoreError> {
        if self.log.is_none() {
            return Ok(());
        }
        let capture = self.capture(writer)?;
        let (mark, version) = (capture.mark, capture.version);
        let rest = self.store_capture(capture, false).map_err(|error| self.poisoned_by(error))?;
        self.end_checkpoint(mark, rest, writer);
        self.release_log(version)
    }

    /// Returns whether more could be deleted than one checkpoint deletes.
    fn end_checkpoint(&self, mark: NodeId, rest: Garbage, writer: &mut Writer) -> bool {
        self.forest.end_checkpoint(mark);
        let more = rest.free.front().is_some_and(|(epoch, _)| Arc::strong_count(epoch) == 1);
        writer.garbage.give_back(rest);
        self.count_checkpoint();
        more
    }

    fn release_log(&self, version: u64) -> Result<(), StoreError> {
        tracing::debug!(version, "checkpoint");
        match &self.log {
            Some(log) => log.release(version).map_err(|error| self.poisoned_by(error)),
            None => Ok(()),
        }
    }

    /// The moment of the checkpoint: no commit is half done.
    fn capture(&self, writer: &mut Writer) -> Result<Capture, StoreError> {
        // After an error, a branch may hold half a commit.
        self.check_poison()?;
        let mut segment = 0;
        if let Some(log) = &self.log {
            log.rotate().map_err(|error| self.poisoned_by(error))?;
            segment = log.segment();
        }
        let epoch = std::mem::replace(&mut *self.epoch.lock(), Arc::new(()));
        let mark_before = self.forest.mark();
        let mark = self.forest.begin_checkpoint();
        let registry = self.registry.read();
        let mut held: HashMap<u64, NodeId> = HashMap::new();
        for branch in registry.by_id.values() {
            let meta = branch.meta.lock();
            if let Some(parent) = meta.parent {
                let mark = held.entry(parent).or_default();
                *mark = (*mark).max(meta.parent_mark);
            }
        }
        let mut branches: Vec<Captured> = Vec::with_capacity(registry.by_id.len());
        let mut free = Vec::new();
        for branch in registry.by_id.values() {
            let meta = branch.meta.lock();
            let bound = meta.origin_mark.max(held.get(&branch.id).copied().unwrap_or(0));
            let mut slot = branch.slot_mut();
            if let Slot::Open(tree) = &mut *slot {
                let (private, shared): (Vec<_>, Vec<_>) =
                    tree.take_dropped().into_iter().partition(|id| *id >= bound);
                // What was never stored need not be deleted.
                free.extend(private.into_iter().filter(|id| *id < mark_before));
                writer.garbage.candidates.extend(shared);
            }
            branches.push(Captured {
                state: branch.clone(),
                slot: slot.share(),
                base: meta.base.as_ref().map(Slot::share),
                merge_base: meta.merge_base.as_ref().map(Slot::share),
                record: BranchRecord {
                    id: branch.id,
                    name: branch.name.clone(),
                    root: RootRecord::from(NOWHERE),
                    created_ms: meta.created_ms,
                    expires_ms: meta.expires_ms,
                    protected: meta.protected,
                    parent: meta.parent,
                    fork_mark: meta.fork_mark,
                    origin_mark: meta.origin_mark,
                    parent_mark: meta.parent_mark,
                    base: None,
                    base_mark: meta.base_mark,
                    merge_base: None,
                },
                more: BranchMore { floor: branch.floor() },
            });
        }
        branches.sort_by_key(|branch| branch.state.id);
        let Writer { garbage, version, .. } = writer;
        garbage.free.push_back((epoch, free));
        Ok(Capture {
            mark,
            segment,
            version: *version,
            next_branch: registry.next_id,
            branches,
            graves: std::mem::take(&mut garbage.graves),
            free: std::mem::take(&mut garbage.free),
            candidates: std::mem::take(&mut garbage.candidates),
            kept: garbage.kept,
        })
    }

    /// Stores what was captured and commits the manifest. Returns what is still on its way out.
    fn store_capture(&self, mut capture: Capture, sweep: bool) -> Result<Garbage, StoreError> {
        let mut sink = Sink { engine: self, batch: Vec::new(), bytes: 0 };
        for branch in &mut capture.branches {
            branch.record.root = sink.store(&branch.slot)?;
            branch.record.base = branch.base.as_ref().map(|base| sink.store(base)).transpose()?;
            branch.record.merge_base = branch.merge_base.as_ref().map(|base| sink.store(base)).transpose()?;
        }
        sink.flush()?;
        let mut fresh = Vec::new();
        for mut grave in std::mem::take(&mut capture.graves) {
            if let Err(error) = self.open_grave(&mut grave, &mut fresh, &mut capture.candidates) {
                tracing::warn!(%error, "the space of a deleted branch cannot be given back");
            }
            self.discard_slot(grave.slot);
        }
        if sweep || capture.candidates.len() > CANDIDATES_MAX.max(2 * capture.kept) {
            // Without all trees nothing may be concluded, and nothing is lost but space.
            if let Err(error) = self.sweep(&mut capture, &mut fresh) {
                tracing::warn!(%error, "unused space cannot be searched for");
            }
        }
        if let Some((_, newest)) = capture.free.back_mut() {
            newest.append(&mut fresh);
        }
        let mut deleted = Vec::new();
        while let Some((epoch, ids)) = capture.free.front_mut() {
            if Arc::strong_count(epoch) > 1 {
                break;
            }
            let room = DELETES_MAX - deleted.len();
            deleted.extend(ids.drain(..ids.len().min(room)));
            if !ids.is_empty() {
                break;
            }
            capture.free.pop_front();
        }
        deleted.sort_unstable();
        let manifest = Manifest {
            version: capture.version,
            next_node: capture.mark,
            next_branch: capture.next_branch,
            created_ms: self.created_ms,
            branches: capture.branches.iter().map(|branch| branch.record.clone()).collect(),
            free: capture.free.iter().flat_map(|(_, ids)| ids.iter().copied()).collect(),
            candidates: capture.candidates.iter().copied().collect(),
        };
        let branches = capture.branches.iter().map(|branch| branch.more).collect();
        let more = More { segment: capture.segment, branches };
        self.forest.store().commit(&manifest.encode(&more)?, &deleted)?;
        let Capture { free, candidates, kept, .. } = capture;
        Ok(Garbage { graves: Vec::new(), free, candidates, kept })
    }

    /// Finds what a deleted branch leaves behind: what was its own goes, what it shared may be needed.
    fn open_grave(
        &self,
        grave: &mut Grave,
        free: &mut Vec<NodeId>,
        candidates: &mut HashSet<NodeId>,
    ) -> Result<(), StoreError> {
        let (low, high) = (grave.low, grave.high);
        let durable = self.forest.durable_mark();
        let tree = grave.slot.tree(&self.forest)?;
        tree.ids_from(&self.forest, low, &mut |id| {
            // What was never stored, and can be stored by nobody else, need not be deleted.
            if id >= high {
                free.extend((id < durable).then_some(id));
            } else {
                candidates.insert(id);
            }
        })?;
        for id in tree.take_dropped() {
            candidates.insert(id);
        }
        Ok(())
    }

    /// Searches all trees for the candidates, and frees those that none of them has.
    fn sweep(&self, capture: &mut Capture, free: &mut Vec<NodeId>) -> Result<(), StoreError> {
        let mut reached = HashSet::new();
        for branch in &mut capture.branches {
            let slots = [Some(&mut branch.slot), branch.base.as_mut(), branch.merge_base.as_mut()];
            for slot in slots.into_iter().flatten() {
                slot.tree(&self.forest)?.mark_reached(&self.forest, &mut reached)?;
            }
        }
        let before = capture.candidates.len();
        capture.candidates.retain(|id| {
            reached.contains(id) || {
                free.push(*id);
                false
            }
        });
        capture.kept = capture.candidates.len();
        tracing::debug!(before, after = capture.kept, "sweep");
        Ok(())
    }
}

const NOWHERE: StoredRoot = StoredRoot { id: 0, sum: duramen_tree::Checksum([0; 16]), count: 0, bytes: 0 };

impl Garbage {
    /// Takes back what a checkpoint left over.
    fn give_back(&mut self, rest: Garbage) {
        self.graves.extend(rest.graves);
        self.candidates.extend(rest.candidates);
        self.kept = rest.kept;
        for older in rest.free.into_iter().rev() {
            self.free.push_front(older);
        }
    }

    /// What a manifest says.
    pub(crate) fn recovered(manifest: &Manifest) -> Self {
        Self {
            graves: Vec::new(),
            free: VecDeque::from([(Arc::new(()), manifest.free.clone())]),
            candidates: manifest.candidates.iter().copied().collect(),
            kept: 0,
        }
    }
}

/// Collects encoded nodes and gives them to the node store in sorted batches.
struct Sink<'e> {
    engine: &'e Engine,
    batch: Vec<(NodeId, Vec<u8>)>,
    bytes: usize,
}

impl Sink<'_> {
    fn store(&mut self, slot: &Slot) -> Result<RootRecord, StoreError> {
        let tree = match slot {
            Slot::Stored(root) => return Ok((*root).into()),
            Slot::Open(tree) => tree,
        };
        let root = tree.persist(&mut |id, bytes| {
            self.bytes += bytes.len();
            self.batch.push((id, bytes));
            if self.bytes >= BATCH_BYTES {
                self.flush()?;
            }
            Ok(())
        })?;
        Ok(root.into())
    }

    fn flush(&mut self) -> Result<(), TreeError> {
        self.batch.sort_unstable_by_key(|(id, _)| *id);
        if !self.batch.is_empty() {
            self.engine.forest.store().put(&self.batch)?;
        }
        self.batch.clear();
        self.bytes = 0;
        Ok(())
    }
}
