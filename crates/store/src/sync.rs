//! The primitives of the files whose interleavings a model checker goes through: group commit and reclamation. Its test
//! compiles those very files with its own primitives in the place of these.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
pub(crate) use std::sync::Arc;
pub(crate) use std::thread::yield_now;

pub(crate) use duramen_base::clock;
pub(crate) use duramen_base::system::Futex;
pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard};
