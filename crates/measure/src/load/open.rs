//! The open loop: operations that start when they are due.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::{mpsc, Semaphore};

use super::{Call, LoadError, Sample};
use crate::histogram::LatencyHistogram;
use duramen_base::clock;

/// How soon the pacing thread notices that nobody wants the run any more.
const LONGEST_SLEEP: Duration = Duration::from_millis(50);

/// No run takes a year; a longer deadline, such as `Duration::MAX`, would be beyond the clock's range.
const LONGEST_RUN: Duration = Duration::from_secs(365 * 86_400);

/// What an open loop did. Every operation of the schedule is in exactly one of the four groups:
/// `samples.len() + unfinished.len() + dropped + not_started` is the `count` that was asked for.
#[derive(Clone, Debug)]
pub struct OpenRun<T> {
    /// The operations that ended, in the order of the schedule.
    pub samples: Vec<Sample<T>>,
    /// The operations that the deadline cut off: how long each had lasted by then, from its scheduled start.
    pub unfinished: Vec<Duration>,
    /// The operations that were not started because as many as allowed were in flight: the system, as a user sees
    /// it, refused them. A run with drops has no right percentiles; the number of drops is its result.
    pub dropped: u64,
    /// The operations that were not yet due at the deadline, or when the load was stopped.
    pub not_started: u64,
    /// From the beginning of the run to the end of the last operation, or the deadline if it cut one off.
    pub elapsed: Duration,
}

impl<T> OpenRun<T> {
    /// The latencies from the scheduled starts. Operations that the deadline cut off count with the time that they
    /// had lasted, which is less than they would have taken but does not hide them.
    pub fn latencies(&self) -> LatencyHistogram {
        self.samples.iter().map(|sample| sample.latency).chain(self.unfinished.iter().copied()).collect()
    }

    /// How late the load generator itself started the operations. If this is not small against the latencies,
    /// they tell of the generator and not of the system.
    pub fn lateness(&self) -> LatencyHistogram {
        self.samples.iter().map(|sample| sample.started.saturating_sub(sample.scheduled)).collect()
    }

    /// Whether every operation was started in its turn and ended.
    pub fn is_complete(&self) -> bool {
        self.unfinished.is_empty() && self.dropped == 0 && self.not_started == 0
    }
}

enum Outcome<T> {
    Ended(Sample<T>),
    CutOff { lasted: Duration },
    Dropped,
    NotStarted(u64),
}

/// Starts `count` operations, the first at once and then `rate_per_s` a second, whatever became of the earlier ones.
///
/// Latencies count from the scheduled start. At most `max_in_flight` operations run at once; one that is due while
/// they do is dropped and counted. At `deadline` after the beginning, whatever still runs is cut off, and nothing is
/// started any more.
///
/// A thread of its own keeps the time, because tokio's timers have the resolution of a millisecond and do not fire
/// while its threads are busy, which would be another coordinated omission.
///
/// # Errors
/// With a rate that is not a positive number, with none allowed in flight, or when an operation panicked.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// use duramen_measure::load::open_loop;
/// use std::time::Duration;
///
/// let run = open_loop(1000.0, 20, 8, Duration::from_secs(5), |call| async move { call.index }).await?;
/// assert_eq!(run.samples.len() as u64 + run.dropped, 20);
/// # Ok::<(), duramen_measure::load::LoadError>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Panics
/// Outside a tokio runtime with timers.
pub async fn open_loop<F, R, T>(
    rate_per_s: f64,
    count: u64,
    max_in_flight: usize,
    deadline: Duration,
    op: F,
) -> Result<OpenRun<T>, LoadError>
where
    F: Fn(Call) -> R + Send + Sync + 'static,
    R: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    open_loop_until(std::future::pending(), rate_per_s, count, max_in_flight, deadline, op).await
}

/// As [`open_loop`], until `stop` ends: from then on nothing more is started, and what is in flight goes on to its end
/// or the deadline. For loads that are to last as long as something else does.
///
/// # Errors
/// As [`open_loop`].
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// use duramen_measure::load::open_loop_until;
/// use std::time::Duration;
///
/// let stop = tokio::time::sleep(Duration::from_millis(50));
/// let run = open_loop_until(stop, 100.0, 1_000, 8, Duration::from_secs(5), |call| async move { call.index }).await?;
/// assert!(run.samples.len() < 1_000 && run.not_started > 0);
/// # Ok::<(), duramen_measure::load::LoadError>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Panics
/// Outside a tokio runtime with timers.
pub async fn open_loop_until<F, R, T>(
    stop: impl Future<Output = ()>,
    rate_per_s: f64,
    count: u64,
    max_in_flight: usize,
    deadline: Duration,
    op: F,
) -> Result<OpenRun<T>, LoadError>
where
    F: Fn(Call) -> R + Send + Sync + 'static,
    R: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    if !(rate_per_s.is_finite() && rate_per_s > 0.0) {
        return Err(LoadError::Rate(rate_per_s));
    }
    if max_in_flight == 0 {
        return Err(LoadError::Nobody);
    }
    let deadline = deadline.min(LONGEST_RUN);
    let (outcomes, mut received) = mpsc::unbounded_channel();
    let pacer = Pacer {
        runtime: Handle::current(),
        in_flight: Arc::new(Semaphore::new(max_in_flight.min(Semaphore::MAX_PERMITS))),
        outcomes,
        rate_per_s,
        count,
        deadline,
        stopped: Arc::default(),
        op: Arc::new(op),
    };
    let stopped = Arc::clone(&pacer.stopped);
    let mut stop = pin!(stop);
    // If this future is dropped, the channel closes, and the thread and all operations end by themselves.
    let pacing = tokio::task::spawn_blocking(move || pacer.run());

    let mut run = OpenRun {
        samples: Vec::new(),
        unfinished: Vec::new(),
        dropped: 0,
        not_started: 0,
        elapsed: Duration::ZERO,
    };
    loop {
        let outcome = tokio::select! {
            outcome = received.recv() => outcome,
            () = &mut stop, if !stopped.load(Ordering::Relaxed) => {
                stopped.store(true, Ordering::Relaxed);
                continue;
            }
        };
        let Some(outcome) = outcome else { break };
        match outcome {
            Outcome::Ended(sample) => {
                run.elapsed = run.elapsed.max(sample.scheduled + sample.latency);
                run.samples.push(sample);
            }
            Outcome::CutOff { lasted } => {
                run.elapsed = run.elapsed.max(deadline);
                run.unfinished.push(lasted);
            }
            Outcome::Dropped => run.dropped += 1,
            Outcome::NotStarted(rest) => run.not_started += rest,
        }
    }
    let accounted = run.samples.len() as u64 + run.unfinished.len() as u64 + run.dropped + run.not_started;
    // An operation that panicked took its end of the channel along without a word.
    if pacing.await.is_err() || accounted < count {
        return Err(LoadError::Panicked(count.saturating_sub(accounted)));
    }
    run.samples.sort_by_key(|sample| sample.call.index);
    Ok(run)
}

/// The thread that keeps the schedule.
struct Pacer<F, T> {
    runtime: Handle,
    in_flight: Arc<Semaphore>,
    outcomes: mpsc::UnboundedSender<Outcome<T>>,
    rate_per_s: f64,
    count: u64,
    deadline: Duration,
    stopped: Arc<AtomicBool>,
    op: Arc<F>,
}

impl<F, R, T> Pacer<F, T>
where
    F: Fn(Call) -> R + Send + Sync + 'static,
    R: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    fn run(self) {
        let begin = clock::now();
        for index in 0..self.count {
            // Each time comes from the beginning, so that the errors of the sleeps do not add up.
            let offset = index as f64 / self.rate_per_s;
            let scheduled = Duration::try_from_secs_f64(offset).unwrap_or(Duration::MAX);
            if scheduled < self.deadline && self.sleep_until(begin + scheduled) {
                self.start(index, begin, scheduled);
            } else {
                self.report(Outcome::NotStarted(self.count - index));
                return;
            }
        }
    }

    /// Whether the run is still wanted.
    fn sleep_until(&self, due: Instant) -> bool {
        loop {
            if self.outcomes.is_closed() || self.stopped.load(Ordering::Relaxed) {
                return false;
            }
            let left = due.saturating_duration_since(clock::now());
            if left.is_zero() {
                return true;
            }
            std::thread::sleep(left.min(LONGEST_SLEEP));
        }
    }

    fn start(&self, index: u64, begin: Instant, scheduled: Duration) {
        let Ok(permit) = Arc::clone(&self.in_flight).try_acquire_owned() else {
            self.report(Outcome::Dropped);
            return;
        };
        let (op, outcomes, deadline) = (Arc::clone(&self.op), self.outcomes.clone(), self.deadline);
        self.runtime.spawn(async move {
            let call = Call { client: 0, index };
            let started = begin.elapsed();
            let cut_off = tokio::time::sleep_until((begin + deadline).into());
            let outcome = tokio::select! {
                // An operation that ended at the deadline has ended.
                biased;
                output = op(call) => {
                    let latency = begin.elapsed().saturating_sub(scheduled);
                    Outcome::Ended(Sample { call, scheduled, started, latency, output })
                }
                () = cut_off => Outcome::CutOff { lasted: begin.elapsed().saturating_sub(scheduled) },
                () = outcomes.closed() => return,
            };
            drop(permit);
            // Nobody listens any more only when the run was given up.
            outcomes.send(outcome).ok();
        });
    }

    fn report(&self, outcome: Outcome<T>) {
        self.outcomes.send(outcome).ok();
    }
}
