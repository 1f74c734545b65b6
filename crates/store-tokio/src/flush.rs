//! Waiting for the disk, together.

use duramen_store::{Store, StoreError};
use parking_lot::Mutex;

/// What is done when a sync has ended. It must not block.
type Tell = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

/// Syncs of the log, one at a time, each for all that was committed before it begins.
#[derive(Default)]
pub(crate) struct Flushes {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Those whose commits are in the log, and whom the next sync serves.
    waiting: Vec<Tell>,
    /// A thread syncs, and serves whoever comes meanwhile.
    is_syncing: bool,
}

impl Flushes {
    /// Makes durable all that was committed before, and tells it then. Returns at once if another thread syncs, and else syncs
    /// on this one, which must be a thread that may block, until nobody waits.
    pub(crate) fn flush(&self, store: Store, tell: Tell) {
        let mut state = self.state.lock();
        state.waiting.push(tell);
        if state.is_syncing {
            // Before anybody is told: whoever is may count on having the last handle. The thread that syncs has one, so this
            // drops nothing else.
            drop(store);
            return;
        }
        state.is_syncing = true;
        drop(state);
        let syncing = Syncing(self);
        loop {
            let served = std::mem::take(&mut self.state.lock().waiting);
            let synced = store.sync();
            let mut state = self.state.lock();
            if !state.waiting.is_empty() {
                drop(state);
                tell_all(served, synced, &store);
                continue;
            }
            state.is_syncing = false;
            drop(state);
            std::mem::forget(syncing);
            match synced {
                Ok(()) => {
                    drop(store);
                    served.into_iter().for_each(|tell| tell(Ok(())));
                }
                Err(_) => tell_all(served, synced, &store),
            }
            return;
        }
    }
}

/// Tells how a sync ended. An error is told to the first; the others get what the store says after it, which takes no more writes.
fn tell_all(served: Vec<Tell>, synced: Result<(), StoreError>, store: &Store) {
    let mut synced = Some(synced);
    let mut is_good = true;
    for tell in served {
        let result = match synced.take() {
            Some(first) => {
                is_good = first.is_ok();
                first
            }
            None if is_good => Ok(()),
            None => store.sync(),
        };
        tell(result);
    }
}

/// If a sync panics, those who wait are told of nothing, which is an error for them, and others may sync.
struct Syncing<'f>(&'f Flushes);

impl Drop for Syncing<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.is_syncing = false;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        drop(waiting);
    }
}
