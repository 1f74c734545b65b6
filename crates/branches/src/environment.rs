//! The places that branches need, and the volumes in them.

use crate::{
    error::{EngineError, Kind},
    generation::Generation,
    home::Home,
};
use duramen_base::entropy;
use duramen_postgres::{volume, ControlGroups, ServerUser};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::{atomic::AtomicU64, Arc},
    time::Duration,
};

/// The places that a branch needs.
#[derive(Debug, Clone)]
pub(crate) struct Environment {
    /// How often writes were found to be lost: what was made before the last time is not given out after it.
    pub(crate) losses: Arc<AtomicU64>,
    pub(crate) home: Home,
    pub(crate) store: Arc<volume::Store>,
    /// How long the reading of an origin may stand still.
    pub(crate) stall: Duration,
    /// After how long a branch in which nobody is is stopped.
    pub(crate) sleep_after: Option<Duration>,
    /// Of servers that belong to no source; all servers pass through directories as its group.
    pub(crate) user: ServerUser,
    /// The groups that limit what servers take, or why there are none.
    pub(crate) groups: Arc<Result<ControlGroups, String>>,
}

impl Environment {
    pub(crate) fn branches(&self) -> PathBuf {
        self.store.root.join("branches")
    }

    pub(crate) fn volume(&self, name: &str) -> PathBuf {
        self.branches().join(name)
    }

    /// Where volumes are kept that a damaged journal may have named.
    pub(crate) fn quarantine(&self) -> PathBuf {
        self.store.root.join("quarantine")
    }

    pub(crate) fn log(&self, volume: &str) -> PathBuf {
        self.home.logs().join(format!("{volume}.log"))
    }

    /// A clone of a generation's snapshot, not started: the first of the three steps to a hot branch.
    pub(crate) fn clone_snapshot(&self, generation: &Generation) -> Result<String, EngineError> {
        self.clone_within(generation, volume::Account::Common)
    }

    /// As [`Environment::clone_snapshot`]; `account` is the one that its bytes count in.
    pub(crate) fn clone_within(
        &self,
        generation: &Generation,
        account: volume::Account,
    ) -> Result<String, EngineError> {
        self.clone_volume(&generation.snapshot, volume::Quota { bytes: generation.limits().disk, account })
    }

    /// A clone of a snapshot of a branch, to which `bytes` can be written.
    pub(crate) fn clone_branch(
        &self,
        snapshot: &str,
        bytes: u64,
        account: volume::Account,
    ) -> Result<String, EngineError> {
        let clone = self.clone_volume(&self.volume(snapshot), volume::Quota { bytes, account })?;
        // They are of the server that was copied. In a volume that was made just now nobody works: no start has to look for
        // processes there, which takes as long as there are processes on the machine.
        for name in ["postmaster.pid", "postmaster.opts"] {
            let _ = fs::remove_file(self.volume(&clone).join(name));
        }
        Ok(clone)
    }

    fn clone_volume(&self, snapshot: &Path, quota: volume::Quota) -> Result<String, EngineError> {
        let name = format!("v-{}", entropy::token(16));
        self.clone_as(snapshot, &name, quota)?;
        Ok(name)
    }

    /// A clone, under a name of the caller's, of a volume in which no server runs; `bytes` can be written to it.
    pub(crate) fn clone_named(&self, from: &Path, name: &str, bytes: u64) -> Result<(), EngineError> {
        self.clone_as(from, name, volume::Quota { bytes, account: volume::Account::Common })
    }

    fn clone_as(&self, from: &Path, name: &str, quota: volume::Quota) -> Result<(), EngineError> {
        let path = self.volume(name);
        self.store.volumes.clone_volume(from, &path, Some(quota)).map_err(|error| {
            let code = match error {
                volume::VolumeError::DiskFull { .. } => "disk_full",
                volume::VolumeError::Missing { .. } => "snapshot_missing",
                _ => "clone_failed",
            };
            EngineError::new(Kind::Failed, code, error.to_string())
        })
    }

    /// Deletes what a volume's name stands for. Its server must be gone.
    pub(crate) fn delete_volume(&self, name: &str) {
        if let Err(error) = self.store.volumes.delete(&self.volume(name)) {
            tracing::warn!(%error, volume = name, "a deleted branch's volume is left to the next start's sweep");
        }
        let _ = fs::remove_file(self.log(name));
        let _ = fs::remove_file(self.read_mark(name));
    }
}
