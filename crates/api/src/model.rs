//! What callers ask for and are told: the vocabulary of the HTTP API, shared by daemon and clients.

mod export;
mod following;
mod generations;
mod lineage;
mod live;
mod masking;
mod merging;
mod origin;
mod pairs;
mod refill;
mod scan;
mod schema;

pub use crate::policy::{Policy, RoleName};
pub use export::{ExportFormat, EXPORT_JOBS_MAX};
pub use following::{FollowSettings, FollowView, HistoryView};
pub use generations::{
    GenerationView, LabelGeneration, Moment, MomentKind, PastMoment, PromoteBranch, PromotedBranch, Upgraded,
};
pub use lineage::{
    Parent, RestoreBranch, SnapshotKind, SnapshotSettings, SnapshotView, TakeSnapshot, TreeNode,
};
pub use live::{AuditEntry, BranchSession, CancelSession, CancelledSession, STATEMENT_MAX};
pub use masking::{Fake, Generalise, Mask, Masking, Noise, Percent, Shift, Subset, Unit};
pub use merging::{
    MergeBranch, MergeConflict, MergeEqual, MergeKey, MergeReport, MergeStatus, MergeStrategy, MergeTriggers,
    MergeValues, MergedTable, UnknownWord,
};
pub use origin::Origin;
pub use pairs::{MakePair, PairLine, PairTimes, PairView};
pub use refill::{Refill, RefillReport, RefillSettings};
pub use scan::{Finding, Personal, Scan};
pub use schema::{SchemaChange, SchemaDiff, SchemaDifference, SchemaStatement, SchemaWarning};

use crate::{data_diff::DiffCounts, fleet::FleetSource, keep::Keep};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// How many branches of a source are kept ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PoolSize {
    /// Started, connected and warm branches, by policy.
    pub hot: BTreeMap<Policy, u32>,
    /// Clones that are not started yet, beyond those of the hot level.
    pub cold: u32,
}

impl Default for PoolSize {
    fn default() -> PoolSize {
        PoolSize { hot: BTreeMap::from([(Policy::ReadWrite, 10)]), cold: 2 }
    }
}

/// How branches of a source run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct SourceSettings {
    /// The prepared pool.
    pub pool: PoolSize,
    /// Server settings of its branches, on top of the minimal ones.
    pub server: BTreeMap<String, String>,
    /// Whether branches flush what they commit.
    pub durable: bool,
    /// Whether branches admit their holders to every database of the copied server, and not only to the one they serve.
    pub all_databases: bool,
    /// Statements that every session runs, and rolls back, before its branch is called hot. Empty: each table
    /// is planned for once.
    pub warm: Vec<String>,
    /// What each branch may take of the machine.
    pub limits: Limits,
    /// How its pools are refilled.
    pub refill: RefillSettings,
    /// What of its branches is in the audit log.
    #[serde(skip_serializing_if = "Audited::is_usual")]
    pub audit: Audited,
    /// Which snapshots of its branches are taken without being asked for.
    #[serde(skip_serializing_if = "SnapshotSettings::is_usual")]
    pub snapshots: SnapshotSettings,
    /// Whether and how it follows its origin.
    #[serde(skip_serializing_if = "FollowSettings::is_usual")]
    pub follow: FollowSettings,
    /// Which of its generations are kept though no branch needs them.
    #[serde(skip_serializing_if = "Keep::is_empty")]
    pub keep: Keep,
    /// The rules by which data is masked before any branch exists. Once a source has rules, it only serves snapshots made
    /// under its current ones. Rules can be replaced, but not removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub masking: Option<Masking>,
    /// On how many nodes of its fleet it is. `None`: on the one on which it was added, if its daemon is in a fleet.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 64)]
    pub replicas: Option<u32>,
}

impl SourceSettings {
    /// The most nodes that a source is on.
    pub const REPLICAS_MAX: u32 = 64;
}

/// What of branches is in the audit log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Audited {
    /// Leases and sessions.
    #[default]
    Sessions,
    /// The hash of each statement too.
    Statements,
}

impl Audited {
    /// Whether it is what nobody asked for.
    #[must_use]
    pub fn is_usual(&self) -> bool {
        *self == Audited::default()
    }
}

/// What one branch may take of the machine, where that can be limited. What is absent is as usual.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Limits {
    /// Bytes that it may write beyond what it shares with its snapshot. Usual: a quarter of the volume store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<u64>,
    /// Bytes of memory of its server, cached files included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    /// Processes of its server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processes: Option<u32>,
    /// Its share of the processors when they are busy, beside those of other branches: 1 to 10,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_weight: Option<u32>,
    /// Connections to it through the router. Usual: as many as its server takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<u32>,
}

impl Limits {
    /// The usual memory of a branch, in bytes.
    pub const MEMORY: u64 = 1 << 30;
    /// The usual number of processes of a branch.
    pub const PROCESSES: u32 = 128;
    /// The usual share of the processors.
    pub const CPU_WEIGHT: u32 = 100;

    /// Takes what is given in `change`; nothing, a zero, brings back what is usual.
    pub fn change(&mut self, change: &Limits) {
        take(&mut self.disk, change.disk);
        take(&mut self.memory, change.memory);
        take(&mut self.processes, change.processes);
        take(&mut self.cpu_weight, change.cpu_weight);
        take(&mut self.connections, change.connections);
    }
}

/// Takes over a value that is given; zero restores the default.
fn take<T: Copy + Default + PartialEq>(old: &mut Option<T>, new: Option<T>) {
    if let Some(value) = new {
        *old = Some(value).filter(|value| *value != T::default());
    }
}

/// `POST /v1/sources`
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct AddSource {
    /// The new source's name.
    pub name: String,
    /// Where its data comes from.
    pub origin: Origin,
    /// The database that branches serve. `None`: that of the URL, else the only or largest one.
    #[serde(default)]
    pub database: Option<String>,
    /// How its branches run.
    #[serde(default)]
    pub settings: SourceSettings,
}

/// `PATCH /v1/sources/{name}/settings`: what is absent stays.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ChangeSettings {
    /// Sizes of the hot pool by policy.
    pub hot: BTreeMap<Policy, u32>,
    /// Size of the cold pool.
    pub cold: Option<u32>,
    /// Server settings to set; an empty value removes one.
    pub server: BTreeMap<String, String>,
    /// Whether branches flush what they commit.
    pub durable: Option<bool>,
    /// Whether branches admit their holders to every database of the copied server.
    pub all_databases: Option<bool>,
    /// New warm-up statements.
    pub warm: Option<Vec<String>>,
    /// What each branch may take of the machine; 0 brings back what is usual.
    pub limits: Limits,
    /// How the pools are refilled; 0 restores a default.
    pub refill: RefillSettings,
    /// What of its branches is in the audit log; of branches that are made from now on.
    pub audit: Option<Audited>,
    /// Which snapshots of its branches are taken without being asked for. Fields that are left out stay; 0 for `every_s` ends
    /// snapshots at an interval.
    pub snapshots: SnapshotSettings,
    /// Whether and how it follows its origin from now on.
    pub follow: Option<FollowSettings>,
    /// Which of its generations are kept from now on; the empty text ends that.
    pub keep: Option<Keep>,
    /// New rules for masking. The source then serves nothing until it is refreshed.
    pub masking: Option<Masking>,
    /// On how many nodes of the fleet it is from now on. What is on more nodes stays there until it is removed on them.
    #[schema(minimum = 1, maximum = 64)]
    pub replicas: Option<u32>,
}

/// One thing that sanitising did to a snapshot, or left out of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Sanitised {
    /// What kind of thing: `subscription`, `user mapping`, `setting`, `role`, `job`, `function`, ...
    pub kind: String,
    /// Which one.
    pub object: String,
    /// What was done: `dropped`, `disabled`, `removed`, ...
    pub action: String,
}

/// A source, as told to callers. It never holds the origin's address.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct SourceView {
    /// Its name.
    pub name: String,
    /// The kind of its origin.
    pub origin: String,
    /// The database that branches serve.
    pub database: String,
    /// The current generation.
    pub generation: u32,
    /// When that generation was imported.
    pub imported_at: Timestamp,
    /// The server version of its branches.
    pub server_version: String,
    /// Size of the snapshot's files.
    pub bytes: u64,
    /// Digest over all files of the snapshot; empty while it is being taken, behind the back of who refreshed a source that follows its origin.
    pub digest: String,
    /// What data it holds: `full` or `masked`.
    #[serde(default)]
    pub data: String,
    /// The branch that the generation was, if it was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promoted: Option<PromotedBranch>,
    /// What the generation was taken to its version from, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upgraded: Option<Upgraded>,
    /// How many columns were masked.
    #[serde(default)]
    pub masked_columns: u32,
    /// Columns that look personal and are not masked, with what they look like. A scan of the source has rules for them.
    #[serde(default)]
    pub unmasked: Vec<String>,
    /// What the import took out.
    pub sanitised: Vec<Sanitised>,
    /// The login roles of the source that a branch can be entered as (`policy` `role:NAME`).
    #[serde(default)]
    pub roles: Vec<String>,
    /// Branches that exist of each generation, leased or ready.
    // In JSON, numbers that are keys are texts.
    #[schema(value_type = BTreeMap<String, u32>)]
    pub branches_by_generation: BTreeMap<u32, u32>,
    /// How it follows its origin, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follow: Option<FollowView>,
    /// Where it is in the fleet, if its daemon is in one and the source is the fleet's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fleet: Option<FleetSource>,
    /// How its branches run.
    pub settings: SourceSettings,
}

/// `POST /v1/branches`
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CreateBranch {
    /// The source. May be left out when there is only one.
    pub source: Option<String>,
    /// The branch's name; a second create with the same name returns the same branch. `None`: one is made up.
    #[schema(pattern = "^[a-z0-9][a-z0-9._-]{0,62}$")]
    pub name: Option<String>,
    /// What the holder may do. `None`: `read-write`.
    pub policy: Option<Policy>,
    /// Seconds until the lease ends. `None`: an hour.
    #[schema(minimum = 1, maximum = 7_776_000)]
    pub ttl_s: Option<i64>,
    /// The moment at which the lease ends, instead of `ttl_s`.
    pub expires_at: Option<Timestamp>,
    /// How long to wait in the queue for a branch. `None`: 30 seconds. 0: refuse at once when none is ready.
    pub wait_ms: Option<u64>,
    /// Another branch of which this one is made, as it is now, or `BRANCH@SNAPSHOT`: as it was then. Source and policy are then
    /// those of that branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The generation of the source of which it is made, by its number or a label, instead of the current one. If no branch of it
    /// is ready, one is started for this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<String>,
    /// The moment, by the clock of the source's origin, as of which it is made: it has what the origin had committed by then. Of a
    /// source that keeps history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// The position in the origin's write-ahead log as of which it is made, as `pg_current_wal_lsn()` writes it, instead of `at`: it has
    /// what was committed before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lsn: Option<String>,
    /// Whether the server of `from` is stopped for it and started again: its sessions end, and unlogged tables keep their rows.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub quiesce: bool,
    /// Whether it is refused unless the source is as it was imported: its snapshot by its files' digest, and the live source by its
    /// contents. All of both is read for it. Only on the daemon's own socket.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub require_clean_source: bool,
}

/// How an administrator of the machine enters a branch.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct AdministratorUrl {
    /// The connection URL, with the administrator's secret.
    pub url: String,
}

/// A leased branch. It never holds the source's address.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct BranchView {
    /// The branch's name.
    pub name: String,
    /// Its unique id, which outlives the name in evidence and audit log.
    pub id: String,
    /// Its source.
    pub source: String,
    /// The generation of the source that it was cloned from.
    pub generation: u32,
    /// What its holder may do.
    pub policy: Policy,
    /// What data it holds: `full`, or `masked` if rules of its source were applied to it.
    pub data: String,
    /// Whether its commits are flushed (`fsync=on`).
    pub durable: bool,
    /// A connection URL for any PostgreSQL driver on this machine.
    pub url: String,
    /// When it was leased.
    pub created_at: Timestamp,
    /// When the lease ends.
    pub expires_at: Timestamp,
    /// Whether it refuses to be destroyed, and does not expire.
    pub protected: bool,
    /// `ready`; `asleep` when its server is stopped until somebody comes; or `failed` when it could not be brought back.
    pub state: String,
    /// Why its server does not run, if that is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// The id of the token by which it was created; absent if it was created on the daemon's own socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// What it has written, where that is counted; only in the reply for one branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<DiskUse>,
    /// What it was made of, if that is another branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// Whether this create found the branch there already.
    #[serde(default)]
    pub existing: bool,
    /// The node of the fleet that it is on; only in lists of a daemon that is in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
}

/// What a branch has written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiskUse {
    /// Bytes that it wrote and still holds. What it shares with its snapshot is not among them.
    pub used: u64,
    /// Bytes that it may write.
    pub quota: u64,
}

/// One statement of a query.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct QueryStatement {
    /// Exactly one SQL statement.
    pub sql: String,
    /// Values for `$1`, `$2`, ...: strings, numbers, booleans, null; arrays and objects are passed as JSON text.
    #[serde(default)]
    pub params: Vec<serde_json::Value>,
}

/// `POST /v1/branches/{name}/query`: one statement (`sql`, `params`), or several in one transaction.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct QueryRequest {
    /// One statement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sql: Option<String>,
    /// Its parameters.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub params: Vec<serde_json::Value>,
    /// Several statements, all or none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub statements: Vec<QueryStatement>,
    /// At most this many rows; 1,000 unless said otherwise, at most 100,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_rows: Option<u32>,
    /// The statement timeout; 30 s unless said otherwise, at most 10 minutes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

/// A column of a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ResultColumn {
    /// Its name.
    pub name: String,
    /// The name of its type.
    #[serde(rename = "type")]
    pub type_name: String,
}

/// What one statement gave.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct StatementReply {
    /// The result's columns.
    pub columns: Vec<ResultColumn>,
    /// The rows, each an array of typed values.
    #[schema(value_type = Vec<Vec<serde_json::Value>>)]
    pub rows: Box<serde_json::value::RawValue>,
    /// How many rows there are.
    pub row_count: u64,
    /// Whether rows were left out: more than the cap, or more than 16 MiB with those before them.
    pub truncated: bool,
    /// The server's command tag.
    pub command: String,
}

/// The answer to a query.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct QueryReply {
    /// The branch.
    pub branch: String,
    /// The policy that applied.
    pub policy: Policy,
    /// What data the branch holds: `full` or `masked`.
    pub data: String,
    /// Whether the write is flushed to disk.
    pub durable: bool,
    /// One result a statement.
    pub results: Vec<StatementReply>,
    /// Time spent in the branch's server, round trip included, in microseconds.
    pub server_us: u64,
}

/// `POST /v1/branches/{name}/renew`
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RenewBranch {
    /// Seconds from now. `None`: an hour.
    #[schema(minimum = 1, maximum = 7_776_000)]
    pub ttl_s: Option<i64>,
    /// The moment at which the lease ends, instead of `ttl_s`.
    pub expires_at: Option<Timestamp>,
}

/// `POST /v1/branches/{name}/protect`
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ProtectBranch {
    /// Protect it, or end its protection.
    pub protected: bool,
}

/// One pool's state.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct PoolView {
    /// The source.
    pub source: String,
    /// The policy.
    pub policy: Policy,
    /// Branches ready to be leased.
    pub hot: u32,
    /// How many of them have a process ready for their first client, which they have if clients come through a door.
    #[serde(default)]
    pub entries: u32,
    /// How many there should be.
    pub target: u32,
    /// Creates that wait in the queue.
    pub waiting: u32,
}

/// How volumes are cloned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum VolumeKind {
    /// btrfs subvolume snapshots: constant time.
    Btrfs,
    /// File by file, sharing extents: time grows with the number of files.
    Reflink,
    /// File by file, copying every byte: degraded.
    Copy,
}

impl std::fmt::Display for VolumeKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            VolumeKind::Btrfs => "btrfs snapshots",
            VolumeKind::Reflink => "reflink copies",
            VolumeKind::Copy => "degraded: plain copies",
        })
    }
}

/// `GET /v1/status`
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Status {
    /// The daemon's version.
    pub version: String,
    /// The daemon's process id.
    pub pid: u32,
    /// How volumes are cloned.
    pub volumes: VolumeKind,
    /// Why so.
    pub volumes_reason: String,
    /// Whether clones are plain copies: measurements are then invalid.
    pub degraded: bool,
    /// The pools.
    pub pools: Vec<PoolView>,
    /// Clones not yet started.
    pub cold: u32,
    /// Leases that are held.
    pub leases: u32,
    /// Branches that wait to be deleted.
    pub to_delete: u32,
    /// Whether every pool is full and nothing waits to be deleted.
    pub settled: bool,
    /// The last refills, newest last, at most 64.
    pub refills: Vec<RefillReport>,
    /// The last failure of the pool, if it could not be filled.
    pub pool_error: Option<String>,
    /// What the operator has to look at, each with the next step: a damaged journal, a volume store that lost writes.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// What of the machine branches are kept from taking.
    #[serde(default)]
    pub limits: MachineLimits,
}

/// Which limits hold on this machine.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct MachineLimits {
    /// How many leases there may be in all.
    pub leases: u32,
    /// Whether each branch has a quota of disk.
    pub disk: Wall,
    /// Whether memory, processes and processors of each branch are limited.
    pub groups: Wall,
}

/// Whether something is limited here.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct Wall {
    /// Whether it is.
    pub holds: bool,
    /// How, or why not.
    pub detail: String,
}

/// `POST /v1/measure/cold`: one branch without the pool, made and thrown away.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ColdBranch {
    /// From the start of the clone to the answer of the first query.
    pub first_query_ms: f64,
    /// The clone alone.
    pub clone_ms: f64,
    /// The start of the server.
    pub start_ms: f64,
    /// Connection, warm-up left out, and `SELECT 1`.
    pub connect_ms: f64,
    /// CPU time of the branch's processes from clone to warm session, in milliseconds.
    pub cpu_ms: f64,
    /// Proportional memory of the warm, idle branch, in bytes.
    pub pss_bytes: u64,
}

/// The state of a live source at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SourceFingerprint {
    /// When it was taken.
    pub taken_at: Timestamp,
    /// How: `server-binary`, or `files` for origins that do not run. `server` in manifests of 0.1, whose hashes are
    /// others.
    pub method: String,
    /// The write position (WAL insert location) before the contents were read; empty for files.
    pub write_position: String,
    /// Rows inserted, updated and deleted in tables that are not temporary, since the server's statistics began; absent
    /// for files and where the server does not count.
    pub rows_written: Option<u64>,
    /// Content by `database.schema.table` (or file), `database (kind)` of definitions, and `all databases (kind)`:
    /// number of rows (or bytes) and a hash.
    pub contents: BTreeMap<String, ContentHash>,
    /// What is not in `contents`, because reading it would run code of the source's users or is refused: databases,
    /// `database.schema.table`, or `database.schema.table.column`, and why.
    #[serde(default)]
    pub left_out: BTreeMap<String, String>,
    /// One hash over all of `contents`, and the names in `left_out`.
    pub content_hash: String,
}

impl SourceFingerprint {
    /// What stands for a fingerprint that nobody can read.
    pub fn unknown() -> SourceFingerprint {
        SourceFingerprint {
            taken_at: Timestamp::UNIX_EPOCH,
            method: String::new(),
            write_position: String::new(),
            rows_written: None,
            contents: BTreeMap::new(),
            left_out: BTreeMap::new(),
            content_hash: String::new(),
        }
    }
}

/// The content of one table or file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ContentHash {
    /// Rows of a table, bytes of a file.
    pub count: u64,
    /// Its hash, independent of the rows' order.
    pub hash: String,
}

/// The comparison of two fingerprints of the same source.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct SourceComparison {
    /// Whether the two can be compared: they were taken in the same way, and the source was read both times.
    pub comparable: bool,
    /// Whether contents and row statistics are the same.
    pub unchanged: bool,
    /// What differs.
    pub differences: Vec<String>,
    /// Whether not even the write position moved.
    pub nothing_written: bool,
}

/// `GET /v1/branches/{name}/evidence`
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct BranchEvidence {
    /// The branch.
    pub branch: BranchView,
    /// The snapshot's digest when it was imported.
    pub snapshot_digest: String,
    /// The snapshot's digest now.
    pub snapshot_digest_now: String,
    /// The live source when it was imported.
    pub source_at_import: SourceFingerprint,
    /// The live source now.
    pub source_now: SourceFingerprint,
    /// The two compared.
    pub source: SourceComparison,
    /// The table that was asked for, in the source and in the branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<WatchedTable>,
    /// What the branch changed, if that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<DiffEvidence>,
    /// The branch's events out of the audit log.
    pub events: Vec<serde_json::Value>,
}

/// What a branch changed: the statements that make what it was made of define what it defines, and its rows and sequences, in one digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiffEvidence {
    /// The digest. A change set of the same changes names the same one.
    pub digest: String,
    /// Statements.
    pub statements: u64,
    /// Rows; the digest covers those that are listed.
    pub rows: DiffCounts,
    /// Sequences.
    pub sequences: u64,
}

/// One table, in the source and in a branch. What is absent could not be read; `left_out` of the fingerprints, or
/// `not_read`, say why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WatchedTable {
    /// Its name as in the contents of fingerprints, `database.schema.table`.
    pub name: String,
    /// In the source when it was imported.
    pub source_at_import: Option<ContentHash>,
    /// In the source now.
    pub source_now: Option<ContentHash>,
    /// In the branch now.
    pub branch_now: Option<ContentHash>,
    /// Why it was not read in the branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_read: Option<String>,
    /// Whether the source has the rows that it had; absent where one of the two is not known.
    pub source_unchanged: Option<bool>,
    /// Whether the branch has other rows than the source had.
    pub branch_differs: Option<bool>,
}

/// The result of checking the audit log.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct AuditVerification {
    /// Whether every entry follows from the one before it.
    pub intact: bool,
    /// How many entries were checked.
    pub entries: u64,
    /// The hash of the last good entry.
    pub head: String,
    /// Where and how the chain breaks.
    pub problem: Option<String>,
}

/// The result of checking a snapshot.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct SnapshotVerification {
    /// Whether the files are those that were imported.
    pub intact: bool,
    /// The digest in the manifest.
    pub expected: String,
    /// The digest now.
    pub found: String,
}

/// A line of a streamed reply of a long operation (import, refresh): progress, then the result or an error.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Progress {
    /// What is being done, and how far it is (0 to 1) where that is known.
    Step {
        /// What is being done.
        doing: String,
        /// The fraction that is done.
        fraction: Option<f64>,
    },
    /// The operation ended well.
    Done(Box<SourceView>),
    /// The operation failed.
    Failed(ErrorBody),
}

/// The body of every refusal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ErrorBody {
    /// A stable word for programs: `not_found`, `name_clash`, `no_branch_ready`, `sql_error`, ...
    pub code: String,
    /// What happened, where, and what to do next.
    pub message: String,
    /// The SQLSTATE of an `sql_error`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sqlstate: Option<String>,
    /// Where in the statement it is, counted in characters from 1; of several statements, in the one that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<u32>,
}
