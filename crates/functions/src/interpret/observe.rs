//! Telling of steps that have ended, for whoever traces them. A state that nobody observes pays one comparison for each end.

use super::turn::Turn;
use super::types::{Cell, EndedStep, StepEnd};
use crate::graph::Kind;
use crate::interpret::state::{Control, Frame, Key, Status};

impl Turn<'_, '_> {
    /// A cell is about to end. If it is a step's, that is told.
    pub(super) fn observe_end(&mut self, key: &Key, status: &Status) {
        if !self.state.memory.is_observed {
            return;
        }
        let Some(frame) = self.state.frames.get(key) else { return };
        let kind = &self.node(key).kind;
        let is_step =
            matches!(kind, Kind::Sql { .. } | Kind::Http(_) | Kind::Task { .. } | Kind::Call { .. });
        let end = match status {
            // One that fails before it can be asked for has references that cannot be replaced.
            Status::Failed(fault) if is_step || frame.control.asked(key).is_some() => {
                StepEnd::Failed(fault.failure.clone())
            }
            // What an earlier life had completed was not asked for in this one.
            Status::Completed(result) if frame.control.asked(key).is_some() => {
                let status = matches!(kind, Kind::Http(_)).then(|| result.field("status")).flatten();
                StepEnd::Completed { http_status: status.and_then(|status| status.text().parse().ok()) }
            }
            _ => return,
        };
        let step = self.ended_step(key, frame, end);
        self.state.memory.out.steps.push(step);
    }

    /// A cell whose request nobody needs any more is gone. Unless the request was made in this very call, that is told. (Nor is
    /// it of a state that does not fit its graph, which has no such node.)
    pub(super) fn observe_loss(&mut self, key: &Key, frame: &Frame) {
        let memory = &self.state.memory;
        if memory.is_observed && !memory.out.places.contains_key(key) && self.graph.get(key.node).is_some() {
            let step = self.ended_step(key, frame, StepEnd::GivenUp);
            self.state.memory.out.steps.push(step);
        }
    }

    fn ended_step(&self, key: &Key, frame: &Frame, end: StepEnd) -> EndedStep {
        EndedStep {
            cell: frame.control.asked(key).unwrap_or_else(|| Cell::asked(key, 0)),
            path: frame.path.to_string(),
            attempt: self.attempt(key),
            is_child: matches!(frame.control, Control::Child { .. }),
            asked_at: frame.at,
            ended_at: self.cx.now,
            end,
        }
    }

    /// Which attempt of the nearest RETRY around it a cell is part of.
    fn attempt(&self, key: &Key) -> Option<u32> {
        let mut above = key.parent(self.graph);
        while let Some(key) = above {
            if let Some(Control::Retry { attempt }) = self.state.frames.get(&key).map(|frame| &frame.control)
            {
                return Some(*attempt);
            }
            above = key.parent(self.graph);
        }
        None
    }
}
