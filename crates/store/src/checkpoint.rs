//! Checkpoints: what changed since the last one is stored, then the log before it is released; and what becomes of
//! stored nodes that nobody needs.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use duramen_tree::{NodeId, StoredRoot, Tree, TreeError};

use crate::branch_state::BranchState;
use crate::engine::{CheckpointGuard, Engine};
use crate::error::StoreError;
use crate::garbage::{Garbage, Tombstone};
use crate::history::{note_dropped, Points};
use crate::manifest::{BranchHistory, BranchMore, BranchRecord, Manifest, More, RootRecord};
use crate::slot::Slot;
use crate::writer::Writer;

/// Nodes are given to the node store in batches of about this many bytes, or of this part of the memory budget.
const BATCH_BYTES: usize = 16 << 20;
const BATCH_PART: usize = 16;

/// Nodes that are deleted by one checkpoint, at most: the rest waits for the next.
const DELETES_MAX: usize = 1 << 20;

/// Candidates that are kept before all trees are searched for them.
const CANDIDATES_MAX: usize = 1 << 14;

/// A branch as it was when the checkpoint began.
struct Captured {
    state: Arc<BranchState>,
    slot: Slot,
    base: Option<Slot>,
    merge_base: Option<Slot>,
    record: BranchRecord,
    more: BranchMore,
    history: Option<BranchHistory>,
    points: Vec<Slot>,
}

/// What a checkpoint leaves to be done.
struct Stored {
    /// What is still on its way out.
    garbage: Garbage,
    /// Where the retained states of branches are, by their versions.
    points: Vec<StoredPoints>,
}

type StoredPoints = (Arc<BranchState>, Vec<(u64, StoredRoot)>);

/// Everything as it was when the checkpoint began.
struct Capture {
    mark: NodeId,
    /// The segment in which the log goes on.
    segment: u64,
    version: u64,
    next_branch: u64,
    branches: Vec<Captured>,
    /// Of the snapshots that are there, if memory is short: what only they hold can be forgotten once it is stored.
    held: Vec<Tree>,
    garbage: Garbage,
}

impl Engine {
    /// Stores everything that is not stored, and releases the log before it. `sweep` searches all trees for nodes
    /// that nobody holds, which otherwise happens only now and then.
    pub(crate) fn checkpoint(&self, sweep: bool) -> Result<(), StoreError> {
        self.checkpoint_locked(&self.lock_checkpoints()?, sweep)
    }

    /// Gives back the space of nodes that were deleted.
    pub(crate) fn compact_nodes(&self) -> Result<(), StoreError> {
        let _guard = self.lock_checkpoints()?;
        self.check_writable()?;
        self.forest().store().compact().map_err(|error| self.poison(error))
    }

    /// A checkpoint, unless somebody else is making one or loading in bulk. Returns whether it was made.
    pub(crate) fn try_checkpoint(&self) -> Result<bool, StoreError> {
        match self.try_lock_checkpoints() {
            Some(guard) => self.checkpoint_locked(&guard, false).map(|()| true),
            None => Ok(false),
        }
    }

    /// A checkpoint by whoever holds the lock of checkpoints.
    pub(crate) fn checkpoint_locked(
        &self,
        _guard: &CheckpointGuard<'_>,
        sweep: bool,
    ) -> Result<(), StoreError> {
        self.check_writable()?;
        if !self.has_log() {
            return Ok(());
        }
        let capture = self.capture(&mut self.lock_writer())?;
        let (mark, version) = (capture.mark, capture.version);
        let stored = self.store_capture(capture, sweep).map_err(|error| self.poison(error))?;
        if self.end_checkpoint(mark, stored, &mut self.lock_writer()) {
            self.requests().checkpoint();
        }
        self.release_before(version)
    }

    /// A checkpoint while all writers wait, by whoever holds both locks.
    pub(crate) fn checkpoint_within(
        &self,
        _guard: &CheckpointGuard<'_>,
        writer: &mut Writer,
    ) -> Result<(), StoreError> {
        if !self.has_log() {
            return Ok(());
        }
        let capture = self.capture(writer)?;
        let (mark, version) = (capture.mark, capture.version);
        let stored = self.store_capture(capture, false).map_err(|error| self.poison(error))?;
        self.end_checkpoint(mark, stored, writer);
        self.release_before(version)
    }

    /// Returns whether more could be deleted than one checkpoint deletes.
    fn end_checkpoint(&self, mark: NodeId, stored: Stored, writer: &mut Writer) -> bool {
        self.forest().end_checkpoint(mark);
        let more = stored.garbage.pending.has_free();
        writer.garbage_mut().give_back(stored.garbage);
        for (branch, roots) in stored.points {
            let slots = branch.meta().points.stored(&roots);
            slots.into_iter().for_each(|slot| self.free_memory(slot));
        }
        self.count_checkpoint();
        more
    }

    fn release_before(&self, version: u64) -> Result<(), StoreError> {
        log::debug!("checkpoint: version {version}");
        self.release_log(version)
    }

    /// The moment of the checkpoint: no commit is half done.
    fn capture(&self, writer: &mut Writer) -> Result<Capture, StoreError> {
        // After an error, a branch may hold half a commit.
        self.check_poison()?;
        let segment = self.rotate_log()?;
        let epoch = self.advance_epoch(writer);
        let mark_before = self.forest().mark();
        let mark = self.forest().begin_checkpoint();
        let registry = self.registry();
        let mut held: HashMap<u64, NodeId> = HashMap::new();
        for branch in registry.iter() {
            let meta = branch.meta();
            if let Some(parent) = meta.parent {
                let mark = held.entry(parent).or_default();
                *mark = (*mark).max(meta.parent_mark);
            }
        }
        let mut branches: Vec<Captured> = Vec::with_capacity(registry.len());
        let (mut free, mut candidates) = (Vec::new(), Vec::new());
        for branch in registry.iter() {
            let mut meta = branch.meta();
            let bound = meta.origin_mark.max(held.get(&branch.id()).copied().unwrap_or(0));
            note_dropped(branch, &mut meta.points, writer);
            let (private, shared): (Vec<_>, Vec<_>) =
                meta.points.take_loose().into_iter().partition(|id| *id >= bound);
            // What was never stored need not be deleted.
            free.extend(private.into_iter().filter(|id| *id < mark_before));
            candidates.extend(shared);
            let (points, history) = capture_history(branch.id(), &meta.points);
            let slot = branch.share();
            branches.push(Captured {
                state: branch.clone(),
                slot,
                base: meta.base.as_ref().map(Slot::share),
                merge_base: meta.merge_base.as_ref().map(Slot::share),
                record: BranchRecord {
                    id: branch.id(),
                    name: branch.name().to_owned(),
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
                history,
                points,
            });
        }
        branches.sort_by_key(|branch| branch.state.id());
        let garbage = writer.garbage_mut();
        garbage.candidates.extend(candidates);
        garbage.pending.push(epoch, free);
        let garbage = std::mem::take(garbage);
        let (version, next_branch) = (writer.version(), registry.next_id());
        let held = if self.forest().excess() > 0 { self.held().all() } else { Vec::new() };
        Ok(Capture { mark, segment, version, next_branch, branches, held, garbage })
    }

    /// Stores what was captured and commits the manifest.
    fn store_capture(&self, mut capture: Capture, sweep: bool) -> Result<Stored, StoreError> {
        let limit = BATCH_BYTES.min(self.forest().budget() / BATCH_PART);
        let mut sink = Sink { engine: self, batch: Vec::new(), bytes: 0, limit };
        for branch in &mut capture.branches {
            branch.record.root = sink.store(&branch.slot)?;
            branch.record.base = branch.base.as_ref().map(|base| sink.store(base)).transpose()?;
            branch.record.merge_base = branch.merge_base.as_ref().map(|base| sink.store(base)).transpose()?;
            for (slot, record) in
                branch.points.iter().zip(branch.history.iter_mut().flat_map(BranchHistory::roots))
            {
                *record = sink.store(slot)?;
            }
        }
        // After all branches: what is stored here is what no branch has, and goes with the last reader of this epoch.
        let mut fresh = Vec::new();
        for tree in std::mem::take(&mut capture.held) {
            sink.store_tree(&tree, &mut |id| fresh.push(id))?;
        }
        sink.flush()?;
        for mut tombstone in std::mem::take(&mut capture.garbage.tombstones) {
            if let Err(error) =
                self.open_tombstone(&mut tombstone, &mut fresh, &mut capture.garbage.candidates)
            {
                log::warn!("the space of a deleted branch cannot be given back: {error}");
            }
            self.free_memory(tombstone.slot);
        }
        let Garbage { candidates, kept, .. } = &capture.garbage;
        if sweep || candidates.len() > CANDIDATES_MAX.max(2 * kept) {
            // Without all trees nothing may be concluded, and nothing is lost but space.
            if let Err(error) = self.sweep(&mut capture, &mut fresh) {
                log::warn!("unused space cannot be searched for: {error}");
            }
        }
        let mut garbage = capture.garbage;
        garbage.pending.extend_newest(&mut fresh);
        let mut deleted = garbage.pending.take_free(DELETES_MAX);
        deleted.sort_unstable();
        let manifest = Manifest {
            version: capture.version,
            next_node: capture.mark,
            next_branch: capture.next_branch,
            created_ms: self.created_ms(),
            branches: capture.branches.iter().map(|branch| branch.record.clone()).collect(),
            free: garbage.pending.ids().collect(),
            candidates: garbage.candidates.iter().copied().collect(),
        };
        let branches = capture.branches.iter().map(|branch| branch.more).collect();
        let histories = capture.branches.iter().filter_map(|branch| branch.history.clone()).collect();
        let more = More { segment: capture.segment, branches, histories };
        self.forest().store().commit(&manifest.encode(&more)?, &deleted)?;
        let stored = capture.branches.into_iter().filter_map(|branch| {
            let points = branch.history?.points.into_iter().zip(&branch.points);
            // Those that were in memory.
            let new = points.filter(|(_, slot)| matches!(slot, Slot::Open(_)));
            let roots: Vec<_> = new.map(|((point, root), _)| (point.version, root.into())).collect();
            (!roots.is_empty()).then_some((branch.state, roots))
        });
        Ok(Stored { garbage, points: stored.collect() })
    }

    /// Finds what a deleted branch leaves behind: what was its own goes, what it shared may be needed.
    fn open_tombstone(
        &self,
        tombstone: &mut Tombstone,
        free: &mut Vec<NodeId>,
        candidates: &mut HashSet<NodeId>,
    ) -> Result<(), StoreError> {
        let (low, high) = (tombstone.low, tombstone.high);
        let durable = self.forest().durable_mark();
        let tree = tombstone.slot.tree(self.forest())?;
        tree.ids_from(self.forest(), low, &mut |id| {
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
        for id in std::mem::take(&mut tombstone.dead) {
            if id >= high {
                free.extend((id < durable).then_some(id));
            } else {
                candidates.insert(id);
            }
        }
        Ok(())
    }

    /// Searches all trees for the candidates, and frees those that none of them has.
    fn sweep(&self, capture: &mut Capture, free: &mut Vec<NodeId>) -> Result<(), StoreError> {
        let mut unreached = std::mem::take(&mut capture.garbage.candidates);
        let before = unreached.len();
        let mut reached = HashSet::new();
        let mut passed = HashSet::new();
        let mut reach = |tree: &Tree| -> Result<(), StoreError> {
            tree.reach(self.forest(), &mut passed, &mut |id| {
                if unreached.remove(&id) {
                    reached.insert(id);
                }
            })?;
            Ok(())
        };
        let searched = capture.branches.iter_mut().try_for_each(|branch| {
            let bases = branch.base.iter_mut().chain(branch.merge_base.as_mut());
            for slot in std::iter::once(&mut branch.slot).chain(bases) {
                reach(slot.tree(self.forest())?)?;
            }
            // Of a long history, no root stays in memory.
            branch.points.iter().try_for_each(|point| reach(point.share().tree(self.forest())?))
        });
        capture.garbage.candidates = reached;
        if searched.is_err() {
            capture.garbage.candidates.extend(unreached);
            return searched;
        }
        free.extend(unreached);
        capture.garbage.kept = capture.garbage.candidates.len();
        log::debug!("sweep: before {before}, after {}", capture.garbage.kept);
        Ok(())
    }
}

/// What is to be stored of the retained states of a branch.
fn capture_history(branch: u64, points: &Points) -> (Vec<Slot>, Option<BranchHistory>) {
    let (keep, tags) = (points.keep().copied(), points.tags().clone());
    let (slots, records) = points.capture();
    if keep.is_none() && slots.is_empty() {
        return (slots, None);
    }
    let points = records.into_iter().map(|record| (record, RootRecord::from(NOWHERE))).collect();
    (slots, Some(BranchHistory { branch, keep, points, tags }))
}

const NOWHERE: StoredRoot = StoredRoot { id: 0, sum: duramen_tree::Checksum([0; 16]), count: 0, bytes: 0 };

/// Collects encoded nodes and gives them to the node store in sorted batches.
struct Sink<'e> {
    engine: &'e Engine,
    batch: Vec<(NodeId, Vec<u8>)>,
    bytes: usize,
    /// The size of a batch.
    limit: usize,
}

impl Sink<'_> {
    fn store(&mut self, slot: &Slot) -> Result<RootRecord, StoreError> {
        let tree = match slot {
            Slot::Stored(root) => return Ok((*root).into()),
            Slot::Open(tree) => tree,
        };
        self.store_tree(tree, &mut |_| {})
    }

    /// Stores what is not stored of a tree, and tells the nodes.
    fn store_tree(&mut self, tree: &Tree, stored: &mut dyn FnMut(NodeId)) -> Result<RootRecord, StoreError> {
        let root = tree.persist(&mut |id, bytes| {
            stored(id);
            self.bytes += bytes.len();
            self.batch.push((id, bytes));
            if self.bytes >= self.limit {
                self.flush()?;
            }
            Ok(())
        })?;
        Ok(root.into())
    }

    fn flush(&mut self) -> Result<(), TreeError> {
        self.batch.sort_unstable_by_key(|(id, _)| *id);
        if !self.batch.is_empty() {
            self.engine.forest().store().put(&self.batch)?;
        }
        self.batch.clear();
        self.bytes = 0;
        Ok(())
    }
}
