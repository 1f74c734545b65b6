//! Snapshots of branches that somebody asks for.

use super::capture::{Subject, Wanted};
use crate::{
    doors::Holder,
    engine::Engine,
    error::EngineError,
    leases::named,
    model::{SnapshotKind, SnapshotView, TakeSnapshot},
    names,
};
use serde_json::json;
use std::sync::Arc;

impl Engine {
    /// Takes a snapshot of a branch, to which it can go back, and of which others can be made. It is kept for as long as the
    /// branch is.
    ///
    /// # Errors
    /// No such branch, one that does not work, a name that a snapshot of it has; too many of them.
    pub async fn take_snapshot(
        self: &Arc<Self>,
        name: &str,
        request: TakeSnapshot,
    ) -> Result<SnapshotView, EngineError> {
        self.take_snapshot_by(None, name, request).await
    }

    pub(crate) async fn take_snapshot_by(
        self: &Arc<Self>,
        by: Option<&Holder>,
        name: &str,
        request: TakeSnapshot,
    ) -> Result<SnapshotView, EngineError> {
        let TakeSnapshot { name: called, quiesce } = request;
        if let Some(called) = &called {
            names::check("snapshot", called)?;
        }
        let shared = &self.shared;
        let _active = shared.activity.enter();
        let session = shared.registry.working_session_of(name, by)?;
        let subject = Subject::of(name, &session);
        let wanted = Wanted { name: called, kind: SnapshotKind::Named, quiesce };
        let by = by.cloned();
        let engine = Arc::clone(self);
        // In a task of its own: a caller who goes away must not leave a volume that nobody knows.
        let taken = tokio::spawn(async move {
            let shared = &engine.shared;
            let record = shared.capture(&subject, &wanted).await?;
            let kept = shared.registry.keep_snapshot(&subject.name, &record);
            kept.inspect_err(|_| shared.environment.delete_volume(&record.id))?;
            let details = json!({ "branch": subject.id, "name": subject.name, "snapshot": record.id,
                                  "called": record.name });
            shared.audit("snapshot_taken", named(details, by.as_ref()))?;
            Ok(SnapshotView::from(&record))
        });
        taken.await.map_err(|error| {
            let message = format!("taking a snapshot crashed: {error}");
            EngineError::new(crate::error::Kind::Failed, "not_captured", message)
        })?
    }

    /// The snapshots of a branch, the earliest first.
    ///
    /// # Errors
    /// No such branch.
    pub fn snapshots(&self, name: &str) -> Result<Vec<SnapshotView>, EngineError> {
        self.shared.registry.snapshots(name, None)
    }

    /// Ends a snapshot of a branch, by its name or its id. Branches that were made of it go on.
    ///
    /// # Errors
    /// No such branch, or it has no such snapshot.
    pub fn remove_snapshot(&self, name: &str, snapshot: &str) -> Result<SnapshotView, EngineError> {
        self.remove_snapshot_by(None, name, snapshot)
    }

    pub(crate) fn remove_snapshot_by(
        &self,
        by: Option<&Holder>,
        name: &str,
        snapshot: &str,
    ) -> Result<SnapshotView, EngineError> {
        let removed = self.shared.registry.remove_snapshot(name, by, snapshot)?;
        self.shared.wake.wake();
        let details = json!({ "name": name, "snapshot": removed.id, "called": removed.name });
        self.shared.audit("snapshot_removed", named(details, by))?;
        Ok(removed)
    }
}
