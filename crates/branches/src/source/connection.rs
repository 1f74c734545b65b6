//! Sessions of ours on servers with data of others: what they are told at connect, before anything there can act.
//!
//! Who may create objects in a database may also set a search path for it (`ALTER DATABASE`, `ALTER ROLE`), and a name
//! or an operator in SQL of ours would then be his. So every session begins with the options below. They travel in the
//! startup packet, which wins over settings of databases and roles, whoever made them (`PGC_S_CLIENT` stands above
//! `PGC_S_DATABASE` and `PGC_S_USER`), and over the server's own; a later `RESET` comes back to them.
//!
//! What this search path leaves: names are looked for in `pg_catalog`, and tables and types after that in the session's
//! own temporary schema, which begins empty; functions and operators are never looked for there. In `pg_catalog` only a
//! superuser, or who was let in by one, creates anything. What is created there can still be a better match than the
//! built-in function if its argument types fit better. Statements that run as the administrator therefore pass each
//! function and each operator exactly the types it declares (`quote_ident(x::text)`), and use no cast that goes by
//! input and output functions, for which another could be declared. What they cannot be safe from is a source whose
//! superuser has rewritten rows of the system catalogue itself.
//!
//! Event triggers are off: from PostgreSQL 17 on one may run at login, before any statement could prevent it.

use super::{address::Address, connected::Connected, refusal::unreachable_source};
use crate::error::{EngineError, Kind};
use duramen_postgres::connection::{ConnectError, Encryption};
use std::time::Duration;
use tokio_postgres::{
    config::{Host, SslMode, TargetSessionAttrs},
    error::SqlState,
    Config, NoTls,
};

/// How long connecting to one host may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// How long a host of an origin may take to let a session in, once it is connected to: it may take the connection, and say
/// nothing.
const LOGIN_LIMIT: Duration = Duration::from_secs(30);

/// The first major version that has login triggers, and the setting that turns event triggers off.
pub(crate) const LOGIN_TRIGGERS_SINCE: u32 = 17;

/// For every session; each can be set by any role.
const PINNED: &[(&str, &str)] = &[
    ("search_path", "pg_catalog,pg_temp"),
    ("role", "none"),
    ("local_preload_libraries", ""),
    // Policies raise an error instead of being run.
    ("row_security", "off"),
    ("statement_timeout", "0"),
    ("idle_session_timeout", "0"),
];
/// For sessions on an origin.
const READING: &[(&str, &str)] = &[("default_transaction_read_only", "on")];
/// For sessions of superusers on servers of our own.
const OWN: &[(&str, &str)] = &[
    ("session_preload_libraries", ""),
    ("dynamic_library_path", "$libdir"),
    ("default_transaction_read_only", "off"),
    ("default_table_access_method", "heap"),
    ("default_tablespace", ""),
    ("temp_tablespaces", ""),
    ("session_replication_role", "origin"),
    ("lock_timeout", "0"),
    ("idle_in_transaction_session_timeout", "0"),
];
/// From [`LOGIN_TRIGGERS_SINCE`] on: only superusers may set it, and roles that were granted the right.
const QUIET: &[(&str, &str)] = &[("event_triggers", "off")];

const UNCOUNTED: &[(&str, &str)] = &[("track_counts", "off")];

/// A session as superuser on a server that this program started, or on the sample's.
pub(crate) async fn own(config: &Config, major: u32) -> Result<Connected, EngineError> {
    let quiet = if major >= LOGIN_TRIGGERS_SINCE { QUIET } else { &[] };
    open(&with_options(config, &[PINNED, OWN, quiet])).await.map_err(|error| unreachable_source(&error))
}

/// As [`own`], for work that leaves no counters: each branch reads those of its snapshot when it starts, and keeps them in
/// memory, so what was looked at once in a hundred databases would cost every branch.
pub(crate) async fn uncounted(config: &Config, major: u32) -> Result<Connected, EngineError> {
    let quiet = if major >= LOGIN_TRIGGERS_SINCE { QUIET } else { &[] };
    let options = with_options(config, &[PINNED, OWN, quiet, UNCOUNTED]);
    open(&options).await.map_err(|error| unreachable_source(&error))
}

/// A session as the holder of a branch will have it, with the search path that his statements are written for. Only
/// for roles that may no more than he.
pub(crate) async fn as_holder(config: &Config) -> Result<Connected, EngineError> {
    open(config).await.map_err(|error| unreachable_source(&error))
}

/// A session on a copy as one of the roles of branches, with a search path of ours: for statements of ours, or what an
/// operator wrote. `reading` lets it write nothing.
pub(crate) async fn plain(config: &Config, reading: bool) -> Result<Connected, EngineError> {
    let more = if reading { READING } else { &[] };
    let path = &[("search_path", "pg_catalog,public")][..];
    open(&with_options(config, &[PINNED, path, more])).await.map_err(|error| unreachable_source(&error))
}

/// How it is known that no login trigger fires in sessions on an origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quiet {
    /// This role may turn event triggers off.
    Off,
    /// The server is too old to have any.
    Old,
    /// Somebody looked.
    Known,
}

/// A first session on an origin, in which no login trigger can fire; `None` if the origin may have some, and does not
/// let this role turn them off. Nothing has run there then.
pub(crate) async fn enter_origin(address: &Address) -> Result<Option<(Connected, Quiet)>, EngineError> {
    match enter(address, &[PINNED, READING, QUIET]).await {
        Ok(client) => Ok(Some((client, Quiet::Off))),
        // It does not know the setting.
        Err(EnterError::Refused(error)) if error.code() == Some(&SqlState::UNDEFINED_OBJECT) => {
            origin(address, Quiet::Old).await.map(|client| Some((client, Quiet::Old)))
        }
        // The same code refuses a database to a role: there the message names no setting, in no language.
        Err(EnterError::Refused(error))
            if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE)
                && error.as_db_error().is_some_and(|refusal| refusal.message().contains(QUIET[0].0)) =>
        {
            Ok(None)
        }
        Err(error) => Err(error.told()),
    }
}

/// A session on an origin of which is known why no login trigger fires in it.
pub(crate) async fn origin(address: &Address, quiet: Quiet) -> Result<Connected, EngineError> {
    let off = if quiet == Quiet::Off { QUIET } else { &[] };
    enter(address, &[PINNED, READING, off]).await.map_err(EnterError::told)
}

/// The database that a session will be in.
pub(crate) fn database(config: &Config) -> &str {
    config.get_dbname().or_else(|| config.get_user()).unwrap_or_default()
}

fn with_options(config: &Config, groups: &[&[(&str, &str)]]) -> Config {
    let ours = groups.iter().copied().flatten().map(|(name, value)| format!(" -c {name}={value}"));
    let mut options = config.get_options().unwrap_or_default().to_owned();
    options.extend(ours);
    let mut config = config.clone();
    config.options(options);
    config
}

/// Why a session on an origin was not opened.
enum EnterError {
    Refused(tokio_postgres::Error),
    Tls(ConnectError),
    /// It took the connection, and did not answer.
    Silent,
    /// No host is what the address asks for.
    Unsuited,
}

impl EnterError {
    fn told(self) -> EngineError {
        match self {
            EnterError::Refused(error) => unreachable_source(&error),
            EnterError::Silent => EngineError::new(
                Kind::Failed,
                "source_unreachable",
                format!(
                    "the source's server took the connection, and did not let it in within {} s; check that it is not \
                     stopped or overloaded, and that the URL names a PostgreSQL server",
                    LOGIN_LIMIT.as_secs()
                ),
            ),
            EnterError::Unsuited => EngineError::new(
                Kind::Failed,
                "source_unreachable",
                "of the hosts of the URL those that answer are not what target_session_attrs asks for",
            ),
            EnterError::Tls(error) => EngineError::new(Kind::Failed, "source_unreachable", error.to_string()),
        }
    }
}

/// Connects to the first host of an origin that answers, and is what its address asks for. The client would ask whether
/// sessions may write, and none of ours may.
async fn enter(address: &Address, groups: &[&[(&str, &str)]]) -> Result<Connected, EnterError> {
    let wanted = address.config.get_target_session_attrs();
    let mut last = EnterError::Unsuited;
    for host in address.hosts() {
        let config = with_options(&host, groups);
        let entered = tokio::time::timeout(LOGIN_LIMIT, connect(address, &config)).await;
        let client = match entered.unwrap_or(Err(EnterError::Silent)) {
            Ok(client) => client,
            Err(EnterError::Refused(error)) if error.code().is_some_and(concerns_options) => {
                return Err(EnterError::Refused(error));
            }
            Err(error) => {
                last = error;
                continue;
            }
        };
        if wanted == TargetSessionAttrs::Any {
            return Ok(client);
        }
        let standby = client.query_one("select pg_catalog.pg_is_in_recovery()", &[]).await;
        let standby: bool = standby.map_err(EnterError::Refused)?.get(0);
        if standby == (wanted == TargetSessionAttrs::ReadOnly) {
            return Ok(client);
        }
        last = EnterError::Unsuited;
    }
    Err(last)
}

/// Whether an error may be about the options of a session: then another host is not asked.
fn concerns_options(code: &SqlState) -> bool {
    [SqlState::UNDEFINED_OBJECT, SqlState::INSUFFICIENT_PRIVILEGE].contains(code)
}

/// Connects to a host of an origin, and drives the connection in the background.
async fn connect(address: &Address, config: &Config) -> Result<Connected, EnterError> {
    let is_local = config.get_hosts().iter().all(|host| matches!(host, Host::Unix(_)))
        && config.get_hostaddrs().is_empty();
    if is_local || address.security.encryption() == Encryption::Disable {
        return open(config).await.map_err(EnterError::Refused);
    }
    let tls = address.security.connector().map_err(EnterError::Tls)?;
    let (client, connection) = named(config).connect(tls.clone()).await.map_err(EnterError::Refused)?;
    Ok(Connected::drive(client, connection, tls))
}

/// The same through a socket of this machine.
async fn open(config: &Config) -> Result<Connected, tokio_postgres::Error> {
    let (client, connection) = named(config).ssl_mode(SslMode::Disable).connect(NoTls).await?;
    Ok(Connected::drive(client, connection, NoTls))
}

fn named(config: &Config) -> Config {
    let mut config = config.clone();
    config.connect_timeout(CONNECT_LIMIT).application_name("duramen");
    config
}
