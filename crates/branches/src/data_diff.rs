//! Which rows of a branch differ from those of the snapshot that it was cloned from.
//!
//! How they are found is the crate `changes`; here is what it compares with: a server on a fresh clone of the lease's own
//! snapshot, out of the pool or made for it, which nobody else ever has.

use crate::{
    branch::{Branch, SocketDir},
    doors::Holder,
    engine::Engine,
    error::{Coded, EngineError, Kind},
    generation::Generation,
    journal::SnapshotRecord,
    leases::named,
    lineage::start_copy,
    model::Policy,
    shared::Shared,
};
use duramen_changes::{compare, ChangesError, Part, Request, Side, Written};
use serde_json::json;
use std::{
    sync::{atomic::Ordering, Arc},
    time::Duration,
};
use tokio::{
    sync::{mpsc, Semaphore},
    time::timeout,
};

/// Comparisons that run at a time: each may hold what differs in memory.
static PLACES: Semaphore = Semaphore::const_new(2);
/// How long one may take, whoever is told being slow included.
const COMPARISON_LIMIT: Duration = Duration::from_secs(3600);
/// How long a comparison waits for its place.
const PLACE_LIMIT: Duration = Duration::from_secs(30);

/// What is to be compared.
#[derive(Debug, Clone, Default)]
pub struct WantedDiff {
    /// Only these tables and sequences, `schema.name`; all if there are none.
    pub only: Vec<String>,
    /// At most so many rows are told. All are counted.
    pub rows: u64,
}

impl Coded for ChangesError {
    fn code(&self) -> (Kind, &'static str) {
        match self {
            ChangesError::UnknownTable(_) => (Kind::NotFound, "unknown_table"),
            ChangesError::Locked { .. } => (Kind::Unavailable, "table_locked"),
            ChangesError::Restless => (Kind::Unavailable, "tables_changed"),
            ChangesError::TooMuch { .. } => (Kind::Failed, "too_many_changes"),
            ChangesError::Unheard => (Kind::Unavailable, "client_gone"),
            ChangesError::Files { .. } => (Kind::Failed, "files_unreadable"),
            // `Server`, and what is added later.
            _ => (Kind::Failed, "server_failed"),
        }
    }
}

impl Engine {
    /// Compares the rows of a branch with those of its snapshot, and tells what differs as it is found. That it was
    /// compared stands in the audit log. `by` is whoever came through a door.
    ///
    /// # Errors
    /// Unknown branch or table; the branch or a clone of its snapshot does not serve; too much differs.
    pub async fn data_diff(
        self: &Arc<Self>,
        by: Option<&Holder>,
        name: &str,
        wanted: WantedDiff,
        told: &mpsc::Sender<Part>,
    ) -> Result<(), EngineError> {
        let view = self.branch_by(by, name)?;
        let session = self.shared.registry.held_session(name, &view.id)?;
        let branch = &session.branch;
        let Ok(_place) = timeout(PLACE_LIMIT, PLACES.acquire()).await else {
            let message = "other comparisons run, and this one has waited for long; compare again later";
            return Err(EngineError::new(Kind::Unavailable, "comparisons_busy", message));
        };
        let _visit = branch.visit();
        let _active = self.shared.activity.enter();
        let base = self.shared.registry.base_of(name, &view.id)?;
        let snapshot = match &base {
            Some(base) => self.shared.environment.volume(&base.id),
            None => branch.generation.snapshot.clone(),
        };
        let prepare = async {
            let baseline = match &base {
                Some(base) => Baseline::of_branch(&self.shared, &branch.generation, base).await?,
                None => Baseline::ready(&self.shared, &branch.generation)?,
            };
            let client = baseline.branch.administrator_client().await?;
            Ok::<_, EngineError>((baseline, client))
        };
        let ((baseline, old), new, holding) =
            tokio::try_join!(prepare, branch.administrator_client(), branch.administrator_client())?;
        let request = Request {
            branch: Side { client: &new, files: branch.data_dir() },
            holding: &holding,
            baseline: Side { client: &old, files: baseline.branch.data_dir() },
            snapshot: &snapshot,
            // The server of an import was stopped before it was frozen, and prepared transactions were rolled back. What was under
            // way in another branch when this one was made of it has ended in both copies, without a commit.
            written: &Written::Nothing,
            only: &wanted.only,
            rows: wanted.rows,
        };
        let compared = timeout(COMPARISON_LIMIT, compare(request, told)).await.map_err(|_| {
            let seconds = COMPARISON_LIMIT.as_secs();
            let message =
                format!("the comparison took longer than {seconds} s; compare single tables by their names");
            EngineError::new(Kind::Timeout, "comparison_timeout", message)
        });
        let summary = compared??;
        let details = json!({ "branch": view.id, "name": name, "tables": wanted.only, "summary": summary });
        self.shared.audit("data_compared", named(details, by))
    }
}

/// A branch that nobody holds, to compare with. It is deleted when this is dropped.
struct Baseline {
    shared: Arc<Shared>,
    branch: Arc<Branch>,
    /// The snapshot of another branch that is kept for it meanwhile.
    kept: Option<String>,
}

impl Baseline {
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

#[cfg(test)]
#[path = "../tests/unit/data_diff.rs"]
mod tests;
