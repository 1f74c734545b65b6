//! What whoever operates a fleet is told of it: each node asked by itself, and each member of etcd.

use crate::fleet::FleetView;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The reply to `GET /v1/cluster`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClusterView {
    /// The fleet as the node that was asked sees it.
    pub view: FleetView,
    /// What each node that is registered said when it was asked, or that it did not answer; by name.
    pub nodes: Vec<NodeAnswer>,
    /// How etcd is.
    pub etcd: EtcdView,
    /// Names of nodes that the fleet does not have, at most 100.
    #[serde(default)]
    pub orphans: Vec<String>,
    /// How many there are.
    #[serde(default)]
    pub orphan_count: u32,
    /// A restore of a backup that was begun and not finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restore: Option<RestoreView>,
}

/// What a node answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeAnswer {
    /// Its name.
    pub name: String,
    /// What it said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<NodeReport>,
    /// Why it said nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// How long it took, in milliseconds.
    pub took_ms: u64,
    /// How far its clock is ahead of that of the node that was asked, in milliseconds; off by half of `took_ms` at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_ahead_ms: Option<i64>,
}

/// The reply to `GET /v1/node`: what a node of a fleet says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeReport {
    /// Its name.
    pub node: String,
    /// The version of its daemon.
    pub version: String,
    /// The time of its clock.
    pub time: Timestamp,
    /// `member`, `joining` or `refused`.
    pub standing: String,
    /// Why it does not give names, if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// How old what it knows of others may be, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_ms: Option<u64>,
    /// Names of branches that have ended which etcd has not heard of yet.
    pub to_free: u32,
    /// Values in etcd that it cannot read: of a later version, or damaged.
    pub unread: u32,
    /// When its certificate ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_until: Option<Timestamp>,
    /// When the fleet's authority ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authority_until: Option<Timestamp>,
    /// Tokens that the fleet had, and has no more: they let nobody in, and are kept.
    pub suspended_tokens: Vec<SuspendedToken>,
    /// Tokens that were revoked there, of which etcd has not heard yet.
    pub untold_revocations: Vec<String>,
    /// What `duramen status` warns of there.
    pub warnings: Vec<String>,
}

/// A token that the fleet had, and has no more: it was revoked on another node, or etcd lost it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
pub struct SuspendedToken {
    /// Its name.
    pub name: String,
    /// Its id.
    pub id: String,
}

/// How etcd is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EtcdView {
    /// Its members, each asked by itself.
    pub members: Vec<EtcdMember>,
    /// How many of them vote; 0 if none of them said so.
    pub voting: u32,
    /// How many of these must be there for anything to be agreed on.
    pub quorum: u32,
    /// How many are there, and know of a leader.
    pub present: u32,
    /// How long one read took that a quorum confirmed, in milliseconds; absent if it did not come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_ms: Option<u64>,
    /// Why it did not come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// A member of etcd.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EtcdMember {
    /// Where it is asked; absent if the daemon's `--fleet` does not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its version. This and what follows is absent if it did not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Whether it leads.
    #[serde(default)]
    pub leads: bool,
    /// Whether it knows of a leader.
    #[serde(default)]
    pub is_led: bool,
    /// Whether it only learns, and does not vote.
    #[serde(default)]
    pub learns: bool,
    /// The size of its database, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// How much of it is in use, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<u64>,
    /// How large it may become, in bytes, if the member says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<u64>,
    /// What it complains of: alarms.
    #[serde(default)]
    pub errors: Vec<String>,
    /// Why it did not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// A restore that is under way, or was interrupted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RestoreView {
    /// When the backup was made.
    pub made_at: Timestamp,
    /// When its restore began.
    pub began_at: Timestamp,
}
