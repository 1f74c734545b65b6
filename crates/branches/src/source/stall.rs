//! How long the reading of an origin may stand still. However long it takes in all, it goes on while something comes; what
//! brings nothing for that long is given up, and says where it was.

use crate::error::{EngineError, Kind};
use duramen_base::clock;
use std::{
    future::Future,
    pin::pin,
    sync::{
        atomic::{AtomicU64, Ordering},
        Arc,
    },
    time::Duration,
};

/// How long, unless the engine is opened with another limit. Reading a catalogue with very many definitions, and a
/// checkpoint of the origin before it is copied, take minutes in which nothing comes.
pub(crate) const STALL_LIMIT: Duration = Duration::from_secs(600);
/// How often it is told how far the reading is, and looked whether something came; and how often in the limit at least.
const LOOK_EVERY: Duration = Duration::from_secs(2);
const LOOKS: u32 = 8;

/// Counts what comes, in bytes, and one for each answer that is complete.
#[derive(Debug, Clone, Default)]
pub(crate) struct Moves(Arc<AtomicU64>);

impl Moves {
    pub(crate) fn note(&self, bytes: usize) {
        self.0.fetch_add(bytes as u64 + 1, Ordering::Relaxed);
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Does what reads an origin, while something comes; `what` says where it is, and `tell` is called every now and then.
///
/// # Errors
/// Those of the work, and `source_slow`.
pub(crate) async fn while_it_moves<T>(
    what: impl Fn() -> String,
    limit: Duration,
    moves: &Moves,
    tell: impl Fn(),
    work: impl Future<Output = Result<T, EngineError>>,
) -> Result<T, EngineError> {
    let mut work = pin!(work);
    let mut still = Still::new(limit);
    loop {
        match tokio::time::timeout(LOOK_EVERY.min(limit / LOOKS), &mut work).await {
            Ok(done) => return done,
            Err(_) => {
                tell();
                still.look(moves.count(), &what)?;
            }
        }
    }
}

/// For how long something has not changed.
#[derive(Debug)]
pub(crate) struct Still {
    limit: Duration,
    last: Option<u64>,
    since: std::time::Instant,
}

impl Still {
    pub(crate) fn new(limit: Duration) -> Still {
        Still { limit, last: None, since: clock::now() }
    }

    /// Takes note of what it is now.
    ///
    /// # Errors
    /// `source_slow`, when it has been the same for too long.
    pub(crate) fn look(&mut self, now: u64, what: impl Fn() -> String) -> Result<(), EngineError> {
        if self.last != Some(now) {
            self.last = Some(now);
            self.since = clock::now();
        } else if self.since.elapsed() >= self.limit {
            return Err(slow(&what(), self.limit));
        }
        Ok(())
    }
}

pub(crate) fn slow(what: &str, limit: Duration) -> EngineError {
    let message = format!(
        "the source's server sent nothing for {} s while {what}; look what it waits for (pg_stat_activity, locks, its disk, \
         the network), and try again",
        limit.as_secs()
    );
    EngineError::new(Kind::Timeout, "source_slow", message)
}
