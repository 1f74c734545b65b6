//! Sources that follow their origin.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Whether and how a source follows its origin.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FollowSettings {
    /// Whether a standby of ours replays what the origin writes, so that the next generation needs no copy of it.
    pub enabled: bool,
    /// A directory of the daemon's machine into which the origin's `archive_command` puts its write-ahead log, by its absolute path: the
    /// standby replays what comes there, and is connected to nothing. `None`: it streams from the origin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archive: Option<String>,
    /// Whether a server of ours subscribes to what the origin publishes, by a publication and a replication slot that are made there:
    /// for sources that are dumped (`--logical`), which nobody can stream from.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub logical: bool,
    /// A publication of the origin's own that is subscribed to. `None`: one is made there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub publication: Option<String>,
    /// Seconds after which the next generation is made without being asked for. `None`: only by a refresh.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every_s: Option<u32>,
    /// How many bytes the standby may lack before it is given up, so that the origin does not keep them for it. `None`:
    /// [`FollowSettings::KEEP_WAL`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_wal: Option<u64>,
    /// For how many seconds, back from the newest moment that is kept, branches can be made of any moment. `None`: history is
    /// not kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_history_s: Option<u32>,
    /// How many bytes of the write-ahead log are kept for that at most; the earliest go first. `None`:
    /// [`FollowSettings::HISTORY_BYTES`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history_bytes: Option<u64>,
}

impl FollowSettings {
    /// How many bytes of the write-ahead log are kept for history unless the source says otherwise.
    pub const HISTORY_BYTES: u64 = 10 << 30;
    /// The least that history may be limited to: a few segments of the log.
    pub const HISTORY_BYTES_MIN: u64 = 128 << 20;
    /// The shortest history that is kept, in seconds.
    pub const HISTORY_S_MIN: u32 = 60;

    /// How many bytes a standby may lack unless the source says otherwise.
    pub const KEEP_WAL: u64 = 1 << 30;
    /// The shortest interval, in seconds.
    pub const EVERY_S_MIN: u32 = 10;

    /// Whether nothing of it was set.
    #[must_use]
    pub fn is_usual(&self) -> bool {
        *self == FollowSettings::default()
    }

    /// How many bytes of the write-ahead log are kept for history.
    #[must_use]
    pub fn history_bytes(&self) -> u64 {
        self.history_bytes.unwrap_or(FollowSettings::HISTORY_BYTES)
    }

    /// How many bytes the standby may lack.
    #[must_use]
    pub fn keep_wal(&self) -> u64 {
        self.keep_wal.unwrap_or(FollowSettings::KEEP_WAL)
    }
}

/// How a source follows its origin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FollowView {
    /// `streaming`; `replaying` what an archive has; `waiting` when the standby is not connected to the origin, or the archive cannot be used;
    /// `starting` before it was first checked; `stopped` until the next refresh, because it lacked more than `keep_wal`.
    pub state: String,
    /// The directory that the origin archives its log to, if the standby replays that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archive: Option<String>,
    /// The replication slot that was made at the origin, by logical replication.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<String>,
    /// The publication that is subscribed to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publication: Option<String>,
    /// Bytes of its log that the origin keeps for the slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_bytes: Option<u64>,
    /// What the origin should be set to otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
    /// The position up to which the standby is known to have replayed, of an archive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replayed_to: Option<String>,
    /// When the last commit before that was, by the origin's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replayed_at: Option<Timestamp>,
    /// The segment of the archive that is awaited next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub awaits: Option<String>,
    /// Bytes that the origin has written and the standby lacks; or, of an archive, that this has and the standby has not replayed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lag_bytes: Option<u64>,
    /// For how many seconds the standby has lacked something: 0 if it lacks nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lag_s: Option<u64>,
    /// When that was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub looked_at: Option<Timestamp>,
    /// What is wrong, if something is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Seconds after which the next generation is made without being asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every_s: Option<u32>,
    /// What is kept of its past, if history is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<HistoryView>,
}

/// What is kept of the past of a source that follows its origin. `GET /v1/sources/{name}/timeline` has its stretches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HistoryView {
    /// The earliest moment of which a branch can be made; by the origin's clock, as all of them.
    pub from: Option<Timestamp>,
    /// The latest.
    pub until: Option<Timestamp>,
    /// Bytes of the write-ahead log that are kept.
    pub bytes: u64,
    /// Why nothing more is being kept, if that is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}
