//! When stored nodes that no branch needs can be deleted: once every reader that may still reach them is gone.
//!
//! Time is cut into epochs. A reader pins the current epoch before it looks at a tree. What a branch stops using in an
//! epoch is pending until nobody pins that epoch or an earlier one; the pins are counted by reference.

use std::collections::VecDeque;

use duramen_tree::NodeId;

use crate::sync::{Arc, Mutex};

/// Keeps what was reachable when it was taken from being deleted, until it is dropped.
#[derive(Clone)]
pub(crate) struct Pin(Arc<()>);

impl Pin {
    fn new() -> Self {
        Self(Arc::new(()))
    }

    fn is_last(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }
}

pub(crate) struct Epochs {
    current: Mutex<Pin>,
}

impl Epochs {
    pub(crate) fn new() -> Self {
        Self { current: Mutex::new(Pin::new()) }
    }

    /// Pins the current epoch. Whoever reads without a lock does this before it takes a tree.
    pub(crate) fn pin(&self) -> Pin {
        self.current.lock().clone()
    }

    /// Ends the current epoch and begins another. Returns the one that ended.
    pub(crate) fn advance(&self) -> Pin {
        std::mem::replace(&mut *self.current.lock(), Pin::new())
    }
}

/// Nodes that wait to be deleted, by the epoch in which the last branch stopped using them, the oldest first.
#[derive(Default)]
pub(crate) struct PendingFree {
    epochs: VecDeque<(Pin, Vec<NodeId>)>,
}

impl PendingFree {
    /// Nodes that no reader can reach.
    pub(crate) fn unreachable(ids: Vec<NodeId>) -> Self {
        Self { epochs: VecDeque::from([(Pin::new(), ids)]) }
    }

    /// Adds what branches stopped using in an epoch that ended.
    pub(crate) fn push(&mut self, epoch: Pin, ids: Vec<NodeId>) {
        self.epochs.push_back((epoch, ids));
    }

    /// Adds nodes that no reader can reach.
    pub(crate) fn push_unreachable(&mut self, ids: Vec<NodeId>) {
        self.push(Pin::new(), ids);
    }

    /// Adds nodes to those of the newest epoch.
    pub(crate) fn extend_newest(&mut self, ids: &mut Vec<NodeId>) {
        if let Some((_, newest)) = self.epochs.back_mut() {
            newest.append(ids);
        }
    }

    /// Takes out the nodes of the epochs that nobody pins any more, at most `max`.
    pub(crate) fn take_free(&mut self, max: usize) -> Vec<NodeId> {
        let mut free = Vec::new();
        while self.has_free() {
            let Some((_, ids)) = self.epochs.front_mut() else { break };
            let room = max - free.len();
            free.extend(ids.drain(..ids.len().min(room)));
            if !ids.is_empty() {
                break;
            }
            self.epochs.pop_front();
        }
        free
    }

    /// Whether nobody pins the oldest epoch any more.
    pub(crate) fn has_free(&self) -> bool {
        self.epochs.front().is_some_and(|(epoch, _)| epoch.is_last())
    }

    /// Takes back what is older than everything here.
    pub(crate) fn prepend(&mut self, mut older: Self) {
        older.epochs.append(&mut self.epochs);
        self.epochs = older.epochs;
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.epochs.iter().flat_map(|(_, ids)| ids.iter().copied())
    }
}
