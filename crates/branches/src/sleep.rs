//! Branches of holders in which nobody is: their servers are stopped after a while, and started again by whoever comes.
//!
//! Only branches that are entered through doors sleep: a client of a branch's own socket would find none. Under the lock of the
//! branch's server it is decided that nobody is there, and the server is stopped; who comes is counted first, and then, if the
//! branch sleeps, waits for that lock to start it. So nobody loses a server that he was let into.

use crate::{branch::Branch, registry::Held, shared::Shared};
use duramen_base::clock;
use duramen_postgres::{Guard, Statement};
use std::{
    sync::{
        atomic::{AtomicBool, Ordering},
        Arc, Mutex, MutexGuard, PoisonError,
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// How long the question may take who else is in a branch.
const ASK_LIMIT: Duration = Duration::from_secs(5);
/// Sessions but the daemon's own. What the role may not see of others is null, but not whose they are.
const OTHERS: &str = "select pg_catalog.count(*) operator(pg_catalog.=) 0 from pg_catalog.pg_stat_activity \
                      where usesysid is not null and pid operator(pg_catalog.<>) pg_catalog.pg_backend_pid()";

/// Who is in a branch, and whether it sleeps.
#[derive(Debug)]
pub(crate) struct Sleep {
    state: Mutex<State>,
    asleep: AtomicBool,
}

#[derive(Debug)]
struct State {
    visitors: u32,
    /// Since when nobody is there, if that is so.
    since: Instant,
}

impl Default for Sleep {
    fn default() -> Sleep {
        Sleep {
            state: Mutex::new(State { visitors: 0, since: clock::now() }),
            asleep: AtomicBool::new(false),
        }
    }
}

impl Sleep {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nobody has been there for so long.
    fn is_quiet(&self, after: Duration) -> bool {
        let state = self.state();
        state.visitors == 0 && state.since.elapsed() >= after
    }

    /// Falls asleep if nobody is there. Whoever comes later sees it.
    fn fall(&self) -> bool {
        let state = self.state();
        if state.visitors == 0 {
            self.asleep.store(true, Ordering::Release);
        }
        state.visitors == 0
    }

    pub(crate) fn is_asleep(&self) -> bool {
        self.asleep.load(Ordering::Acquire)
    }

    /// Notes that the server is started.
    pub(crate) fn wake(&self) {
        self.asleep.store(false, Ordering::Release);
    }
}

/// Somebody in a branch, for as long as this lives: it does not fall asleep.
#[derive(Debug)]
pub(crate) struct Visit(Arc<Branch>);

impl Drop for Visit {
    fn drop(&mut self) {
        let mut state = self.0.sleep.state();
        state.visitors -= 1;
        state.since = clock::now();
    }
}

impl Branch {
    /// Somebody comes. If the branch sleeps, he has to start it.
    pub(crate) fn visit(self: &Arc<Self>) -> Visit {
        self.sleep.state().visitors += 1;
        Visit(Arc::clone(self))
    }

    /// Stops the server if nobody has been there for so long. Blocks.
    fn fall_asleep(&self, runtime: &tokio::runtime::Handle, after: Duration) -> bool {
        if self.sleep.is_asleep() || !self.sleep.is_quiet(after) || self.is_running() != Some(true) {
            return false;
        }
        // A process that is ready for the first client is nobody.
        self.spare.spoil();
        // Who runs a statement meanwhile waits for it, and connects anew.
        let Some(mut session) = self.try_session() else { return false };
        if let Some(resident) = session.as_mut() {
            let guard = Guard { read_only: true, timeout: ASK_LIMIT, row_limit: 1, byte_limit: 1 << 10 };
            let ask = [Statement { sql: OTHERS.to_owned(), parameters: Vec::new() }];
            let answer = runtime.block_on(resident.run(&ask, guard));
            match answer {
                Ok(outcomes) if outcomes.first().is_some_and(|it| it.rows_json == b"[[true]]") => {}
                Ok(_) => return false,
                Err(_) => {
                    // What it is like after an error, nobody knows.
                    *session = None;
                    return false;
                }
            }
        }
        self.stop_if(|| {
            let falls = self.sleep.fall();
            if falls {
                *session = None;
            }
            falls
        })
    }
}

/// The stops that run.
#[derive(Debug, Default)]
pub(crate) struct Bedtime(Option<JoinHandle<()>>);

impl Bedtime {
    /// Stops in a thread of its own the servers of branches in which nobody is. One round at a time.
    pub(crate) fn look(&mut self, shared: &Arc<Shared>) {
        let Some(after) = shared.environment.sleep_after else { return };
        if self.0.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return;
        }
        let mut held = shared.registry.held();
        held.retain(|held| {
            held.by_token && held.branch.sleep.is_quiet(after) && !held.branch.sleep.is_asleep()
        });
        if held.is_empty() {
            return;
        }
        let shared = Arc::clone(shared);
        let stop = move || {
            for Held { branch, name, .. } in held {
                if shared.closing.load(Ordering::Acquire) {
                    return;
                }
                if branch.fall_asleep(&shared.runtime, after) {
                    tracing::debug!(branch = name, "nobody is there, and it sleeps");
                }
            }
        };
        // Without a thread it is tried again.
        self.0 = thread::Builder::new().name("sleep".to_owned()).spawn(stop).ok();
    }

    /// Waits for the stops that run.
    pub(crate) fn end(self) {
        if self.0.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("a thread that stopped servers had panicked");
        }
    }
}
