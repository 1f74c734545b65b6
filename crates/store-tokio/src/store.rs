//! The store: opening and closing it, and its branches.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use duramen_store::{Branch, Options, Store, StoreError};
use tokio::runtime::Handle;

use crate::branch::AsyncBranch;
use crate::flush::Flushes;
use crate::pool::{on_thread, Pool, THREADS_DEFAULT};

/// A store for asynchronous programs. Clones are handles on the same one, with the same threads.
///
/// Its methods are called within a `tokio` runtime, and panic outside of one, as the runtime does. A panic of the work that
/// they are given goes on in whoever waits for it.
#[derive(Clone)]
pub struct AsyncStore {
    shared: Arc<Shared>,
}

/// What the handles on a store share. Each of them drops what it has of the store before its share of this, so that this has the
/// last handle.
pub(crate) struct Shared {
    /// There until it is dropped.
    store: Option<Store>,
    pub(crate) pool: Pool,
    pub(crate) flushes: Arc<Flushes>,
}

impl Shared {
    pub(crate) fn store(&self) -> &Store {
        self.store.as_ref().expect("it is taken when this is dropped only")
    }

    /// Work as a whole on a thread.
    pub(crate) async fn run<R, W>(&self, work: W) -> Result<R, StoreError>
    where
        R: Send + 'static,
        W: FnOnce() -> Result<R, StoreError> + Send + 'static,
    {
        self.pool.work(work).await
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if self.pool.has_ended() {
            // Nothing is left to write, and the folder is free at once.
            return;
        }
        // The last handle makes a checkpoint, which a thread of the runtime must not wait for.
        if let (Some(store), Ok(runtime)) = (self.store.take(), Handle::try_current()) {
            drop(runtime.spawn_blocking(move || drop(store)));
        }
    }
}

impl AsyncStore {
    /// Opens the store in a folder, with [`THREADS_DEFAULT`] threads: see [`Store::open`].
    ///
    /// # Errors
    /// As [`Store::open`].
    pub async fn open(path: impl Into<PathBuf>, options: Options) -> Result<Self, StoreError> {
        Self::open_on(path, options, THREADS_DEFAULT).await
    }

    /// Opens the store in a folder, for which so many threads work at a time, at most [`THREADS_MAX`](crate::THREADS_MAX).
    ///
    /// # Errors
    /// As [`Store::open`].
    pub async fn open_on(
        path: impl Into<PathBuf>,
        options: Options,
        threads: NonZeroUsize,
    ) -> Result<Self, StoreError> {
        let path = path.into();
        let store = on_thread(move || Store::open(path, options)).await??;
        Ok(Self::of(store, threads))
    }

    /// The same for a store that is open, such as [`Store::memory`].
    ///
    /// ```
    /// use duramen_store::Store;
    /// use duramen_store_tokio::{AsyncStore, THREADS_DEFAULT};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), duramen_store::StoreError> {
    /// let store = AsyncStore::of(Store::memory(), THREADS_DEFAULT);
    /// store.branch("main").await?.kv_put("colour", "green").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn of(store: Store, threads: NonZeroUsize) -> Self {
        let shared = Shared { store: Some(store), pool: Pool::new(threads), flushes: Arc::default() };
        Self { shared: Arc::new(shared) }
    }

    /// A handle on a branch. It reads and writes nothing.
    ///
    /// # Errors
    /// When there is no such branch; [`StoreError::Closed`].
    pub async fn branch(&self, name: impl Into<String>) -> Result<AsyncBranch, StoreError> {
        let name = name.into();
        let branch = self.run(move |store| store.branch(&name)).await?;
        Ok(self.handle(branch))
    }

    fn handle(&self, branch: Branch) -> AsyncBranch {
        AsyncBranch::new(branch, self.shared.store().durability(), self.shared.clone())
    }

    /// Forks a branch: see [`Store::fork`].
    ///
    /// # Errors
    /// As [`Store::fork`], and [`StoreError::Closed`].
    pub async fn fork(
        &self,
        source: impl Into<String>,
        name: impl Into<String>,
    ) -> Result<AsyncBranch, StoreError> {
        let (source, name) = (source.into(), name.into());
        let branch = self.run(move |store| store.fork(&source, &name)).await?;
        Ok(self.handle(branch))
    }

    /// Work on the store, as a whole, on a thread: merges, diffs, backups, checkpoints, and all else that it can do.
    ///
    /// ```
    /// use duramen_store::{MergeOptions, Store};
    /// use duramen_store_tokio::{AsyncStore, THREADS_DEFAULT};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), duramen_store::StoreError> {
    /// let store = AsyncStore::of(Store::memory(), THREADS_DEFAULT);
    /// store.fork("main", "draft").await?.kv_put("leaf", "fallen").await?;
    /// let report = store.run(|store| store.merge("draft", "main", MergeOptions::default())).await?;
    /// assert_eq!(report.written, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// What the work returned; [`StoreError::Closed`].
    pub async fn run<R, W>(&self, work: W) -> Result<R, StoreError>
    where
        R: Send + 'static,
        W: FnOnce(&Store) -> Result<R, StoreError> + Send + 'static,
    {
        let store = self.shared.store().clone();
        self.shared.run(move || work(&store)).await
    }

    /// Waits for all work that has begun, and closes the store: see [`Store::close`]. Work that is begun meanwhile waits, and is
    /// then refused. If this is dropped before it is done, the store may be closed or not, and it may be called again. The
    /// folder is free for another process when all handles, snapshots and watches are dropped as well.
    ///
    /// # Errors
    /// When the store cannot be written; then it is not closed.
    pub async fn close(&self) -> Result<(), StoreError> {
        let store = self.shared.store().clone();
        self.shared.pool.end(move || store.close()).await
    }
}

impl std::fmt::Debug for AsyncStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("AsyncStore").field(self.shared.store()).finish()
    }
}
