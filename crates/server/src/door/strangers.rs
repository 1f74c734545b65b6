//! Connections over which nobody has shown a token, or proved to have one, yet: there are so many at most, and one more ends
//! the oldest.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::oneshot;

/// All of them.
#[derive(Debug)]
pub(crate) struct Strangers {
    most: usize,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// What ends each, oldest first.
    all: BTreeMap<u64, oneshot::Sender<()>>,
    next: u64,
}

/// One of them; it counts as long as this lives.
#[derive(Debug)]
pub(crate) struct Stranger {
    state: Arc<Mutex<State>>,
    number: u64,
}

/// The end of a stranger, to wait for.
#[derive(Debug)]
pub(crate) struct TurnedAway(oneshot::Receiver<()>);

fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Strangers {
    /// At most so many.
    pub(crate) fn new(most: usize) -> Strangers {
        Strangers { most, state: Arc::default() }
    }

    /// Counts a new connection. If there are too many, the oldest has to go.
    pub(crate) fn arrive(&self) -> (Stranger, TurnedAway) {
        let (end, ended) = oneshot::channel();
        let mut state = locked(&self.state);
        let number = state.next;
        state.next += 1;
        state.all.insert(number, end);
        if state.all.len() > self.most {
            if let Some((_, oldest)) = state.all.pop_first() {
                // It may have ended by itself.
                let _ = oldest.send(());
            }
        }
        (Stranger { state: Arc::clone(&self.state), number }, TurnedAway(ended))
    }
}

impl TurnedAway {
    /// Waits until the connection has to go; for ever, once it is no stranger any more.
    pub(crate) async fn wait(self) {
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

    /// R3, H8.
    #[tokio::test]
    async fn one_stranger_too_many_ends_the_oldest_that_is_still_one() {
        const MOST: usize = 1024;
        let strangers = Strangers::new(MOST);
        let (first, mut first_end) = strangers.arrive();
        drop(first);
        let mut rest: Vec<_> = (0..MOST).map(|_| strangers.arrive()).collect();
        let last = strangers.arrive();
        let (oldest, end) = rest.remove(0);
        timeout(Duration::from_secs(5), end.wait()).await.expect("it has to go");
        assert!(first_end.0.try_recv().is_err(), "who has shown a token stays");
        let (second, end) = rest.remove(0);
        assert!(timeout(Duration::from_millis(10), end.wait()).await.is_err());
        drop((rest, last, oldest, second));
        assert!(locked(&strangers.state).all.is_empty());
    }
}
