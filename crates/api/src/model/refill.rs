//! How the pool is refilled, and what a refill did.

use super::take;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Whether branches are made step by step or branch by branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Refill {
    /// All clones, then all starts, then all sessions.
    #[default]
    Phased,
    /// Each branch from clone to session, several at a time.
    Pipelined,
}

/// How the pools of a source are refilled. Absent fields have their defaults.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct RefillSettings {
    /// Step by step (the default), or branch by branch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub way: Option<Refill>,
    /// How many clones are made at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clones: Option<u32>,
    /// How many servers start at a time; when pipelined, how many branches are made at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub starts: Option<u32>,
    /// How many sessions connect and warm up at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connects: Option<u32>,
}

impl RefillSettings {
    /// The default number of clones at a time.
    pub const CLONES: u32 = 4;
    /// The default number of starts at a time.
    pub const STARTS: u32 = 3;
    /// The default number of sessions that connect at a time.
    pub const CONNECTS: u32 = 3;
    /// The maximum for each of these, because each one takes a thread.
    pub const MOST: u32 = 64;

    /// Takes over what `change` gives; zero restores a default.
    pub fn change(&mut self, change: &RefillSettings) {
        self.way = change.way.or(self.way);
        take(&mut self.clones, change.clones);
        take(&mut self.starts, change.starts);
        take(&mut self.connects, change.connects);
    }
}

/// What one refill did.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct RefillReport {
    /// How many branches became hot.
    pub branches: u32,
    /// Wall time of all of it.
    pub total_ms: f64,
    /// Wall time of the clones (0 when pipelined).
    pub clone_ms: f64,
    /// Wall time of the starts.
    pub start_ms: f64,
    /// Wall time of sessions and warm-up.
    pub connect_ms: f64,
    /// Branches that could not be made, with the first reason.
    pub failed: u32,
    /// The first reason.
    pub first_error: Option<String>,
}
