//! A branch of a generation that is kept, rather than of the current one.

use super::keeping::HeldGeneration;
use crate::{
    branch::{Branch, SocketDir},
    engine::Engine,
    error::{EngineError, GenerationError, LineageError},
    model::BranchView,
    registry::{Given, Wanted},
    shared::Shared,
    source::manifest::SourceRecord,
};
use std::sync::{
    atomic::{AtomicBool, Ordering},
    Arc,
};

impl Engine {
    /// Leases a branch of one generation, by its number or its label. If that is not the current one, no pool has one ready:
    /// it is cloned and started for this.
    pub(crate) async fn lease_of_generation(
        self: &Arc<Self>,
        which: String,
        wanted: Wanted,
    ) -> Result<BranchView, EngineError> {
        let left = Arc::new(AtomicBool::new(false));
        let caller = Caller(Arc::clone(&left));
        let engine = Arc::clone(self);
        // In a task of its own, which leaves nothing half-made when the caller goes away.
        let made = tokio::spawn(async move { engine.make_of_generation(&which, &wanted, &left).await });
        let made = made.await.map_err(GenerationError::Crashed);
        drop(caller);
        made?
    }

    async fn make_of_generation(
        self: &Arc<Self>,
        which: &str,
        wanted: &Wanted,
        left: &AtomicBool,
    ) -> Result<BranchView, EngineError> {
        let shared = &self.shared;
        let record = shared.registry.picked_source(wanted.source.as_deref())?;
        let held = shared.hold_generation(&record, which)?;
        if let Some(view) = shared.registry.existing_of_generation(wanted, &record.name, held.number)? {
            return Ok(view);
        }
        let ready = shared.registry.take_ready_of(&record.name, wanted.policy, held.number);
        let branch = match ready {
            Some(branch) => {
                shared.wake.wake();
                branch
            }
            None => self.cold(&record, &held, wanted).await?,
        };
        if left.load(Ordering::Acquire) {
            shared.registry.discard(branch);
            shared.wake.wake();
            return Err(LineageError::CallerLeft.into());
        }
        let is_closing = shared.closing.load(Ordering::Acquire);
        let given = shared.registry.lease_of_generation(&branch, wanted, is_closing);
        shared.wake.wake();
        match given? {
            Given::Leased(record) => self.announce(record),
            Given::Existing(view) => Ok(view),
        }
    }

    /// A branch that is cloned and started now. On failure nothing of it is left.
    pub(crate) async fn cold(
        &self,
        record: &SourceRecord,
        held: &HeldGeneration<'_>,
        wanted: &Wanted,
    ) -> Result<Arc<Branch>, EngineError> {
        let shared = &self.shared;
        let branch = tokio::task::block_in_place(|| start(shared, record, held, wanted))?;
        if let Err(error) = branch.connect(true).await {
            tokio::task::block_in_place(|| branch.delete(&shared.environment, SocketDir::Remove));
            return Err(error);
        }
        Ok(branch)
    }
}

fn start(
    shared: &Shared,
    record: &SourceRecord,
    held: &HeldGeneration<'_>,
    wanted: &Wanted,
) -> Result<Arc<Branch>, EngineError> {
    let environment = &shared.environment;
    let generation = Arc::new(shared.open_generation(record, held)?);
    generation.admits(wanted.policy)?;
    let volume = environment.clone_snapshot(&generation)?;
    let branch = Branch::new(environment, generation, wanted.policy, volume, None);
    branch.start().inspect_err(|_| branch.delete(environment, SocketDir::Remove))?;
    branch.place_relation_cache();
    Ok(Arc::new(branch))
}

/// The caller of a create. When it goes away, that is noted.
struct Caller(Arc<AtomicBool>);

impl Drop for Caller {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}
