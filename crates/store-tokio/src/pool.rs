//! Who may work, and how many at a time.

use std::num::NonZeroUsize;
use std::sync::Arc;

use duramen_store::StoreError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{spawn_blocking, JoinError};

/// Threads that work for a store at a time, unless another number is asked for. Commits are made one after the other, so more
/// help only where many reads wait for a disk.
pub const THREADS_DEFAULT: NonZeroUsize = NonZeroUsize::new(16).unwrap();

/// Threads that work for a store at a time, at most: as many as a runtime has for work that blocks if nobody says otherwise.
pub const THREADS_MAX: usize = 512;

/// Operations that are begun and not ended, at most, those that wait for a thread among them. Further ones wait until others end.
pub const OPERATIONS_MAX: u32 = 1 << 16;

/// The right to work, which whoever closes the store waits for.
pub(crate) struct Begun {
    _permit: OwnedSemaphorePermit,
}

pub(crate) struct Pool {
    begun: Arc<Semaphore>,
    threads: Arc<Semaphore>,
}

impl Pool {
    pub(crate) fn new(threads: NonZeroUsize) -> Self {
        let threads = threads.get().min(THREADS_MAX);
        Self {
            begun: Arc::new(Semaphore::new(OPERATIONS_MAX as usize)),
            threads: Arc::new(Semaphore::new(threads)),
        }
    }

    /// Begins an operation.
    pub(crate) async fn begin(&self) -> Result<Begun, StoreError> {
        let permit = self.begun.clone().acquire_owned().await.map_err(|_| StoreError::Closed)?;
        Ok(Begun { _permit: permit })
    }

    /// Does the work of an operation when there is a thread for it.
    pub(crate) async fn work<R, W>(&self, begun: Begun, work: W) -> Result<(R, Begun), StoreError>
    where
        R: Send + 'static,
        W: FnOnce() -> Result<R, StoreError> + Send + 'static,
    {
        let thread = self.threads.clone().acquire_owned().await.map_err(|_| StoreError::Closed)?;
        // Both rights go with the work: it may outlive whoever asked for it.
        let (done, begun) = on_thread(move || {
            let done = work();
            drop(thread);
            (done, begun)
        })
        .await?;
        Ok((done?, begun))
    }

    /// Whether the last work is done.
    pub(crate) fn has_ended(&self) -> bool {
        self.begun.is_closed()
    }

    /// Waits for all operations that have begun, then does the last work. If that succeeds, none begins any more. Does nothing
    /// if that was done before.
    pub(crate) async fn end<W>(&self, last: W) -> Result<(), StoreError>
    where
        W: FnOnce() -> Result<(), StoreError> + Send + 'static,
    {
        // Rights are given in the order in which they were asked for.
        let Ok(all) = self.begun.clone().acquire_many_owned(OPERATIONS_MAX).await else { return Ok(()) };
        let begun = self.begun.clone();
        on_thread(move || {
            let done = last();
            if done.is_ok() {
                begun.close();
            }
            drop(all);
            done
        })
        .await?
    }
}

/// Runs what may block on a thread for that, to its end once it has begun.
pub(crate) async fn on_thread<R: Send + 'static>(
    work: impl FnOnce() -> R + Send + 'static,
) -> Result<R, StoreError> {
    spawn_blocking(work).await.map_err(failed)
}

/// Why there is no result. A panic of the work goes on in whoever waits for it.
fn failed(error: JoinError) -> StoreError {
    match error.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(_) => StoreError::InvalidInput {
            what: "work on a runtime that is being shut down",
            reason: "it takes no more work, and this was not begun; use the store on another runtime"
                .to_owned(),
        },
    }
}
