//! What the maintenance thread takes out of the pools and puts into them.

use super::{count, ColdClone, Deficit, Registry, Retired};
use crate::{
    branch::Branch,
    error::EngineError,
    generation::Generation,
    model::{Policy, RefillReport},
};
use std::sync::Arc;

/// How many refills are remembered for the status.
const REPORTS_MAX: usize = 64;

/// What there is to do.
#[derive(Debug)]
pub(crate) struct Work {
    /// Pools with waiting creates first.
    pub(crate) deficits: Vec<Deficit>,
    /// Clones that are missing at the cold level, by source.
    pub(crate) cold: Vec<(Arc<Generation>, u32)>,
    /// How many branches and clones have to be deleted.
    pub(crate) retired: usize,
}

impl Registry {
    pub(crate) fn work(&self) -> Work {
        let state = self.state();
        let pools = &state.pools;
        Work {
            deficits: pools.deficits(),
            cold: pools.cold_deficit(),
            retired: pools.retired.len() + pools.retired_clones.len() + pools.retired_volumes.len(),
        }
    }

    /// Takes branches out of the pools whose servers have ended, or are held by a signal, so that others are made.
    pub(crate) fn retire_unfit(&self) {
        self.state().pools.retire_unfit();
    }

    /// Whether a create waits for a branch.
    pub(crate) fn has_waiters(&self) -> bool {
        self.state().pools.pools.values().any(|pool| !pool.waiters.is_empty())
    }

    /// The current generation of a source, with at most `wanted` of its cold clones. `None`: there is no such source.
    pub(crate) fn take_cold(&self, source: &str, wanted: usize) -> Option<(Arc<Generation>, Vec<String>)> {
        let mut state = self.state();
        let generation = state.pools.generations.get(source).cloned()?;
        let clones = std::iter::from_fn(|| state.pools.take_cold(&generation)).take(wanted).collect();
        Some((generation, clones))
    }

    /// Keeps clones that were made while `losses` times writes had been lost.
    pub(crate) fn put_cold(&self, generation: &Arc<Generation>, volumes: Vec<String>, losses: u64) {
        let mut state = self.state();
        let clones =
            volumes.into_iter().map(|volume| ColdClone { generation: Arc::clone(generation), volume });
        if state.pools.losses == losses {
            state.pools.cold.entry(generation.source.clone()).or_default().extend(clones);
        } else {
            state.pools.retired_clones.extend(clones);
        }
    }

    /// Gives a hot branch to the create that waits longest, else to its pool; one that is no longer current is retired.
    pub(crate) fn offer(&self, branch: Arc<Branch>) {
        self.state().pools.offer(branch);
    }

    /// Has a branch that was taken out of its pool, or never got there, deleted.
    pub(crate) fn discard(&self, branch: Arc<Branch>) {
        self.state().pools.retired.push_back(Retired::whole(branch));
    }

    /// Notes what a refill did. After a failure whoever waits is refused now rather than at their deadline.
    pub(crate) fn note_refill(
        &self,
        source: &str,
        policy: Policy,
        mut report: RefillReport,
        failure: Option<&EngineError>,
    ) {
        let mut state = self.state();
        let pools = &mut state.pools;
        if let Some(error) = failure {
            report.first_error = Some(error.message.clone());
            if let Policy::Role(_) = policy {
                let key = (source.to_owned(), policy);
                pools.fail_waiters_of(&key);
                pools.broken_roles.insert(key, error.message.clone());
            } else {
                pools.broken.insert(source.to_owned(), error.message.clone());
                pools.fail_waiters(source);
            }
        } else {
            pools.broken.remove(source);
            pools.broken_roles.remove(&(source.to_owned(), policy));
        }
        state.reports.push_back(report);
        while state.reports.len() > REPORTS_MAX {
            state.reports.pop_front();
        }
    }

    /// Notes why a source's pool cannot be filled.
    pub(crate) fn mark_broken(&self, source: &str, reason: String) {
        self.state().pools.broken.insert(source.to_owned(), reason);
    }

    /// Has pools tried again that could not be filled.
    pub(crate) fn clear_broken(&self) {
        let pools = &mut self.state().pools;
        pools.broken.clear();
        pools.broken_roles.clear();
    }

    /// At most `limit` retired branches, and the volumes of all retired clones and snapshots, to be deleted; and whether no branch
    /// is left. They count as there until [`Registry::reaped`].
    pub(crate) fn take_retired(&self, limit: usize) -> (Vec<Retired>, Vec<String>, bool) {
        let mut state = self.state();
        let number = state.pools.retired.len().min(limit);
        let branches: Vec<Retired> = state.pools.retired.drain(..number).collect();
        let clones: Vec<ColdClone> = state.pools.retired_clones.drain(..).collect();
        let volumes = clones.into_iter().map(|clone| clone.volume);
        let volumes = volumes.chain(state.pools.retired_volumes.drain(..)).collect();
        state.pools.reaping = branches.len().max(1);
        (branches, volumes, state.pools.retired.is_empty())
    }

    /// What was taken by [`Registry::take_retired`] is gone.
    pub(crate) fn reaped(&self) {
        self.state().pools.reaping = 0;
    }

    /// Idle hot branches of a source, at most `limit`.
    pub(crate) fn idle_branches(&self, source: &str, limit: u32) -> Vec<Arc<Branch>> {
        let state = self.state();
        let ready = state.pools.pools.iter().filter(|(key, _)| key.0 == source);
        ready.flat_map(|(_, pool)| pool.hot.iter().cloned()).take(limit as usize).collect()
    }
}

/// Writes down that so many of a batch could not be made.
pub(crate) fn counted(report: &mut RefillReport, wanted: usize, failed: usize) {
    report.failed = count(failed);
    report.branches = count(wanted.saturating_sub(failed));
}
