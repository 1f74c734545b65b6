//! Locks with a rank. A thread takes them in the order of their ranks only, so that no two threads wait for each other.
//!
//! | rank | lock | whoever holds it |
//! | --- | --- | --- |
//! | [`CHECKPOINT`] | [`Engine::lock_checkpoints`](crate::engine::Engine::lock_checkpoints) | makes a checkpoint, or stores nodes in another way |
//! | [`WRITER`] | [`Engine::lock_writer`](crate::engine::Engine::lock_writer) | commits |
//! | [`REGISTRY`] | [`Engine::registry`](crate::engine::Engine::registry) | finds branches, or changes which there are |
//! | [`META`] | [`BranchState::meta`](crate::branch_state::BranchState::meta) | reads or changes what is known of a branch |
//! | [`TREE`] | [`BranchState::tree`](crate::branch_state::BranchState::tree) | reads or changes the tree of a branch |
//!
//! Only the locks of branches may be held several at a time. What changes under a lock of a higher rank asks for proof
//! that the writer's is held, as a `&Writer`. A build with debug assertions panics before it waits in a wrong order; in
//! others a rank costs nothing. A lock that is taken with a time limit cannot end in a deadlock, so it may be asked for
//! in any order: a program's callback may ask for a checkpoint while one is made, and is refused.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

pub(crate) const CHECKPOINT: usize = 0;
pub(crate) const WRITER: usize = 1;
pub(crate) const REGISTRY: usize = 2;
pub(crate) const META: usize = 3;
pub(crate) const TREE: usize = 4;

#[cfg(debug_assertions)]
mod held {
    use std::cell::RefCell;

    const NAMES: [&str; 5] = ["checkpoint", "writer", "registry", "meta", "tree"];

    thread_local! {
        /// How many locks of each rank this thread holds.
        static HELD: RefCell<[u32; NAMES.len()]> = const { RefCell::new([0; NAMES.len()]) };
    }

    pub(super) fn check(rank: usize) {
        let first = if rank >= super::META { rank + 1 } else { rank };
        let higher = HELD.with_borrow(|held| (first..NAMES.len()).find(|other| held[*other] > 0));
        if let Some(higher) = higher {
            panic!("lock order: {} is asked for while {} is held", NAMES[rank], NAMES[higher]);
        }
    }

    pub(super) fn add(rank: usize) {
        HELD.with_borrow_mut(|held| held[rank] += 1);
    }

    pub(super) fn remove(rank: usize) {
        HELD.with_borrow_mut(|held| held[rank] -= 1);
    }
}

#[cfg(not(debug_assertions))]
mod held {
    pub(super) fn check(_rank: usize) {}
    pub(super) fn add(_rank: usize) {}
    pub(super) fn remove(_rank: usize) {}
}

/// Says that this thread holds a lock of a rank, until it is dropped.
struct Held<const RANK: usize>(PhantomData<*const ()>);

impl<const RANK: usize> Held<RANK> {
    #[inline]
    fn new() -> Self {
        held::add(RANK);
        Self(PhantomData)
    }
}

impl<const RANK: usize> Drop for Held<RANK> {
    #[inline]
    fn drop(&mut self) {
        held::remove(RANK);
    }
}

/// A lock that is held: it is given back when this is dropped.
pub(crate) struct Guard<G, const RANK: usize> {
    guard: G,
    _held: Held<RANK>,
}

impl<G: Deref, const RANK: usize> Deref for Guard<G, RANK> {
    type Target = G::Target;

    #[inline]
    fn deref(&self) -> &G::Target {
        &self.guard
    }
}

impl<G: DerefMut, const RANK: usize> DerefMut for Guard<G, RANK> {
    #[inline]
    fn deref_mut(&mut self) -> &mut G::Target {
        &mut self.guard
    }
}

pub(crate) type MutexGuard<'l, T, const RANK: usize> = Guard<parking_lot::MutexGuard<'l, T>, RANK>;
pub(crate) type ReadGuard<'l, T, const RANK: usize> = Guard<parking_lot::RwLockReadGuard<'l, T>, RANK>;
pub(crate) type WriteGuard<'l, T, const RANK: usize> = Guard<parking_lot::RwLockWriteGuard<'l, T>, RANK>;

pub(crate) struct Mutex<T, const RANK: usize>(parking_lot::Mutex<T>);

impl<T, const RANK: usize> Mutex<T, RANK> {
    pub(crate) fn new(value: T) -> Self {
        Self(parking_lot::Mutex::new(value))
    }

    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T, RANK> {
        held::check(RANK);
        Guard { guard: self.0.lock(), _held: Held::new() }
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T, RANK>> {
        self.0.try_lock().map(|guard| Guard { guard, _held: Held::new() })
    }

    pub(crate) fn try_lock_for(&self, limit: Duration) -> Option<MutexGuard<'_, T, RANK>> {
        self.0.try_lock_for(limit).map(|guard| Guard { guard, _held: Held::new() })
    }
}

pub(crate) struct RwLock<T, const RANK: usize>(parking_lot::RwLock<T>);

impl<T, const RANK: usize> RwLock<T, RANK> {
    pub(crate) fn new(value: T) -> Self {
        Self(parking_lot::RwLock::new(value))
    }

    #[inline]
    pub(crate) fn read(&self) -> ReadGuard<'_, T, RANK> {
        held::check(RANK);
        Guard { guard: self.0.read(), _held: Held::new() }
    }

    #[inline]
    pub(crate) fn write(&self) -> WriteGuard<'_, T, RANK> {
        held::check(RANK);
        Guard { guard: self.0.write(), _held: Held::new() }
    }
}

impl<'l, T, const RANK: usize> WriteGuard<'l, T, RANK> {
    /// Lets others read, too, without a moment in which somebody else could write.
    pub(crate) fn downgrade(self) -> ReadGuard<'l, T, RANK> {
        Guard { guard: parking_lot::RwLockWriteGuard::downgrade(self.guard), _held: self._held }
    }
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::*;

    #[test]
    fn locks_are_taken_in_the_order_of_their_ranks() {
        let (writer, registry) = (Mutex::<(), WRITER>::new(()), RwLock::<(), REGISTRY>::new(()));
        let (one, other) = (Mutex::<(), META>::new(()), Mutex::<(), META>::new(()));
        let first = writer.lock();
        let _rest = (registry.read(), one.lock(), other.lock());
        drop(first);
    }

    #[test]
    #[should_panic(expected = "lock order: writer is asked for while registry is held")]
    fn a_wrong_order_panics() {
        let (writer, registry) = (Mutex::<(), WRITER>::new(()), RwLock::<(), REGISTRY>::new(()));
        let _held = registry.write().downgrade();
        let _never = writer.lock();
    }

    #[test]
    #[should_panic(expected = "lock order: registry is asked for while registry is held")]
    fn the_registry_is_not_taken_twice() {
        let registry = RwLock::<(), REGISTRY>::new(());
        let _held = registry.read();
        let _never = registry.read();
    }

    #[test]
    fn what_is_asked_for_with_a_limit_may_come_in_any_order() {
        let (checkpoint, writer) = (Mutex::<(), CHECKPOINT>::new(()), Mutex::<(), WRITER>::new(()));
        let _held = writer.lock();
        assert!(checkpoint.try_lock().is_some());
        let _held = checkpoint.try_lock_for(Duration::ZERO).unwrap();
        assert!(checkpoint.try_lock_for(Duration::ZERO).is_none());
    }
}
