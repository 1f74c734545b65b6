//! A worker that a test can kill, and what tests ask of instances.

use super::common::{one, rows, text, Database};
use duramen_base::clock;
use duramen_functions::rehearsal::Rehearsal;
use duramen_functions::worker::{Monitor, Options, Worker, WorkerError, MEMORY};
use std::{future::Future, sync::atomic::Ordering, time::Duration};
use tokio::{runtime::Runtime, time::sleep};
use tokio_postgres::Client;

/// How long anything may take that is not meant to take long: the machine may be busy.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// A submitter with a schema of her own name: the name, her connection, and the owner's.
pub(crate) async fn submitter(database: &Database<'_>) -> (String, Client, Client) {
    let alice = database.role("alice").await;
    let owner = database.owner().await;
    let client = database.connect(&alice).await;
    execute(&owner, &[&format!("CREATE SCHEMA {alice} AUTHORIZATION {alice}")]).await;
    (alice, client, owner)
}

/// A worker with threads of its own, so that it can be killed without leaving anything that runs.
pub(crate) struct TestWorker {
    runtime: Option<Runtime>,
    worker: Option<Worker>,
}

/// What a worker is started with, where a test wants nothing else.
fn options(url: &str, connections: usize) -> Options {
    Options {
        url: url.to_owned(),
        connections,
        per_role: None,
        memory: MEMORY,
        lanes: None,
        allow_superuser: true,
        rehearsal: None,
    }
}

impl TestWorker {
    /// Starts a worker as the schema's owner.
    pub(crate) async fn start(database: &Database<'_>, connections: usize) -> TestWorker {
        TestWorker::start_at(&database.url(), connections).await
    }

    /// Starts a worker that gives a role so many places.
    pub(crate) async fn start_limited(
        database: &Database<'_>,
        connections: usize,
        per_role: usize,
    ) -> TestWorker {
        let per_role = Some(per_role);
        TestWorker::start_with(Options { per_role, ..options(&database.url(), connections) }).await
    }

    /// Starts a worker that has so much memory for results.
    pub(crate) async fn start_with_memory(url: &str, connections: usize, memory: usize) -> TestWorker {
        TestWorker::start_with(Options { memory, ..options(url, connections) }).await
    }

    /// Starts a worker at a connection string.
    pub(crate) async fn start_at(url: &str, connections: usize) -> TestWorker {
        TestWorker::start_with(options(url, connections)).await
    }

    /// Starts a worker as the schema's owner that traces what it runs.
    #[cfg(feature = "otlp")]
    pub(crate) async fn start_traced(
        database: &Database<'_>,
        connections: usize,
        traces: duramen_functions::worker::TraceSettings,
    ) -> TestWorker {
        let options = options(&database.url(), connections);
        TestWorker::begin(Worker::start_traced(options, traces)).await
    }

    /// Starts a worker at a copy, where nothing reaches outside.
    pub(crate) async fn rehearse_at(url: &str, rehearsal: Rehearsal) -> TestWorker {
        let rehearsal = Some(rehearsal);
        TestWorker::start_with(Options { rehearsal, ..options(url, 4) }).await
    }

    async fn start_with(options: Options) -> TestWorker {
        TestWorker::begin(Worker::start(options)).await
    }

    async fn begin(worker: impl Future<Output = Result<Worker, WorkerError>> + Send + 'static) -> TestWorker {
        let started = tokio::task::spawn_blocking(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
            let runtime = runtime.expect("a runtime");
            let worker = runtime.block_on(worker).unwrap_or_else(|error| panic!("{error}"));
            (runtime, worker)
        });
        let (runtime, worker) = started.await.expect("the worker starts");
        TestWorker { runtime: Some(runtime), worker: Some(worker) }
    }

    /// Ends it as SIGKILL would: no task goes on, every connection is closed, nothing is said to anybody.
    pub(crate) fn kill(self) {}

    /// Ends it gently.
    pub(crate) async fn drain(mut self, patience: Duration) {
        let worker = self.worker.take().expect("it runs");
        let drained = self.runtime.as_ref().expect("it runs").spawn(worker.drain(patience));
        drained.await.expect("draining does not panic");
    }

    /// How many activities it runs.
    pub(crate) fn running_activities(&self) -> u64 {
        self.worker.as_ref().expect("it runs").metrics().running_activities.load(Ordering::Relaxed)
    }

    /// What an operator reads of it.
    pub(crate) fn monitor(&self) -> Monitor {
        self.worker.as_ref().expect("it runs").monitor()
    }

    /// A counter by its name in the Prometheus text.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let text = self.worker.as_ref().expect("it runs").metrics().prometheus();
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("duramen_functions_{name} ")));
        line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no metric {name} in {text}"))
    }
}

impl Drop for TestWorker {
    fn drop(&mut self) {
        drop(self.worker.take());
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// How an instance ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    /// `completed`, `failed` or `cancelled`.
    pub(crate) status: String,
    /// The result as JSON text, or the text of the failure or of the reason.
    pub(crate) output: String,
}

impl Ended {
    /// The result of an instance that must have completed.
    pub(crate) fn completed(self) -> String {
        assert_eq!(self.status, "completed", "{}", self.output);
        self.output
    }

    /// The failure of an instance that must have failed.
    pub(crate) fn failed(self) -> String {
        assert_eq!(self.status, "failed", "{}", self.output);
        self.output
    }
}

/// Starts an instance from a SQL expression that gives a durable function, such as `df.sleep(1)`.
pub(crate) async fn start(client: &Client, expression: &str) -> String {
    let start = format!("SELECT df.start({expression})");
    let started = tokio::time::timeout(SOON, one(client, &start)).await;
    started.unwrap_or_else(|_| panic!("{start}: not within {SOON:?}")).expect("an id")
}

/// Starts an instance of one step.
pub(crate) async fn start_step(client: &Client, step: &str) -> String {
    start(client, &literal(step)).await
}

/// Waits for the end of an instance; its submitter asks.
pub(crate) async fn ended(client: &Client, id: &str, limit: Duration) -> Ended {
    let began = clock::now();
    loop {
        if let Some(ended) = ended_yet(client, id).await {
            return ended;
        }
        if began.elapsed() > limit {
            let explained = one(client, &format!("SELECT df.explain('{id}')")).await.unwrap_or_default();
            panic!("instance {id} has not ended within {limit:?}:\n{explained}");
        }
        sleep(Duration::from_millis(5)).await;
    }
}

/// How an instance has ended, if it has.
pub(crate) async fn ended_yet(client: &Client, id: &str) -> Option<Ended> {
    let query = format!(
        "SELECT CASE d.status WHEN 'c' THEN 'completed' WHEN 'f' THEN 'failed' ELSE 'cancelled' END,
            CASE d.status WHEN 'c' THEN d.output::text ELSE d.output #>> '{{}}' END
         FROM df._done d WHERE d.seq = df._seq('{id}')"
    );
    let row = rows(client, &query).await.into_iter().next()?;
    let mut row = row.into_iter().map(Option::unwrap_or_default);
    Some(Ended { status: row.next()?, output: row.next()? })
}

/// Starts an instance from a SQL expression and waits for its end.
pub(crate) async fn run(client: &Client, expression: &str) -> Ended {
    let id = start(client, expression).await;
    ended(client, &id, SOON).await
}

/// Starts an instance of one step and waits for its end.
pub(crate) async fn run_step(client: &Client, step: &str) -> Ended {
    run(client, &literal(step)).await
}

/// Waits until a query's only value is as expected.
pub(crate) async fn eventually(client: &Client, sql: &str, expected: &str, limit: Duration) {
    let began = clock::now();
    loop {
        let found = one(client, sql).await;
        if found.as_deref() == Some(expected) {
            return;
        }
        assert!(began.elapsed() < limit, "{sql}: still {found:?} and not {expected:?} after {limit:?}");
        sleep(Duration::from_millis(20)).await;
    }
}

/// Runs statements one by one, each in a transaction of its own, and none for long.
pub(crate) async fn execute(client: &Client, statements: &[&str]) {
    for statement in statements {
        let executed = tokio::time::timeout(SOON, client.batch_execute(statement)).await;
        let executed = executed.unwrap_or_else(|_| panic!("{statement}: not within {SOON:?}"));
        executed.unwrap_or_else(|error| panic!("{statement}: {}", text(&error)));
    }
}

/// A text as SQL writes it.
pub(crate) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
