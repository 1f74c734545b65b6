//! Durable functions of a database that is attached: instances, what goes on in one, queues and schedules. What they are is in
//! `docs/functions.md`; all of it is what the role of the attachment's URL sees.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `GET /v1/attachments/{name}/functions`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FunctionsOverview {
    /// The database.
    pub database: String,
    /// The role that looks.
    pub role: String,
    /// Whether it sees the instances of all roles, and not only its own.
    pub sees_all: bool,
    /// The version of the schema `df`.
    pub schema_version: i32,
    /// When this was so, by the server's clock.
    pub at: Timestamp,
    /// Instances by status.
    pub counts: FunctionCounts,
    /// For how long the oldest that is pending has waited, in seconds.
    pub oldest_pending_s: Option<f64>,
    /// Long steps, HTTP calls and the like, waiting or running.
    pub activities: FunctionCount,
    /// Those of them that run.
    pub activities_running: FunctionCount,
    /// Who runs instances; absent where the role may not see them.
    pub workers: Option<Vec<FunctionWorker>>,
}

/// How many there are, as far as is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FunctionCount {
    /// So many.
    pub count: i64,
    /// There are more, and they were not counted.
    pub more: bool,
}

/// Instances by status.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FunctionCounts {
    /// No worker has begun them.
    pub pending: FunctionCount,
    /// They have begun.
    pub running: FunctionCount,
    /// They have a result.
    pub completed: FunctionCount,
    /// A step failed.
    pub failed: FunctionCount,
    /// They were ended from outside.
    pub cancelled: FunctionCount,
}

/// A worker of durable functions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FunctionWorker {
    /// Its id.
    pub id: String,
    /// Where it runs.
    pub host: Option<String>,
    /// For how long it has been there, in seconds.
    pub alive_s: f64,
    /// When it was last heard of, in seconds ago.
    pub last_seen_s: f64,
}

/// An instance as a list shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FunctionInstance {
    /// Its id.
    pub id: String,
    /// Its label.
    pub label: Option<String>,
    /// `pending`, `running`, `completed`, `failed` or `cancelled`.
    pub status: String,
    /// It begins no further step until it is resumed.
    pub paused: bool,
    /// The queue that it came through, or waits in.
    pub queue: Option<String>,
    /// Who started it.
    pub role: Option<String>,
    /// Which round of its root loop it is in, from 1.
    pub execution: i64,
    /// When it was started.
    pub created_at: Timestamp,
    /// When a worker began it.
    pub begun_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// Until when its queue does not let it in.
    pub delayed_until: Option<Timestamp>,
    /// Another instance has started it.
    pub is_child: bool,
    /// Why it failed or was cancelled: the first 300 bytes.
    pub reason: Option<String>,
    /// The step that it is at or waits for, if it goes on and its state is small.
    pub at: Option<FunctionAt>,
}

/// Where an instance is that goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FunctionAt {
    /// The type of the node: `SQL`, `SLEEP`, `SIGNAL` and so on.
    pub node_type: String,
    /// Its text, or its settings as JSON: the first 300 bytes.
    pub query: Option<String>,
    /// The name of its result.
    pub name: Option<String>,
    /// Since when.
    pub since: Option<Timestamp>,
    /// When its timer fires.
    pub due_at: Option<Timestamp>,
    /// Which attempt it is, of a retry that waits for its next one.
    pub attempt: Option<u32>,
}

/// A text that may be cut: at 65,536 bytes, or shorter where there are many.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FunctionValue {
    /// The text, or its beginning.
    pub text: String,
    /// How many bytes the whole of it has.
    pub bytes: u64,
    /// Whether something of it is missing.
    pub cut: bool,
}

/// `GET /v1/attachments/{name}/instance`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FunctionDetail {
    /// Its id.
    pub id: String,
    /// Its label.
    pub label: Option<String>,
    /// `pending`, `running`, `completed`, `failed` or `cancelled`.
    pub status: String,
    /// It begins no further step until it is resumed.
    pub paused: bool,
    /// Who started it.
    pub role: String,
    /// Where its steps run.
    pub database: String,
    /// The queue that it came through, or waits in.
    pub queue: Option<String>,
    /// When it was started.
    pub created_at: Timestamp,
    /// When a worker began it.
    pub begun_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// When it last changed.
    pub changed_at: Timestamp,
    /// When its next timer fires.
    pub due_at: Option<Timestamp>,
    /// Until when its queue does not let it in.
    pub delayed_until: Option<Timestamp>,
    /// Which round of its root loop it is in, from 1.
    pub execution: i64,
    /// What it was started with: JSON.
    pub input: Option<FunctionValue>,
    /// The variables that it was started with: a JSON object.
    pub variables: Option<FunctionValue>,
    /// Its result, if it has completed: JSON.
    pub result: Option<FunctionValue>,
    /// Why it failed or was cancelled: text.
    pub reason: Option<FunctionValue>,
    /// The instance that has started it.
    pub parent: Option<String>,
    /// The instances that it has started, the earliest first, as far as they were looked for: at most 200.
    pub children: Vec<FunctionChild>,
    /// Its nodes, in the order of the graph: the root is the first. At most 10,000.
    pub nodes: Vec<FunctionNode>,
    /// How they hang together: a tree.
    pub edges: Vec<FunctionEdge>,
    /// Activations of nodes, in the order in which they began. At most 20,000.
    pub steps: Vec<FunctionStep>,
    /// Steps that wait or run outside of turns, and tasks. At most 200, as the lists below.
    pub activities: Vec<FunctionActivity>,
    /// Signals that no wait has taken.
    pub signals: Vec<FunctionSignal>,
    /// What it has told whoever asks.
    pub events: Vec<FunctionEvent>,
    /// Rounds of its root loop, the newest first.
    pub executions: Vec<FunctionExecution>,
    /// Why its graph cannot be shown.
    pub problem: Option<String>,
    /// When this was so, by the server's clock.
    pub at: Timestamp,
}

/// A node of an instance's graph.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FunctionNode {
    /// Its id.
    pub id: String,
    /// Its type: `SQL`, `THEN`, `SIGNAL` and so on.
    pub node_type: String,
    /// The name of its result.
    pub name: Option<String>,
    /// Its text, or its settings as JSON.
    pub query: Option<FunctionValue>,
    /// `pending`, `running`, `completed` or `failed`: how it last stood.
    pub status: String,
    /// What the status is taken for in view of the nodes above it: `skipped` too.
    pub inferred_status: String,
    /// The node that decided it.
    pub inferred_from: Option<String>,
    /// Its result as JSON; the text of its failure as a JSON string.
    pub result: Option<FunctionValue>,
    /// When it last changed.
    pub updated_at: Timestamp,
}

/// That one node stands below another. Nodes are told by their places in the list, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FunctionEdge {
    /// The node above.
    pub from: usize,
    /// The node below.
    pub to: usize,
    /// Which child it is.
    pub slot: FunctionSlot,
}

/// Which child of its parent a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FunctionSlot {
    /// What is asked or gone through first.
    Condition,
    /// The first one, or the body.
    Left,
    /// The second one, the handler, or what undoes a step.
    Right,
    /// One more branch.
    Extra,
}

/// One activation of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FunctionStep {
    /// The activation: the node's place, and within bodies of maps the numbers of the items: `7@3`.
    pub cell: String,
    /// The place of the node in the list of nodes.
    pub node: usize,
    /// The numbers of the items, if it stands in the body of a map.
    pub items: Option<String>,
    /// The rounds of the loops around it, the outermost first, behind the instance's own: `1.3`.
    pub round: Option<String>,
    /// `running`, `completed` or `failed`.
    pub status: String,
    /// When it began, as what came before it tells; absent where that is not kept.
    pub begun_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// When its timer fires.
    pub due_at: Option<Timestamp>,
    /// Of a retry that goes on: which attempt it is at.
    pub attempt: Option<u32>,
    /// Of a loop that goes on: in which round it is.
    pub iteration: Option<u32>,
    /// The instance that it has started and waits for.
    pub child: Option<String>,
    /// The error code of its failure.
    pub sqlstate: Option<String>,
    /// The activation whose failure it has passed on.
    pub origin: Option<String>,
    /// Of a map that goes on: how many items have begun.
    pub items_begun: Option<u32>,
    /// Of a map that goes on: how many items run.
    pub items_running: Option<u32>,
}

/// A step that waits or runs outside of turns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FunctionActivity {
    /// The activation.
    pub cell: String,
    /// `sql`, `bare` (a statement that refuses transactions), `http` or `task`.
    pub kind: String,
    /// The name of a task.
    pub name: Option<String>,
    /// How often it was begun.
    pub attempt: i32,
    /// How often a task is begun at most.
    pub attempts_max: Option<i32>,
    /// Since when it waits.
    pub queued_at: Timestamp,
    /// Since when a worker runs it.
    pub taken_at: Option<Timestamp>,
    /// Until when nobody else may claim a task.
    pub leased_until: Option<Timestamp>,
    /// Who runs it.
    pub worker: Option<String>,
}

/// A signal that no wait has taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FunctionSignal {
    /// Its name.
    pub name: String,
    /// When it was sent, if no worker has read it yet.
    pub sent_at: Option<Timestamp>,
    /// What came with it: the first 1,000 characters of JSON.
    pub data: Option<FunctionValue>,
}

/// What an instance has told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FunctionEvent {
    /// Under which key.
    pub key: String,
    /// What: the first 1,000 characters of JSON.
    pub value: Option<FunctionValue>,
    /// When.
    pub set_at: Timestamp,
}

/// A round of an instance's root loop; of one without a loop, all of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FunctionExecution {
    /// Its number, from 1.
    pub execution: i64,
    /// `Completed`, `Failed`, `Cancelled`, `ContinuedAsNew`, `Running` or `Pending`.
    pub status: String,
    /// How many activations began or ended in it.
    pub events: i64,
    /// How long it took, or has taken until now, in milliseconds.
    pub duration_ms: Option<i64>,
    /// Its result, or the text of its failure: the first 1,000 characters.
    pub output: Option<FunctionValue>,
}

/// An instance that another one has started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FunctionChild {
    /// Its id.
    pub id: String,
    /// Its label.
    pub label: Option<String>,
    /// How it stands.
    pub status: Option<String>,
    /// When it was started.
    pub created_at: Timestamp,
    /// The activation that has started it.
    pub cell: Option<String>,
}

/// A queue of durable functions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FunctionQueue {
    /// Its name.
    pub name: String,
    /// Whose it is.
    pub role: String,
    /// `open`, `paused` or `draining`.
    pub state: String,
    /// How many of its instances may go on at once.
    pub concurrency: Option<i32>,
    /// How many of their long steps one worker may run at once.
    pub worker_concurrency: Option<i32>,
    /// How many may begin within `per_s`.
    pub rate: Option<i32>,
    /// The time that the rate is for, in seconds.
    pub per_s: Option<f64>,
    /// The key of the input that says to which partition an instance belongs.
    pub partition_by: Option<String>,
    /// How many of one partition may go on at once.
    pub partition_concurrency: Option<i32>,
    /// How many wait to be let in.
    pub waiting: i64,
    /// How many wait for their time.
    pub delayed: i64,
    /// For how long the oldest has waited to be let in, in seconds.
    pub oldest_s: Option<f64>,
    /// How many were let in and have not ended.
    pub running: i64,
    /// How many were let in within the time of the rate; absent without a rate.
    pub admitted: Option<i64>,
}

/// `GET /v1/attachments/{name}/shards`: the databases that run functions together with this one, each asked by itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FunctionShards {
    /// The version of the list that this database knows; 0: it belongs to no cluster.
    pub version: i64,
    /// Which of the shards it is.
    pub here: Option<u16>,
    /// The shards that are served, in the order of their numbers.
    pub shards: Vec<FunctionShard>,
}

/// One of several databases that run functions together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FunctionShard {
    /// Its number.
    pub shard: u16,
    /// `open`: it takes new instances; `draining`: it takes none.
    pub state: String,
    /// Where it is, without role and password.
    pub place: String,
    /// What it has; absent if it does not answer.
    pub has: Option<FunctionShardCounts>,
    /// Why it does not.
    pub problem: Option<String>,
}

/// What a shard has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FunctionShardCounts {
    /// The version of the list that it knows.
    pub version: i64,
    /// Instances that have not begun.
    pub pending: i64,
    /// Instances that have begun, and not ended.
    pub running: i64,
    /// Workers that have been heard of within 20 seconds.
    pub workers: i64,
    /// For how long the oldest that is pending has waited, in seconds.
    pub oldest_s: Option<f64>,
    /// Whether a commit is on a standby before it is acknowledged; absent where the role may not see that.
    pub synchronous: Option<bool>,
}

/// What is started at which times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FunctionSchedule {
    /// Its name.
    pub name: String,
    /// Whose it is.
    pub role: String,
    /// The times, in five fields.
    pub cron: Option<String>,
    /// The time zone of `cron`.
    pub time_zone: String,
    /// Or an interval, in seconds.
    pub every_s: Option<f64>,
    /// What happens when the instance before still goes on: `skip`, `allow`, `buffer` or `cancel`.
    pub overlap: String,
    /// The queue in which its instances wait.
    pub queue: Option<String>,
    /// It starts nothing.
    pub paused: bool,
    /// The next times, the first with its jitter and those behind it without. At most five.
    pub next: Vec<Timestamp>,
    /// The last time that it started one.
    pub last_at: Option<Timestamp>,
    /// The instance that it started last.
    pub last_id: Option<String>,
    /// How that one stands.
    pub last_status: Option<String>,
    /// How many it has started.
    pub started: i64,
    /// How many times it has skipped.
    pub skipped: i64,
}

/// `POST /v1/attachments/{name}/instance/control`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ControlFunction {
    /// The instance.
    pub id: String,
    /// What to do.
    pub action: FunctionAction,
    /// Of `cancel`: why. The instance keeps it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Of `signal`, which needs it: the name of the signal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// Of `signal`: what goes with it, JSON or text. `{}` unless it is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
    /// Of `fork`: the step that is done again, and what follows it: a node's id, or the name of a result. Where the
    /// instance failed, unless it is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Of `fork`: the label of the new instance. That of the first, unless it is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

/// What can be done with an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FunctionAction {
    /// End it, its running statement and its children.
    Cancel,
    /// Send it a signal, which is kept until it waits for it.
    Signal,
    /// Let it begin no further step. What runs already runs to its end.
    Pause,
    /// Go on with one that is paused; or with one that failed or was cancelled, from what did not complete.
    Resume,
    /// Start another one with what one that has ended has completed.
    Fork,
    /// Delete one that has ended, with its history.
    Delete,
}

/// What was done with an instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ControlledFunction {
    /// The instance.
    pub id: String,
    /// What was done, in words.
    pub message: String,
    /// How the instance stood before a cancellation: one that had ended stays as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_before: Option<String>,
    /// The instance that a fork has made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork: Option<String>,
}
