//! Generations of a source, and how they come about.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `POST /v1/branches/{name}/promote`
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PromoteBranch {
    /// Whether the branch's server is stopped for it and started again: its sessions end, and unlogged tables keep their rows.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub quiesce: bool,
}

/// `POST /v1/sources/{name}/labels`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LabelGeneration {
    /// The generation's number, or a label that it has.
    pub generation: String,
    /// The label: a name with a letter in it, which one generation of the source has at a time.
    #[schema(pattern = "^[a-z0-9][a-z0-9._-]{0,62}$")]
    pub label: String,
    /// Whether it is taken away.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub remove: bool,
}

/// A generation of a source that is there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GenerationView {
    /// Its number.
    pub generation: u32,
    /// When it was imported, or promoted.
    pub imported_at: Timestamp,
    /// The server version of its branches.
    pub server_version: String,
    /// Bytes of its files, which it may share with other generations and with branches.
    pub bytes: u64,
    /// Digest over all files of its snapshot; empty until it is taken: of a moment with the first evidence, of a source that
    /// follows its origin soon after it was made.
    pub digest: String,
    /// What data it holds: `full` or `masked`.
    pub data: String,
    /// The branch that it was, if it was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promoted: Option<PromotedBranch>,
    /// The moment of its origin that it holds, if it was made for a branch at one. It goes when no branch of it is left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moment: Option<PastMoment>,
    /// Whether new branches are made of it unless another one is asked for.
    pub current: bool,
    /// Its labels: it is kept as long as it has any.
    pub labels: Vec<String>,
    /// The parts of the source's rule that keep it: `daily`, `weekly` ...
    pub kept_by: Vec<String>,
    /// Branches of it, leased or ready: it is kept as long as there are any that are leased.
    pub branches: u32,
}

/// What a branch can be made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MomentKind {
    /// A generation of the source.
    Generation,
    /// A snapshot of a branch.
    Snapshot,
    /// A moment of the origin that branches are made of.
    Moment,
    /// A stretch of the origin's write-ahead log: of each moment between its ends.
    Stretch,
}

/// A moment of a source of which a branch can be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Moment {
    /// When what it holds was there; the beginning of a stretch.
    pub at: Timestamp,
    /// What it is. Others may be added.
    pub kind: MomentKind,
    /// The generation: itself, or that of the branch. 0 for a stretch.
    pub generation: u32,
    /// The end of a stretch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// The position in the origin's write-ahead log of a moment, or of the beginning of a stretch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lsn: Option<String>,
    /// The position at the end of a stretch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_lsn: Option<String>,
    /// Bytes of the write-ahead log that are kept of a stretch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Why a stretch ended, if it did. The log of one that did not goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// Labels of a generation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// The branch that it is a snapshot of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The name of the snapshot, or its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
}

/// A moment of an origin that was followed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PastMoment {
    /// The time, by the origin's clock, if that was asked for: what was committed by then is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// The position in the origin's write-ahead log, if that was asked for: what was committed before it is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lsn: Option<String>,
    /// Up to which position the log was replayed.
    pub replayed_to: String,
}

/// The branch that a generation was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PromotedBranch {
    /// The name that it had then.
    pub name: String,
    /// Its id.
    pub id: String,
    /// The generation that it was made of.
    pub generation: u32,
    /// The moment at which it held what the generation holds.
    pub taken_at: Timestamp,
}

/// How a generation was taken to a later major version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Upgraded {
    /// The source that it was made of.
    pub source: String,
    /// The generation of that source.
    pub generation: u32,
    /// The version of that generation's server.
    pub from_version: String,
    /// How long `pg_upgrade` took, in milliseconds. It linked files, and copied none.
    pub took_ms: u64,
    /// What `pg_upgrade` printed, line by line.
    pub output: Vec<String>,
    /// What it leaves to be done: extensions of which a later version is installed.
    pub outdated_extensions: Vec<String>,
}
