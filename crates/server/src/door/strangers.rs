//! Connections over which nobody has shown a token yet: there are so many at most, and one more ends the oldest.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::oneshot;

/// How many there may be.
pub(super) const STRANGERS_MAX: usize = 1024;

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Strangers(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// What ends each, oldest first.
    all: BTreeMap<u64, oneshot::Sender<()>>,
    next: u64,
}

/// One of them; it counts as long as this lives.
#[derive(Debug)]
pub(super) struct Stranger {
    state: Arc<Mutex<State>>,
    number: u64,
}

/// The end of a stranger, to wait for.
#[derive(Debug)]
pub(super) struct TurnedAway(oneshot::Receiver<()>);

fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Strangers {
    /// Counts a new connection. If there are too many, the oldest has to go.
    pub(super) fn arrive(&self) -> (Stranger, TurnedAway) {
        let (end, ended) = oneshot::channel();
        let mut state = locked(&self.0);
        let number = state.next;
        state.next += 1;
        state.all.insert(number, end);
        if state.all.len() > STRANGERS_MAX {
            if let Some((_, oldest)) = state.all.pop_first() {
                // It may have ended by itself.
                let _ = oldest.send(());
            }
        }
        (Stranger { state: Arc::clone(&self.0), number }, TurnedAway(ended))
    }
}

impl TurnedAway {
    /// Waits until the connection has to go; for ever, once it is no stranger any more.
    pub(super) async fn wait(self) {
        if self.0.await.is_err() {
            std::future::pending().await
        }
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        locked(&self.state).all.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::time::timeout;

    /// H8.
    #[tokio::test]
    async fn one_stranger_too_many_ends_the_oldest_that_is_still_one() {
        let strangers = Strangers::default();
        let (first, mut first_end) = strangers.arrive();
        drop(first);
        let mut rest: Vec<_> = (0..STRANGERS_MAX).map(|_| strangers.arrive()).collect();
        let _last = strangers.arrive();
        let (_oldest, end) = rest.remove(0);
        timeout(Duration::from_secs(5), end.wait()).await.expect("it has to go");
        assert!(first_end.0.try_recv().is_err(), "who has shown a token stays");
        let (_second, end) = rest.remove(0);
        assert!(timeout(Duration::from_millis(10), end.wait()).await.is_err());
        drop(rest);
    }
}
