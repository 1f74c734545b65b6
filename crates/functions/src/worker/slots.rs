//! The places that a worker has for steps outside of turns, and who has them: every role its share.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// For every so many places there is one more, for roles that run nothing.
const SPARE_OF: usize = 4;

/// Counts places by role. It is cheap to clone, and clones count together.
#[derive(Clone, Debug)]
pub(crate) struct Slots {
    places: usize,
    spare: usize,
    per_role: usize,
    busy: Arc<Mutex<HashMap<u32, usize>>>,
}

/// A place that somebody has, until this is dropped.
pub(crate) struct Slot {
    role: u32,
    busy: Arc<Mutex<HashMap<u32, usize>>>,
}

/// How many steps may be taken now, as `df._take` wants to know it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Room {
    /// Places for everybody.
    pub(crate) free: i32,
    /// Places for roles that run nothing.
    pub(crate) spare: i32,
    /// How many one role may have.
    pub(crate) per_role: i32,
    /// The roles that have some, and how many.
    pub(crate) busy: (Vec<u32>, Vec<i32>),
}

impl Slots {
    pub(crate) fn new(places: usize, per_role: Option<usize>) -> Self {
        let spare = places.div_ceil(SPARE_OF);
        Self { places, spare, per_role: per_role.unwrap_or(usize::MAX).max(1), busy: Arc::default() }
    }

    /// How many there are, with the spare ones.
    pub(crate) fn all(&self) -> usize {
        self.places + self.spare
    }

    /// What is left; `None`: nothing.
    pub(crate) fn room(&self) -> Option<Room> {
        let number = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
        let busy = self.busy.lock();
        let taken: usize = busy.values().sum();
        let left = self.all().saturating_sub(taken);
        let free = self.places.saturating_sub(taken);
        (left > 0).then(|| Room {
            free: number(free),
            spare: number(left - free),
            per_role: number(self.per_role),
            busy: busy.iter().map(|(role, count)| (*role, number(*count))).unzip(),
        })
    }

    /// Gives a role a place. What has been taken is run, so this asks for no permission.
    pub(crate) fn take(&self, role: u32) -> Slot {
        *self.busy.lock().entry(role).or_default() += 1;
        Slot { role, busy: Arc::clone(&self.busy) }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut busy = self.busy.lock();
        if let Some(count) = busy.get_mut(&self.role) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                busy.remove(&self.role);
            }
        }
    }
}

#[cfg(test)]
mod tests;
