//! What a pack or a `.c1z` file holds, as it is shown. The branch of a pack is shown as that of a [store](super::store).

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `GET /v1/attachments/{name}/pack`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PackView {
    /// Bytes of the file.
    pub file_bytes: u64,
    /// When the file was changed last.
    pub changed_at: Timestamp,
    /// The branch of a store, if it holds one.
    pub branch: Option<PackedBranch>,
    /// The access graph, if it holds one.
    pub graph: Option<AccessGraph>,
}

/// A branch of a store in a pack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PackedBranch {
    /// The name that it had.
    pub name: String,
    /// When it was exported.
    pub exported_at: Timestamp,
    /// The last version of its store at that time.
    pub version: u64,
    /// Entries in it. Events count twice.
    pub entries: u64,
    /// Bytes of its keys and values.
    pub bytes: u64,
    /// The file that it is based on, if it does not hold all of the branch.
    pub based_on: Option<String>,
}

/// An access graph: one sync of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AccessGraph {
    /// The id of the sync that is shown: the latest full one that has ended.
    pub sync: String,
    /// Its kind.
    pub kind: String,
    /// When it ended, if it did.
    pub ended_at: Option<Timestamp>,
    /// How many syncs the file has.
    pub syncs: u64,
    /// Resources, by their types.
    pub types: Vec<ResourceCount>,
    /// Resources.
    pub resources: u64,
    /// Entitlements that have a row.
    pub entitlements: u64,
    /// Grants in the sync, without those that follow from them.
    pub grants: u64,
    /// What could not be expanded, and why.
    pub left_out: Vec<String>,
    /// How many circles there are of entitlements that follow from each other.
    pub circles: u64,
}

/// How many resources of a type there are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ResourceCount {
    /// The type.
    pub resource_type: String,
    /// What it is called.
    pub name: String,
    /// How many.
    pub count: u64,
}

/// `GET /v1/attachments/{name}/access-search`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AccessFound {
    /// Resources first, then entitlements.
    pub entities: Vec<AccessEntity>,
    /// Whether there are more than are told.
    pub truncated: bool,
}

/// A resource, or an entitlement of one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AccessEntity {
    /// The type of the resource.
    pub resource_type: String,
    /// The resource.
    pub resource: String,
    /// The entitlement, if it is one.
    pub entitlement: Option<String>,
    /// What it is called; empty if nothing says it.
    pub name: String,
    /// Whether the resource holds anything, as a person or a group does.
    pub holds: bool,
    /// How many entitlements the resource has.
    pub entitlements: u64,
}

/// `GET /v1/attachments/{name}/access`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AccessPage {
    /// Who holds what.
    pub grants: Vec<AccessGrant>,
    /// The cursor of the next page; none after the last.
    pub next: Option<String>,
}

/// That somebody holds an entitlement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AccessGrant {
    /// The id of the entitlement.
    pub entitlement: String,
    /// What it is called; empty if nothing says it.
    pub entitlement_name: String,
    /// The resource that it is about.
    pub resource: AccessResource,
    /// Who holds it.
    pub principal: AccessResource,
    /// The id of the grant: its own, or the one that its edge makes.
    pub grant: String,
    /// Whether it is held by a grant of its own, and not only by way of others.
    pub direct: bool,
    /// Whether it follows from other grants and is not in the file.
    pub derived: bool,
    /// Entitlements that it follows from, but for itself; the first of them.
    pub through: Vec<String>,
    /// How many more of those there are.
    pub through_more: u64,
}

/// A resource: a person, a group, an application.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AccessResource {
    /// Its type.
    pub resource_type: String,
    /// Its id in that type.
    pub resource: String,
    /// What it is called; empty if nothing says it.
    pub name: String,
}

/// `GET /v1/attachments/{name}/access-why`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AccessWhy {
    /// Paths, the shortest first.
    pub paths: Vec<AccessPath>,
    /// How many there are; none: more than can be counted.
    pub all: Option<u64>,
}

/// How somebody comes to an entitlement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AccessPath {
    /// The entitlement that it begins with.
    pub start: AccessPlace,
    /// The id of the grant that it begins with.
    pub grant: String,
    /// Whether that is a grant of the principal's own. Else it says that it follows from `sources`, while no other grant says how.
    pub direct: bool,
    /// The sources that the grant names, if it is none of its own; the first of them.
    pub sources: Vec<String>,
    /// What follows, up to the entitlement that was asked for; none if that is what it begins with.
    pub steps: Vec<AccessStep>,
    /// How many steps are left out before the last one.
    pub left_out: u64,
}

/// An entitlement on a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AccessPlace {
    /// The id of the entitlement.
    pub entitlement: String,
    /// What it is called; empty if nothing says it.
    pub name: String,
    /// The resource that it is about, if it has a row.
    pub resource: Option<AccessResource>,
}

/// One step: whoever holds what came before holds this too, because a grant says so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AccessStep {
    /// The entitlement that follows.
    pub place: AccessPlace,
    /// The id of the grant that says so.
    pub grant: String,
    /// The resource that has the grant.
    pub by: AccessResource,
    /// Whether the grant means only those who hold what came before by a grant of their own.
    pub shallow: bool,
}
