//! Steps in another database of the server.
//!
//! How a step ended is marked there, in the transaction of the step; the record here follows. What marks are for, and when
//! they go, is in the design page, from F-12 on.

use std::sync::Arc;

use tokio_postgres::types::{ToSql, Type};

use super::activity::{alone, failure_of, record, refused, Activity, Outcome, Ran};
use super::executors;
use super::metrics::add;
use super::session::Purpose;
use super::shared::{Running, Shared};
use super::turn::{TurnError, COMMIT};
use crate::interpret::Failure;
use crate::json::Json;

/// A SQL text and its parameters.
type Statement<'a> = (&'a str, &'a [(&'a (dyn ToSql + Sync), Type)]);

/// Inserts a mark, which waits for whoever inserts the same one, and gives way to it.
const MARK: &str = "INSERT INTO df_run.marker (installation, activity, attempt, failure)
    VALUES ($1::text::uuid, $2, $3, $4::text::json) ON CONFLICT DO NOTHING";

/// A failure, as a mark has it.
#[derive(serde::Serialize, serde::Deserialize)]
struct Failed {
    message: String,
    sqlstate: Option<String>,
}

/// What a mark says.
enum Mark {
    /// There was none: now there is, of this attempt.
    Ours,
    /// An attempt has come to this end.
    Ended(Outcome),
    /// The end is recorded where the instance is: this attempt was given up.
    Recorded,
}

/// Runs the step, or finds how it has ended, and records it.
pub(super) async fn run(
    shared: &Arc<Shared>,
    activity: &Activity,
    sql: &str,
    state: &Running,
) -> Result<(), TurnError> {
    let installation = match executors::ensure_elsewhere(shared, &activity.place()).await {
        Ok(installation) => installation,
        Err(TurnError::Elsewhere(message)) => return fail(shared, activity, state, refused(message)).await,
        Err(TurnError::Server(error)) => {
            let failure = failure_of(&error).ok_or(error)?;
            return fail(shared, activity, state, failure).await;
        }
        Err(error) => return Err(error),
    };
    let session = shared.sessions.get(&activity.place(), Purpose::Alone).await?;
    let client = &session.client;
    client.batch_execute("BEGIN").await?;
    let result = match mark(client, activity, &installation, None).await? {
        Mark::Recorded => {
            add(&shared.metrics.fenced_total, 1);
            return Ok(());
        }
        Mark::Ended(result) => result,
        Mark::Ours => match alone(shared, &session, sql, state).await? {
            Ran::Ended(Ok(value)) => {
                let text = value.text();
                let parameters: [(&(dyn ToSql + Sync), Type); 3] =
                    [(&installation, Type::TEXT), (&activity.number, Type::INT8), (&text, Type::TEXT)];
                let written = client.execute_typed(
                    "UPDATE df_run.marker SET outcome = $3::text::json
                     WHERE installation = $1::text::uuid AND activity = $2",
                    &parameters,
                );
                let (written, committed) = tokio::join!(biased; written, client.batch_execute(COMMIT));
                match written.map(drop).and(committed) {
                    Ok(()) => Ok(value),
                    Err(error) => Err(failure_of(&error).ok_or(error)?),
                }
            }
            Ran::Ended(Err(failure)) | Ran::Aborted(failure) => Err(failure),
        },
    };
    // Who records may need a session, too. What a failed step left open goes with this one.
    drop(session);
    match result {
        Ok(value) => record_and_unmark(shared, activity, state, Ok(value), &installation).await,
        Err(failure) => fail(shared, activity, state, failure).await,
    }
}

/// Ends the step as failed, unless an earlier attempt has ended it otherwise.
pub(super) async fn fail(
    shared: &Arc<Shared>,
    activity: &Activity,
    state: &Running,
    failure: Failure,
) -> Result<(), TurnError> {
    if activity.attempt == 1 {
        // No earlier attempt: what ran has had no effect, and whoever comes later finds the record.
        return record(shared, activity, state, Err(failure)).await.map(drop);
    }
    let Some(installation) = executors::standing_elsewhere(shared, &activity.database).await? else {
        // Nobody can have run anything there, nor will.
        return record(shared, activity, state, Err(failure)).await.map(drop);
    };
    // An earlier attempt may yet begin, and must not have its effect once this failure is recorded.
    let client = shared.guarded().database(&activity.database).connect().await?;
    let result = match mark(&client, activity, &installation, Some(&failure)).await? {
        Mark::Recorded => {
            add(&shared.metrics.fenced_total, 1);
            return Ok(());
        }
        Mark::Ended(result) => result,
        Mark::Ours => Err(failure),
    };
    drop(client);
    record_and_unmark(shared, activity, state, result, &installation).await
}

/// Records how the step has ended, and clears its mark away.
async fn record_and_unmark(
    shared: &Arc<Shared>,
    activity: &Activity,
    state: &Running,
    result: Outcome,
    installation: &str,
) -> Result<(), TurnError> {
    if !record(shared, activity, state, result).await? {
        return Ok(());
    }
    let key: [(&(dyn ToSql + Sync), Type); 2] = [(&installation, Type::TEXT), (&activity.number, Type::INT8)];
    let (clear, key): Statement<'_> = if activity.attempt == 1 {
        // It was the only one there will ever be: nobody can come and look for the mark.
        ("DELETE FROM df_run.marker WHERE installation = $1::text::uuid AND activity = $2", &key)
    } else {
        (
            "UPDATE df_run.marker SET outcome = NULL, failure = NULL
             WHERE installation = $1::text::uuid AND activity = $2",
            &key,
        )
    };
    let cleared = async {
        let client = shared.guarded().database(&activity.database).connect().await?;
        client.execute_typed(clear, key).await?;
        Ok::<(), TurnError>(())
    };
    // The end is recorded, so this is not a failure of the step: a mark that stays is right, too, and only takes its place.
    if let Err(error) = cleared.await {
        tracing::warn!(%error, database = activity.database, "the mark of a step stays where the step ran");
    }
    Ok(())
}

/// Marks that this attempt ends the step, or finds that another one has.
async fn mark(
    client: &tokio_postgres::Client,
    activity: &Activity,
    installation: &str,
    failure: Option<&Failure>,
) -> Result<Mark, TurnError> {
    let failed = failure
        .map(|Failure { message, sqlstate }| Failed { message: message.clone(), sqlstate: sqlstate.clone() });
    let failure = failed.as_ref().map(serde_json::to_string).transpose().map_err(|error| {
        TurnError::Elsewhere(format!("the failure of the step cannot be written down: {error}"))
    })?;
    let parameters: [(&(dyn ToSql + Sync), Type); 4] = [
        (&installation, Type::TEXT),
        (&activity.number, Type::INT8),
        (&activity.attempt, Type::INT4),
        (&failure, Type::TEXT),
    ];
    if client.execute_typed(MARK, &parameters).await? > 0 {
        return Ok(Mark::Ours);
    }
    let found = client
        .query_typed_opt(
            "SELECT outcome::text, failure::text FROM df_run.marker
             WHERE installation = $1::text::uuid AND activity = $2",
            &parameters[..2],
        )
        .await?;
    let Some(found) = found else {
        // It went between the two statements: only a mark whose end is recorded does.
        return Ok(Mark::Recorded);
    };
    Ok(match (found.get::<_, Option<String>>(0), found.get::<_, Option<&str>>(1)) {
        (Some(outcome), _) => Mark::Ended(Ok(Json::from_valid(outcome))),
        (None, Some(failure)) => {
            let Failed { message, sqlstate } = serde_json::from_str(failure).map_err(|error| {
                let database = &activity.database;
                TurnError::Elsewhere(format!("a mark in database {database} cannot be read: {error}"))
            })?;
            Mark::Ended(Err(Failure { message, sqlstate }))
        }
        (None, None) => Mark::Recorded,
    })
}
