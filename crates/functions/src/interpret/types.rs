//! The words between the worker and the interpreter.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;

use crate::graph::{Graph, Waiting};
use crate::http::HttpCall;
use crate::interpret::state::Key;
use crate::json::Json;

/// The key of one activation of a node: its index and, inside the bodies of MAPs, the numbers of the items: `7`,
/// `7@3`, `7@3.1`.
///
/// Those of requests go on with a number, `7@3#2`, once the instance has dropped a request: the node may ask anew, and
/// what comes late for the dropped request must not be taken for an answer to the new one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cell(String);

impl Cell {
    /// A cell as it was written; `None` when the text is not a key.
    ///
    /// ```
    /// use duramen_functions::interpret::Cell;
    /// assert_eq!(Cell::parse("7@3.1").map(|cell| cell.node()), Some(7));
    /// assert_eq!(Cell::parse("seven"), None);
    /// ```
    pub fn parse(text: &str) -> Option<Cell> {
        read(text).map(|_| Cell(text.to_owned()))
    }

    /// The cell of a request.
    pub(super) fn asked(key: &Key, token: u64) -> Cell {
        Cell(if token == 0 { key.to_string() } else { format!("{key}#{token}") })
    }

    /// The activation, and which of its requests.
    pub(super) fn parts(&self) -> Option<(Key, u64)> {
        read(&self.0)
    }

    /// The key.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The index of the node.
    pub fn node(&self) -> u32 {
        read(&self.0).map_or(0, |(key, _)| key.node)
    }
}

fn read(text: &str) -> Option<(Key, u64)> {
    match text.split_once('#') {
        None => Some((Key::parse(text)?, 0)),
        // One text for one number.
        Some((key, token)) if token.starts_with(|digit: char| ('1'..='9').contains(&digit)) => {
            Some((Key::parse(key)?, token.parse().ok()?))
        }
        Some(_) => None,
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why a step or an instance failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What people read.
    pub message: String,
    /// The server's error code, when the server refused.
    pub sqlstate: Option<String>,
}

impl Failure {
    /// A failure that has no error code.
    pub fn new(message: impl Into<String>) -> Failure {
        Failure { message: message.into(), sqlstate: None }
    }
}

/// What surrounds a state: the same for all calls on it but for the time.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The instance's graph.
    pub graph: &'a Graph,
    /// Its public id: eight hexadecimal digits.
    pub instance_id: &'a str,
    /// Its label.
    pub label: Option<&'a str>,
    /// The variables as they were at the start.
    pub vars: &'a BTreeMap<String, String>,
    /// What the instance was started with: `$input`.
    pub input: Option<&'a Json>,
    /// Named results that a parent handed down.
    pub inherited: &'a BTreeMap<String, Json>,
    /// The time of this call.
    pub now: Timestamp,
    /// What chance is drawn from. It should not change while the instance lives.
    pub seed: u64,
}

/// Something that the worker is to do. Whatever it is, its result goes to `complete` with the same cell; except for
/// children, see there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Run a statement, and commit its effects with the state.
    Sql {
        /// Who asks.
        cell: Cell,
        /// The statement, complete.
        text: String,
    },
    /// Run a statement that the server refuses in a transaction.
    NonTransactional {
        /// Who asks.
        cell: Cell,
        /// The statement, complete.
        text: String,
    },
    /// Make an HTTP request.
    Http {
        /// Who asks.
        cell: Cell,
        /// The request, complete.
        request: HttpCall,
    },
    /// Let an outside worker do it. Its end comes as [`Event::Answer`].
    Task {
        /// Who asks.
        cell: Cell,
        /// What those look for who do it.
        name: String,
        /// What they are given.
        input: Json,
        /// After so many claims without an end, it fails.
        max_attempts: u32,
    },
    /// Start another instance and tell its id with `child_started`. If it is awaited, its end comes as
    /// [`Event::Child`].
    Child {
        /// Who asks.
        cell: Cell,
        /// The child's graph.
        graph: String,
        /// The child's label.
        label: Option<String>,
        /// Where it waits before it begins; `None`: nowhere.
        queue: Option<Waiting>,
        /// The named results that the child can see: a JSON object, the child's [`Context::inherited`].
        environment: Json,
        /// Whether this instance waits for the child, and takes it along when it is cancelled.
        awaited: bool,
    },
}

impl Request {
    /// Who asks.
    pub fn cell(&self) -> &Cell {
        match self {
            Request::Sql { cell, .. }
            | Request::NonTransactional { cell, .. }
            | Request::Http { cell, .. }
            | Request::Task { cell, .. }
            | Request::Child { cell, .. } => cell,
        }
    }
}

/// Something that happened to the instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Somebody sent a signal.
    Signal {
        /// Its name.
        name: String,
        /// What came with it.
        data: Json,
    },
    /// Somebody wants the instance to end.
    Cancel {
        /// Why.
        reason: String,
    },
    /// Nothing new is to begin.
    Pause,
    /// Go on after a pause.
    Resume,
    /// A child has ended.
    Child {
        /// Who asked for it.
        cell: Cell,
        /// How it ended.
        result: Result<Json, Failure>,
    },
    /// An outside worker has ended a task.
    Answer {
        /// Who asked for it.
        cell: Cell,
        /// How it ended.
        result: Result<Json, Failure>,
    },
    /// A child could not be started.
    ChildRefused {
        /// Who asked for it.
        cell: Cell,
        /// Why not.
        failure: Failure,
    },
}

/// How an instance ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// With the root's result.
    Completed(Json),
    /// With the failure that reached the root.
    Failed(Failure),
    /// Somebody cancelled it, for this reason.
    Cancelled(String),
}

/// How an execution ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExecutionStatus {
    /// And the instance with it, well.
    Completed,
    /// And the instance with it, badly.
    Failed,
    /// Another one followed.
    Continued,
    /// The instance was cancelled.
    Cancelled,
}

/// An execution that has ended: an iteration of a LOOP at the root, or the whole instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinishedExecution {
    /// Its number, from 1.
    pub execution: u64,
    /// How it ended.
    pub status: ExecutionStatus,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub ended_at: Timestamp,
    /// How many cells began or ended in it.
    pub event_count: u64,
    /// Its result, or the text of its failure or cancellation as a JSON string.
    pub output: Option<Json>,
}

/// A step that has ended: a statement, a call over HTTP, a task, a child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedStep {
    /// The cell that asked for it.
    pub cell: Cell,
    /// Execution and iterations of the loops around it: `1.3`.
    pub path: String,
    /// Which attempt of the nearest RETRY around it it was part of, from 1; `None`: there is none.
    pub attempt: Option<u32>,
    /// It was a child.
    pub is_child: bool,
    /// When it was asked for.
    pub asked_at: Timestamp,
    /// When it ended.
    pub ended_at: Timestamp,
    /// How it ended.
    pub end: StepEnd,
}

/// How a step ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepEnd {
    /// With a result; the status of the answer, if it was a call over HTTP.
    Completed {
        /// Such as 200.
        http_status: Option<u16>,
    },
    /// With a failure.
    Failed(Failure),
    /// Nobody needed its result any more: a race was lost, a time was over, the instance was cancelled.
    GivenUp,
}

/// What a call of `advance` came to.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// What to do.
    pub requests: Vec<Request>,
    /// How the instance ended, if it has.
    pub outcome: Option<Outcome>,
    /// When to call `advance` again though nothing happens; `None`: only an event or a result can matter.
    pub due_at: Option<Timestamp>,
    /// Executions that have ended.
    pub executions: Vec<FinishedExecution>,
    /// Requests of earlier calls whose results are not wanted any more: a race is lost, a time is over, the instance is
    /// cancelled. Also children that were asked for and have not been reported as started. The activations may begin anew
    /// at once, but then their requests have other cells.
    pub dropped: Vec<Cell>,
    /// Children to cancel, by their ids.
    pub dropped_children: Vec<String>,
    /// How many attempts of `df.retry` have failed and will be made again.
    pub retries: usize,
    /// Steps that have ended since the last call, if the state is observed.
    pub steps: Vec<EndedStep>,
}
