//! The load: sessions that commit, as fast as they can (closed loop) or at fixed times (open loop).
//!
//! In the open loop each commit is due at its time whatever became of the earlier ones. What finds no free session
//! waits in a queue, and its response counts from when it was due: a stall of seconds is in the response of every
//! commit that fell into it.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use duramen_base::{clock, entropy};
use duramen_measure::histogram::LatencyHistogram;
use duramen_measure::load::open_loop_until;
use tokio::sync::{watch, Semaphore};
use tokio::task::JoinSet;

use super::super::level::Level;
use super::super::outcome::{Block, Sample};
use super::super::pair::Pair;
use super::super::scenario::Probe;
use super::session::Session;
use super::stall;
use super::text::Names;
use duramen_reports::suite::SuiteError;
use duramen_workload::Crew;

/// So many commits may wait for a free session; what is due beyond counts as failed. A queue of this length is some
/// tens of megabytes.
const QUEUE: usize = 50_000;
/// No load lasts longer.
const LONGEST: Duration = Duration::from_secs(600);
/// What has not ended so long after the load was stopped is cancelled, and counts as failed.
const DRAIN: Duration = Duration::from_secs(20);

/// Sessions, and what they commit.
pub(super) struct Load {
    sessions: Mutex<VecDeque<Hand>>,
    free: Semaphore,
    weights: Vec<u32>,
    ranges: Vec<(i64, i64)>,
    rng: Mutex<fastrand::Rng>,
    committed: AtomicU64,
    origin: Instant,
}

/// Who commits: a session of the scenario's load, or one of those of a workload, whichever is free.
#[derive(Clone)]
enum Hand {
    Session(Arc<Session>),
    Crew(Arc<Crew>),
}

/// What a load has done. Times count from the origin of the pass.
#[derive(Default)]
pub(super) struct Run {
    pub(super) begin: Duration,
    pub(super) elapsed: Duration,
    pub(super) response: LatencyHistogram,
    pub(super) service: LatencyHistogram,
    pub(super) commits: Vec<Duration>,
    pub(super) committed: u64,
    pub(super) failed: Option<(u64, String)>,
    /// How many were due while the queue was full.
    pub(super) dropped: u64,
    /// Times without commits say nothing: it was one operation, or the times of its commits are not kept.
    pub(super) has_no_gaps: bool,
    /// Where the WAL was when it began, and when it had ended, if somebody asks for it.
    pub(super) wal: Option<(u64, u64)>,
}

/// One operation that ended.
struct Ended {
    at: Duration,
    service: Duration,
    result: Result<(), String>,
    /// It had not ended when the load was given up.
    is_cut_off: bool,
}

impl Load {
    /// Opens `clients` sessions and prepares the statements in each. Times will count from `origin`.
    pub(super) async fn open_sessions(
        pair: &Pair,
        probe: &Probe,
        names: &Names,
        clients: u32,
        seed: u64,
        origin: Instant,
    ) -> Result<Arc<Self>, SuiteError> {
        let texts: Vec<String> = probe.statements.iter().map(|(_, sql)| names.fill(sql)).collect();
        let ranges = probe
            .draws
            .iter()
            .map(|(first, last)| Ok((names.number(first)?, names.number(last)?)))
            .collect::<Result<_, SuiteError>>()?;
        let mut sessions = VecDeque::with_capacity(clients as usize);
        for _ in 0..clients {
            sessions.push_back(Hand::Session(Arc::new(Session::open(pair, &texts).await?)));
        }
        Ok(Arc::new(Self {
            free: Semaphore::new(sessions.len()),
            sessions: Mutex::new(sessions),
            weights: probe.statements.iter().map(|(weight, _)| *weight).collect(),
            ranges,
            rng: Mutex::new(entropy::rng(seed)),
            committed: AtomicU64::new(0),
            origin,
        }))
    }

    /// The load is a workload's.
    pub(super) fn of_crew(crew: &Arc<Crew>, seed: u64, origin: Instant) -> Arc<Self> {
        let sessions: VecDeque<Hand> = (0..crew.clients()).map(|_| Hand::Crew(Arc::clone(crew))).collect();
        Arc::new(Self {
            free: Semaphore::new(sessions.len()),
            sessions: Mutex::new(sessions),
            weights: Vec::new(),
            ranges: Vec::new(),
            rng: Mutex::new(entropy::rng(seed)),
            committed: AtomicU64::new(0),
            origin,
        })
    }

    /// How many sessions there are.
    pub(super) fn clients(&self) -> u32 {
        u32::try_from(self.locked().len()).unwrap_or(u32::MAX)
    }

    /// How many commits were acknowledged since the sessions were opened.
    pub(super) fn committed(&self) -> u64 {
        self.committed.load(Ordering::Relaxed)
    }

    /// All sessions commit at this level from now on.
    pub(super) async fn set_level(&self, level: Level) -> Result<(), SuiteError> {
        let sessions: Vec<_> = self.locked().iter().cloned().collect();
        for session in sessions {
            match session {
                Hand::Session(session) => session.set_level(level).await?,
                // All of them at once.
                Hand::Crew(crew) => return crew.set_level(level.name()).await.map_err(SuiteError::other),
            }
        }
        Ok(())
    }

    /// A closed loop of the first `clients` sessions.
    pub(super) async fn closed(self: &Arc<Self>, clients: u32, how_long: Duration) -> Run {
        let sessions: Vec<_> = self.locked().iter().take(clients as usize).cloned().collect();
        let begin = clock::now();
        let (_keep, give_up) = give_up_after(how_long + DRAIN);
        let mut running = JoinSet::new();
        for session in sessions {
            let (load, mut give_up) = (Arc::clone(self), give_up.clone());
            running.spawn(async move {
                let mut ended = Vec::new();
                while begin.elapsed() < how_long {
                    let one = load.one(&session, &mut give_up).await;
                    let is_broken = one.result.is_err();
                    ended.push(one);
                    if is_broken {
                        // Whatever fails at once must not become a busy loop.
                        tokio::time::sleep(Duration::from_millis(10)).await;
                    }
                }
                ended
            });
        }
        let mut run = Run { begin: self.since_origin(begin), ..Run::default() };
        // A task that panicked has shown why.
        while let Some(Ok(ended)) = running.join_next().await {
            for one in ended {
                run.note(one);
            }
        }
        run.elapsed = begin.elapsed();
        run.commits.sort_unstable();
        run
    }

    /// An open loop of so many commits a second, until `stop` ends; then what is in flight or waits goes on to its end.
    pub(super) async fn open(
        self: &Arc<Self>,
        rate_per_s: f64,
        stop: impl Future<Output = ()>,
    ) -> Result<Run, SuiteError> {
        let begin = clock::now();
        let (give_up, given_up) = watch::channel(false);
        let stop = async {
            stop.await;
            tokio::spawn(async move {
                tokio::time::sleep(DRAIN).await;
                // Without a receiver everything has ended.
                let _ = give_up.send(true);
                give_up.closed().await;
            });
        };
        let load = Arc::clone(self);
        let count = (rate_per_s * LONGEST.as_secs_f64()).ceil() as u64;
        let ran = open_loop_until(stop, rate_per_s, count, QUEUE, LONGEST + DRAIN, move |_| {
            let (load, mut give_up) = (Arc::clone(&load), given_up.clone());
            async move { load.one_of_the_free(&mut give_up).await }
        })
        .await?;
        let mut run = Run { begin: self.since_origin(begin), elapsed: begin.elapsed(), ..Run::default() };
        for sample in ran.samples {
            // What was cut off has waited for so long at least; how soon something fails says nothing of commits.
            if sample.output.result.is_ok() || sample.output.is_cut_off {
                run.response.record(sample.latency);
            }
            run.note(sample.output);
        }
        for lasted in &ran.unfinished {
            run.response.record(*lasted);
        }
        run.fail(ran.unfinished.len() as u64, "had not ended when the load ended");
        run.fail(ran.dropped, "were due while the queue was full");
        run.dropped = ran.dropped;
        run.commits.sort_unstable();
        Ok(run)
    }

    async fn one_of_the_free(&self, give_up: &mut watch::Receiver<bool>) -> Ended {
        let permit = tokio::select! {
            biased;
            permit = self.free.acquire() => permit.ok(),
            () = is_given_up(give_up) => None,
        };
        let session = permit.as_ref().and_then(|_| self.locked().pop_front());
        let Some(session) = session else {
            let (at, service) = (self.origin.elapsed(), Duration::ZERO);
            return Ended { at, service, result: Err(given_up()), is_cut_off: true };
        };
        let ended = self.one(&session, give_up).await;
        self.locked().push_back(session);
        drop(permit);
        ended
    }

    async fn one(&self, hand: &Hand, give_up: &mut watch::Receiver<bool>) -> Ended {
        let (statement, numbers) = self.draw();
        let start = clock::now();
        let (result, is_cut_off) = match hand {
            Hand::Session(session) => tokio::select! {
                biased;
                result = session.commit(statement, &numbers) => (result, false),
                () = is_given_up(give_up) => {
                    session.cancel().await;
                    (Err(given_up()), true)
                }
            },
            Hand::Crew(crew) => match crew.one(is_given_up(give_up)).await {
                Ok(()) => (Ok(()), false),
                Err(Some(said)) => (Err(said), false),
                Err(None) => (Err(given_up()), true),
            },
        };
        let service = start.elapsed();
        if result.is_ok() {
            self.committed.fetch_add(1, Ordering::Relaxed);
        }
        Ended { at: self.origin.elapsed(), service, result, is_cut_off }
    }

    /// The next statement and its numbers.
    fn draw(&self) -> (usize, Vec<i64>) {
        let mut rng = self.rng.lock().unwrap_or_else(PoisonError::into_inner);
        let mut left = rng.u32(..self.weights.iter().sum::<u32>().max(1));
        let chosen = self.weights.iter().position(|weight| {
            let is_chosen = left < *weight;
            left = left.saturating_sub(*weight);
            is_chosen
        });
        let numbers = self.ranges.iter().map(|(first, last)| rng.i64(*first..=*last.max(first))).collect();
        (chosen.unwrap_or(0), numbers)
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, VecDeque<Hand>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn since_origin(&self, at: Instant) -> Duration {
        at.saturating_duration_since(self.origin)
    }
}

impl Run {
    /// One commit that began at a time and took so long.
    pub(super) fn single(begin: Duration, took: Duration) -> Self {
        let commits = vec![begin + took];
        let mut run = Self { begin, elapsed: took, commits, has_no_gaps: true, ..Self::default() };
        run.committed = 1;
        run.service.record(took);
        run
    }

    fn note(&mut self, ended: Ended) {
        match ended.result {
            Ok(()) => {
                self.service.record(ended.service);
                self.commits.push(ended.at);
                self.committed += 1;
            }
            Err(text) => self.fail(1, &text),
        }
    }

    fn fail(&mut self, count: u64, text: &str) {
        if count > 0 {
            self.failed.get_or_insert_with(|| (0, text.to_owned())).0 += count;
        }
    }

    /// Commits a second.
    pub(super) fn per_second(&self) -> f64 {
        self.committed as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// As a block at a level.
    pub(super) fn into_block(self, level: Level, clients: u32, samples: &[Sample]) -> Block {
        let end = self.begin + self.elapsed;
        let gaps = match self.has_no_gaps && self.committed > 0 {
            true => Vec::new(),
            false => stall::gaps(&self.commits, self.begin, end, samples, level),
        };
        Block {
            level,
            clients,
            apply_delay: Duration::ZERO,
            begin: self.begin,
            elapsed: self.elapsed,
            response: self.response,
            service: self.service,
            commits: self.commits,
            committed: self.committed,
            failed: self.failed,
            dropped: self.dropped,
            gaps,
            wal: None,
        }
    }
}

fn given_up() -> String {
    format!("had not ended {} s after the load was stopped", DRAIN.as_secs())
}

/// Ends when the load is given up.
async fn is_given_up(give_up: &mut watch::Receiver<bool>) {
    if give_up.wait_for(|given_up| *given_up).await.is_err() {
        // Nobody can give it up any more.
        std::future::pending::<()>().await;
    }
}

/// A signal after a time, as long as the sender is kept.
fn give_up_after(limit: Duration) -> (Arc<watch::Sender<bool>>, watch::Receiver<bool>) {
    let (sender, receiver) = watch::channel(false);
    let sender = Arc::new(sender);
    let weak = Arc::downgrade(&sender);
    tokio::spawn(async move {
        tokio::time::sleep(limit).await;
        if let Some(sender) = weak.upgrade() {
            // Without a receiver everything has ended.
            let _ = sender.send(true);
        }
    });
    (sender, receiver)
}
