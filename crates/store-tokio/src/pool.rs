//! Who may work, and how many at a time.
//!
//! Work is handed over as a whole, and begins and ends without whoever asked for it: that future holds only the place where the
//! result will be. So a future that is alive and not polled, as one in `select!` is, keeps nobody waiting.

use std::any::Any;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::sync::Arc;

use duramen_store::{Store, StoreError};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{oneshot, OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;

use crate::flush::Flushes;

/// Threads that work for a store at a time, unless another number is asked for. Commits are made one after the other, so more
/// help only where many reads wait for a disk.
pub const THREADS_DEFAULT: NonZeroUsize = NonZeroUsize::new(16).unwrap();

/// Threads that work for a store at a time, at most: as many as a runtime has for work that blocks if nobody says otherwise.
pub const THREADS_MAX: usize = 512;

/// Operations that are begun and not ended, at most, those that wait for a thread among them. Further ones wait until others end.
pub const OPERATIONS_MAX: u32 = 1 << 16;

/// What work returned, or its panic.
type Outcome<R> = Result<Result<R, StoreError>, Box<dyn Any + Send>>;

pub(crate) struct Pool {
    queue: Arc<Queue>,
}

struct Queue {
    threads: usize,
    /// One for each operation up to [`OPERATIONS_MAX`].
    places: Arc<Semaphore>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The number of the next job.
    next: u64,
    /// Jobs that have not begun, in the order in which they were asked for.
    waiting: BTreeMap<u64, Job>,
    /// How many have begun and not ended: those with a thread, and those that wait for the disk.
    begun: usize,
    /// How many have a thread.
    working: usize,
    /// The last work is being done: nothing begins beside it.
    is_ending: bool,
    /// The last work is done.
    has_ended: bool,
    /// Somebody begins jobs, and looks again before he stops.
    is_starting: bool,
}

struct Job {
    runtime: Handle,
    place: OwnedSemaphorePermit,
    /// It waits for all that were asked for before, and all others for it.
    is_last: bool,
    work: Box<dyn FnOnce(Begun) + Send>,
}

/// A job that has begun. It ends when this is dropped.
struct Begun {
    queue: Arc<Queue>,
    has_thread: bool,
    is_last: bool,
    _place: OwnedSemaphorePermit,
}

impl Begun {
    /// Gives the thread to another job. This one goes on.
    fn leave_thread(&mut self) {
        self.queue.state.lock().working -= 1;
        self.has_thread = false;
        self.queue.start();
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        let mut state = self.queue.state.lock();
        state.begun -= 1;
        state.working -= usize::from(self.has_thread);
        if self.is_last {
            state.is_ending = false;
        }
        drop(state);
        self.queue.start();
    }
}

/// The place of a job in the queue, which it loses if whoever asked for it is gone.
struct Ticket<'q> {
    queue: &'q Arc<Queue>,
    number: u64,
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        // The work is dropped behind the lock: it is not ours, and may do anything.
        let job = self.queue.state.lock().waiting.remove(&self.number);
        if job.is_some() {
            drop(job);
            self.queue.start();
        }
    }
}

/// Has others begin jobs if this one cannot.
struct Starting<'q>(&'q Queue);

impl Drop for Starting<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.state.lock().is_starting = false;
        }
    }
}

impl Queue {
    fn push(self: &Arc<Self>, job: Job) -> Result<Ticket<'_>, StoreError> {
        let mut state = self.state.lock();
        if state.has_ended {
            return Err(StoreError::Closed);
        }
        let number = state.next;
        state.next += 1;
        state.waiting.insert(number, job);
        drop(state);
        self.start();
        Ok(Ticket { queue: self, number })
    }

    /// Begins the jobs that may begin.
    fn start(self: &Arc<Self>) {
        if std::mem::replace(&mut self.state.lock().is_starting, true) {
            return;
        }
        let _starting = Starting(self);
        while let Some(job) = self.first() {
            let Job { runtime, place, is_last, work } = job;
            let begun = Begun { queue: Arc::clone(self), has_thread: true, is_last, _place: place };
            // A runtime that is being shut down drops the work, and with it what counts it.
            drop(runtime.spawn_blocking(move || work(begun)));
        }
    }

    /// Takes the first job, if it may begin.
    fn first(&self) -> Option<Job> {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let may = match state.waiting.first_key_value() {
            None => false,
            Some((_, job)) if job.is_last => state.begun == 0,
            Some(_) => !state.is_ending && state.working < self.threads,
        };
        let Some((_, job)) = may.then(|| state.waiting.pop_first()).flatten() else {
            state.is_starting = false;
            return None;
        };
        state.begun += 1;
        state.working += 1;
        state.is_ending = job.is_last;
        Some(job)
    }

    /// Nothing begins any more.
    fn end(&self) {
        let mut state = self.state.lock();
        state.has_ended = true;
        let refused = std::mem::take(&mut state.waiting);
        drop(state);
        self.places.close();
        drop(refused);
    }
}

impl Pool {
    pub(crate) fn new(threads: NonZeroUsize) -> Self {
        let places = Arc::new(Semaphore::new(OPERATIONS_MAX as usize));
        let threads = threads.get().min(THREADS_MAX);
        Self { queue: Arc::new(Queue { threads, places, state: Mutex::default() }) }
    }

    /// Does work when there is a thread for it.
    pub(crate) async fn work<R, W>(&self, work: W) -> Result<R, StoreError>
    where
        R: Send + 'static,
        W: FnOnce() -> Result<R, StoreError> + Send + 'static,
    {
        let job = move |begun: Begun, answer: oneshot::Sender<Outcome<R>>| {
            let done = catch_unwind(AssertUnwindSafe(work));
            drop(begun);
            // Nobody may be there to take it.
            drop(answer.send(done));
        };
        self.hand_over(false, job).await
    }

    /// Does work when there is a thread for it, gives the thread back, and has the disk hold what the work wrote, whatever it
    /// returned.
    pub(crate) async fn commit<R, W>(
        &self,
        store: Store,
        flushes: Arc<Flushes>,
        work: W,
    ) -> Result<R, StoreError>
    where
        R: Send + 'static,
        W: FnOnce() -> Result<R, StoreError> + Send + 'static,
    {
        let job = move |mut begun: Begun, answer: oneshot::Sender<Outcome<R>>| {
            let done = catch_unwind(AssertUnwindSafe(work));
            begun.leave_thread();
            let tell = move |flushed: Result<(), StoreError>| {
                drop(begun);
                let done = done.map(|done| flushed.and(done));
                drop(answer.send(done));
            };
            flushes.flush(store, Box::new(tell));
        };
        self.hand_over(false, job).await
    }

    /// Whether the last work is done.
    pub(crate) fn has_ended(&self) -> bool {
        self.queue.state.lock().has_ended
    }

    /// Waits for all operations that have begun, then does the last work. If that succeeds, none begins any more. Does nothing
    /// if that was done before.
    pub(crate) async fn end<W>(&self, last: W) -> Result<(), StoreError>
    where
        W: FnOnce() -> Result<(), StoreError> + Send + 'static,
    {
        let queue = Arc::clone(&self.queue);
        let job = move |begun: Begun, answer: oneshot::Sender<Outcome<()>>| {
            let done = catch_unwind(AssertUnwindSafe(last));
            if let Ok(Ok(())) = done {
                queue.end();
            }
            drop((begun, queue));
            drop(answer.send(done));
        };
        match self.hand_over(true, job).await {
            Err(StoreError::Closed) if self.has_ended() => Ok(()),
            done => done,
        }
    }

    /// Puts a job into the queue, and waits for its answer. If this is dropped before the job begins, it does not begin.
    async fn hand_over<R: Send + 'static>(
        &self,
        is_last: bool,
        job: impl FnOnce(Begun, oneshot::Sender<Outcome<R>>) + Send + 'static,
    ) -> Result<R, StoreError> {
        let places = Arc::clone(&self.queue.places);
        let place = places.acquire_owned().await.map_err(|_| StoreError::Closed)?;
        let (answer, answered) = oneshot::channel();
        let work = Box::new(move |begun| {
            // It may have waited for a thread of the runtime, too.
            if !answer.is_closed() {
                job(begun, answer);
            }
        });
        let _ticket = self.queue.push(Job { runtime: Handle::current(), place, is_last, work })?;
        match answered.await {
            Ok(Ok(done)) => done,
            // A panic of the work goes on in whoever waits for it.
            Ok(Err(panic)) => resume_unwind(panic),
            Err(_) if self.has_ended() => Err(StoreError::Closed),
            Err(_) => Err(shut_down()),
        }
    }
}

/// Runs what may block on a thread for that, to its end once it has begun.
pub(crate) async fn on_thread<R: Send + 'static>(
    work: impl FnOnce() -> R + Send + 'static,
) -> Result<R, StoreError> {
    spawn_blocking(work).await.map_err(|error| match error.try_into_panic() {
        Ok(panic) => resume_unwind(panic),
        Err(_) => shut_down(),
    })
}

fn shut_down() -> StoreError {
    StoreError::InvalidInput {
        what: "work on a runtime that is being shut down",
        reason: "it takes no more work, and this was not begun; use the store on another runtime".to_owned(),
    }
}
