//! Imports can be given up while they run: because whoever asked for one has left, or because the daemon stops.

use crate::error::{EngineError, SourceError};
use std::sync::Arc;
use tokio::sync::watch;

/// Why an import is given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    CallerLeft,
    Stopping,
}

impl Reason {
    pub(crate) fn told(self) -> EngineError {
        match self {
            Reason::CallerLeft => SourceError::CallerLeft,
            Reason::Stopping => SourceError::Stopping,
        }
        .into()
    }
}

/// Gives up one import. The first reason counts.
#[derive(Debug, Clone)]
pub(crate) struct Interrupt(Arc<watch::Sender<Option<Reason>>>);

impl Interrupt {
    pub(crate) fn new() -> Interrupt {
        Interrupt(Arc::new(watch::Sender::new(None)))
    }

    pub(crate) fn give(&self, reason: Reason) {
        self.0.send_if_modified(|given| {
            let is_first = given.is_none();
            given.get_or_insert(reason);
            is_first
        });
    }

    pub(crate) fn reason(&self) -> Option<Reason> {
        *self.0.borrow()
    }

    /// Waits until it is given.
    pub(crate) async fn given(&self) -> Reason {
        loop {
            let mut given = self.0.subscribe();
            if let Ok(Some(reason)) = given.wait_for(Option::is_some).await.map(|given| *given) {
                return reason;
            }
        }
    }

    /// For work that waits for nothing, between two of its steps.
    ///
    /// # Errors
    /// When the import is given up.
    pub(crate) fn check(&self) -> Result<(), EngineError> {
        self.reason().map_or(Ok(()), |reason| Err(reason.told()))
    }

    /// Gives the import up when this is dropped, unless it has ended by then.
    pub(crate) fn when_dropped(&self) -> WhenDropped {
        WhenDropped(self.clone())
    }

    /// Whether both give up the same import.
    pub(crate) fn is_of(&self, other: &Interrupt) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// The caller of an import, who is waiting.
#[derive(Debug)]
pub(crate) struct WhenDropped(Interrupt);

impl Drop for WhenDropped {
    fn drop(&mut self) {
        self.0.give(Reason::CallerLeft);
    }
}
