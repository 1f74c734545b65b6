//! A branch in memory: its tree, and what is known of it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use duramen_tree::{Forest, NodeId, Tree};

use crate::blob::Marks;
use crate::error::StoreError;
use crate::expiry::Due;
use crate::history::{Keep, Points};
use crate::index::Known;
use crate::lock_order::{Mutex, MutexGuard, ReadGuard, RwLock, WriteGuard, META, TREE};
use crate::names::DEFAULT_BRANCH;
use crate::slot::Slot;
use crate::writer::Writer;

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
    /// The states of it that are retained.
    pub(crate) points: Points,
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
            points: Points::default(),
        }
    }
}

pub(crate) struct BranchState {
    id: u64,
    name: String,
    slot: RwLock<Slot, TREE>,
    meta: Mutex<Meta, META>,
    /// The version of the last reset: no cell has a version below it. Changed with the slot only, under its lock.
    floor: AtomicU64,
    /// Whether each commit is retained.
    keeps_each: AtomicBool,
    indexes: Known,
    due: Due,
    marks: Marks,
    deleted: AtomicBool,
}

/// The tree of a branch while nobody changes it.
pub(crate) struct TreeGuard<'b> {
    slot: ReadGuard<'b, Slot, TREE>,
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
        let keeps_each = AtomicBool::new(meta.points.keep().is_some_and(Keep::is_each_commit));
        let (slot, meta, indexes) = (RwLock::new(slot), Mutex::new(meta), Known::default());
        let (due, marks) = (Due::default(), Marks::default());
        Self { id, name, slot, meta, floor, keeps_each, indexes, due, marks, deleted }
    }

    pub(crate) fn with_floor(self, floor: u64) -> Self {
        self.floor.store(floor, Ordering::Release);
        self
    }

    #[inline]
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// What is known of it. To be let go of soon.
    pub(crate) fn meta(&self) -> MutexGuard<'_, Meta, META> {
        self.meta.lock()
    }

    /// No cell of the branch has a version below this.
    pub(crate) fn floor(&self) -> u64 {
        self.floor.load(Ordering::Acquire)
    }

    /// Whether each commit is retained.
    #[inline]
    pub(crate) fn keeps_each(&self) -> bool {
        self.keeps_each.load(Ordering::Acquire)
    }

    /// Says what is retained from now on.
    pub(crate) fn set_keep(&self, keep: Option<Keep>, _writer: &Writer) {
        self.keeps_each.store(keep.as_ref().is_some_and(Keep::is_each_commit), Ordering::Release);
        self.meta().points.set_keep(keep);
    }

    /// Gives the branch another tree, whose cells have been others' until `version`. Returns the one that it had.
    pub(crate) fn reset_to(&self, slot: Slot, version: u64, writer: &Writer) -> Slot {
        let mut held = self.slot_mut(writer);
        self.floor.store(version, Ordering::Release);
        std::mem::replace(&mut *held, slot)
    }

    /// Gives the branch another tree. Returns the one that it had.
    pub(crate) fn replace(&self, tree: Tree, writer: &Writer) -> Slot {
        std::mem::replace(&mut *self.slot_mut(writer), Slot::Open(tree))
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
        Ok(TreeGuard { slot: guard.downgrade(), floor: self.floor() })
    }

    /// The trees of the branch and its bases that are in memory.
    pub(crate) fn open_trees(&self) -> Vec<Tree> {
        let meta = self.meta();
        let bases = [&meta.base, &meta.merge_base].into_iter().flatten().map(Slot::share);
        let slots: Vec<_> = std::iter::once(self.share()).chain(bases).collect();
        drop(meta);
        let open = |slot| match slot {
            Slot::Open(tree) => Some(tree),
            Slot::Stored(_) => None,
        };
        slots.into_iter().filter_map(open).collect()
    }

    /// The slot for writing, which only the holder of the writer's lock does: what was known of the tree's indexes
    /// and of its pairs that end is not known any more.
    pub(crate) fn slot_mut(&self, _writer: &Writer) -> WriteGuard<'_, Slot, TREE> {
        let slot = self.slot.write();
        self.indexes.forget();
        self.due.forget();
        self.marks.expect();
        slot
    }

    /// The slot for a commit, which keeps what is known of the tree.
    #[inline]
    pub(crate) fn slot_for_commit(&self, _writer: &Writer) -> WriteGuard<'_, Slot, TREE> {
        self.slot.write()
    }

    /// What is known of the indexes of the branch, for the holder of the writer's lock.
    #[inline]
    pub(crate) fn indexes(&self) -> &Known {
        &self.indexes
    }

    /// What is known of the pairs of the branch that end.
    #[inline]
    pub(crate) fn due(&self) -> &Due {
        &self.due
    }

    /// Whether chunks of the branch may be marked that belong to no blob.
    pub(crate) fn marks(&self) -> &Marks {
        &self.marks
    }

    /// Whether pairs may have to be deleted at a time, or marked chunks. A tree that nobody has looked at yet is not fetched for that.
    pub(crate) fn is_due(&self, now_ms: i64) -> bool {
        (self.due.has_come(now_ms) || self.marks.may_be()) && matches!(&*self.slot.read(), Slot::Open(_))
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

    /// Whether the branch may be deleted or become another.
    pub(crate) fn check_unprotected(&self) -> Result<(), StoreError> {
        let name = self.name.clone();
        if self.name == DEFAULT_BRANCH {
            let reason = "it is the branch that every store has";
            return Err(StoreError::BranchProtected { name, reason });
        }
        if self.meta().protected {
            let reason = "lift the protection first";
            return Err(StoreError::BranchProtected { name, reason });
        }
        Ok(())
    }

    /// From now on no handle finds the branch alive. Its tree is taken away after this.
    pub(crate) fn mark_deleted(&self) {
        self.deleted.store(true, Ordering::Release);
    }

    pub(crate) fn has_expired(&self, now_ms: i64) -> bool {
        self.meta().expires_ms.is_some_and(|at| at <= now_ms)
    }
}
