//! A snapshot of a branch, taken while it is used.

use crate::{
    branch::Branch,
    error::{EngineError, Kind, LeaseError, LineageError},
    journal::SnapshotRecord,
    model::SnapshotKind,
    registry::Session,
    shared::Shared,
};
use duramen_base::{
    clock::{self, ms},
    entropy,
};
use duramen_postgres::{volume, Hold};
use std::{sync::Arc, time::Duration};

/// How long a checkpoint may take.
const CHECKPOINT_LIMIT: Duration = Duration::from_secs(60);

/// What a snapshot of a branch is of, and why it is taken.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub(crate) name: Option<String>,
    pub(crate) kind: SnapshotKind,
    /// Whether the server is stopped for it, rather than held.
    pub(crate) quiesce: bool,
}

/// A branch and its name, of which a snapshot is taken.
#[derive(Debug, Clone)]
pub(crate) struct Subject {
    pub(crate) name: String,
    pub(crate) id: String,
    pub(crate) branch: Arc<Branch>,
}

impl Subject {
    pub(crate) fn of(name: &str, session: &Session) -> Subject {
        Subject { name: name.to_owned(), id: session.id.clone(), branch: Arc::clone(&session.branch) }
    }
}

/// A volume as snapshots are named; its record follows.
pub(crate) fn new_id() -> String {
    format!("s-{}", entropy::token(16))
}

impl Shared {
    /// Takes a snapshot of a branch (L1, L2). It is written down by whoever keeps it.
    pub(crate) async fn capture(
        self: &Arc<Self>,
        subject: &Subject,
        wanted: &Wanted,
    ) -> Result<SnapshotRecord, EngineError> {
        let branch = Arc::clone(&subject.branch);
        let name = subject.name.clone();
        if !wanted.quiesce && branch.is_running() == Some(true) {
            let begin = clock::now();
            let dir = branch.data_dir().to_owned();
            // What is written back now has not to be while the server is held. Best effort: the snapshot writes the rest.
            let writing = tokio::task::spawn_blocking(move || volume::write_back(&dir));
            let checkpoint = tokio::time::timeout(CHECKPOINT_LIMIT, branch.checkpoint()).await;
            let _ = writing.await;
            match checkpoint {
                Err(_) => {
                    let reason = format!("its server did not write a checkpoint within {CHECKPOINT_LIMIT:?}");
                    return Err(LineageError::NotCaptured { branch: name, reason }.into());
                }
                Ok(done) => done?,
            }
            tracing::debug!(branch = name, ms = ms(begin.elapsed()), "checkpoint");
        }
        let (shared, quiesce) = (Arc::clone(self), wanted.quiesce);
        let copied = tokio::task::spawn_blocking(move || copy(&shared, &branch, &name, quiesce));
        let copied = copied.await.map_err(|error| {
            EngineError::new(Kind::Failed, "not_captured", format!("taking a snapshot crashed: {error}"))
        })?;
        let (id, running) = copied?;
        let generation = &subject.branch.generation;
        Ok(SnapshotRecord {
            id,
            name: wanted.name.clone(),
            kind: wanted.kind,
            lease: subject.id.clone(),
            source: generation.source.clone(),
            generation: generation.manifest.generation,
            policy: subject.branch.policy,
            volume: subject.branch.volume.clone(),
            taken_at: clock::utc_now(),
            running,
            durable: generation.durable,
            boot: self.boot.clone(),
            problem: None,
        })
    }
}

/// Clones the volume of a branch that stands still. Blocks. The id, and whether its server ran.
fn copy(
    shared: &Shared,
    branch: &Arc<Branch>,
    name: &str,
    quiesce: bool,
) -> Result<(String, bool), EngineError> {
    let environment = &shared.environment;
    let fail = |reason: String| LineageError::NotCaptured { branch: name.to_owned(), reason };
    let id = new_id();
    let (from, to) = (environment.volume(&branch.volume), environment.volume(&id));
    let begin = clock::now();
    // What the checkpoint wrote.
    let _ = volume::write_back(&from);
    tracing::debug!(branch = name, ms = ms(begin.elapsed()), "written back");
    // Stopped and copied under one lock: whoever asks the branch something meanwhile does not start it between the two.
    let copied = branch.while_still(quiesce, |hold: Option<&Hold>| {
        let begin = clock::now();
        let taken = environment.store.volumes.snapshot(&from, &to);
        tracing::debug!(branch = name, held = hold.is_some(), ms = ms(begin.elapsed()), "copied");
        taken.map(|()| hold.is_some())
    });
    if quiesce && !branch.sleep.is_asleep() {
        branch.start()?;
        // The resident session ended with the server; whoever uses it right now sees that for himself.
        if let Some(mut session) = branch.try_session() {
            *session = None;
        }
    }
    match copied {
        Some(Ok(Ok(running))) => Ok((id, running)),
        Some(Ok(Err(error))) => Err(fail(error.to_string()).into()),
        Some(Err(error)) => Err(fail(error.to_string()).into()),
        None => Err(LeaseError::Destroyed { name: name.to_owned() }.into()),
    }
}
