//! What a node does when one of its children has ended.

use std::sync::Arc;

use super::turn::Turn;
use super::types::Outcome;
use crate::graph::{Kind, Slot};
use crate::interpret::state::{Control, Fault, Key, Status};
use crate::json::Json;
use crate::truth::is_true;

/// How a child ended.
pub(super) type Ended = Result<Json, Arc<Fault>>;

impl Turn<'_, '_> {
    /// Reports to the parent of a cell that has ended, or ends the instance if it is the root.
    pub(super) fn child_ended(&mut self, child: &Key) {
        let Some(ended) = self.ended(child) else { return };
        let Some(frame) = self.state.frames.get_mut(child).filter(|frame| !frame.reported) else { return };
        frame.reported = true;
        if self.state.undoing.is_some() {
            return self.undo_ended(ended);
        }
        let Some(parent) = child.parent(self.graph) else {
            return self.end(match ended {
                Ok(result) => Outcome::Completed(result),
                Err(fault) => Outcome::Failed(fault.failure.clone()),
            });
        };
        if self.running(&parent).is_none() {
            return;
        }
        let slot = self.node(child).slot;
        match (&self.node(&parent).kind, ended) {
            (Kind::Then { right, .. }, Ok(_)) if slot == Slot::Left => self.push_start(parent.child(*right)),
            (Kind::If { then, otherwise, .. }, Ok(value)) if slot == Slot::Condition => {
                let next = if is_true(&value) { then } else { otherwise };
                self.push_start(parent.child(*next));
            }
            (Kind::Join { branches }, _) => self.branch_ended(&parent, branches),
            (Kind::Race { left, right }, ended) => {
                let loser = if slot == Slot::Left { right } else { left };
                self.give_up(&parent.child(*loser));
                if ended.is_ok() {
                    self.merge_names(child, &parent);
                }
                self.state.scopes.remove(child);
                self.pass_on(&parent, ended);
            }
            (Kind::Loop { .. }, ended) => self.iteration_ended(&parent, slot, ended),
            (Kind::Retry { policy, .. }, Err(fault)) => self.attempt_failed(&parent, policy, fault),
            (Kind::Catch { handler, .. }, Err(fault)) if slot == Slot::Left => {
                let before = self.name_error(&parent, &fault);
                if let Some(frame) = self.running(&parent) {
                    frame.control = Control::Handler { before };
                }
                self.push_start(parent.child(*handler));
            }
            (Kind::Catch { .. }, ended) => {
                self.restore_error(&parent);
                self.pass_on(&parent, ended);
            }
            (Kind::Step { undo, .. }, Ok(result)) => {
                self.note_undo(&parent, *undo, &result);
                self.pass_on(&parent, Ok(result));
            }
            (Kind::Map { .. }, ended) if slot == Slot::Condition => self.items_ended(&parent, ended),
            (Kind::Map { .. }, ended) => self.item_ended(&parent, child, ended),
            (_, ended) => self.pass_on(&parent, ended),
        }
    }

    /// How a cell ended, if it has.
    pub(super) fn ended(&self, key: &Key) -> Option<Ended> {
        match &self.state.frames.get(key)?.status {
            Status::Running => None,
            Status::Completed(result) => Some(Ok(result.clone())),
            Status::Failed(fault) => Some(Err(Arc::clone(fault))),
        }
    }

    /// A node ends as its child did.
    pub(super) fn pass_on(&mut self, key: &Key, ended: Ended) {
        match ended {
            Ok(result) => self.complete_cell(key, result),
            Err(fault) => self.pass_fault(key, fault),
        }
    }

    fn branch_ended(&mut self, join: &Key, branches: &[u32]) {
        let Some(frame) = self.running(join) else { return };
        let Control::Join { open } = &mut frame.control else { return };
        *open = open.saturating_sub(1);
        if *open > 0 {
            return;
        }
        let mut results = Vec::with_capacity(branches.len());
        for branch in branches {
            match self.ended(&join.child(*branch)) {
                Some(Ok(result)) => results.push(result),
                Some(Err(fault)) => {
                    for branch in branches {
                        self.state.scopes.remove(&join.child(*branch));
                    }
                    return self.pass_fault(join, fault);
                }
                // All have ended, or the state was changed by hand.
                None => return,
            }
        }
        let size = results.iter().map(|result| result.text().len() + 1).sum::<usize>();
        if let Some(failure) = self.too_large("df.join", size) {
            return self.fail_cell(join, failure);
        }
        self.admit(size);
        let texts: Vec<&str> = results.iter().map(Json::text).collect();
        let text = format!("[{}]", texts.join(","));
        for branch in branches {
            let branch = join.child(*branch);
            self.merge_names(&branch, join);
            self.state.scopes.remove(&branch);
        }
        self.complete_cell(join, Json::from_valid(text));
    }
}
