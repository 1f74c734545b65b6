//! A branch as it was at one moment, for reading while others write.

use std::sync::Arc;

use duramen_tree::{NodeCopy, StoredRoot, Tree, TreeError};

use crate::access::{Access, Edit, View};
use crate::branch_state::BranchState;
use crate::engine::Engine;
use crate::error::StoreError;
use crate::expiry::Now;
use crate::overlay::Reader;
use crate::reclaim::Pin;

/// A branch as it was at one moment.
pub struct Snapshot {
    engine: Arc<Engine>,
    tree: Tree,
    /// Its number among those that are held.
    held: u64,
    floor: u64,
    version: u64,
    /// The time that it is as of: that of the first look at a pair that ends, unless it is of the past.
    now: Now,
    /// Keeps the nodes of this moment from being deleted.
    _pin: Pin,
}

impl Snapshot {
    pub(crate) fn take(engine: &Arc<Engine>, state: &BranchState) -> Result<Self, StoreError> {
        let pin = engine.pin();
        let guard = state.tree(engine.forest())?;
        let (tree, floor) = (guard.clone(), guard.floor());
        // A reset gives the branch its tree before it is logged.
        let version = engine.last_version().max(floor);
        drop(guard);
        // A deleted branch is marked before its tree is taken away.
        state.check_alive()?;
        Ok(Self::hold(engine, pin, tree, floor, version))
    }

    /// A tree that could be reached when `pin` was taken.
    pub(crate) fn of_tree(engine: &Arc<Engine>, pin: Pin, tree: Tree) -> Self {
        let version = engine.last_version();
        Self::hold(engine, pin, tree, 0, version)
    }

    pub(crate) fn hold(engine: &Arc<Engine>, pin: Pin, tree: Tree, floor: u64, version: u64) -> Self {
        let held = engine.held().hold(tree.clone());
        Self { engine: engine.clone(), tree, held, floor, version, now: Now::default(), _pin: pin }
    }

    /// The same as of another time.
    pub(crate) fn with_time(mut self, now: Now) -> Self {
        self.now = now;
        self
    }

    /// Another one of the same moment.
    pub(crate) fn share(&self) -> Self {
        let pin = self._pin.clone();
        let shared = Self::hold(&self.engine, pin, self.tree.clone(), self.floor, self.version);
        shared.with_time(self.now.clone())
    }

    /// Entries in it. Events count twice, because they are indexed by type, collections and indexes have one of their
    /// own, and an index has one of each row.
    pub fn entries(&self) -> u64 {
        self.tree().len()
    }

    /// Bytes of all its keys and values.
    pub fn bytes(&self) -> u64 {
        self.tree().bytes()
    }

    /// The version of the store at its moment: every write to its branch up to this version is in it, and no later one. It
    /// does not change.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Copies its nodes to another place: see [`Tree::copy_nodes`]. The store goes on meanwhile.
    ///
    /// # Errors
    /// When a node cannot be read or is damaged, and what `copy` returned.
    pub fn copy_nodes<E: From<TreeError>>(
        &self,
        copy: &mut dyn NodeCopy<Error = E>,
    ) -> Result<StoredRoot, E> {
        self.tree().copy_nodes(self.engine.forest(), copy)
    }

    pub(crate) fn tree(&self) -> &Tree {
        &self.tree
    }

    pub(crate) fn floor(&self) -> u64 {
        self.floor
    }

    pub(crate) fn now_ms(&self) -> i64 {
        self.now.ms()
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }
}

/// Another one of the same moment.
impl Clone for Snapshot {
    fn clone(&self) -> Self {
        self.share()
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        self.engine.held().let_go(self.held);
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot").field("tree", self.tree()).finish()
    }
}

impl Access for Snapshot {
    type Written = ();

    fn written(_version: u64) {}

    fn peek<R>(&self, read: impl FnOnce(&dyn View) -> Result<R, StoreError>) -> Result<R, StoreError> {
        let forest = self.engine.forest();
        read(&Reader { forest, tree: self.tree(), floor: self.floor, now: &self.now })
    }

    fn read<R>(&self, read: impl FnOnce(&dyn View) -> Result<R, StoreError>) -> Result<R, StoreError> {
        self.peek(read)
    }

    fn write<R>(
        &self,
        _write: impl FnOnce(&mut dyn Edit) -> Result<R, StoreError>,
    ) -> Result<(R, ()), StoreError> {
        Err(StoreError::ReadOnly)
    }
}
