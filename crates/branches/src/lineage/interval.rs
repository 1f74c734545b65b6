//! Snapshots that are taken and ended without being asked for.

use super::capture::{Subject, Wanted};
use crate::{error::EngineError, model::SnapshotKind, registry::Watched, shared::Shared};
use duramen_base::clock;
use jiff::Timestamp;
use std::{
    sync::{atomic::Ordering, Arc},
    thread::{self, JoinHandle},
};

/// The snapshots that are being taken.
#[derive(Debug, Default)]
pub(crate) struct Interval(Option<JoinHandle<()>>);

impl Interval {
    /// Takes in a thread of its own the snapshots for which it is time, and ends the old ones. One round at a time.
    pub(crate) fn look(&mut self, shared: &Arc<Shared>) {
        if self.0.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return;
        }
        let watched = shared.registry.watched_snapshots();
        if watched.is_empty() {
            return;
        }
        let shared = Arc::clone(shared);
        let is_short = shared.is_short_of_room();
        let work = move || {
            for Watched { subject, every_s, last } in watched {
                if shared.closing.load(Ordering::Acquire) {
                    return;
                }
                let now = clock::utc_now();
                let is_due = !is_short && every_s.is_some_and(|every_s| is_due(every_s, last, now));
                let done = if is_due { take(&shared, &subject) } else { Ok(()) };
                let done = done.and_then(|()| shared.registry.end_old_snapshots(&subject.id, now, is_short));
                if let Err(error) = done {
                    tracing::warn!(%error, branch = subject.name, "no snapshot was taken at its time");
                }
            }
        };
        // Without a thread it is tried again.
        self.0 = thread::Builder::new().name("snapshots".to_owned()).spawn(work).ok();
    }

    /// Waits for what is being taken.
    pub(crate) fn end(self) {
        if self.0.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("a thread that took snapshots had panicked");
        }
    }
}

fn is_due(every_s: u32, last: Option<Timestamp>, now: Timestamp) -> bool {
    last.is_none_or(|last| now.as_second() - last.as_second() >= i64::from(every_s))
}

/// Takes a snapshot of a branch, unless nobody could have changed anything: its server does not run.
fn take(shared: &Arc<Shared>, subject: &Subject) -> Result<(), EngineError> {
    if subject.branch.is_running() != Some(true) {
        return Ok(());
    }
    let wanted = Wanted { name: None, kind: SnapshotKind::Interval, quiesce: false };
    let record = shared.runtime.block_on(shared.capture(subject, &wanted))?;
    let kept = shared.registry.keep_snapshot(&subject.name, &record);
    kept.inspect_err(|_| shared.environment.delete_volume(&record.id))
}
