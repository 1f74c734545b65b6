//! The store: opening and closing it, its branches, and what is known of it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use duramen_base::clock;
use duramen_tree::{ForestStats, NodeStore};

use crate::branch::Branch;
use crate::branch_state::BranchState;
use crate::branches::BranchOp;
use crate::durability::Durability;
use crate::engine::Engine;
use crate::error::StoreError;
use crate::folder::Found;
use crate::ground::Ground;
use crate::log::{LogCounters, LogDirectory};
use crate::names::DEFAULT_BRANCH;
use crate::open_store::OpenStore;
use crate::options::Options;
use crate::recovery::Parts;
use crate::recovery::Repaired;
use crate::snapshot::Snapshot;

/// The longest time to live of a branch, in seconds: ten years.
pub const TTL_S_MAX: u64 = 315_360_000;

/// A store. Clones are handles on the same one; it is closed when the last of them and of its branches is dropped, and
/// its folder is free for another process when its snapshots are dropped, too.
///
/// ```
/// use duramen_store::{Options, Scope, Store};
/// # let dir = tempfile::tempdir()?;
/// let store = Store::open(dir.path(), Options::default())?;
/// let main = store.branch("main")?;
/// main.kv().put("greeting", "hello")?;
///
/// let try_out = store.fork("main", "try-out")?;
/// try_out.kv().put("greeting", "hi")?;
/// assert_eq!(main.kv().get("greeting")?, Some("hello".into()));
/// assert_eq!(try_out.kv().get("greeting")?, Some("hi".into()));
/// store.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Store {
    open: Arc<OpenStore>,
}

/// What is known of a branch.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct BranchInfo {
    /// Its name.
    pub name: String,
    /// The branch that it was forked from, if that is still there.
    pub parent: Option<String>,
    /// When it was made, in milliseconds since 1970 (UTC).
    pub created_ms: i64,
    /// When it will be deleted by itself, in milliseconds since 1970 (UTC).
    pub expires_ms: Option<i64>,
    /// Whether it can be deleted, reset or expire.
    pub protected: bool,
    /// Its entries. Events count twice (they are indexed by type), collections and indexes have one of their own, and an index has one of each row.
    pub entries: u64,
    /// Bytes of all its keys and values, whoever shares them.
    pub bytes: u64,
    /// Bytes of the keys and values that lie in leaves which it does not share with its parent; none for a branch
    /// without a parent.
    pub own_bytes: Option<u64>,
}

/// Counts since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Records appended to the log.
    pub log_appends: u64,
    /// Writes of the log to the operating system.
    pub log_writes: u64,
    /// Times that the log was made durable.
    pub log_syncs: u64,
    /// Bytes of the records appended to the log.
    pub log_bytes: u64,
    /// Nanoseconds spent in making the log durable.
    pub log_sync_ns: u64,
    /// Checkpoints made.
    pub checkpoints: u64,
    /// Nodes read from the node store.
    pub node_reads: u64,
    /// Accesses to leaves and inner nodes that found them in memory.
    pub cache_hits: u64,
    /// Nodes copied because a snapshot, a fork or a checkpoint held them.
    pub node_copies: u64,
    /// Bytes of memory that nodes take now.
    pub resident_bytes: u64,
}

/// What is known of a store.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct StoreInfo {
    /// When it was made, in milliseconds since 1970 (UTC).
    pub created_ms: i64,
    /// The version of the last write.
    pub version: u64,
    /// Branches that it has.
    pub branches: u64,
    /// Bytes on disk, without the log; 0 for a store in memory.
    pub node_bytes: u64,
    /// The level at which commits are acknowledged.
    pub durability: Durability,
}

impl Store {
    /// Opens the store in a folder, and makes one if there is none.
    ///
    /// # Errors
    /// [`StoreError::Locked`] when another process has it open, [`StoreError::Damaged`] and
    /// [`StoreError::FromTheFuture`] when it cannot be trusted, [`LogError::Missing`](crate::log::LogError::Missing)
    /// when files of its log are not there, [`StoreError::StoreNotFound`] when it is to be read only and is not there,
    /// [`StoreError::Foreign`] when the folder holds something else. Nothing in such a folder is touched.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Self, StoreError> {
        Self::start(crate::recovery::open(path.as_ref(), options)?)
    }

    /// Repairs the store in a folder of whose log something is missing or broken. What the last checkpoint holds is there
    /// again, and what the log has after that up to the first gap; the rest is lost, and the old log is put aside. None if
    /// nothing was wrong: then nothing is changed. It waits as long as `wait` for another process that has it open to write.
    ///
    /// Versions of commits that were lost are not given again.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] when the nodes are not whole, which nothing but a copy repairs; [`StoreError::Locked`] when a
    /// process has it open for writing; [`StoreError::StoreNotFound`] and [`StoreError::Foreign`].
    pub fn repair(path: impl AsRef<Path>, wait: Duration) -> Result<Option<Repaired>, StoreError> {
        crate::recovery::repair(path.as_ref(), wait)
    }

    /// Whether a folder holds a store, whatever its state; if not, it is empty or not there. Nothing is opened or
    /// changed.
    ///
    /// # Errors
    /// [`StoreError::Foreign`] when it holds something else; when it cannot be read.
    pub fn is_in(path: impl AsRef<Path>) -> Result<bool, StoreError> {
        let path = path.as_ref();
        let found = crate::folder::look(path).map_err(StoreError::io("look into", path))?;
        match found {
            Found::Store | Found::Legacy => Ok(true),
            Found::Nothing => Ok(false),
            Found::Foreign(found) => Err(StoreError::Foreign { path: path.to_owned(), found }),
        }
    }

    /// A new store in memory: nothing is written anywhere, and all is gone when it is dropped.
    ///
    /// # Panics
    /// When the system cannot start a thread.
    pub fn memory() -> Self {
        let engine = crate::recovery::memory();
        Self::start(engine).expect("the system can start one thread more")
    }

    /// Opens a store over other places for its nodes and its log than a folder: how the crash tests cut it off.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    #[doc(hidden)]
    pub fn open_parts(
        nodes: Arc<dyn NodeStore>,
        log: Arc<dyn LogDirectory>,
        options: Options,
    ) -> Result<Self, StoreError> {
        Self::open_on(Ground::new(nodes, log, "a store on parts"), options)
    }

    /// Opens a store that does not stand in a folder, and makes one if there is none on that ground: everything else is as
    /// with [`open`](Self::open).
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_on(ground: Ground, options: Options) -> Result<Self, StoreError> {
        let options = Options { read_only: options.read_only || options.checkpoint_only, ..options };
        let name = ground.name().to_owned();
        Self::start(crate::recovery::assemble(Parts::on(ground, &name), options)?)
    }

    pub(crate) fn start(engine: Engine) -> Result<Self, StoreError> {
        Ok(Self { open: Arc::new(OpenStore::start(engine)?) })
    }

    pub(crate) fn of(open: Arc<OpenStore>) -> Self {
        Self { open }
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        self.open.engine()
    }

    /// A handle on a branch: what others call switching to it. It reads and writes nothing.
    ///
    /// # Errors
    /// When there is no such branch, with the name that was probably meant.
    pub fn branch(&self, name: &str) -> Result<Branch, StoreError> {
        let state = self.engine().registry().named(name)?;
        if state.has_expired(clock::steady_unix_ms()) {
            return Err(StoreError::BranchNotFound { name: name.to_owned(), hint: None });
        }
        Ok(self.handle_on(state))
    }

    fn handle_on(&self, state: Arc<BranchState>) -> Branch {
        Branch { open: self.open.clone(), state, durability: self.durability() }
    }

    fn handle(&self, id: u64) -> Result<Branch, StoreError> {
        let state = self.engine().registry().get(id)?;
        Ok(self.handle_on(state))
    }

    /// Makes an empty branch.
    ///
    /// # Errors
    /// When the name is taken or not allowed, or nothing can be written.
    pub fn create_branch(&self, name: &str) -> Result<Branch, StoreError> {
        let created_ms = clock::unix_ms();
        let id = self.engine().change_branches(self.durability(), |registry| {
            registry.check_free(name)?;
            let id = registry.next_id();
            Ok((BranchOp::Create { id, name: name.to_owned(), created_ms }, id))
        })?;
        self.handle(id)
    }

    /// Forks a branch: the new one has all that the source has, shares it until one of them writes, and costs a
    /// record in the log.
    ///
    /// # Errors
    /// When there is no such source, the name is taken or not allowed, or nothing can be written.
    pub fn fork(&self, source: &str, name: &str) -> Result<Branch, StoreError> {
        self.fork_with(source, name, None)
    }

    /// Forks a branch that is deleted by itself after `ttl`.
    ///
    /// # Errors
    /// As [`fork`](Self::fork); also when the time is longer than ten years.
    pub fn fork_for(&self, source: &str, name: &str, ttl: Duration) -> Result<Branch, StoreError> {
        self.fork_with(source, name, Some(expiry(ttl)?))
    }

    fn fork_with(&self, source: &str, name: &str, expires_ms: Option<i64>) -> Result<Branch, StoreError> {
        let created_ms = clock::unix_ms();
        let id = self.engine().change_branches(self.durability(), |registry| {
            registry.check_free(name)?;
            let (id, source) = (registry.next_id(), registry.named(source)?.id());
            Ok((BranchOp::Fork { id, source, name: name.to_owned(), created_ms, expires_ms }, id))
        })?;
        self.handle(id)
    }

    /// Deletes a branch, whatever it holds, for the price of a record in the log. Its children stay; their parent is
    /// then the parent of the deleted one. Its space is given back in the background.
    ///
    /// # Errors
    /// When there is no such branch, it is protected, has tags, or is the one that every store has, or nothing can be written.
    pub fn delete_branch(&self, name: &str) -> Result<(), StoreError> {
        self.engine().change_branches(self.durability(), |registry| {
            let branch = registry.named(name)?;
            branch.check_unprotected()?;
            if !branch.meta().points.tags().is_empty() {
                let reason = "it has tags; delete them first";
                return Err(StoreError::BranchProtected { name: name.to_owned(), reason });
            }
            Ok((BranchOp::Delete { id: branch.id() }, ()))
        })
    }

    /// Makes a branch what its parent is now. What was written to it since the fork is gone; the branches that were
    /// forked from it stay, and are then children of its parent.
    ///
    /// # Errors
    /// When there is no such branch, it is protected or has no parent, or nothing can be written.
    pub fn reset_branch(&self, name: &str) -> Result<(), StoreError> {
        self.engine().change_branches(self.durability(), |registry| {
            let branch = registry.named(name)?;
            branch.check_unprotected()?;
            if branch.meta().parent.is_none() {
                return Err(StoreError::NoParent { name: name.to_owned() });
            }
            Ok((BranchOp::Reset { id: branch.id() }, ()))
        })
    }

    /// Protects a branch from being deleted, reset or expiring, or lifts that.
    ///
    /// # Errors
    /// When there is no such branch, or nothing can be written.
    pub fn protect_branch(&self, name: &str, protected: bool) -> Result<(), StoreError> {
        self.engine().change_branches(self.durability(), |registry| {
            let branch = registry.named(name)?;
            let expires_ms = branch.meta().expires_ms.filter(|_| !protected);
            Ok((BranchOp::Set { id: branch.id(), expires_ms, protected }, ()))
        })
    }

    /// Has a branch deleted by itself after `ttl` from now, or never.
    ///
    /// # Errors
    /// When there is no such branch, it is protected, the time is longer than ten years, or nothing can be written.
    pub fn expire_branch(&self, name: &str, ttl: Option<Duration>) -> Result<(), StoreError> {
        let expires_ms = ttl.map(expiry).transpose()?;
        self.engine().change_branches(self.durability(), |registry| {
            let branch = registry.named(name)?;
            if ttl.is_some() {
                branch.check_unprotected()?;
            }
            let protected = branch.meta().protected;
            Ok((BranchOp::Set { id: branch.id(), expires_ms, protected }, ()))
        })
    }

    /// All branches, by name. With `sizes`, the bytes of their own are found, which reads what they do not share.
    ///
    /// # Errors
    /// When a branch cannot be read.
    pub fn branches(&self, sizes: bool) -> Result<Vec<BranchInfo>, StoreError> {
        let states: Vec<_> = self.engine().registry().iter().cloned().collect();
        let now = clock::steady_unix_ms();
        let alive = states.into_iter().filter(|state| !state.has_expired(now));
        let mut infos = alive.map(|state| self.info_of(&state, sizes)).collect::<Result<Vec<_>, _>>()?;
        infos.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(infos)
    }

    /// What is known of one branch, its own bytes included.
    ///
    /// # Errors
    /// When there is no such branch, or it cannot be read.
    pub fn branch_info(&self, name: &str) -> Result<BranchInfo, StoreError> {
        self.info_of(&self.branch(name)?.state, true)
    }

    fn info_of(&self, state: &Arc<BranchState>, sizes: bool) -> Result<BranchInfo, StoreError> {
        let engine = self.engine();
        let snapshot = Snapshot::take(engine, state)?;
        let (created_ms, expires_ms, protected, parent, fork_mark) = {
            let meta = state.meta();
            (meta.created_ms, meta.expires_ms, meta.protected, meta.parent, meta.fork_mark)
        };
        let parent_name = parent.and_then(|id| Some(engine.registry().find(id)?.name().to_owned()));
        let own_bytes = match (sizes, parent) {
            (true, Some(_)) => Some(snapshot.tree().bytes_from(engine.forest(), fork_mark)?),
            _ => None,
        };
        Ok(BranchInfo {
            name: state.name().to_owned(),
            parent: parent_name,
            created_ms,
            expires_ms,
            protected: protected || state.name() == DEFAULT_BRANCH,
            entries: snapshot.tree().len(),
            bytes: snapshot.tree().bytes(),
            own_bytes,
        })
    }

    /// The level at which commits are acknowledged.
    pub fn durability(&self) -> Durability {
        self.engine().options().durability
    }

    /// Makes everything that was acknowledged durable, whatever its level.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn sync(&self) -> Result<(), StoreError> {
        let version = self.engine().last_version();
        self.engine().wait_durable(version, Durability::Strict)
    }

    /// Makes a checkpoint now: stores what changed, and releases the log before it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn checkpoint(&self) -> Result<(), StoreError> {
        self.engine().checkpoint(false)
    }

    /// Makes a checkpoint and gives back all space that no branch needs.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn compact(&self) -> Result<(), StoreError> {
        self.engine().checkpoint(true)?;
        // The first one found what can go, and deletes only so much; the second begins after its readers.
        self.engine().checkpoint(false)?;
        self.engine().compact_nodes()
    }

    /// Counts since the store was opened.
    pub fn counters(&self) -> Counters {
        let engine = self.engine();
        let LogCounters { appends, writes, syncs, bytes, sync_nanos, .. } = engine.log_counters();
        let forest: ForestStats = engine.forest().stats();
        Counters {
            log_appends: appends,
            log_writes: writes,
            log_syncs: syncs,
            log_bytes: bytes,
            log_sync_ns: sync_nanos,
            checkpoints: engine.checkpoints(),
            node_reads: forest.node_reads,
            cache_hits: forest.cache_hits,
            node_copies: forest.node_copies,
            resident_bytes: forest.resident_bytes,
        }
    }

    /// What is known of the store.
    pub fn info(&self) -> StoreInfo {
        let engine = self.engine();
        StoreInfo {
            created_ms: engine.created_ms(),
            version: engine.last_version(),
            branches: engine.registry().len() as u64,
            node_bytes: if engine.is_stored() { engine.forest().store().stats().bytes } else { 0 },
            durability: engine.options().durability,
        }
    }

    /// Makes a last checkpoint, so that the next opening has no log to read, and reports what dropping the store
    /// could not. Handles that are still held can read, and no longer write.
    ///
    /// # Errors
    /// When it cannot be written; what was acknowledged is then in the log, as its level says.
    pub fn close(&self) -> Result<(), StoreError> {
        self.open.close()
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("path", &self.engine().path()).finish()
    }
}

pub(crate) fn expiry(ttl: Duration) -> Result<i64, StoreError> {
    if ttl.is_zero() || ttl.as_secs() > TTL_S_MAX {
        let reason = format!("{} s is not between 1 ms and ten years", ttl.as_secs_f64());
        return Err(StoreError::InvalidInput { what: "a time to live", reason });
    }
    Ok(clock::steady_unix_ms() + ttl.as_millis().max(1) as i64)
}
