//! A branch that is made of another one.

use super::{
    capture::{Subject, Wanted as WantedSnapshot},
    From,
};
use crate::{
    branch::{Branch, SocketDir},
    doors::Holder,
    engine::Engine,
    error::{EngineError, Kind, LineageError},
    generation::Generation,
    journal::{Base, SnapshotRecord},
    model::{BranchView, Policy, SnapshotKind},
    registry::{Given, ParentOf, Wanted},
    shared::Shared,
};
use duramen_base::clock::{self, ms};
use std::sync::{
    atomic::{AtomicBool, Ordering},
    Arc,
};

impl Engine {
    /// The policy of a branch that another one is to be made of.
    pub(crate) fn policy_of(&self, from: &From, by: Option<&Holder>) -> Result<Policy, EngineError> {
        self.shared.registry.branch(&from.branch, by).map(|(view, _)| view.policy)
    }

    /// Leases a branch that is made of another one, or of a snapshot of it (L1, L3).
    pub(crate) async fn fork(
        self: &Arc<Self>,
        from: From,
        wanted: Wanted,
        quiesce: bool,
    ) -> Result<BranchView, EngineError> {
        let parent = match self.shared.registry.parent(&from, &wanted)? {
            Ok(parent) => parent,
            Err(existing) => return Ok(*existing),
        };
        let has_left = Arc::new(AtomicBool::new(false));
        let caller = Caller(Arc::clone(&has_left));
        let engine = Arc::clone(self);
        // In a task of its own, which leaves nothing half-made when the caller goes away.
        let made = tokio::spawn(async move { engine.make_child(parent, &wanted, quiesce, &has_left).await });
        let made = made.await.map_err(|error| {
            EngineError::new(Kind::Failed, "fork_failed", format!("making the branch crashed: {error}"))
        });
        drop(caller);
        made?
    }

    async fn make_child(
        self: &Arc<Self>,
        parent: ParentOf,
        wanted: &Wanted,
        quiesce: bool,
        has_left: &AtomicBool,
    ) -> Result<BranchView, EngineError> {
        let shared = &self.shared;
        let ParentOf { subject, snapshot } = parent;
        let taken = snapshot.is_none();
        let snapshot = match snapshot {
            Some(snapshot) => snapshot,
            None => {
                let wanted = WantedSnapshot { name: None, kind: SnapshotKind::Base, quiesce };
                let record = shared.capture(&subject, &wanted).await?;
                // From here on it is the registry's, which ends it if nothing is made of it.
                shared.registry.begin_child(&record.id);
                if let Err(error) = shared.registry.keep_snapshot(&subject.name, &record) {
                    shared.environment.delete_volume(&record.id);
                    shared.registry.end_child(&record.id)?;
                    return Err(error);
                }
                record
            }
        };
        if !taken {
            shared.registry.begin_child(&snapshot.id);
        }
        let leased = self.lease_copy(&subject, &snapshot, wanted, has_left).await;
        shared.registry.end_child(&snapshot.id)?;
        shared.wake.wake();
        leased
    }

    /// Makes a branch of a snapshot, and leases it.
    async fn lease_copy(
        self: &Arc<Self>,
        subject: &Subject,
        snapshot: &SnapshotRecord,
        wanted: &Wanted,
        has_left: &AtomicBool,
    ) -> Result<BranchView, EngineError> {
        let shared = &self.shared;
        let generation = Arc::clone(&subject.branch.generation);
        let branch = {
            let (shared, snapshot) = (Arc::clone(shared), snapshot.clone());
            tokio::task::spawn_blocking(move || start_copy(&shared, generation, &snapshot)).await.map_err(
                |error| {
                    EngineError::new(
                        Kind::Failed,
                        "fork_failed",
                        format!("making the branch crashed: {error}"),
                    )
                },
            )??
        };
        let begin = clock::now();
        let entered = async {
            // Not by finding out that its secret is wrong: that takes a session.
            branch.admit().await?;
            branch.connect(false).await
        };
        if let Err(error) = entered.await {
            let shared = Arc::clone(shared);
            // How the deletion of what nobody has ends says nothing to the caller.
            let _ = tokio::task::spawn_blocking(move || {
                branch.delete(&shared.environment, SocketDir::Remove);
            })
            .await;
            return Err(error);
        }
        tracing::debug!(branch = subject.name, ms = ms(begin.elapsed()), "entered");
        if has_left.load(Ordering::Acquire) {
            shared.registry.discard(branch);
            return Err(LineageError::CallerLeft.into());
        }
        let base = Base {
            snapshot: snapshot.id.clone(),
            branch: subject.id.clone(),
            name: subject.name.clone(),
            taken_at: snapshot.taken_at,
            running: snapshot.running,
        };
        let is_closing = shared.closing.load(Ordering::Acquire);
        match shared.registry.lease_child(&branch, wanted, &base, &snapshot.volume, is_closing)? {
            Given::Leased(record) => self.announce(record),
            Given::Existing(view) => Ok(view),
        }
    }
}

/// Clones a snapshot and starts a server on the clone. Blocks; on failure nothing of it is left.
pub(crate) fn start_copy(
    shared: &Arc<Shared>,
    generation: Arc<Generation>,
    snapshot: &SnapshotRecord,
) -> Result<Arc<Branch>, EngineError> {
    let environment = &shared.environment;
    generation.usable()?;
    // What the parent holds was masked by the rules of its time, or not at all.
    generation.check_rules(shared.registry.settings(&generation.source).masking.as_ref())?;
    let begin = clock::now();
    let quota = generation.limits().disk;
    let volume = environment.clone_branch(&snapshot.id, quota, duramen_postgres::volume::Account::Common)?;
    let branch = Branch::new(environment, generation, snapshot.policy, volume, None)
        .inheriting(environment, Some(&snapshot.volume));
    let cloned = ms(begin.elapsed());
    branch.start().inspect_err(|_| branch.delete(environment, SocketDir::Remove))?;
    tracing::debug!(cloned, ms = ms(begin.elapsed()), running = snapshot.running, "started");
    Ok(Arc::new(branch))
}

/// The caller of a create. When it goes away, that is noted.
struct Caller(Arc<AtomicBool>);

impl Drop for Caller {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}
