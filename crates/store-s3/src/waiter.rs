//! Waiting, from a plain thread, for what runs on the runtime of a store.

use std::future::Future;
use std::sync::mpsc;
use std::time::Duration;

use tokio::runtime::{Handle, Runtime};

use crate::error::RemoteError;

/// Threads of the runtime: they wait for answers, and compress, sum and sort when SlateDB compacts.
const THREADS: usize = 2;
/// What a wait lets its task overstay before it gives it up: the task has the same deadline, and says more.
const GRACE: Duration = Duration::from_secs(2);

/// The runtime of a store, and how long it is waited for.
pub(crate) struct Waiter {
    /// None only while it is dropped.
    runtime: Option<Runtime>,
    deadline: Duration,
}

impl Waiter {
    pub(crate) fn new(deadline: Duration) -> Result<Self, RemoteError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("store-s3")
            .enable_all()
            .build()
            .map_err(|error| RemoteError::Io {
                action: "start the threads of",
                path: "the store".to_owned(),
                error,
            })?;
        Ok(Self { runtime: Some(runtime), deadline })
    }

    pub(crate) fn deadline(&self) -> Duration {
        self.deadline
    }

    pub(crate) fn handle(&self) -> Option<&Handle> {
        self.runtime.as_ref().map(Runtime::handle)
    }

    /// Runs something, and waits for it, but not for ever. The caller may itself be a task of another runtime.
    pub(crate) fn wait<T: Send + 'static>(
        &self,
        what: &'static str,
        work: impl Future<Output = Result<T, RemoteError>> + Send + 'static,
    ) -> Result<T, RemoteError> {
        let deadline = self.deadline;
        let ended = |last: &str| RemoteError::Deadline { what, after: deadline, last: last.to_owned() };
        let Some(handle) = self.handle() else { return Err(ended("the store is closed")) };
        let (answer, answered) = mpsc::sync_channel(1);
        let task = handle.spawn(async move {
            let done = tokio::time::timeout(deadline, work).await;
            // Nobody waits any more if this fails.
            let _ = answer.send(done);
        });
        match answered.recv_timeout(deadline + GRACE) {
            Ok(Ok(done)) => done,
            Ok(Err(_)) => Err(ended("nothing")),
            Err(mpsc::RecvTimeoutError::Timeout) => {
                task.abort();
                Err(ended("nothing"))
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                Err(RemoteError::Failed { what, said: "it was broken off".to_owned() })
            }
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // It may be dropped on a thread of another runtime, which may not wait.
            runtime.shutdown_background();
        }
    }
}
