//! The engine: one writer at a time, one log, one forest; and how a commit goes through them.

use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use duramen_measure::clock;
use duramen_tree::{Forest, KeyRange, LeafView, NodeId, RunView, Tree};
use parking_lot::{Condvar, Mutex, RwLock};

use crate::batch::{operations, splice, Batch, Op};
use crate::branch::{BranchState, Slot};
use crate::checkpoint::{Garbage, Grave};
use crate::durability::Durability;
use crate::error::StoreError;
use crate::folder::FolderLock;
use crate::log::Log;
use crate::names::did_you_mean;
use crate::options::Options;
use crate::scope::{Edit, Overlay, RowVisitor, View, WriteVisitor};

/// Records of the log, by their first byte.
pub(crate) mod record {
    /// `branch id u64`, then operations.
    pub(crate) const WRITES: u8 = 1;
    /// What happens to branches themselves.
    pub(crate) const BRANCH: u8 = 2;
    /// `source id u64, target id u64`, then operations on the target.
    pub(crate) const MERGE: u8 = 3;
    /// A part of a record that is too large for one, and is neither the first nor the last.
    pub(crate) const PART: u8 = 4;
    /// The last part.
    pub(crate) const LAST_PART: u8 = 5;
    /// The first part. Parts before it belong to a commit that a crash cut off.
    pub(crate) const FIRST_PART: u8 = 7;
    /// Versions that a bulk load took: nothing to do again.
    pub(crate) const RESERVE: u8 = 6;
}

/// A record is cut into parts of this size.
const PART_BYTES: usize = 32 << 20;

/// How long a commit waits for a checkpoint when the log or the memory has grown far beyond their limits.
const THROTTLE_MAX: Duration = Duration::from_secs(30);

/// The branches by name and by number.
#[derive(Default)]
pub(crate) struct Registry {
    pub(crate) by_name: HashMap<String, Arc<BranchState>>,
    pub(crate) by_id: HashMap<u64, Arc<BranchState>>,
    /// The children of each branch that has any.
    pub(crate) children: HashMap<u64, BTreeSet<u64>>,
    pub(crate) next_id: u64,
}

/// What only one thread at a time has.
pub(crate) struct Writer {
    pub(crate) batch: Batch,
    /// The version of the last write.
    pub(crate) version: u64,
    pub(crate) garbage: Garbage,
}

/// What the maintenance thread is asked for.
#[derive(Default)]
pub(crate) struct Requests {
    pub(crate) checkpoint: bool,
    pub(crate) stop: bool,
    /// Trees whose memory can be freed.
    pub(crate) trash: Vec<Tree>,
}

pub(crate) struct Engine {
    pub(crate) path: Option<PathBuf>,
    /// Nothing is ever written: there is no log and no checkpoint.
    pub(crate) in_memory: bool,
    /// Its trees were copied from somewhere else.
    pub(crate) foreign: bool,
    pub(crate) options: Options,
    pub(crate) forest: Forest,
    pub(crate) log: Option<Log>,
    pub(crate) writer: Mutex<Writer>,
    pub(crate) registry: RwLock<Registry>,
    /// Held by whoever makes a checkpoint, or stores nodes in another way.
    pub(crate) checkpointing: Mutex<()>,
    pub(crate) requests: Mutex<Requests>,
    pub(crate) wake: Condvar,
    /// Whoever reads without a lock holds a clone: nodes that were in use then are kept until it is dropped.
    pub(crate) epoch: Mutex<Arc<()>>,
    pub(crate) checkpoints: AtomicU64,
    pub(crate) poison: OnceLock<String>,
    pub(crate) created_ms: i64,
    /// The lock on the store's folder. It is the last field, because it is let go of when all else is closed.
    pub(crate) _lock: Option<FolderLock>,
}

/// A tree for reading, with nothing over it.
pub(crate) struct Reader<'t> {
    pub(crate) forest: &'t Forest,
    pub(crate) tree: &'t Tree,
    pub(crate) floor: u64,
}

impl View for Reader<'_> {
    #[inline]
    fn get(&self, key: &[u8], show: &mut dyn FnMut(u64, &[u8])) -> Result<bool, StoreError> {
        let found = self.tree.get(self.forest, key, |entry| show(entry.version, entry.value))?;
        Ok(found.is_some())
    }

    fn scan(&self, range: &KeyRange<'_>, row: &mut RowVisitor<'_>) -> Result<(), StoreError> {
        self.tree.scan(self.forest, range, |entry| row(entry.key, entry.version, entry.value))?;
        Ok(())
    }

    fn leaves(
        &self,
        range: &KeyRange<'_>,
        visit: &mut dyn FnMut(LeafView<'_>) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        self.tree.scan_leaves(self.forest, range, visit)?;
        Ok(())
    }

    fn runs(
        &self,
        range: &KeyRange<'_>,
        visit: &mut dyn FnMut(RunView<'_>) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        self.tree.scan_runs(self.forest, range, visit)?;
        Ok(())
    }

    fn written(&self, _range: &KeyRange<'_>, _show: &mut WriteVisitor<'_>) -> Result<(), StoreError> {
        Ok(())
    }

    fn floor(&self) -> u64 {
        self.floor
    }
}

/// A commit that is being put together, over the branch as it is.
pub(crate) struct Draft<'t> {
    pub(crate) forest: &'t Forest,
    pub(crate) tree: &'t Tree,
    pub(crate) floor: u64,
    pub(crate) batch: &'t mut Batch,
}

impl Draft<'_> {
    fn overlay(&self) -> Overlay<'_> {
        Overlay { forest: self.forest, tree: self.tree, batch: self.batch }
    }
}

impl View for Draft<'_> {
    fn get(&self, key: &[u8], show: &mut dyn FnMut(u64, &[u8])) -> Result<bool, StoreError> {
        self.overlay().get(key, show)
    }

    fn scan(&self, range: &KeyRange<'_>, row: &mut RowVisitor<'_>) -> Result<(), StoreError> {
        self.overlay().scan(range, row)
    }

    fn leaves(
        &self,
        range: &KeyRange<'_>,
        visit: &mut dyn FnMut(LeafView<'_>) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        self.overlay().leaves(range, visit)
    }

    fn runs(
        &self,
        range: &KeyRange<'_>,
        visit: &mut dyn FnMut(RunView<'_>) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        self.overlay().runs(range, visit)
    }

    fn written(&self, range: &KeyRange<'_>, show: &mut WriteVisitor<'_>) -> Result<(), StoreError> {
        self.overlay().written(range, show)
    }

    fn floor(&self) -> u64 {
        self.floor
    }
}

impl Edit for Draft<'_> {
    fn put(&mut self, key: &[u8], value: &mut dyn FnMut(&mut Vec<u8>)) -> Result<(), StoreError> {
        self.batch.put(key, value)
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), StoreError> {
        self.batch.delete(key)
    }

    fn splice(&mut self, key: &[u8], at: u32, removed: u32, inserted: &[u8]) -> Result<(), StoreError> {
        let spliced = splice_over(&self.overlay(), key, at, removed, inserted)?;
        self.batch.add_spliced(spliced, key, at, removed, inserted)
    }

    /// Nobody else can change anything while the writer's lock is held.
    fn depend(&mut self, _: &[u8]) {}
}

/// What a splice adds to a batch: one over a value that the same batch wrote becomes a put of the whole value.
pub(crate) enum Spliced {
    Splice,
    Put(Vec<u8>),
}

pub(crate) fn splice_over(
    overlay: &Overlay<'_>,
    key: &[u8],
    at: u32,
    removed: u32,
    inserted: &[u8],
) -> Result<Spliced, StoreError> {
    if overlay.batch.find(key).is_none() {
        return Ok(Spliced::Splice);
    }
    let mut new = None;
    overlay.get(key, &mut |_, value| new = splice(value, at, removed, inserted))?;
    new.map(Spliced::Put).ok_or_else(|| StoreError::Damaged("a splice does not fit its value".into()))
}

impl Batch {
    pub(crate) fn add_spliced(
        &mut self,
        spliced: Spliced,
        key: &[u8],
        at: u32,
        removed: u32,
        inserted: &[u8],
    ) -> Result<(), StoreError> {
        match spliced {
            Spliced::Splice => self.splice(key, at, removed, inserted),
            Spliced::Put(value) => self.put(key, &mut |out| out.extend_from_slice(&value)),
        }
    }
}

/// Applies the operations of a commit, the first of which has the version `first`.
pub(crate) fn apply(tree: &mut Tree, forest: &Forest, first: u64, encoded: &[u8]) -> Result<(), StoreError> {
    let damaged = || StoreError::Damaged("a commit in the log cannot be read".into());
    for (op, version) in operations(encoded).zip(first..) {
        match op.map_err(|()| damaged())? {
            Op::Put { key, value } => {
                tree.insert(forest, key, version, value)?;
            }
            Op::Delete { key } => {
                tree.remove(forest, key)?;
            }
            Op::Splice { key, at, removed, inserted } => {
                let new = tree.get(forest, key, |entry| splice(entry.value, at, removed, inserted))?;
                tree.insert(forest, key, version, &new.flatten().ok_or_else(damaged)?)?;
            }
        }
    }
    Ok(())
}

impl Engine {
    /// Whether writes are taken.
    #[inline]
    pub(crate) fn check_writable(&self) -> Result<(), StoreError> {
        if self.options.read_only {
            return Err(StoreError::ReadOnly);
        }
        self.check_poison()
    }

    #[inline]
    pub(crate) fn check_poison(&self) -> Result<(), StoreError> {
        match self.poison.get() {
            Some(first) => Err(StoreError::Poisoned { first: first.clone() }),
            None => Ok(()),
        }
    }

    /// Remembers the first error after which nothing may be written.
    pub(crate) fn poisoned_by<E: Into<StoreError>>(&self, error: E) -> StoreError {
        let error = error.into();
        let first = self.poison.get_or_init(|| error.to_string());
        tracing::error!(%first, "the store takes no more writes");
        error
    }

    /// A commit on a branch: `write` puts it together over the branch as it is, then it is applied, logged, and
    /// waited for as `durability` asks.
    #[inline]
    pub(crate) fn commit<R>(
        &self,
        branch: &BranchState,
        durability: Durability,
        write: impl FnOnce(&mut dyn Edit) -> Result<R, StoreError>,
    ) -> Result<(R, u64), StoreError> {
        self.check_writable()?;
        self.throttle()?;
        let mut writer = self.writer.lock();
        branch.check_alive()?;
        let writer_ref = &mut *writer;
        writer_ref.batch.begin(|header| {
            header.push(record::WRITES);
            header.extend_from_slice(&branch.id.to_le_bytes());
        });
        let result = {
            let tree = branch.tree(&self.forest)?;
            let floor = tree.floor();
            write(&mut Draft { forest: &self.forest, tree: &tree, floor, batch: &mut writer_ref.batch })?
        };
        let version = self.apply_batch(writer_ref, branch)?;
        drop(writer);
        self.settle(version, durability)?;
        Ok((result, version))
    }

    /// Applies and logs the batch of the writer. Returns the version of its last operation.
    pub(crate) fn apply_batch(&self, writer: &mut Writer, branch: &BranchState) -> Result<u64, StoreError> {
        self.check_poison()?;
        let count = writer.batch.len();
        if count == 0 {
            return Ok(writer.version);
        }
        let first = self.first_version(writer, writer.batch.body().len());
        let mut slot = branch.slot_mut();
        let tree = slot.tree(&self.forest)?;
        // A single operation leaves the tree as it was when it fails; several need their nodes at hand first.
        let single = count == 1;
        if !single {
            for op in writer.batch.iter() {
                tree.prepare(&self.forest, op.key())?;
            }
        }
        if let Err(error) = apply(tree, &self.forest, first, writer.batch.operations()) {
            return Err(if single { error } else { self.poisoned_by(error) });
        }
        self.log_batch(writer, first, count)
    }

    /// The version that the first operation of the next record has: parts that come before it take one each.
    fn first_version(&self, writer: &Writer, body_len: usize) -> u64 {
        writer.version + 1 + parts_before(body_len)
    }

    fn log_batch(&self, writer: &mut Writer, first: u64, count: usize) -> Result<u64, StoreError> {
        let Writer { batch, version, .. } = writer;
        self.append(version, batch.body(), count as u32)?;
        debug_assert_eq!(*version, first + count as u64 - 1);
        Ok(*version)
    }

    /// Logs a batch that has no operation.
    pub(crate) fn log_empty(&self, writer: &mut Writer) -> Result<u64, StoreError> {
        self.check_poison()?;
        let Writer { batch, version, .. } = writer;
        self.append(version, batch.body(), 1)?;
        Ok(*version)
    }

    /// Appends a record, in parts if it is large, and moves `version` on to its last operation.
    pub(crate) fn append(&self, version: &mut u64, body: &[u8], count: u32) -> Result<(), StoreError> {
        let parts = parts_before(body.len());
        let last = *version + parts + u64::from(count);
        if let Some(log) = &self.log {
            let appended = if parts == 0 { log.append(count, body) } else { append_parts(log, body, count) };
            appended.map_err(|error| self.poisoned_by(error))?;
            if log.bytes_since_release() > self.options.checkpoint_log_bytes {
                self.request_checkpoint();
            }
        }
        *version = last;
        Ok(())
    }

    /// Waits until a version is as durable as asked.
    #[inline]
    pub(crate) fn settle(&self, version: u64, durability: Durability) -> Result<(), StoreError> {
        match &self.log {
            Some(log) => log.wait(version, durability).map_err(|error| self.poisoned_by(error)),
            None => Ok(()),
        }
    }

    pub(crate) fn request_checkpoint(&self) {
        let mut requests = self.requests.lock();
        if !requests.checkpoint {
            requests.checkpoint = true;
            self.wake.notify_all();
        }
    }

    /// Whether checkpoints have fallen so far behind that commits must wait for them.
    fn is_behind(&self) -> bool {
        let Some(log) = &self.log else { return false };
        log.bytes_since_release() > self.options.checkpoint_log_bytes.saturating_mul(4)
            || self.forest.excess() > self.forest.budget().max(64 << 20)
    }

    #[inline]
    pub(crate) fn throttle(&self) -> Result<(), StoreError> {
        if self.is_behind() {
            return self.wait_for_checkpoint();
        }
        Ok(())
    }

    #[cold]
    fn wait_for_checkpoint(&self) -> Result<(), StoreError> {
        let deadline = clock::now() + THROTTLE_MAX;
        while self.is_behind() {
            self.check_poison()?;
            if clock::now() > deadline {
                let waited_ms = THROTTLE_MAX.as_millis() as u64;
                return Err(StoreError::TimedOut { what: "a checkpoint", waited_ms });
            }
            self.request_checkpoint();
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// A branch by its name.
    pub(crate) fn find(&self, name: &str) -> Result<Arc<BranchState>, StoreError> {
        let registry = self.registry.read();
        match registry.by_name.get(name) {
            Some(branch) => Ok(branch.clone()),
            None => {
                let hint = did_you_mean(name, registry.by_name.keys().map(String::as_str));
                Err(StoreError::BranchNotFound { name: name.to_owned(), hint })
            }
        }
    }

    /// Frees a tree, on the maintenance thread if it may be much.
    pub(crate) fn discard(&self, tree: Tree) {
        if tree.is_sole() {
            let mut requests = self.requests.lock();
            if !requests.stop {
                requests.trash.push(tree);
                self.wake.notify_all();
            }
        }
    }

    /// What becomes of a tree that no branch has any more: its memory goes now, its stored nodes at a checkpoint.
    pub(crate) fn lay_to_rest(&self, writer: &mut Writer, grave: Grave) {
        if self.in_memory {
            self.discard_slot(grave.slot);
        } else {
            writer.garbage.graves.push(grave);
        }
    }

    pub(crate) fn discard_slot(&self, slot: Slot) {
        if let Slot::Open(tree) = slot {
            self.discard(tree);
        }
    }

    /// Whether all versions in its trees are its own, so that one version means one entry. What was copied to a place
    /// outside of any store may come from several.
    pub(crate) fn gave_versions(&self) -> bool {
        !self.foreign
    }

    /// The number that the next node will have.
    pub(crate) fn node_mark(&self) -> NodeId {
        self.forest.next_id()
    }

    pub(crate) fn last_version(&self) -> u64 {
        self.writer.lock().version
    }

    pub(crate) fn count_checkpoint(&self) {
        self.checkpoints.fetch_add(1, Ordering::Relaxed);
    }
}

/// Records of parts that come before the last one.
pub(crate) fn parts_before(body_len: usize) -> u64 {
    if body_len <= PART_BYTES {
        0
    } else {
        (body_len.div_ceil(PART_BYTES) - 1) as u64
    }
}

fn append_parts(log: &Log, body: &[u8], count: u32) -> Result<u64, crate::log::LogError> {
    let mut part = Vec::with_capacity(PART_BYTES + 1);
    let mut chunks = body.chunks(PART_BYTES).peekable();
    let mut first = 0;
    let mut is_first = true;
    while let Some(chunk) = chunks.next() {
        let last = chunks.peek().is_none();
        part.clear();
        part.push(match (is_first, last) {
            (true, _) => record::FIRST_PART,
            (_, false) => record::PART,
            (_, true) => record::LAST_PART,
        });
        is_first = false;
        part.extend_from_slice(chunk);
        first = log.append(if last { count } else { 1 }, &part)?;
    }
    Ok(first)
}
