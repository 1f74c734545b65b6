//! The primitives of the files whose interleavings a model checker goes through: group commit and reclamation. Its test
//! compiles those very files with its own primitives in the place of these.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
pub(crate) use std::sync::Arc;
pub(crate) use std::thread::yield_now;

pub(crate) use duramen_base::clock;
pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard};

use rustix::thread::futex;

/// A number that threads sleep on until it changes.
#[derive(Default)]
pub(crate) struct Futex(AtomicU32);

impl Futex {
    /// Every sleeper: the kernel takes the count as a signed number.
    pub(crate) const ALL: u32 = i32::MAX as u32;

    pub(crate) fn load(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }

    pub(crate) fn increment(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    /// Sleeps while the number is `expected`. May return earlier.
    pub(crate) fn wait(&self, expected: u32) {
        // An error means that the number has changed, or that a signal came: the caller rechecks in any case.
        futex::wait(&self.0, futex::Flags::PRIVATE, expected, None).ok();
    }

    /// Wakes at most `count` of those that sleep.
    pub(crate) fn wake(&self, count: u32) {
        // It fails for an address that is none only.
        futex::wake(&self.0, futex::Flags::PRIVATE, count).ok();
    }
}
