//! A branch: its state in memory, and the handle that programs hold.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

use duramen_tree::{Forest, NodeId, StoredRoot, Tree};
use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::branches::BranchOp;
use crate::durability::Durability;
use crate::engine::Engine;
use crate::error::StoreError;
use crate::scope::{Edit, Scope, View};
use crate::store::{Inner, Snapshot};
use crate::transaction::Transaction;

/// A tree that is open, or where it is stored.
pub(crate) enum Slot {
    Open(Tree),
    Stored(StoredRoot),
}

impl Slot {
    pub(crate) fn tree(&mut self, forest: &Forest) -> Result<&mut Tree, StoreError> {
        if let Self::Stored(root) = self {
            *self = Self::Open(Tree::open(forest, root)?);
        }
        match self {
            Self::Open(tree) => Ok(tree),
            Self::Stored(_) => unreachable!("the tree was opened just now"),
        }
    }

    /// Another slot with the same tree.
    pub(crate) fn share(&self) -> Self {
        match self {
            Self::Open(tree) => Self::Open(tree.clone()),
            Self::Stored(root) => Self::Stored(*root),
        }
    }
}

/// What is known of a branch beside its data.
pub(crate) struct Meta {
    pub(crate) created_ms: i64,
    pub(crate) expires_ms: Option<i64>,
    pub(crate) protected: bool,
    pub(crate) parent: Option<u64>,
    /// Nodes below this were there when the branch was forked.
    pub(crate) fork_mark: NodeId,
    /// Nodes below this are perhaps held by a base of this branch, too.
    pub(crate) origin_mark: NodeId,
    /// Nodes of the parent below this are perhaps held by this branch, too.
    pub(crate) parent_mark: NodeId,
    /// The parent as it was when the branch was forked.
    pub(crate) base: Option<Slot>,
    /// When that was, as a number of nodes.
    pub(crate) base_mark: NodeId,
    /// What this branch and its parent had alike after the last merge between them.
    pub(crate) merge_base: Option<Slot>,
}

impl Meta {
    pub(crate) fn root(created_ms: i64) -> Self {
        Self {
            created_ms,
            expires_ms: None,
            protected: false,
            parent: None,
            fork_mark: 0,
            origin_mark: 0,
            parent_mark: 0,
            base: None,
            base_mark: 0,
            merge_base: None,
        }
    }
}

pub(crate) struct BranchState {
    pub(crate) id: u64,
    pub(crate) name: String,
    slot: RwLock<Slot>,
    pub(crate) meta: Mutex<Meta>,
    /// The version of the last reset: no cell has a version below it. Changed with the slot only, under its lock.
    floor: AtomicU64,
    deleted: AtomicBool,
}

/// The tree of a branch while nobody changes it.
pub(crate) struct TreeGuard<'b> {
    slot: RwLockReadGuard<'b, Slot>,
    floor: u64,
}

impl TreeGuard<'_> {
    /// No cell of the branch has a version below this.
    #[inline]
    pub(crate) fn floor(&self) -> u64 {
        self.floor
    }
}

impl std::ops::Deref for TreeGuard<'_> {
    type Target = Tree;

    #[inline]
    fn deref(&self) -> &Tree {
        match &*self.slot {
            Slot::Open(tree) => tree,
            Slot::Stored(_) => unreachable!("a guard is made of an open tree"),
        }
    }
}

impl BranchState {
    pub(crate) fn new(id: u64, name: String, slot: Slot, meta: Meta) -> Self {
        let (floor, deleted) = (AtomicU64::new(0), AtomicBool::new(false));
        Self { id, name, slot: RwLock::new(slot), meta: Mutex::new(meta), floor, deleted }
    }

    pub(crate) fn with_floor(self, floor: u64) -> Self {
        self.floor.store(floor, Ordering::Release);
        self
    }

    /// No cell of the branch has a version below this.
    pub(crate) fn floor(&self) -> u64 {
        self.floor.load(Ordering::Acquire)
    }

    /// Gives the branch another tree, whose cells have been others' until `version`. Returns the one that it had.
    pub(crate) fn replace(&self, slot: Slot, version: u64) -> Slot {
        let mut held = self.slot.write();
        self.floor.store(version, Ordering::Release);
        std::mem::replace(&mut *held, slot)
    }

    /// The tree for reading.
    #[inline]
    pub(crate) fn tree(&self, forest: &Forest) -> Result<TreeGuard<'_>, StoreError> {
        let guard = self.slot.read();
        if matches!(&*guard, Slot::Open(_)) {
            return Ok(TreeGuard { slot: guard, floor: self.floor() });
        }
        drop(guard);
        let mut guard = self.slot.write();
        guard.tree(forest)?;
        Ok(TreeGuard { slot: RwLockWriteGuard::downgrade(guard), floor: self.floor() })
    }

    /// The trees of the branch and its bases that are in memory.
    pub(crate) fn open_trees(&self) -> Vec<Tree> {
        let meta = self.meta.lock();
        let bases = [&meta.base, &meta.merge_base].into_iter().flatten().map(Slot::share);
        let slots: Vec<_> = std::iter::once(self.share()).chain(bases).collect();
        drop(meta);
        let open = |slot| match slot {
            Slot::Open(tree) => Some(tree),
            Slot::Stored(_) => None,
        };
        slots.into_iter().filter_map(open).collect()
    }

    /// The slot for writing. Only the holder of the writer's lock may ask.
    pub(crate) fn slot_mut(&self) -> RwLockWriteGuard<'_, Slot> {
        self.slot.write()
    }

    pub(crate) fn share(&self) -> Slot {
        self.slot.read().share()
    }

    pub(crate) fn check_alive(&self) -> Result<(), StoreError> {
        if self.deleted.load(Ordering::Acquire) {
            return Err(StoreError::BranchNotFound { name: self.name.clone(), hint: None });
        }
        Ok(())
    }

    pub(crate) fn bury(&self) {
        self.deleted.store(true, Ordering::Release);
    }

    pub(crate) fn has_expired(&self, now_ms: i64) -> bool {
        self.meta.lock().expires_ms.is_some_and(|at| at <= now_ms)
    }
}

/// A handle on a branch. Clones are cheap, and each may be used by a thread of its own.
///
/// Every write is a commit of its own; to commit several together, use a [`transaction`](Self::transact).
#[derive(Clone)]
pub struct Branch {
    pub(crate) engine: Arc<Engine>,
    pub(crate) state: Arc<BranchState>,
    pub(crate) durability: Durability,
    /// The store stays open as long as somebody may write to it.
    pub(crate) _store: Arc<Inner>,
}

impl Branch {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.state.name
    }

    /// The same branch, whose commits are acknowledged at another level than the store's.
    #[must_use]
    pub fn with_durability(&self, durability: Durability) -> Self {
        Self { durability, ..self.clone() }
    }

    /// Forks the branch: see [`Store::fork`](crate::Store::fork).
    ///
    /// # Errors
    /// When the name is taken or not allowed, the branch was deleted, or nothing can be written.
    pub fn fork(&self, name: &str) -> Result<Self, StoreError> {
        let created_ms = duramen_measure::clock::unix_ms();
        let id = self.engine.change_branches(self.durability, |registry| {
            registry.check_free(name)?;
            self.state.check_alive()?;
            let (id, source) = (registry.next_id, self.state.id);
            Ok((BranchOp::Fork { id, source, name: name.to_owned(), created_ms, expires_ms: None }, id))
        })?;
        let state = self.engine.registry.read().get(id)?;
        Ok(Self { state, ..self.clone() })
    }

    /// The branch as it is now, for reading. It costs nothing, and others go on writing.
    ///
    /// # Errors
    /// When the branch was deleted or cannot be read.
    pub fn snapshot(&self) -> Result<Snapshot, StoreError> {
        Snapshot::take(&self.engine, &self.state)
    }

    /// Begins a transaction. Usually [`transact`](Self::transact) is what you want.
    ///
    /// # Errors
    /// When the branch was deleted or cannot be read.
    pub fn begin(&self) -> Result<Transaction, StoreError> {
        Transaction::begin(self)
    }

    /// Runs `work` in a transaction and commits it; runs it again when another commit was first, at most ten times.
    ///
    /// # Errors
    /// What `work` returned, and nothing is committed then; [`StoreError::RetriesExhausted`] when it lost each time.
    pub fn transact<R>(
        &self,
        work: impl FnMut(&Transaction) -> Result<R, StoreError>,
    ) -> Result<R, StoreError> {
        crate::transaction::transact(self, work)
    }
}

impl std::fmt::Debug for Branch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Branch")
            .field("name", &self.state.name)
            .field("durability", &self.durability)
            .finish()
    }
}

impl Scope for Branch {
    /// The version of the commit's last write.
    type Written = u64;

    fn written(version: u64) -> u64 {
        version
    }

    fn peek<R>(&self, read: impl FnOnce(&dyn View) -> Result<R, StoreError>) -> Result<R, StoreError> {
        let tree = self.state.tree(&self.engine.forest)?;
        // A deleted branch is marked before its tree is taken away.
        self.state.check_alive()?;
        read(&crate::engine::Reader { forest: &self.engine.forest, tree: &tree, floor: tree.floor() })
    }

    fn read<R>(&self, read: impl FnOnce(&dyn View) -> Result<R, StoreError>) -> Result<R, StoreError> {
        self.snapshot()?.peek(read)
    }

    fn write<R>(
        &self,
        write: impl FnOnce(&mut dyn Edit) -> Result<R, StoreError>,
    ) -> Result<(R, u64), StoreError> {
        self.engine.commit(&self.state, self.durability, write)
    }
}
