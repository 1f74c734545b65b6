//! Sessions for steps: pooled for each role, database and purpose, and handed out clean.
//!
//! A session has the settings that its role has when it logs in (`ALTER ROLE ... SET`), the worker's limits, and
//! whatever `RESET ALL` leads back to is exactly this: they are given in the startup packet.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_postgres::{types::Type, CancelToken, Client};

use crate::connect::{ConnectError, Target};

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

/// How long a step may wait for a lock in a turn, before it is sent to run alone.
const TURN_LOCK_TIMEOUT_MS: u32 = 10;
/// A worker that stops in the middle of a transaction holds its locks for at most this long.
const IDLE_IN_TRANSACTION_TIMEOUT_MS: u32 = 30_000;
/// How many sessions are kept idle, over all roles.
const IDLE_MAX: usize = 64;

/// A connection that is out of the pool. Give it back with [`Sessions::give_back`] if it is clean; else it is closed.
pub(crate) struct Session {
    pub(crate) client: Client,
    key: (Place, Purpose),
    _permit: OwnedSemaphorePermit,
}

impl Session {
    pub(crate) fn cancel_token(&self) -> CancelToken {
        self.client.cancel_token()
    }
}

/// The pool. `limit` bounds how many sessions of a purpose are in use at once.
pub(crate) struct Sessions {
    target: Target,
    idle: Mutex<HashMap<(Place, Purpose), Vec<Client>>>,
    turns: Arc<Semaphore>,
    alone: Arc<Semaphore>,
}

impl Sessions {
    pub(crate) fn new(target: Target, turns: usize, alone: usize) -> Self {
        Self {
            target,
            idle: Mutex::default(),
            turns: Arc::new(Semaphore::new(turns)),
            alone: Arc::new(Semaphore::new(alone)),
        }
    }

    /// Hands out a session, or opens one.
    pub(crate) async fn get(&self, place: &Place, purpose: Purpose) -> Result<Session, ConnectError> {
        let semaphore = match purpose {
            Purpose::Turn => &self.turns,
            Purpose::Alone => &self.alone,
        };
        let Ok(permit) = Arc::clone(semaphore).acquire_owned().await else {
            unreachable!("the semaphore is never closed")
        };
        let key = (place.clone(), purpose);
        loop {
            let Some(client) = self.idle.lock().get_mut(&key).and_then(Vec::pop) else { break };
            if !client.is_closed() {
                return Ok(Session { client, key, _permit: permit });
            }
        }
        let client = self.open(place, purpose).await?;
        Ok(Session { client, key, _permit: permit })
    }

    /// Takes back a session that holds nothing of its last step.
    pub(crate) fn give_back(&self, session: Session) {
        if session.client.is_closed() {
            return;
        }
        let mut idle = self.idle.lock();
        if idle.values().map(Vec::len).sum::<usize>() >= IDLE_MAX {
            // Another role's oldest session makes room.
            let fullest = idle.iter().max_by_key(|(_, clients)| clients.len()).map(|(key, _)| key.clone());
            if let Some(clients) = fullest.and_then(|key| idle.get_mut(&key)) {
                clients.remove(0);
            }
        }
        idle.entry(session.key).or_default().push(session.client);
    }

    /// Closes what is idle.
    pub(crate) fn clear(&self) {
        self.idle.lock().clear();
    }

    async fn open(&self, place: &Place, purpose: Purpose) -> Result<Client, ConnectError> {
        let idle_limit = IDLE_IN_TRANSACTION_TIMEOUT_MS.to_string();
        let lock = match purpose {
            Purpose::Turn => TURN_LOCK_TIMEOUT_MS.to_string(),
            Purpose::Alone => "0".to_owned(),
        };
        let ours = [
            ("idle_in_transaction_session_timeout", idle_limit.as_str()),
            ("TimeZone", "UTC"),
            ("DateStyle", "ISO,MDY"),
            ("IntervalStyle", "postgres"),
            ("bytea_output", "hex"),
            ("standard_conforming_strings", "on"),
            ("default_transaction_isolation", "read committed"),
            ("default_transaction_read_only", "off"),
            ("client_min_messages", "warning"),
            ("df.in_workflow", "true"),
        ];
        let limits = [("statement_timeout", "0"), ("lock_timeout", lock.as_str())];
        let here = self.target.clone().database(&place.database);
        let of_role = role_settings(&here, place).await?;
        let of_role: Vec<(&str, &str)> =
            of_role.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        // A role's own limit on statements holds for its steps too, but not for turns, whose limit is shorter.
        let all = match purpose {
            Purpose::Turn => [ours.to_vec(), of_role.clone(), limits.to_vec()].concat(),
            Purpose::Alone => [ours.to_vec(), limits.to_vec(), of_role.clone()].concat(),
        };
        match here.clone().settings(all).connect().await {
            Err(ConnectError::Refused { cause, .. }) if !of_role.is_empty() => {
                tracing::warn!(role = place.role_name, %cause, "the role's own settings cannot be used for its steps");
                here.settings([&ours[..], &limits[..]].concat()).connect().await
            }
            result => result,
        }
    }
}

/// What `ALTER ROLE ... SET` has given the role: for every database, then for this one.
async fn role_settings(target: &Target, place: &Place) -> Result<Vec<(String, String)>, ConnectError> {
    let client = target.connect().await?;
    let rows = client
        .query_typed(
            "SELECT split_part(c, '=', 1), substr(c, strpos(c, '=') + 1)
             FROM pg_db_role_setting s, unnest(s.setconfig) AS c
             WHERE s.setrole = $1
               AND s.setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
             ORDER BY s.setdatabase",
            &[(&place.role, Type::OID)],
        )
        .await;
    Ok(rows.map_or_else(|_| Vec::new(), |rows| rows.iter().map(|row| (row.get(0), row.get(1))).collect()))
}
