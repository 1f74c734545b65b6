//! Whether there is anything left that goes on by itself, and how what ended has ended.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::sleep;
use tokio_postgres::{types::Type, Client};

use super::monitor::Monitor;
use super::turn::TurnError;

/// How often it is looked.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// So many looks in a row must find nothing: one can come between the emptying of a table and what it holds next.
const LOOKS: u32 = 3;
/// What a server says of a password that was good before. A worker reads the messages of its server in English.
const OTHER_SECRET: &str = "password authentication failed";
/// How many of those that failed are told.
pub const FAILED_MAX: u32 = 20;

/// One row: whether anything is due within `$1` seconds, or runs. Who waits only for a signal, is paused, or is in a queue that
/// is, goes on when somebody has it do so. Behind that, what has ended since `$2`, without children, which their parents speak for.
const REST: &str = "
    SELECT EXISTS (SELECT FROM df._ready)
        OR EXISTS (SELECT FROM df._activity)
        OR EXISTS (SELECT FROM df._task t JOIN df._work w ON w.seq = t.seq WHERE t.ended_at IS NULL)
        OR EXISTS (SELECT FROM df._inbox i JOIN df._work w ON w.seq = i.seq)
        OR EXISTS (SELECT FROM df._work w WHERE w.admitted IS NOT NULL
            OR (NOT w.paused AND w.due_at <= clock_timestamp() + make_interval(secs => $1)))
        OR EXISTS (SELECT FROM df._queued q LEFT JOIN df._queue k ON k.id = q.queue
            WHERE k.state IS DISTINCT FROM 'paused'
              AND (q.due_at IS NULL OR q.due_at <= clock_timestamp() + make_interval(secs => $1)))";

const ENDED: &str = "
    WITH ended AS (
        SELECT d.status, d.completed_at, i.id, i.label, left(d.output #>> '{}', 500) AS said
        FROM df._done d JOIN df._instance i ON i.seq = d.seq
        WHERE d.completed_at >= $1::text::timestamptz AND i.parent IS NULL
    )
    SELECT json_build_object(
        'completed', (SELECT count(*) FROM ended e WHERE e.status = 'c'),
        'failed', (SELECT count(*) FROM ended e WHERE e.status = 'f'),
        'cancelled', (SELECT count(*) FROM ended e WHERE e.status = 'x'),
        'waiting', (SELECT count(*) FROM df._work) + (SELECT count(*) FROM df._queued),
        'failures', coalesce((SELECT json_agg(json_build_object('id', f.id, 'label', f.label, 'error', f.said) ORDER BY f.completed_at)
            FROM (SELECT * FROM ended e WHERE e.status = 'f' ORDER BY e.completed_at LIMIT $2) f), '[]'))::text";

/// How the instances have ended that ended while a worker ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// How many completed; children are not counted here, nor below.
    pub completed: i64,
    /// How many failed.
    pub failed: i64,
    /// How many were cancelled.
    pub cancelled: i64,
    /// How many go on only when somebody has them do so, or later than was waited for. Children are among them.
    pub waiting: i64,
    /// The first of those that failed, at most [`FAILED_MAX`].
    pub failures: Vec<Failed>,
}

/// An instance that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// Its id.
    pub id: String,
    /// Its label.
    pub label: Option<String>,
    /// Why, up to 500 characters.
    pub error: Option<String>,
}

/// Why a worker does not come to rest.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestError {
    /// What answers at its address is another copy of the database.
    #[error("{0}")]
    Copy(String),
}

impl Monitor {
    /// Waits until nothing runs any more, and nothing is due within `horizon`. While the database does not answer, it waits on.
    ///
    /// # Errors
    /// [`RestError`].
    pub async fn rests(&self, horizon: Duration) -> Result<Ended, RestError> {
        let mut client: Option<Client> = None;
        let mut looks = 0;
        loop {
            match self.look(&mut client, horizon, looks + 1 >= LOOKS).await {
                Ok(Look::Busy) => looks = 0,
                Ok(Look::Rests(None)) => looks += 1,
                Ok(Look::Rests(Some(ended))) => return Ok(ended),
                Err(error @ TurnError::Copy { .. }) => return Err(RestError::Copy(error.to_string())),
                Err(error) => {
                    tracing::debug!(%error, "it cannot be seen what is left to do");
                    (client, looks) = (None, 0);
                }
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// Returns when what answers at the worker's address is another copy of the database.
    pub async fn is_replaced(&self) -> RestError {
        loop {
            sleep(LOOK_EVERY * 10).await;
            match self.shared().home().await {
                Err(error @ TurnError::Copy { .. }) => return RestError::Copy(error.to_string()),
                // A copy of its own has a secret of its own.
                Err(TurnError::Connect(error)) if error.to_string().contains(OTHER_SECRET) => {
                    return RestError::Copy(error.to_string())
                }
                _ => {}
            }
        }
    }

    async fn look(
        &self,
        client: &mut Option<Client>,
        horizon: Duration,
        is_last: bool,
    ) -> Result<Look, TurnError> {
        let shared = self.shared();
        if client.as_ref().is_none_or(Client::is_closed) {
            *client = Some(shared.home().await?);
        }
        let Some(client) = client else { return Ok(Look::Busy) };
        let seconds = horizon.as_secs_f64();
        let is_busy: bool = client.query_typed_one(REST, &[(&seconds, Type::FLOAT8)]).await?.get(0);
        if is_busy {
            return Ok(Look::Busy);
        }
        if !is_last {
            return Ok(Look::Rests(None));
        }
        let most = i64::from(FAILED_MAX);
        let since = shared.began.as_str();
        let row = client.query_typed_one(ENDED, &[(&since, Type::TEXT), (&most, Type::INT8)]).await?;
        let ended = serde_json::from_str(row.get(0))
            .map_err(|source| TurnError::Encoding { what: "how instances ended", source })?;
        Ok(Look::Rests(Some(ended)))
    }
}

enum Look {
    Busy,
    Rests(Option<Ended>),
}
