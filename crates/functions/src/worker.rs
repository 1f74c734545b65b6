//! The worker: what runs the instances of a database.
//!
//! Several may work on one database, on one host or on many. A worker holds no state that matters: kill it, and what
//! it had not committed has not happened.

mod activity;
mod backlog;
mod control;
mod elsewhere;
mod executors;
mod health;
mod histogram;
mod hot;
mod instance;
mod lanes;
mod memory;
mod metrics;
mod monitor;
mod queues;
mod rehearse;
mod rest;
mod rows;
mod schedules;
mod session;
mod shared;
mod slots;
mod steps;
mod timings;
mod traces;
mod turn;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_postgres::types::Type;

use crate::rehearsal::Rehearsal;
use crate::schema::{self, SchemaError};
use duramen_postgres::connection::{with_sources, ConnectError, Target};

#[cfg(feature = "otlp")]
pub use duramen_traces::{SamplerError, TraceSettings, TraceSettingsError, ENDPOINT as TRACE_ENDPOINT};
pub use health::Unhealthy;
pub use histogram::Histogram;
pub use instance::{id, shard_of};
pub(crate) use metrics::head;
pub use metrics::{Metrics, Times};
pub use monitor::Monitor;
pub use rest::{Ended, Failed, RestError, FAILED_MAX};

use lanes::Cursors;
use memory::Memory;
use rows::RowTypes;
use session::Sessions;
use shared::{Outside, Shared};
use slots::Slots;
use traces::Tracer;

/// How many lanes take turns, at least and at most, unless a worker is told: one a processor in between. Two, so that one works
/// while the other waits for the disk.
const LANES: (usize, usize) = (2, 8);

/// How long it may take to tell the database that a worker ends.
const LEAVE_WITHIN: Duration = Duration::from_secs(10);
/// How long a collector may take for the last spans, meanwhile.
const FLUSH_WITHIN: Duration = Duration::from_secs(5);

/// The memory for results of a worker that is not told otherwise.
pub const MEMORY: usize = 1 << 30;
/// The least memory for results with which a worker can work at all: the copies of a few results of the largest size.
pub const MEMORY_MIN: usize = 64 << 20;

/// How a worker works.
#[derive(Clone, Debug)]
pub struct Options {
    /// The database that has the schema, as the role that installed it, or a member of it.
    pub url: String,
    /// How many long steps run at once, each on a connection of its own. Beside these the worker has up to as many and its lanes
    /// for turns and for recording what steps have led to, and some five for looking, listening and housekeeping. Beyond
    /// them a role that runs none may run one: a quarter as many, so that roles with long steps do not keep others waiting.
    pub connections: usize,
    /// How many of them one role may have at once; `None`: all of them, if nobody else wants any.
    pub per_role: Option<usize>,
    /// How many turns are taken at once, each on a connection of its own; `None`: one a processor, from 2 to 8.
    pub lanes: Option<usize>,
    /// How many bytes the results of instances may take at once, with all the copies that are made of them on the way. At
    /// least [`MEMORY_MIN`].
    pub memory: usize,
    /// Work even as a superuser. Whatever a step could talk such a worker into, it could do; so this has to be wanted.
    pub allow_superuser: bool,
    /// Nothing that it runs reaches outside of the database; `None`: it does as its instances say, where a copy was adopted as
    /// the adoption says.
    pub rehearsal: Option<Rehearsal>,
}

/// Why a worker does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkerError {
    /// The schema is missing, of another version, or not this role's to work on.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// No connection.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The server refused something at the start.
    #[error("{target}: {cause}")]
    Server {
        /// Host and database.
        target: String,
        /// The server's words.
        cause: String,
    },
    /// The worker's role is a superuser, and nobody has said that it may be.
    #[error("role {role} is a superuser, and a worker of {target} does not run as one unless it is told to: let a superuser run `duramen fn install URL --worker-role NAME --submitter ROLE`, and connect as that role; or pass --allow-superuser")]
    Superuser {
        /// The worker's role.
        role: String,
        /// Host and database.
        target: String,
    },
    /// The database does not hold UTF-8.
    #[error("{target} is encoded in {found}, and durable functions need UTF8: what a step returns could not be kept")]
    Encoding {
        /// Host and database.
        target: String,
        /// Its encoding.
        found: String,
    },
    /// The server's messages are in a language that the executor cannot read.
    #[error("the server writes its messages in `{found}`, and the worker must read some of them: ALTER ROLE {role} SET lc_messages = 'C'")]
    Language {
        /// `lc_messages` of the worker's sessions.
        found: String,
        /// The worker's role.
        role: String,
    },
}

/// A running worker. Dropping it stops it like a kill; [`Worker::drain`] lets it end what it has begun.
pub struct Worker {
    shared: Arc<Shared>,
    /// Keeps the worker alive in the eyes of the others.
    control: JoinHandle<()>,
    tasks: Vec<JoinHandle<()>>,
    /// Sends spans, if there is a tracer.
    exporter: Option<JoinHandle<()>>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.control.abort();
        for task in self.tasks.iter().chain(&self.exporter) {
            task.abort();
        }
    }
}

impl Worker {
    /// Connects, checks that it can work, and begins.
    ///
    /// # Errors
    /// [`WorkerError`].
    pub async fn start(options: Options) -> Result<Self, WorkerError> {
        Self::begin(options, |_, _| None).await
    }

    /// The same, and traces what it runs.
    ///
    /// # Errors
    /// [`WorkerError`].
    #[cfg(feature = "otlp")]
    pub async fn start_traced(options: Options, traces: TraceSettings) -> Result<Self, WorkerError> {
        Self::begin(options, |identity, target| Some(Tracer::new(traces, identity.to_owned(), target.host())))
            .await
    }

    async fn begin(
        options: Options,
        tracer: impl FnOnce(&str, &Target) -> Option<Tracer>,
    ) -> Result<Self, WorkerError> {
        let epoch = new_epoch();
        let target = session::guarded(Target::parse(&options.url)?, &epoch);
        let Checked { identity, began, has_adopted, row_types } =
            check(&target, options.allow_superuser).await?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let lanes = options.lanes.unwrap_or(cores.clamp(LANES.0, LANES.1)).max(1);
        let slots = Slots::new(options.connections, options.per_role);
        let tracer = tracer(&identity, &target);
        let sessions = Sessions::new(target.clone(), identity, lanes + slots.all(), slots.all());
        let outside = Outside { has_adopted, rehearsal: options.rehearsal };
        let memory = Memory::new(options.memory);
        let shared =
            Arc::new(Shared::new(began, target.clone(), sessions, epoch, outside, row_types, memory, tracer));
        let connection = control::join(&shared)
            .await
            .map_err(|error| WorkerError::Server { target: target.describe(), cause: error.to_string() })?;
        shared.metrics.lanes.store(lanes as u64, std::sync::atomic::Ordering::Relaxed);
        let cursors: Arc<Cursors> = Arc::default();
        let of_leader = Arc::clone(&cursors);
        let control = tokio::spawn(control::serve(Arc::clone(&shared), connection));
        let mut tasks = vec![
            tokio::spawn(control::maintain(Arc::clone(&shared))),
            supervise(&shared, move |shared| activity::dispatch(shared, slots.clone())),
            supervise(&shared, move |shared| lanes::lead(shared, Arc::clone(&of_leader))),
            supervise(&shared, queues::admit),
            supervise(&shared, schedules::fire),
            supervise(&shared, hot::keep_small),
        ];
        for _ in 1..lanes {
            let cursors = Arc::clone(&cursors);
            tasks.push(supervise(&shared, move |shared| lanes::help(shared, Arc::clone(&cursors))));
        }
        if shared.outside.rehearsal.is_some() {
            tasks.push(supervise(&shared, rehearse::answer_tasks));
        }
        let exporter = shared.tracer.is_some().then(|| supervise(&shared, traces::export));
        Ok(Self { shared, control, tasks, exporter })
    }

    /// What the worker counts.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.shared.metrics
    }

    /// What an operator reads of it, for as long as this is kept: also while the worker drains.
    #[must_use]
    pub fn monitor(&self) -> Monitor {
        Monitor::new(&self.shared)
    }

    /// Begins nothing new, waits for what runs, for at most `patience`, then gives back the rest, so that others begin it again
    /// at once. Until then others see that the worker lives, and leave it what it runs.
    pub async fn drain(mut self, patience: Duration) {
        self.shared.draining.send_replace(true);
        let waited = async {
            for task in std::mem::take(&mut self.tasks) {
                if let Err(error) = task.await {
                    tracing::error!(%error, "a task of the worker has failed while it drained");
                }
            }
        };
        let in_time = tokio::time::timeout(patience, waited).await.is_ok();
        self.control.abort();
        let exporter = self.exporter.take();
        let flush = async {
            if let (Some(tracer), Some(exporter)) = (&self.shared.tracer, exporter) {
                tracer.flush(exporter, FLUSH_WITHIN, &self.shared.metrics).await;
            }
        };
        let left = async { tokio::time::timeout(LEAVE_WITHIN, self.leave(in_time)).await };
        let error = match tokio::join!(left, flush).0 {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {LEAVE_WITHIN:?}"),
        };
        tracing::warn!(error, "the database does not know that the worker ends; others will notice");
    }

    /// Gives back what the worker has taken, and its name.
    async fn leave(&self, has_drained: bool) -> Result<(), turn::TurnError> {
        let client = self.shared.home().await?;
        let epoch = self.shared.epoch.lock().clone();
        let key: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 1] = [(&epoch, Type::TEXT)];
        client.query_typed("SELECT df._give_back($1::text::uuid)", &key).await?;
        if !has_drained {
            // What still runs is not ours any more, and whatever it reports is not recorded.
            self.shared.stop_all();
        }
        client.execute_typed("DELETE FROM df._worker_epoch WHERE epoch_id = $1::text::uuid", &key).await?;
        // The last one leaves nobody who would have to be woken.
        client.query_typed("SELECT df._set_asleep(EXISTS (SELECT FROM df._worker_epoch))", &[]).await?;
        Ok(())
    }
}

/// Runs a task, and begins it anew should it panic: a defect that one instance meets must not stop the others.
fn supervise<F, T>(shared: &Arc<Shared>, task: F) -> JoinHandle<()>
where
    F: Fn(Arc<Shared>) -> T + Send + 'static,
    T: Future<Output = ()> + Send + 'static,
{
    let shared = Arc::clone(shared);
    tokio::spawn(async move {
        // It ends with this one.
        let mut running = tokio::task::JoinSet::new();
        running.spawn(task(Arc::clone(&shared)));
        while let Some(Err(error)) = running.join_next().await {
            tracing::error!(%error, "a task of the worker has failed and is begun anew");
            tokio::time::sleep(Duration::from_secs(1)).await;
            running.spawn(task(Arc::clone(&shared)));
        }
    })
}

/// A name for a worker's time: a random UUID (version 4).
pub(crate) fn new_epoch() -> String {
    let mut bytes = duramen_base::entropy::random_bytes::<16>();
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// What a worker learns of the database before it begins.
struct Checked {
    identity: String,
    /// The server's time.
    began: String,
    has_adopted: bool,
    row_types: RowTypes,
}

/// Whether a worker can work there.
async fn check(target: &Target, allow_superuser: bool) -> Result<Checked, WorkerError> {
    let client = target.connect().await?;
    let server = |error: tokio_postgres::Error| WorkerError::Server {
        target: target.describe(),
        cause: with_sources(&error),
    };
    let identity = schema::check(&client, target).await?;
    client.batch_execute(schema::trust::RESTORE_OWNER).await.map_err(server)?;
    let row = client
        .query_typed_one(
            "SELECT current_user::text, current_setting('lc_messages'),
                    pg_has_role(current_user, c.relowner, 'USAGE'), current_setting('server_encoding'),
                    EXISTS (SELECT FROM df._meta m WHERE m.external IS NOT NULL),
                    clock_timestamp()::text,
                    (SELECT string_agg(r.rolname, ', ') FROM pg_roles r
                     WHERE r.rolname IN (session_user, current_user) AND r.rolsuper)
             FROM pg_class c WHERE c.oid = 'df._ready'::regclass",
            &[],
        )
        .await
        .map_err(server)?;
    let role: String = row.get(0);
    let language: String = row.get(1);
    let english = language.is_empty()
        || language.starts_with("en")
        || ["C", "POSIX"].iter().any(|c| language.starts_with(c));
    if !row.get::<_, bool>(2) {
        return Err(SchemaError::Rights {
            role,
            what: "work on the schema df".to_owned(),
            target: target.describe(),
            hint: "connect as the role that installed it, or as a member of it".to_owned(),
        }
        .into());
    }
    if let Some(role) = row.get::<_, Option<String>>(6).filter(|_| !allow_superuser) {
        return Err(WorkerError::Superuser { role, target: target.describe() });
    }
    let encoding: String = row.get(3);
    if encoding != "UTF8" {
        return Err(WorkerError::Encoding { target: target.describe(), found: encoding });
    }
    if !english {
        return Err(WorkerError::Language { found: language, role });
    }
    let row_types = RowTypes::read(&client).await.map_err(server)?;
    Ok(Checked { identity, began: row.get(5), has_adopted: row.get(4), row_types })
}
