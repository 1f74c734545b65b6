//! Steps outside of turns: slow SQL, SQL in another database, statements that refuse transactions, HTTP.
//!
//! An activity is taken by a worker under its epoch, and what it leads to is committed only if it is still this
//! worker's at the end. A SQL step here has its effect and its record in one transaction, as in a turn.

use std::sync::{atomic::Ordering, Arc};
use std::time::Duration;

use duramen_base::clock;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use tokio::task::{JoinError, JoinSet};
use tokio_postgres::{
    error::SqlState,
    types::{ToSql, Type},
    Client, Row,
};
use tracing::Instrument;

use super::control::drains;
use super::elsewhere;
use super::executors;
use super::hot::ROW_BYTES;
use super::instance::{Claimed, Instance};
use super::metrics::add;
use super::rehearse;
use super::session::{self, Place, Purpose, Session};
use super::shared::{Running, Shared};
use super::slots::{Room, Slot, Slots};
use super::steps::{self, ExecutorError};
use super::turn::{Payload, Turn, TurnError};
use crate::http;
use crate::interpret::{Cell, Failure};
use crate::json::Json;
use crate::rehearsal::{Reached, NOT_DONE};
use crate::schema::SCHEMA_VERSION;

/// After so many lost sessions a step fails: it may be what ends them.
const ATTEMPTS_MAX: i32 = 20;
/// How long to wait after the database was not to be reached.
const RETRY_AFTER: Duration = Duration::from_millis(200);
/// How long to wait at the most when activities cannot be taken time after time.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(2);
/// How often a result is offered again when its instance is locked for a moment.
const RECORD_TRIES: u32 = 50;

pub(super) type Outcome = Result<Json, Failure>;

/// What `df._take` returns.
pub(super) struct Activity {
    seq: i64,
    cell: String,
    pub(super) number: i64,
    pub(super) attempt: i32,
    kind: String,
    payload: Result<Payload, String>,
    /// The submitter, in the database that has the schema.
    home: Place,
    /// The database that the step runs in.
    pub(super) database: String,
    /// Under which it was taken.
    epoch: String,
    /// It came through a queue, which may let a worker run only so many at once.
    is_of_queue: bool,
    /// When this attempt began.
    taken: std::time::Instant,
}

impl Activity {
    fn read(row: &Row, main: &str, epoch: &str) -> Self {
        let payload = serde_json::from_str(row.get("payload"));
        Self {
            seq: row.get("seq"),
            cell: row.get("cell"),
            number: row.get("number"),
            attempt: row.get("attempt"),
            kind: row.get("kind"),
            payload: payload.map_err(|error| format!("this step cannot be read: {error}")),
            home: Place {
                role: row.get("submitted_by"),
                role_name: row.get("role_name"),
                database: main.to_owned(),
            },
            database: row.get::<_, Option<String>>("database").unwrap_or_else(|| main.to_owned()),
            epoch: epoch.to_owned(),
            is_of_queue: row.get::<_, Option<i64>>("queue").is_some(),
            taken: clock::now(),
        }
    }

    /// Whether it is a SQL step in another database, whose end is marked there.
    fn is_elsewhere(&self) -> bool {
        self.kind == "sql" && self.database != self.home.database
    }

    /// The submitter, in the database that the step runs in.
    pub(super) fn place(&self) -> Place {
        Place { database: self.database.clone(), ..self.home.clone() }
    }
}

/// Takes activities and runs as many of them at once as there are places, until the worker drains; then waits for those that
/// run.
pub(crate) async fn dispatch(shared: Arc<Shared>, slots: Slots) {
    let mut draining = shared.draining.subscribe();
    let mut client: Option<Client> = None;
    let mut running = JoinSet::new();
    let mut retry_after = RETRY_AFTER;
    loop {
        tokio::select! {
            () = shared.activities.notified() => {}
            () = drains(&mut draining) => break,
        }
        while !shared.is_draining() {
            while let Some(ended) = running.try_join_next() {
                report_panic(ended);
            }
            // What is taken is run: places come first.
            let Some(room) = slots.room() else { break };
            let taken = match take(&shared, &mut client, &room).await {
                Ok(taken) => taken,
                Err(error) => {
                    add(&shared.metrics.failed_takes_total, 1);
                    tracing::warn!(%error, "activities cannot be taken; the worker tries again");
                    client = None;
                    tokio::time::sleep(retry_after).await;
                    retry_after = (retry_after * 2).min(RETRY_AFTER_MAX);
                    continue;
                }
            };
            retry_after = RETRY_AFTER;
            if taken.is_empty() {
                break;
            }
            // What was there for roles that run nothing, this look has taken, too.
            let is_full = taken.len() >= usize::try_from(room.free).unwrap_or(0);
            for activity in taken {
                if activity.epoch != *shared.epoch.lock() {
                    // The answer was so long under way that this worker was believed dead: it is others'.
                    continue;
                }
                let slot = slots.take(activity.home.role);
                let state = Running::new(activity.number, activity.attempt);
                shared.started(activity.seq, &activity.cell, state.clone());
                let span = tracing::debug_span!(
                    "activity",
                    instance = super::id(activity.seq),
                    kind = activity.kind
                );
                running.spawn(run(Arc::clone(&shared), activity, state, slot).instrument(span));
            }
            if is_full {
                break;
            }
        }
    }
    while let Some(ended) = running.join_next().await {
        report_panic(ended);
    }
}

/// An activity that panicked is not held any more, and the next heartbeat lets anybody have it.
fn report_panic(ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "an activity has failed inside the worker, and is tried again");
    }
}

async fn take(shared: &Shared, client: &mut Option<Client>, room: &Room) -> Result<Vec<Activity>, TurnError> {
    if client.as_ref().is_none_or(Client::is_closed) {
        *client = Some(shared.home().await?);
    }
    let Some(client) = client else { return Ok(Vec::new()) };
    let epoch = shared.epoch.lock().clone();
    let (busy, counts) = &room.busy;
    let rows = client
        .query_typed(
            "SELECT * FROM df._take($1::text::uuid, $2, $3, $4, $5, $6)",
            &[
                (&epoch, Type::TEXT),
                (&room.free, Type::INT4),
                (&room.spare, Type::INT4),
                (&room.per_role, Type::INT4),
                (busy, Type::OID_ARRAY),
                (counts, Type::INT4_ARRAY),
            ],
        )
        .await?;
    let main = shared.target.database_name();
    Ok(rows.iter().map(|row| Activity::read(row, main, &epoch)).collect())
}

async fn run(shared: Arc<Shared>, activity: Activity, state: Running, slot: Slot) {
    let held = Held { shared: &shared, seq: activity.seq, cell: &activity.cell, state: &state };
    add(&shared.metrics.activities_total, 1);
    add(&shared.metrics.repeated_activities_total, usize::from(activity.attempt > 1));
    let place = Mutex::new(Some(Occupied::take(&shared, slot)));
    let began = clock::now();
    let result = tokio::select! {
        result = perform(&shared, &activity, &state, &place) => result,
        () = state.stopped() => Ok(()),
    };
    if let Err(error) = result {
        tracing::warn!(instance = super::id(activity.seq), cell = activity.cell, %error, "a step is tried again");
        tokio::time::sleep(RETRY_AFTER).await;
        release(&shared, &activity).await;
        shared.wake();
    } else if !state.is_unwanted() {
        shared.metrics.times.activity.record(began.elapsed());
    }
    drop(held);
    shared.clear_suspect(activity.seq);
    // A place that was given back before has been noticed; that one of its queue is over, not before now.
    let held_place = place.lock().take().is_some();
    if held_place || activity.is_of_queue {
        shared.activities.notify_one();
    }
}

/// That an activity runs here; not any more once this is dropped, however it comes to that.
struct Held<'a> {
    shared: &'a Shared,
    seq: i64,
    cell: &'a str,
    state: &'a Running,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.shared.ended(self.seq, self.cell, self.state);
    }
}

/// A place that an activity has, and that it counts as one that runs.
struct Occupied<'a> {
    shared: &'a Shared,
    _slot: Slot,
}

impl<'a> Occupied<'a> {
    fn take(shared: &'a Shared, slot: Slot) -> Self {
        shared.metrics.running_activities.fetch_add(1, Ordering::Relaxed);
        Self { shared, _slot: slot }
    }
}

impl Drop for Occupied<'_> {
    fn drop(&mut self) {
        self.shared.metrics.running_activities.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Lets anybody have the activity. If that fails, a heartbeat does it.
async fn release(shared: &Shared, activity: &Activity) {
    let released = async {
        let session = shared.sessions.get(&activity.home, Purpose::Turn).await?;
        session
            .client
            .execute_typed(
                "UPDATE df._activity SET owner = NULL, taken_at = NULL
                 WHERE seq = $1 AND cell = $2 AND owner = $3::text::uuid AND number = $4 AND attempt = $5",
                &[
                    (&activity.seq, Type::INT8),
                    (&activity.cell, Type::TEXT),
                    (&activity.epoch, Type::TEXT),
                    (&activity.number, Type::INT8),
                    (&activity.attempt, Type::INT4),
                ],
            )
            .await?;
        shared.sessions.give_back(session);
        Ok::<(), TurnError>(())
    };
    if let Err(error) = released.await {
        tracing::warn!(%error, "a step cannot be given back now");
    }
}

/// `place` is what the activity has for as long as it runs. It is given back early where the step is over and what it led to
/// has yet to be recorded: the next one begins meanwhile, in a session of those that are for roles that run nothing.
async fn perform(
    shared: &Arc<Shared>,
    activity: &Activity,
    state: &Running,
    place: &Mutex<Option<Occupied<'_>>>,
) -> Result<(), TurnError> {
    // Before anything else: the end of a step that was lost too often is marked in its database.
    if let Some(result) = external_outcome(shared, activity).await? {
        // No attempt has run here, nor will one.
        return record(shared, activity, state, result).await.map(drop);
    }
    if activity.attempt > ATTEMPTS_MAX {
        let message = format!("the session of this step was lost {ATTEMPTS_MAX} times while it ran");
        let failure = Failure { message, sqlstate: None };
        return if activity.is_elsewhere() {
            elsewhere::fail(shared, activity, state, failure).await
        } else {
            record(shared, activity, state, Err(failure)).await.map(drop)
        };
    }
    let result = match (&activity.payload, activity.kind.as_str()) {
        (Err(message), _) => Err(Failure { message: message.clone(), sqlstate: None }),
        (Ok(Payload::Http { http }), _) => call(shared, activity, http).await?,
        (Ok(Payload::Sql { sql }), "bare") => {
            match run_nontransactional(shared, activity, sql, state).await {
                Err(TurnError::Elsewhere(message)) => Err(refused(message)),
                result => result?,
            }
        }
        (Ok(Payload::Sql { sql }), _) if activity.database == activity.home.database => {
            return here(shared, activity, sql, state, place).await;
        }
        (Ok(Payload::Sql { sql }), _) => return elsewhere::run(shared, activity, sql, state).await,
    };
    record(shared, activity, state, result).await.map(drop)
}

/// How a step ends that would reach outside the database and may not, because its instance was begun in another copy of
/// it; `None`: it runs.
async fn external_outcome(shared: &Arc<Shared>, activity: &Activity) -> Result<Option<Outcome>, TurnError> {
    let reached = match &activity.payload {
        Ok(Payload::Http { http }) => Reached::Http(http),
        Ok(Payload::Sql { .. }) if activity.database != activity.home.database => {
            Reached::Database(&activity.database)
        }
        Ok(Payload::Sql { sql }) if activity.kind == "bare" && crate::nontransactional::is_external(sql) => {
            Reached::Server
        }
        _ => return Ok(None),
    };
    if let Some(rehearsal) = &shared.outside.rehearsal {
        return rehearse::outcome(shared, rehearsal, activity.seq, &activity.cell, reached).await.map(Some);
    }
    if !shared.outside.has_adopted {
        return Ok(None);
    }
    let home = shared.home().await?;
    let rule: Option<String> =
        home.query_typed_one("SELECT df._external($1)", &[(&activity.seq, Type::INT8)]).await?.get(0);
    Ok(rule.map(|rule| match rule.as_str() {
        "stub" => Ok(Json::null()),
        _ => Err(Failure {
            message: "this step would reach outside the database, and was skipped: its instance was begun in another \
                copy of it, and this copy was adopted with --external=skip"
                .to_owned(),
            sqlstate: Some(NOT_DONE.to_owned()),
        }),
    }))
}

pub(super) fn refused(message: String) -> Failure {
    Failure { message, sqlstate: Some("42501".to_owned()) }
}

/// A SQL step in the database that has the schema: its effect and its record are one transaction.
async fn here(
    shared: &Arc<Shared>,
    activity: &Activity,
    sql: &str,
    state: &Running,
    place: &Mutex<Option<Occupied<'_>>>,
) -> Result<(), TurnError> {
    match here_once(shared, activity, sql, state, place).await? {
        None => Ok(()),
        Some(failure) => {
            // The executor has gone with its role's other objects, or is another's: nothing was done, and it is made anew.
            let failure = if executors::is_gone(&failure, activity.home.role) {
                shared.executors.lock().remove(&activity.home.role);
                here_once(shared, activity, sql, state, place).await?
            } else {
                Some(failure)
            };
            match failure {
                None => Ok(()),
                Some(failure) => record(shared, activity, state, Err(failure)).await.map(drop),
            }
        }
    }
}

/// The same, once. A failure of which nothing is recorded yet is returned.
async fn here_once(
    shared: &Arc<Shared>,
    activity: &Activity,
    sql: &str,
    state: &Running,
    place: &Mutex<Option<Occupied<'_>>>,
) -> Result<Option<Failure>, TurnError> {
    let unable = match executors::ensure(shared, &activity.home).await {
        Ok(true) => None,
        Ok(false) => Some(executors::no_role(&activity.home)),
        Err(TurnError::Server(error)) => {
            let mut failure = failure_of(&error).ok_or(error)?;
            failure.message = format!(
                "the worker cannot act for role {}: {}; GRANT it to the worker's role",
                activity.home.role_name, failure.message
            );
            Some(failure)
        }
        Err(error) => return Err(error),
    };
    if unable.is_some() {
        return Ok(unable);
    }
    let session = shared.sessions.get(&activity.home, Purpose::Alone).await?;
    let client = &session.client;
    state.begins(session.cancel_token(), session.pid).await;
    // One round trip: what is sent behind the step is answered when it is over.
    let of: [(&(dyn ToSql + Sync), Type); 1] = [(&activity.seq, Type::INT8)];
    let free = || {
        drop(place.lock().take());
        shared.activities.notify_one();
    };
    let (begun, ran, after) = tokio::join!(
        biased;
        client.batch_execute("BEGIN"),
        step_alone(shared, &session, sql, state, free),
        client.query_typed_opt(AFTER_STEP, &of),
    );
    begun?;
    let failure = match ran? {
        Ran::Ended(result) => {
            let after = after?;
            let left_something = after.as_ref().is_none_or(|row| row.get(1));
            let held = after.map_or(0, |row| row.get(0));
            match end(shared, &session, activity, state, result, Some(held)).await {
                Ok(_) => {
                    // A cancel request that was sent may still be on its way.
                    if !left_something && !state.is_unwanted() {
                        shared.sessions.give_back(session);
                    }
                    return Ok(None);
                }
                // If the server says why, it is the step that cannot be committed.
                Err(TurnError::Server(error) | TurnError::Commit(error)) => {
                    failure_of(&error).ok_or(error)?
                }
                Err(error) => return Err(error),
            }
        }
        Ran::Aborted(failure) => failure,
    };
    // What it had done is undone, with its session.
    drop(session);
    Ok(Some(failure))
}

/// What became of a step that ran alone.
pub(super) enum Ran {
    /// It has a result or a failure, and the transaction goes on.
    Ended(Outcome),
    /// It failed, and took the transaction with it.
    Aborted(Failure),
}

/// How large the state of an instance is, and whether the step before left a temporary table in its session. No row: the
/// instance is over.
const AFTER_STEP: &str = "SELECT w.bytes::bigint, pg_my_temp_schema() <> 0 FROM df._work w WHERE w.seq = $1";

/// Runs the step in the transaction that is open on the session.
pub(super) async fn alone(
    shared: &Shared,
    session: &Session,
    sql: &str,
    state: &Running,
) -> Result<Ran, TurnError> {
    state.begins(session.cancel_token(), session.pid).await;
    step_alone(shared, session, sql, state, || {}).await
}

/// The same, where the statement has begun. What the first poll of this sends it sends at once.
async fn step_alone(
    shared: &Shared,
    session: &Session,
    sql: &str,
    state: &Running,
    is_over: impl FnOnce(),
) -> Result<Ran, TurnError> {
    let began = clock::now();
    let ran = steps::run_alone(session, sql, is_over).await;
    state.is_over().await;
    shared.remember(session.role, sql, began.elapsed());
    match ran {
        Ok(result) => Ok(Ran::Ended(result)),
        Err(ExecutorError::Server(error)) => Ok(Ran::Aborted(failure_of(&error).ok_or(error)?)),
        Err(error @ ExecutorError::Result(_)) => {
            Ok(Ran::Aborted(Failure { message: error.to_string(), sqlstate: None }))
        }
        Err(error) => Err(error.into()),
    }
}

/// A refusal of the server that is the step's own failure; `None`: the session is gone, and the step may be tried
/// again.
pub(super) fn failure_of(error: &tokio_postgres::Error) -> Option<Failure> {
    let of_server = error.as_db_error()?;
    const LOST: [SqlState; 4] = [
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::CANNOT_CONNECT_NOW,
        SqlState::DATABASE_DROPPED,
    ];
    let code = of_server.code().code();
    // Connection exceptions, system errors, and the two limits for idle sessions.
    let lost = LOST.contains(of_server.code())
        || code.starts_with("08")
        || code.starts_with("58")
        || ["57P05", "25P03"].contains(&code);
    (!lost).then(|| Failure { message: of_server.message().to_owned(), sqlstate: Some(code.to_owned()) })
}

/// Records the end of an activity in the transaction that is open on the session, and commits. `held` is the size of its
/// instance's state, if that is known. If the activity is not
/// ours any more, rolls everything back and returns false.
async fn end(
    shared: &Arc<Shared>,
    session: &Session,
    activity: &Activity,
    state: &Running,
    result: Outcome,
    held: Option<i64>,
) -> Result<bool, TurnError> {
    let client = &session.client;
    // Reserved before the instance is locked: waiting for memory while holding the lock could deadlock with whoever has the
    // memory and waits for the lock.
    let held: i64 = match held {
        Some(held) => held,
        None => {
            let row = client.query_typed_opt(AFTER_STEP, &[(&activity.seq, Type::INT8)]).await?;
            row.map_or(0, |row| row.get(0))
        }
    };
    let result_bytes = result.as_ref().map_or(0, |result| result.text().len());
    let bytes = usize::try_from(held).unwrap_or(0) + result_bytes;
    session.carried(bytes);
    let _reserved = match shared.memory.reserve_now(activity.home.role, bytes) {
        Ok(reserved) => reserved,
        Err(_) => {
            // The transaction has the step's effect, and must not be ended for being idle.
            client.batch_execute("SET LOCAL idle_in_transaction_session_timeout = '10min'").await?;
            let reserved = shared.memory.reserve(activity.home.role, bytes).await;
            client.batch_execute("SET LOCAL idle_in_transaction_session_timeout = '30s'").await?;
            reserved
        }
    };
    let row = if state.is_unwanted() {
        None
    } else {
        client
            .query_typed_opt(
                "SELECT * FROM df._end_activity($1, $2::text::uuid, $3, $4, $5, $6)",
                &[
                    (&SCHEMA_VERSION, Type::INT4),
                    (&activity.epoch, Type::TEXT),
                    (&activity.seq, Type::INT8),
                    (&activity.cell, Type::TEXT),
                    (&activity.number, Type::INT8),
                    (&activity.attempt, Type::INT4),
                ],
            )
            .await?
    };
    let Some(row) = row else {
        client.batch_execute("ROLLBACK").await?;
        add(&shared.metrics.fenced_total, 1);
        return Ok(false);
    };
    let now: Timestamp = row.get("at");
    let mut instance = Instance::read(&Claimed {
        seq: activity.seq,
        fresh: false,
        row: &row,
        tracer: shared.tracer.as_ref(),
    });
    match Cell::parse(&activity.cell) {
        Some(cell) => {
            instance.complete(now, &cell, result);
            let began = SignedDuration::try_from(activity.taken.elapsed()).ok();
            let began = began.and_then(|ago| now.checked_sub(ago).ok()).unwrap_or(now);
            instance.ran = Some((cell, (activity.attempt, began)));
        }
        // Its row is gone with this transaction: nothing would ever end the step.
        None => instance.condemn(Some(format!("a step of this instance is of no cell: {:?}", activity.cell))),
    }
    instance.end_or_pass_on(now);
    let mut turn = Turn::new(shared, session, &activity.home, now);
    // The state that was, and the activity as it was before it was taken and since.
    turn.died = usize::try_from(held).unwrap_or(0) + 3 * ROW_BYTES;
    let report = turn.finish(vec![instance]).await?;
    shared.note(&report);
    if report.ended == 0 {
        // It goes on, or a turn has passed it over while it was locked here.
        shared.wake();
    }
    Ok(true)
}

/// Records the end of an activity that left nothing in a transaction. False: it is not ours any more.
pub(super) async fn record(
    shared: &Arc<Shared>,
    activity: &Activity,
    state: &Running,
    result: Outcome,
) -> Result<bool, TurnError> {
    for _ in 1..RECORD_TRIES {
        let session = shared.sessions.get(&activity.home, Purpose::Turn).await?;
        session.client.batch_execute("BEGIN").await?;
        match end(shared, &session, activity, state, result.clone(), None).await {
            Ok(recorded) => {
                shared.sessions.give_back(session);
                return Ok(recorded);
            }
            Err(error) => {
                // A turn has the instance for the moment.
                tracing::debug!(%error, "a result is offered again");
                tokio::time::sleep(RETRY_AFTER / 10).await;
            }
        }
    }
    let session = shared.sessions.get(&activity.home, Purpose::Alone).await?;
    session.client.batch_execute("BEGIN").await?;
    let recorded = end(shared, &session, activity, state, result, None).await?;
    shared.sessions.give_back(session);
    Ok(recorded)
}

/// A statement that refuses transactions: at least once, under the submitter's role, in a session of its own. Being
/// one statement of a known kind, and without literals, whose types could run code, it cannot change the role.
async fn run_nontransactional(
    shared: &Arc<Shared>,
    activity: &Activity,
    sql: &str,
    state: &Running,
) -> Result<Outcome, TurnError> {
    if !crate::nontransactional::is_harmless(sql) {
        let message = "a statement outside of transactions may not have string literals in a step".to_owned();
        return Ok(Err(refused(message)));
    }
    let home = shared.home().await?;
    executors::may_connect(&home, &activity.place()).await?;
    let client = shared.guarded().database(&activity.database).connect().await?;
    let row = client.query_typed_one(session::MYSELF, &[]).await?;
    let pid = row.get(0);
    // The session is the submitter's, where the worker may make it so.
    let act = if row.get(1) { "SET SESSION AUTHORIZATION" } else { "SET ROLE" };
    let enter = format!(
        "SET search_path = \"$user\", public; {act} {}",
        steps::quote_identifier(&activity.home.role_name)
    );
    state.begins(client.cancel_token(), pid).await;
    let outcome = match client.batch_execute(&enter).await {
        Ok(()) => client.execute_typed(sql, &[]).await,
        Err(error) => Err(error),
    };
    state.is_over().await;
    Ok(match outcome {
        Ok(rows) => Ok(crate::result::affected(rows)),
        Err(error) => Err(failure_of(&error).ok_or(error)?),
    })
}

/// An HTTP call, if the submitter may still make it.
async fn call(
    shared: &Arc<Shared>,
    activity: &Activity,
    request: &http::HttpCall,
) -> Result<Outcome, TurnError> {
    let (name, arguments) = if request.parts.is_some() {
        ("df.http_multipart", "text,text,jsonb,jsonb,int")
    } else {
        ("df.http", "text,text,text,jsonb,int")
    };
    let function = format!("{name}({arguments})");
    let session = shared.sessions.get(&activity.home, Purpose::Turn).await?;
    let allowed: Option<bool> = session
        .client
        .query_typed_one(
            "SELECT has_function_privilege($1::oid, $2::text, 'EXECUTE')",
            &[(&activity.home.role, Type::OID), (&function, Type::TEXT)],
        )
        .await?
        .get(0);
    shared.sessions.give_back(session);
    if allowed != Some(true) {
        return Ok(Err(refused(format!(
            "role {} does not have EXECUTE privilege on {name}(): ask for df.grant_usage(role, include_http => true)",
            activity.home.role_name
        ))));
    }
    let policy = shared.http.lock().clone();
    Ok(http::perform(request, &policy).await)
}
