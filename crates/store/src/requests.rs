//! What the maintenance thread is asked for.

use std::time::Duration;

use duramen_tree::Tree;
use parking_lot::{Condvar, Mutex};

#[derive(Default)]
struct State {
    checkpoint: bool,
    /// How much of the memory budget is to be free.
    room: Option<usize>,
    /// How often room was begun to be made, and how often that has ended.
    begun: u64,
    ended: u64,
    /// Whether there was still too little the last time: until the next nap nobody tries again just because memory is short.
    in_vain: bool,
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

    /// Asks for nodes to be forgotten, because memory is short.
    pub(crate) fn room(&self) {
        if !self.state.lock().in_vain {
            self.room_of(0);
        }
    }

    /// Asks for nodes to be forgotten, until so much of the memory budget is free. Returns a number to ask
    /// [`was_made`](Self::was_made) with.
    pub(crate) fn room_of(&self, spare: usize) -> u64 {
        let mut state = self.state.lock();
        if state.room.is_none_or(|asked| asked < spare) {
            state.room = Some(spare);
            self.wake.notify_all();
        }
        state.begun + 1
    }

    /// Whether room was made since it was asked for, as far as that can be done.
    pub(crate) fn was_made(&self, number: u64) -> bool {
        let state = self.state.lock();
        state.stop || state.ended >= number
    }

    /// Room was made, as far as that can be done, or there is still too little.
    pub(crate) fn note_room(&self, in_vain: bool) {
        let mut state = self.state.lock();
        state.ended = state.begun;
        state.in_vain = in_vain;
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
            if self.wake.wait_for(&mut state, limit).timed_out() {
                state.in_vain = false;
            }
        }
        if state.stop {
            return None;
        }
        let room = state.room.take();
        state.begun += 1;
        let checkpoint = std::mem::take(&mut state.checkpoint);
        Some(Asked { checkpoint, room, trash: std::mem::take(&mut state.trash) })
    }
}
