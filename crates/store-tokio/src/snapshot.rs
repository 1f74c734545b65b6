//! A branch as it was at one moment.

use std::sync::Arc;

use duramen_store::{Snapshot, StoreError};

use crate::store::Shared;

/// A branch as it was at one moment, for reading while others write. Clones are cheap, and of the same moment.
#[derive(Clone)]
pub struct AsyncSnapshot {
    snapshot: Arc<Snapshot>,
    shared: Arc<Shared>,
}

impl AsyncSnapshot {
    pub(crate) fn new(snapshot: Snapshot, shared: Arc<Shared>) -> Self {
        Self { snapshot: Arc::new(snapshot), shared }
    }

    /// The version of the store at its moment.
    pub fn version(&self) -> u64 {
        self.snapshot.version()
    }

    /// Reads, as a whole, on a thread.
    ///
    /// ```
    /// use duramen_store::{Scope, Store};
    /// use duramen_store_tokio::{AsyncStore, THREADS_DEFAULT};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), duramen_store::StoreError> {
    /// let main = AsyncStore::of(Store::memory(), THREADS_DEFAULT).branch("main").await?;
    /// let before = main.snapshot().await?;
    /// main.kv_put("leaf", "fallen").await?;
    /// assert_eq!(before.run(|snapshot| snapshot.kv().get("leaf")).await?, None);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// What the work returned; [`StoreError::Closed`].
    pub async fn run<R, W>(&self, work: W) -> Result<R, StoreError>
    where
        R: Send + 'static,
        W: FnOnce(&Snapshot) -> Result<R, StoreError> + Send + 'static,
    {
        let snapshot = self.snapshot.clone();
        self.shared.run(move || work(&snapshot)).await
    }
}

impl std::fmt::Debug for AsyncSnapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("AsyncSnapshot").field(&self.snapshot).finish()
    }
}
