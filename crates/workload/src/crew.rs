//! The sessions of a workload, and the two ways in which they make load.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use duramen_base::clock;
use duramen_measure::load::open_loop_until;
use duramen_postgres::connection::Target;
use serde::{Deserialize, Serialize};
use tokio::sync::{watch, Semaphore};
use tokio::task::JoinSet;

use crate::error::WorkloadError;
use crate::session::{connect, Session};
use crate::tally::{note, Ended, Failed, Freshness, Tally};
use crate::workload::Workload;

/// So many transactions may wait for a free session; what is due beyond counts as dropped.
const QUEUE: usize = 50_000;
/// What has not ended so long after the load was to end is cancelled, and counts as failed.
pub const DRAIN: Duration = Duration::from_secs(20);
/// No block of load lasts longer.
pub const LONGEST: Duration = Duration::from_secs(600);
/// What fails at once must not become a busy loop.
const PAUSE: Duration = Duration::from_millis(10);
/// So many sessions follow their commits at once.
const FOLLOWERS: usize = 4;
/// What is to be seen on the standby is asked for no longer.
pub const VISIBLE: Duration = Duration::from_secs(10);

/// A block of load that is asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Block {
    /// The level of `synchronous_commit`.
    pub level: String,
    /// How long new transactions are begun, in milliseconds.
    pub lasts_ms: u64,
    /// Open loop: so many a second. `None`: each session begins the next one when the last one ended.
    pub rate_per_s: Option<f64>,
}

/// Commits that are followed to the standby.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Following {
    /// The level of `synchronous_commit`.
    pub level: String,
    /// So many commits at most.
    pub commits: u64,
    /// No longer than so many milliseconds.
    pub lasts_ms: u64,
}

/// Sessions that run a workload.
pub struct Crew {
    workload: Arc<Workload>,
    weights: Arc<[u64]>,
    sessions: Arc<Mutex<VecDeque<Session>>>,
    clients: u32,
    standby: Target,
}

impl Crew {
    /// Opens so many sessions on the primary. The standby is asked only when commits are followed.
    ///
    /// # Errors
    /// When a session cannot be opened.
    pub async fn open(
        workload: Arc<Workload>,
        primary: &Target,
        standby: &Target,
        clients: u32,
        seed: u64,
    ) -> Result<Self, WorkloadError> {
        let clients = clients.clamp(1, crate::described::MOST_CLIENTS);
        let mut sessions = VecDeque::with_capacity(clients as usize);
        for number in 0..clients {
            sessions.push_back(Session::open(primary, &workload, number, clients, seed).await?);
        }
        let weights = workload.kinds().iter().map(|kind| kind.weight).collect();
        let sessions = Arc::new(Mutex::new(sessions));
        Ok(Self { workload, weights, sessions, clients, standby: standby.clone() })
    }

    /// How many sessions there are.
    #[must_use]
    pub fn clients(&self) -> u32 {
        self.clients
    }

    /// Makes a block of load.
    ///
    /// # Errors
    /// When the sessions cannot be set to the level. What transactions say is in the tally.
    pub async fn run(&self, block: &Block) -> Result<Tally, WorkloadError> {
        self.set_level(&block.level).await?;
        let lasts = Duration::from_millis(block.lasts_ms).min(LONGEST);
        let mut tally = match block.rate_per_s {
            None => self.closed(lasts).await,
            Some(rate) => self.open_loop(rate, lasts).await?,
        };
        let sessions: Vec<Session> = locked(&self.sessions).drain(..).collect();
        for session in &sessions {
            tally.strayed += u64::from(!session.is_at_level().await);
        }
        locked(&self.sessions).extend(sessions);
        Ok(tally)
    }

    /// All sessions commit at this level from now on.
    ///
    /// # Errors
    /// When a session cannot be set to it.
    pub async fn set_level(&self, level: &str) -> Result<(), WorkloadError> {
        let mut sessions: Vec<Session> = locked(&self.sessions).drain(..).collect();
        let mut set = Ok(());
        for session in &mut sessions {
            set = set.and(session.set_level(level).await);
        }
        locked(&self.sessions).extend(sessions);
        set
    }

    /// One transaction in a session that is free, for whoever keeps time himself: no more at once than there are
    /// [`clients`](Self::clients). If `given_up` ends before, it is cancelled. `Err(None)`: that was so; else what it said.
    ///
    /// # Errors
    /// As said.
    pub async fn one(&self, given_up: impl Future<Output = ()>) -> Result<(), Option<String>> {
        let Some(mut session) = locked(&self.sessions).pop_front() else {
            return Err(Some("no session of the workload is free".to_owned()));
        };
        let kind = session.draw(&self.weights);
        let ended = tokio::select! {
            biased;
            ended = session.run(kind, &self.workload.kinds()[kind]) => Some(ended),
            () = given_up => None,
        };
        if ended.is_none() {
            session.give_up().await;
        }
        locked(&self.sessions).push_back(session);
        ended.ok_or(None)?.result.map_err(|failed| Some(failed.text))
    }

    fn tally(&self) -> Tally {
        Tally::of(self.workload.kinds().iter().map(|kind| kind.name.as_str()))
    }

    async fn closed(&self, lasts: Duration) -> Tally {
        let begin = clock::now();
        let (give_up, given_up) = watch::channel(false);
        let clock = tokio::spawn(async move {
            tokio::time::sleep(lasts + DRAIN).await;
            // Without a receiver everything has ended.
            let _ = give_up.send(true);
            give_up.closed().await;
        });
        let mut running = JoinSet::new();
        let sessions: Vec<Session> = locked(&self.sessions).drain(..).collect();
        for mut session in sessions {
            let (workload, weights) = (Arc::clone(&self.workload), Arc::clone(&self.weights));
            let mut given_up = given_up.clone();
            running.spawn(async move {
                let mut done = Vec::new();
                while begin.elapsed() < lasts {
                    let mut ended = one(&mut session, &workload, &weights, &mut given_up).await;
                    ended.at = begin.elapsed();
                    let is_broken = ended.result.is_err();
                    done.push(ended);
                    if is_broken {
                        tokio::time::sleep(PAUSE).await;
                    }
                }
                (session, done)
            });
        }
        let (mut tally, mut ends) = (self.tally(), Vec::new());
        // A task that panicked has shown why.
        while let Some(Ok((session, done))) = running.join_next().await {
            locked(&self.sessions).push_back(session);
            for ended in done {
                ends.extend(ended.result.is_ok().then_some(ended.at));
                tally.note(&ended, None);
            }
        }
        clock.abort();
        tally.close(begin.elapsed(), ends);
        tally
    }

    async fn open_loop(&self, rate: f64, lasts: Duration) -> Result<Tally, WorkloadError> {
        let begin = clock::now();
        let (give_up, given_up) = watch::channel(false);
        let stop = async {
            tokio::time::sleep(lasts).await;
            tokio::spawn(async move {
                tokio::time::sleep(DRAIN).await;
                let _ = give_up.send(true);
                give_up.closed().await;
            });
        };
        let count = (rate * lasts.as_secs_f64()).ceil().max(1.0) as u64;
        let free = Arc::new(Semaphore::new(self.clients as usize));
        let (sessions, workload, weights) =
            (Arc::clone(&self.sessions), Arc::clone(&self.workload), Arc::clone(&self.weights));
        let limit = lasts + DRAIN + DRAIN;
        let ran = open_loop_until(stop, rate, count, QUEUE, limit, move |_| {
            let (free, sessions) = (Arc::clone(&free), Arc::clone(&sessions));
            let (workload, weights) = (Arc::clone(&workload), Arc::clone(&weights));
            let mut given_up = given_up.clone();
            async move {
                let permit = tokio::select! {
                    biased;
                    permit = free.acquire() => permit.ok(),
                    () = is_given_up(&mut given_up) => None,
                };
                let session = permit.as_ref().and_then(|_| locked(&sessions).pop_front());
                let mut ended = match session {
                    Some(mut session) => {
                        let ended = one(&mut session, &workload, &weights, &mut given_up).await;
                        locked(&sessions).push_back(session);
                        ended
                    }
                    None => cut_off(0, Duration::ZERO),
                };
                drop(permit);
                ended.at = begin.elapsed();
                ended
            }
        });
        let ran = ran.await.map_err(|error| WorkloadError::Whole(error.to_string()))?;
        let (mut tally, mut ends) = (self.tally(), Vec::new());
        for sample in &ran.samples {
            ends.extend(sample.output.result.is_ok().then_some(sample.output.at));
            tally.note(&sample.output, Some(sample.latency));
        }
        for lasted in &ran.unfinished {
            tally.note(&cut_off(0, *lasted), Some(*lasted));
        }
        tally.dropped = ran.dropped;
        tally.close(begin.elapsed(), ends);
        Ok(tally)
    }

    /// Commits, and asks the standby right after each whether it is there; then again until it is.
    ///
    /// # Errors
    /// When a session cannot be opened.
    pub async fn follow(&self, following: &Following) -> Result<Vec<Freshness>, WorkloadError> {
        self.set_level(&following.level).await?;
        let begin = clock::now();
        let lasts = Duration::from_millis(following.lasts_ms).min(LONGEST);
        let weights: Arc<[u64]> = self
            .workload
            .kinds()
            .iter()
            .map(|kind| if kind.check.is_some() { kind.weight } else { 0 })
            .collect();
        if weights.iter().sum::<u64>() == 0 {
            return Ok(Vec::new());
        }
        let count = self.clients.min(FOLLOWERS as u32).max(1);
        let each = following.commits.div_ceil(u64::from(count));
        let mut standbys = Vec::new();
        for _ in 0..count {
            standbys.push(connect(&self.standby).await?);
        }
        let (_give_up, given_up) = watch::channel(false);
        let mut running = JoinSet::new();
        for standby in standbys {
            let Some(mut session) = locked(&self.sessions).pop_front() else { break };
            let (workload, weights) = (Arc::clone(&self.workload), Arc::clone(&weights));
            let mut given_up = given_up.clone();
            running.spawn(async move {
                let mut seen: Vec<Freshness> = workload
                    .kinds()
                    .iter()
                    .map(|kind| Freshness { name: kind.name.clone(), ..Freshness::default() })
                    .collect();
                for _ in 0..each {
                    if begin.elapsed() > lasts {
                        break;
                    }
                    let ended = one(&mut session, &workload, &weights, &mut given_up).await;
                    let Some(check) = workload.kinds().get(ended.kind).and_then(|kind| kind.check.as_ref())
                    else {
                        continue;
                    };
                    let at = &mut seen[ended.kind];
                    if let Err(failed) = &ended.result {
                        note(&mut at.errors, failed);
                        continue;
                    }
                    let acknowledged = clock::now();
                    let mut looks = 0_u64;
                    loop {
                        match session.is_there(check, &standby).await {
                            Ok(true) => break,
                            Ok(false) => looks += 1,
                            Err(failed) => {
                                note(&mut at.errors, &failed);
                                looks = u64::MAX;
                                break;
                            }
                        }
                        if acknowledged.elapsed() > VISIBLE {
                            at.never += 1;
                            break;
                        }
                    }
                    if looks == u64::MAX {
                        continue;
                    }
                    at.asked += 1;
                    if looks > 0 {
                        at.stale += 1;
                        at.stale_for.record(acknowledged.elapsed());
                    }
                }
                (session, seen)
            });
        }
        let mut all: Vec<Freshness> = Vec::new();
        while let Some(Ok((session, seen))) = running.join_next().await {
            locked(&self.sessions).push_back(session);
            match all.is_empty() {
                true => all = seen,
                false => all.iter_mut().zip(seen).for_each(|(all, one)| all.add(one)),
            }
        }
        all.retain(|one| one.asked > 0 || !one.errors.is_empty());
        Ok(all)
    }
}

impl Freshness {
    fn add(&mut self, other: Freshness) {
        self.asked += other.asked;
        self.stale += other.stale;
        self.never += other.never;
        self.stale_for.merge(&other.stale_for);
        for (code, failures) in other.errors {
            let entry = self.errors.entry(code).or_default();
            if entry.count == 0 {
                entry.first = failures.first;
            }
            entry.count += failures.count;
        }
    }
}

/// One transaction, unless the load is given up before it ends.
async fn one(
    session: &mut Session,
    workload: &Workload,
    weights: &[u64],
    given_up: &mut watch::Receiver<bool>,
) -> Ended {
    let kind = session.draw(weights);
    let begin = clock::now();
    let ended = tokio::select! {
        biased;
        ended = session.run(kind, &workload.kinds()[kind]) => Some(ended),
        () = is_given_up(given_up) => None,
    };
    match ended {
        Some(ended) => ended,
        None => {
            let lasted = begin.elapsed();
            session.give_up().await;
            cut_off(kind, lasted)
        }
    }
}

fn cut_off(kind: usize, lasted: Duration) -> Ended {
    Ended {
        kind,
        work: Duration::ZERO,
        commit: Duration::ZERO,
        service: lasted,
        retries: Vec::new(),
        result: Err(Failed::cut_off()),
        at: Duration::ZERO,
    }
}

/// Ends when the load is given up.
async fn is_given_up(given_up: &mut watch::Receiver<bool>) {
    if given_up.wait_for(|given_up| *given_up).await.is_err() {
        // Nobody can give it up any more.
        std::future::pending::<()>().await;
    }
}

/// What is behind these locks stays whole when a thread panics.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
