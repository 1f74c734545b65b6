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
}

impl FollowSettings {
    /// How many bytes a standby may lack unless the source says otherwise.
    pub const KEEP_WAL: u64 = 1 << 30;
    /// The shortest interval, in seconds.
    pub const EVERY_S_MIN: u32 = 10;

    /// Whether nothing of it was set.
    #[must_use]
    pub fn is_usual(&self) -> bool {
        *self == FollowSettings::default()
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
    /// When that was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub looked_at: Option<Timestamp>,
    /// What is wrong, if something is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Seconds after which the next generation is made without being asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every_s: Option<u32>,
}
