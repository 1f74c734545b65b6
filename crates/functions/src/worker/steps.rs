//! Runs the SQL of steps on a session: through the role's executor, with results typed by the server's own description
//! of the statement.

use std::time::Duration;

use duramen_measure::clock;
use tokio_postgres::{
    types::{ToSql, Type},
    Client, Row,
};

use super::session::Session;
use crate::interpret::Failure;
use crate::json::Json;
use crate::result::{self, Column, ResultError};

/// How long a call of the executor goes on beginning steps.
const CALL_BUDGET_MS: f64 = 5.0;
/// How long a turn goes on calling the executor for one round of steps.
const ROUND_BUDGET_MS: f64 = 120.0;
/// How long one call of the executor may take in a turn, before its running step is sent to run alone.
const CALL_TIMEOUT: &str = "SET LOCAL statement_timeout = 50";
/// How long an answer is waited for after which a step is taken for one that swallows its cancellation.
const CALL_PATIENCE: Duration = Duration::from_secs(2);
/// The largest result of a step, in bytes of JSON.
pub(crate) const RESULT_BYTES_MAX: i64 = 16 << 20;

/// What became of one step.
pub(crate) enum StepOutcome {
    /// It has an effect, or a failure, that is the instance's.
    Settled(Result<Json, Failure>),
    /// It has had no effect and must run alone: it is slow, waits for a lock, or leaves something in its session.
    Alone,
    /// It was not begun: there was no time left.
    NotBegun,
}

/// Why nothing of a call can be used. The transaction is to be rolled back.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExecutorError {
    #[error("{}", crate::connect::with_sources(.0))]
    Server(#[from] tokio_postgres::Error),
    /// A step would not stop: its session was ended.
    #[error("a step took no notice of its time limit, and its session was ended")]
    Stuck,
    /// What a step returned cannot be kept.
    #[error("{0}")]
    Result(#[from] ResultError),
}

/// Runs the steps of a round in the transaction of a turn that is open on the session. The outcomes are in the order of
/// the texts. After [`ExecutorError::Stuck`] the session must be ended.
pub(crate) async fn run(session: &Session, texts: &[&str]) -> Result<Vec<StepOutcome>, ExecutorError> {
    let began = clock::now();
    let mut outcomes = Vec::with_capacity(texts.len());
    while outcomes.len() < texts.len() && clock::ms(began.elapsed()) < ROUND_BUDGET_MS {
        let rest = &texts[outcomes.len()..];
        let some = tokio::time::timeout(CALL_PATIENCE, call(session, rest, Some(CALL_BUDGET_MS)))
            .await
            .map_err(|_| ExecutorError::Stuck)??;
        outcomes.extend(some);
    }
    outcomes.resize_with(texts.len(), || StepOutcome::NotBegun);
    Ok(outcomes)
}

/// Runs one step that may take as long as it likes, in the transaction that is open on the session.
pub(crate) async fn run_alone(
    session: &Session,
    text: &str,
) -> Result<Result<Json, Failure>, ExecutorError> {
    match call(session, &[text], None).await?.pop() {
        Some(StepOutcome::Settled(result)) => Ok(result),
        _ => Ok(Err(Failure { message: "the executor gave no result".to_owned(), sqlstate: None })),
    }
}

/// Calls the executor. It may leave the last texts alone when the budget is spent.
async fn call(
    session: &Session,
    texts: &[&str],
    budget_ms: Option<f64>,
) -> Result<Vec<StepOutcome>, ExecutorError> {
    let client = &session.client;
    let alone = budget_ms.is_none();
    let sql = format!(
        "SELECT outcome::text, result, row_count, code, message, shape FROM df_run.r{}($1, $2, $3, $4, $5)",
        session.role
    );
    let settings: &Vec<String> = &session.settings;
    let budget = budget_ms.unwrap_or(f64::INFINITY);
    let parameters: [(&(dyn ToSql + Sync), Type); 5] = [
        (&texts, Type::TEXT_ARRAY),
        (settings, Type::TEXT_ARRAY),
        (&budget, Type::FLOAT8),
        (&RESULT_BYTES_MAX, Type::INT8),
        (&alone, Type::BOOL),
    ];
    let call = client.query_typed(&sql, &parameters);
    // The timer runs from here to the end of the call, whatever a step sets.
    let limit = match (&session.statement_timeout, alone) {
        (_, false) => Some(CALL_TIMEOUT.to_owned()),
        (Some(of_role), true) => Some(format!("SET LOCAL statement_timeout = '{}'", of_role.replace('\'', "''"))),
        (None, true) => None,
    };
    let rows = match limit {
        None => call.await?,
        Some(limit) => {
            let (limited, rows) = tokio::join!(biased; client.batch_execute(&limit), call);
            limited?;
            let rows = rows?;
            if alone {
                client.batch_execute("SET LOCAL statement_timeout = 0").await?;
            }
            rows
        }
    };
    let shapes = rows.iter().filter_map(|row| row.get::<_, Option<i32>>(5)).max().unwrap_or(0);
    let columns = describe(client, usize::try_from(shapes).unwrap_or(0)).await?;
    rows.iter()
        .map(|row| {
            let shape = row.get::<_, Option<i32>>(5).and_then(|shape| usize::try_from(shape - 1).ok());
            outcome(row, shape.and_then(|shape| columns.get(shape)))
        })
        .collect()
}

/// What a row of the executor means.
fn outcome(row: &Row, columns: Option<&Vec<Column>>) -> Result<StepOutcome, ExecutorError> {
    let count = u64::try_from(row.get::<_, i64>(2)).unwrap_or(0);
    Ok(StepOutcome::Settled(match (row.get::<_, &str>(0), row.get::<_, Option<&str>>(1)) {
        ("c", None) => Ok(result::affected(count)),
        ("c", Some(rows)) => {
            Ok(result::typed_rows(rows, columns.map_or(&[][..], Vec::as_slice), count)?)
        }
        ("f", _) => Err(Failure {
            message: row.get::<_, Option<String>>(4).unwrap_or_default(),
            sqlstate: row.get(3),
        }),
        _ => return Ok(StepOutcome::Alone),
    }))
}

/// Asks the server for the columns of the statements that the executor has prepared, `duramen_1` to `duramen_<many>`, in
/// one round trip. It has parsed them behind the wall already; here they are only named. One that cannot be described
/// has no columns, and its values stay as the server wrote them.
async fn describe(client: &Client, many: usize) -> Result<Vec<Vec<Column>>, ExecutorError> {
    if many == 0 {
        return Ok(Vec::new());
    }
    let texts: Vec<String> = (1..=many).map(|number| format!("EXECUTE duramen_{number}")).collect();
    if let Some(all) = describe_together(client, &texts).await? {
        return Ok(all);
    }
    let mut columns = Vec::with_capacity(many);
    for text in &texts {
        let one = describe_together(client, std::slice::from_ref(text)).await?;
        columns.push(one.and_then(|mut one| one.pop()).unwrap_or_default());
    }
    Ok(columns)
}

/// `None`: at least one could not be described, and the transaction is as it was before.
async fn describe_together(
    client: &Client,
    texts: &[String],
) -> Result<Option<Vec<Vec<Column>>>, ExecutorError> {
    let enter = client.batch_execute("SAVEPOINT describe");
    let statements = futures_util::future::join_all(texts.iter().map(|text| client.prepare(text)));
    let leave = client.batch_execute("RELEASE SAVEPOINT describe");
    // The three are written one after the other and answered together.
    let (entered, statements, left) = tokio::join!(biased; enter, statements, leave);
    entered?;
    if left.is_err() || statements.iter().any(Result::is_err) {
        client.batch_execute("ROLLBACK TO SAVEPOINT describe; RELEASE SAVEPOINT describe").await?;
        return Ok(None);
    }
    let columns = |statement: tokio_postgres::Statement| {
        statement.columns().iter().map(|column| Column::new(column.name(), column.type_())).collect()
    };
    Ok(Some(statements.into_iter().filter_map(Result::ok).map(columns).collect()))
}

/// A name as SQL writes it.
pub(crate) fn quote_identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
