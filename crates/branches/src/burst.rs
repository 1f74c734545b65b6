//! How many statements start at a time.

use std::time::Duration;

/// Lets a few statements start at a time, in the order of asking.
///
/// A hundred statements that start together on two cores finish together, all late, and push each other out of the
/// processor's caches. A place is held for a few milliseconds at most: who runs longer goes on without one, so slow
/// statements never keep others from starting.
#[derive(Debug)]
pub(crate) struct Burst(tokio::sync::Semaphore);

impl Burst {
    /// How long a place is held at most.
    pub(crate) const SHORT: Duration = Duration::from_millis(5);
    /// Places for each processor.
    const PER_CORE: usize = 2;

    pub(crate) fn new() -> Burst {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Burst(tokio::sync::Semaphore::new(cores * Burst::PER_CORE))
    }

    pub(crate) async fn enter(&self) -> Option<tokio::sync::SemaphorePermit<'_>> {
        // It is never closed.
        self.0.acquire().await.ok()
    }
}
