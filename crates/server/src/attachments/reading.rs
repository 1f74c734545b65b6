//! Reading what is attached: on threads of its own, so many at a time, for so long.

use crate::reply::Refusal;
use duramen_attachments::{
    error::{ReadError, Remedy},
    shelf::Shelf,
};
use duramen_branches::{EngineError, Kind};
use hyper::StatusCode;
use std::{
    sync::{
        atomic::{AtomicBool, Ordering},
        Arc,
    },
    time::Duration,
};
use tokio::{
    sync::Semaphore,
    time::{sleep, timeout},
};

/// How many read at a time. An answer may take 200 MiB while it is found.
const READERS_MAX: usize = 4;
/// How long one waits for its turn.
const TURN: Duration = Duration::from_secs(5);
/// How long an answer may take. What is opened goes on, and is there for who asks again.
const ANSWER: Duration = Duration::from_secs(30);
/// How often is looked whether something is open that nobody looks at.
const CLOSE: Duration = Duration::from_secs(15);

/// What is open of what is attached.
#[derive(Debug)]
pub(crate) struct Reading {
    shelf: Arc<Shelf>,
    turns: Arc<Semaphore>,
    /// Whether somebody looks already for what is to be closed.
    closes: Arc<AtomicBool>,
}

impl Default for Reading {
    fn default() -> Reading {
        Reading {
            shelf: Arc::default(),
            turns: Arc::new(Semaphore::new(READERS_MAX)),
            closes: Arc::default(),
        }
    }
}

impl Reading {
    /// Reads something. A damaged file must not end more than the request.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Shelf) -> Result<T, ReadError> + Send + 'static,
    ) -> Result<T, Refusal> {
        let turn = timeout(TURN, Arc::clone(&self.turns).acquire_owned()).await;
        let Ok(Ok(turn)) = turn else {
            let message =
                format!("{READERS_MAX} others are reading what is attached; try again in a few seconds");
            return Err(EngineError::new(Kind::Unavailable, "busy", message).into());
        };
        let shelf = Arc::clone(&self.shelf);
        let task = tokio::task::spawn_blocking(move || {
            // One that nobody waits for any more keeps its place until it ends.
            let _turn = turn;
            work(&shelf)
        });
        let answer = timeout(ANSWER, task).await;
        self.close_later();
        match answer {
            Ok(Ok(answer)) => Ok(answer?),
            Ok(Err(error)) => {
                tracing::error!(%error, "reading an attachment ended by a fault of the program");
                let message = "it could not be read: a fault of the program, which the daemon's log tells";
                Err(Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message))
            }
            Err(_) => {
                let message = format!(
                    "there was no answer in {} s; what is opened goes on, so try again in a while, or ask for less",
                    ANSWER.as_secs()
                );
                Err(EngineError::new(Kind::Timeout, "too_slow", message).into())
            }
        }
    }

    /// Has somebody look for what is to be closed, until nothing is open.
    fn close_later(&self) {
        if self.closes.swap(true, Ordering::SeqCst) {
            return;
        }
        let (shelf, closes) = (Arc::clone(&self.shelf), Arc::clone(&self.closes));
        tokio::spawn(async move {
            loop {
                sleep(CLOSE).await;
                // Who opens something from now on has somebody look, too.
                closes.store(false, Ordering::SeqCst);
                let shelf = Arc::clone(&shelf);
                let is_left =
                    tokio::task::spawn_blocking(move || shelf.close_unused()).await.unwrap_or(false);
                if !is_left || closes.swap(true, Ordering::SeqCst) {
                    return;
                }
            }
        });
    }
}

impl From<ReadError> for Refusal {
    fn from(error: ReadError) -> Refusal {
        let kind = match (&error, error.remedy()) {
            (ReadError::Gone { .. }, _) | (_, Remedy::AskForAnother) => Kind::NotFound,
            (ReadError::TooLarge { .. }, _) | (_, Remedy::AskDifferently) => Kind::Invalid,
            (ReadError::TooSlow { .. }, _) => Kind::Timeout,
            (_, Remedy::AskAgain) => Kind::Unavailable,
            // `MendIt`, and what is added later.
            _ => Kind::Failed,
        };
        EngineError::new(kind, error.code(), error.to_string()).into()
    }
}
