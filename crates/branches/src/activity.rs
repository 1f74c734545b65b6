//! When requests run, and when there is work for the maintenance thread.

use duramen_base::clock;
use std::{
    sync::{
        atomic::{AtomicU64, AtomicUsize, Ordering},
        Condvar, Mutex, PoisonError,
    },
    time::{Duration, Instant},
};

/// Tells when the last request ended.
#[derive(Debug)]
pub(crate) struct Activity {
    epoch: Instant,
    running: AtomicUsize,
    last_end_us: AtomicU64,
}

impl Activity {
    pub(crate) fn new() -> Activity {
        Activity { epoch: clock::now(), running: AtomicUsize::new(0), last_end_us: 0.into() }
    }

    /// Marks a request as running until the guard is dropped.
    pub(crate) fn enter(&self) -> ActivityGuard<'_> {
        self.running.fetch_add(1, Ordering::Relaxed);
        ActivityGuard(self)
    }

    pub(crate) fn quiet_for(&self) -> Duration {
        if self.running.load(Ordering::Relaxed) > 0 {
            return Duration::ZERO;
        }
        let last = Duration::from_micros(self.last_end_us.load(Ordering::Relaxed));
        self.epoch.elapsed().saturating_sub(last)
    }
}

/// A running request.
#[derive(Debug)]
pub(crate) struct ActivityGuard<'a>(&'a Activity);

impl Drop for ActivityGuard<'_> {
    fn drop(&mut self) {
        let now = u64::try_from(self.0.epoch.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.0.last_end_us.store(now, Ordering::Relaxed);
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Wakes the maintenance thread.
#[derive(Debug, Default)]
pub(crate) struct Wake {
    asked: Mutex<bool>,
    changed: Condvar,
}

impl Wake {
    pub(crate) fn wake(&self) {
        *self.asked.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_one();
    }

    pub(crate) fn wait(&self, limit: Duration) {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut asked, _) = self
            .changed
            .wait_timeout_while(asked, limit, |asked| !*asked)
            .unwrap_or_else(PoisonError::into_inner);
        *asked = false;
    }
}
