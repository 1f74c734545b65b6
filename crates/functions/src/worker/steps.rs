//! Runs the SQL of steps on a session: through the role's executor, with results typed by the server's own description
//! of the statement.

use std::collections::HashMap;

use duramen_measure::clock;
use tokio_postgres::{
    types::{ToSql, Type},
    Client, Row,
};

use crate::interpret::Failure;
use crate::json::Json;
use crate::result::{self, Column};

/// How long a call of the executor goes on beginning steps.
const CALL_BUDGET_MS: f64 = 5.0;
/// How long a turn goes on calling the executor for one round of steps.
const ROUND_BUDGET_MS: f64 = 40.0;
/// How long one call of the executor may take in a turn, before its running step is sent to run alone.
const CALL_TIMEOUT: &str = "SET LOCAL statement_timeout = 50";
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

/// Why nothing of a call can be used.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(crate) struct ExecutorError(#[from] pub(crate) tokio_postgres::Error);

/// Runs the steps of a round in the transaction of a turn that is open on `client`. The outcomes are in the order of the
/// texts.
pub(crate) async fn run(
    client: &Client,
    role: u32,
    role_name: &str,
    texts: &[&str],
) -> Result<Vec<StepOutcome>, ExecutorError> {
    let began = clock::now();
    let mut outcomes = Vec::with_capacity(texts.len());
    while outcomes.len() < texts.len() && clock::ms(began.elapsed()) < ROUND_BUDGET_MS {
        let some = call(client, role, role_name, &texts[outcomes.len()..], Some(CALL_BUDGET_MS)).await?;
        let slow = some.iter().any(|outcome| matches!(outcome, StepOutcome::Alone));
        outcomes.extend(some);
        if slow {
            break;
        }
    }
    outcomes.resize_with(texts.len(), || StepOutcome::NotBegun);
    Ok(outcomes)
}

/// Runs one step that may take as long as it likes, in the transaction that is open on `client`.
pub(crate) async fn run_alone(
    client: &Client,
    role: u32,
    role_name: &str,
    text: &str,
) -> Result<Result<Json, Failure>, ExecutorError> {
    match call(client, role, role_name, &[text], None).await?.pop() {
        Some(StepOutcome::Settled(result)) => Ok(result),
        _ => Ok(Err(Failure { message: "the executor gave no result".to_owned(), sqlstate: None })),
    }
}

/// Calls the executor. It may leave the last texts alone when the budget is spent.
async fn call(
    client: &Client,
    role: u32,
    role_name: &str,
    texts: &[&str],
    budget_ms: Option<f64>,
) -> Result<Vec<StepOutcome>, ExecutorError> {
    let alone = budget_ms.is_none();
    let sql = format!("SELECT outcome::text, result, row_count, code, message FROM df_run.r{role}($1, $2, $3, $4)");
    let budget = budget_ms.unwrap_or(f64::INFINITY);
    let parameters: [(&(dyn ToSql + Sync), Type); 4] = [
        (&texts, Type::TEXT_ARRAY),
        (&budget, Type::FLOAT8),
        (&RESULT_BYTES_MAX, Type::INT8),
        (&alone, Type::BOOL),
    ];
    let call = client.query_typed(&sql, &parameters);
    let rows = if alone {
        call.await?
    } else {
        // The timer runs from here to the end of the call, whatever a step sets.
        let (limited, rows) = tokio::join!(biased; client.batch_execute(CALL_TIMEOUT), call);
        limited?;
        rows?
    };
    let described: Vec<&str> = rows
        .iter()
        .zip(texts)
        .filter(|(row, _)| row.get::<_, Option<&str>>(1).is_some_and(|rows| rows != "[]"))
        .map(|(_, text)| *text)
        .collect();
    let columns = describe(client, role_name, &described).await?;
    Ok(rows.iter().zip(texts).map(|(row, text)| outcome(row, columns.get(*text))).collect())
}

/// What a row of the executor means.
fn outcome(row: &Row, columns: Option<&Vec<Column>>) -> StepOutcome {
    let count = u64::try_from(row.get::<_, i64>(2)).unwrap_or(0);
    StepOutcome::Settled(match (row.get::<_, &str>(0), row.get::<_, Option<&str>>(1)) {
        ("c", None) => Ok(result::affected(count)),
        ("c", Some(rows)) => result::typed_rows(rows, columns.map_or(&[][..], Vec::as_slice), count)
            .map_err(|error| Failure { message: error.to_string(), sqlstate: None }),
        ("f", _) => Err(Failure {
            message: row.get::<_, Option<String>>(4).unwrap_or_default(),
            sqlstate: row.get(3),
        }),
        _ => return StepOutcome::Alone,
    })
}

/// Asks the server for the columns of statements that have just run, under the role that ran them: parsing looks up
/// names, and runs nothing.
async fn describe(
    client: &Client,
    role_name: &str,
    texts: &[&str],
) -> Result<HashMap<String, Vec<Column>>, ExecutorError> {
    let mut distinct: Vec<&str> = texts.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    if distinct.is_empty() {
        return Ok(HashMap::new());
    }
    if let Some(all) = describe_together(client, role_name, &distinct).await? {
        return Ok(all);
    }
    // One of them cannot be described any more: it dropped what it read. Its numbers stay as the server wrote them.
    let mut columns = HashMap::new();
    for text in distinct {
        columns.extend(describe_together(client, role_name, &[text]).await?.unwrap_or_default());
    }
    Ok(columns)
}

/// One round trip for all; `None`: at least one could not be described, and the transaction is as it was before.
async fn describe_together(
    client: &Client,
    role_name: &str,
    texts: &[&str],
) -> Result<Option<HashMap<String, Vec<Column>>>, ExecutorError> {
    let enter = format!("SAVEPOINT describe; SET LOCAL ROLE {}", quote_identifier(role_name));
    let enter = client.batch_execute(&enter);
    let statements = futures_util::future::join_all(texts.iter().map(|text| client.prepare(text)));
    let leave = client.batch_execute("RESET ROLE; RELEASE SAVEPOINT describe");
    // The three are written one after the other and answered together.
    let (entered, statements, left) = tokio::join!(biased; enter, statements, leave);
    entered?;
    if left.is_err() || statements.iter().any(Result::is_err) {
        client.batch_execute("ROLLBACK TO SAVEPOINT describe; RELEASE SAVEPOINT describe").await?;
        return Ok(None);
    }
    let columns = texts.iter().zip(statements).filter_map(|(text, statement)| {
        let statement = statement.ok()?;
        let columns =
            statement.columns().iter().map(|column| Column::new(column.name(), column.type_())).collect();
        Some(((*text).to_owned(), columns))
    });
    Ok(Some(columns.collect()))
}

/// A name as SQL writes it.
pub(crate) fn quote_identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
