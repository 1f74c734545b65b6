//! What one branch may take of the machine: its quota of disk, and the group that its server runs in.

use crate::{
    branch::Branch,
    environment::Environment,
    error::{failed_over_quota, EngineError, SourceError},
    model::{Limits, MachineLimits, RefillSettings, Wall},
};
use duramen_postgres::{volume::Account, ControlGroup, ControlGroups, GroupLimits};
use std::sync::atomic::Ordering;

/// The quota of disk that nobody set: this part of the volume store, and at least so much.
const DISK_PART: u64 = 4;
const DISK_LEAST: u64 = 256 << 20;
/// Less than this no server runs in.
const DISK_MIN: u64 = 64 << 20;
const MEMORY_MIN: u64 = 64 << 20;
const PROCESSES_MIN: u32 = 16;
const CPU_WEIGHT_MAX: u32 = 10_000;
/// A server that ended for lack of space needs some to recover: pages are written anew, and the log goes only after.
const RECOVERY_ROOM: u64 = 256 << 20;
/// What its holder may still write after that, so that rows can be deleted and tables dropped. Without any, the first
/// commit would end the server again.
const CLEANUP_ROOM: u64 = 128 << 20;
/// A branch is full when less than this is left to it: two segments of the log.
const FULL_MARGIN: u64 = 32 << 20;
/// The log of a branch takes at most this part of its quota between two checkpoints.
const WAL_PART: u64 = 8;
const WAL_MIN_MB: u64 = 32;
const WAL_MAX_MB: u64 = 1024;

/// [`Limits`] with every choice made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Applied {
    pub(crate) disk: u64,
    pub(crate) group: GroupLimits,
}

impl Applied {
    pub(crate) fn of(limits: &Limits, store_bytes: u64) -> Applied {
        Applied {
            disk: limits.disk.unwrap_or((store_bytes / DISK_PART).max(DISK_LEAST)),
            group: GroupLimits {
                memory: limits.memory.unwrap_or(Limits::MEMORY),
                processes: limits.processes.unwrap_or(Limits::PROCESSES),
                cpu_weight: limits.cpu_weight.unwrap_or(Limits::CPU_WEIGHT),
            },
        }
    }

    /// A value of `max_wal_size` with which the log does not use up the quota.
    pub(crate) fn max_wal_size(&self) -> String {
        format!("{}MB", ((self.disk / WAL_PART) >> 20).clamp(WAL_MIN_MB, WAL_MAX_MB))
    }
}

/// Refuses limits with which no branch runs.
pub(crate) fn check(limits: &Limits) -> Result<(), EngineError> {
    let low = |what, least: u64, unit| SourceError::LimitTooLow { what, least, unit };
    if limits.disk.is_some_and(|bytes| bytes < DISK_MIN) {
        return Err(low("disk", DISK_MIN >> 20, " MiB").into());
    }
    if limits.memory.is_some_and(|bytes| bytes < MEMORY_MIN) {
        return Err(low("memory", MEMORY_MIN >> 20, " MiB").into());
    }
    if limits.processes.is_some_and(|count| count < PROCESSES_MIN) {
        return Err(low("processes", u64::from(PROCESSES_MIN), "").into());
    }
    if limits.cpu_weight.is_some_and(|weight| weight == 0 || weight > CPU_WEIGHT_MAX) {
        return Err(SourceError::BadWeight { most: CPU_WEIGHT_MAX }.into());
    }
    Ok(())
}

/// Refuses a refill with too many threads.
pub(crate) fn check_refill(settings: &RefillSettings) -> Result<(), EngineError> {
    let all = [settings.clones, settings.starts, settings.connects];
    if all.into_iter().flatten().all(|count| (1..=RefillSettings::MOST).contains(&count)) {
        return Ok(());
    }
    Err(SourceError::BadConcurrency { most: RefillSettings::MOST }.into())
}

/// What holds on this machine.
pub(crate) fn machine(environment: &Environment, leases: usize) -> MachineLimits {
    let disk = match environment.store.quotas() {
        Ok(quotas) => Wall {
            holds: true,
            detail: format!(
                "what a branch may write is limited by simple quotas of btrfs; {} MiB are kept for resets and deletions",
                quotas.reserve() >> 20
            ),
        },
        Err(reason) => Wall { holds: false, detail: reason.to_owned() },
    };
    let groups = match &*environment.groups {
        Ok(groups) => Wall { holds: true, detail: groups.describe() },
        Err(reason) => Wall { holds: false, detail: reason.clone() },
    };
    MachineLimits { leases: u32::try_from(leases).unwrap_or(u32::MAX), disk, groups }
}

impl Environment {
    /// The group of one branch, where there are groups.
    pub(crate) fn group(&self, volume: &str) -> Option<ControlGroup> {
        self.groups.as_ref().as_ref().ok().map(|groups: &ControlGroups| groups.member(volume))
    }

    /// Removes what quotas keep of volumes that are gone.
    pub(crate) fn sweep_quotas(&self) {
        let directories =
            ["branches", "snapshots", "imports", "quarantine"].map(|name| self.store.root.join(name));
        self.store.sweep_quotas(&directories);
    }

    /// Gives a volume the quota of a branch, and has it count with the others.
    pub(crate) fn limit_volume(&self, volume: &str, bytes: u64) {
        let Ok(quotas) = self.store.quotas() else { return };
        let path = self.volume(volume);
        let limited = quotas.limit(&path, Some(bytes)).and_then(|()| quotas.count_in(&path, Account::Common));
        if let Err(error) = limited {
            tracing::warn!(%error, volume, "the branch has no quota of disk");
        }
    }
}

impl Branch {
    /// Limits what runs already. Of disk, memory and processes it keeps what it has.
    pub(crate) fn apply_limits(&self) {
        let limits = self.generation.limits();
        self.settle_quota();
        if let Some(group) = &self.group {
            match group.limit(limits.group) {
                // Made with its server.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => {
                    tracing::warn!(%error, volume = self.volume, "the branch keeps its earlier limits")
                }
                Ok(()) => {}
            }
        }
    }

    /// Lets a server that ran before begin although its quota is used up.
    pub(crate) fn lift_quota(&self) {
        let Ok(quotas) = self.store.quotas() else { return };
        let dir = self.data_dir();
        let lifted = quotas.used(dir).and_then(|used| {
            quotas.limit(dir, Some(used.max(self.generation.limits().disk) + RECOVERY_ROOM))
        });
        if let Err(error) = lifted {
            tracing::warn!(%error, volume = self.volume, "the quota of a branch could not be lifted for its start");
        }
    }

    /// Sets the branch's quota; one that is used up is raised a little, once, so that its holder can clean up.
    pub(crate) fn settle_quota(&self) {
        let Ok(quotas) = self.store.quotas() else { return };
        let (dir, quota) = (self.data_dir(), self.generation.limits().disk);
        let settled = quotas.used(dir).and_then(|used| {
            let is_full = used + FULL_MARGIN > quota;
            let limit = if is_full { (used + FULL_MARGIN).min(quota + CLEANUP_ROOM) } else { quota };
            quotas.limit(dir, Some(limit.max(quota)))?;
            self.over_quota.store(is_full, Ordering::Relaxed);
            Ok(())
        });
        if let Err(error) = settled {
            tracing::warn!(%error, volume = self.volume, "the quota of a branch could not be set");
        }
    }

    /// Takes back what a full branch was given to clean up, once it has.
    pub(crate) fn tend_quota(&self) {
        // While it starts it has more.
        if self.over_quota.load(Ordering::Relaxed) && self.is_running() == Some(true) {
            self.settle_quota();
        }
    }

    /// Bytes that the branch has written and still holds, and its quota.
    pub(crate) fn disk_use(&self) -> Option<(u64, u64)> {
        let quotas = self.store.quotas().ok()?;
        Some((quotas.used(self.data_dir()).ok()?, self.generation.limits().disk))
    }

    /// Why a statement failed, with the quota where that is the cause.
    pub(crate) fn with_cause(&self, error: EngineError) -> EngineError {
        match self.disk_use() {
            Some((used, quota)) if used + FULL_MARGIN > quota => failed_over_quota(error, used, quota),
            _ => error,
        }
    }
}
