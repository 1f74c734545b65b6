//! What the maintenance thread is asked for.

use std::time::Duration;

use duramen_tree::Tree;
use parking_lot::{Condvar, Mutex};

#[derive(Default)]
struct State {
    checkpoint: bool,
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
        if !state.stop && !state.checkpoint && state.trash.is_empty() {
            self.wake.wait_for(&mut state, limit);
        }
        if state.stop {
            return None;
        }
        let checkpoint = std::mem::take(&mut state.checkpoint);
        Some(Asked { checkpoint, trash: std::mem::take(&mut state.trash) })
    }
}
