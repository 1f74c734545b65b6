//! Sessions for turns and steps: pooled for each role, database and purpose, and handed out clean.
//!
//! Whatever session the worker opens looks names up in `pg_catalog` only, and has the worker's limits, from its startup
//! packet on: `RESET ALL` leads back to this. What `ALTER ROLE ... SET` gives a submitter holds for the text of its
//! steps, and for nothing that the worker says.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_postgres::{types::Type, CancelToken, Client};

use super::turn::TurnError;
use crate::schema::NO_JIT;
use duramen_postgres::connection::{ConnectError, Target};

/// What a session is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Purpose {
    /// Turns: many short steps in a transaction, none of which may take long or wait for a lock.
    Turn,
    /// One step, which may take as long as it likes.
    Alone,
}

/// Whose session it is, and where.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub(crate) role: u32,
    pub(crate) role_name: String,
    pub(crate) database: String,
}

/// What every session of a worker begins with.
const SETTINGS: [(&str, &str); 14] = [
    // Whoever may create objects in some schema of the search path decides what an unqualified name means.
    ("search_path", "pg_catalog, pg_temp"),
    // A worker that stops in the middle of a transaction holds its locks for at most this long.
    ("idle_in_transaction_session_timeout", "30000"),
    // The sessions of a worker that was killed end with it, also in the middle of a statement.
    ("client_connection_check_interval", "2000"),
    ("default_transaction_isolation", "read committed"),
    ("default_transaction_read_only", "off"),
    ("default_transaction_deferrable", "off"),
    ("statement_timeout", "0"),
    ("TimeZone", "UTC"),
    ("DateStyle", "ISO,MDY"),
    ("IntervalStyle", "postgres"),
    ("bytea_output", "hex"),
    ("standard_conforming_strings", "on"),
    ("client_min_messages", "warning"),
    NO_JIT,
];
/// How long a step may wait for a lock in a turn, before it is sent to run alone.
const TURN_LOCK_TIMEOUT_MS: &str = "10";
/// How long the end of a session may take that another session asks for.
const TERMINATE_WITHIN: Duration = Duration::from_secs(5);

/// The target as a worker uses it.
pub(crate) fn guarded(target: Target, epoch: &str) -> Target {
    target.noticing_loss().application_name(&format!("duramen fn {epoch}")).settings(SETTINGS)
}

/// A connection that is out of the pool. Give it back with [`Sessions::give_back`] if it is clean; else it is closed.
pub(crate) struct Session {
    pub(crate) client: Client,
    /// The server process behind it.
    pub(crate) pid: i32,
    pub(crate) role: u32,
    /// What makes the submitter the session's user for as long as a step runs; `None`: the worker's role may not do that.
    pub(crate) become_submitter: Option<Arc<str>>,
    /// What the submitter's text runs with: names and values in turn.
    pub(crate) settings: Arc<Vec<String>>,
    /// The limit that the submitter's role has for statements, as the server writes it.
    pub(crate) statement_timeout: Option<String>,
    /// It has carried a message so large that its buffers, which never shrink, are not kept.
    swollen: AtomicBool,
    key: (Place, Purpose),
    _permit: OwnedSemaphorePermit,
}

/// A session that has carried a message of this size is not used again.
const SWOLLEN: usize = 1 << 20;

impl Session {
    /// So many bytes have gone over it at once.
    pub(crate) fn carried(&self, bytes: usize) {
        self.swollen.fetch_or(bytes > SWOLLEN, Ordering::Relaxed);
    }

    pub(crate) fn cancel_token(&self) -> CancelToken {
        self.client.cancel_token()
    }
}

/// An open connection without its permit.
struct Idle {
    client: Client,
    pid: i32,
    become_submitter: Option<Arc<str>>,
    settings: Arc<Vec<String>>,
    statement_timeout: Option<String>,
}

/// The pool. It bounds how many sessions of a purpose are in use at once, and how many are idle.
pub(crate) struct Sessions {
    target: Mutex<Target>,
    /// Of the copy of the database that the worker began with.
    identity: String,
    idle: Mutex<HashMap<(Place, Purpose), Vec<Idle>>>,
    idle_max: usize,
    turns: Arc<Semaphore>,
    alone: Arc<Semaphore>,
}

impl Sessions {
    pub(crate) fn new(target: Target, identity: String, turns: usize, alone: usize) -> Self {
        Self {
            target: Mutex::new(target),
            identity,
            idle: Mutex::default(),
            idle_max: turns + alone,
            turns: Arc::new(Semaphore::new(turns)),
            alone: Arc::new(Semaphore::new(alone)),
        }
    }

    /// Hands out a session, or opens one.
    pub(crate) async fn get(&self, place: &Place, purpose: Purpose) -> Result<Session, TurnError> {
        let semaphore = match purpose {
            Purpose::Turn => &self.turns,
            Purpose::Alone => &self.alone,
        };
        let Ok(permit) = Arc::clone(semaphore).acquire_owned().await else {
            unreachable!("the semaphore is never closed")
        };
        let key = (place.clone(), purpose);
        let pooled = loop {
            let Some(idle) = self.idle.lock().get_mut(&key).and_then(Vec::pop) else { break None };
            if !idle.client.is_closed() {
                break Some(idle);
            }
        };
        let Idle { client, pid, become_submitter, settings, statement_timeout } = match pooled {
            Some(idle) => idle,
            None => self.open(place, purpose).await?,
        };
        Ok(Session {
            client,
            pid,
            role: place.role,
            become_submitter,
            settings,
            statement_timeout,
            swollen: AtomicBool::new(false),
            key,
            _permit: permit,
        })
    }

    /// Takes back a session that holds nothing of its last step.
    pub(crate) fn give_back(&self, session: Session) {
        if session.client.is_closed() || session.swollen.load(Ordering::Relaxed) {
            return;
        }
        let mut idle = self.idle.lock();
        if idle.values().map(Vec::len).sum::<usize>() >= self.idle_max {
            // The role with the most idle sessions gives one up.
            let fullest = idle.iter().max_by_key(|(_, clients)| clients.len()).map(|(key, _)| key.clone());
            if let Some(clients) = fullest.and_then(|key| idle.get_mut(&key)) {
                clients.remove(0);
            }
        }
        let Session { client, pid, become_submitter, settings, statement_timeout, key, .. } = session;
        let kept = Idle { client, pid, become_submitter, settings, statement_timeout };
        idle.entry(key).or_default().push(kept);
    }

    /// Closes what is idle; what is opened from now on goes to this target.
    pub(crate) fn restart(&self, target: Target) {
        *self.target.lock() = target;
        self.idle.lock().clear();
    }

    /// Ends a session from outside. It may be running something that takes no notice of cancel requests.
    pub(crate) async fn terminate(&self, pid: i32) {
        let target = self.target.lock().clone();
        let terminate = async {
            let client = target.connect().await?;
            client.query_typed("SELECT pg_terminate_backend($1)", &[(&pid, Type::INT4)]).await?;
            Ok::<(), TurnError>(())
        };
        let error = match tokio::time::timeout(TERMINATE_WITHIN, terminate).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {TERMINATE_WITHIN:?}"),
        };
        tracing::warn!(pid, error, "a session that does not stop cannot be ended");
    }

    /// Connects to the database that has the schema, unless what answers there is another copy of it by now: the server
    /// may have been replaced by a branch or by a restored one while the worker lived.
    pub(crate) async fn at_home(&self, target: &Target) -> Result<Client, TurnError> {
        let client = target.connect().await?;
        self.is_home(&client, target).await?;
        Ok(client)
    }

    /// Whether a new session is in the copy of the database that the worker began with.
    pub(crate) async fn is_home(&self, client: &Client, target: &Target) -> Result<(), TurnError> {
        let refused = |error: tokio_postgres::Error| ConnectError::Refused {
            target: target.describe(),
            cause: duramen_postgres::connection::with_sources(&error),
        };
        let found: Option<String> =
            client.query_typed_one("SELECT df._identity()", &[]).await.map_err(refused)?.get(0);
        if found.as_deref() != Some(self.identity.as_str()) {
            return Err(TurnError::Copy { target: target.describe() });
        }
        Ok(())
    }

    async fn open(&self, place: &Place, purpose: Purpose) -> Result<Idle, TurnError> {
        let target = self.target.lock().clone();
        let is_home = target.database_name() == place.database;
        let mut here = target.database(&place.database).settings([("df.in_workflow", "true")]);
        if purpose == Purpose::Turn {
            here = here.settings([("lock_timeout", TURN_LOCK_TIMEOUT_MS)]);
        }
        let client = if is_home { self.at_home(&here).await? } else { here.connect().await? };
        let refused = |error: tokio_postgres::Error| ConnectError::Refused {
            target: here.describe(),
            cause: duramen_postgres::connection::with_sources(&error),
        };
        let rows = client.query_typed(ROLE_SETTINGS, &[(&place.role, Type::OID)]).await.map_err(refused)?;
        let row = client.query_typed_one(MYSELF, &[]).await.map_err(refused)?;
        let pid = row.get(0);
        let become_submitter = row.get::<_, bool>(1).then(|| assume_session(&place.role_name).into());
        let mut settings = Vec::new();
        let mut statement_timeout = None;
        for row in &rows {
            let (name, value): (String, String) = (row.get(0), row.get(1));
            if name == "statement_timeout" {
                statement_timeout = Some(value);
            } else {
                settings.extend([name, value]);
            }
        }
        Ok(Idle { client, pid, become_submitter, settings: Arc::new(settings), statement_timeout })
    }
}

/// The server process behind a session, and whether the session may be another user's for a while: only a superuser's may
/// that, and one that has not taken on a role, which it would lose.
pub(crate) const MYSELF: &str = "
    SELECT pg_backend_pid(), r.rolsuper AND session_user = current_user
    FROM pg_roles r WHERE r.rolname = session_user";

/// Makes a role the session's user, to the end of the transaction or until it is taken back.
pub(crate) fn assume_session(role_name: &str) -> String {
    format!("SET LOCAL SESSION AUTHORIZATION {}", super::steps::quote_identifier(role_name))
}

/// What a session of role `$1` would begin with here: its search path, and what `ALTER ROLE ... SET` gives it, for every
/// database and then for this one. Settings that only superusers may change, or that speak of transactions and
/// connections, are left out: they cannot hold for a step.
const ROLE_SETTINGS: &str = "
    SELECT 'search_path', coalesce(
        (SELECT substr(c, strpos(c, '=') + 1) FROM pg_db_role_setting s, unnest(s.setconfig) AS c
         WHERE s.setrole = 0 AND s.setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())
           AND c LIKE 'search\\_path=%'),
        (SELECT boot_val FROM pg_settings WHERE name = 'search_path'))
    UNION ALL
    (SELECT split_part(c, '=', 1), substr(c, strpos(c, '=') + 1)
     FROM pg_db_role_setting s, unnest(s.setconfig) AS c
     LEFT JOIN pg_settings p ON p.name = split_part(c, '=', 1)
     WHERE s.setrole = $1
       AND s.setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
       AND (p.context = 'user' OR p.context IS NULL)
       AND split_part(c, '=', 1) NOT LIKE ALL (ARRAY['default\\_transaction%', 'idle%', 'lock\\_timeout', 'df.%',
           'transaction\\_timeout', 'client\\_connection%', 'role', 'session\\_authorization'])
     ORDER BY s.setdatabase)";
