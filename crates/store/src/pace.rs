//! How fast writers may be: slower while memory is above its budget, and not at all while checkpoints are far behind.
//!
//! A writer that had to wait for a whole checkpoint would wait as long as that takes. So each commit waits a little as soon as there
//! is too much, the longer the more, and what is written meanwhile is as much as can be stored.

use std::time::Duration;

use duramen_base::clock;

use crate::engine::Engine;
use crate::error::StoreError;

/// How long a commit waits for a checkpoint when the log or the memory has grown far beyond their limits.
const THROTTLE_MAX: Duration = Duration::from_secs(30);

/// How long a commit waits where memory is above its budget by [`Engine::room`] or more.
const PAUSE_MOST: Duration = Duration::from_millis(2);

/// A pause below this would last longer than it should.
const PAUSE_LEAST: Duration = Duration::from_micros(50);

/// Commits wait for a checkpoint when the log is longer than this many times what asks for one, or memory above its budget by this
/// many times [`Engine::room`].
const FAR_BEHIND: u64 = 4;

/// A checkpoint is asked for when what only it can make forgettable takes this part of the budget.
const FRESH_PART: usize = 2;

/// By how much memory may be above its budget before commits are slowed down in full: this part of it, and as much at least.
const ROOM_PART: usize = 8;
const ROOM_LEAST: usize = 8 << 20;

/// What an operation of a large commit takes of memory: a leaf that is changed, and its share of the nodes above.
const OPERATION_BYTES: usize = 12 << 10;

/// How long a large commit waits until there is room for it, which there may never be.
const WAY_MAX: Duration = Duration::from_secs(2);

impl Engine {
    /// By how much memory may be above its budget before commits are slowed down in full.
    pub(crate) fn room(&self) -> usize {
        (self.forest().budget() / ROOM_PART).max(ROOM_LEAST)
    }

    /// Whether a checkpoint is due.
    #[inline]
    pub(crate) fn is_checkpoint_due(&self, log_bytes: u64) -> bool {
        log_bytes > self.options().checkpoint_log_bytes
            || self.forest().fresh_bytes() > self.forest().budget() / FRESH_PART
    }

    /// Waits while checkpoints are behind. Whoever is about to write does this before it takes a lock.
    #[inline]
    pub(crate) fn throttle(&self) -> Result<(), StoreError> {
        let Some(log_bytes) = self.log_bytes() else { return Ok(()) };
        let excess = self.forest().excess();
        if excess == 0 && log_bytes <= self.options().checkpoint_log_bytes {
            return Ok(());
        }
        self.slow_down(excess)
    }

    /// As [`throttle`](Self::throttle), for a commit of many operations: all that it changes is in memory at once, so there is to
    /// be room for it, as far as that can be made.
    pub(crate) fn throttle_for(&self, operations: usize) -> Result<(), StoreError> {
        self.throttle()?;
        let most = self.forest().node_budget() / 8 * 7;
        let wanted = operations.saturating_mul(OPERATION_BYTES).min(most);
        let is_short = || self.forest().excess_with(wanted) > self.room();
        if wanted > self.room() && self.log_bytes().is_some() && is_short() {
            let (asked, deadline) = (self.requests().room_of(wanted), clock::now() + WAY_MAX);
            while is_short() && !self.requests().was_made(asked) && clock::now() < deadline {
                self.check_poison()?;
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        Ok(())
    }

    #[cold]
    fn slow_down(&self, excess: usize) -> Result<(), StoreError> {
        if self.is_far_behind() {
            return self.wait_for_checkpoint();
        }
        if excess > 0 {
            self.requests().room();
            let part = (excess as f64 / self.room() as f64).min(1.0);
            let pause = PAUSE_MOST.mul_f64(part);
            if pause >= PAUSE_LEAST {
                std::thread::sleep(pause);
            }
        }
        Ok(())
    }

    pub(crate) fn is_far_behind(&self) -> bool {
        let log_limit = self.options().checkpoint_log_bytes.saturating_mul(FAR_BEHIND);
        let memory_limit = self.room() as u64 * FAR_BEHIND;
        self.log_bytes().is_some_and(|bytes| bytes > log_limit)
            || self.forest().excess() as u64 > memory_limit
    }

    fn wait_for_checkpoint(&self) -> Result<(), StoreError> {
        let deadline = clock::now() + THROTTLE_MAX;
        while self.is_far_behind() {
            self.check_poison()?;
            if clock::now() > deadline {
                let waited_ms = THROTTLE_MAX.as_millis() as u64;
                return Err(StoreError::TimedOut { what: "a checkpoint", waited_ms });
            }
            self.requests().checkpoint();
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }
}
