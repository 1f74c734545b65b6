//! A branch that goes back to what it was: reset, restore and undo.

use super::capture::new_id;
use crate::{
    branch::Branch,
    doors::Holder,
    engine::Engine,
    error::{EngineError, LeaseError, LineageError},
    journal::{LeaseRecord, SnapshotRecord},
    leases::named,
    model::{BranchView, RestoreBranch, SnapshotKind},
    registry::Resetting,
    shared::Shared,
};
use duramen_base::clock;
use duramen_postgres::volume::Account;
use serde_json::json;
use std::{
    fs,
    sync::{atomic::Ordering, Arc},
};

/// To what a branch goes back.
#[derive(Debug, Clone)]
enum Aim {
    /// To what it was made of.
    Beginning,
    /// To one of its snapshots.
    Snapshot(Box<SnapshotRecord>),
}

impl Aim {
    /// Why the snapshot of before is taken.
    fn kind(&self) -> SnapshotKind {
        match self {
            Aim::Beginning => SnapshotKind::BeforeReset,
            Aim::Snapshot(_) => SnapshotKind::BeforeRestore,
        }
    }

    /// What the audit log calls it.
    fn event(&self) -> &'static str {
        match self {
            Aim::Beginning => "reset",
            Aim::Snapshot(_) => "restored",
        }
    }
}

impl Engine {
    /// Puts a branch back to what it was made of, under the same URL: the snapshot of its generation, or of its parent.
    ///
    /// # Errors
    /// When there is no such branch, the snapshot is gone, or the new server does not start; the lease
    /// then stays, in state `failed`, and can be reset again.
    pub async fn reset(self: &Arc<Self>, name: &str) -> Result<BranchView, EngineError> {
        self.reset_by(None, name).await
    }

    pub(crate) async fn reset_by(
        self: &Arc<Self>,
        by: Option<&Holder>,
        name: &str,
    ) -> Result<BranchView, EngineError> {
        self.go_back(by, name, Aim::Beginning).await
    }

    /// Puts a branch back to one of its snapshots, under the same URL. What it held becomes a snapshot itself (L5).
    ///
    /// # Errors
    /// As for [`Engine::reset`]; when it has no such snapshot.
    pub async fn restore(
        self: &Arc<Self>,
        name: &str,
        request: RestoreBranch,
    ) -> Result<BranchView, EngineError> {
        self.restore_by(None, name, request).await
    }

    pub(crate) async fn restore_by(
        self: &Arc<Self>,
        by: Option<&Holder>,
        name: &str,
        request: RestoreBranch,
    ) -> Result<BranchView, EngineError> {
        let snapshot = self.shared.registry.find_snapshot(name, by, &request.to)?;
        self.go_back(by, name, Aim::Snapshot(Box::new(snapshot))).await
    }

    /// Puts a branch back to what it was before it was last reset or restored; undone again, that is done again.
    ///
    /// # Errors
    /// As for [`Engine::reset`]; when nothing can be undone.
    pub async fn undo(self: &Arc<Self>, name: &str) -> Result<BranchView, EngineError> {
        self.undo_by(None, name).await
    }

    pub(crate) async fn undo_by(
        self: &Arc<Self>,
        by: Option<&Holder>,
        name: &str,
    ) -> Result<BranchView, EngineError> {
        let snapshot = self.shared.registry.snapshot_to_undo(name, by)?;
        self.go_back(by, name, Aim::Snapshot(Box::new(snapshot))).await
    }

    async fn go_back(
        self: &Arc<Self>,
        by: Option<&Holder>,
        name: &str,
        aim: Aim,
    ) -> Result<BranchView, EngineError> {
        // By the caller, so that it is the lease that has the name now, whatever happens before the task runs.
        let resetting = self.shared.registry.begin_reset(name, by)?;
        let (engine, by) = (Arc::clone(self), by.cloned());
        // In a task of its own: a caller who goes away must not leave the branch between two volumes.
        tokio::spawn(async move {
            let begin = clock::now();
            let result = engine.finish(resetting, aim, by.as_ref()).await;
            engine.shared.metrics.reset(begin, &result);
            result
        })
        .await
        .map_err(LeaseError::ResetCrashed)?
    }

    async fn finish(
        self: &Arc<Self>,
        resetting: Resetting,
        aim: Aim,
        by: Option<&Holder>,
    ) -> Result<BranchView, EngineError> {
        let LeaseRecord { name, id, .. } = resetting.record.clone();
        let old = Arc::clone(&resetting.old);
        let replaced = tokio::task::spawn_blocking({
            let (shared, aim) = (Arc::clone(&self.shared), aim.clone());
            move || replace(&shared, &resetting, &aim)
        })
        .await
        .map_err(|error| LeaseError::ResetCrashed(error).into())
        .and_then(|result| result);
        let failure = match replaced {
            Ok(branch) => {
                let failure = branch.connect(true).await.err();
                self.shared.environment.limit_volume(&branch.volume, branch.generation.limits().disk);
                failure
            }
            Err(error) => Some(error),
        };
        let view = self.shared.registry.finish_reset(&name, &id, &old, failure.as_ref())?;
        let mut details = json!({ "branch": id, "name": name, "failed": failure.is_some() });
        if let Aim::Snapshot(snapshot) = &aim {
            details["snapshot"] = snapshot.id.clone().into();
        }
        self.shared.audit(aim.event(), named(details, by))?;
        failure.map_or(Ok(view), Err)
    }
}

/// Gives a lease another volume, ends the old branch, and keeps what it held. Blocks.
fn replace(shared: &Arc<Shared>, resetting: &Resetting, aim: &Aim) -> Result<Arc<Branch>, EngineError> {
    let environment = &shared.environment;
    let Resetting { record, old, base } = resetting;
    let (name, id, generation) = (&record.name, &record.id, &old.generation);
    generation.usable()?;
    // The lease may belong to an earlier generation, which was opened with the rules of its time.
    generation.check_rules(shared.registry.settings(&generation.source).masking.as_ref())?;
    let snapshot = match (aim, &record.base) {
        (Aim::Snapshot(snapshot), _) => Some(&**snapshot),
        (Aim::Beginning, None) => None,
        (Aim::Beginning, Some(wanted)) => {
            let problem = match base {
                None => Some("it is gone".to_owned()),
                Some(base) => base.problem.clone(),
            };
            if let Some(problem) = problem {
                let (branch, id) = (wanted.name.clone(), wanted.snapshot.clone());
                return Err(LineageError::Damaged { branch, id, problem }.into());
            }
            base.as_ref()
        }
    };
    // On a full volume store its first writes come out of the reserve.
    let volume = match snapshot {
        None => {
            generation.check(&environment.store)?;
            environment.clone_within(generation, Account::Reserve)?
        }
        Some(snapshot) => {
            environment.clone_branch(&snapshot.id, generation.limits().disk, Account::Reserve)?
        }
    };
    let inherited = snapshot.map(|snapshot| snapshot.volume.as_str());
    let branch =
        Branch::new(environment, Arc::clone(generation), old.policy, volume, Some(old.socket.clone()));
    let branch = Arc::new(branch.inheriting(environment, inherited));
    let is_closing = shared.closing.load(Ordering::Acquire);
    shared
        .registry
        .replace_branch(name, id, &branch, inherited, is_closing)
        .inspect_err(|_| environment.delete_volume(&branch.volume))?;
    if generation.audits_statements {
        shared.statements.follow(&branch.volume, id, name);
    }
    old.kill();
    if let Err(error) = keep(shared, record, old, aim.kind()) {
        tracing::warn!(%error, branch = name, "what the branch held before is not kept");
    }
    shared.registry.discard_replaced(Arc::clone(old));
    shared.wake.wake();
    branch.start()?;
    if snapshot.is_none() {
        branch.place_relation_cache();
    }
    Ok(branch)
}

/// Makes the volume of a branch that is ended a snapshot (L5).
fn keep(shared: &Shared, lease: &LeaseRecord, old: &Branch, kind: SnapshotKind) -> Result<(), EngineError> {
    if lease.problem.is_some() || !shared.registry.keeps_snapshots(&lease.source) || shared.is_short_of_room()
    {
        return Ok(());
    }
    let environment = &shared.environment;
    let record = SnapshotRecord {
        id: new_id(),
        name: None,
        kind,
        lease: lease.id.clone(),
        source: lease.source.clone(),
        generation: lease.generation,
        policy: lease.policy,
        volume: old.volume.clone(),
        taken_at: clock::utc_now(),
        running: true,
        durable: lease.durable,
        boot: shared.boot.clone(),
        problem: None,
    };
    let (from, to) = (environment.volume(&old.volume), environment.volume(&record.id));
    fs::rename(&from, &to).map_err(|error| crate::files::io_error("keep", &from, &error))?;
    shared
        .registry
        .keep_snapshot(&lease.name, &record)
        .inspect_err(|_| environment.delete_volume(&record.id))?;
    shared.registry.end_old_snapshots(&lease.id, record.taken_at, false)
}
