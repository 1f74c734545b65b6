//! Spans that wait to be sent. Who puts them in waits for nothing; what finds no room is dropped (T-4).

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::Span;

/// How many spans wait at the most.
pub const MAX: usize = 8_192;
/// How many of them may be of one owner, so that nobody drowns the others' spans.
pub const MAX_OF_OWNER: usize = MAX / 2;
/// How many are sent at once.
pub const BATCH: usize = 512;

#[derive(Debug)]
pub(crate) struct Queue<Owner> {
    waiting: Mutex<Waiting<Owner>>,
    /// There is a batch.
    full: Notify,
}

#[derive(Debug)]
struct Waiting<Owner> {
    spans: VecDeque<(Owner, Span)>,
    of_owner: HashMap<Owner, usize>,
}

impl<Owner: Eq + Hash + Clone> Queue<Owner> {
    pub(crate) fn new() -> Self {
        let waiting = Waiting { spans: VecDeque::new(), of_owner: HashMap::new() };
        Self { waiting: Mutex::new(waiting), full: Notify::new() }
    }

    /// Puts spans of an owner in; how many found no room is returned.
    pub(crate) fn put(&self, owner: &Owner, spans: Vec<Span>) -> usize {
        let many = spans.len();
        let mut waiting = self.waiting.lock();
        let Waiting { spans: queue, of_owner } = &mut *waiting;
        let of_owner = of_owner.entry(owner.clone()).or_default();
        let room = (MAX - queue.len()).min(MAX_OF_OWNER.saturating_sub(*of_owner)).min(many);
        queue.extend(spans.into_iter().take(room).map(|span| (owner.clone(), span)));
        *of_owner += room;
        let has_batch = queue.len() >= BATCH;
        drop(waiting);
        if has_batch {
            self.full.notify_one();
        }
        many - room
    }

    /// Takes a batch, the oldest spans first. Empty: there are none.
    pub(crate) fn take(&self) -> Vec<Span> {
        let mut waiting = self.waiting.lock();
        let Waiting { spans, of_owner } = &mut *waiting;
        let many = spans.len().min(BATCH);
        let taken = spans.drain(..many).map(|(owner, span)| {
            if let Some(count) = of_owner.get_mut(&owner) {
                *count -= 1;
            }
            span
        });
        let taken = taken.collect();
        of_owner.retain(|_, count| *count > 0);
        taken
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.waiting.lock().spans.len()
    }

    /// Returns when there is a batch.
    pub(crate) async fn full(&self) {
        self.full.notified().await;
    }
}

#[cfg(test)]
mod tests;
