//! An instance with a clock that a test turns, and a worker that answers when told to.
//!
//! After every call it looks whether the invariants hold.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::build::N;
use crate::graph::{Graph, Kind};
use crate::interpret::state::{Control, Frame, Key, Task};
use crate::interpret::{
    Cell, Context, EndedStep, Event, Failure, Outcome, Progress, Request, State, StepEnd,
};
use crate::json::Json;

pub(super) struct World {
    pub(super) graph: Graph,
    pub(super) state: State,
    pub(super) now: Timestamp,
    pub(super) vars: BTreeMap<String, String>,
    pub(super) input: Option<Json>,
    pub(super) inherited: BTreeMap<String, Json>,
    pub(super) seed: u64,
    /// Requests that were given and neither answered nor dropped, in the order in which they were given.
    pub(super) pending: Vec<Request>,
    /// Cells of requests that were given, and of whose end the state has not told.
    untold: BTreeSet<Cell>,
    /// Steps whose end the state has told.
    pub(super) told: Vec<EndedStep>,
    /// Write and read the state before every call.
    pub(super) reloads: bool,
    /// Whether to look at every invariant after every call: it costs as much as the state is large.
    pub(super) checks: bool,
}

/// Runs a test on a graph twice: with the state in memory, and with one that is written and read before every call
/// (I-15).
pub(super) fn each(graph: &N, test: impl Fn(&mut World)) {
    for reloads in [false, true] {
        let mut world = World::new(graph);
        world.reloads = reloads;
        test(&mut world);
    }
}

pub(super) fn start_of_time() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

pub(super) fn json(text: &str) -> Json {
    Json::parse(text).unwrap()
}

/// A result set of one row and one column.
pub(super) fn one(value: &str) -> Json {
    json(&format!(r#"{{"rows":[{{"v":{value}}}],"row_count":1}}"#))
}

/// A result set with these values in its only column.
pub(super) fn rows(values: &[&str]) -> Json {
    let rows: Vec<String> = values.iter().map(|value| format!(r#"{{"v":{value}}}"#)).collect();
    json(&format!(r#"{{"rows":[{}],"row_count":{}}}"#, rows.join(","), values.len()))
}

impl World {
    pub(super) fn new(graph: &N) -> World {
        World {
            graph: Graph::parse(&graph.json()).unwrap(),
            state: State::new(start_of_time()),
            now: start_of_time(),
            vars: BTreeMap::new(),
            input: None,
            inherited: BTreeMap::new(),
            seed: 1,
            pending: Vec::new(),
            untold: BTreeSet::new(),
            told: Vec::new(),
            reloads: false,
            checks: true,
        }
    }

    /// One call on the state.
    pub(super) fn with<T>(&mut self, call: impl FnOnce(&mut State, &Context<'_>) -> T) -> T {
        if self.reloads {
            self.reload();
        }
        let context = Context {
            graph: &self.graph,
            instance_id: "0000002a",
            label: Some("test"),
            vars: &self.vars,
            input: self.input.as_ref(),
            inherited: &self.inherited,
            now: self.now,
            seed: self.seed,
        };
        // Tests replace the state.
        self.state.observe();
        let result = call(&mut self.state, &context);
        let steps = self.state.take_steps();
        self.hear(steps);
        if self.checks {
            self.check();
        }
        result
    }

    pub(super) fn reload(&mut self) {
        let text = self.state.to_json();
        self.state = State::from_json(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        assert_eq!(self.state.to_json(), text, "I-15: what was read is what was written");
    }

    fn hear(&mut self, steps: Vec<EndedStep>) {
        for step in &steps {
            let was_given = self.untold.remove(&step.cell);
            let failed_at_once = matches!(step.end, StepEnd::Failed(_)) && step.asked_at == self.now;
            assert!(was_given || failed_at_once, "I-22: {step:?} was not asked for, or is told of again");
        }
        self.told.extend(steps);
    }

    pub(super) fn advance(&mut self) -> Progress {
        let progress = self.with(|state, cx| state.advance(cx));
        for cell in &progress.dropped {
            let place = self.pending.iter().position(|pending| pending.cell() == cell);
            self.pending.remove(place.unwrap_or_else(|| panic!("I-2: {cell} was dropped and never given")));
        }
        let children = progress.dropped_children.len();
        let before = self.pending.len();
        if children > 0 {
            let waits = self.state.outstanding();
            self.pending.retain(|pending| waits.contains(pending.cell()));
        }
        assert_eq!(before - self.pending.len(), children, "I-1: children that are cancelled were pending");
        for request in &progress.requests {
            let known = self.pending.iter().any(|pending| pending.cell() == request.cell());
            assert!(!known, "I-1: {} was asked for twice", request.cell());
            self.pending.push(request.clone());
        }
        self.hear(progress.steps.clone());
        self.untold.extend(progress.requests.iter().map(|request| request.cell().clone()));
        let asked: BTreeSet<Cell> = match progress.outcome {
            Some(_) => BTreeSet::new(),
            None => self.state.outstanding().into_iter().collect(),
        };
        assert_eq!(self.untold, asked, "I-22: what was given is told of when it ends, and not before");
        progress
    }

    /// Advances after so many seconds.
    pub(super) fn after(&mut self, seconds: f64) -> Progress {
        self.now += SignedDuration::try_from_secs_f64(seconds).unwrap();
        self.advance()
    }

    /// What the pending statements and calls are, in the order in which they were asked for.
    pub(super) fn texts(&self) -> Vec<String> {
        self.pending.iter().map(text_of).collect()
    }

    /// Answers the first pending request with this text, without going on.
    pub(super) fn reply(&mut self, text: &str, result: Result<Json, Failure>) -> bool {
        let place = self.pending.iter().position(|request| text_of(request) == text);
        let request =
            self.pending.remove(place.unwrap_or_else(|| panic!("{text:?} is not in {:?}", self.texts())));
        self.reply_to_cell(request.cell(), result)
    }

    pub(super) fn reply_to_cell(&mut self, cell: &Cell, result: Result<Json, Failure>) -> bool {
        self.with(|state, cx| state.complete(cx, cell, result))
    }

    /// Answers with a value and goes on.
    pub(super) fn ok(&mut self, text: &str, value: &str) -> Progress {
        assert!(self.reply(text, Ok(one(value))));
        self.advance()
    }

    /// Answers with a failure and goes on.
    pub(super) fn fail(&mut self, text: &str, message: &str) -> Progress {
        assert!(self.reply(text, Err(Failure::new(message))));
        self.advance()
    }

    pub(super) fn event(&mut self, event: Event) -> Progress {
        self.with(|state, cx| state.event(cx, event));
        self.advance()
    }

    pub(super) fn signal(&mut self, name: &str, data: &str) -> Progress {
        self.event(Event::Signal { name: name.to_owned(), data: json(data) })
    }

    /// A cell of the written state, as the views see it.
    pub(super) fn cell(&self, cell: &str) -> Option<Json> {
        json(&self.state.to_json()).field("cells")?.field(cell)
    }

    pub(super) fn status(&self, cell: &str) -> Option<String> {
        serde_json::from_str(self.cell(cell)?.field("s")?.text()).unwrap()
    }

    pub(super) fn path(&self, cell: &str) -> Option<String> {
        serde_json::from_str(self.cell(cell)?.field("x")?.text()).unwrap()
    }

    /// The invariants that can be seen in a state.
    fn check(&self) {
        let state = &self.state;
        if state.outcome.is_some() {
            assert!(
                state.stack.is_empty() && state.inbox.is_empty(),
                "I-14: nothing is left to do after the end"
            );
            assert!(state.frames.values().all(|frame| !frame.running()), "I-14: nothing runs after the end");
            return;
        }
        let mut timers = 0;
        for (key, frame) in &state.frames {
            let node = self.graph.node(key.node);
            assert_eq!(node.items as usize, key.items.len(), "a cell has the items of its node");
            timers += usize::from(frame.due.is_some());
            if let Some(due) = frame.due {
                assert!(state.memory.timers.contains(&(due, key.clone())), "the timer of {key} is known");
            }
            assert_eq!(
                matches!(frame.control, Control::Wait),
                state.memory.waits.contains(key),
                "{key} waits"
            );
            if frame.running() {
                if let Some(parent) = key.parent(&self.graph).filter(|_| state.undoing.is_none()) {
                    assert!(
                        state.frames.get(&parent).is_some_and(Frame::running),
                        "I-4: {key} runs below {parent}, which does not"
                    );
                }
                assert!(self.waits(key, frame), "I-4: {key} waits for nothing");
            }
        }
        assert_eq!(timers, state.memory.timers.len(), "no timer is known that is nobody's");
        let keys: Vec<&Key> = state.inbox.iter().map(Task::key).collect();
        assert!(
            keys.iter().all(|key| keys.iter().filter(|other| other == &key).count() == 1),
            "I-3: {keys:?}"
        );
        for task in state.stack.iter().chain(&state.inbox) {
            if let Some(parent) = task.key().parent(&self.graph).filter(|_| state.undoing.is_none()) {
                assert!(state.frames.get(&parent).is_some_and(Frame::running), "{task:?} is for what runs");
            }
        }
        for scope in state.scopes.keys().filter(|key| **key != Key::ROOT && state.undoing.is_none()) {
            let parent = scope.parent(&self.graph).unwrap();
            assert!(
                state.frames.get(&parent).is_some_and(Frame::running),
                "the scope {scope} is of what runs"
            );
        }
    }

    /// Whether a running cell has something to wait for.
    fn waits(&self, key: &Key, frame: &Frame) -> bool {
        let state = &self.state;
        let node = self.graph.node(key.node);
        let mut tasks = state.stack.iter().chain(&state.inbox);
        let is_leaf = node.end == key.node + 1 || matches!(node.kind, Kind::Call { .. });
        let asked = matches!(frame.control, Control::Asked { .. } | Control::Child { .. } | Control::Wait);
        if asked || frame.due.is_some() || tasks.any(|task| task.key() == key) {
            return true;
        }
        let below = |other: &Key| other != key && key.covers(node, other);
        let runs = state.frames.iter().any(|(other, frame)| frame.running() && below(other));
        !is_leaf && (runs || state.stack.iter().chain(&state.inbox).any(|task| below(task.key())))
    }
}

/// A cell without the number of its request.
pub(super) fn activation(cell: &Cell) -> &str {
    cell.as_str().split('#').next().unwrap()
}

/// What a request is about.
pub(super) fn text_of(request: &Request) -> String {
    match request {
        Request::Sql { text, .. } | Request::NonTransactional { text, .. } => text.clone(),
        Request::Http { request, .. } => request.url.clone(),
        Request::Task { name, input, .. } => format!("{name} {}", input.text()),
        Request::Child { cell, .. } => format!("child {}", activation(cell)),
    }
}

pub(super) fn completed(progress: &Progress) -> &Json {
    match &progress.outcome {
        Some(Outcome::Completed(result)) => result,
        other => panic!("not completed but {other:?}; asked for {:?}", progress.requests),
    }
}

pub(super) fn failed(progress: &Progress) -> &str {
    match &progress.outcome {
        Some(Outcome::Failed(failure)) => &failure.message,
        other => panic!("not failed but {other:?}; asked for {:?}", progress.requests),
    }
}
