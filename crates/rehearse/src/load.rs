//! The load: sessions that run scripts at a rate that does not fall when the database stands still.

use crate::{
    error::RehearseError,
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
    pub(crate) scripts: Vec<Script>,
    pub(crate) clients: usize,
    /// Transactions a second, of all clients together.
    pub(crate) rate: f64,
    pub(crate) seed: u64,
}

/// What a time belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    /// A transaction, from the moment at which it was due, without its sleeps.
    Transaction,
    /// A step of a script, from its start.
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

struct Shared {
    plan: Plan,
    target: Target,
    began: Instant,
    /// When the first transaction is due.
    first: Duration,
    next: AtomicU64,
    running: AtomicU64,
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
            next: AtomicU64::new(0),
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
        let due = self.shared.due_by(self.shared.began.elapsed());
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
        let begun = self.shared.next.load(Ordering::Relaxed);
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
    /// How many transactions are due by a moment.
    fn due_by(&self, moment: Duration) -> u64 {
        (moment.saturating_sub(self.first).as_secs_f64() * self.plan.rate) as u64
    }

    async fn enter(&self, client: usize) -> Result<Client, RehearseError> {
        let session = self.target.connect().await?;
        let asked = session.query_one("SELECT pg_catalog.pg_backend_pid()", &[]).await;
        let process: i32 = asked.map_err(RehearseError::query("open a session of the load"))?.get(0);
        self.processes.lock().unwrap_or_else(PoisonError::into_inner).insert(process, client);
        Ok(session)
    }

    async fn run(self: Arc<Self>, client: usize, mut session: Client) {
        let mut rng = entropy::rng(self.plan.seed.wrapping_add(client as u64));
        while !self.is_over.load(Ordering::Relaxed) {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let due = self.first + Duration::from_secs_f64(number as f64 / self.plan.rate);
            // Long pauses are cut, so that the end of the load is noticed.
            while let Some(left) = due.checked_sub(self.began.elapsed()).filter(|left| !left.is_zero()) {
                sleep(left.min(AGAIN)).await;
                if self.is_over.load(Ordering::Relaxed) {
                    return;
                }
            }
            self.running.fetch_add(1, Ordering::Relaxed);
            self.transaction(client, &session, due, &mut rng).await;
            self.running.fetch_sub(1, Ordering::Relaxed);
            while session.is_closed() {
                if self.is_over.load(Ordering::Relaxed) {
                    return;
                }
                match self.enter(client).await {
                    Ok(again) => session = again,
                    Err(error) => {
                        self.note_error(String::new(), error.to_string(), "(connecting)");
                        sleep(AGAIN).await;
                    }
                }
            }
        }
    }

    async fn transaction(&self, client: usize, session: &Client, due: Duration, rng: &mut Rng) {
        let script = self.choose(rng);
        let mut variables: Variables =
            [("client_id".to_owned(), i64::try_from(client).unwrap_or_default())].into();
        let (mut slept, mut failed) = (Duration::ZERO, false);
        for (step, what) in self.plan.scripts[script].steps.iter().enumerate() {
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
                        let code = error.code().map(|code| code.code().to_owned()).unwrap_or_default();
                        self.note_error(code, with_sources(&error), &template.label());
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

    fn choose(&self, rng: &mut Rng) -> usize {
        let all: u32 = self.plan.scripts.iter().map(|script| script.weight).sum();
        let mut drawn = rng.u32(0..all.max(1));
        for (at, script) in self.plan.scripts.iter().enumerate() {
            if drawn < script.weight {
                return at;
            }
            drawn -= script.weight;
        }
        0
    }

    fn note(&self, record: Record) {
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        if records.all.len() < RECORDS_MAX {
            records.all.push(record);
        } else {
            records.is_cut = true;
        }
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
