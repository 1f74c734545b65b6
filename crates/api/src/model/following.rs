//! Sources that follow their origin.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Whether and how a source follows its origin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FollowSettings {
    /// Whether a standby of ours replays what the origin writes, so that the next generation needs no copy of it.
    pub enabled: bool,
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
    /// `streaming`; `waiting` when the standby is not connected to the origin; `starting` before it was first checked; `stopped`
    /// until the next refresh, because it lacked more than `keep_wal`.
    pub state: String,
    /// Bytes that the origin has written and the standby lacks.
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
