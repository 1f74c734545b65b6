//! The primitives of `src/sync.rs`, of a checker that chooses which thread goes on at each of their calls.

pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
pub(crate) use shuttle::thread::yield_now;
// Its counts need no choice: whoever looks at one does so beside a lock.
pub(crate) use std::sync::Arc;

use std::ops::{Deref, DerefMut};

use shuttle::rand::Rng;
use shuttle::sync as checked;

/// A clock that goes on at each look, so that one order of threads is one run.
pub(crate) mod clock {
    use std::cell::Cell;
    use std::time::Duration;

    const STEP: Duration = Duration::from_micros(50);

    thread_local! {
        static NOW: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    }

    fn tick() -> Duration {
        NOW.with(|now| {
            now.set(now.get() + STEP);
            now.get()
        })
    }

    pub(crate) struct Instant(Duration);

    impl Instant {
        pub(crate) fn elapsed(&self) -> Duration {
            tick() - self.0
        }
    }

    pub(crate) fn now() -> Instant {
        Instant(tick())
    }
}

#[derive(Default)]
pub(crate) struct Mutex<T>(checked::Mutex<T>);

/// The guard is always there but while a condition is waited for.
pub(crate) struct MutexGuard<'l, T>(Option<checked::MutexGuard<'l, T>>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(checked::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard(Some(self.0.lock().unwrap()))
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock().ok().map(|guard| MutexGuard(Some(guard)))
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().unwrap()
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().unwrap()
    }
}

#[derive(Default)]
pub(crate) struct Condvar(checked::Condvar);

impl Condvar {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let held = guard.0.take().unwrap();
        guard.0 = Some(self.0.wait(held).unwrap());
    }

    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// As the kernel has it: whether the number is still the one that is expected, and falling asleep, are one step.
#[derive(Default)]
pub(crate) struct Futex {
    number: AtomicU32,
    bed: checked::Mutex<()>,
    wake: checked::Condvar,
}

impl Futex {
    pub(crate) const ALL: u32 = i32::MAX as u32;

    pub(crate) fn load(&self) -> u32 {
        self.number.load(Ordering::SeqCst)
    }

    pub(crate) fn increment(&self) {
        self.number.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn wait(&self, expected: u32) {
        let bed = self.bed.lock().unwrap();
        // Now and then a signal comes.
        if self.load() == expected && !shuttle::rand::thread_rng().gen_bool(0.05) {
            drop(self.wake.wait(bed).unwrap());
        }
    }

    pub(crate) fn wake(&self, count: u32) {
        let _bed = self.bed.lock().unwrap();
        if count == Self::ALL {
            self.wake.notify_all();
        } else {
            (0..count).for_each(|_| self.wake.notify_one());
        }
    }
}
