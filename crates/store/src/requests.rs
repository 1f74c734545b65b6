//! What the maintenance thread is asked for.

use std::time::Duration;

use duramen_tree::Tree;
use parking_lot::{Condvar, Mutex};

#[derive(Default)]
struct State {
    checkpoint: bool,
    /// How much of the memory budget is to be free.
    room: Option<usize>,
    stop: bool,
    /// Trees whose memory can be freed.
    trash: Vec<Tree>,
}

#[derive(Default)]
pub(crate) struct Requests {
    state: Mutex<State>,
    wake: Condvar,
}

/// What was asked for since the thread asked before.
pub(crate) struct Asked {
    pub(crate) checkpoint: bool,
    /// How much of the memory budget is to be free.
    pub(crate) room: Option<usize>,
    /// Trees whose memory can be freed.
    pub(crate) trash: Vec<Tree>,
}

impl Requests {
    /// Asks for a checkpoint.
    pub(crate) fn checkpoint(&self) {
        let mut state = self.state.lock();
        if !state.checkpoint {
            state.checkpoint = true;
            self.wake.notify_all();
        }
    }

    /// Asks for nodes to be forgotten, until so much of the memory budget is free.
    pub(crate) fn room(&self, spare: usize) {
        let mut state = self.state.lock();
        if state.room.is_none_or(|asked| asked < spare) {
            state.room = Some(spare);
            self.wake.notify_all();
        }
    }

    /// Frees a tree, on the maintenance thread if it may be much and the thread is there.
    pub(crate) fn free(&self, tree: Tree) {
        if tree.is_sole() {
            let mut state = self.state.lock();
            if !state.stop {
                state.trash.push(tree);
                self.wake.notify_all();
            }
        }
    }

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        self.state.lock().stop = true;
        self.wake.notify_all();
    }

    /// What was asked for; nothing after a time without a request. None when the thread is to end.
    pub(crate) fn wait(&self, limit: Duration) -> Option<Asked> {
        let mut state = self.state.lock();
        if !state.stop && !state.checkpoint && state.room.is_none() && state.trash.is_empty() {
            self.wake.wait_for(&mut state, limit);
        }
        if state.stop {
            return None;
        }
        let room = state.room.take();
        let checkpoint = std::mem::take(&mut state.checkpoint);
        Some(Asked { checkpoint, room, trash: std::mem::take(&mut state.trash) })
    }
}
