//! Why statements are not run in a branch.

use super::{Coded, EngineError, Kind};
use crate::model::Policy;
use duramen_postgres::SessionError;

#[derive(Debug, thiserror::Error)]
pub(crate) enum QueryError {
    #[error("timeout_ms must be 1 to {max_ms}")]
    BadTimeout { max_ms: u128 },
    #[error("max_rows must be 1 to {max}")]
    BadRowCap { max: u32 },
    #[error("give either sql (with params) or statements")]
    NoStatement,
    #[error("a query holds at most {max} statements")]
    TooManyStatements { max: usize },
    #[error("too many queries wait for the session of branch {name}; use its URL for parallel sessions")]
    Busy { name: String },
    #[error("the client went away; the statement was cancelled")]
    ClientGone,
    #[error("the branch was destroyed or reset meanwhile")]
    Retired,
    #[error("the branch has no session")]
    NoSession,
    #[error("the branch's server does not serve: {0}")]
    NotServing(String),
}

impl Coded for QueryError {
    fn code(&self) -> (Kind, &'static str) {
        match self {
            QueryError::BadTimeout { .. } => (Kind::Invalid, "bad_timeout"),
            QueryError::BadRowCap { .. } => (Kind::Invalid, "bad_row_cap"),
            QueryError::NoStatement | QueryError::TooManyStatements { .. } => (Kind::Invalid, "bad_query"),
            QueryError::Busy { .. } => (Kind::Unavailable, "session_busy"),
            QueryError::ClientGone => (Kind::Unavailable, "client_gone"),
            QueryError::Retired => (Kind::NotFound, "destroyed"),
            QueryError::NoSession | QueryError::NotServing(_) => (Kind::Failed, "server_failed"),
        }
    }
}

/// What the operating system says about a write over a quota. PostgreSQL knows no SQLSTATE for it, and gives that of
/// internal errors.
const OVER_QUOTA: &str = "Disk quota exceeded";
const DISK_FULL: &str = "53100";
const MAKE_ROOM: &str =
    "delete what is not needed (truncate, drop, vacuum full), reset the branch, or raise its quota \
                         (`duramen source settings NAME --disk SIZE`)";
const SESSION_LOST: &str = "session_lost";

/// What a holder can do about a statement that the branch's policy does not allow.
fn policy_hint(sqlstate: &str, policy: Policy) -> &'static str {
    match (sqlstate, policy) {
        ("25006", Policy::ReadOnly) => "; this branch is read-only: lease one with `--policy read-write`",
        ("42501", Policy::ReadOnly) => "; this branch is read-only: lease one with `--policy read-write`, or `ddl`",
        ("42501", Policy::ReadWrite) => {
            "; the policy read-write changes rows only: to create, alter or drop, lease a branch with `--policy ddl`"
        }
        _ => "",
    }
}

/// A failed statement in the caller's terms.
pub(crate) fn query_failed(error: SessionError, policy: Policy) -> EngineError {
    match error {
        SessionError::Server(refusal) => {
            let hint = policy_hint(&refusal.code, policy);
            let mut error = EngineError::new(Kind::Sql, "sql_error", format!("{refusal}{hint}"));
            if refusal.code == "57014" {
                error = EngineError::new(
                    Kind::Timeout,
                    "cancelled",
                    format!("the statement was cancelled: {refusal}"),
                );
            }
            let is_over_quota = refusal.to_string().contains(OVER_QUOTA);
            if is_over_quota {
                error.message +=
                    "; the branch has used up its quota of disk, or all branches their share of the volume \
                                  store: ";
                error.message += MAKE_ROOM;
            }
            error.position = refusal.position;
            error.sqlstate = Some(if is_over_quota { DISK_FULL.to_owned() } else { refusal.code });
            error
        }
        SessionError::ZeroByte => EngineError::new(Kind::Invalid, "zero_byte", error.to_string()),
        SessionError::Cancelled(_) => EngineError::new(
            Kind::Timeout,
            "statement_timeout",
            format!("{error}: raise timeout_ms (--timeout), or ask for less"),
        ),
        SessionError::TransactionControl => {
            EngineError::new(Kind::Invalid, "transaction_control", error.to_string())
        }
        SessionError::CopyFromClient => {
            EngineError::new(Kind::Invalid, "copy_from_client", error.to_string())
        }
        SessionError::CopyToClient => EngineError::new(Kind::Invalid, "copy_to_client", error.to_string()),
        SessionError::Timeout(_) => EngineError::new(
            Kind::Timeout,
            "server_timeout",
            format!("{error}; the session was closed, and the next query opens a new one"),
        ),
        _ => EngineError::new(
            Kind::Failed,
            SESSION_LOST,
            format!("{error}; the next query opens a new session"),
        ),
    }
}

/// Says why a statement failed in a branch that has used up its quota, where the server does not: a write that was cut
/// short is a full disk to it, and a server that cannot write its log ends and tells its clients nothing.
pub(crate) fn failed_over_quota(mut error: EngineError, used: u64, quota: u64) -> EngineError {
    let is_refused = error.sqlstate.as_deref() == Some(DISK_FULL) && !error.message.contains(MAKE_ROOM);
    if is_refused || error.code == SESSION_LOST {
        error.message +=
            &format!("; the branch has used up its quota of disk ({used} of {quota} bytes): {MAKE_ROOM}");
    }
    error
}
