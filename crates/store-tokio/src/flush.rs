//! Waiting for the disk, together.

use std::sync::atomic::{AtomicU64, Ordering};

use duramen_store::{Store, StoreError};
use tokio::sync::Mutex;

use crate::pool::{on_thread, Begun};

/// Syncs of the log, one at a time, each for all that was committed before it begins.
#[derive(Default)]
pub(crate) struct Flushes {
    asked: AtomicU64,
    /// The last of those who asked for whom a sync has ended. Whoever holds it syncs.
    served: Mutex<u64>,
}

impl Flushes {
    /// Waits until all that was committed before is durable.
    pub(crate) async fn wait(&self, store: &Store, begun: Begun) -> Result<(), StoreError> {
        let own = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        let mut served = self.served.lock().await;
        if *served >= own {
            return Ok(());
        }
        // Read before the sync begins: it serves these, whose commits are in the log.
        let last = self.asked.load(Ordering::SeqCst);
        let store = store.clone();
        let (done, _begun) = on_thread(move || (store.sync(), begun)).await?;
        done?;
        *served = last;
        Ok(())
    }
}
