//! Whether a worker is well: when it last heard from the database, and whether it still moves.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use duramen_base::clock;

/// A connection that is lost may be missing for so long: servers restart.
const LOST_MAX: Duration = Duration::from_secs(5);
/// How long a worker may have heard nothing at all. After as long others take it for dead.
const SILENT_MAX: Duration = Duration::from_secs(20);
/// How long the task that keeps the worker alive may take for one round. Its longest waits, for an answer to a heartbeat and
/// for a connection, have limits far below.
const STILL_MAX: Duration = Duration::from_secs(60);

/// Why a worker is not well. It says nothing of the database, because whoever can reach the port reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unhealthy {
    /// There is no connection, and none can be made.
    #[error("the connection to the database is lost, and the last answer is {0} s old")]
    Lost(u64),
    /// The connection stands, and says nothing.
    #[error("the database has not answered for {0} s")]
    Silent(u64),
    /// The worker itself hangs.
    #[error("the worker has not moved for {0} s")]
    Still(u64),
}

/// What is known of the worker's state. Times are milliseconds since it began.
#[derive(Debug)]
pub(crate) struct Health {
    began: Instant,
    heard_ms: AtomicU64,
    moved_ms: AtomicU64,
    lost: AtomicBool,
}

impl Health {
    pub(crate) fn new() -> Self {
        Self {
            began: clock::now(),
            heard_ms: AtomicU64::new(0),
            moved_ms: AtomicU64::new(0),
            lost: AtomicBool::new(false),
        }
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn since(&self, then_ms: &AtomicU64) -> Duration {
        Duration::from_millis(self.now_ms().saturating_sub(then_ms.load(Ordering::Relaxed)))
    }

    /// The database has answered.
    pub(crate) fn hears(&self) {
        self.heard_ms.store(self.now_ms(), Ordering::Relaxed);
        self.lost.store(false, Ordering::Relaxed);
    }

    /// The connection that hears is lost.
    pub(crate) fn loses(&self) {
        self.lost.store(true, Ordering::Relaxed);
    }

    /// The task that keeps the worker alive goes on.
    pub(crate) fn moves(&self) {
        self.moved_ms.store(self.now_ms(), Ordering::Relaxed);
    }

    /// How long ago the database has answered.
    pub(crate) fn heard(&self) -> Duration {
        self.since(&self.heard_ms)
    }

    /// Whether the database answers.
    pub(crate) fn check(&self) -> Result<(), Unhealthy> {
        let heard = self.heard();
        if self.lost.load(Ordering::Relaxed) && heard > LOST_MAX {
            return Err(Unhealthy::Lost(heard.as_secs()));
        }
        if heard > SILENT_MAX {
            return Err(Unhealthy::Silent(heard.as_secs()));
        }
        Ok(())
    }

    /// Whether the worker itself goes on, whatever the database does.
    pub(crate) fn check_motion(&self) -> Result<(), Unhealthy> {
        let still = self.since(&self.moved_ms);
        if still > STILL_MAX {
            return Err(Unhealthy::Still(still.as_secs()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
