//! One call on a state: its two lists of things to do, its timers, its limit and its end.

use std::collections::BTreeSet;
use std::mem;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::start::ITERATION_GAP;
use super::types::{Context, ExecutionStatus, Failure, FinishedExecution, Outcome, Progress};
use super::{TURN_BYTES, TURN_LIMIT};
use crate::graph::{Graph, Kind, Node, Slot};
use crate::interpret::state::{Control, Fault, Frame, Key, State, Status, Task};
use crate::json::Json;

/// A state and what surrounds it, for one call.
pub(crate) struct Turn<'t, 'c> {
    pub(super) state: &'t mut State,
    pub(super) cx: &'t Context<'c>,
    pub(super) graph: &'c Graph,
}

impl<'t, 'c> Turn<'t, 'c> {
    /// `None` when the instance has ended, or must end because its state is not one of this graph.
    pub(crate) fn new(state: &'t mut State, cx: &'t Context<'c>) -> Option<Turn<'t, 'c>> {
        let mut turn = Turn { state, cx, graph: cx.graph };
        if turn.state.outcome.is_none() && (!turn.state.memory.checked || turn.graph.is_empty()) {
            turn.check();
        }
        turn.state.outcome.is_none().then_some(turn)
    }

    /// Goes on until nothing can be done without waiting.
    pub(crate) fn advance(state: &'t mut State, cx: &'t Context<'c>) -> Progress {
        let mut over_limit = false;
        if let Some(mut turn) = Turn::new(state, cx) {
            if let Some(reason) = turn.state.cancel.take() {
                // One that is being undone ends anyway.
                if turn.state.undoing.is_none() {
                    turn.give_up_all();
                    turn.end(Outcome::Cancelled(reason));
                }
            }
            if turn.state.outcome.is_none() && !turn.state.paused {
                turn.recall();
                over_limit = turn.run();
                turn.forget_stale();
            }
        }
        state.memory.memo = None;
        let out = mem::take(&mut state.memory.out);
        let waits = state.outcome.is_none() && !state.paused;
        let due_at = match state.memory.timers.first() {
            _ if waits && over_limit => Some(cx.now),
            Some((due, _)) if waits => Some(*due),
            _ => None,
        };
        Progress {
            requests: out.requests.into_iter().flatten().collect(),
            outcome: state.outcome.clone(),
            due_at,
            executions: out.executions,
            dropped: out.dropped,
            dropped_children: out.dropped_children,
            retries: out.retries,
            steps: out.steps,
        }
    }

    /// Works off the lists; true when it stopped at the limit.
    fn run(&mut self) -> bool {
        let mut left = TURN_LIMIT;
        loop {
            self.weigh();
            if self.state.outcome.is_some() {
                return false;
            }
            let task = match self.state.stack.pop() {
                Some(task) => Some(task),
                None => self.state.inbox.pop_front(),
            };
            match task {
                // What is recalled must all be met in this turn.
                Some(Task::Start(key))
                    if self.state.memory.memo.is_none()
                        && (left == 0 || self.state.memory.out.bytes > TURN_BYTES) =>
                {
                    self.state.stack.push(Task::Start(key));
                    return true;
                }
                Some(Task::Start(key)) => {
                    left = left.saturating_sub(1);
                    self.start(key);
                }
                Some(Task::Ended(key)) => self.child_ended(&key),
                Some(Task::ChildStarted(key)) => self.child_is_on_its_way(&key),
                None => match self.due_timer() {
                    Some(key) => self.fire(&key),
                    None if self.clock_was_set_back() => {}
                    None => return false,
                },
            }
        }
    }

    /// Takes away what a turn has left in the queue and what concerns nobody any more: an activation that was given
    /// up, or one that began anew. In the course of a turn such entries are passed over where they are met.
    fn forget_stale(&mut self) {
        if self.state.inbox.is_empty() {
            return;
        }
        let mut seen = BTreeSet::new();
        let mut inbox = mem::take(&mut self.state.inbox);
        // If there are several for one activation, the last one is its own.
        inbox = inbox
            .into_iter()
            .rev()
            .filter(|task| self.matters(task) && seen.insert(task.key().clone()))
            .collect();
        self.state.inbox = inbox.into_iter().rev().collect();
    }

    fn matters(&self, task: &Task) -> bool {
        let frame = |key: &Key| self.state.frames.get(key);
        let key = task.key();
        match task {
            Task::Start(_) => true,
            Task::ChildStarted(_) => frame(key).is_some_and(Frame::running),
            Task::Ended(_) => {
                let above = key.parent(self.graph);
                frame(key).is_some_and(|frame| !frame.running() && !frame.reported)
                    && above.is_none_or(|above| frame(&above).is_some_and(Frame::running))
            }
        }
    }

    /// Takes the first timer that is due away.
    fn due_timer(&mut self) -> Option<Key> {
        let timers = &mut self.state.memory.timers;
        if timers.first()?.0 > self.cx.now {
            return None;
        }
        let (_, key) = timers.pop_first()?;
        if let Some(frame) = self.state.frames.get_mut(&key) {
            frame.due = None;
        }
        Some(key)
    }

    /// Whether a timer is further away than it was when it was set, and is now brought as near as it was then: somebody has set
    /// the clock back. A schedule names a time of the calendar, and waits for that.
    fn clock_was_set_back(&mut self) -> bool {
        let late = self.state.memory.timers.iter().filter_map(|(due, key)| {
            let nearer = self.cx.now.checked_add(self.longest_wait(key)?).ok()?;
            (nearer < *due).then(|| (*due, key.clone(), nearer))
        });
        let late: Vec<_> = late.collect();
        for (due, key, nearer) in &late {
            self.state.memory.timers.remove(&(*due, key.clone()));
            self.set_timer(key, *nearer);
        }
        !late.is_empty()
    }

    /// How far a timer of this cell can be away.
    fn longest_wait(&self, key: &Key) -> Option<SignedDuration> {
        Some(match &self.node(key).kind {
            Kind::Sleep { time } => time.duration,
            Kind::Signal { timeout, .. } => timeout.as_ref()?.duration,
            Kind::Timeout { limit, .. } => limit.duration,
            Kind::Loop { .. } => ITERATION_GAP,
            Kind::Retry { policy, .. } => self.backoff(key, policy)?,
            _ => return None,
        })
    }

    /// Sees to it that a timer fires for this cell.
    pub(super) fn set_timer(&mut self, key: &Key, due: Timestamp) {
        if let Some(frame) = self.state.frames.get_mut(key) {
            frame.due = Some(due);
            self.state.memory.timers.insert((due, key.clone()));
        }
    }

    pub(super) fn node(&self, key: &Key) -> &'c Node {
        let graph: &'c Graph = self.graph;
        graph.node(key.node)
    }

    /// The frame of a cell that is running.
    pub(super) fn running(&mut self, key: &Key) -> Option<&mut Frame> {
        self.state.frames.get_mut(key).filter(|frame| frame.running())
    }

    pub(super) fn push_start(&mut self, key: Key) {
        self.state.stack.push(Task::Start(key));
    }

    pub(super) fn complete_cell(&mut self, key: &Key, result: Json) {
        self.end_cell(key, Status::Completed(result));
        self.state.stack.push(Task::Ended(key.clone()));
    }

    /// The cell fails by itself.
    pub(super) fn fail_cell(&mut self, key: &Key, failure: Failure) {
        let fault = Fault { failure, origin: key.clone() };
        self.pass_fault(key, Arc::new(fault));
    }

    /// The cell fails because one below it did.
    pub(super) fn pass_fault(&mut self, key: &Key, fault: Arc<Fault>) {
        self.end_cell(key, Status::Failed(fault));
        self.state.stack.push(Task::Ended(key.clone()));
    }

    /// Writes down how a cell ended, and names its result.
    pub(super) fn end_cell(&mut self, key: &Key, status: Status) {
        let now = self.cx.now;
        self.observe_end(key, &status);
        let Some(frame) = self.state.frames.get_mut(key) else { return };
        if let Some(due) = frame.due.take() {
            self.state.memory.timers.remove(&(due, key.clone()));
        }
        if matches!(frame.control, Control::Wait) {
            self.state.memory.waits.remove(key);
        }
        // What did not complete can be taken up again: with the items that did, in the iteration that it had come to.
        match (&status, &mut frame.control) {
            (Status::Failed(_), Control::Map(progress)) => progress.rows = Vec::new(),
            (Status::Failed(_), Control::Loop { .. }) => {}
            (_, control) => *control = Control::Plain,
        }
        frame.at = now;
        frame.status = status;
        self.state.events += 1;
        let named = match (&frame.status, &self.graph.node(key.node).name) {
            (Status::Completed(result), Some(name)) => Some((name.clone(), result.clone())),
            _ => None,
        };
        if let Some((name, result)) = named {
            let scope = key.scope(self.graph);
            self.name_result(&scope, name, result);
        }
    }

    /// The instance ends.
    pub(super) fn end(&mut self, outcome: Outcome) {
        if self.must_undo_before(&outcome) {
            return;
        }
        let (status, output) = match &outcome {
            Outcome::Completed(result) => (ExecutionStatus::Completed, result.clone()),
            Outcome::Failed(failure) => (ExecutionStatus::Failed, Json::string(&failure.message)),
            Outcome::Cancelled(reason) => (ExecutionStatus::Cancelled, Json::string(reason)),
        };
        self.finish_execution(status, Some(output));
        let state = &mut *self.state;
        state.outcome = Some(outcome);
        state.stack.clear();
        state.inbox.clear();
        if matches!(state.outcome, Some(Outcome::Completed(_))) {
            state.scopes.clear();
        }
        state.signals.clear();
        state.memory.timers.clear();
        state.memory.waits.clear();
        state.memory.environment = None;
    }

    /// Tells that an execution has ended.
    pub(super) fn finish_execution(&mut self, status: ExecutionStatus, output: Option<Json>) {
        let finished = FinishedExecution {
            execution: self.state.execution,
            status,
            started_at: self.state.execution_started_at,
            ended_at: self.cx.now,
            event_count: self.state.events,
            output,
        };
        self.state.memory.out.executions.push(finished);
    }

    /// Compares a state that was read with the graph, and ends the instance if they do not belong together.
    fn check(&mut self) {
        self.state.memory.checked = true;
        let graph = self.graph;
        let known =
            |key: &Key| graph.get(key.node).is_some_and(|node| node.items as usize == key.items.len());
        let state = &*self.state;
        let tasks = state.stack.iter().chain(&state.inbox).map(Task::key);
        let undo = state.undo.iter().map(|(key, _)| key);
        let mut keys = state.frames.keys().chain(state.scopes.keys()).chain(tasks).chain(undo);
        let fits = !graph.is_empty()
            && keys.all(known)
            && state.frames.iter().all(|(key, frame)| fits(graph, key, frame))
            && state.scopes.contains_key(&Key::ROOT);
        if !fits {
            let text = "the state of the instance does not fit its graph. Was one of them changed by hand?";
            self.state.undo.clear();
            self.state.undoing = None;
            self.give_up_all();
            self.end(Outcome::Failed(Failure::new(text)));
        }
    }
}

/// Whether a cell remembers what one of its type can.
fn fits(graph: &Graph, key: &Key, frame: &Frame) -> bool {
    let node = graph.node(key.node);
    let kind = &node.kind;
    // What undoes a step runs as a child, whatever it is.
    let undoes = node.slot == Slot::Right
        && node.parent.is_some_and(|parent| matches!(graph.node(parent).kind, Kind::Step { .. }));
    match &frame.control {
        Control::Plain => {
            !frame.running()
                || !matches!(
                    kind,
                    Kind::Join { .. } | Kind::Loop { .. } | Kind::Retry { .. } | Kind::Map { .. }
                )
        }
        Control::Asked { .. } => matches!(kind, Kind::Sql { .. } | Kind::Http(_) | Kind::Task { .. }),
        Control::Child { .. } => undoes || matches!(kind, Kind::Call { .. }),
        Control::Wait => matches!(kind, Kind::Signal { .. }),
        Control::Join { .. } => matches!(kind, Kind::Join { .. }),
        Control::Loop { .. } => matches!(kind, Kind::Loop { .. }),
        Control::Retry { .. } => matches!(kind, Kind::Retry { .. }),
        Control::Handler { .. } => matches!(kind, Kind::Catch { .. }),
        Control::Map(_) => matches!(kind, Kind::Map { .. }),
    }
}
