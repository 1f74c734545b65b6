//! Giving up what runs below a node, and forgetting what ran there.

use std::collections::BTreeMap;
use std::mem;

use super::turn::Turn;
use crate::interpret::state::{Control, Frame, Key};

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
            if let Some(frame) = self.state.frames.remove(&key) {
                if let Some(due) = frame.due {
                    self.state.memory.timers.remove(&(due, key.clone()));
                }
                self.state.memory.waits.remove(&key);
                if frame.control.asked(&key).is_some() {
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
        let running: BTreeMap<Key, Frame> = running;
        let asked = running.into_iter().filter(|(key, frame)| frame.control.asked(key).is_some());
        let withdrawn = asked.map(|(key, frame)| (key, frame.control)).collect();
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
