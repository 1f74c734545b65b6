//! Runs the SQL of steps on a session: through the role's executor, with results typed by the server's own description
//! of the statement.

use std::collections::HashSet;
use std::future::Future;
use std::time::Duration;

use duramen_base::clock;
use tokio_postgres::{
    types::{ToSql, Type},
    Client, Row,
};

use super::session::Session;
use super::shared::shape;
use crate::interpret::Failure;
use crate::json::{self, Json};
use crate::result::{self, Column, ColumnKind, ResultError};

/// How long a call of the executor goes on beginning steps.
const CALL_BUDGET_MS: f64 = 5.0;
/// How long a turn goes on calling the executor for one round of steps.
const ROUND_BUDGET_MS: f64 = 500.0;
/// How long one call of the executor may take in a turn, before its running step is sent to run alone.
const CALL_TIMEOUT: &str = "SET LOCAL statement_timeout = 50";
/// How long an answer is waited for after which a step is taken for one that swallows its cancellation.
const CALL_PATIENCE: Duration = Duration::from_secs(2);
/// The largest result of a step, in bytes of JSON.
pub(crate) const RESULT_BYTES_MAX: i64 = 16 << 20;

/// What became of one step.
pub(crate) enum StepOutcome {
    /// It has an effect, or a failure, that is the instance's.
    Ended(Result<Json, Failure>),
    /// It has had no effect and must run alone: it is slow, waits for a lock, or leaves something in its session.
    Alone,
    /// It was not begun: there was no time left.
    NotBegun,
}

/// Why nothing of a call can be used. The transaction is to be rolled back.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExecutorError {
    #[error("{}", duramen_postgres::connection::with_sources(.0))]
    Server(#[from] tokio_postgres::Error),
    /// A step would not stop: its session was ended.
    #[error("a step took no notice of its time limit, and its session was ended")]
    Stuck,
    /// What a step returned cannot be kept.
    #[error("{0}")]
    Result(#[from] ResultError),
}

/// Runs the steps of a round in the transaction of a turn that is open on the session. The outcomes are in the order of
/// the texts. When the results have more than `most_bytes` together, the rest is not begun. After [`ExecutorError::Stuck`]
/// the session must be ended.
pub(crate) async fn run(
    session: &Session,
    texts: &[&str],
    most_bytes: i64,
) -> Result<Vec<StepOutcome>, ExecutorError> {
    let mut bytes = 0;
    let began = clock::now();
    let mut outcomes: Vec<StepOutcome> = texts.iter().map(|_| StepOutcome::NotBegun).collect();
    let mut waiting: Vec<usize> = (0..texts.len()).collect();
    while !waiting.is_empty() && clock::ms(began.elapsed()) < ROUND_BUDGET_MS && bytes < most_bytes {
        let some: Vec<&str> = waiting.iter().map(|index| texts[*index]).collect();
        let some = tokio::time::timeout(CALL_PATIENCE, call(session, &some, Some(CALL_BUDGET_MS), || {}))
            .await
            .map_err(|_| ExecutorError::Stuck)??;
        let mut slow = HashSet::new();
        let rest = waiting.split_off(some.len().min(waiting.len()));
        for (index, outcome) in waiting.into_iter().zip(some) {
            if let StepOutcome::Ended(Ok(result)) = &outcome {
                bytes = bytes.saturating_add(i64::try_from(result.text().len()).unwrap_or(i64::MAX));
            }
            if matches!(outcome, StepOutcome::Alone) {
                slow.insert(shape(session.role, texts[index]));
            }
            outcomes[index] = outcome;
        }
        // What is like one that was too slow is not tried.
        waiting = rest
            .into_iter()
            .filter(|index| {
                let alone = slow.contains(&shape(session.role, texts[*index]));
                if alone {
                    outcomes[*index] = StepOutcome::Alone;
                }
                !alone
            })
            .collect();
    }
    Ok(outcomes)
}

/// Runs one step that may take as long as it likes, in the transaction that is open on the session. `is_over` is called as soon
/// as the step has ended, while the session is still put in order behind it.
pub(crate) async fn run_alone(
    session: &Session,
    text: &str,
    is_over: impl FnOnce(),
) -> Result<Result<Json, Failure>, ExecutorError> {
    match call(session, &[text], None, is_over).await?.pop() {
        Some(StepOutcome::Ended(result)) => Ok(result),
        _ => Ok(Err(Failure { message: "the executor gave no result".to_owned(), sqlstate: None })),
    }
}

/// Calls the executor. It may leave the last texts alone when the budget is spent.
async fn call(
    session: &Session,
    texts: &[&str],
    budget_ms: Option<f64>,
    is_over: impl FnOnce(),
) -> Result<Vec<StepOutcome>, ExecutorError> {
    let client = &session.client;
    let alone = budget_ms.is_none();
    // The session's user must own the executor: the role may have been renamed, and its name given to another one.
    let texts_of = match session.become_submitter {
        Some(_) => "CASE WHEN session_user = pg_get_userbyid($7) THEN $1 END",
        None => "$1",
    };
    let sql = format!(
        "SELECT outcome::text, result, row_count, code, message, shape
         FROM df_run.r{}({texts_of}, $2, $3, $4, $5, $6)",
        session.role
    );
    let settings: &Vec<String> = &session.settings;
    let budget = budget_ms.unwrap_or(f64::INFINITY);
    let rowless: Vec<bool> = texts.iter().map(|text| is_rowless(text)).collect();
    let parameters: [(&(dyn ToSql + Sync), Type); 7] = [
        (&texts, Type::TEXT_ARRAY),
        (&rowless, Type::BOOL_ARRAY),
        (settings, Type::TEXT_ARRAY),
        (&budget, Type::FLOAT8),
        (&RESULT_BYTES_MAX, Type::INT8),
        (&alone, Type::BOOL),
        (&session.role, Type::OID),
    ];
    // The timer runs from here to the end of the call, whatever a step sets.
    let limit = match (&session.statement_timeout, alone) {
        (_, false) => Some(CALL_TIMEOUT.to_owned()),
        (Some(of_role), true) => {
            Some(format!("SET LOCAL statement_timeout = '{}'", of_role.replace('\'', "''")))
        }
        (None, true) => None,
    };
    let limited = async {
        match &limit {
            Some(limit) => client.batch_execute(limit).await,
            None => Ok(()),
        }
    };
    let rows = match &session.become_submitter {
        None => {
            let call = client.query_typed(&sql, &parameters[..6]);
            let (limited, rows) = tokio::join!(biased; limited, then(call, is_over));
            limited?;
            rows?
        }
        Some(assume) => as_submitter(client, limited, assume, &sql, &parameters, is_over).await?,
    };
    if alone && limit.is_some() {
        client.batch_execute("SET LOCAL statement_timeout = 0").await?;
    }
    let mut outcomes = Vec::with_capacity(rows.len());
    session.carried(rows.iter().filter_map(|row| row.get::<_, Option<&str>>(1)).map(str::len).sum());
    for row in &rows {
        let kinds = match row.get::<_, Option<&[u8]>>(5) {
            None => Vec::new(),
            Some(first) => kinds(client, first).await?,
        };
        outcomes.push(outcome(row, kinds)?);
    }
    Ok(outcomes)
}

/// Where the rows of the executor come from. Steps cannot do anything with it while it runs.
const CURSOR: &str = "duramen_step";

/// Calls the executor in a session that is the submitter's. She may not name what is in the schema of the executors, so the
/// call is made ready as a cursor before the session becomes hers, and the cursor is read afterwards. All of it goes to
/// the server at once, and is one round trip.
async fn as_submitter(
    client: &Client,
    limited: impl Future<Output = Result<(), tokio_postgres::Error>>,
    assume: &str,
    call: &str,
    parameters: &[(&(dyn ToSql + Sync), Type)],
    is_over: impl FnOnce(),
) -> Result<Vec<Row>, tokio_postgres::Error> {
    let declare = format!("DECLARE {CURSOR} NO SCROLL CURSOR FOR {call}");
    let fetch = format!("FETCH ALL FROM {CURSOR}");
    // If the call has failed, this is refused, and the transaction is rolled back: that makes the session the worker's, too.
    let resume = format!("SET LOCAL SESSION AUTHORIZATION DEFAULT; CLOSE {CURSOR}");
    let (declared, limited, assumed, rows, resumed) = tokio::join!(
        biased;
        client.execute_typed(&declare, parameters),
        limited,
        client.batch_execute(assume),
        then(client.query_typed(&fetch, &[]), is_over),
        client.batch_execute(&resume),
    );
    declared?;
    limited?;
    assumed?;
    let rows = rows?;
    resumed?;
    Ok(rows)
}

/// Does something as soon as a future is ready, whatever it is joined with.
async fn then<T>(future: impl Future<Output = T>, what: impl FnOnce()) -> T {
    let output = future.await;
    what();
    output
}

/// Whether a text begins like a statement that returns no rows. A guess: it decides on the way, not on the outcome, but
/// for what returns rows all the same, which are then not seen.
fn is_rowless(text: &str) -> bool {
    const VERBS: [&str; 18] = [
        "insert", "update", "delete", "merge", "create", "alter", "drop", "do", "grant", "revoke", "comment",
        "truncate", "analyze", "set", "reset", "lock", "notify", "listen",
    ];
    let start = text.trim_start();
    let verb = &start[..start.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(start.len())];
    let returns = text.as_bytes().windows(9).any(|word| word.eq_ignore_ascii_case(b"returning"));
    VERBS.iter().any(|known| known.eq_ignore_ascii_case(verb)) && !returns
}

/// What a row of the executor means.
fn outcome(row: &Row, kinds: Vec<ColumnKind>) -> Result<StepOutcome, ExecutorError> {
    // The server counts rows from 0.
    let count = u64::try_from(row.get::<_, i64>(2)).unwrap_or(0);
    Ok(StepOutcome::Ended(match (row.get::<_, &str>(0), row.get::<_, Option<&str>>(1)) {
        ("c", None) => Ok(result::affected(count)),
        ("c", Some(rows)) => Ok(result::typed_rows(rows, &columns(rows, kinds)?, count)?),
        ("f", _) => Err(Failure {
            message: row
                .get::<_, Option<String>>(4)
                .unwrap_or_else(|| "the step failed without a message".to_owned()),
            sqlstate: row.get(3),
        }),
        _ => return Ok(StepOutcome::Alone),
    }))
}

/// The columns of a result: kinds from the binary form of the first row, names from its JSON.
fn columns(rows: &str, kinds: Vec<ColumnKind>) -> Result<Vec<Column>, ResultError> {
    // Nothing to fix, and no two columns that could have one name.
    if kinds.len() <= 1 && kinds.iter().all(|kind| *kind == ColumnKind::Plain) {
        return Ok(Vec::new());
    }
    let names = json::first_names(rows).ok_or(ResultError::NotRows)?;
    if names.len() != kinds.len() {
        return Err(ResultError::Columns { found: names.len(), expected: kinds.len() });
    }
    Ok(names.into_iter().zip(kinds).map(|(name, kind)| Column { name, type_oid: 0, kind }).collect())
}

/// The kinds of the columns of a row that `record_send` has written.
async fn kinds(client: &Client, row: &[u8]) -> Result<Vec<ColumnKind>, ExecutorError> {
    let mut kinds = Vec::new();
    for oid in type_oids(row)? {
        kinds.push(kind(client, oid).await?);
    }
    Ok(kinds)
}

/// The types in a row that `record_send` has written: the number of columns, then for each the oid of its type, its length
/// (-1: NULL), and its value. With fewer types than columns a result would be kept as it must not be.
fn type_oids(mut row: &[u8]) -> Result<Vec<u32>, ResultError> {
    fn number(row: &mut &[u8]) -> Option<u32> {
        let (head, rest) = row.split_first_chunk()?;
        *row = rest;
        Some(u32::from_be_bytes(*head))
    }
    fn column(row: &mut &[u8]) -> Option<u32> {
        let oid = number(row)?;
        let length = number(row)?;
        if length != u32::MAX {
            *row = row.get(usize::try_from(length).ok()?..)?;
        }
        Some(oid)
    }
    let columns = number(&mut row).ok_or(ResultError::CutOff { columns: 0 })?;
    let mut oids = Vec::new();
    for _ in 0..columns {
        oids.push(column(&mut row).ok_or(ResultError::CutOff { columns: oids.len() })?);
    }
    Ok(oids)
}

/// The kind of a type. Those that the server was not born with are looked up.
async fn kind(client: &Client, oid: u32) -> Result<ColumnKind, ExecutorError> {
    if let Some(known) = Type::from_oid(oid) {
        return Ok(ColumnKind::from_type(&known));
    }
    let row = client
        .query_typed_opt(
            "SELECT t.typtype::text, t.typbasetype, CASE WHEN t.typcategory = 'A' THEN t.typelem ELSE 0 END,
                array(SELECT a.attname::text FROM pg_attribute a WHERE a.attrelid = t.typrelid AND a.attnum > 0
                      AND NOT a.attisdropped ORDER BY a.attnum),
                array(SELECT a.atttypid FROM pg_attribute a WHERE a.attrelid = t.typrelid AND a.attnum > 0
                      AND NOT a.attisdropped ORDER BY a.attnum)
             FROM pg_type t WHERE t.oid = $1",
            &[(&oid, Type::OID)],
        )
        .await?;
    let Some(row) = row else { return Ok(ColumnKind::Plain) };
    let (base, element): (u32, u32) = (row.get(1), row.get(2));
    if row.get::<_, &str>(0) == "d" {
        return Box::pin(kind(client, base)).await;
    }
    if element != 0 {
        let element = Box::pin(kind(client, element)).await?;
        return Ok(if element == ColumnKind::Plain { element } else { ColumnKind::Array(Box::new(element)) });
    }
    let (names, types): (Vec<String>, Vec<u32>) = (row.get(3), row.get(4));
    let mut fields = Vec::with_capacity(names.len());
    for (name, type_oid) in names.into_iter().zip(types) {
        fields.push(Column { name, type_oid, kind: Box::pin(kind(client, type_oid)).await? });
    }
    let plain = fields.iter().all(|field| field.kind == ColumnKind::Plain);
    Ok(if plain { ColumnKind::Plain } else { ColumnKind::Composite(fields) })
}

/// A name as SQL writes it.
pub(crate) fn quote_identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests;
