//! What a branch holds, as a dump or as a data directory, read from a copy of it that nobody else has. Invariants X1 to X5 of
//! docs/design/export.md.

mod archive;
mod dump;

use crate::{
    baseline::Baseline,
    doors::Holder,
    engine::Engine,
    error::{EngineError, ExportError},
    leases::named,
    lineage::{
        capture::{Subject, Wanted},
        start_copy,
    },
    model::{ExportFormat, SnapshotKind},
};
use bytes::Bytes;
use serde_json::json;
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::{mpsc, Semaphore},
    time::timeout,
};

/// Exports that run at a time: each has a server, and programs that read all of it.
static PLACES: Semaphore = Semaphore::const_new(2);
/// How long an export waits for its place.
const PLACE_LIMIT: Duration = Duration::from_secs(30);

/// What is to be exported.
#[derive(Debug, Clone, Copy)]
pub struct WantedExport {
    /// In which form.
    pub format: ExportFormat,
    /// How many processes dump a directory.
    pub jobs: u32,
    /// Whether the branch's server is stopped for the copy, so that unlogged tables keep their rows.
    pub quiesce: bool,
}

impl Engine {
    /// Exports a branch as it is now: `told` is sent the bytes, those of a tar archive if the format is a directory. What is
    /// exported is whole only if this returns without an error.
    ///
    /// If the future is dropped, or nobody receives any more, the export is given up.
    ///
    /// # Errors
    /// No such branch, one that does not work, what its holder may not read, or too many exports at a time.
    pub async fn export(
        self: &Arc<Self>,
        by: Option<&Holder>,
        name: &str,
        wanted: WantedExport,
        told: &mpsc::Sender<Bytes>,
    ) -> Result<(), EngineError> {
        let place = match timeout(PLACE_LIMIT, PLACES.acquire()).await {
            Ok(Ok(place)) => place,
            _ => return Err(ExportError::Busy { limit: PLACE_LIMIT }.into()),
        };
        let shared = &self.shared;
        let _active = shared.activity.enter();
        let session = shared.registry.working_session_of(name, by)?;
        let subject = Subject::of(name, &session);
        let kind = Wanted { name: None, kind: SnapshotKind::Base, quiesce: wanted.quiesce };
        // In a task of its own: what is copied of the branch must be in somebody's hands, also if the caller goes away meanwhile.
        let copying = tokio::spawn({
            let shared = Arc::clone(shared);
            async move {
                let taken = shared.capture(&subject, &kind).await?;
                let taken_at = taken.taken_at;
                let copied = tokio::task::spawn_blocking(move || {
                    let copied = start_copy(&shared, Arc::clone(&subject.branch.generation), &taken);
                    // The copy has what it needs of it.
                    shared.environment.delete_volume(&taken.id);
                    // From here on it goes with whoever has it.
                    copied.map(|branch| Baseline::holding(&shared, branch))
                });
                let copy = copied.await.map_err(ExportError::Crashed)??;
                Ok::<_, EngineError>((copy, taken_at, place))
            }
        });
        let (copy, taken_at, _place) = copying.await.map_err(ExportError::Crashed)??;
        copy.branch.admit().await?;
        let format = wanted.format;
        let details = json!({ "branch": session.id, "name": name, "format": format, "taken_at": taken_at });
        shared.audit("exported", named(details, by))?;
        match format {
            ExportFormat::Plain | ExportFormat::Custom => dump::stream(&copy.branch, format, told).await,
            ExportFormat::Directory => {
                let dir = dump::directory(&copy.branch, wanted.jobs, told).await?;
                archive::of_dump(dir, told.clone()).await
            }
            ExportFormat::Basebackup => archive::of_data_directory(&copy.branch, told.clone()).await,
        }
    }
}
