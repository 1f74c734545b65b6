//! Watching a branch: what changed in it since the last look, as soon as somebody asks.

use std::future::{poll_fn, Future};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{ready, Context, Poll};
use std::time::Duration;

use duramen_store::{DiffEntry, StoreError, Watch};
use futures_core::Stream;

use crate::store::Shared;

/// A version, and what changed up to it in the order of the keys.
type Changes = (u64, Vec<DiffEntry>);

type Look = Pin<Box<dyn Future<Output = (Option<Watch>, Result<Option<Changes>, StoreError>)> + Send>>;

/// What changes in a branch: see [`AsyncBranch::watch`](crate::AsyncBranch::watch). It is a [`Stream`], too.
///
/// Nothing is queued for a watch, so whoever is slow costs the writer nothing and misses no change of a key: he sees several of
/// one key as one. A watch that waits holds no thread.
///
/// It ends after its first error: the branch was deleted, the store was closed, or cannot be read.
pub struct AsyncWatch {
    state: State,
    version: u64,
    shared: Arc<Shared>,
}

enum State {
    Waiting(Watch),
    Looking(Look),
    Ended,
}

impl AsyncWatch {
    pub(crate) fn new(watch: Watch, shared: Arc<Shared>) -> Self {
        Self { version: watch.version(), state: State::Waiting(watch), shared }
    }

    /// The version up to which changes were returned.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Waits until something changed, and returns what, in the order of the keys, with the version up to which that goes; none
    /// when the watch has ended. If this is dropped before it is done, nothing is lost: the next call returns it.
    ///
    /// # Errors
    /// When the branch is gone, or cannot be read; [`StoreError::Closed`].
    pub async fn next(&mut self) -> Option<Result<(u64, Vec<DiffEntry>), StoreError>> {
        poll_fn(|context| self.poll(context)).await
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Changes, StoreError>>> {
        loop {
            match &mut self.state {
                State::Waiting(watch) => {
                    if let Err(error) = ready!(watch.poll_later(context)) {
                        return self.end(error);
                    }
                    let State::Waiting(watch) = std::mem::replace(&mut self.state, State::Ended) else {
                        unreachable!("it was looked at")
                    };
                    self.state = State::Looking(Box::pin(look(self.shared.clone(), watch)));
                }
                State::Looking(looking) => {
                    let (watch, found) = ready!(looking.as_mut().poll(context));
                    self.state = watch.map_or(State::Ended, State::Waiting);
                    match found {
                        // Something was written elsewhere.
                        Ok(None) => {}
                        Ok(Some(changes)) => {
                            self.version = changes.0;
                            return Poll::Ready(Some(Ok(changes)));
                        }
                        Err(error) => return self.end(error),
                    }
                }
                State::Ended => return Poll::Ready(None),
            }
        }
    }

    fn end(&mut self, error: StoreError) -> Poll<Option<Result<Changes, StoreError>>> {
        self.state = State::Ended;
        Poll::Ready(Some(Err(error)))
    }
}

async fn look(shared: Arc<Shared>, mut watch: Watch) -> (Option<Watch>, Result<Option<Changes>, StoreError>) {
    let looked = shared
        .run(move || {
            let found = watch.next(Duration::ZERO);
            Ok((watch, found))
        })
        .await;
    match looked {
        Ok((watch, found)) => (Some(watch), found),
        Err(error) => (None, Err(error)),
    }
}

impl Stream for AsyncWatch {
    type Item = Result<(u64, Vec<DiffEntry>), StoreError>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll(context)
    }
}

impl std::fmt::Debug for AsyncWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AsyncWatch").field("version", &self.version).finish_non_exhaustive()
    }
}
