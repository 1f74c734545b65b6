//! Servers of leased branches that ended by themselves: killed for lack of memory, or in a panic because nothing could be
//! written. They are started again, with growing pauses, and their holders find them in the same place. So are resets ended
//! that did not get as far as a session.

use crate::{branch::Branch, error::EngineError, parallel::parallel, registry::Held, shared::Shared};
use duramen_base::clock;
use serde_json::json;
use std::{
    sync::{atomic::Ordering, Arc, Mutex, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// The pause after a failed start; it doubles with each one, up to the longest.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// How many servers are started at a time.
const THREADS: usize = 2;

/// When the server of a branch is started again.
#[derive(Debug, Default)]
pub(crate) struct Attempts(Mutex<(u32, Option<Instant>)>);

impl Attempts {
    fn are_due(&self) -> bool {
        let attempts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        attempts.1.is_none_or(|next| clock::now() >= next)
    }

    fn note(&self, worked: bool) {
        let mut attempts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let failures = if worked { 0 } else { attempts.0.saturating_add(1) };
        let pause = PAUSE.saturating_mul(1 << failures.min(10)).min(PAUSE_MAX);
        // A server that starts well, and ends at once each time, is not started in a loop either.
        *attempts = (failures, Some(clock::now() + if worked { PAUSE } else { pause }));
    }
}

/// The starts that run.
#[derive(Debug, Default)]
pub(crate) struct Revival(Option<JoinHandle<()>>);

impl Revival {
    /// Starts in a thread of its own what has ended. One round at a time.
    pub(crate) fn look(&mut self, shared: &Arc<Shared>) {
        if self.0.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return;
        }
        let mut held = shared.registry.held();
        held.iter().for_each(|held| held.branch.tend_quota());
        held.retain(|held| needs_help(held) && held.branch.attempts.are_due());
        if held.is_empty() {
            return;
        }
        let shared = Arc::clone(shared);
        let revive = move || {
            parallel(THREADS, held, |held| bring_back(&shared, &held));
        };
        // Without a thread it is tried again.
        self.0 = thread::Builder::new().name("revive".to_owned()).spawn(revive).ok();
    }

    /// Waits for the starts that run.
    pub(crate) fn end(self) {
        if self.0.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("a thread that started servers again had panicked");
        }
    }
}

/// Whether the server of a lease does not run, or runs and its holder is refused all the same: because a reset gave up before
/// a session was there, or because somebody else started the server.
fn needs_help(held: &Held) -> bool {
    held.branch.is_down() || ((held.unentered || held.failed) && held.branch.is_up())
}

fn bring_back(shared: &Shared, held: &Held) {
    if shared.closing.load(Ordering::Acquire) {
        return;
    }
    let branch = &held.branch;
    let started = start(shared, held);
    branch.attempts.note(started.is_ok());
    let details = json!({ "branch": held.id, "name": held.name, "killed_for_memory": branch.killed_for_memory(),
                          "problem": started.as_ref().err().map(|error| &error.message) });
    match &started {
        Ok(()) => tracing::warn!(branch = held.name, "a branch that had failed is ready again"),
        Err(error) => tracing::warn!(branch = held.name, %error, "a branch that failed is not ready yet"),
    }
    let problem = started.err().map(|error| error.message);
    let noted = shared.registry.note_revived(&held.name, &held.id, branch, problem);
    if let Err(error) = noted.and_then(|()| shared.audit("server_restarted", details)) {
        tracing::error!(%error, branch = held.name, "that a server was started again could not be written down");
    }
}

fn start(shared: &Shared, held: &Held) -> Result<(), EngineError> {
    held.branch.start()?;
    if held.unentered {
        shared.runtime.block_on(held.branch.connect(false))?;
    }
    Ok(())
}

impl Branch {
    /// Whether its server has ended although its lease goes on. A server that is being started or stopped is not down, nor is one
    /// that sleeps.
    fn is_down(&self) -> bool {
        !self.is_retired() && !self.sleep.is_asleep() && self.is_running() == Some(false)
    }

    fn is_up(&self) -> bool {
        !self.is_retired() && self.is_running() == Some(true)
    }
}
