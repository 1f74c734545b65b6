//! How much memory the results of instances take in a worker. It is reserved here before anything is read from the database.
//!
//! A state is held several times over while it is read, advanced and written: as the row, as what was read of it, as the text
//! that is written, as the message to the server. All of these are counted.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError};

/// How many times a state is held while it is read and written.
const COPIES: usize = 5;
/// Anything smaller is negligible and not counted.
const SMALL: usize = 64 << 10;
/// The unit of the accounts.
const UNIT: usize = 1 << 10;
/// Which part of the memory the states of one turn have as text. There are two lanes of turns, each with its copies.
const OF_A_TURN: usize = 32;

/// The memory for results.
pub(crate) struct Memory {
    total: usize,
    /// For steps outside of turns: five eighths of all; the rest is for turns, and for results on their way in.
    all: Arc<Semaphore>,
    all_units: usize,
    roles: Mutex<HashMap<u32, Arc<Semaphore>>>,
}

/// Memory that somebody has, until this is dropped.
pub(crate) struct Reserved {
    _of_role: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

impl Memory {
    pub(crate) fn new(total: usize) -> Self {
        let total = total.max(super::MEMORY_MIN);
        // A semaphore cannot count any further, and no machine has that much.
        let all_units = (total / 8 * 5 / UNIT).min(u32::MAX as usize >> 4);
        Self { total, all: Arc::new(Semaphore::new(all_units)), all_units, roles: Mutex::default() }
    }

    /// How many bytes of states, and of new results, one turn may have as text.
    pub(crate) fn of_a_turn(&self) -> i64 {
        i64::try_from(self.total / OF_A_TURN).unwrap_or(i64::MAX)
    }

    /// What a role needs for a state of this size, and where from: one role has half of the memory at the most. `None`: it is so
    /// small that it does not count.
    fn wanted(&self, role: u32, bytes: usize) -> Option<(u32, Arc<Semaphore>)> {
        if bytes < SMALL {
            return None;
        }
        let of_role = self.all_units / 2;
        let wanted = (bytes.saturating_mul(COPIES) / UNIT).min(of_role);
        // It fits: it is at most half of what fits.
        let units = u32::try_from(wanted).unwrap_or(u32::MAX);
        let mut roles = self.roles.lock();
        Some((units, Arc::clone(roles.entry(role).or_insert_with(|| Arc::new(Semaphore::new(of_role))))))
    }

    /// Reserves room for a state of this size if there is any now. A small state needs none.
    pub(crate) fn reserve_now(&self, role: u32, bytes: usize) -> Result<Option<Reserved>, TryAcquireError> {
        let Some((units, role)) = self.wanted(role, bytes) else { return Ok(None) };
        let of_role = role.try_acquire_many_owned(units)?;
        let of_all = Arc::clone(&self.all).try_acquire_many_owned(units)?;
        Ok(Some(Reserved { _of_role: of_role, _of_all: of_all }))
    }

    /// Waits until a role may have a state of this size.
    pub(crate) async fn reserve(&self, role: u32, bytes: usize) -> Option<Reserved> {
        let (units, role) = self.wanted(role, bytes)?;
        let (Ok(of_role), Ok(of_all)) =
            (role.acquire_many_owned(units).await, Arc::clone(&self.all).acquire_many_owned(units).await)
        else {
            unreachable!("the semaphores are never closed")
        };
        Some(Reserved { _of_role: of_role, _of_all: of_all })
    }
}
