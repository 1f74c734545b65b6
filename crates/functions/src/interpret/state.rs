//! Where an instance stands: its cells, its named results, its signals, and what is to be done next.
//!
//! The document that [`State::to_json`] writes is the interpreter's own, but for what the views read of a cell: `s`,
//! `at`, `x`, and `r` or `e`; see the key `rc` in `document`.

mod document;
mod key;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::mem;
use std::ops::Range;
use std::sync::Arc;

use jiff::Timestamp;
use thiserror::Error;

use crate::interpret::revive::{Memo, Revival};
use crate::interpret::{
    Cell, Context, EndedStep, Event, Failure, FinishedExecution, Outcome, Progress, Request, Turn,
};
use crate::json::Json;
use crate::substitute::Environment;

pub(crate) use key::Key;

/// Why a state cannot be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StateError {
    /// The text is not a state's.
    #[error("the state of the instance cannot be read: {0}. Was its row written by hand?")]
    Json(#[from] serde_json::Error),
    /// Another version of this program wrote it.
    #[error(
        "the state of the instance has version {found} and this worker knows version 1: use a newer worker"
    )]
    Version {
        /// The version found.
        found: u32,
    },
    /// One part of it makes no sense.
    #[error("the state of the instance is damaged: {0}. Was its row written by hand?")]
    Damaged(String),
}

/// The state of one instance. See the module `interpret` for how it moves and what holds.
///
/// ```
/// # use std::collections::BTreeMap;
/// use duramen_functions::graph::Graph;
/// use duramen_functions::interpret::{Context, Outcome, Request, State};
/// use duramen_functions::json::Json;
///
/// let graph = Graph::parse(r#"[{"type":"SQL","query":"SELECT 1"}]"#)?;
/// let nothing = (BTreeMap::new(), BTreeMap::new());
/// let now = "2026-01-01T00:00:00Z".parse()?;
/// let cx = Context {
///     graph: &graph, instance_id: "0000002a", label: None, vars: &nothing.0, input: None, inherited: &nothing.1,
///     now, seed: 7,
/// };
/// let mut state = State::new(now);
/// let progress = state.advance(&cx);
/// let Request::Sql { cell, text } = &progress.requests[0] else { panic!() };
/// assert_eq!(text, "SELECT 1");
/// assert!(state.complete(&cx, cell, Ok(Json::parse("1")?)));
/// assert_eq!(state.advance(&cx).outcome, Some(Outcome::Completed(Json::parse("1")?)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct State {
    pub(crate) execution: u64,
    pub(crate) started_at: Timestamp,
    pub(crate) execution_started_at: Timestamp,
    /// Transitions of cells in this execution.
    pub(crate) events: u64,
    pub(crate) frames: BTreeMap<Key, Frame>,
    pub(crate) scopes: BTreeMap<Key, Scope>,
    /// Signals that no wait has taken, oldest first.
    pub(crate) signals: VecDeque<(String, Json)>,
    /// How many were thrown away because too many were kept.
    pub(crate) signals_lost: u64,
    /// What this turn still has to do, the next thing last.
    pub(crate) stack: Vec<Task>,
    /// What happened outside, the first thing first.
    pub(crate) inbox: VecDeque<Task>,
    /// How many requests were dropped after they were given: the number of those that follow.
    pub(crate) dropped: u64,
    pub(crate) paused: bool,
    pub(crate) cancel: Option<String>,
    pub(crate) outcome: Option<Outcome>,
    /// How to undo what was done, the earliest first: the cell that does it, and the names that it sees.
    pub(crate) undo: Vec<(Key, Json)>,
    /// The outcome that waits until everything is undone.
    pub(crate) undoing: Option<Outcome>,
    /// How many steps were undone.
    pub(crate) undone: u64,
    /// The end that the first turn takes up.
    pub(crate) revival: Option<Revival>,
    pub(crate) memory: Memory,
}

/// What can be told from the rest and is not written.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// `due` of all frames.
    pub(crate) timers: BTreeSet<(Timestamp, Key)>,
    /// Waits for signals.
    pub(crate) waits: BTreeSet<Key>,
    /// The environment for substitutions, made at the first one. Its results are those of whoever asks.
    pub(crate) environment: Option<Environment>,
    /// Whether the frames were compared with the graph.
    pub(crate) checked: bool,
    pub(crate) out: Output,
    /// Somebody wants to know which steps have ended.
    pub(crate) is_observed: bool,
    /// Bytes of results that have come since they were last counted.
    pub(crate) admitted: usize,
    /// What an earlier life has completed: for the first turn.
    pub(crate) memo: Option<Memo>,
}

/// What a turn gives, while it is being made.
#[derive(Debug, Default)]
pub(crate) struct Output {
    /// `None`: taken back.
    pub(crate) requests: Vec<Option<Request>>,
    /// Where the request of an activation stands.
    pub(crate) places: BTreeMap<Key, usize>,
    /// Of the texts of the requests.
    pub(crate) bytes: usize,
    pub(crate) executions: Vec<FinishedExecution>,
    pub(crate) dropped: Vec<Cell>,
    pub(crate) dropped_children: Vec<String>,
    /// Attempts of RETRY that failed and are made again.
    pub(crate) retries: usize,
    /// Steps that ended, if the state is observed.
    pub(crate) steps: Vec<EndedStep>,
}

/// Something to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// Begin an activation.
    Start(Key),
    /// Report to the parent that this activation has ended.
    Ended(Key),
    /// Go on behind a child that was started and is not awaited.
    ChildStarted(Key),
}

impl Task {
    pub(crate) fn key(&self) -> &Key {
        match self {
            Task::Start(key) | Task::Ended(key) | Task::ChildStarted(key) => key,
        }
    }
}

/// A cell: one activation of a node.
#[derive(Debug)]
pub(crate) struct Frame {
    /// When it last changed.
    pub(crate) at: Timestamp,
    /// Execution and iterations: `1.3`.
    pub(crate) path: Arc<str>,
    pub(crate) status: Status,
    /// Its parent knows that it has ended. Not written: whoever does not has an entry in one of the lists.
    pub(crate) reported: bool,
    /// When its timer fires.
    pub(crate) due: Option<Timestamp>,
    pub(crate) control: Control,
}

#[derive(Clone, Debug)]
pub(crate) enum Status {
    Running,
    Completed(Json),
    Failed(Arc<Fault>),
}

/// A failure and where it came from. Shared by all the cells that it went through.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) failure: Failure,
    pub(crate) origin: Key,
}

/// What a running cell has to remember.
#[derive(Debug, Default)]
pub(crate) enum Control {
    #[default]
    Plain,
    /// A request was made, with this number.
    Asked {
        token: u64,
    },
    /// A child was asked for, and has this id if it has been started.
    Child {
        token: u64,
        awaited: bool,
        instance_id: Option<String>,
    },
    /// It waits for a signal.
    Wait,
    /// So many branches have not ended.
    Join {
        open: u32,
    },
    /// Which iteration it is, and when it began.
    Loop {
        iteration: u32,
        began: Timestamp,
    },
    /// Which attempt it is.
    Retry {
        attempt: u32,
    },
    /// The handler runs; before it, `$error` was this.
    Handler {
        before: Option<Json>,
    },
    Map(Box<MapProgress>),
}

/// How far a MAP has come.
#[derive(Debug, Default)]
pub(crate) struct MapProgress {
    /// The first item that has not begun.
    pub(crate) next: u32,
    /// How many run.
    pub(crate) open: u32,
    /// The lowest item that failed.
    pub(crate) failed: Option<u32>,
    /// The item that completed last: its cells are left standing for people to see, those of others are not.
    pub(crate) last_done: Option<u32>,
    /// The results so far.
    pub(crate) done: BTreeMap<u32, Json>,
    /// Where the rows lie in the text of the items; empty until they are needed (again).
    pub(crate) rows: Vec<Range<usize>>,
}

/// The results named in one scope.
#[derive(Debug, Default)]
pub(crate) struct Scope {
    pub(crate) own: BTreeMap<String, Json>,
    /// These and all that can be seen from outside; made when it is first asked for.
    pub(crate) visible: Option<BTreeMap<String, Json>>,
}

impl State {
    /// The state of an instance that begins now.
    pub fn new(started_at: Timestamp) -> State {
        State {
            execution: 1,
            started_at,
            execution_started_at: started_at,
            events: 0,
            frames: BTreeMap::new(),
            scopes: BTreeMap::from([(Key::ROOT, Scope::default())]),
            signals: VecDeque::new(),
            signals_lost: 0,
            stack: vec![Task::Start(Key::ROOT)],
            inbox: VecDeque::new(),
            dropped: 0,
            paused: false,
            cancel: None,
            outcome: None,
            undo: Vec::new(),
            undoing: None,
            undone: 0,
            revival: None,
            memory: Memory { checked: true, ..Memory::default() },
        }
    }

    /// Reads what [`State::to_json`] wrote.
    ///
    /// # Errors
    /// When it is not JSON, has another version, or is damaged.
    pub fn from_json(json: &str) -> Result<State, StateError> {
        document::read(json)
    }

    /// The state as a JSON document.
    pub fn to_json(&self) -> String {
        document::write(self)
    }

    /// The number of the running execution, from 1; more than 1 only when a LOOP is the root.
    pub fn execution(&self) -> u64 {
        self.execution
    }

    /// Whether the instance is paused.
    pub fn paused(&self) -> bool {
        self.paused
    }

    /// When the instance began.
    pub fn started_at(&self) -> Timestamp {
        self.started_at
    }

    /// When the running execution began.
    pub fn execution_started_at(&self) -> Timestamp {
        self.execution_started_at
    }

    /// How many signals were thrown away because too many waited to be taken.
    pub fn signals_lost(&self) -> u64 {
        self.signals_lost
    }

    /// The cells whose requests were given and have neither a result nor been dropped, in the order of their keys.
    pub fn outstanding(&self) -> Vec<Cell> {
        self.frames.iter().filter_map(|(key, frame)| frame.control.asked(key)).collect()
    }

    /// From now on [`Progress::steps`] tells of steps that have ended. It is not written.
    pub fn observe(&mut self) {
        self.memory.is_observed = true;
    }

    /// Takes the steps that have ended since the last call of [`State::advance`].
    pub fn take_steps(&mut self) -> Vec<EndedStep> {
        mem::take(&mut self.memory.out.steps)
    }

    /// When the request of this cell was made, if it has not ended.
    pub fn asked_at(&self, cell: &Cell) -> Option<Timestamp> {
        let (key, _) = cell.parts()?;
        self.frames.get(&key).filter(|frame| frame.running()).map(|frame| frame.at)
    }

    /// Takes in something that happened. What follows from it shows at the next [`State::advance`].
    pub fn event(&mut self, cx: &Context<'_>, event: Event) {
        if let Some(mut turn) = Turn::new(self, cx) {
            turn.event(event);
        }
    }

    /// Goes as far as possible without waiting. To be called again after `complete` and `event`, and when it is due.
    pub fn advance(&mut self, cx: &Context<'_>) -> Progress {
        Turn::advance(self, cx)
    }

    /// Takes in the result of a request. `false`: the cell does not wait for it, or not any more.
    pub fn complete(&mut self, cx: &Context<'_>, cell: &Cell, result: Result<Json, Failure>) -> bool {
        Turn::new(self, cx).is_some_and(|mut turn| turn.complete(cell, result))
    }

    /// Takes in the id of a child that was asked for. One that is not awaited is thereby completed.
    pub fn child_started(&mut self, cell: &Cell, instance_id: &str) {
        let Some((key, number)) = cell.parts() else { return };
        let Some(frame) = self.frames.get_mut(&key) else { return };
        match &mut frame.control {
            Control::Child { token, awaited, instance_id: id @ None } if *token == number => {
                *id = Some(instance_id.to_owned());
                if !*awaited && self.outcome.is_none() {
                    self.inbox.push_back(Task::ChildStarted(key));
                }
            }
            _ => {}
        }
    }
}

impl Control {
    /// The cell of the request that was made for this activation.
    pub(crate) fn asked(&self, key: &Key) -> Option<Cell> {
        match self {
            Control::Asked { token } | Control::Child { token, .. } => Some(Cell::asked(key, *token)),
            _ => None,
        }
    }
}

impl Frame {
    pub(crate) fn running(&self) -> bool {
        matches!(self.status, Status::Running)
    }
}
