//! What a branch was made of, as a server to compare it with: on a fresh clone of the lease's own snapshot, out of the pool or
//! made for it, which nobody else ever has.

use crate::{
    branch::{Branch, SocketDir},
    error::{EngineError, Kind},
    generation::Generation,
    journal::SnapshotRecord,
    lineage::start_copy,
    model::Policy,
    shared::Shared,
};
use std::{
    sync::{atomic::Ordering, Arc},
    time::Duration,
};
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::timeout,
};

/// Comparisons that run at a time: each may hold what differs in memory.
static PLACES: Semaphore = Semaphore::const_new(2);
/// How long a comparison waits for its place.
const PLACE_LIMIT: Duration = Duration::from_secs(30);

/// The place of a comparison among those that run at a time.
pub(crate) async fn place() -> Result<SemaphorePermit<'static>, EngineError> {
    match timeout(PLACE_LIMIT, PLACES.acquire()).await {
        Ok(Ok(place)) => Ok(place),
        _ => {
            let message = "other comparisons run, and this one has waited for long; compare again later";
            Err(EngineError::new(Kind::Unavailable, "comparisons_busy", message))
        }
    }
}

/// A branch that nobody holds, to compare with. It is deleted when this is dropped.
pub(crate) struct Baseline {
    shared: Arc<Shared>,
    pub(crate) branch: Arc<Branch>,
    /// The snapshot of another branch that is kept for it meanwhile.
    kept: Option<String>,
}

impl Baseline {
    /// What a branch of `generation` was made of: its snapshot, or `base`, one of another branch.
    pub(crate) async fn of(
        shared: &Arc<Shared>,
        generation: &Arc<Generation>,
        base: Option<&SnapshotRecord>,
    ) -> Result<Baseline, EngineError> {
        match base {
            Some(base) => Baseline::of_branch(shared, generation, base).await,
            None => Baseline::ready(shared, generation),
        }
    }

    /// One that was made for something else that is done with a copy nobody has.
    pub(crate) fn holding(shared: &Arc<Shared>, branch: Arc<Branch>) -> Baseline {
        Baseline { shared: Arc::clone(shared), branch, kept: None }
    }

    /// Out of the pool if that has one to spare, else made for this. Blocks.
    fn ready(shared: &Arc<Shared>, generation: &Arc<Generation>) -> Result<Baseline, EngineError> {
        let of = |branch| Baseline { shared: Arc::clone(shared), branch, kept: None };
        if let Some(branch) = shared.registry.take_baseline(generation) {
            shared.wake.wake();
            return Ok(of(branch));
        }
        let environment = &shared.environment;
        generation.check(&environment.store)?;
        tokio::task::block_in_place(|| {
            let volume = environment.clone_snapshot(generation)?;
            let branch = Branch::new(environment, Arc::clone(generation), Policy::ReadOnly, volume, None);
            let baseline = of(Arc::new(branch));
            baseline.branch.start()?;
            baseline.branch.place_relation_cache();
            Ok(baseline)
        })
    }

    /// Of the snapshot of another branch.
    async fn of_branch(
        shared: &Arc<Shared>,
        generation: &Arc<Generation>,
        base: &SnapshotRecord,
    ) -> Result<Baseline, EngineError> {
        shared.registry.begin_child(&base.id);
        let made = tokio::task::block_in_place(|| start_copy(shared, Arc::clone(generation), base));
        let branch = match made {
            Ok(branch) => branch,
            Err(error) => {
                shared.registry.end_child(&base.id)?;
                return Err(error);
            }
        };
        let baseline = Baseline { shared: Arc::clone(shared), branch, kept: Some(base.id.clone()) };
        baseline.branch.adopt_secrets().await?;
        Ok(baseline)
    }
}

impl Drop for Baseline {
    fn drop(&mut self) {
        if let Some(Err(error)) = self.kept.as_ref().map(|id| self.shared.registry.end_child(id)) {
            tracing::error!(%error, "the end of a snapshot could not be written down");
        }
        if self.shared.closing.load(Ordering::Acquire) {
            // What is retired from now on, nobody deletes.
            self.branch.delete(&self.shared.environment, SocketDir::Remove);
        } else {
            self.shared.registry.discard(Arc::clone(&self.branch));
            self.shared.wake.wake();
        }
    }
}
