//! Steps outside of turns: slow SQL, SQL in another database, statements that refuse transactions, HTTP.
//!
//! An activity is taken by a worker under its epoch, and what it leads to is committed only if it is still this
//! worker's at the end. A SQL step here has its effect and its record in one transaction, as in a turn.

use std::sync::{atomic::Ordering, Arc};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore};
use tokio_postgres::{
    error::SqlState,
    types::{ToSql, Type},
    Client, Row,
};

use duramen_measure::clock;

use tracing::Instrument;

use super::control::drains;
use super::executors;
use super::instance::{Claimed, Instance};
use super::session::{Place, Purpose};
use super::shared::{Running, Shared};
use super::steps;
use super::turn::{Payload, Turn, TurnError};
use crate::http;
use crate::interpret::{Cell, Failure};
use crate::json::Json;

/// After so many lost sessions a step fails: it may be what ends them.
const ATTEMPTS_MAX: i32 = 20;
/// How long to wait after the database was not to be reached.
const RETRY_AFTER: Duration = Duration::from_millis(200);
/// How often a result is offered again when its instance is locked for a moment.
const SETTLE_TRIES: u32 = 50;

/// What `df._take_activities` returns.
struct Activity {
    seq: i64,
    cell: String,
    number: i64,
    attempt: i32,
    kind: String,
    payload: Payload,
    /// The submitter, in the database that has the schema.
    home: Place,
    /// The database that the step runs in.
    database: String,
}

impl Activity {
    fn read(row: &Row, main: &str) -> Option<Self> {
        let database: Option<String> = row.get("database");
        Some(Self {
            seq: row.get("seq"),
            cell: row.get("cell"),
            number: row.get("number"),
            attempt: row.get("attempt"),
            kind: row.get("kind"),
            payload: serde_json::from_str(row.get("payload")).ok()?,
            home: Place {
                role: row.get("submitted_by"),
                role_name: row.get("role_name"),
                database: main.to_owned(),
            },
            database: database.unwrap_or_else(|| main.to_owned()),
        })
    }
}

/// Takes activities and runs up to `limit` of them at once, until the worker drains.
pub(crate) async fn dispatch(shared: Arc<Shared>, limit: usize) {
    let slots = Arc::new(Semaphore::new(limit));
    let mut draining = shared.draining.subscribe();
    let mut client: Option<Client> = None;
    loop {
        tokio::select! {
            () = shared.activities.notified() => {}
            () = drains(&mut draining) => return,
        }
        while slots.available_permits() > 0 && !shared.is_draining() {
            let taken = take(&shared, &mut client, slots.available_permits()).await;
            let Ok(taken) = taken else {
                client = None;
                tokio::time::sleep(RETRY_AFTER).await;
                continue;
            };
            if taken.is_empty() {
                break;
            }
            for activity in taken {
                let (shared, slots) = (Arc::clone(&shared), Arc::clone(&slots));
                shared.metrics.running_activities.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(async move {
                    // As many were taken as there were permits.
                    let permit = slots.acquire().await;
                    let span = tracing::debug_span!("activity", instance = super::id(activity.seq), kind = activity.kind);
                    run(&shared, activity).instrument(span).await;
                    drop(permit);
                    shared.metrics.running_activities.fetch_sub(1, Ordering::Relaxed);
                    super::metrics::add(&shared.metrics.activities_total, 1);
                    shared.activities.notify_one();
                });
            }
            // The tasks have the permits once they run.
            tokio::task::yield_now().await;
        }
    }
}

async fn take(shared: &Shared, client: &mut Option<Client>, many: usize) -> Result<Vec<Activity>, TurnError> {
    if client.as_ref().is_none_or(Client::is_closed) {
        *client = Some(shared.target.connect().await?);
    }
    let Some(client) = client else { return Ok(Vec::new()) };
    let epoch = shared.epoch.lock().clone();
    let many = i32::try_from(many).unwrap_or(i32::MAX);
    let rows = client
        .query_typed(
            "SELECT * FROM df._take_activities($1::text::uuid, $2)",
            &[(&epoch, Type::TEXT), (&many, Type::INT4)],
        )
        .await?;
    let main = shared.target.database_name();
    Ok(rows.iter().filter_map(|row| Activity::read(row, main)).collect())
}

async fn run(shared: &Arc<Shared>, activity: Activity) {
    let epoch = shared.epoch.lock().clone();
    let stop = Arc::new(Notify::new());
    shared.started(activity.seq, &activity.cell, Running { cancel: None, stop: Arc::clone(&stop) });
    let result = tokio::select! {
        result = perform(shared, &activity, &epoch, &stop) => result,
        () = stop.notified() => Ok(()),
    };
    shared.ended(activity.seq, &activity.cell);
    if let Err(error) = result {
        tracing::warn!(instance = super::id(activity.seq), cell = activity.cell, %error, "a step is tried again");
        tokio::time::sleep(RETRY_AFTER).await;
        release(shared, &activity, &epoch).await;
    }
    shared.clear_suspect(activity.seq);
    shared.turns.notify_one();
}

/// Lets anybody have the activity. If that fails, it stays ours until we are buried or give everything back.
async fn release(shared: &Shared, activity: &Activity, epoch: &str) {
    let released = async {
        let session = shared.sessions.get(&activity.home, Purpose::Turn).await?;
        session
            .client
            .execute_typed(
                "UPDATE df._activity SET owner = NULL WHERE seq = $1 AND cell = $2 AND owner = $3::text::uuid",
                &[(&activity.seq, Type::INT8), (&activity.cell, Type::TEXT), (&epoch, Type::TEXT)],
            )
            .await?;
        shared.sessions.give_back(session);
        Ok::<(), TurnError>(())
    };
    if let Err(error) = released.await {
        tracing::warn!(%error, "a step cannot be given back");
    }
}

async fn perform(
    shared: &Arc<Shared>,
    activity: &Activity,
    epoch: &str,
    stop: &Arc<Notify>,
) -> Result<(), TurnError> {
    if activity.attempt > ATTEMPTS_MAX {
        let message = format!("the session of this step was lost {ATTEMPTS_MAX} times while it ran");
        return settle(shared, activity, epoch, Err(Failure { message, sqlstate: None })).await;
    }
    match (&activity.payload, activity.kind.as_str()) {
        (Payload::Http { http }, _) => {
            let result = call(shared, activity, http).await?;
            settle(shared, activity, epoch, result).await
        }
        (Payload::Sql { sql }, "bare") => {
            let result = bare(shared, activity, sql, stop).await?;
            settle(shared, activity, epoch, result).await
        }
        (Payload::Sql { sql }, _) if activity.database == activity.home.database => {
            here(shared, activity, epoch, sql, stop).await
        }
        (Payload::Sql { sql }, _) => elsewhere(shared, activity, epoch, sql, stop).await,
    }
}

/// A SQL step in the database that has the schema: its effect and its record are one transaction.
async fn here(
    shared: &Arc<Shared>,
    activity: &Activity,
    epoch: &str,
    sql: &str,
    stop: &Arc<Notify>,
) -> Result<(), TurnError> {
    if !executors::ensure(shared, &activity.home).await? {
        return settle(shared, activity, epoch, Err(executors::no_role(&activity.home))).await;
    }
    let session = shared.sessions.get(&activity.home, Purpose::Alone).await?;
    let running = Running { cancel: Some(session.cancel_token()), stop: Arc::clone(stop) };
    shared.started(activity.seq, &activity.cell, running);
    let client = &session.client;
    client.batch_execute("BEGIN").await?;
    let began = clock::now();
    let ran = steps::run_alone(client, activity.home.role, &activity.home.role_name, sql).await;
    shared.remember(sql, began.elapsed());
    let result = match ran {
        Ok(result) => result,
        Err(error) => {
            let Some(failure) = failure_of(&error.0) else { return Err(error.into()) };
            let _ = client.batch_execute("ROLLBACK").await;
            return settle(shared, activity, epoch, Err(failure)).await;
        }
    };
    match end(shared, client, activity, epoch, result).await {
        Ok(()) => {}
        Err(TurnError::Server(error) | TurnError::Steps(error)) => {
            // If the server says why, it is the step that cannot be committed.
            let Some(failure) = failure_of(&error) else { return Err(error.into()) };
            let _ = client.batch_execute("ROLLBACK").await;
            return settle(shared, activity, epoch, Err(failure)).await;
        }
        Err(error) => return Err(error),
    }
    let left_something: bool =
        client.query_typed_one("SELECT pg_my_temp_schema() <> 0", &[]).await?.get(0);
    if !left_something {
        shared.sessions.give_back(session);
    }
    Ok(())
}

/// A refusal of the server that is the step's own failure; `None`: the session is gone, and the step may be tried
/// again.
fn failure_of(error: &tokio_postgres::Error) -> Option<Failure> {
    let of_server = error.as_db_error()?;
    let class = of_server.code().code().get(..2).unwrap_or_default();
    let session_lost = matches!(class, "08" | "58")
        || [SqlState::ADMIN_SHUTDOWN, SqlState::CRASH_SHUTDOWN, SqlState::CANNOT_CONNECT_NOW, SqlState::DATABASE_DROPPED]
            .contains(of_server.code())
        || of_server.code().code() == "57P05"
        || of_server.code().code() == "25P03";
    (!session_lost).then(|| Failure {
        message: of_server.message().to_owned(),
        sqlstate: Some(of_server.code().code().to_owned()),
    })
}

/// Records the end of an activity in the transaction that is open on `client`, and commits; if the activity is not
/// ours any more, rolls everything back.
async fn end(
    shared: &Shared,
    client: &Client,
    activity: &Activity,
    epoch: &str,
    result: Result<Json, Failure>,
) -> Result<(), TurnError> {
    let row = client
        .query_typed_opt(
            "SELECT * FROM df._end_activity($1::text::uuid, $2, $3)",
            &[(&epoch, Type::TEXT), (&activity.seq, Type::INT8), (&activity.cell, Type::TEXT)],
        )
        .await?;
    let Some(row) = row else {
        client.batch_execute("ROLLBACK").await?;
        super::metrics::add(&shared.metrics.fenced_total, 1);
        return Ok(());
    };
    let now = row.get("at");
    let mut instance = Instance::read(&Claimed { seq: activity.seq, fresh: false, row: &row });
    if let Some(cell) = Cell::parse(&activity.cell) {
        instance.complete(now, &cell, result);
    }
    instance.end_or_pass_on(now);
    let report = Turn::new(shared, client, &activity.home, now).finish(vec![instance]).await?;
    shared.note(&report);
    Ok(())
}

/// Records the end of an activity that left nothing in a transaction.
async fn settle(
    shared: &Shared,
    activity: &Activity,
    epoch: &str,
    result: Result<Json, Failure>,
) -> Result<(), TurnError> {
    for _ in 1..SETTLE_TRIES {
        let session = shared.sessions.get(&activity.home, Purpose::Turn).await?;
        session.client.batch_execute("BEGIN").await?;
        match end(shared, &session.client, activity, epoch, result.clone()).await {
            Ok(()) => {
                shared.sessions.give_back(session);
                return Ok(());
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
    end(shared, &session.client, activity, epoch, result).await?;
    shared.sessions.give_back(session);
    Ok(())
}

/// A SQL step in another database: its effect and a mark with its result are one transaction there; the record here
/// follows. Whoever tries it again finds the mark.
async fn elsewhere(
    shared: &Arc<Shared>,
    activity: &Activity,
    epoch: &str,
    sql: &str,
    stop: &Arc<Notify>,
) -> Result<(), TurnError> {
    let place = Place { database: activity.database.clone(), ..activity.home.clone() };
    let installation = match executors::ensure_elsewhere(shared, &place).await {
        Ok(installation) => installation,
        Err(TurnError::Server(error) | TurnError::Steps(error)) => {
            let Some(failure) = failure_of(&error) else { return Err(error.into()) };
            return settle(shared, activity, epoch, Err(failure)).await;
        }
        Err(error) => return Err(error),
    };
    let session = shared.sessions.get(&place, Purpose::Alone).await?;
    let running = Running { cancel: Some(session.cancel_token()), stop: Arc::clone(stop) };
    shared.started(activity.seq, &activity.cell, running);
    let client = &session.client;
    client.batch_execute("BEGIN").await?;
    let key: [(&(dyn ToSql + Sync), Type); 2] =
        [(&installation, Type::TEXT), (&activity.number, Type::INT8)];
    let mark = client
        .query_typed_opt(
            "SELECT outcome::text FROM df_run.marker WHERE installation = $1::text::uuid AND activity = $2",
            &key,
        )
        .await?;
    let result = if let Some(mark) = mark {
        client.batch_execute("ROLLBACK").await?;
        serde_json::from_str::<Mark>(mark.get(0)).map_or_else(
            |error| Err(Failure { message: format!("the mark of this step cannot be read: {error}"), sqlstate: None }),
            Mark::into_result,
        )
    } else {
        match steps::run_alone(client, place.role, &place.role_name, sql).await {
            Ok(Ok(value)) => {
                let mark = serde_json::to_string(&Mark { result: value.clone() }).unwrap_or_default();
                let parameters: [(&(dyn ToSql + Sync), Type); 3] =
                    [(&installation, Type::TEXT), (&activity.number, Type::INT8), (&mark, Type::TEXT)];
                let marked = client.query_typed(
                    "INSERT INTO df_run.marker (installation, activity, outcome)
                     VALUES ($1::text::uuid, $2, $3::text::json)",
                    &parameters,
                );
                let (marked, committed) = tokio::join!(biased; marked, client.batch_execute("COMMIT"));
                match marked.map(drop).and(committed) {
                    Ok(()) => Ok(value),
                    Err(error) => Err(failure_of(&error).ok_or(error)?),
                }
            }
            Ok(Err(failure)) => Err(failure),
            Err(error) => Err(failure_of(&error.0).ok_or(error.0)?),
        }
    };
    if result.is_err() {
        // What a failed statement left open; what it had done is undone.
        let _ = client.batch_execute("ROLLBACK").await;
    }
    settle(shared, activity, epoch, result).await?;
    // The mark has served. If this fails, it stays: it is small.
    let _ = client
        .execute_typed("DELETE FROM df_run.marker WHERE installation = $1::text::uuid AND activity = $2", &key)
        .await;
    Ok(())
}

/// The result of a step that ran in another database.
#[derive(serde::Serialize, serde::Deserialize)]
struct Mark {
    result: Json,
}

impl Mark {
    fn into_result(self) -> Result<Json, Failure> {
        Ok(self.result)
    }
}

/// A statement that refuses transactions: at least once, under the submitter's role, in a session of its own. Being
/// one statement of a known kind, it cannot change the role.
async fn bare(
    shared: &Arc<Shared>,
    activity: &Activity,
    sql: &str,
    stop: &Arc<Notify>,
) -> Result<Result<Json, Failure>, TurnError> {
    let target = shared.target.clone().database(&activity.database);
    let client = target.settings([("df.in_workflow", "true")]).connect().await?;
    let running = Running { cancel: Some(client.cancel_token()), stop: Arc::clone(stop) };
    shared.started(activity.seq, &activity.cell, running);
    let enter = format!("SET ROLE {}", steps::quote_identifier(&activity.home.role_name));
    let outcome = match client.batch_execute(&enter).await {
        Ok(()) => client.execute_typed(sql, &[]).await,
        Err(error) => Err(error),
    };
    match outcome {
        Ok(rows) => Ok(Ok(crate::result::affected(rows))),
        Err(error) => match failure_of(&error) {
            Some(failure) => Ok(Err(failure)),
            None => Err(error.into()),
        },
    }
}

/// An HTTP call, if the submitter may still make it.
async fn call(
    shared: &Arc<Shared>,
    activity: &Activity,
    request: &http::HttpCall,
) -> Result<Result<Json, Failure>, TurnError> {
    let function = if request.parts.is_some() {
        "df.http_multipart(text,text,jsonb,jsonb,int)"
    } else {
        "df.http(text,text,text,jsonb,int)"
    };
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
        let name = function.split('(').next().unwrap_or_default();
        let message = format!(
            "role {} does not have EXECUTE privilege on {name}(): ask for df.grant_usage(role, include_http => true)",
            activity.home.role_name
        );
        return Ok(Err(Failure { message, sqlstate: Some("42501".to_owned()) }));
    }
    let policy = shared.http.lock().clone();
    Ok(http::perform(request, &policy).await)
}
