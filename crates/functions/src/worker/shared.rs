//! What the tasks of a worker share.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{watch, Notify};
use tokio_postgres::CancelToken;

use duramen_measure::clock;

use super::metrics::{add, Metrics};
use super::session::Sessions;
use super::turn::Report;
use crate::connect::Target;
use crate::http::HttpPolicy;
use crate::interpret::Cell;

/// A step that takes so long does not belong in a turn.
const SLOW: Duration = Duration::from_millis(25);
/// How long a text that was slow is not tried in a turn again.
const SLOW_REMEMBERED: Duration = Duration::from_secs(60);
/// How many slow texts and suspected instances are remembered.
const REMEMBERED_MAX: usize = 10_000;
/// How long a cancelled statement may go on before its connection is closed.
pub(crate) const CANCEL_GRACE: Duration = Duration::from_secs(2);

pub(crate) struct Shared {
    pub(crate) target: Target,
    pub(crate) sessions: Sessions,
    /// The worker's name in the database: anew after it was buried.
    pub(crate) epoch: Mutex<String>,
    pub(crate) metrics: Metrics,
    /// There may be instances for a turn.
    pub(crate) turns: Notify,
    /// There may be activities.
    pub(crate) activities: Notify,
    /// A timer was set: the sleeper looks at the clock again.
    pub(crate) timers: Notify,
    /// The earliest timer that is known.
    pub(crate) next_due: Mutex<Option<jiff::Timestamp>>,
    /// Set: no new work is begun.
    pub(crate) draining: watch::Sender<bool>,
    /// Nobody looks for work: a starter must notify.
    pub(crate) asleep: AtomicBool,
    pub(crate) http: Mutex<HttpPolicy>,
    /// The roles whose executor exists.
    pub(crate) executors: tokio::sync::Mutex<HashSet<u32>>,
    running: Mutex<HashMap<(i64, String), Running>>,
    slow: Mutex<HashMap<u64, Instant>>,
    suspects: Mutex<HashSet<i64>>,
    /// Roles that have been dropped though instances of theirs remain.
    gone_roles: Mutex<HashSet<u32>>,
}

/// A statement of an activity that runs now.
#[derive(Clone)]
pub(crate) struct Running {
    pub(crate) cancel: Option<CancelToken>,
    pub(crate) stop: std::sync::Arc<Notify>,
}

impl Shared {
    pub(crate) fn new(target: Target, sessions: Sessions, epoch: String) -> Self {
        Self {
            target,
            sessions,
            epoch: Mutex::new(epoch),
            metrics: Metrics::default(),
            turns: Notify::new(),
            activities: Notify::new(),
            timers: Notify::new(),
            next_due: Mutex::new(None),
            draining: watch::Sender::new(false),
            asleep: AtomicBool::new(false),
            http: Mutex::new(HttpPolicy::default()),
            executors: tokio::sync::Mutex::default(),
            running: Mutex::default(),
            slow: Mutex::default(),
            suspects: Mutex::default(),
            gone_roles: Mutex::default(),
        }
    }

    pub(crate) fn is_draining(&self) -> bool {
        *self.draining.borrow()
    }

    /// Whether a step is known to need a session of its own.
    pub(crate) fn runs_alone(&self, role: u32, seq: i64, text: &str) -> bool {
        if self.gone_roles.lock().contains(&role) {
            return true;
        }
        if !self.suspects.lock().is_empty() && self.suspects.lock().contains(&seq) {
            return true;
        }
        let mut slow = self.slow.lock();
        if slow.is_empty() {
            return false;
        }
        let shape = shape(text);
        match slow.get(&shape) {
            Some(since) if since.elapsed() < SLOW_REMEMBERED => true,
            Some(_) => {
                slow.remove(&shape);
                false
            }
            None => false,
        }
    }

    /// Remembers how long a step took alone, for the next of its kind.
    pub(crate) fn remember(&self, text: &str, took: Duration) {
        let mut slow = self.slow.lock();
        if took < SLOW {
            // It was slow because something else was.
            slow.remove(&shape(text));
            return;
        }
        if slow.len() >= REMEMBERED_MAX {
            slow.clear();
        }
        slow.insert(shape(text), clock::now());
    }

    /// A turn with these instances failed as a whole: their next steps run alone, where a failure is theirs only.
    pub(crate) fn suspect(&self, seqs: &[i64]) {
        let mut suspects = self.suspects.lock();
        if suspects.len() + seqs.len() > REMEMBERED_MAX {
            suspects.clear();
        }
        suspects.extend(seqs);
    }

    /// A role has been dropped: what its steps want cannot be had.
    pub(crate) fn without_role(&self, role: u32) {
        self.gone_roles.lock().insert(role);
    }

    /// Tells the other tasks what a turn has led to.
    pub(crate) fn note(&self, report: &Report) {
        add(&self.metrics.claimed_total, report.claimed);
        add(&self.metrics.ended_total, report.ended);
        if report.activities {
            self.activities.notify_one();
        }
        if report.mail {
            self.turns.notify_one();
        }
        self.due(report.next_due);
    }

    pub(crate) fn clear_suspect(&self, seq: i64) {
        self.suspects.lock().remove(&seq);
    }

    pub(crate) fn started(&self, seq: i64, cell: &str, running: Running) {
        self.running.lock().insert((seq, cell.to_owned()), running);
    }

    pub(crate) fn ended(&self, seq: i64, cell: &str) {
        self.running.lock().remove(&(seq, cell.to_owned()));
    }

    /// Stops an activity if it runs here.
    pub(crate) fn stop(&self, seq: i64, cell: &Cell) {
        self.stop_where(|(of, at)| *of == seq && at == cell.as_str());
    }

    /// Stops the activities whose place satisfies `which`.
    pub(crate) fn stop_where(&self, which: impl Fn(&(i64, String)) -> bool) {
        let running: Vec<Running> = self
            .running
            .lock()
            .iter()
            .filter(|(place, _)| which(place))
            .map(|(_, running)| running.clone())
            .collect();
        for running in running {
            let tls = self.target.tls();
            tokio::spawn(async move {
                if let (Some(token), Ok(tls)) = (running.cancel, tls) {
                    // A failure means that the server is gone, and then so is the statement.
                    let _ = tokio::time::timeout(CANCEL_GRACE, token.cancel_query(tls)).await;
                    tokio::time::sleep(CANCEL_GRACE).await;
                }
                running.stop.notify_one();
            });
        }
    }

    /// A timer is due then.
    pub(crate) fn due(&self, at: Option<jiff::Timestamp>) {
        let Some(at) = at else { return };
        let mut next = self.next_due.lock();
        if next.is_none_or(|known| at < known) {
            *next = Some(at);
            drop(next);
            self.timers.notify_one();
        }
    }
}

/// A text without its literals, hashed: two calls of `pg_sleep` with different times are alike.
fn shape(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    let mut quoted = false;
    for character in text.chars() {
        if character == '\'' {
            quoted = !quoted;
        } else if !quoted && !character.is_ascii_digit() {
            character.hash(&mut hasher);
        }
    }
    hasher.finish()
}
