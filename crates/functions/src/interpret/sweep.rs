//! Giving up what runs below a node, and forgetting what ran there.

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;

use super::turn::Turn;
use super::types::Failure;
use crate::interpret::state::{Control, Fault, Frame, Key, Status};

impl Turn<'_, '_> {
    /// Gives up an activation and all below it. What has ended there stays to be seen.
    pub(super) fn give_up(&mut self, root: &Key) {
        self.sweep(root, true);
    }

    /// Forgets an activation and all below it, so that it can begin anew.
    pub(super) fn clear(&mut self, root: &Key) {
        self.sweep(root, false);
    }

    fn sweep(&mut self, root: &Key, keep_ended: bool) {
        let node = self.node(root);
        if let Some(memo) = self.state.memory.memo.as_mut().filter(|_| !keep_ended) {
            memo.forget(root, self.graph);
        }
        let mut withdrawn = Vec::new();
        let keys = root.covered(node, &self.state.frames);
        for key in keys.iter().rev() {
            // Handlers that are given up take their `$error` along, the inner ones before those around them.
            self.restore_error(key);
        }
        for key in keys {
            let has_ended = self.state.frames.get(&key).is_some_and(|frame| !frame.running());
            if has_ended && keep_ended {
                continue;
            }
            if let Some(frame) = self.state.frames.get_mut(&key).filter(|_| keep_ended) {
                if keep_items(&key, frame) {
                    continue;
                }
            }
            if let Some(frame) = self.state.frames.remove(&key) {
                if let Some(due) = frame.due {
                    self.state.memory.timers.remove(&(due, key.clone()));
                }
                self.state.memory.waits.remove(&key);
                if frame.control.asked(&key).is_some() {
                    self.observe_loss(&key, &frame);
                    withdrawn.push((key, frame.control));
                }
            }
        }
        for key in root.covered(node, &self.state.scopes) {
            // The root's scope is the instance's.
            if key != Key::ROOT {
                self.state.scopes.remove(&key);
            }
        }
        // What is to begin below lies on top of the stack: nothing else was begun since. The queue is not searched, it may
        // be long: what concerns nobody any more is passed over when its turn comes.
        while self.state.stack.last().is_some_and(|task| root.covers(node, task.key())) {
            self.state.stack.pop();
        }
        debug_assert!(!self.state.stack.iter().any(|task| root.covers(node, task.key())));
        self.withdraw(withdrawn);
    }

    /// Gives up everything, whatever the graph says.
    pub(super) fn give_up_all(&mut self) {
        let frames = mem::take(&mut self.state.frames);
        let (running, ended) = frames.into_iter().partition(|(_, frame): &(Key, Frame)| frame.running());
        self.state.frames = ended;
        let mut running: BTreeMap<Key, Frame> = running;
        let begun = running.iter_mut().filter_map(|(key, frame)| keep_items(key, frame).then(|| key.clone()));
        let begun: Vec<Key> = begun.collect();
        for key in begun {
            self.state.frames.extend(running.remove_entry(&key));
        }
        let mut withdrawn = Vec::new();
        for (key, frame) in running {
            if frame.control.asked(&key).is_some() {
                self.observe_loss(&key, &frame);
                withdrawn.push((key, frame.control));
            }
        }
        self.withdraw(withdrawn);
    }

    /// Takes back the requests of these cells: those of this turn are not given at all, the others are dropped.
    fn withdraw(&mut self, cells: Vec<(Key, Control)>) {
        let out = &mut self.state.memory.out;
        for (key, control) in &cells {
            if let Some(place) = out.places.remove(key) {
                out.requests[place] = None;
                continue;
            }
            match control {
                Control::Child { awaited: true, instance_id: Some(id), .. } => {
                    out.dropped_children.push(id.clone());
                }
                Control::Child { awaited: false, instance_id: Some(_), .. } => {}
                _ => out.dropped.extend(control.asked(key)),
            }
            self.state.dropped += 1;
        }
    }
}

/// Ends a MAP that is given up when items have begun, so that those that are done stay known: should the instance be taken up again,
/// they must not be done twice. `false`: there is nothing to keep.
fn keep_items(key: &Key, frame: &mut Frame) -> bool {
    let Control::Map(progress) = &mut frame.control else { return false };
    if !matches!(frame.status, Status::Running) || progress.next == 0 {
        return false;
    }
    progress.rows = Vec::new();
    let failure = Failure::new("given up before all items were done");
    frame.status = Status::Failed(Arc::new(Fault { failure, origin: key.clone() }));
    frame.reported = true;
    true
}
