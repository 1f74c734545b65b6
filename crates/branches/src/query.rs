//! Queries through a branch's resident session.

use crate::{
    burst::Burst,
    doors::Holder,
    engine::Engine,
    error::{EngineError, QueryError},
    model::{Policy, QueryRequest},
    registry::Session,
};
use bytes::Bytes;
use duramen_base::clock;
use duramen_postgres::{Guard, Outcome, Statement};
use serde_json::Value;
use std::{
    io::Write,
    sync::Arc,
    time::{Duration, Instant},
};

/// Limits of a query, unless the caller asks for less or (up to the maximum) more.
const ROWS_DEFAULT: u32 = 1000;
const ROWS_MAX: u32 = 100_000;
const BYTES_MAX: usize = 16 << 20;
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);
const TIMEOUT_MAX: Duration = Duration::from_secs(600);
const STATEMENTS_MAX: usize = 64;

/// The JSON text of a [`crate::model::QueryReply`].
#[derive(Debug)]
pub struct QueryAnswer(pub Bytes);

impl Engine {
    /// Runs one statement, or several in one transaction. Dropping the future cancels them in the server.
    ///
    /// # Errors
    /// What the database refused, a timeout, an unknown branch, a request over a limit.
    pub async fn query(
        self: &Arc<Self>,
        name: &str,
        request: QueryRequest,
    ) -> Result<QueryAnswer, EngineError> {
        let session = self.shared.registry.working_session(name)?;
        self.query_in(name, session, None, request).await
    }

    pub(crate) async fn query_in(
        self: &Arc<Self>,
        name: &str,
        session: Session,
        by: Option<&Holder>,
        request: QueryRequest,
    ) -> Result<QueryAnswer, EngineError> {
        let begin = clock::now();
        let answered = self.answer_in(name, session, by, request).await;
        self.shared.metrics.queried(begin, &answered);
        answered
    }

    async fn answer_in(
        self: &Arc<Self>,
        name: &str,
        session: Session,
        by: Option<&Holder>,
        request: QueryRequest,
    ) -> Result<QueryAnswer, EngineError> {
        let _active = self.shared.activity.enter();
        let guard = guard(&request)?;
        let statements = statements(request)?;
        let Session { branch, id, policy, durable } = session;
        let guard = Guard { read_only: policy == Policy::ReadOnly, ..guard };
        let Ok(_place) = branch.queue.try_acquire() else {
            return Err(QueryError::Busy { name: name.to_owned() }.into());
        };
        let place = self.shared.burst.enter().await;
        let mut logged = LogOnDrop {
            engine: self,
            branch: &id,
            token: by.map(|holder| holder.id.as_str()),
            statements: &statements,
            started: clock::now(),
            done: false,
        };
        let outcome = {
            let mut work = std::pin::pin!(branch.run(&statements, guard));
            match tokio::time::timeout(Burst::SHORT, &mut work).await {
                Ok(outcome) => outcome,
                Err(_) => {
                    drop(place);
                    work.await
                }
            }
        };
        let server_us = logged.finish(&outcome)?;
        let data = branch.generation.data();
        outcome.map(|outcomes| answer(name, (policy, data, durable), &outcomes, server_us))
    }

    fn log_statements(
        &self,
        branch: &str,
        token: Option<&str>,
        statements: &[Statement],
        server_us: u64,
        outcome: &Result<Vec<Outcome>, EngineError>,
    ) -> Result<(), EngineError> {
        let hash = |sql: &str| blake3::hash(sql.as_bytes()).to_hex().as_str()[..32].to_owned();
        self.shared.audit(
            "statement",
            Executed {
                branch,
                token,
                sql_blake3: statements.iter().map(|statement| hash(&statement.sql)).collect(),
                duration_us: server_us,
                rows: outcome
                    .as_ref()
                    .map_or(0, |outcomes| outcomes.iter().map(|outcome| outcome.row_count).sum()),
                error: outcome.as_ref().err().map(|error| error.sqlstate.as_deref().unwrap_or(error.code)),
            },
        )
    }
}

/// Sees to it that statements are logged even if their caller goes away before they end.
struct LogOnDrop<'a> {
    engine: &'a Engine,
    branch: &'a str,
    token: Option<&'a str>,
    statements: &'a [Statement],
    started: Instant,
    done: bool,
}

impl LogOnDrop<'_> {
    fn finish(&mut self, outcome: &Result<Vec<Outcome>, EngineError>) -> Result<u64, EngineError> {
        self.done = true;
        let server_us = u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.engine.log_statements(self.branch, self.token, self.statements, server_us, outcome)?;
        Ok(server_us)
    }
}

impl Drop for LogOnDrop<'_> {
    fn drop(&mut self) {
        if !self.done {
            if let Err(error) = self.finish(&Err(QueryError::ClientGone.into())) {
                tracing::error!(%error, "a cancelled statement could not be logged");
            }
        }
    }
}

/// What the audit log keeps of a request: never its text, which may hold anything.
#[derive(serde::Serialize)]
struct Executed<'a> {
    branch: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<&'a str>,
    sql_blake3: Vec<String>,
    duration_us: u64,
    rows: u64,
    error: Option<&'a str>,
}

fn guard(request: &QueryRequest) -> Result<Guard, EngineError> {
    let timeout = request.timeout_ms.map_or(TIMEOUT_DEFAULT, Duration::from_millis);
    if timeout.is_zero() || timeout > TIMEOUT_MAX {
        return Err(QueryError::BadTimeout { max_ms: TIMEOUT_MAX.as_millis() }.into());
    }
    let row_limit = request.max_rows.unwrap_or(ROWS_DEFAULT);
    if row_limit == 0 || row_limit > ROWS_MAX {
        return Err(QueryError::BadRowCap { max: ROWS_MAX }.into());
    }
    Ok(Guard { read_only: true, timeout, row_limit, byte_limit: BYTES_MAX })
}

fn statements(request: QueryRequest) -> Result<Vec<Statement>, EngineError> {
    let mut statements: Vec<Statement> = Vec::with_capacity(1);
    match (request.sql, request.statements.is_empty()) {
        (Some(sql), true) => statements.push(Statement { sql, parameters: parameters(request.params) }),
        (None, false) => statements.extend(
            request
                .statements
                .into_iter()
                .map(|s| Statement { sql: s.sql, parameters: parameters(s.params) }),
        ),
        _ => return Err(QueryError::NoStatement.into()),
    }
    if statements.len() > STATEMENTS_MAX {
        return Err(QueryError::TooManyStatements { max: STATEMENTS_MAX }.into());
    }
    Ok(statements)
}

fn parameters(values: Vec<Value>) -> Vec<Option<String>> {
    values
        .into_iter()
        .map(|value| match value {
            Value::Null => None,
            Value::String(text) => Some(text),
            other => Some(other.to_string()),
        })
        .collect()
}

/// The reply's JSON, written once: rows are JSON text already.
fn answer(
    name: &str,
    (policy, data, durable): (Policy, &str, bool),
    outcomes: &[Outcome],
    server_us: u64,
) -> QueryAnswer {
    let size: usize = outcomes.iter().map(|outcome| outcome.rows_json.len() + 256).sum();
    let mut out = Vec::with_capacity(size + 256);
    // The names of branches are checked and need no escaping. Writing to a vector cannot fail.
    let _ = write!(out, "{{\"branch\":\"{name}\",\"policy\":");
    let _ = serde_json::to_writer(&mut out, &policy);
    let _ = write!(out, ",\"data\":\"{data}\",\"durable\":{durable},\"server_us\":{server_us},\"results\":[");
    for (index, outcome) in outcomes.iter().enumerate() {
        let _ = write!(out, "{}{{\"columns\":", if index == 0 { "" } else { "," });
        let _ = serde_json::to_writer(&mut out, &outcome.columns);
        out.extend_from_slice(b",\"rows\":");
        out.extend_from_slice(if outcome.rows_json.is_empty() { b"[]" } else { &outcome.rows_json });
        let _ = write!(
            out,
            ",\"row_count\":{},\"truncated\":{},\"command\":",
            outcome.row_count, outcome.truncated
        );
        let _ = serde_json::to_writer(&mut out, &outcome.command);
        out.push(b'}');
    }
    out.extend_from_slice(b"]}");
    QueryAnswer(out.into())
}
