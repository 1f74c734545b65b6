//! Spans that wait to be sent. Turns put them in and wait for nothing; what finds no room is dropped.

use std::collections::{HashMap, VecDeque};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::Span;

/// How many spans wait at the most.
pub(super) const MAX: usize = 8_192;
/// How many of them may be of one role, so that nobody drowns the others' spans.
pub(super) const MAX_OF_ROLE: usize = MAX / 2;
/// How many are sent at once.
pub(super) const BATCH: usize = 512;

#[derive(Default)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    /// There is a batch.
    full: Notify,
}

#[derive(Default)]
struct Waiting {
    spans: VecDeque<(u32, Span)>,
    of_role: HashMap<u32, usize>,
}

impl Queue {
    /// Puts spans of a role in; how many found no room is returned.
    pub(super) fn put(&self, role: u32, spans: Vec<Span>) -> usize {
        let many = spans.len();
        let mut waiting = self.waiting.lock();
        let Waiting { spans: queue, of_role } = &mut *waiting;
        let of_role = of_role.entry(role).or_default();
        let room = (MAX - queue.len()).min(MAX_OF_ROLE.saturating_sub(*of_role)).min(many);
        queue.extend(spans.into_iter().take(room).map(|span| (role, span)));
        *of_role += room;
        let has_batch = queue.len() >= BATCH;
        drop(waiting);
        if has_batch {
            self.full.notify_one();
        }
        many - room
    }

    /// Takes a batch, the oldest spans first. Empty: there are none.
    pub(super) fn take(&self) -> Vec<Span> {
        let mut waiting = self.waiting.lock();
        let Waiting { spans, of_role } = &mut *waiting;
        let many = spans.len().min(BATCH);
        let taken = spans.drain(..many).map(|(role, span)| {
            if let Some(count) = of_role.get_mut(&role) {
                *count -= 1;
            }
            span
        });
        let taken = taken.collect();
        of_role.retain(|_, count| *count > 0);
        taken
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.waiting.lock().spans.len()
    }

    /// Returns when there is a batch.
    pub(super) async fn full(&self) {
        self.full.notified().await;
    }
}

#[cfg(test)]
mod tests;
