//! Branches of branches, and what a branch was at earlier moments.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Which snapshots of branches are taken without being asked for, and how long they are kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SnapshotSettings {
    /// Seconds between two of them. `None`: only before resets and restores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every_s: Option<u32>,
    /// How many are kept of each branch. `None`: [`SnapshotSettings::KEEP`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep: Option<u32>,
    /// For how many seconds. `None`: [`SnapshotSettings::KEEP_S`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_s: Option<u32>,
}

impl SnapshotSettings {
    /// How many are kept unless the source says otherwise.
    pub const KEEP: u32 = 3;
    /// For how many seconds.
    pub const KEEP_S: u32 = 3600;

    /// Whether nothing of it was set.
    #[must_use]
    pub fn is_usual(&self) -> bool {
        *self == SnapshotSettings::default()
    }

    /// These settings with those of `change` in their place. An interval of 0 is none.
    #[must_use]
    pub fn changed(self, change: SnapshotSettings) -> SnapshotSettings {
        SnapshotSettings {
            every_s: change.every_s.or(self.every_s).filter(|seconds| *seconds > 0),
            keep: change.keep.or(self.keep),
            keep_s: change.keep_s.or(self.keep_s),
        }
    }
}

/// What a branch was made of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Parent {
    /// The name that the other branch had then.
    pub name: String,
    /// Its id.
    pub id: String,
    /// The snapshot of it, to which a reset goes back.
    pub snapshot: String,
    /// When that was taken.
    pub taken_at: Timestamp,
    /// What unlogged tables hold: `kept`, or `empty` if the other branch's server was running, as after a crash.
    pub unlogged: String,
}

/// Why a snapshot of a branch was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SnapshotKind {
    /// Somebody asked for it.
    Named,
    /// A branch was made of it.
    Base,
    /// The branch was about to be reset.
    BeforeReset,
    /// The branch was about to go back to another snapshot.
    BeforeRestore,
    /// It was time.
    Interval,
}

/// A branch as it was at one moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SnapshotView {
    /// Its unique id.
    pub id: String,
    /// The name that it was given, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Why it was taken.
    pub kind: SnapshotKind,
    /// When.
    pub taken_at: Timestamp,
    /// Whether the server was running, so that what is made of it begins with crash recovery, and unlogged tables are empty.
    pub running: bool,
    /// Why it cannot be used, if that is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// What a snapshot of a branch is to be called.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TakeSnapshot {
    /// Its name, of which a branch has one. `None`: it is found by its id, or by its time.
    #[schema(pattern = "^[a-z0-9][a-z0-9._-]{0,62}$")]
    pub name: Option<String>,
    /// Whether the server is stopped for it and started again: its sessions end, and unlogged tables keep their rows.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub quiesce: bool,
}

/// Where a branch goes back to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RestoreBranch {
    /// The name or the id of one of its snapshots, or a time (RFC 3339): the newest one that was there by then.
    pub to: String,
}

/// One branch among those that it was made of, and that were made of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TreeNode {
    /// The branch's name.
    pub name: String,
    /// Its id.
    pub id: String,
    /// Its source.
    pub source: String,
    /// The generation of the source.
    pub generation: u32,
    /// What it was made of, if that is another branch; which may be gone by now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// When it was leased.
    pub created_at: Timestamp,
    /// When the lease ends.
    pub expires_at: Timestamp,
    /// As in the view of a branch.
    pub state: String,
    /// Bytes that it wrote and that it or its snapshots and children still hold, where that is counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_bytes: Option<u64>,
    /// Bytes of its files that it shares with what it was made of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_bytes: Option<u64>,
    /// Its snapshots, in the order of their times.
    pub snapshots: Vec<SnapshotView>,
}
