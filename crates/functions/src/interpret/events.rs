//! What the worker reports: events, and the results of requests.

use std::sync::Arc;

use super::start::signalled;
use super::turn::Turn;
use super::types::{Cell, Event, Failure};
use super::MAX_KEPT_SIGNALS;
use crate::graph::Kind;
use crate::interpret::state::{Control, Fault, Key, Status, Task};
use crate::json::{quoted, Json};

impl Turn<'_, '_> {
    pub(crate) fn event(&mut self, event: Event) {
        match event {
            Event::Signal { name, data } => self.signal(name, data),
            Event::Cancel { reason } => {
                self.state.cancel.get_or_insert(reason);
            }
            Event::Pause => self.state.paused = true,
            Event::Resume => self.state.paused = false,
            Event::Child { cell, result } => {
                self.take_in(&cell, result, true);
            }
            Event::Answer { cell, result } => {
                // Whoever may send to the instance may say this: of anything else it must not be believed.
                let is_task = cell.parts().is_some_and(|(key, _)| {
                    self.graph.get(key.node).is_some_and(|node| matches!(node.kind, Kind::Task { .. }))
                });
                if is_task {
                    self.take_in(&cell, result, false);
                }
            }
            Event::ChildRefused { cell, failure } => self.refuse_child(&cell, failure),
        }
    }

    /// The result of a request that is not a child.
    pub(crate) fn complete(&mut self, cell: &Cell, result: Result<Json, Failure>) -> bool {
        self.take_in(cell, result, false)
    }

    /// Fails the step that asked for a child, awaited or not.
    fn refuse_child(&mut self, cell: &Cell, failure: Failure) {
        let Some((key, number)) = cell.parts() else { return };
        match self.state.frames.get(&key).map(|frame| &frame.control) {
            Some(Control::Child { token, instance_id: None, .. }) if *token == number => {
                let fault = Fault { failure, origin: key.clone() };
                self.end_between_turns(key, Status::Failed(Arc::new(fault)));
            }
            _ => {}
        }
    }

    fn take_in(&mut self, cell: &Cell, result: Result<Json, Failure>, of_child: bool) -> bool {
        let Some((key, number)) = cell.parts() else { return false };
        let awaits = match self.state.frames.get(&key).map(|frame| &frame.control) {
            Some(Control::Asked { token }) => !of_child && *token == number,
            Some(Control::Child { token, awaited, .. }) => of_child && *awaited && *token == number,
            _ => false,
        };
        if !awaits {
            return false;
        }
        let status = match result {
            Ok(result) => {
                self.admit(result.text().len());
                Status::Completed(result)
            }
            Err(failure) => Status::Failed(Arc::new(Fault { failure, origin: key.clone() })),
        };
        self.end_between_turns(key, status);
        true
    }

    fn signal(&mut self, name: String, data: Json) {
        let graph = self.graph;
        let named = |key: &&Key| matches!(&graph.node(key.node).kind, Kind::Signal { name: awaited, .. } if *awaited == name);
        let waits: Vec<Key> = self.state.memory.waits.iter().filter(named).cloned().collect();
        self.admit(data.text().len() * waits.len().max(1));
        if waits.is_empty() {
            self.state.signals.push_back((name, data));
            if self.state.signals.len() > MAX_KEPT_SIGNALS {
                self.state.signals.pop_front();
                self.state.signals_lost += 1;
            }
            return;
        }
        for key in waits {
            self.end_between_turns(key, Status::Completed(signalled(&name, Some(&data))));
        }
    }

    /// A child that is not awaited has its id: that is the result.
    pub(super) fn child_is_on_its_way(&mut self, key: &Key) {
        let Some(frame) = self.running(key) else { return };
        let Control::Child { instance_id: Some(id), .. } = &frame.control else { return };
        let result = Json::from_valid(format!(r#"{{"instance_id": {}}}"#, quoted(id)));
        self.complete_cell(key, result);
    }

    /// Ends a cell between turns: it is reported to its parent in the next one, after what was reported before.
    fn end_between_turns(&mut self, key: Key, status: Status) {
        self.end_cell(&key, status);
        self.state.inbox.push_back(Task::Ended(key));
    }
}
