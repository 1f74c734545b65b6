//! What goes on: the sessions of a branch, and what the audit log says happened.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The longest text of a statement that is told, in characters.
pub const STATEMENT_MAX: usize = 1000;

/// `GET /v1/branches/{name}/sessions`: a session in a branch's server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BranchSession {
    /// Its process, by which it is named.
    pub process: i32,
    /// The role as which it runs.
    pub role: String,
    /// The database that it is in.
    pub database: String,
    /// What the client calls itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application: Option<String>,
    /// Where the client is, if it came over a network. Those that come by the router or the daemon have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// `active`, `idle`, `idle in transaction` ...
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// What it waits for, if it does: `Lock: relation`, `Timeout: PgSleep` ...
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    /// When it began.
    pub began_at: Timestamp,
    /// Since when it is in its state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// The statement that runs, or the last one, cut at 1,000 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statement: Option<String>,
}

/// `POST /v1/branches/{name}/sessions/cancel`
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelSession {
    /// The process of the session.
    pub process: i32,
    /// Whether the session ends, and not its statement alone.
    #[serde(default)]
    pub end: bool,
}

/// The reply to `POST /v1/branches/{name}/sessions/cancel`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CancelledSession {
    /// The process of the session.
    pub process: i32,
    /// Whether the session ends, and not its statement alone.
    pub end: bool,
}

/// `GET /v1/audit`: an entry of the audit log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AuditEntry {
    /// Where it stands in the log. The entries before it are those of `before` this position.
    pub position: String,
    /// What happened: `leased`, `destroyed` ...
    pub event: String,
    /// All that the log says of it, with `event` and `at`, its time.
    #[schema(value_type = Object)]
    pub entry: serde_json::Value,
}
