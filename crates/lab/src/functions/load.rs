//! The load: sessions that start an instance, wait for its end and read its result, over and over.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use duramen_base::{clock, entropy};
use duramen_functions::client::{Client, Ended, Waiter};
use duramen_measure::histogram::LatencyHistogram;
use tokio::task::JoinSet;

/// An instance that has not ended within this is given up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// A session gives up after so many failures.
const FAILURES: u64 = 3;
/// So many failures of a load are told.
const SHOWN: usize = 3;

/// What is expected of an instance in the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expect {
    /// A result, which is read: one row of one step.
    Row,
    /// A result, which is read: of whatever form.
    Any,
    /// That it fails.
    Failure,
    /// Nothing now: the result is read when all is counted.
    Later,
}

/// One kind of instance.
#[derive(Debug, Clone)]
pub(crate) struct Work {
    /// What is started: a statement, or a graph as the functions of the schema make it.
    pub(crate) graph: Arc<str>,
    pub(crate) expect: Expect,
    /// It cannot take less than this.
    pub(crate) least: Duration,
    /// The queue that it goes through.
    pub(crate) queue: Option<&'static str>,
}

impl Work {
    pub(crate) fn new(graph: &str, expect: Expect) -> Self {
        Self { graph: graph.into(), expect, least: Duration::ZERO, queue: None }
    }
}

/// What a load has seen.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tally {
    /// From the start to the result, or to the end where that is not read.
    pub(crate) latencies: LatencyHistogram,
    /// The call of `df.start` alone.
    pub(crate) starts: LatencyHistogram,
    pub(crate) completed: u64,
    /// The instances whose results are read later.
    pub(crate) ids: Vec<String>,
    pub(crate) failed: Vec<String>,
    pub(crate) failed_count: u64,
}

impl Tally {
    fn fail(&mut self, failure: String) {
        self.failed_count += 1;
        if self.failed.len() < SHOWN {
            self.failed.push(failure);
        }
    }
}

/// Tallies of equal parts of a time, in order.
pub(crate) struct Book {
    begin: Instant,
    each: Duration,
    parts: Vec<Mutex<Tally>>,
}

impl Book {
    /// Begins now.
    pub(crate) fn new(whole: Duration, parts: u32) -> Arc<Self> {
        let tallies = (0..parts).map(|_| Mutex::default()).collect();
        Arc::new(Self { begin: clock::now(), each: whole / parts, parts: tallies })
    }

    /// Writes into the part that is now; after the end, into the last.
    fn write(&self, write: impl FnOnce(&mut Tally)) {
        let part = self.begin.elapsed().as_nanos() / self.each.as_nanos().max(1);
        let part = usize::try_from(part).unwrap_or(usize::MAX).min(self.parts.len() - 1);
        write(&mut self.parts[part].lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// All tallies.
    pub(crate) fn read(&self) -> Vec<Tally> {
        let read = |part: &Mutex<Tally>| part.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.parts.iter().map(read).collect()
    }
}

/// Runs a closed loop for so long and returns its tally, with the time from the first start to the last end. The sessions
/// stay open, so that the caller can still look at what their server processes have used.
pub(crate) async fn closed(
    sessions: &[Arc<Client>],
    waiter: &Arc<Waiter>,
    work: &Work,
    how_long: Duration,
) -> (Tally, Duration) {
    let book = Book::new(how_long, 1);
    let begin = clock::now();
    let mut running = JoinSet::new();
    for session in sessions {
        running.spawn(over_and_over(
            Arc::clone(session),
            Arc::clone(waiter),
            work.clone(),
            begin + how_long,
            Arc::clone(&book),
        ));
    }
    // A session that panicked has shown why.
    while running.join_next().await.is_some() {}
    let elapsed = begin.elapsed();
    let tally = book.read().pop().unwrap_or_default();
    (tally, elapsed)
}

/// So many instances of a paced load may be on their way at once; what would be more is counted as failed, because the machine does
/// not keep up and the rate is not what was asked for.
const AWAY_MAX: usize = 500;

/// Starts instances at a rate, whether those before have ended or not, each at a time that the seed decides (a Poisson process), and
/// waits for their ends. Latencies count from when an instance was due.
pub(crate) async fn paced(
    sessions: &[Arc<Client>],
    waiter: &Arc<Waiter>,
    work: &Work,
    per_s: f64,
    how_long: Duration,
    seed: u64,
) -> Tally {
    let book = Book::new(how_long, 1);
    let begin = clock::now();
    let mut chance = entropy::rng(seed);
    let mut due = Duration::ZERO;
    let mut running = JoinSet::new();
    for session in sessions.iter().cycle() {
        due += Duration::from_secs_f64(-(1.0 - chance.f64()).ln() / per_s);
        if due >= how_long {
            break;
        }
        tokio::time::sleep_until((begin + due).into()).await;
        while running.try_join_next().is_some() {}
        if running.len() >= AWAY_MAX {
            book.write(|tally| {
                tally.fail(format!("{AWAY_MAX} instances are under way: it does not keep up"))
            });
            continue;
        }
        let (session, waiter, work, book) =
            (Arc::clone(session), Arc::clone(waiter), work.clone(), Arc::clone(&book));
        running.spawn(async move {
            let ended = one(&session, &waiter, &work).await;
            let latency = begin.elapsed().saturating_sub(due);
            book.write(|tally| match ended {
                Ok((start, _)) => {
                    tally.latencies.record(latency);
                    tally.starts.record(start);
                    tally.completed += 1;
                }
                Err(failure) => tally.fail(failure),
            });
        });
    }
    // One that panicked has shown why.
    while running.join_next().await.is_some() {}
    book.read().pop().unwrap_or_default()
}

/// One session of a closed loop: until the deadline, and then to the end of its last instance.
pub(crate) async fn over_and_over(
    session: Arc<Client>,
    waiter: Arc<Waiter>,
    work: Work,
    deadline: Instant,
    book: Arc<Book>,
) {
    let mut failures = 0;
    while clock::now() < deadline && failures < FAILURES {
        let begin = clock::now();
        match one(&session, &waiter, &work).await {
            Ok((start, id)) => {
                let latency = begin.elapsed();
                if latency < work.least {
                    failures += 1;
                    book.write(|tally| {
                        tally.fail(format!(
                            "{id} ended after {latency:?}, {:?} too early",
                            work.least - latency
                        ))
                    });
                    continue;
                }
                book.write(|tally| {
                    tally.latencies.record(latency);
                    tally.starts.record(start);
                    tally.completed += 1;
                    if work.expect == Expect::Later {
                        tally.ids.push(id);
                    }
                });
            }
            Err(failure) => {
                failures += 1;
                book.write(|tally| tally.fail(failure));
            }
        }
    }
}

/// Starts one instance, waits for its end, and looks at it as `expect` says. Returns how long the start took.
async fn one(session: &Client, waiter: &Waiter, work: &Work) -> Result<(Duration, String), String> {
    let begin = clock::now();
    let started = match work.queue {
        None => session.start(&work.graph, None).await,
        Some(queue) => session.start_in(queue, &work.graph).await,
    };
    let id = started.map_err(|error| format!("df.start: {error}"))?;
    let start = begin.elapsed();
    if work.expect == Expect::Later {
        waiter.ended(&id, PATIENCE).await.map_err(|error| error.to_string())?;
        return Ok((start, id));
    }
    let Ended { status, output } = waiter.result(&id, PATIENCE).await.map_err(|error| error.to_string())?;
    let is_as_expected = match work.expect {
        Expect::Failure => status == "failed",
        Expect::Any => status == "completed" && output.is_some(),
        Expect::Row => {
            status == "completed" && output.as_ref().is_some_and(|text| text.contains("\"row_count\":1"))
        }
        Expect::Later => true,
    };
    if is_as_expected {
        Ok((start, id))
    } else {
        Err(format!("{id} is {status}, and its result is {}", output.unwrap_or_default()))
    }
}
