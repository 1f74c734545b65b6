//! The handle on a branch that programs hold.

use std::sync::Arc;

use crate::access::{Access, Edit, View};
use crate::branch_state::BranchState;
use crate::branches::BranchOp;
use crate::durability::Durability;
use crate::engine::Engine;
use crate::error::StoreError;
use crate::expiry::Now;
use crate::open_store::OpenStore;
use crate::overlay::Reader;
use crate::snapshot::Snapshot;

/// A handle on a branch. Clones are cheap, and each may be used by a thread of its own.
///
/// Every write is a commit of its own; to commit several together, use a [`transaction`](Self::transact).
#[derive(Clone)]
pub struct Branch {
    /// The store stays open as long as somebody may write to it.
    pub(crate) open: Arc<OpenStore>,
    pub(crate) state: Arc<BranchState>,
    pub(crate) durability: Durability,
}

impl Branch {
    pub(crate) fn engine(&self) -> &Arc<Engine> {
        self.open.engine()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.state.name()
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
        let created_ms = duramen_base::clock::unix_ms();
        let id = self.engine().change_branches(self.durability, |registry| {
            registry.check_free(name)?;
            self.state.check_alive()?;
            let (id, source) = (registry.next_id(), self.state.id());
            Ok((BranchOp::Fork { id, source, name: name.to_owned(), created_ms, expires_ms: None }, id))
        })?;
        let state = self.engine().registry().get(id)?;
        Ok(Self { state, ..self.clone() })
    }

    /// The branch as it is now, for reading. It costs nothing, and others go on writing.
    ///
    /// # Errors
    /// When the branch was deleted or cannot be read.
    pub fn snapshot(&self) -> Result<Snapshot, StoreError> {
        Snapshot::take(self.engine(), &self.state)
    }
}

impl std::fmt::Debug for Branch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Branch").field("name", &self.name()).field("durability", &self.durability).finish()
    }
}

impl Access for Branch {
    /// The version of the commit's last write.
    type Written = u64;

    fn written(version: u64) -> u64 {
        version
    }

    fn peek<R>(&self, read: impl FnOnce(&dyn View) -> Result<R, StoreError>) -> Result<R, StoreError> {
        let forest = self.engine().forest();
        let tree = self.state.tree(forest)?;
        // A deleted branch is marked before its tree is taken away.
        self.state.check_alive()?;
        read(&Reader { forest, tree: &tree, floor: tree.floor(), now: &Now::default() })
    }

    fn read<R>(&self, read: impl FnOnce(&dyn View) -> Result<R, StoreError>) -> Result<R, StoreError> {
        self.snapshot()?.peek(read)
    }

    fn moment(&self) -> Result<Option<Snapshot>, StoreError> {
        self.snapshot().map(Some)
    }

    fn write<R>(
        &self,
        write: impl FnOnce(&mut dyn Edit) -> Result<R, StoreError>,
    ) -> Result<(R, u64), StoreError> {
        self.engine().commit(&self.state, self.durability, write)
    }
}
