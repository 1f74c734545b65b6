//! Durable functions of an attached database. What is read there, and how, is in `duramen_functions::inspect`; here is how many may read at
//! once, and how it is told.

use duramen_api::attachments::functions as told;
use duramen_functions::cluster::Cluster;
use duramen_functions::inspect::{
    Action, Count, Database, Instance, Listed, Node, Queue, Scheduled, Slot, Step, Value,
};
use std::{
    collections::HashMap,
    future::Future,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub use duramen_functions::cluster::ClusterError;
pub use duramen_functions::inspect::{Filter, InspectError};

/// Sessions in one attached database at most.
pub const SESSIONS_MAX: usize = 4;
/// How long a request waits for one of them.
pub const PLACE_LIMIT: Duration = Duration::from_secs(5);
/// Attachments whose sessions are counted. Beyond, those in which nobody is are forgotten.
const COUNTED_MAX: usize = 128;
/// The longest text of a request to control an instance, in bytes: names, reasons, data.
pub const TEXT_MAX: usize = 64 << 10;
/// The longest id, which is written down whether there is such an instance or not.
const ID_MAX: usize = 100;

/// Why something of an attached database is not told or done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FunctionsError {
    /// Others ask it, and have done so for a while.
    #[error("{SESSIONS_MAX} requests are being answered from {name}, and none ended within {} s; try again", PLACE_LIMIT.as_secs())]
    Busy {
        /// The attachment.
        name: String,
    },
    /// The request makes no sense.
    #[error("{0}")]
    Request(String),
    /// The database, or what it says.
    #[error(transparent)]
    Inspect(#[from] InspectError),
    /// The list of its shards cannot be read.
    #[error(transparent)]
    Shards(#[from] ClusterError),
    /// It broke on this side.
    #[error("the answer from {name} was given up: {cause}")]
    Failed {
        /// The attachment.
        name: String,
        /// What happened.
        cause: String,
    },
}

/// Who is in which attached database.
#[derive(Debug, Default)]
pub struct Sessions {
    /// By the attachment and its URL, because a name may be given to another database.
    places: Mutex<HashMap<(String, String), Arc<Semaphore>>>,
}

/// A page of instances.
#[derive(Debug)]
pub struct Page {
    /// The instances, the newest first.
    pub instances: Vec<told::FunctionInstance>,
    /// Where the next page begins.
    pub next: Option<String>,
}

impl Sessions {
    /// What goes on there.
    ///
    /// # Errors
    /// [`FunctionsError`].
    pub async fn overview(&self, name: &str, url: &str) -> Result<told::FunctionsOverview, FunctionsError> {
        let found = self.asking(name, url, |database| async move { database.overview().await }).await?;
        let workers = found.workers.map(|workers| {
            let worker = |worker: duramen_functions::inspect::Worker| told::FunctionWorker {
                id: worker.id,
                host: worker.host,
                alive_s: worker.alive_s,
                last_seen_s: worker.last_seen_s,
            };
            workers.into_iter().map(worker).collect()
        });
        Ok(told::FunctionsOverview {
            database: found.database,
            role: found.role,
            sees_all: found.sees_all,
            schema_version: found.schema_version,
            at: found.at,
            counts: told::FunctionCounts {
                pending: count(found.counts.pending),
                running: count(found.counts.running),
                completed: count(found.counts.completed),
                failed: count(found.counts.failed),
                cancelled: count(found.counts.cancelled),
            },
            oldest_pending_s: found.oldest_pending_s,
            activities: count(found.activities),
            activities_running: count(found.activities_running),
            workers,
        })
    }

    /// Instances, the newest first.
    ///
    /// # Errors
    /// [`FunctionsError`].
    pub async fn page(
        &self,
        name: &str,
        url: &str,
        filter: Filter,
        many: u32,
        cursor: Option<String>,
    ) -> Result<Page, FunctionsError> {
        let ask = |database: Database| async move { database.page(&filter, many, cursor.as_deref()).await };
        let page = self.asking(name, url, ask).await?;
        Ok(Page { instances: page.instances.into_iter().map(listed).collect(), next: page.next })
    }

    /// One instance.
    ///
    /// # Errors
    /// [`FunctionsError`].
    pub async fn instance(
        &self,
        name: &str,
        url: &str,
        id: &str,
    ) -> Result<told::FunctionDetail, FunctionsError> {
        let id = id.to_owned();
        let found = self.asking(name, url, |database| async move { database.instance(&id).await }).await?;
        Ok(detail(found))
    }

    /// The queues.
    ///
    /// # Errors
    /// [`FunctionsError`].
    pub async fn queues(&self, name: &str, url: &str) -> Result<Vec<told::FunctionQueue>, FunctionsError> {
        let found = self.asking(name, url, |database| async move { database.queues().await }).await?;
        Ok(found.into_iter().map(queue).collect())
    }

    /// The schedules.
    ///
    /// # Errors
    /// [`FunctionsError`].
    pub async fn schedules(
        &self,
        name: &str,
        url: &str,
    ) -> Result<Vec<told::FunctionSchedule>, FunctionsError> {
        let found = self.asking(name, url, |database| async move { database.schedules().await }).await?;
        Ok(found.into_iter().map(schedule).collect())
    }

    /// The databases that run functions together with it. Each is asked by itself, with the rights of the URL, and has five seconds.
    ///
    /// # Errors
    /// [`FunctionsError`].
    pub async fn shards(&self, name: &str, url: &str) -> Result<told::FunctionShards, FunctionsError> {
        let place = self.place(name, url).await?;
        let url = url.to_owned();
        let answer = tokio::spawn(async move {
            let answer = shards(&url).await;
            drop(place);
            answer
        });
        match answer.await {
            Ok(answer) => Ok(answer?),
            Err(error) => Err(FunctionsError::Failed { name: name.to_owned(), cause: error.to_string() }),
        }
    }

    /// Does something with one instance.
    ///
    /// # Errors
    /// [`FunctionsError`].
    pub async fn control(
        &self,
        name: &str,
        url: &str,
        wanted: Controlling,
    ) -> Result<told::ControlledFunction, FunctionsError> {
        let Controlling { id, action } = wanted;
        let of = id.clone();
        let done =
            self.asking(name, url, |database| async move { database.control(&of, &action).await }).await?;
        Ok(told::ControlledFunction {
            id,
            message: done.message,
            status_before: done.status_before,
            fork: done.fork,
        })
    }

    /// Asks a database with one of its places. The place is given back when the database has answered, also if nobody waits for that any more.
    async fn asking<T, F>(
        &self,
        name: &str,
        url: &str,
        ask: impl FnOnce(Database) -> F,
    ) -> Result<T, FunctionsError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, InspectError>> + Send + 'static,
    {
        let database = Database::at(url)?;
        let place = self.place(name, url).await?;
        let work = ask(database);
        let answer = tokio::spawn(async move {
            let answer = work.await;
            drop(place);
            answer
        });
        match answer.await {
            Ok(answer) => Ok(answer?),
            Err(error) => Err(FunctionsError::Failed { name: name.to_owned(), cause: error.to_string() }),
        }
    }

    async fn place(&self, name: &str, url: &str) -> Result<OwnedSemaphorePermit, FunctionsError> {
        let places = {
            let mut all = self.places.lock().unwrap_or_else(PoisonError::into_inner);
            if all.len() >= COUNTED_MAX {
                all.retain(|_, places| places.available_permits() < SESSIONS_MAX);
            }
            let places = all.entry((name.to_owned(), url.to_owned()));
            Arc::clone(places.or_insert_with(|| Arc::new(Semaphore::new(SESSIONS_MAX))))
        };
        let busy = || FunctionsError::Busy { name: name.to_owned() };
        match tokio::time::timeout(PLACE_LIMIT, places.acquire_owned()).await {
            Ok(Ok(place)) => Ok(place),
            Ok(Err(_)) | Err(_) => Err(busy()),
        }
    }
}

async fn shards(url: &str) -> Result<told::FunctionShards, ClusterError> {
    let cluster = match Cluster::read(url).await {
        Ok(cluster) => cluster,
        Err(ClusterError::None { .. } | ClusterError::Unlisted { .. }) => {
            return Ok(told::FunctionShards { version: 0, here: None, shards: Vec::new() });
        }
        Err(error) => return Err(error),
    };
    let shards = cluster.health().await.into_iter().map(|health| told::FunctionShard {
        shard: health.shard.number,
        state: health.shard.state.to_string(),
        place: health.shard.place,
        has: health.says.map(|says| told::FunctionShardCounts {
            version: says.counts.version,
            pending: says.counts.pending,
            running: says.counts.running,
            workers: says.counts.workers,
            oldest_s: says.oldest_s,
            synchronous: says.replication.holds(),
        }),
        problem: health.problem,
    });
    Ok(told::FunctionShards {
        version: cluster.version(),
        here: Some(cluster.here()),
        shards: shards.collect(),
    })
}

/// What is to be done with an instance, once it is known to make sense.
#[derive(Debug, Clone)]
pub struct Controlling {
    id: String,
    action: Action,
}

impl Controlling {
    /// Reads a request. The text of a step is not among what it may change: nobody runs SQL of his own by it.
    ///
    /// # Errors
    /// [`FunctionsError::Request`].
    ///
    /// # Examples
    /// ```
    /// use duramen_api::attachments::functions::{ControlFunction, FunctionAction};
    /// use duramen_attachments::functions::Controlling;
    ///
    /// let wanted = ControlFunction {
    ///     id: "1a2b3c4d".to_owned(), action: FunctionAction::Pause, reason: None, signal: None, data: None, from: None, label: None,
    /// };
    /// assert_eq!(Controlling::read(wanted.clone())?.word(), "pause");
    /// assert!(Controlling::read(ControlFunction { action: FunctionAction::Signal, ..wanted }).is_err());
    /// # Ok::<(), duramen_attachments::functions::FunctionsError>(())
    /// ```
    pub fn read(wanted: told::ControlFunction) -> Result<Controlling, FunctionsError> {
        use told::FunctionAction::{Cancel, Delete, Fork, Pause, Resume, Signal};
        let told::ControlFunction { id, action, reason, signal, data, from, label } = wanted;
        let refused = |what: String| Err(FunctionsError::Request(what));
        let texts = [
            ("id", Some(&id)),
            ("reason", reason.as_ref()),
            ("signal", signal.as_ref()),
            ("data", data.as_ref()),
            ("from", from.as_ref()),
            ("label", label.as_ref()),
        ];
        for (field, text) in texts {
            let Some(text) = text else { continue };
            let most = if field == "id" { ID_MAX } else { TEXT_MAX };
            if text.len() > most {
                return refused(format!("{field} has {} bytes, and {most} are the most", text.len()));
            }
            if text.contains('\0') {
                return refused(format!("{field} holds a NUL character, which no text of PostgreSQL can"));
            }
            let belongs = match action {
                Cancel => matches!(field, "id" | "reason"),
                Signal => matches!(field, "id" | "signal" | "data"),
                Fork => matches!(field, "id" | "from" | "label"),
                Pause | Resume | Delete => field == "id",
            };
            if !belongs {
                return refused(format!("{field} is nothing that this action takes; leave it out"));
            }
        }
        let action = match action {
            Cancel => Action::Cancel { reason },
            Signal => match signal.filter(|name| !name.is_empty()) {
                Some(name) => Action::Signal { name, data },
                None => return refused("which signal? Give its name as `signal`".to_owned()),
            },
            Pause => Action::Pause,
            Resume => Action::Resume { step: None },
            Fork => Action::Fork { from, step: None, label },
            Delete => Action::Delete,
        };
        Ok(Controlling { id, action })
    }

    /// The instance.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The word for what is done.
    #[must_use]
    pub fn word(&self) -> &'static str {
        self.action.word()
    }

    /// What is said of it where it is written down: the reason, the name of the signal, or the step. What goes with a signal is data, and is
    /// not told.
    #[must_use]
    pub fn detail(&self) -> Option<String> {
        let text = match &self.action {
            Action::Cancel { reason } => reason.as_ref(),
            Action::Signal { name, .. } => Some(name),
            Action::Fork { from, .. } => from.as_ref(),
            _ => None,
        };
        text.map(|text| Value::cut(text.clone(), 0, 200).text)
    }
}

fn count(Count { count, more }: Count) -> told::FunctionCount {
    told::FunctionCount { count, more }
}

fn value(value: Option<Value>) -> Option<told::FunctionValue> {
    value.map(|value| told::FunctionValue { cut: value.is_cut(), bytes: value.bytes, text: value.text })
}

fn listed(listed: Listed) -> told::FunctionInstance {
    told::FunctionInstance {
        id: listed.id,
        label: listed.label,
        status: listed.status,
        paused: listed.paused,
        queue: listed.queue,
        role: listed.role,
        execution: listed.execution,
        created_at: listed.created_at,
        begun_at: listed.begun_at,
        ended_at: listed.ended_at,
        delayed_until: listed.delayed_until,
        is_child: listed.is_child,
        reason: listed.reason,
        at: listed.at.map(|at| told::FunctionAt {
            node_type: at.node_type,
            query: at.query,
            name: at.name,
            since: at.since,
            due_at: at.due_at,
            attempt: at.attempt,
        }),
    }
}

fn detail(found: Instance) -> told::FunctionDetail {
    told::FunctionDetail {
        id: found.id,
        label: found.label,
        status: found.status,
        paused: found.paused,
        role: found.role,
        database: found.database,
        queue: found.queue,
        created_at: found.created_at,
        begun_at: found.begun_at,
        ended_at: found.ended_at,
        changed_at: found.changed_at,
        due_at: found.due_at,
        delayed_until: found.delayed_until,
        execution: found.execution,
        input: value(found.input),
        variables: value(found.variables),
        result: value(found.result),
        reason: value(found.reason),
        parent: found.parent,
        children: found
            .children
            .into_iter()
            .map(|child| told::FunctionChild {
                id: child.id,
                label: child.label,
                status: child.status,
                created_at: child.created_at,
                cell: child.cell,
            })
            .collect(),
        nodes: found.nodes.into_iter().map(node).collect(),
        edges: found
            .edges
            .into_iter()
            .map(|edge| told::FunctionEdge { from: edge.from, to: edge.to, slot: slot(edge.slot) })
            .collect(),
        steps: found.steps.into_iter().map(step).collect(),
        activities: found
            .activities
            .into_iter()
            .map(|activity| told::FunctionActivity {
                cell: activity.cell,
                kind: activity.kind,
                name: activity.name,
                attempt: activity.attempt,
                attempts_max: activity.attempts_max,
                queued_at: activity.queued_at,
                taken_at: activity.taken_at,
                leased_until: activity.leased_until,
                worker: activity.worker,
            })
            .collect(),
        signals: found
            .signals
            .into_iter()
            .map(|signal| told::FunctionSignal {
                name: signal.name,
                sent_at: signal.sent_at,
                data: value(signal.data),
            })
            .collect(),
        events: found
            .events
            .into_iter()
            .map(|event| told::FunctionEvent {
                key: event.key,
                value: value(event.value),
                set_at: event.set_at,
            })
            .collect(),
        executions: found
            .executions
            .into_iter()
            .map(|execution| told::FunctionExecution {
                execution: execution.execution,
                status: execution.status,
                events: execution.events,
                duration_ms: execution.duration_ms,
                output: value(execution.output),
            })
            .collect(),
        problem: found.problem,
        at: found.at,
    }
}

fn node(node: Node) -> told::FunctionNode {
    told::FunctionNode {
        id: node.id,
        node_type: node.node_type,
        name: node.name,
        query: value(node.query),
        status: node.status,
        inferred_status: node.inferred_status,
        inferred_from: node.inferred_from,
        result: value(node.result),
        updated_at: node.updated_at,
    }
}

fn slot(slot: Slot) -> told::FunctionSlot {
    match slot {
        Slot::Condition => told::FunctionSlot::Condition,
        Slot::Left => told::FunctionSlot::Left,
        Slot::Right => told::FunctionSlot::Right,
        Slot::Extra => told::FunctionSlot::Extra,
    }
}

fn step(step: Step) -> told::FunctionStep {
    told::FunctionStep {
        cell: step.cell,
        node: step.node,
        items: step.items,
        round: step.round,
        status: step.status,
        begun_at: step.begun_at,
        ended_at: step.ended_at,
        due_at: step.due_at,
        attempt: step.attempt,
        iteration: step.iteration,
        child: step.child,
        sqlstate: step.sqlstate,
        origin: step.origin,
        items_begun: step.items_begun.map(|(begun, _)| begun),
        items_running: step.items_begun.map(|(_, running)| running),
    }
}

fn queue(queue: Queue) -> told::FunctionQueue {
    told::FunctionQueue {
        name: queue.name,
        role: queue.role,
        state: queue.state,
        concurrency: queue.concurrency,
        worker_concurrency: queue.worker_concurrency,
        rate: queue.rate,
        per_s: queue.per_s,
        partition_by: queue.partition_by,
        partition_concurrency: queue.partition_concurrency,
        waiting: queue.waiting,
        delayed: queue.delayed,
        oldest_s: queue.oldest_s,
        running: queue.running,
        admitted: queue.admitted,
    }
}

fn schedule(schedule: Scheduled) -> told::FunctionSchedule {
    told::FunctionSchedule {
        name: schedule.name,
        role: schedule.role,
        cron: schedule.cron,
        time_zone: schedule.time_zone,
        every_s: schedule.every_s,
        overlap: schedule.overlap,
        queue: schedule.queue,
        paused: schedule.paused,
        next: schedule.next,
        last_at: schedule.last_at,
        last_id: schedule.last_id,
        last_status: schedule.last_status,
        started: schedule.started,
        skipped: schedule.skipped,
    }
}

#[cfg(test)]
#[path = "../tests/unit/functions.rs"]
mod tests;
