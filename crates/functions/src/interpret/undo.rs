//! Undoing: when an instance fails or is cancelled, what its STEPs say is done for each that has completed, the latest first.
//!
//! Each of them runs as a child, which is started in the turn of its parent and whose end is a letter to it, as of any
//! other: so it happens once, and has a history of its own. The outcome waits until all have ended.

use super::propagate::Ended;
use super::turn::Turn;
use super::types::{Failure, Outcome};
use crate::interpret::state::{Control, Frame, Key, Status};
use crate::json::Json;

/// Under which name an undo knows the result of what it undoes.
const RESULT: &str = "result";
/// The label of a child that undoes something.
const LABEL: &str = "undo";
/// How many steps of an instance can be undone.
const UNDO_MAX: usize = 10_000;

impl Turn<'_, '_> {
    /// The body of a STEP has completed: it is noted how to undo it.
    pub(super) fn note_undo(&mut self, step: &Key, undo: u32, result: &Json) {
        let names = self.names_for_child(step, undo, Some((RESULT, result)));
        self.admit(names.text().len());
        self.state.undo.push((step.child(undo), names));
        if self.state.undo.len() > UNDO_MAX {
            let text = format!("more than {UNDO_MAX} steps would have to be undone, and that is the limit");
            self.give_up_all();
            self.end(Outcome::Failed(Failure::new(text)));
        }
    }

    /// Whether something has to be undone first; then that has begun.
    pub(super) fn must_undo_before(&mut self, outcome: &Outcome) -> bool {
        if matches!(outcome, Outcome::Completed(_)) || self.state.undo.is_empty() {
            return false;
        }
        self.state.undoing = Some(outcome.clone());
        let state = &mut *self.state;
        state.stack.clear();
        state.inbox.clear();
        state.memory.timers.clear();
        state.memory.waits.clear();
        for frame in state.frames.values_mut() {
            frame.due = None;
        }
        self.undo_next();
        true
    }

    /// What undid a step has ended.
    pub(super) fn undo_ended(&mut self, ended: Ended) {
        if let Err(fault) = ended {
            let more = format!("; and it could not be undone: {}", fault.failure.message);
            match &mut self.state.undoing {
                Some(Outcome::Failed(failure)) => failure.message.push_str(&more),
                Some(Outcome::Cancelled(reason)) => reason.push_str(&more),
                _ => {}
            }
        }
        self.undo_next();
    }

    /// Undoes the latest step that is not undone, or lets the instance end.
    fn undo_next(&mut self) {
        let Some((key, names)) = self.state.undo.pop() else {
            if let Some(outcome) = self.state.undoing.take() {
                self.end(outcome);
            }
            return;
        };
        self.state.undone += 1;
        let (at, path) = (self.cx.now, self.path(&key));
        let frame =
            Frame { at, path, status: Status::Running, reported: false, due: None, control: Control::Plain };
        self.state.frames.insert(key.clone(), frame);
        self.state.events += 1;
        let root = key.node;
        self.ask_for_child(&key, root, Some(LABEL), None, names, true);
    }
}
