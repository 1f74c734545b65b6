//! Leases that agents hold: each ends soon after its last use, because agents forget their branches.

use duramen_api::model::BranchView;
use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// How long a branch lasts after its last use unless the agent says otherwise, in seconds.
pub(super) const TTL_S: i64 = 900;
/// Branches that are remembered. Beyond them the one that was used least lately is forgotten, and ends at its time.
const BRANCHES_MAX: usize = 1024;

/// The leases that are renewed by use (M4).
#[derive(Debug, Default)]
pub(super) struct Renewals(Mutex<HashMap<String, Lease>>);

#[derive(Debug, Clone)]
struct Lease {
    /// The branch: its name may be somebody else's later.
    id: String,
    ttl_s: i64,
    renewed: Instant,
}

impl Renewals {
    /// Remembers that a branch lasts so long after each use.
    pub(super) fn note(&self, branch: &BranchView, ttl_s: i64, now: Instant) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= BRANCHES_MAX && !all.contains_key(&branch.name) {
            let first = all.iter().min_by_key(|(_, lease)| lease.renewed).map(|(name, _)| name.clone());
            first.and_then(|first| all.remove(&first));
        }
        all.insert(branch.name.clone(), Lease { id: branch.id.clone(), ttl_s, renewed: now });
    }

    /// The id and the new lease, in seconds, of a branch that was used and has to be renewed: a third of its time is over.
    pub(super) fn due(&self, name: &str, now: Instant) -> Option<(String, i64)> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let lease = all.get_mut(name)?;
        let third = Duration::from_secs(lease.ttl_s.unsigned_abs()) / 3;
        if now.saturating_duration_since(lease.renewed) < third {
            return None;
        }
        lease.renewed = now;
        Some((lease.id.clone(), lease.ttl_s))
    }

    /// Forgets a branch that has ended.
    pub(super) fn forget(&self, name: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
    }
}

#[cfg(test)]
#[path = "../tests/unit/renewals.rs"]
mod tests;
