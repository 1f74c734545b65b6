//! What the standard library has on every system, in the place of what only Linux has.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

/// A number that threads sleep on until it changes.
#[derive(Debug, Default)]
pub struct Futex {
    number: AtomicU32,
    lock: Mutex<()>,
    changed: Condvar,
}

impl Futex {
    /// Every sleeper.
    pub const ALL: u32 = i32::MAX as u32;

    /// The number.
    pub fn load(&self) -> u32 {
        self.number.load(Ordering::SeqCst)
    }

    /// Changes the number. It wakes nobody.
    pub fn increment(&self) {
        self.number.fetch_add(1, Ordering::SeqCst);
    }

    /// Sleeps while the number is `expected`. May return earlier.
    pub fn wait(&self, expected: u32) {
        let guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever changes it after this has to wait for the lock before he wakes anybody.
        if self.load() == expected {
            drop(self.changed.wait(guard));
        }
    }

    /// Wakes about `count` of those that sleep, or all.
    pub fn wake(&self, count: u32) {
        let _guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        match count {
            0 => {}
            1 => self.changed.notify_one(),
            _ => self.changed.notify_all(),
        }
    }
}

/// Nothing is begun: a sync does it all.
#[cfg(not(target_os = "linux"))]
pub(super) fn write_back(_file: &std::fs::File, _from: u64, _len: u64, _finish: bool) -> std::io::Result<()> {
    Ok(())
}

#[cfg(not(target_os = "linux"))]
pub(super) fn memory_bytes() -> Option<u64> {
    None
}
