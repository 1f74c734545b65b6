//! The bench: a server with the schema, a role that may use it, a worker that can be stopped and killed, and what the
//! phases have in common.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use duramen_base::clock;
use duramen_functions::client::{Client, Waiter};
use duramen_functions::cluster::Cluster;
use duramen_functions::schema;
use duramen_measure::histogram::LatencyHistogram;
use duramen_postgres::connection::Target;
use duramen_postgres::ServerUser;

use super::error::database;
use super::floor;
use super::load::Tally;
use super::options::{Options, Sizes};
use super::server::{Server, OWNER};
use super::statements::LAB;
use super::worker::{log_of, Worker};
use duramen_reports::suite::SuiteError;

/// The database that is measured.
pub(crate) const DATABASE: &str = "lab";
/// The role that starts instances: one that may log in, and nothing else.
const APP: &str = "app";
/// The role of the worker, as `duramen fn install --worker-role` makes it: one that has no rights of its own.
const WORKER: &str = "df_worker";
/// The body of a trivial instance.
pub(crate) const TRIVIAL: &str = "SELECT 1";
/// So many instances of a bulk start go into one call.
pub(crate) const BATCH: usize = 1_000;
/// How often it is looked whether anything is left to be done.
const LOOK: Duration = Duration::from_millis(10);
/// So many failures are told; all are counted.
const SHOWN: usize = 5;

/// Everything that the phases work with.
pub(crate) struct Bench<'a> {
    pub(crate) options: &'a Options,
    pub(crate) sizes: Sizes,
    pub(crate) server: Server,
    pub(crate) floor: LatencyHistogram,
    worker: Option<Worker>,
    root: &'a Path,
    say: &'a (dyn Fn(&str) + Sync),
    /// What went wrong with instances, and how often.
    failed: Vec<String>,
    failed_count: u64,
}

impl<'a> Bench<'a> {
    /// Starts the server, and installs what is measured. The worker is not started yet.
    pub(crate) async fn make(
        options: &'a Options,
        user: &ServerUser,
        root: &'a Path,
        say: &'a (dyn Fn(&str) + Sync),
    ) -> Result<Bench<'a>, SuiteError> {
        say("starting a server");
        let server = Server::make(options, user, root)?;
        let observer = observer(&server).await?;
        observer
            .batch_execute(&format!("CREATE ROLE {APP} LOGIN"))
            .await
            .map_err(database("make the role of the clients"))?;
        observer
            .batch_execute(&format!("CREATE DATABASE {DATABASE} TEMPLATE template0"))
            .await
            .map_err(database("make the database"))?;
        say("installing the schema");
        let role = schema::WorkerRole { name: WORKER.to_owned(), submitters: vec![APP.to_owned()] };
        let installed = schema::install_for(&server.url(OWNER, DATABASE), Some(&role)).await;
        installed.map_err(SuiteError::other)?;
        let mut bench = Bench {
            options,
            sizes: options.sizes(),
            server,
            floor: LatencyHistogram::new(),
            worker: None,
            root,
            say,
            failed: Vec::new(),
            failed_count: 0,
        };
        bench
            .inside()
            .await?
            .batch_execute(&format!(
                "CREATE TABLE public.ledger (instance text NOT NULL, step int NOT NULL);
                 GRANT INSERT ON public.ledger TO {APP};"
            ))
            .await
            .map_err(database("give the clients their rights"))?;
        // What was written to make the cluster is not to be flushed while something is measured.
        observer.batch_execute("CHECKPOINT").await.map_err(database("checkpoint"))?;
        bench.sync_floor()?;
        Ok(bench)
    }

    /// Tells what is being done.
    pub(crate) fn say(&self, doing: &str) {
        (self.say)(doing);
    }

    /// Measures what one sync takes now: a disk has its moods.
    pub(crate) fn sync_floor(&mut self) -> Result<(), SuiteError> {
        floor::sync_floor(self.root, &mut self.floor)
            .map_err(SuiteError::file("measure the fsync floor in", self.root))
    }

    /// The connection string of the clients.
    pub(crate) fn url(&self) -> String {
        self.server.url(APP, DATABASE)
    }

    /// A session of the suite in the database that is measured.
    pub(crate) async fn inside(&self) -> Result<tokio_postgres::Client, SuiteError> {
        connect(&self.server.url(OWNER, DATABASE)).await
    }

    /// A session of the suite in another database, whose transactions are not counted with those that are measured.
    pub(crate) async fn observer(&self) -> Result<tokio_postgres::Client, SuiteError> {
        observer(&self.server).await
    }

    /// Sessions that start instances.
    pub(crate) async fn clients(&self, count: usize) -> Result<Vec<Arc<Client>>, SuiteError> {
        let mut clients = Vec::with_capacity(count);
        for _ in 0..count {
            let client = Client::connect(&self.url()).await;
            clients.push(Arc::new(client.map_err(database("connect a client"))?));
        }
        Ok(clients)
    }

    /// The one session that waits for all of them.
    pub(crate) async fn waiter(&self) -> Result<Arc<Waiter>, SuiteError> {
        let waiter = Waiter::connect(&self.url()).await;
        waiter.map(Arc::new).map_err(database("connect a waiter"))
    }

    /// Sees to it that the worker runs.
    pub(crate) async fn worker_up(&mut self) -> Result<(), SuiteError> {
        if !self.worker_runs() {
            self.worker_up_with(None).await?;
        }
        Ok(())
    }

    /// Starts a worker with so many lanes, or with as many as it has by itself, in place of the one that runs.
    pub(crate) async fn worker_up_with(&mut self, lanes: Option<usize>) -> Result<(), SuiteError> {
        self.worker_down().await?;
        let url = self.server.url(WORKER, DATABASE);
        self.worker = Some(Worker::start(self.options, lanes, &url, false, self.root).await?);
        Ok(())
    }

    /// Makes databases with the schema that are a cluster.
    pub(crate) async fn cluster(&self, databases: &[&str]) -> Result<(), SuiteError> {
        let observer = self.observer().await?;
        let role = schema::WorkerRole { name: WORKER.to_owned(), submitters: vec![APP.to_owned()] };
        for name in databases {
            let create = format!("CREATE DATABASE {name} TEMPLATE template0");
            observer.batch_execute(&create).await.map_err(database("make a shard"))?;
            let installed = schema::install_for(&self.server.url(OWNER, name), Some(&role)).await;
            installed.map_err(SuiteError::other)?;
        }
        let urls: Vec<String> = databases.iter().map(|name| self.server.url(WORKER, name)).collect();
        let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
        Cluster::create(&urls).await.map_err(SuiteError::other)?;
        Ok(())
    }

    /// Starts a worker of all shards of the cluster that a database belongs to, in place of the one that runs.
    pub(crate) async fn worker_of_cluster(&mut self, name: &str) -> Result<(), SuiteError> {
        self.worker_down().await?;
        let url = self.server.url(WORKER, name);
        self.worker = Some(Worker::start(self.options, None, &url, true, self.root).await?);
        Ok(())
    }

    /// Sessions that start instances in a database, and one that waits for their ends.
    pub(crate) async fn clients_of(
        &self,
        name: &str,
        count: usize,
    ) -> Result<(Vec<Arc<Client>>, Arc<Waiter>), SuiteError> {
        let url = self.server.url(APP, name);
        let mut clients = Vec::with_capacity(count);
        for _ in 0..count {
            clients.push(Arc::new(Client::connect(&url).await.map_err(database("connect a client"))?));
        }
        let waiter = Waiter::connect(&url).await.map_err(database("connect a waiter"))?;
        Ok((clients, Arc::new(waiter)))
    }

    /// Puts the bench in order after a phase that did not come to its end.
    pub(crate) async fn revive(&mut self) -> Result<(), SuiteError> {
        self.worker_kill();
        if !self.server.is_running() {
            self.server.start()?;
        }
        self.worker_up().await
    }

    /// Whether the worker runs.
    pub(crate) fn worker_runs(&mut self) -> bool {
        self.worker.as_mut().is_some_and(Worker::is_running)
    }

    /// Lets the worker end what it has begun, and stops it.
    pub(crate) async fn worker_down(&mut self) -> Result<(), SuiteError> {
        match self.worker.take() {
            Some(worker) => worker.stop().await,
            None => Ok(()),
        }
    }

    /// SIGKILL.
    pub(crate) fn worker_kill(&mut self) {
        if let Some(worker) = self.worker.take() {
            worker.kill();
        }
    }

    /// The CPU time that the server, the worker and the load have used.
    pub(crate) fn cpu_times(&self) -> [Duration; 3] {
        [
            self.server.cpu_time(),
            self.worker.as_ref().map_or(Duration::ZERO, Worker::cpu_time),
            duramen_measure::process::self_cpu_time(),
        ]
    }

    /// Waits until every instance that was started has ended, for at most so long.
    pub(crate) async fn drained(&self, doing: &'static str, most: Duration) -> Result<(), SuiteError> {
        let inside = self.inside().await?;
        let look = database("look whether anything is left");
        let statement = inside
            .prepare("SELECT EXISTS (SELECT FROM df._ready) OR EXISTS (SELECT FROM df._work)")
            .await
            .map_err(look)?;
        let begin = clock::now();
        loop {
            let row = inside.query_one(&statement, &[]).await;
            let row = row.map_err(database("look whether anything is left"))?;
            if !row.get::<_, bool>(0) {
                return Ok(());
            }
            if begin.elapsed() > most {
                let row = inside
                    .query_one(
                        "SELECT (SELECT count(*) FROM df._ready) + (SELECT count(*) FROM df._work)",
                        &[],
                    )
                    .await
                    .map_err(database("count what is left"))?;
                let log = log_of(self.root).tail();
                let (left, after_s): (i64, f64) = (row.get(0), most.as_secs_f64());
                return Err(SuiteError::Failed(format!(
                    "waiting for {doing}: {left} instances had not ended after {after_s:.0} s; the worker says:\n{log}"
                )));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Starts many instances of one kind under a label, in calls of [`BATCH`], and returns their ids in order.
    pub(crate) async fn start_many(
        &self,
        graph: &str,
        label: &str,
        count: usize,
    ) -> Result<Vec<String>, SuiteError> {
        let client = self.clients(1).await?.remove(0);
        let mut ids = Vec::with_capacity(count);
        while ids.len() < count {
            let graphs = vec![graph; BATCH.min(count - ids.len())];
            let rows = client
                .raw()
                .query("SELECT df.start_many($1, label => $2)", &[&graphs, &label])
                .await
                .map_err(database("start many instances"))?;
            ids.extend(rows.iter().map(|row| row.get::<_, String>(0)));
        }
        Ok(ids)
    }

    /// Notes what went wrong with the instances of a load.
    pub(crate) fn note_failed(&mut self, of: &str, tally: &Tally) {
        self.failed_count += tally.failed_count;
        let room = SHOWN.saturating_sub(self.failed.len());
        self.failed.extend(tally.failed.iter().take(room).map(|failure| format!("{of}: {failure}")));
    }

    /// Notes one thing that went wrong.
    pub(crate) fn note_failure(&mut self, failure: String) {
        self.failed_count += 1;
        self.failed.push(failure);
    }

    /// How often something went wrong with an instance, and the first that did.
    pub(crate) fn failed(&self) -> (u64, &[String]) {
        (self.failed_count, &self.failed)
    }
}

async fn connect(url: &str) -> Result<tokio_postgres::Client, SuiteError> {
    let connected = async { Ok(Target::parse(url)?.application_name(LAB).connect().await?) };
    connected
        .await
        .map_err(|error: duramen_functions::client::ClientError| database("connect to the server")(error))
}

async fn observer(server: &Server) -> Result<tokio_postgres::Client, SuiteError> {
    connect(&server.url(OWNER, "postgres")).await
}
