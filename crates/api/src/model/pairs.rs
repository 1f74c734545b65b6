//! A primary and its synchronous standby on clones of one generation, lent for as long as somebody listens.

use super::ErrorBody;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a pair is to be made of.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MakePair {
    /// The source; may be left out when there is only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// One of its generations, by its number or a label. `None`: the current one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<String>,
    /// Bytes that may be written to both servers together: half of them to each.
    pub space_bytes: u64,
}

/// A line of the reply. The pair is there from the line `ready` on, and goes when the reply ends, whoever ends it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum PairLine {
    /// What is being done.
    Step {
        /// In words.
        doing: String,
    },
    /// Both servers take sessions, and the standby streams.
    Ready(Box<PairView>),
    /// Both still run. Once a second.
    Running {
        /// For how many seconds more the pair is lent.
        left_s: u64,
    },
    /// The pair is gone, or was never there.
    Failed(ErrorBody),
}

/// A pair that is lent.
#[derive(Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PairView {
    /// What its volumes and its audit entries are called after.
    pub id: String,
    /// The source.
    pub source: String,
    /// Its generation.
    pub generation: u32,
    /// What data it holds: `full` or `masked`.
    pub data: String,
    /// Version of both servers.
    pub server_version: String,
    /// The directory of the primary's socket; the daemon's user and root can enter it.
    pub primary: String,
    /// That of the standby's.
    pub standby: String,
    /// What the standby is called on the primary.
    pub standby_name: String,
    /// The superuser of both.
    pub role: String,
    /// Its secret, which opens nothing else.
    pub secret: String,
    /// The database that branches of the source serve.
    pub database: String,
    /// How long it took.
    pub took: PairTimes,
}

/// How long the steps to a pair took, in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PairTimes {
    /// The clone of the generation.
    pub clone_ms: f64,
    /// The start and stop by which it becomes a primary.
    pub open_ms: f64,
    /// The clone of that, which is the standby.
    pub standby_ms: f64,
    /// From the start of both servers until the standby streams.
    pub stream_ms: f64,
    /// All of it.
    pub total_ms: f64,
}

impl std::fmt::Debug for PairView {
    /// Without the secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PairView").field("id", &self.id).field("took", &self.took).finish_non_exhaustive()
    }
}
