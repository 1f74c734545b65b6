//! What the daemon holds: leases, sources, and the pools of branches that are ready, under one lock.
//!
//! The lock is taken by the methods of [`Registry`] and nowhere else, for a few lookups at a time: none of them waits,
//! and none runs a program. The lease journal is written under it, so that its lines are in the order of what happened;
//! its own lock is the only one that is ever taken under this one.

mod baseline;
mod generations;
mod leases;
mod pool;
mod refill;
mod snapshots;
mod sources;

pub use leases::HeldName;
pub(crate) use leases::{Doorway, Ended, Given, Grant, Handover, Held, Resetting, Session, Ticket, Wanted};
pub(crate) use pool::{ColdClone, Deficit, PoolKey, Retired};
pub(crate) use refill::{counted, Work};
pub(crate) use snapshots::{ParentOf, Placed, Watched};

use crate::{
    branch::Branch,
    error::EngineError,
    journal::{Journal, LeaseRecord, SnapshotRecord},
    model::{MachineLimits, PoolView, RefillReport, Status, VolumeKind},
    source::manifest::SourceRecord,
};
use duramen_postgres::volume;
use pool::Pools;
use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{
        atomic::{AtomicU64, Ordering},
        Arc, Mutex, MutexGuard, PoisonError,
    },
};

/// How volumes are cloned, as callers are told.
#[must_use]
pub fn volume_kind(kind: volume::Kind) -> VolumeKind {
    match kind {
        volume::Kind::Btrfs => VolumeKind::Btrfs,
        volume::Kind::Reflink => VolumeKind::Reflink,
        volume::Kind::Copy => VolumeKind::Copy,
    }
}

/// What is held, with the journal of its leases.
#[derive(Debug)]
pub(crate) struct Registry {
    journal: Journal,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    leases: HashMap<String, Lease>,
    pools: Pools,
    sources: BTreeMap<String, SourceRecord>,
    reports: VecDeque<RefillReport>,
    /// Snapshots of branches, by id.
    snapshots: HashMap<String, SnapshotRecord>,
    /// The ids of those of which a branch is being made.
    making: Vec<String>,
    next_ticket: u64,
    /// What the operator has to look at.
    warnings: Vec<String>,
}

/// A lease that is held.
#[derive(Debug)]
pub(crate) struct Lease {
    record: LeaseRecord,
    branch: Arc<Branch>,
    /// Why its branch does not work, if it does not.
    problem: Option<String>,
    /// Whether a reset replaces its branch right now.
    resetting: bool,
}

impl Lease {
    pub(crate) fn new(record: LeaseRecord, branch: Arc<Branch>, problem: Option<String>) -> Lease {
        Lease { record, branch, problem, resetting: false }
    }

    pub(crate) fn record(&self) -> &LeaseRecord {
        &self.record
    }

    pub(crate) fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }
}

/// What a closing engine takes out of the registry.
#[derive(Debug)]
pub(crate) struct Drained {
    pub(crate) retired: Vec<Retired>,
    pub(crate) clones: Vec<ColdClone>,
    /// Volumes of snapshots that have ended.
    pub(crate) volumes: Vec<String>,
    /// They stay leased.
    pub(crate) leased: Vec<(LeaseRecord, Arc<Branch>)>,
    pub(crate) sources: Vec<String>,
}

/// What lost writes did to the registry.
#[derive(Debug)]
pub(crate) struct Failed {
    /// The leased branches that failed just now.
    pub(crate) leased: Vec<Arc<Branch>>,
    /// Whether something that was ready had to go.
    pub(crate) drained: bool,
    /// Whether the failures are in the journal.
    pub(crate) written: Result<(), EngineError>,
}

impl Registry {
    pub(crate) fn new(journal: Journal) -> Registry {
        Registry { journal, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds something that the operator has to look at.
    pub(crate) fn warn(&self, warning: String) {
        self.state().warnings.push(warning);
    }

    /// The state in figures.
    pub(crate) fn status(&self, store: &volume::Store, limits: MachineLimits) -> Status {
        let state = self.state();
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            volumes: volume_kind(store.volumes.kind()),
            volumes_reason: store.reason.clone(),
            degraded: store.volumes.kind() == volume::Kind::Copy,
            pools: state.pool_views(),
            cold: count(state.pools.cold.values().map(Vec::len).sum()),
            leases: count(state.leases.len()),
            to_delete: count(
                state.pools.retired.len()
                    + state.pools.reaping
                    + state.pools.retired_clones.len()
                    + state.pools.retired_volumes.len(),
            ),
            settled: state.pools.settled(),
            refills: state.reports.iter().cloned().collect(),
            pool_error: state.pools.broken.values().chain(state.pools.broken_roles.values()).next().cloned(),
            warnings: state.warnings(store),
            limits,
        }
    }

    /// Ends all that waits and takes out all that is ready.
    pub(crate) fn drain(&self) -> Drained {
        let mut state = self.state();
        let sources: Vec<String> = state.sources.keys().cloned().collect();
        for source in &sources {
            state.pools.fail_waiters(source);
            state.pools.drain(source);
        }
        let leased = state.leases.values();
        Drained {
            leased: leased.map(|lease| (lease.record.clone(), Arc::clone(&lease.branch))).collect(),
            retired: state.pools.retired.drain(..).collect(),
            clones: state.pools.retired_clones.drain(..).collect(),
            volumes: state.pools.retired_volumes.drain(..).collect(),
            sources,
        }
    }

    /// Takes every branch for damaged. What is leased stays as it is; what is ready goes, and what is being made, or
    /// handed over, right now is refused when it arrives.
    pub(crate) fn fail_all(&self, problem: &str, losses: &AtomicU64) -> Failed {
        let mut state = self.state();
        let State { leases, pools, snapshots, .. } = &mut *state;
        pools.losses = losses.fetch_add(1, Ordering::AcqRel) + 1;
        let (mut leased, mut written) = (Vec::new(), Ok(()));
        for lease in leases.values_mut().filter(|lease| lease.record.problem.is_none()) {
            lease.record.problem = Some(problem.to_owned());
            lease.problem = Some(problem.to_owned());
            written = written.and_then(|()| self.journal.put(&lease.record));
            leased.push(Arc::clone(&lease.branch));
        }
        // L8.
        for snapshot in snapshots.values_mut().filter(|snapshot| snapshot.problem.is_none()) {
            snapshot.problem = Some(problem.to_owned());
            written = written.and_then(|()| self.journal.put_snapshot(snapshot));
        }
        let sources: Vec<String> = pools.generations.keys().cloned().collect();
        let drained = sources.iter().any(|source| !pools.broken.contains_key(source));
        for source in sources {
            pools.drain(&source);
            pools.fail_waiters(&source);
            pools.broken.insert(source, problem.to_owned());
        }
        Failed { leased, drained, written }
    }
}

impl State {
    fn pool_views(&self) -> Vec<PoolView> {
        let mut views = Vec::new();
        for source in self.pools.generations.keys() {
            for policy in self.pools.policies(source) {
                let pool = self.pools.pools.get(&(source.clone(), policy));
                let hot = pool.map_or(0, |pool| pool.hot.len());
                let waiting = pool.map_or(0, |pool| pool.waiters.len());
                let target = self.pools.target(source, policy);
                if hot + waiting + target > 0 {
                    views.push(PoolView {
                        source: source.clone(),
                        policy,
                        hot: count(hot),
                        entries: count(pool.map_or(0, |pool| {
                            pool.hot.iter().filter(|branch| branch.spare.is_ready()).count()
                        })),
                        target: count(target),
                        waiting: count(waiting),
                    });
                }
            }
        }
        views
    }

    fn warnings(&self, store: &volume::Store) -> Vec<String> {
        let mut warnings = self.warnings.clone();
        let failed = self.leases.values().filter(|lease| lease.record.problem.is_some()).count();
        if failed > 0 {
            warnings.push(format!(
                "writes to the volume store were lost, and {failed} branches may lack what they acknowledged; make room on the disk, then reset or destroy them"
            ));
        }
        for lease in self.leases.values() {
            if let Err(error) = lease.branch.generation.usable() {
                warnings.push(format!(
                    "branch {} is not served: {error}; put back what is missing and restart the daemon, or destroy the branch",
                    lease.record.name
                ));
            }
        }
        let missing = store.unallocated_bytes();
        if missing > 0 {
            warnings.push(format!(
                "{} MiB of the volume store are not allocated on the disk below it, and a full disk would lose writes of branches; make room and restart the daemon",
                missing >> 20
            ));
        }
        warnings
    }
}

fn count(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
