//! Space of the volume store that is set aside for data and holds little of it is made free for any use, before there is
//! none for anything else (B56).

use crate::shared::Shared;
use std::{
    io,
    sync::Arc,
    thread::{self, JoinHandle},
    time::Duration,
};

/// How often what runs is told to end.
const END_EVERY: Duration = Duration::from_millis(10);

/// The slice that runs.
#[derive(Debug, Default)]
pub(crate) struct Balance(Option<JoinHandle<io::Result<bool>>>);

impl Balance {
    /// Begins a slice in a thread of its own, if one is needed: it may take seconds, in which creates must not wait.
    pub(crate) fn look(&mut self, shared: &Arc<Shared>) {
        if self.0.as_ref().is_some_and(JoinHandle::is_finished) {
            self.heed();
        }
        let store = &shared.environment.store;
        if self.0.is_none() && store.is_unbalanced() {
            let store = Arc::clone(store);
            // Without a thread it is tried again.
            self.0 = thread::Builder::new().name("balance".to_owned()).spawn(move || store.balance()).ok();
        }
    }

    /// Has what runs left as it is, and waits for that.
    pub(crate) fn end(mut self, shared: &Shared) {
        while self.0.as_ref().is_some_and(|thread| !thread.is_finished()) {
            shared.environment.store.end_balance();
            thread::sleep(END_EVERY);
        }
        self.heed();
    }

    fn heed(&mut self) {
        let Some(thread) = self.0.take() else { return };
        match thread.join() {
            Ok(Ok(true)) => {
                tracing::info!("a part of the volume store that held little was made free for any use")
            }
            Ok(Ok(false)) => {}
            Ok(Err(error)) => {
                tracing::warn!(%error, "the volume store has space for data alone, and cannot be balanced");
            }
            Err(_) => tracing::error!("the thread that balanced the volume store had panicked"),
        }
    }
}
