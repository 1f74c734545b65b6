//! The load: sessions that run scripts, or what was recorded, at a rate that does not fall when the database stands still.

use crate::{
    error::RehearseError,
    replay::Schedule,
    script::{Script, Step, Variables},
};
use duramen_base::{clock, entropy};
use duramen_postgres::connection::{with_sources, Target};
use fastrand::Rng;
use std::{
    collections::BTreeMap,
    sync::{
        atomic::{AtomicBool, AtomicU64, Ordering},
        Arc, Mutex, PoisonError,
    },
    time::{Duration, Instant},
};
use tokio::{task::JoinHandle, time::sleep};
use tokio_postgres::Client;

/// Sessions: a branch takes 20 connections.
pub const CLIENTS_MAX: usize = 12;
/// Transactions a second.
pub const RATE_MAX: f64 = 10_000.0;
/// Transactions and statements whose times are kept.
const RECORDS_MAX: usize = 2_000_000;
/// Messages of errors that are told apart.
const ERRORS_MAX: usize = 50;
/// How long the transactions that run may take to end when the load is over.
const DRAIN_LIMIT: Duration = Duration::from_secs(10);
/// How long a session that ended waits before it comes again.
const AGAIN: Duration = Duration::from_millis(200);

/// What is run.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) work: Work,
    pub(crate) clients: usize,
}

#[derive(Debug)]
pub(crate) enum Work {
    Scripts(Scripts),
    Recording(Schedule),
}

/// Scripts of which one is drawn whenever a transaction is due.
#[derive(Debug)]
pub(crate) struct Scripts {
    pub(crate) all: Vec<Script>,
    /// Transactions a second, of all clients together.
    pub(crate) rate: f64,
    pub(crate) seed: u64,
    next: AtomicU64,
}

impl Scripts {
    pub(crate) fn new(all: Vec<Script>, rate: f64, seed: u64) -> Scripts {
        Scripts { all, rate, seed, next: AtomicU64::new(0) }
    }
}

impl Work {
    /// How many transactions are due so long after the first.
    fn due_by(&self, since: Duration) -> u64 {
        match self {
            Work::Scripts(scripts) => (since.as_secs_f64() * scripts.rate) as u64,
            Work::Recording(schedule) => schedule.due_by(since),
        }
    }

    fn begun(&self) -> u64 {
        match self {
            Work::Scripts(scripts) => scripts.next.load(Ordering::Relaxed),
            Work::Recording(schedule) => schedule.begun(),
        }
    }
}

/// What a time belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    /// A transaction, from the moment at which it was due, without its sleeps.
    Transaction,
    /// A step of a script, or a recorded statement of some shape (`script` is 0 then), from its start.
    Statement { script: usize, step: usize },
}

/// Something that ended, with times since the rehearsal began.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Record {
    pub(crate) what: What,
    pub(crate) begin: Duration,
    pub(crate) end: Duration,
    /// Without sleeps.
    pub(crate) took: Duration,
    pub(crate) failed: bool,
}

/// Errors with the same code and message.
#[derive(Debug, Clone)]
pub(crate) struct Failed {
    pub(crate) at: Vec<Duration>,
    pub(crate) count: u64,
    pub(crate) statement: String,
}

/// What a load left.
#[derive(Debug, Default)]
pub(crate) struct Records {
    pub(crate) all: Vec<Record>,
    /// By code and message.
    pub(crate) errors: BTreeMap<(String, String), Failed>,
    /// Transactions that had not ended when the load was over, or were due and not begun.
    pub(crate) unfinished: u64,
    /// Whether more happened than is kept.
    pub(crate) is_cut: bool,
}

/// Which process of the server serves which client.
pub(crate) type Processes = Arc<Mutex<BTreeMap<i32, usize>>>;

pub(crate) struct Shared {
    plan: Plan,
    target: Target,
    pub(crate) began: Instant,
    /// When the first transaction is due.
    pub(crate) first: Duration,
    pub(crate) running: AtomicU64,
    is_over: AtomicBool,
    processes: Processes,
    records: Mutex<Records>,
}

/// A load that runs.
pub(crate) struct Load {
    shared: Arc<Shared>,
    tasks: Vec<JoinHandle<()>>,
}

impl Load {
    /// Opens the sessions, and begins.
    pub(crate) async fn begin(
        plan: Plan,
        target: &Target,
        began: Instant,
        processes: &Processes,
    ) -> Result<Load, RehearseError> {
        let clients = plan.clients;
        let mut shared = Shared {
            plan,
            target: target.clone().application_name("duramen rehearse: load"),
            began,
            first: Duration::ZERO,
            running: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            processes: Arc::clone(processes),
            records: Mutex::default(),
        };
        let mut sessions = Vec::new();
        for client in 0..clients {
            sessions.push(shared.enter(client).await?);
        }
        shared.first = began.elapsed();
        let shared = Arc::new(shared);
        let run = |(client, session)| tokio::spawn(Arc::clone(&shared).run(client, session));
        let tasks = sessions.into_iter().enumerate().map(run).collect();
        Ok(Load { shared, tasks })
    }

    /// Ends it when its transactions have ended, which takes at most some seconds.
    pub(crate) async fn end(mut self) -> Records {
        let due = self.shared.plan.work.due_by(self.shared.began.elapsed().saturating_sub(self.shared.first));
        self.shared.is_over.store(true, Ordering::Relaxed);
        let deadline = clock::now() + DRAIN_LIMIT;
        for task in &mut self.tasks {
            let left = deadline.saturating_duration_since(clock::now());
            if tokio::time::timeout(left, &mut *task).await.is_err() {
                task.abort();
            }
        }
        let mut records =
            std::mem::take(&mut *self.shared.records.lock().unwrap_or_else(PoisonError::into_inner));
        let begun = self.shared.plan.work.begun();
        records.unfinished = due.saturating_sub(begun) + self.shared.running.load(Ordering::Relaxed);
        records
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Shared {
    async fn enter(&self, client: usize) -> Result<Client, RehearseError> {
        let session = self.target.connect().await?;
        let asked = session.query_one("SELECT pg_catalog.pg_backend_pid()", &[]).await;
        let process: i32 = asked.map_err(RehearseError::query("open a session of the load"))?.get(0);
        self.processes.lock().unwrap_or_else(PoisonError::into_inner).insert(process, client);
        Ok(session)
    }

    async fn run(self: Arc<Self>, client: usize, session: Client) {
        match &self.plan.work {
            Work::Scripts(scripts) => self.run_scripts(scripts, client, session).await,
            Work::Recording(schedule) => self.replay(schedule, client, session).await,
        }
    }

    async fn run_scripts(&self, scripts: &Scripts, client: usize, mut session: Client) {
        let mut rng = entropy::rng(scripts.seed.wrapping_add(client as u64));
        while !self.is_over() {
            let number = scripts.next.fetch_add(1, Ordering::Relaxed);
            let due = self.first + Duration::from_secs_f64(number as f64 / scripts.rate);
            if !self.wait_until(due).await {
                return;
            }
            self.running.fetch_add(1, Ordering::Relaxed);
            self.transaction(scripts, client, &session, due, &mut rng).await;
            self.running.fetch_sub(1, Ordering::Relaxed);
            if session.is_closed() {
                let Some(again) = self.enter_again(client).await else { return };
                session = again;
            }
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Waits for a moment, or for the end of the load: false.
    pub(crate) async fn wait_until(&self, due: Duration) -> bool {
        // Long pauses are cut, so that the end of the load is noticed.
        while let Some(left) = due.checked_sub(self.began.elapsed()).filter(|left| !left.is_zero()) {
            sleep(left.min(AGAIN)).await;
            if self.is_over() {
                return false;
            }
        }
        true
    }

    /// Another session for one that ended; none when the load is over.
    pub(crate) async fn enter_again(&self, client: usize) -> Option<Client> {
        while !self.is_over() {
            match self.enter(client).await {
                Ok(again) => return Some(again),
                Err(error) => {
                    self.note_error(String::new(), error.to_string(), "(connecting)");
                    sleep(AGAIN).await;
                }
            }
        }
        None
    }

    async fn transaction(
        &self,
        scripts: &Scripts,
        client: usize,
        session: &Client,
        due: Duration,
        rng: &mut Rng,
    ) {
        let script = scripts.choose(rng);
        let mut variables: Variables =
            [("client_id".to_owned(), i64::try_from(client).unwrap_or_default())].into();
        let (mut slept, mut failed) = (Duration::ZERO, false);
        for (step, what) in scripts.all[script].steps.iter().enumerate() {
            match what {
                Step::Set { name, value } => {
                    let drawn = value.draw(&variables, rng);
                    variables.insert(name.clone(), drawn);
                }
                Step::Sleep(span) => {
                    let begin = clock::now();
                    sleep(*span).await;
                    slept += begin.elapsed();
                }
                Step::Sql(template) => {
                    let begin = self.began.elapsed();
                    let outcome = session.simple_query(&template.fill(&variables)).await;
                    let end = self.began.elapsed();
                    failed = outcome.is_err();
                    let what = What::Statement { script, step };
                    self.note(Record { what, begin, end, took: end.saturating_sub(begin), failed });
                    if let Err(error) = outcome {
                        self.note_failure(&error, &template.label());
                        // Outside of a transaction it is a warning.
                        let _ = session.batch_execute("ROLLBACK").await;
                        break;
                    }
                }
            }
        }
        let end = self.began.elapsed();
        let took = end.saturating_sub(due).saturating_sub(slept);
        self.note(Record { what: What::Transaction, begin: due, end, took, failed });
    }

    pub(crate) fn note(&self, record: Record) {
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        if records.all.len() < RECORDS_MAX {
            records.all.push(record);
        } else {
            records.is_cut = true;
        }
    }

    pub(crate) fn note_failure(&self, error: &tokio_postgres::Error, statement: &str) {
        let code = error.code().map(|code| code.code().to_owned()).unwrap_or_default();
        self.note_error(code, with_sources(error), statement);
    }

    fn note_error(&self, code: String, message: String, statement: &str) {
        let at = self.began.elapsed();
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = records.errors.len() >= ERRORS_MAX;
        let key = (code, message);
        let key = if is_full && !records.errors.contains_key(&key) {
            (String::new(), "other errors".to_owned())
        } else {
            key
        };
        let failed = records.errors.entry(key).or_insert_with(|| Failed {
            at: Vec::new(),
            count: 0,
            statement: statement.to_owned(),
        });
        failed.count += 1;
        if failed.at.len() < RECORDS_MAX / ERRORS_MAX {
            failed.at.push(at);
        }
    }
}

impl Scripts {
    fn choose(&self, rng: &mut Rng) -> usize {
        let all: u32 = self.all.iter().map(|script| script.weight).sum();
        let mut drawn = rng.u32(0..all.max(1));
        for (at, script) in self.all.iter().enumerate() {
            if drawn < script.weight {
                return at;
            }
            drawn -= script.weight;
        }
        0
    }
}
