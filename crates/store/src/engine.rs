//! The engine: one writer at a time, one log, one forest, and the locks on them.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::OnceLock;
use std::time::Duration;

use duramen_tree::{Forest, NodeId, Tree};

use crate::blob::Uploads;
use crate::durability::Durability;
use crate::error::StoreError;
use crate::garbage::{Garbage, Tombstone};
use crate::ground::Guard;
use crate::held::HeldTrees;
use crate::lock_order::{Mutex, MutexGuard, ReadGuard, RwLock, WriteGuard, CHECKPOINT, REGISTRY, WRITER};
use crate::log::{Log, LogCounters};
use crate::options::Options;
use crate::reclaim::{Epochs, Pin};
use crate::record;
use crate::registry::Registry;
use crate::requests::Requests;
use crate::slot::Slot;
use crate::watch::News;
use crate::writer::Writer;

/// How long a checkpoint waits for another one, or for a bulk load.
const CHECKPOINT_WAIT: Duration = Duration::from_secs(60);

/// The right to make checkpoints, or to store nodes in another way.
pub(crate) type CheckpointGuard<'e> = MutexGuard<'e, (), CHECKPOINT>;

/// The right to write.
pub(crate) type WriterGuard<'e> = MutexGuard<'e, Writer, WRITER>;

/// Where the trees of an engine come from.
pub(crate) enum Backing {
    /// Nothing is ever written: there is no log and no checkpoint.
    Memory,
    /// They were copied from somewhere else, and are only read.
    Copies,
    /// A node store and a log.
    Stored {
        path: Option<PathBuf>,
        /// Let go of when all else is closed.
        _guard: Option<Guard>,
    },
}

/// Why nothing may be written any more.
enum Stopped {
    /// The store was closed.
    Closed,
    /// By another writer, and by which.
    Fenced(String),
    /// The text of the first error after which nothing may be written.
    Failed(String),
}

impl Stopped {
    fn error(&self) -> StoreError {
        match self {
            Self::Closed => StoreError::Closed,
            Self::Fenced(by) => StoreError::Fenced { by: by.clone() },
            Self::Failed(first) => StoreError::Poisoned { first: first.clone() },
        }
    }
}

/// What an engine begins with.
pub(crate) struct Start {
    pub(crate) registry: Registry,
    pub(crate) version: u64,
    pub(crate) garbage: Garbage,
    pub(crate) created_ms: i64,
}

pub(crate) struct Engine {
    options: Options,
    forest: Forest,
    log: Option<Log>,
    checkpointing: Mutex<(), CHECKPOINT>,
    writer: Mutex<Writer, WRITER>,
    registry: RwLock<Registry, REGISTRY>,
    requests: Requests,
    epochs: Epochs,
    held: HeldTrees,
    uploads: Uploads,
    news: News,
    checkpoints: AtomicU64,
    /// The version of the last write. Changed by the writer, under the lock of the tree that it writes to.
    version: AtomicU64,
    stopped: OnceLock<Stopped>,
    created_ms: i64,
    /// The last field, because it is dropped last.
    backing: Backing,
}

impl Engine {
    /// An engine without a log.
    pub(crate) fn new(options: Options, forest: Forest, backing: Backing, start: Start) -> Self {
        Self {
            options,
            forest,
            log: None,
            checkpointing: Mutex::new(()),
            writer: Mutex::new(Writer::new(start.version, start.garbage)),
            registry: RwLock::new(start.registry),
            requests: Requests::default(),
            epochs: Epochs::new(),
            held: HeldTrees::default(),
            uploads: Uploads::default(),
            news: News::default(),
            checkpoints: AtomicU64::new(0),
            version: AtomicU64::new(start.version),
            stopped: OnceLock::new(),
            created_ms: start.created_ms,
            backing,
        }
    }

    /// Begins to log what is written, once the log was redone.
    pub(crate) fn attach_log(&mut self, log: Log) {
        self.log = Some(log);
    }

    #[inline]
    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    #[inline]
    pub(crate) fn forest(&self) -> &Forest {
        &self.forest
    }

    /// The trees of the snapshots that are there.
    #[inline]
    pub(crate) fn held(&self) -> &HeldTrees {
        &self.held
    }

    /// The blobs that are being put.
    pub(crate) fn uploads(&self) -> &Uploads {
        &self.uploads
    }

    /// What tells those who wait for a later version.
    pub(crate) fn news(&self) -> &News {
        &self.news
    }

    /// When the store was made, in milliseconds since 1970 (UTC).
    pub(crate) fn created_ms(&self) -> i64 {
        self.created_ms
    }

    /// The folder of the store, if it has one.
    pub(crate) fn path(&self) -> Option<&PathBuf> {
        match &self.backing {
            Backing::Stored { path, .. } => path.as_ref(),
            Backing::Memory | Backing::Copies => None,
        }
    }

    /// Whether its nodes are kept anywhere but in memory, by itself.
    pub(crate) fn is_stored(&self) -> bool {
        matches!(self.backing, Backing::Stored { .. })
    }

    /// Whether a version identifies exactly one entry. Branches that were copied out of stores may repeat versions.
    pub(crate) fn has_unique_versions(&self) -> bool {
        !matches!(self.backing, Backing::Copies)
    }

    /// The right to make checkpoints, for which a bulk load may have to be waited for.
    pub(crate) fn lock_checkpoints(&self) -> Result<CheckpointGuard<'_>, StoreError> {
        let waited_ms = CHECKPOINT_WAIT.as_millis() as u64;
        let late = || StoreError::TimedOut { what: "another checkpoint or bulk load", waited_ms };
        self.checkpointing.try_lock_for(CHECKPOINT_WAIT).ok_or_else(late)
    }

    /// The right to make checkpoints, if nobody has it.
    pub(crate) fn try_lock_checkpoints(&self) -> Option<CheckpointGuard<'_>> {
        self.checkpointing.try_lock()
    }

    /// The right to write.
    #[inline]
    pub(crate) fn lock_writer(&self) -> WriterGuard<'_> {
        self.writer.lock()
    }

    /// The branches. To be let go of soon.
    pub(crate) fn registry(&self) -> ReadGuard<'_, Registry, REGISTRY> {
        self.registry.read()
    }

    /// The branches, which only the holder of the writer's lock changes.
    pub(crate) fn registry_mut(&self, _writer: &Writer) -> WriteGuard<'_, Registry, REGISTRY> {
        self.registry.write()
    }

    /// Keeps the nodes that can be reached now from being deleted.
    pub(crate) fn pin(&self) -> Pin {
        self.epochs.pin()
    }

    /// Begins another epoch. Returns the one that ended, in which branches dropped what they dropped until now.
    pub(crate) fn advance_epoch(&self, _writer: &Writer) -> Pin {
        self.epochs.advance()
    }

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
        match self.stopped.get() {
            Some(stopped) => Err(stopped.error()),
            None => Ok(()),
        }
    }

    /// Remembers the first error after which nothing may be written.
    pub(crate) fn poison<E: Into<StoreError>>(&self, error: E) -> StoreError {
        let error = error.into();
        let first = self.stopped.get_or_init(|| match &error {
            StoreError::Fenced { by } => Stopped::Fenced(by.clone()),
            error => Stopped::Failed(error.to_string()),
        });
        log::error!("{}", first.error());
        self.news.tell();
        match first {
            // Whoever waited for the same flush is told the same.
            Stopped::Fenced(by) => StoreError::Fenced { by: by.clone() },
            Stopped::Closed | Stopped::Failed(_) => error,
        }
    }

    /// Whether there is anything to write to that was not closed.
    pub(crate) fn is_open_for_writing(&self) -> bool {
        let takes_writes = self.log.is_some() || matches!(self.backing, Backing::Memory);
        !self.options.read_only && takes_writes && !matches!(self.stopped.get(), Some(Stopped::Closed))
    }

    /// Ends the log, and takes no more writes.
    pub(crate) fn close(&self, _writer: &Writer) -> Result<(), StoreError> {
        self.close_log()?;
        self.stopped.get_or_init(|| Stopped::Closed);
        self.news.tell();
        Ok(())
    }

    /// A last checkpoint, before the log is ended.
    pub(crate) fn last_checkpoint(&self) -> Result<(), StoreError> {
        self.check_poison()?;
        if let Some(log) = &self.log {
            log.expect_end().map_err(|error| self.poison(error))?;
        }
        self.checkpoint(false)
    }

    /// Ends the log with the mark of a clean end.
    pub(crate) fn close_log(&self) -> Result<(), StoreError> {
        self.log.as_ref().map_or(Ok(()), |log| Ok(log.close()?))
    }

    /// Whether what is written goes to a log, and to the node store at checkpoints.
    pub(crate) fn has_log(&self) -> bool {
        self.log.is_some()
    }

    pub(crate) fn log_counters(&self) -> LogCounters {
        self.log.as_ref().map(Log::counters).unwrap_or_default()
    }

    /// Ends the current segment of the log. Returns the number of the next one.
    pub(crate) fn rotate_log(&self) -> Result<u64, StoreError> {
        let Some(log) = &self.log else { return Ok(0) };
        log.rotate().map_err(|error| self.poison(error))?;
        Ok(log.segment())
    }

    /// Frees the log up to a version, which a checkpoint holds.
    pub(crate) fn release_log(&self, version: u64) -> Result<(), StoreError> {
        let Some(log) = &self.log else { return Ok(()) };
        log.release(version).map_err(|error| self.poison(error))
    }

    /// Logs a record of `count` versions, in parts if it is large, and moves the writer on to its last version.
    pub(crate) fn append(&self, writer: &mut Writer, body: &[u8], count: u32) -> Result<(), StoreError> {
        let last = self.append_after(writer.version(), body, count)?;
        self.advance(writer, last);
        Ok(())
    }

    /// Logs the batch of the writer as a record of `count` versions.
    pub(crate) fn append_batch(&self, writer: &mut Writer, count: u32) -> Result<u64, StoreError> {
        let last = self.append_after(writer.version(), writer.batch().body(), count)?;
        self.advance(writer, last);
        Ok(last)
    }

    fn append_after(&self, version: u64, body: &[u8], count: u32) -> Result<u64, StoreError> {
        if let Some(log) = &self.log {
            record::append(log, body, count).map_err(|error| self.poison(error))?;
            if self.is_checkpoint_due(log.bytes_since_release()) {
                self.requests.checkpoint();
            }
        }
        Ok(version + record::parts_before(body.len()) + u64::from(count))
    }

    /// Waits until a version is as durable as asked.
    #[inline]
    pub(crate) fn wait_durable(&self, version: u64, durability: Durability) -> Result<(), StoreError> {
        match &self.log {
            Some(log) => log.wait(version, durability).map_err(|error| self.poison(error)),
            None => Ok(()),
        }
    }

    /// Moves on to the version of a record that was logged, or found in the log.
    #[inline]
    pub(crate) fn advance(&self, writer: &mut Writer, version: u64) {
        writer.advance_to(version);
        self.version.store(version, Ordering::SeqCst);
        self.news.tell();
    }

    /// The version of the last write. Under the lock of a tree: no write to it that is not in it has this version or a lower one.
    pub(crate) fn last_version(&self) -> u64 {
        self.version.load(Ordering::SeqCst)
    }

    /// The number that the next node will have.
    pub(crate) fn node_mark(&self) -> NodeId {
        self.forest.next_id()
    }

    pub(crate) fn requests(&self) -> &Requests {
        &self.requests
    }

    /// Bytes of the log since the last checkpoint; none without a log.
    #[inline]
    pub(crate) fn log_bytes(&self) -> Option<u64> {
        self.log.as_ref().map(Log::bytes_since_release)
    }

    /// Gives up a tree that no branch has any more: its memory goes now, its stored nodes at a checkpoint.
    pub(crate) fn retire(&self, writer: &mut Writer, tombstone: Tombstone) {
        match self.backing {
            Backing::Memory => self.free_memory(tombstone.slot),
            // Whoever only reads deletes no nodes.
            _ if self.options.read_only => self.free_memory(tombstone.slot),
            Backing::Copies | Backing::Stored { .. } => writer.garbage_mut().tombstones.push(tombstone),
        }
    }

    /// Frees the memory of a tree that no branch has any more.
    pub(crate) fn free_memory(&self, slot: Slot) {
        if let Slot::Open(tree) = slot {
            self.requests.free(tree);
        }
    }

    /// Has nodes deleted that were stored for nothing.
    pub(crate) fn free_nodes(&self, ids: Vec<NodeId>) {
        self.lock_writer().garbage_mut().pending.push_unreachable(ids);
    }

    /// Has the nodes of a tree deleted that no branch took.
    pub(crate) fn free_tree(&self, tree: &Tree) -> Result<(), StoreError> {
        let mut ids = Vec::new();
        tree.ids_from(&self.forest, 0, &mut |id| ids.push(id))?;
        self.free_nodes(ids);
        Ok(())
    }

    pub(crate) fn checkpoints(&self) -> u64 {
        self.checkpoints.load(Ordering::Relaxed)
    }

    pub(crate) fn count_checkpoint(&self) {
        self.checkpoints.fetch_add(1, Ordering::Relaxed);
    }
}
