//! What a daemon tells of the fleet that it is in.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The header of a list in which it stands which nodes did not answer, if any did not: the list is not whole then.
pub const MISSING: &str = "x-duramen-missing";
/// The header of a reply in which it stands which node has answered.
pub const NODE: &str = "x-duramen-node";

/// The reply to `GET /v1/nodes`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FleetView {
    /// The fleet's name.
    pub fleet: String,
    /// The node that answers.
    pub node: String,
    /// Whether that one gives names: `member`, `joining`, or `refused` when its name is another home's.
    pub standing: String,
    /// Why it does not, if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// How old what it says of others may be, in milliseconds; absent before it has heard of etcd.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_ms: Option<u64>,
    /// Names of branches that have ended which etcd has not heard of yet.
    #[serde(default)]
    pub to_free: u32,
    /// How often this daemon had etcd write to names: twice a lease.
    #[serde(default)]
    pub writes: u64,
    /// All nodes, by name.
    pub nodes: Vec<FleetNode>,
    /// The sources of the fleet, by name.
    #[serde(default)]
    pub sources: Vec<FleetSource>,
}

/// A source of a fleet, and where it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FleetSource {
    /// Its name.
    pub name: String,
    /// Which source it is: another one of the same name has another.
    pub id: String,
    /// The node that makes its generations, on which it is refreshed, changed and removed.
    pub keeper: String,
    /// The kind of its origin.
    pub origin: String,
    /// On how many nodes it is to be.
    pub replicas: u32,
    /// The current generation; absent while the first is being made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u32>,
    /// The digest of its files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Their bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// The nodes that have it, or are to have it.
    pub copies: Vec<FleetCopy>,
    /// Why it is on fewer nodes than it is to be, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// A source on one node of a fleet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FleetCopy {
    /// The node.
    pub node: String,
    /// `held`: it has the current generation; `behind`: an earlier one, which serves until the current one has come; `wanted`: none
    /// yet; `extra`: it has the source and no place for it; `other`: it has another source of that name, which serves nothing;
    /// `unreachable` and `lost`: as the node is.
    pub state: String,
    /// The generation that it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u32>,
    /// Bytes of the current one that have come, while it comes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<u64>,
    /// Why it does not come, if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// A node of a fleet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FleetNode {
    /// Its name.
    pub name: String,
    /// `ready`; `draining`: it takes no new branches; `unreachable`: its names are kept for it; `lost`: they are there for others.
    pub state: String,
    /// For how many seconds they are still kept for it, if it is unreachable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_for_s: Option<u64>,
    /// How many names it has.
    pub names: u32,
    /// When it was registered last, by its own clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registered_at: Option<Timestamp>,
    /// Since when it takes no new branches, if it takes none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drains_since: Option<Timestamp>,
    /// For how many seconds it has been seen without a registration, if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gone_for_s: Option<u64>,
    /// Where other nodes reach it. This and what follows is absent while it is not registered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Memory that is free, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_free: Option<u64>,
    /// Room on its disk for branches, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_free: Option<u64>,
    /// Leases that it holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leases: Option<u32>,
    /// Branches that are ready, of all its sources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hot: Option<u32>,
    /// Its sources, by name.
    #[serde(default)]
    pub sources: Vec<String>,
}

/// `POST /v1/nodes/{name}/drain`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DrainNode {
    /// Whether it is to take no new branches.
    pub drains: bool,
}

/// The reply to `POST /v1/nodes/{name}/drain` and `DELETE /v1/nodes/{name}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeChanged {
    /// The node.
    pub node: String,
}
