//! The handle on a branch.

use std::sync::Arc;

use duramen_store::{Branch, Durability, Moment, Part, StoreError, Transaction};

use crate::snapshot::AsyncSnapshot;
use crate::store::Shared;
use crate::watch::AsyncWatch;

/// A handle on a branch. Clones are cheap, and each may be used by a task of its own.
#[derive(Clone)]
pub struct AsyncBranch {
    branch: Branch,
    durability: Durability,
    shared: Arc<Shared>,
}

impl AsyncBranch {
    pub(crate) fn new(branch: Branch, durability: Durability, shared: Arc<Shared>) -> Self {
        Self { branch, durability, shared }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.branch.name()
    }

    /// The same branch, whose commits are acknowledged at another level than the store's.
    #[must_use]
    pub fn with_durability(&self, durability: Durability) -> Self {
        Self { branch: self.branch.with_durability(durability), durability, shared: self.shared.clone() }
    }

    /// Forks the branch: see [`Branch::fork`].
    ///
    /// # Errors
    /// As there, and [`StoreError::Closed`].
    pub async fn fork(&self, name: impl Into<String>) -> Result<Self, StoreError> {
        let name = name.into();
        let branch = self.run(move |branch| branch.fork(&name)).await?;
        Ok(Self { branch, ..self.clone() })
    }

    /// Work on the branch, as a whole, on a thread. Each commit in it is acknowledged at the level of the branch, and waits
    /// for that on the thread: for one that is strict, [`commit`](Self::commit) is better.
    ///
    /// # Errors
    /// What the work returned; [`StoreError::Closed`].
    pub async fn run<R, W>(&self, work: W) -> Result<R, StoreError>
    where
        R: Send + 'static,
        W: FnOnce(&Branch) -> Result<R, StoreError> + Send + 'static,
    {
        let branch = self.branch.clone();
        self.shared.run(move || work(&branch)).await
    }

    /// Work that writes, as a whole, on a thread. What it committed is as durable as the level of the branch says when this
    /// returns, and not before: a wait for the disk comes once, behind all of it, and holds no thread.
    ///
    /// ```
    /// use duramen_store::{Durability, Scope, Store};
    /// use duramen_store_tokio::{AsyncStore, THREADS_DEFAULT};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), duramen_store::StoreError> {
    /// let store = AsyncStore::of(Store::memory(), THREADS_DEFAULT);
    /// let paid = store.branch("main").await?.with_durability(Durability::Strict);
    /// paid.commit(|branch| branch.kv().put("invoice/7", true)).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// What the work returned: if it made commits before, they are there, and as durable; [`StoreError::Closed`]; when the disk
    /// cannot be written, whatever the work returned: then nobody knows whether it has the commits before the store is opened again.
    pub async fn commit<R, W>(&self, work: W) -> Result<R, StoreError>
    where
        R: Send + 'static,
        W: FnOnce(&Branch) -> Result<R, StoreError> + Send + 'static,
    {
        if self.durability < Durability::Strict {
            return self.run(work).await;
        }
        let branch = self.branch.with_durability(Durability::Memory);
        let (store, flushes) = (self.shared.store().clone(), self.shared.flushes.clone());
        self.shared.pool.commit(store, flushes, move || work(&branch)).await
    }

    /// A transaction, as a whole, on a thread: see [`Branch::transact`]. Its wait for the disk holds no thread.
    ///
    /// # Errors
    /// As there, and [`StoreError::Closed`].
    pub async fn transact<R, W>(&self, work: W) -> Result<R, StoreError>
    where
        R: Send + 'static,
        W: FnMut(&Transaction) -> Result<R, StoreError> + Send + 'static,
    {
        self.commit(move |branch| branch.transact(work)).await
    }

    /// The branch as it is now, for reading.
    ///
    /// # Errors
    /// When the branch was deleted or cannot be read; [`StoreError::Closed`].
    pub async fn snapshot(&self) -> Result<AsyncSnapshot, StoreError> {
        let snapshot = self.run(Branch::snapshot).await?;
        Ok(AsyncSnapshot::new(snapshot, self.shared.clone()))
    }

    /// Watches the branch: see [`Branch::watch`].
    ///
    /// # Errors
    /// As there, and [`StoreError::Closed`].
    pub async fn watch(&self, part: Part, from: Option<Moment>) -> Result<AsyncWatch, StoreError> {
        let watch = self.run(move |branch| branch.watch(part, from.as_ref())).await?;
        Ok(AsyncWatch::new(watch, self.shared.clone()))
    }
}

impl std::fmt::Debug for AsyncBranch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("AsyncBranch").field(&self.branch).finish()
    }
}
