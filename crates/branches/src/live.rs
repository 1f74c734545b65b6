//! What goes on: the sessions of a branch's server, how one is ended, and what the audit log says happened.

use crate::{
    audit::{LoggedEvent, Position},
    branch::Branch,
    doors::Holder,
    engine::Engine,
    error::{EngineError, Kind},
    leases::named,
    model::{BranchSession, CancelSession, CancelledSession, STATEMENT_MAX},
    source::sanitise::ADMIN,
};
use jiff::Timestamp;
use serde_json::json;
use std::{sync::Arc, time::Duration};
use tokio_postgres::{types::Type, Row};

/// How long looking, or ending one, may take.
const LIMIT: Duration = Duration::from_secs(10);
/// How many sessions are told.
const SESSIONS_MAX: i64 = 1000;

impl Engine {
    /// At most `limit` entries of the audit log before a position, or the newest ones: the newest first, and each with where it
    /// begins. Of entries that are very long there may be fewer.
    ///
    /// # Errors
    /// When the log has no such position, or cannot be read.
    pub async fn audit_log(
        &self,
        before: Option<Position>,
        limit: usize,
    ) -> Result<Vec<(Position, LoggedEvent)>, EngineError> {
        let shared = Arc::clone(&self.shared);
        let read = tokio::task::spawn_blocking(move || shared.audit.before(before, limit)).await;
        read.unwrap_or_else(|error| Err(EngineError::new(Kind::Failed, "internal", error.to_string())))
    }

    /// The sessions in a branch, the earliest first; none of a branch that sleeps, which stays so.
    ///
    /// # Errors
    /// Unknown branch, or one whose server does not answer.
    pub async fn sessions(&self, by: Option<&Holder>, name: &str) -> Result<Vec<BranchSession>, EngineError> {
        let session = self.shared.registry.working_session_of(name, by)?;
        if session.branch.sleep.is_asleep() {
            return Ok(Vec::new());
        }
        within(name, read(&session.branch)).await
    }

    /// Cancels the statement of a session in a branch, or ends the session. That it was asked for stands in the audit log.
    ///
    /// # Errors
    /// Unknown branch, no such session in it, or a server that does not answer.
    pub async fn cancel_session(
        &self,
        by: Option<&Holder>,
        name: &str,
        wanted: CancelSession,
    ) -> Result<CancelledSession, EngineError> {
        let CancelSession { process, end } = wanted;
        let session = self.shared.registry.working_session_of(name, by)?;
        let missing = || {
            let message = format!(
                "there is no session with process {process} in {name}; `duramen branch sessions {name}` lists those that there are"
            );
            EngineError::new(Kind::NotFound, "unknown_session", message)
        };
        if session.branch.sleep.is_asleep() {
            return Err(missing());
        }
        let details = json!({ "branch": session.id, "name": name, "process": process });
        let event = if end { "session_ended" } else { "statement_cancelled" };
        self.shared.audit(event, named(details, by))?;
        match within(name, cancel(&session.branch, process, end)).await? {
            true => Ok(CancelledSession { process, end }),
            false => Err(missing()),
        }
    }
}

async fn within<T>(name: &str, work: impl Future<Output = Result<T, EngineError>>) -> Result<T, EngineError> {
    tokio::time::timeout(LIMIT, work).await.unwrap_or_else(|_| {
        let message = format!("the server of {name} did not answer within {} s; ask again", LIMIT.as_secs());
        Err(EngineError::new(Kind::Timeout, "branch_timeout", message))
    })
}

/// Sessions but those of the daemon's administrator. Each function and operator is passed the types that it declares.
const SESSIONS: &str =
    "select pid, usename::text, datname::text, application_name, client_addr::text, state, \
    wait_event_type, wait_event, \
    (pg_catalog.date_part('epoch'::text, backend_start) operator(pg_catalog.*) 1000::float8), \
    (pg_catalog.date_part('epoch'::text, state_change) operator(pg_catalog.*) 1000::float8), \
    pg_catalog.\"left\"(query, $1) \
    from pg_catalog.pg_stat_activity \
    where backend_type operator(pg_catalog.=) 'client backend'::text and usename is not null \
      and usename operator(pg_catalog.<>) $2::name \
    order by backend_start, pid limit $3";

async fn read(branch: &Arc<Branch>) -> Result<Vec<BranchSession>, EngineError> {
    let _visit = branch.visit();
    let client = branch.administrator_client().await?;
    let statement =
        client.prepare_typed(SESSIONS, &[Type::INT4, Type::NAME, Type::INT8]).await.map_err(failed)?;
    let most = i32::try_from(STATEMENT_MAX).unwrap_or(i32::MAX);
    let rows = client.query(&statement, &[&most, &ADMIN, &SESSIONS_MAX]).await.map_err(failed)?;
    rows.iter().map(told).collect::<Result<_, _>>().map_err(failed)
}

fn told(row: &Row) -> Result<BranchSession, tokio_postgres::Error> {
    let text = |at: usize| -> Result<Option<String>, tokio_postgres::Error> {
        Ok(row.try_get::<_, Option<String>>(at)?.filter(|text| !text.is_empty()))
    };
    // What PostgreSQL counts in microseconds fits.
    let time = |at: usize| -> Result<Option<Timestamp>, tokio_postgres::Error> {
        let ms: Option<f64> = row.try_get(at)?;
        Ok(ms.and_then(|ms| Timestamp::from_millisecond(ms as i64).ok()))
    };
    let waits_for = text(6)?.zip(text(7)?).map(|(kind, what)| format!("{kind}: {what}"));
    Ok(BranchSession {
        process: row.try_get(0)?,
        role: text(1)?.unwrap_or_default(),
        database: text(2)?.unwrap_or_default(),
        application: text(3)?,
        address: text(4)?,
        state: text(5)?,
        waits_for,
        began_at: time(8)?.unwrap_or_default(),
        since: time(9)?,
        statement: text(10)?,
    })
}

async fn cancel(branch: &Arc<Branch>, process: i32, end: bool) -> Result<bool, EngineError> {
    let _visit = branch.visit();
    let client = branch.administrator_client().await?;
    let function = if end { "pg_terminate_backend(pid, 0::bigint)" } else { "pg_cancel_backend(pid)" };
    let sql = format!(
        "select pg_catalog.{function} from pg_catalog.pg_stat_activity \
         where pid operator(pg_catalog.=) $1 and backend_type operator(pg_catalog.=) 'client backend'::text \
           and usename operator(pg_catalog.<>) $2::name"
    );
    let statement = client.prepare_typed(&sql, &[Type::INT4, Type::NAME]).await.map_err(failed)?;
    let row = client.query_opt(&statement, &[&process, &ADMIN]).await.map_err(failed)?;
    Ok(row.is_some_and(|row| row.try_get(0).unwrap_or(false)))
}

fn failed(error: tokio_postgres::Error) -> EngineError {
    EngineError::new(Kind::Failed, "branch_failed", format!("the branch's server refused: {error}"))
}
