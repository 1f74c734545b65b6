//! One turn: claim instances of a role, run them as far as they go, write what came of it; one transaction, one commit.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use tokio_postgres::{
    error::SqlState,
    types::{ToSql, Type},
    Row,
};

use duramen_base::clock;

use super::hot::ROW_BYTES;
use super::instance::{self, ChildEnd, Claimed, Instance};
use super::rows::{Ended, Going};
use super::session::{Place, Purpose, Session};
use super::shared::{Entering, Shared, SLOW};
use super::steps::{self, StepOutcome};
use super::timings::Timings;
use super::traces::Tracer;
use crate::graph::Waiting;
use crate::http::HttpCall;
use crate::interpret::{Cell, Event, ExecutionStatus, Failure, FinishedExecution, Outcome, Request};
use crate::json::Json;
use crate::schema::SCHEMA_VERSION;
use duramen_postgres::connection::ConnectError;

/// A turn begins no new round of steps after this time.
const TURN_BUDGET_MS: f64 = 8.0;

const CLAIM: &str = "SELECT * FROM df._claim($1, $2, $3, $4, $5, $6)";
const FINISH: &str = "SELECT df._finish($1, $2, $3, $4, $5::text::json)";

/// A commit with a notification may have to wait for others: that must not count as waiting for a lock of a step.
/// A cursor that a step has declared WITH HOLD would run with the worker's rights.
pub(crate) const COMMIT: &str = "SET LOCAL lock_timeout = 0; CLOSE ALL; COMMIT";

/// Why a turn came to nothing. Its transaction is rolled back: nothing is lost, nothing has happened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TurnError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("{}", duramen_postgres::connection::with_sources(.0))]
    Server(#[from] tokio_postgres::Error),
    /// It is one of the steps.
    #[error("one of the steps: {0}")]
    Steps(#[from] steps::ExecutorError),
    /// What the steps have left cannot be committed.
    #[error("the commit: {}", duramen_postgres::connection::with_sources(.0))]
    Commit(tokio_postgres::Error),
    /// What answers is another copy of the database than the one that the worker began with.
    #[error("{target} is another copy of the database than the one that this worker began with, and nothing is run there: decide with `duramen fn adopt`, and start a worker anew")]
    Copy { target: String },
    /// Another database is not as it must be.
    #[error("{0}")]
    Elsewhere(String),
    /// What a turn has led to has no form as JSON.
    #[error("{what} cannot be written as JSON: {source}")]
    Encoding { what: &'static str, source: serde_json::Error },
}

impl TurnError {
    /// Whether one of several instances may be to blame, which alone would fail alone.
    pub(crate) fn blames_steps(&self) -> bool {
        matches!(self, TurnError::Steps(_) | TurnError::Commit(_))
    }

    /// Whether somebody held a lock that the worker's own statements needed.
    pub(crate) fn is_lock_timeout(&self) -> bool {
        matches!(self, TurnError::Server(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE))
    }

    /// Why what the worker wrote will be refused the next time, too; `None`: something that passes.
    pub(crate) fn refusal(&self) -> Option<String> {
        let error = match self {
            TurnError::Server(error) => error,
            TurnError::Encoding { .. } => return Some(self.to_string()),
            _ => return None,
        };
        let of_server = error.as_db_error()?;
        // Rolled back, out of resources, interrupted, lost, in the wrong state, locked.
        const PASSING: [&str; 7] = ["40", "53", "57", "58", "08", "25", "55"];
        let code = of_server.code().code();
        let passes = PASSING.iter().any(|class| code.starts_with(class));
        (!passes).then(|| of_server.message().to_owned())
    }
}

/// What a turn has done.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// How many instances it took.
    pub(crate) claimed: usize,
    /// How many of them ended.
    pub(crate) ended: usize,
    /// How long it is until the earliest timer that it set; nothing when a turn stopped before its end.
    pub(crate) due_in: Option<Duration>,
    /// It has put instances into queues, where they wait.
    pub(crate) put_off: bool,
    /// It has left work for activities.
    pub(crate) activities: bool,
    /// It has written to other instances: parents, children.
    pub(crate) mail: bool,
    /// Queues have room, or more to let in.
    pub(crate) queues: bool,
    /// It has held queues locked: whoever looked into them meanwhile has passed them over.
    pub(crate) entered: bool,
    /// It found nothing, and left alone what had come for queues, because another lane lets that in.
    pub(crate) beside: bool,
    /// How many bytes of rows of hot tables have died with it, about.
    pub(crate) died: usize,
    /// The largest number of a new instance that it took.
    pub(crate) newest: i64,
}

impl Report {
    /// There was nothing to do.
    pub(crate) fn is_empty(&self) -> bool {
        self.claimed == 0 && !self.put_off
    }
}

/// Which instances of a role a turn takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    /// New ones have greater numbers.
    pub(crate) after: i64,
    /// How many at most.
    pub(crate) many: i32,
}

/// Takes a turn for instances of one role: those that have come for queues, too, if it is the one that is `entering`, which is
/// over as soon as it turns out to let none of them in. What it had claimed is in `claimed`, also when it fails.
pub(crate) async fn take(
    shared: &Arc<Shared>,
    place: &Place,
    share: Share,
    entering: &mut Option<Entering<'_>>,
    claimed: &mut Vec<i64>,
) -> Result<Report, TurnError> {
    let session = shared.sessions.get(place, Purpose::Turn).await?;
    let report = attempt(shared, &session, place, share, entering, claimed).await;
    match &report {
        Ok(_) => shared.sessions.give_back(session),
        Err(TurnError::Steps(steps::ExecutorError::Stuck)) => shared.sessions.terminate(session.pid).await,
        Err(_) => {}
    }
    report
}

async fn attempt(
    shared: &Arc<Shared>,
    session: &Session,
    place: &Place,
    share: Share,
    entering: &mut Option<Entering<'_>>,
    claimed: &mut Vec<i64>,
) -> Result<Report, TurnError> {
    let client = &session.client;
    let begin = client.batch_execute("BEGIN");
    let parameters: [(&(dyn ToSql + Sync), Type); 6] = [
        (&SCHEMA_VERSION, Type::INT4),
        (&place.role, Type::OID),
        (&share.after, Type::INT8),
        (&share.many, Type::INT4),
        (&shared.memory.of_a_turn(), Type::INT8),
        (&entering.is_some(), Type::BOOL),
    ];
    let claim = client.query_typed(CLAIM, &parameters);
    let (begun, rows) = tokio::join!(biased; begin, claim);
    begun?;
    let rows = rows?;
    if rows.is_empty() {
        client.batch_execute("COMMIT").await?;
        return Ok(Report::default());
    }
    let mut instances: Vec<Instance> =
        rows.iter().filter_map(|row| read(row, shared.tracer.as_ref())).collect();
    let mut turn = Turn::new(shared, session, place, rows[0].get("at"));
    turn.put_off = instances.len() < rows.len();
    let bytes = |row: &Row, column| row.get::<_, Option<&str>>(column).map_or(0, str::len);
    session.carried(rows.iter().map(|row| bytes(row, "state")).sum());
    // What was started was a row of `_ready`, and has only now a state.
    let died = |row: &Row| match row.get::<_, Option<bool>>("fresh") {
        Some(false) => bytes(row, "state") + bytes(row, "mail"),
        _ => bytes(row, "graph") + bytes(row, "vars") + bytes(row, "input"),
    };
    turn.died = rows.iter().map(|row| ROW_BYTES + died(row)).sum();
    // They may be large, and what is needed of them has been read.
    drop(rows);
    // The oldest first.
    instances.sort_unstable_by_key(|instance| instance.seq);
    claimed.extend(instances.iter().map(|instance| instance.seq));
    if instances.iter().all(|instance| instance.partition.is_none()) {
        // It holds no queue, whatever its steps do: another turn may let in.
        *entering = None;
    }
    turn.run(&mut instances).await?;
    turn.finish(instances).await
}

/// `None`: it is the row that says that instances have been put into queues.
fn read(row: &Row, tracer: Option<&Tracer>) -> Option<Instance> {
    let seq = row.get::<_, Option<i64>>("seq")?;
    Some(Instance::read(&Claimed { seq, fresh: row.get("fresh"), row, tracer }))
}

/// What an instance starts.
struct Child {
    graph: String,
    label: Option<String>,
    queue: Option<Waiting>,
    environment: Json,
}

/// A step outside of the turn, as `df._finish` writes it down.
#[derive(Debug, Serialize)]
struct Activity {
    seq: i64,
    cell: String,
    kind: &'static str,
    payload: Payload,
    queue: Option<i64>,
}

/// What an activity does.
#[derive(Debug, Serialize, serde::Deserialize)]
#[serde(untagged)]
pub(crate) enum Payload {
    /// A SQL text.
    Sql { sql: String },
    /// An HTTP call.
    Http { http: HttpCall },
}

/// A row of `_task`.
#[derive(Debug, Serialize)]
struct Task {
    seq: i64,
    cell: String,
    name: String,
    input: Json,
    max_attempts: u32,
}

/// A row of `_inbox`.
#[derive(Debug, Serialize)]
struct Mail {
    seq: i64,
    kind: &'static str,
    name: Option<String>,
    data: Json,
}

/// A row of `_execution`.
#[derive(Debug, Serialize)]
struct Execution {
    seq: i64,
    execution: u64,
    status: &'static str,
    started_at: Timestamp,
    ended_at: Timestamp,
    event_count: u64,
    output: Option<Json>,
}

/// An activity that nobody needs any more.
#[derive(Debug, Serialize)]
struct Dropped {
    seq: i64,
    cell: String,
}

/// A row of `_slot`.
#[derive(Debug, Serialize)]
struct Entered {
    seq: i64,
    queue: i64,
    partition: String,
}

/// What few turns have: the last argument of `df._finish`.
#[derive(Debug, Default, Serialize)]
struct More {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    executions: Vec<Execution>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    dropped: Vec<Dropped>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    answered: Vec<Dropped>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    activities: Vec<Activity>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tasks: Vec<Task>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    mail: Vec<Mail>,
    /// Instances that a queue has let in by this turn, and that go on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    entered: Vec<Entered>,
    /// Instances that came through a queue and have ended.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    left: Vec<i64>,
}

impl More {
    fn is_empty(&self) -> bool {
        self.executions.is_empty()
            && self.dropped.is_empty()
            && self.answered.is_empty()
            && self.activities.is_empty()
            && self.tasks.is_empty()
            && self.mail.is_empty()
            && self.entered.is_empty()
            && self.left.is_empty()
    }
}

/// Runs and writes instances of one role inside a transaction that is open.
pub(crate) struct Turn<'a> {
    shared: &'a Arc<Shared>,
    session: &'a Session,
    place: &'a Place,
    /// The server's clock when the turn began, and ours: the two may differ.
    server_began: Timestamp,
    began: std::time::Instant,
    more: More,
    children: bool,
    /// A child waits in a queue.
    queued: bool,
    /// So does something that was started.
    put_off: bool,
    /// How many bytes of rows of hot tables die with it, about.
    pub(super) died: usize,
}

impl<'a> Turn<'a> {
    pub(crate) fn new(
        shared: &'a Arc<Shared>,
        session: &'a Session,
        place: &'a Place,
        server_now: Timestamp,
    ) -> Self {
        Self {
            shared,
            session,
            place,
            server_began: server_now,
            began: clock::now(),
            more: More::default(),
            children: false,
            queued: false,
            put_off: false,
            died: 0,
        }
    }

    /// The server's time.
    fn now(&self) -> Timestamp {
        // Neither can be more than a time can hold before the year 9999.
        let elapsed = SignedDuration::try_from(self.began.elapsed()).unwrap_or_default();
        self.server_began.checked_add(elapsed).unwrap_or(self.server_began)
    }

    fn over_budget(&self) -> bool {
        clock::ms(self.began.elapsed()) > TURN_BUDGET_MS
    }

    /// Goes on with every instance until each has ended, waits, or the time is up.
    pub(crate) async fn run(&mut self, instances: &mut [Instance]) -> Result<(), TurnError> {
        for instance in instances.iter_mut() {
            instance.condemn(self.shared.condemned(instance.seq));
        }
        let mut going: Vec<usize> = (0..instances.len()).collect();
        while !going.is_empty() {
            if self.over_budget() {
                // The rest of the way is the next turn's.
                for index in going {
                    instances[index].due_at = Some(self.now());
                }
                return Ok(());
            }
            let mut batch: Vec<(usize, Cell, String)> = Vec::new();
            let mut retried = Vec::new();
            for index in going.drain(..) {
                let requests = instances[index].advance(self.now());
                for request in requests {
                    match request {
                        Request::Sql { cell, text } => {
                            if self.runs_alone(&instances[index], &text) {
                                self.later(&instances[index], &cell, "sql", Payload::Sql { sql: text });
                            } else {
                                batch.push((index, cell, text));
                            }
                        }
                        Request::NonTransactional { cell, text } => {
                            self.later(&instances[index], &cell, "bare", Payload::Sql { sql: text });
                        }
                        Request::Http { cell, mut request } => {
                            if let Some(traceparent) = instances[index].traceparent_of(&cell) {
                                request.trace(traceparent);
                            }
                            self.later(&instances[index], &cell, "http", Payload::Http { http: request });
                        }
                        Request::Task { cell, name, input, max_attempts } => {
                            let (seq, cell) = (instances[index].seq, cell.as_str().to_owned());
                            self.more.tasks.push(Task { seq, cell, name, input, max_attempts });
                        }
                        Request::Child { cell, graph, label, queue, environment, .. } => {
                            let child = Child { graph, label, queue, environment };
                            self.start_child(&mut instances[index], &cell, child).await?;
                            retried.push(index);
                        }
                    }
                }
            }
            going = self.run_batch(instances, batch).await?;
            going.extend(retried);
            going.sort_unstable();
            going.dedup();
        }
        Ok(())
    }

    fn runs_alone(&self, instance: &Instance, text: &str) -> bool {
        let elsewhere = instance.database.as_deref().is_some_and(|name| name != self.place.database);
        elsewhere || self.shared.runs_alone(self.place.role, instance.seq, text)
    }

    /// Leaves a step to an activity.
    fn later(&mut self, instance: &Instance, cell: &Cell, kind: &'static str, payload: Payload) {
        let Instance { seq, queue, .. } = *instance;
        self.more.activities.push(Activity { seq, cell: cell.as_str().to_owned(), kind, payload, queue });
    }

    /// Runs one round of steps; which instances it has brought on is returned.
    async fn run_batch(
        &mut self,
        instances: &mut [Instance],
        batch: Vec<(usize, Cell, String)>,
    ) -> Result<Vec<usize>, TurnError> {
        let mut going = Vec::new();
        if batch.is_empty() {
            return Ok(going);
        }
        let texts: Vec<&str> = batch.iter().map(|(_, _, text)| text.as_str()).collect();
        let began = clock::now();
        let outcomes = steps::run(self.session, &texts, self.shared.memory.of_a_turn()).await?;
        let ended = outcomes.iter().filter(|outcome| matches!(outcome, StepOutcome::Ended(_))).count();
        self.shared.metrics.times.round(began.elapsed(), ended);
        let now = self.now();
        for ((index, cell, text), outcome) in batch.into_iter().zip(outcomes) {
            match outcome {
                StepOutcome::Ended(result) => {
                    instances[index].complete(now, &cell, result);
                    going.push(index);
                }
                StepOutcome::Alone => {
                    // Until it is known how long it takes alone, the next of its kind does not hold up a turn.
                    self.shared.remember(self.place.role, &text, SLOW);
                    self.later(&instances[index], &cell, "sql", Payload::Sql { sql: text });
                }
                StepOutcome::NotBegun => {
                    self.later(&instances[index], &cell, "sql", Payload::Sql { sql: text });
                }
            }
        }
        Ok(going)
    }

    async fn start_child(
        &mut self,
        parent: &mut Instance,
        cell: &Cell,
        child: Child,
    ) -> Result<(), TurnError> {
        let waiting = child.queue.as_ref();
        let priority = waiting.map(|waiting| waiting.priority);
        let queue = waiting.map(|waiting| &waiting.queue);
        let partition = waiting.map(|waiting| &waiting.partition);
        let row = self
            .session
            .client
            .query_typed_one(
                "SELECT df._start_child($1, $2, $3, $4, $5, $6::text::json, $7::text::json, $8::text::json,
                     $9, $10, $11)",
                &[
                    (&self.place.role, Type::OID),
                    (&parent.seq, Type::INT8),
                    (&cell.to_string(), Type::TEXT),
                    (&child.label, Type::TEXT),
                    (&parent.database, Type::TEXT),
                    (&child.graph, Type::TEXT),
                    (&parent.vars_json(cell)?, Type::TEXT),
                    (&child.environment.text(), Type::TEXT),
                    (&queue, Type::TEXT),
                    (&priority, Type::INT4),
                    (&partition, Type::TEXT),
                ],
            )
            .await?;
        match row.get::<_, Option<i64>>(0) {
            Some(seq) => parent.state.child_started(cell, &instance::id(seq)),
            None => {
                let queue = queue.map_or("", String::as_str);
                let message = format!(
                    "df.call: there is no queue {queue:?} of this role that takes something: make it with df.queue, or open it with df.resume_queue"
                );
                let failure = Failure { message, sqlstate: None };
                parent.event(self.now(), Event::ChildRefused { cell: cell.clone(), failure });
            }
        }
        self.children |= queue.is_none();
        self.queued |= queue.is_some();
        Ok(())
    }

    /// Writes everything down and commits.
    pub(crate) async fn finish(mut self, instances: Vec<Instance>) -> Result<Report, TurnError> {
        let mut ended = Vec::new();
        let mut going = Vec::new();
        let mut began = Vec::new();
        let mut timings = Timings::new(self.now());
        let mut spans = Vec::new();
        let mut report = Report {
            claimed: instances.len(),
            mail: self.children,
            put_off: self.put_off,
            queues: self.queued || self.put_off,
            died: self.died,
            ..Report::default()
        };
        let keys =
            instances.iter().filter(|instance| instance.outcome.is_some()).map(|instance| instance.seq);
        let has_ended: HashSet<i64> = keys.collect();
        for mut instance in instances {
            timings.note(&instance);
            if let Some(tracer) = &self.shared.tracer {
                tracer.note(&mut spans, &mut instance, self.place, self.now());
            }
            report.entered |= instance.partition.is_some();
            if instance.fresh {
                report.newest = report.newest.max(instance.seq);
            } else {
                began.push(instance.seq);
            }
            for execution in std::mem::take(&mut instance.executions) {
                // The only one, or the last, is what `_done` says, too.
                if execution.execution > 1 || execution.status == ExecutionStatus::Continued {
                    self.more.executions.push(Execution::new(instance.seq, execution));
                }
            }
            for cell in std::mem::take(&mut instance.dropped) {
                self.more.dropped.push(Dropped { seq: instance.seq, cell: cell.as_str().to_owned() });
            }
            for cell in std::mem::take(&mut instance.answered) {
                self.more.answered.push(Dropped { seq: instance.seq, cell: cell.as_str().to_owned() });
            }
            for child in std::mem::take(&mut instance.dropped_children) {
                if let Some(seq) = instance::seq(&child) {
                    let reason = Json::string(&format!("its parent {} needs it no longer", instance.id));
                    self.more.mail.push(Mail { seq, kind: "cancel", name: None, data: reason });
                }
            }
            match instance.outcome.take() {
                Some(outcome) => {
                    report.ended += 1;
                    // What this turn has let in has had no slot, and no key.
                    if instance.queue.is_some() && instance.partition.is_none() {
                        self.more.left.push(instance.seq);
                        report.queues = true;
                    }
                    self.notify_parent(&instance, &outcome)?;
                    ended.push(Ended::new(&instance, &outcome));
                }
                None => {
                    if let Some((queue, partition)) = instance.queue.zip(instance.partition.take()) {
                        self.more.entered.push(Entered { seq: instance.seq, queue, partition });
                    }
                    report.due_in = earlier(report.due_in, instance.due_at.map(|at| self.until(at)));
                    going.push(Going::new(&instance));
                }
            }
        }
        // A step of this turn may have been given up in the same turn.
        let More { activities, tasks, dropped, .. } = &mut self.more;
        let is_wanted = |seq: i64, cell: &str| {
            !has_ended.contains(&seq) && !dropped.iter().any(|gone| gone.seq == seq && gone.cell == cell)
        };
        activities.retain(|activity| is_wanted(activity.seq, &activity.cell));
        tasks.retain(|task| is_wanted(task.seq, &task.cell));
        report.activities = !self.more.activities.is_empty();
        report.mail |= !self.more.mail.is_empty();
        let more = if self.more.is_empty() {
            None
        } else {
            // Without it the turn would commit, and its activities and mail be lost.
            Some(to_json("what the turn has led to", &self.more)?)
        };
        let types = &self.shared.row_types;
        let parameters: [(&(dyn ToSql + Sync), Type); 5] = [
            (&self.place.role, Type::OID),
            (&ended, types.ended.clone()),
            (&going, types.going.clone()),
            (&began, Type::INT8_ARRAY),
            (&more, Type::TEXT),
        ];
        let written = ended.iter().map(Ended::bytes).chain(going.iter().map(Going::bytes));
        self.session.carried(written.sum::<usize>() + more.as_ref().map_or(0, String::len));
        let client = &self.session.client;
        let finish = client.query_typed(FINISH, &parameters);
        let (finished, committed) = tokio::join!(biased; finish, client.batch_execute(COMMIT));
        finished?;
        committed.map_err(TurnError::Commit)?;
        timings.record(&self.shared.metrics);
        if let Some(tracer) = &self.shared.tracer {
            tracer.record(self.place.role, spans, &self.shared.metrics);
        }
        // Only now are they not needed any more.
        for Dropped { seq, cell } in &self.more.dropped {
            self.shared.stop(*seq, cell);
        }
        Ok(report)
    }

    /// How long it is until then.
    fn until(&self, at: Timestamp) -> Duration {
        // What has a negative time to go is due now.
        Duration::try_from(at.duration_since(self.now())).unwrap_or(Duration::ZERO)
    }

    /// A child's end is its parent's event.
    fn notify_parent(&mut self, instance: &Instance, outcome: &Outcome) -> Result<(), TurnError> {
        let Some((parent, cell)) = &instance.parent else { return Ok(()) };
        let end = match outcome {
            Outcome::Completed(result) => {
                ChildEnd { result: Some(result.clone()), failure: None, sqlstate: None }
            }
            Outcome::Failed(Failure { message, sqlstate }) => {
                ChildEnd { result: None, failure: Some(message.clone()), sqlstate: sqlstate.clone() }
            }
            Outcome::Cancelled(reason) => ChildEnd {
                result: None,
                failure: Some(format!("child {} was cancelled: {reason}", instance.id)),
                sqlstate: None,
            },
        };
        let data = Json::from_valid(to_json("the end of a child", &end)?);
        self.more.mail.push(Mail { seq: *parent, kind: "child", name: Some(cell.clone()), data });
        Ok(())
    }
}

impl Execution {
    fn new(seq: i64, of: FinishedExecution) -> Self {
        let status = match of.status {
            ExecutionStatus::Completed => "c",
            ExecutionStatus::Failed => "f",
            ExecutionStatus::Continued => "n",
            ExecutionStatus::Cancelled => "x",
        };
        let FinishedExecution { execution, started_at, ended_at, event_count, output, .. } = of;
        Self { seq, execution, status, started_at, ended_at, event_count, output }
    }
}

/// JSON that is committed. `what` names it should it have none.
pub(super) fn to_json(what: &'static str, value: &impl Serialize) -> Result<String, TurnError> {
    serde_json::to_string(value).map_err(|source| TurnError::Encoding { what, source })
}

/// The shorter of two times that may not be.
fn earlier(a: Option<Duration>, b: Option<Duration>) -> Option<Duration> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests;
