//! Which rows of a branch differ from those of the snapshot that it was cloned from.
//!
//! How they are found is the crate `changes`; here is what it compares with: a server on a fresh clone of the lease's own
//! snapshot, out of the pool or made for it, which nobody else ever has.

use crate::{
    baseline::{self, Baseline},
    doors::Holder,
    engine::Engine,
    error::{Coded, EngineError, Kind},
    leases::named,
};
use duramen_changes::{compare, ChangesError, Part, Request, Side, Summary, Written};
use serde_json::json;
use std::{sync::Arc, time::Duration};
use tokio::{sync::mpsc, time::timeout};

/// How long one may take, whoever is told being slow included.
const COMPARISON_LIMIT: Duration = Duration::from_secs(3600);

/// What is to be compared.
#[derive(Debug, Clone, Default)]
pub struct WantedDiff {
    /// Only these tables and sequences, `schema.name`; all if there are none.
    pub only: Vec<String>,
    /// Whether columns that the branch alone has are told too.
    pub whole: bool,
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

/// Waits for a comparison, and not for ever.
pub(crate) async fn in_time(
    comparison: impl Future<Output = Result<Summary, ChangesError>>,
) -> Result<Summary, EngineError> {
    let compared = timeout(COMPARISON_LIMIT, comparison).await.map_err(|_| {
        let seconds = COMPARISON_LIMIT.as_secs();
        let message =
            format!("the comparison took longer than {seconds} s; compare single tables by their names");
        EngineError::new(Kind::Timeout, "comparison_timeout", message)
    });
    Ok(compared??)
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
        let _place = baseline::place().await?;
        let _visit = branch.visit();
        let _active = self.shared.activity.enter();
        let base = self.shared.registry.base_of(name, &view.id)?;
        let snapshot = match &base {
            Some(base) => self.shared.environment.volume(&base.id),
            None => branch.generation.snapshot.clone(),
        };
        let prepare = async {
            let baseline = Baseline::of(&self.shared, &branch.generation, base.as_ref()).await?;
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
            whole: wanted.whole,
            rows: wanted.rows,
        };
        let summary = in_time(compare(request, told)).await?;
        let details = json!({ "branch": view.id, "name": name, "tables": wanted.only, "summary": summary });
        self.shared.audit("data_compared", named(details, by))
    }
}

#[cfg(test)]
#[path = "../tests/unit/data_diff.rs"]
mod tests;
