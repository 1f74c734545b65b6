//! How many leases the machine can bear.

use crate::{environment::Environment, shared::Shared};
use duramen_postgres::{memory_available, memory_total, volume};
use std::sync::PoisonError;

/// However large the machine is: this stops a runaway caller.
const LEASES_MAX: usize = 5000;
/// What an idle leased branch takes of the memory, and a little more.
const LEASE_MEMORY: u64 = 8 << 20;
/// No lease is given when less memory than this is available: a part of the machine's, between the bounds.
const MEMORY_PART: u64 = 16;
const MEMORY_KEPT_MIN: u64 = 256 << 20;
const MEMORY_KEPT_MAX: u64 = 1 << 30;
/// No lease is given when branches can write less than this: a segment of the log.
const LEASE_DISK: u64 = 16 << 20;
/// Snapshots that nobody asked for are kept while branches may write at least this part of the volume store.
const SPARE_PART: u64 = 8;

/// What the machine has for leases at a moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Capacity {
    /// How many leases it bears in all.
    pub(crate) leases: usize,
    /// Bytes of memory that are kept free of leases.
    memory_kept: u64,
    /// Why it bears no other one right now.
    pub(crate) shortage: Option<Shortage>,
}

impl Capacity {
    /// What this machine has. Read once, because creates wait for what is read again.
    pub(crate) fn of_machine() -> Capacity {
        let total = memory_total();
        let fitting = total.map_or(u64::MAX, |total| total / LEASE_MEMORY);
        Capacity {
            leases: usize::try_from(fitting).unwrap_or(usize::MAX).clamp(1, LEASES_MAX),
            memory_kept: total
                .map_or(0, |total| (total / MEMORY_PART).clamp(MEMORY_KEPT_MIN, MEMORY_KEPT_MAX)),
            shortage: None,
        }
    }
}

/// What there is too little of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Shortage {
    #[error("{} MiB of memory are available, and {} MiB are kept free: destroy branches, keep fewer ready (`duramen source settings NAME --hot N`), or give the machine more", available >> 20, kept >> 20)]
    Memory { available: u64, kept: u64 },
    #[error("branches can write {} MiB to the volume store, and a new one needs {}: destroy branches, remove unused sources, or begin anew with a larger volume store (`duramen purge`, `duramen serve --volume-size`)", room >> 20, LEASE_DISK >> 20)]
    Disk { room: u64 },
}

/// Bytes that branches may still write to the volume store.
pub(crate) fn room(environment: &Environment) -> Option<u64> {
    let store = &environment.store;
    store.quotas().ok().and_then(volume::Quotas::room).or_else(|| store.free_bytes().ok())
}

fn shortage(environment: &Environment, kept: u64) -> Option<Shortage> {
    if let Some(available) = memory_available().filter(|available| *available < kept) {
        return Some(Shortage::Memory { available, kept });
    }
    let room = room(environment)?;
    (room < LEASE_DISK).then_some(Shortage::Disk { room })
}

impl Shared {
    /// Checks how much room the machine has left for leases.
    pub(crate) fn measure_capacity(&self) {
        let found = shortage(&self.environment, self.capacity().memory_kept);
        self.capacity.lock().unwrap_or_else(PoisonError::into_inner).shortage = found;
    }

    /// Whether the volume store has so little room that nothing is kept in it which nobody asked for (L10).
    pub(crate) fn is_short_of_room(&self) -> bool {
        let least = self.environment.store.total_bytes() / SPARE_PART;
        room(&self.environment).is_none_or(|room| room < least)
    }

    pub(crate) fn capacity(&self) -> Capacity {
        self.capacity.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
