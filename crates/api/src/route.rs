//! The requests of the interface, in one list: the daemon's router, its client and the OpenAPI document are made from it.

use crate::{
    attachments::{
        functions::{
            ControlFunction, ControlledFunction, FunctionDetail, FunctionInstance, FunctionQueue,
            FunctionSchedule, FunctionShards, FunctionsOverview,
        },
        lab::{LabComparison, LabExperiments, LabHistory, LabReport, LabRuns},
        pack::{AccessFound, AccessPage, AccessWhy, PackView},
        store::{StoreBranches, StoreContents, StoreDifference, StoreEntries, StoreEntry, StoreHistory},
        AddAttachment, Attachment,
    },
    cluster::{ClusterView, NodeReport},
    console::{MakeConsoleLink, NewConsoleLink, SessionView, SignIn},
    data_diff::{DataDiff, DIFF_ROWS_MAX},
    doors::DoorsView,
    fleet::{DrainNode, FleetView, NodeChanged},
    model,
    request::{MeasureCold, Removed, Stopping, Version},
    segment,
    shape::{Document, Figures, Lines, List, Nothing, Numbers, Octets, One, Plain, Shape, Shapes, Stream},
    token::{CreateToken, NewToken, Token},
};
use hyper::Method;

/// What can stand after the question mark of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// What it says, for people.
    pub meaning: &'static str,
    /// What it looks like.
    pub kind: ParameterKind,
}

/// What the value of a parameter looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParameterKind {
    /// Any text.
    Text,
    /// A number from the first to the second.
    Number(u32, u32),
}

/// The longest `Idempotency-Key`.
pub const KEY_MAX: usize = 255;
/// The longest page of a list.
pub const PAGE_MAX: u32 = 1000;
const LIMIT: Parameter = Parameter {
    name: "limit",
    meaning: "At most so many. Where the next ones are is in the reply's header `Link`.",
    kind: ParameterKind::Number(1, PAGE_MAX),
};
const CURSOR: Parameter = Parameter {
    name: "cursor",
    meaning: "Only what comes after this name, as the header `Link` of the page before says it.",
    kind: ParameterKind::Text,
};
const TABLE: Parameter = Parameter {
    name: "table",
    meaning: "A table, `schema.table`, whose rows are compared in the source and in the branch.",
    kind: ParameterKind::Text,
};
const DIFF: Parameter = Parameter {
    name: "diff",
    meaning: "`true`: with the digest of what the branch changed, for which its definitions and rows are compared. `false` unless said otherwise.",
    kind: ParameterKind::Text,
};
const AGAINST: Parameter = Parameter {
    name: "against",
    meaning: "Another branch, instead of what the branch was made of.",
    kind: ParameterKind::Text,
};
const SNAPSHOT: Parameter =
    Parameter { name: "snapshot", meaning: "The name or the id of the snapshot.", kind: ParameterKind::Text };
const TABLES: Parameter = Parameter {
    name: "tables",
    meaning: "Only these tables and sequences, `schema.name`, separated by commas.",
    kind: ParameterKind::Text,
};
const FROM: Parameter =
    Parameter { name: "from", meaning: "A generation, by its number or a label.", kind: ParameterKind::Text };
const TO: Parameter =
    Parameter { name: "to", meaning: "Another one, to which the changes lead.", kind: ParameterKind::Text };
const ROWS: Parameter = Parameter {
    name: "limit",
    meaning: "At most so many rows are told: 1,000 unless said otherwise. All are counted.",
    kind: ParameterKind::Number(0, DIFF_ROWS_MAX),
};
const FORMAT: Parameter = Parameter {
    name: "format",
    meaning: "`plain`, `custom`, `directory` or `basebackup`; the last two are sent as tar archives.",
    kind: ParameterKind::Text,
};
const JOBS: Parameter = Parameter {
    name: "jobs",
    meaning: "How many processes write a `directory`: 1 unless said otherwise.",
    kind: ParameterKind::Number(1, model::EXPORT_JOBS_MAX),
};
const QUIESCE: Parameter = Parameter {
    name: "quiesce",
    meaning: "`true` stops the branch's server for it and starts it again: its sessions end, and unlogged tables keep their rows.",
    kind: ParameterKind::Text,
};
const WHOLE: Parameter = Parameter {
    name: "whole",
    meaning: "`true`: columns that the branch alone has are told too, as if they had been NULL before. `false` unless said otherwise.",
    kind: ParameterKind::Text,
};
const AFTER: Parameter = Parameter {
    name: "after",
    meaning: "The position after which to begin, as an event's id says it; now, if there is none.",
    kind: ParameterKind::Text,
};
const BEFORE: Parameter = Parameter {
    name: "before",
    meaning: "Only entries before this position, as an entry says it; the newest ones, if there is none.",
    kind: ParameterKind::Text,
};
const ENTRIES: Parameter = Parameter {
    name: "limit",
    meaning: "At most so many: 100 unless said otherwise.",
    kind: ParameterKind::Number(1, PAGE_MAX),
};
const NAMES: Parameter = Parameter {
    name: "events",
    meaning: "Only events of these names, separated by commas.",
    kind: ParameterKind::Text,
};
const SUITE: Parameter = Parameter {
    name: "suite",
    meaning: "Only runs of this suite; of all, if there is none.",
    kind: ParameterKind::Text,
};
const OF_SUITE: Parameter =
    Parameter { name: "suite", meaning: "The suite. It has to be there.", kind: ParameterKind::Text };
const MEASUREMENT: Parameter = Parameter {
    name: "measurement",
    meaning: "Only this figure; all, if there is none.",
    kind: ParameterKind::Text,
};
const RUN: Parameter = Parameter {
    name: "id",
    meaning: "The run, as the list of runs calls it. It has to be there.",
    kind: ParameterKind::Text,
};
const RUNS_A: Parameter = Parameter {
    name: "a",
    meaning:
        "Runs of the first variant, as the list of runs calls them, separated by commas. There has to be one.",
    kind: ParameterKind::Text,
};
const RUNS_B: Parameter =
    Parameter { name: "b", meaning: "Those of the second one.", kind: ParameterKind::Text };
const SAMPLE: Parameter = Parameter {
    name: "sample",
    meaning: "How many branches are looked at: 10 unless said otherwise.",
    kind: ParameterKind::Number(0, u32::MAX),
};

const STORE_BRANCH: Parameter = Parameter {
    name: "branch",
    meaning: "A branch of the store, also with a state of it: `main`, `main@v1`, `main@1234`. The main one of a store and the only one of a pack, unless said otherwise.",
    kind: ParameterKind::Text,
};
const STORE_KIND: Parameter = Parameter {
    name: "kind",
    meaning: "`kv`, `state`, `events`, `json`, `vectors` or `blobs`.",
    kind: ParameterKind::Text,
};
const STORE_SPACE: Parameter = Parameter {
    name: "space",
    meaning: "The space: `default` unless said otherwise.",
    kind: ParameterKind::Text,
};
const STORE_COLLECTION: Parameter = Parameter {
    name: "collection",
    meaning: "The collection, if vectors are asked for.",
    kind: ParameterKind::Text,
};
const STORE_PREFIX: Parameter = Parameter {
    name: "prefix",
    meaning:
        "Only keys that begin with this, written as replies write keys; of events, only those of this type.",
    kind: ParameterKind::Text,
};
const STORE_KEY: Parameter = Parameter {
    name: "key",
    meaning: "The key, as replies write it; of an event, its number.",
    kind: ParameterKind::Text,
};
const STORE_FROM: Parameter = Parameter {
    name: "from",
    meaning: "A branch of the store, or a state of one.",
    kind: ParameterKind::Text,
};
const STORE_TO: Parameter =
    Parameter { name: "to", meaning: "Another one, to which the changes lead.", kind: ParameterKind::Text };
const NEXT: Parameter = Parameter {
    name: "cursor",
    meaning: "Where the page begins, as `next` of the page before says it.",
    kind: ParameterKind::Text,
};
const AT_MOST: Parameter = Parameter {
    name: "limit",
    meaning: "At most so many: 200 unless said otherwise.",
    kind: ParameterKind::Number(1, PAGE_MAX),
};
const SEARCH: Parameter = Parameter {
    name: "search",
    meaning: "What names or ids have in them, whatever the case.",
    kind: ParameterKind::Text,
};
const PRINCIPAL: Parameter =
    Parameter { name: "principal", meaning: "Who holds, by its id in its type.", kind: ParameterKind::Text };
const PRINCIPAL_TYPE: Parameter = Parameter {
    name: "type",
    meaning: "The type of the principal, or of the resource.",
    kind: ParameterKind::Text,
};
const RESOURCE: Parameter = Parameter {
    name: "resource",
    meaning: "A resource, whose entitlements are held, by its id in its type.",
    kind: ParameterKind::Text,
};
const ENTITLEMENT: Parameter = Parameter {
    name: "entitlement",
    meaning: "The id of an entitlement that is held.",
    kind: ParameterKind::Text,
};
const STATUS: Parameter = Parameter {
    name: "status",
    meaning: "Only those with this status: `pending`, `running`, `completed`, `failed` or `cancelled`.",
    kind: ParameterKind::Text,
};
const QUEUE: Parameter = Parameter {
    name: "queue",
    meaning: "Only those that came through this queue, or wait in it.",
    kind: ParameterKind::Text,
};
const LABEL: Parameter = Parameter {
    name: "search",
    meaning: "Only the one with this id, or those whose label has this in it, as it is written.",
    kind: ParameterKind::Text,
};
const INSTANCES: Parameter = Parameter {
    name: "limit",
    meaning:
        "At most so many: 200 unless said otherwise. Where the next ones are is in the reply's header `Link`.",
    kind: ParameterKind::Number(1, PAGE_MAX),
};
const BEHIND: Parameter = Parameter {
    name: "cursor",
    meaning: "Only what comes behind this place, as the header `Link` of the page before says it.",
    kind: ParameterKind::Text,
};
const ID: Parameter = Parameter { name: "id", meaning: "The id of the instance.", kind: ParameterKind::Text };

/// One kind of request.
#[derive(Debug)]
pub struct Endpoint {
    /// Which one.
    pub op: Op,
    /// Its method.
    pub method: Method,
    /// Its path, with `{name}` for a name.
    pub path: &'static str,
    /// What it does, for people.
    pub summary: &'static str,
    /// What can stand after the question mark.
    pub parameters: &'static [Parameter],
    /// Its body.
    pub(crate) body: fn(&mut Shapes) -> Option<Shape>,
    /// The body of its reply.
    pub(crate) reply: fn(&mut Shapes) -> Option<Shape>,
}

macro_rules! requests {
    ($($(#[doc = $summary:literal])+ $op:ident: $method:ident $path:literal $([$($parameter:ident),+])?, $body:ty => $reply:ty;)+) => {
        /// Which request.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Op {
            $($(#[doc = $summary])+ $op,)+
        }

        /// All requests, in the order of [`Op`].
        pub const ENDPOINTS: &[Endpoint] = &[
            $(Endpoint {
                op: Op::$op,
                method: Method::$method,
                path: $path,
                summary: concat!($($summary),+).trim_ascii(),
                parameters: &[$($($parameter),+)?],
                body: <$body>::shape,
                reply: <$reply>::shape,
            },)+
        ];

        impl Op {
            /// Its name in the OpenAPI document.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Op::$op => stringify!($op),)+
                }
            }
        }
    };
}

requests! {
    /// Whether the daemon answers.
    Health: GET "/healthz", Nothing => Plain;
    /// Whether branches can be leased now: the pools of all sources are in order.
    Ready: GET "/readyz", Nothing => Plain;
    /// The daemon's version.
    Version: GET "/version", Nothing => One<Version>;
    /// This interface, as OpenAPI 3.1.
    OpenApi: GET "/openapi.json", Nothing => Document;
    /// What the daemon counts, for Prometheus, as text of OpenMetrics 1.0.
    Metrics: GET "/metrics", Nothing => Figures;
    /// The daemon's state in figures.
    Status: GET "/v1/status", Nothing => One<model::Status>;
    /// All sources, by name.
    Sources: GET "/v1/sources" [LIMIT, CURSOR], Nothing => List<model::SourceView>;
    /// Imports a source. The reply is a stream of lines: steps, then the source or why there is none. Who accepts
    /// `text/event-stream` is told the same as server-sent events, named `step`, `done` and `failed`.
    AddSource: POST "/v1/sources", One<model::AddSource> => Lines<model::Progress>;
    /// One source.
    Source: GET "/v1/sources/{name}", Nothing => One<model::SourceView>;
    /// Forgets a source and deletes its snapshots.
    RemoveSource: DELETE "/v1/sources/{name}", Nothing => One<Removed>;
    /// Changes how a source's branches run.
    ChangeSettings: PATCH "/v1/sources/{name}/settings", One<model::ChangeSettings> => One<model::SourceView>;
    /// Imports the next generation of a source, with a reply like that of an import.
    RefreshSource: POST "/v1/sources/{name}/refresh", Nothing => Lines<model::Progress>;
    /// The generations of a source that there are, the earliest first.
    Generations: GET "/v1/sources/{name}/generations", Nothing => List<model::GenerationView>;
    /// Gives a generation of a source a label, by which it is kept, or takes one away.
    LabelGeneration: POST "/v1/sources/{name}/labels", One<model::LabelGeneration> => List<model::GenerationView>;
    /// What branches of a source can be made of: its generations, and snapshots of branches of it; the earliest first.
    Timeline: GET "/v1/sources/{name}/timeline", Nothing => List<model::Moment>;
    /// What two generations of a source define, compared: the changes, and the DDL from one to the other.
    GenerationDiff: GET "/v1/sources/{name}/schema-diff" [FROM, TO], Nothing => One<model::SchemaDiff>;
    /// Which rows of two generations of a source differ: a stream of lines. In them the branch is the generation `to`, and the
    /// snapshot the generation `from`.
    GenerationDataDiff: GET "/v1/sources/{name}/data-diff" [FROM, TO, TABLES, ROWS], Nothing => Lines<DataDiff>;
    /// Compares a snapshot's files with the digest of its import.
    VerifySource: POST "/v1/sources/{name}/verify", Nothing => One<model::SnapshotVerification>;
    /// The present state of the live source.
    FingerprintSource: POST "/v1/sources/{name}/fingerprint", Nothing => One<model::SourceFingerprint>;
    /// Columns that look personal and are not masked, with rules for them. The import looked for them, in its copy.
    ScanSource: GET "/v1/sources/{name}/scan", Nothing => One<model::Scan>;
    /// Proportional memory of idle hot branches of a source, in bytes.
    IdlePss: GET "/v1/sources/{name}/idle-pss" [SAMPLE], Nothing => Numbers;
    /// Leased branches, by name.
    Branches: GET "/v1/branches" [LIMIT, CURSOR], Nothing => List<model::BranchView>;
    /// Leases a branch. A name that is leased already gives the same branch again.
    CreateBranch: POST "/v1/branches", One<model::CreateBranch> => One<model::BranchView>;
    /// One leased branch.
    Branch: GET "/v1/branches/{name}", Nothing => One<model::BranchView>;
    /// Gives a branch back.
    DestroyBranch: DELETE "/v1/branches/{name}", Nothing => One<model::BranchView>;
    /// Runs one statement in a branch, or several in one transaction.
    Query: POST "/v1/branches/{name}/query", One<model::QueryRequest> => One<model::QueryReply>;
    /// Puts a branch back to its snapshot.
    ResetBranch: POST "/v1/branches/{name}/reset", Nothing => One<model::BranchView>;
    /// Which branch was made of which, and what each of them holds.
    BranchTree: GET "/v1/branch-tree" [LIMIT, CURSOR], Nothing => List<model::TreeNode>;
    /// The snapshots of a branch, the earliest first.
    Snapshots: GET "/v1/branches/{name}/snapshots", Nothing => List<model::SnapshotView>;
    /// Takes a snapshot of a branch, to which it can go back, and of which others can be made.
    TakeSnapshot: POST "/v1/branches/{name}/snapshots", One<model::TakeSnapshot> => One<model::SnapshotView>;
    /// Removes a snapshot of a branch. Branches that were made of it go on.
    RemoveSnapshot: DELETE "/v1/branches/{name}/snapshots" [SNAPSHOT], Nothing => One<model::SnapshotView>;
    /// Puts a branch back to one of its snapshots. What it held becomes a snapshot itself.
    RestoreBranch: POST "/v1/branches/{name}/restore", One<model::RestoreBranch> => One<model::BranchView>;
    /// Puts a branch back to what it was before it was last reset or restored.
    UndoBranch: POST "/v1/branches/{name}/undo", Nothing => One<model::BranchView>;
    /// Makes a branch, as it is now, the next generation of its source, with a reply like that of an import. The branch goes
    /// on.
    PromoteBranch: POST "/v1/branches/{name}/promote", One<model::PromoteBranch> => Lines<model::Progress>;
    /// Merges a branch into the one that it was made of: three ways, in one transaction, or tells the conflicts.
    MergeBranch: POST "/v1/branches/{name}/merge", One<model::MergeBranch> => One<model::MergeReport>;
    /// Moves the end of a lease.
    RenewBranch: POST "/v1/branches/{name}/renew", One<model::RenewBranch> => One<model::BranchView>;
    /// Protects a branch from destruction and expiry, or ends that.
    ProtectBranch: POST "/v1/branches/{name}/protect", One<model::ProtectBranch> => One<model::BranchView>;
    /// What is known of a branch and its source, for keeping.
    Evidence: GET "/v1/branches/{name}/evidence" [TABLE, DIFF], Nothing => One<model::BranchEvidence>;
    /// What a branch defines, compared with what it was made of or with another branch: the changes, and the DDL from the
    /// other side to the branch.
    SchemaDiff: GET "/v1/branches/{name}/schema-diff" [AGAINST], Nothing => One<model::SchemaDiff>;
    /// Which rows of a branch differ from those of its snapshot: a stream of lines.
    DataDiff: GET "/v1/branches/{name}/data-diff" [TABLES, ROWS, WHOLE], Nothing => Lines<DataDiff>;
    /// What a branch holds as it is now, to be restored elsewhere. A reply that breaks off is not whole.
    ExportBranch: GET "/v1/branches/{name}/export" [FORMAT, JOBS, QUIESCE], Nothing => Octets;
    /// The URL by which an administrator of the machine enters a branch.
    AdministratorUrl: GET "/v1/branches/{name}/administrator-url", Nothing => One<model::AdministratorUrl>;
    /// The sessions in a branch's server, the earliest first, with the statements that they run.
    BranchSessions: GET "/v1/branches/{name}/sessions", Nothing => List<model::BranchSession>;
    /// Cancels the statement of a session in a branch, or ends the session.
    CancelSession: POST "/v1/branches/{name}/sessions/cancel", One<model::CancelSession> => One<model::CancelledSession>;
    /// What happens from now on, or from a position on, out of the audit log: server-sent events whose names are those of its
    /// entries. Who is no administrator for all sources is told what happens to the branches and sources that it sees, and of
    /// each event its name, its time, the branch and the source. Their ids are positions, which a client that comes back sends as `Last-Event-ID`, and misses nothing.
    Events: GET "/v1/events" [AFTER, NAMES], Nothing => Stream;
    /// Entries of the audit log, the newest first.
    AuditLog: GET "/v1/audit" [ENTRIES, BEFORE], Nothing => List<model::AuditEntry>;
    /// Checks the whole audit log.
    VerifyAudit: POST "/v1/audit/verify", Nothing => One<model::AuditVerification>;
    /// Makes one branch without the pool, and measures it.
    MeasureCold: POST "/v1/measure/cold", One<MeasureCold> => One<model::ColdBranch>;
    /// Makes a primary and its standby on clones of a generation. They are there for as long as the reply is read: a stream of
    /// lines, `ready` among them, and one a second after it.
    MakePair: POST "/v1/pairs", One<model::MakePair> => Lines<model::PairLine>;
    /// What listens for holders of tokens.
    Doors: GET "/v1/doors", Nothing => One<DoorsView>;
    /// All tokens, by name.
    Tokens: GET "/v1/tokens" [LIMIT, CURSOR], Nothing => List<Token>;
    /// Makes a token. Its secret is in the reply, and nowhere else.
    CreateToken: POST "/v1/tokens", One<CreateToken> => One<NewToken>;
    /// Gives a token another secret, and ends what was entered with the old one.
    RotateToken: POST "/v1/tokens/{name}/rotate", Nothing => One<NewToken>;
    /// Brings a token back that is suspended because its fleet has it no more, with the secret that it had.
    RestoreToken: POST "/v1/tokens/{name}/restore", Nothing => One<Token>;
    /// Ends a token, and what was entered by it.
    RevokeToken: DELETE "/v1/tokens/{name}", Nothing => One<Token>;
    /// Makes a link that signs a browser in once, within 60 s.
    MakeConsoleLink: POST "/v1/console/links", One<MakeConsoleLink> => One<NewConsoleLink>;
    /// Signs a browser in, by a link or by the name and the secret of a token. The reply has a cookie, which is the session. Needs the
    /// header `X-Duramen-Console: 1`.
    SignIn: POST "/v1/session", One<SignIn> => Nothing;
    /// Whose session or token this is, and which requests it may make.
    Session: GET "/v1/session", Nothing => One<SessionView>;
    /// Ends the session, and what goes on in it.
    SignOut: DELETE "/v1/session", Nothing => Nothing;
    /// What is attached, by name.
    Attachments: GET "/v1/attachments" [LIMIT, CURSOR], Nothing => List<Attachment>;
    /// Attaches a database with durable functions, a store, a pack, or a directory of measurements, to be looked at.
    AddAttachment: POST "/v1/attachments", One<AddAttachment> => One<Attachment>;
    /// Takes an attachment away. What was attached stays as it is.
    RemoveAttachment: DELETE "/v1/attachments/{name}", Nothing => One<Attachment>;
    /// Runs of suites in an attached directory of measurements, the newest first.
    LabRuns: GET "/v1/attachments/{name}/runs" [SUITE], Nothing => One<LabRuns>;
    /// One run in an attached directory of measurements: figures, targets, checks and findings.
    LabRun: GET "/v1/attachments/{name}/run" [RUN], Nothing => One<LabReport>;
    /// Figures of a suite over its runs that are alike, in an attached directory of measurements, and what changed.
    LabSeries: GET "/v1/attachments/{name}/series" [OF_SUITE, MEASUREMENT], Nothing => One<LabHistory>;
    /// Runs of two variants in an attached directory of measurements, compared.
    LabComparison: GET "/v1/attachments/{name}/comparison" [RUNS_A, RUNS_B], Nothing => One<LabComparison>;
    /// Series of tries of which there are logs in an attached directory of measurements: what was kept, what was not, and why.
    LabExperiments: GET "/v1/attachments/{name}/experiments", Nothing => One<LabExperiments>;
    /// The branches of an attached store, or of a pack of a branch.
    StoreBranches: GET "/v1/attachments/{name}/store-branches", Nothing => One<StoreBranches>;
    /// What a branch of an attached store has: its spaces, the kinds of data in them, and collections.
    StoreContents: GET "/v1/attachments/{name}/store-contents" [STORE_BRANCH], Nothing => One<StoreContents>;
    /// Entries of an attached store, with the beginnings of their values.
    StoreEntries: GET "/v1/attachments/{name}/entries" [STORE_BRANCH, STORE_KIND, STORE_SPACE, STORE_COLLECTION, STORE_PREFIX, NEXT, AT_MOST], Nothing => One<StoreEntries>;
    /// One entry of an attached store, with up to 1 MiB of its value.
    StoreEntry: GET "/v1/attachments/{name}/entry" [STORE_BRANCH, STORE_KIND, STORE_SPACE, STORE_COLLECTION, STORE_KEY], Nothing => One<StoreEntry>;
    /// The states of a branch of an attached store that are retained, the newest first, 1,000 at most.
    StoreHistory: GET "/v1/attachments/{name}/store-history" [STORE_BRANCH], Nothing => One<StoreHistory>;
    /// What differs between two branches of an attached store.
    StoreDifference: GET "/v1/attachments/{name}/difference" [STORE_FROM, STORE_TO, STORE_KIND, STORE_SPACE, STORE_PREFIX, NEXT, AT_MOST], Nothing => One<StoreDifference>;
    /// What an attached pack or `.c1z` file holds.
    Pack: GET "/v1/attachments/{name}/pack", Nothing => One<PackView>;
    /// Resources and entitlements of an attached access graph, by names or ids.
    AccessSearch: GET "/v1/attachments/{name}/access-search" [SEARCH, AT_MOST], Nothing => One<AccessFound>;
    /// Who effectively has what in an attached access graph: what a principal holds, or who holds an entitlement or those of a resource.
    Access: GET "/v1/attachments/{name}/access" [PRINCIPAL_TYPE, PRINCIPAL, RESOURCE, ENTITLEMENT, NEXT, AT_MOST], Nothing => One<AccessPage>;
    /// Why a principal holds an entitlement in an attached access graph: the eight shortest paths of grants.
    AccessWhy: GET "/v1/attachments/{name}/access-why" [PRINCIPAL_TYPE, PRINCIPAL, ENTITLEMENT], Nothing => One<AccessWhy>;
    /// What goes on in an attached database with durable functions: instances by status, and who runs them.
    Functions: GET "/v1/attachments/{name}/functions", Nothing => One<FunctionsOverview>;
    /// Instances of durable functions in an attached database, the newest first.
    FunctionInstances: GET "/v1/attachments/{name}/instances" [STATUS, QUEUE, LABEL, INSTANCES, BEHIND], Nothing => List<FunctionInstance>;
    /// One instance of a durable function: its graph, its steps with their times and results, its parent and its children.
    FunctionInstance: GET "/v1/attachments/{name}/instance" [ID], Nothing => One<FunctionDetail>;
    /// Does something with one instance: cancels, signals, pauses, resumes, forks or deletes it.
    ControlFunction: POST "/v1/attachments/{name}/instance/control", One<ControlFunction> => One<ControlledFunction>;
    /// The queues of durable functions in an attached database: how full they are, and their limits.
    FunctionQueues: GET "/v1/attachments/{name}/queues", Nothing => List<FunctionQueue>;
    /// The schedules of durable functions in an attached database, with their next times.
    FunctionSchedules: GET "/v1/attachments/{name}/schedules", Nothing => List<FunctionSchedule>;
    /// The databases that run durable functions together with an attached one: each asked by itself.
    FunctionShards: GET "/v1/attachments/{name}/shards", Nothing => One<FunctionShards>;
    /// The nodes of the fleet that the daemon is in, as it sees them.
    Nodes: GET "/v1/nodes", Nothing => One<FleetView>;
    /// How the fleet is: every node that is registered and every member of etcd, each asked by itself.
    Cluster: GET "/v1/cluster", Nothing => One<ClusterView>;
    /// What the node of a fleet that is asked says of itself.
    NodeReport: GET "/v1/node", Nothing => One<NodeReport>;
    /// Has a node of the fleet take no new branches, or ends that. What is there goes on.
    DrainNode: POST "/v1/nodes/{name}/drain", One<DrainNode> => One<NodeChanged>;
    /// Forgets a node of the fleet that is not there, so that another home can have its name, and its branches' names are free.
    ForgetNode: DELETE "/v1/nodes/{name}", Nothing => One<NodeChanged>;
    /// Stops the daemon.
    Shutdown: POST "/v1/shutdown", Nothing => One<Stopping>;
    /// Ends the daemon, and leaves the servers of leased branches to the next one.
    HandOver: POST "/v1/handover", Nothing => One<Stopping>;
}

impl Endpoint {
    /// Whether a request can have an `Idempotency-Key`: it changes something, and its reply is short and no secret.
    #[must_use]
    pub fn takes_key(&self) -> bool {
        self.method != Method::GET
            && !matches!(
                self.op,
                Op::AddSource
                    | Op::RefreshSource
                    | Op::PromoteBranch
                    | Op::MakePair
                    | Op::CreateToken
                    | Op::RotateToken
                    | Op::MakeConsoleLink
                    | Op::SignIn
                    | Op::SignOut
                    | Op::Shutdown
                    | Op::HandOver
            )
    }
}

impl Op {
    /// What the list says of it.
    pub const fn endpoint(self) -> &'static Endpoint {
        &ENDPOINTS[self as usize]
    }
}

/// One request as its client makes it; the name and the parameter are as callers know them, not escaped.
#[derive(Debug, Clone, Copy)]
pub struct Route<'a> {
    op: Op,
    name: &'a str,
    /// Values of its parameters, in their order.
    values: [Option<&'a str>; VALUES_MAX],
}

/// Parameters of a request at most.
const VALUES_MAX: usize = 7;

impl<'a> Route<'a> {
    /// A request without a name in its path.
    pub fn to(op: Op) -> Route<'static> {
        Route { op, name: "", values: [None; VALUES_MAX] }
    }

    /// A request about what has a name.
    pub fn of(op: Op, name: &'a str) -> Route<'a> {
        Route { op, name, values: [None; VALUES_MAX] }
    }

    /// The same, with a value for its first parameter.
    pub fn with(self, value: &'a str) -> Route<'a> {
        self.at(0, value)
    }

    /// The same, with a value for its second parameter.
    pub fn and(self, value: &'a str) -> Route<'a> {
        self.at(1, value)
    }

    /// The same, with a value for its third parameter.
    pub fn also(self, value: &'a str) -> Route<'a> {
        self.at(2, value)
    }

    /// The same, with a value for its fourth parameter.
    pub fn besides(self, value: &'a str) -> Route<'a> {
        self.at(3, value)
    }

    /// The same, with values for parameters by their names. Names that the request does not have are passed over.
    ///
    /// # Examples
    /// ```
    /// use duramen_api::route::{Op, Route};
    /// let route = Route::of(Op::StoreEntries, "notes").given(&[("kind", "kv"), ("prefix", "user/")]);
    /// assert_eq!(route.path(), "/v1/attachments/notes/entries?kind=kv&prefix=user%2F");
    /// ```
    #[must_use]
    pub fn given(mut self, values: &[(&str, &'a str)]) -> Route<'a> {
        for (name, value) in values {
            let place = self.op.endpoint().parameters.iter().position(|parameter| parameter.name == *name);
            if let Some(place) = place {
                self = self.at(place, value);
            }
        }
        self
    }

    fn at(mut self, place: usize, value: &'a str) -> Route<'a> {
        self.values[place] = Some(value);
        self
    }

    /// The HTTP method.
    pub fn method(self) -> Method {
        self.op.endpoint().method.clone()
    }

    /// The path, with its names escaped, and the question mark with what follows if there is any.
    pub fn path(self) -> String {
        let mut path = String::with_capacity(64);
        match self.op.endpoint().path.split_once("{name}") {
            Some((before, after)) => {
                path.push_str(before);
                segment::escape(self.name, &mut path);
                path.push_str(after);
            }
            None => path.push_str(self.op.endpoint().path),
        }
        let mut mark = '?';
        for (parameter, value) in self.op.endpoint().parameters.iter().zip(self.values) {
            let Some(value) = value else { continue };
            path.push(mark);
            mark = '&';
            path.push_str(parameter.name);
            path.push('=');
            segment::escape(value, &mut path);
        }
        path
    }
}

/// As messages name a request: `POST /v1/branches`.
impl std::fmt::Display for Route<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.method(), self.path())
    }
}

#[cfg(test)]
#[path = "../tests/unit/routes.rs"]
mod tests;
