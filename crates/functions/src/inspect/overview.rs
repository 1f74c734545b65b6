//! What goes on in a database: how many instances there are, and who runs them.

use super::LIST_MAX;
use crate::schema::SCHEMA_VERSION;
use jiff::Timestamp;
use tokio_postgres::{types::Type, Client, Error, Row};

/// How far is counted.
const COUNT_MAX: i64 = 100_000;

/// One more than the limit says that there are more. What ended is counted in its own table, which has the status.
const FIGURES: &str = "\
    SELECT clock_timestamp() AS at, current_user::text AS role, row_security_active('df._instance'::regclass) AS sees_own, \
        (SELECT count(*) FROM (SELECT FROM df._ready LIMIT $1) x) AS ready, \
        (SELECT count(*) FROM (SELECT FROM df._queued LIMIT $1) x) AS queued, \
        (SELECT count(*) FROM (SELECT FROM df._work LIMIT $1) x) AS running, \
        (SELECT count(*) FROM (SELECT FROM df._done d WHERE d.status = 'c' LIMIT $1) x) AS completed, \
        (SELECT count(*) FROM (SELECT FROM df._done d WHERE d.status <> 'c' AND d.status = 'f' LIMIT $1) x) AS failed, \
        (SELECT count(*) FROM (SELECT FROM df._done d WHERE d.status <> 'c' AND d.status = 'x' LIMIT $1) x) AS cancelled, \
        (SELECT count(*) FROM (SELECT FROM df._activity LIMIT $1) x) AS activities, \
        (SELECT count(*) FROM (SELECT FROM df._activity WHERE owner IS NOT NULL LIMIT $1) x) AS activities_running, \
        (SELECT extract(epoch FROM clock_timestamp() - least((SELECT min(r.created_at) FROM df._ready r), \
            (SELECT min(q.created_at) FROM df._queued q)))::float8) AS oldest_pending_s, \
        has_table_privilege('df._worker_epoch', 'SELECT') AS sees_workers";
const WORKERS: &str = "\
    SELECT epoch_id::text AS id, left(host, 200) AS host, \
        extract(epoch FROM clock_timestamp() - started_at)::float8 AS alive_s, \
        extract(epoch FROM clock_timestamp() - last_seen_at)::float8 AS last_seen_s \
    FROM df._worker_epoch ORDER BY started_at, epoch_id LIMIT $1";

/// How many there are, as far as is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    /// So many.
    pub count: i64,
    /// There are more, and they were not counted.
    pub more: bool,
}

impl Count {
    fn of(found: i64) -> Count {
        Count { count: found.min(COUNT_MAX), more: found > COUNT_MAX }
    }
}

/// Instances by status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counts {
    /// No worker has begun them.
    pub pending: Count,
    /// They have begun.
    pub running: Count,
    /// They have a result.
    pub completed: Count,
    /// A step failed.
    pub failed: Count,
    /// They were ended from outside.
    pub cancelled: Count,
}

/// What goes on.
#[derive(Debug, Clone, PartialEq)]
pub struct Overview {
    /// The database.
    pub database: String,
    /// The role that looks.
    pub role: String,
    /// Whether it sees the instances of all roles, and not only its own.
    pub sees_all: bool,
    /// The version of the schema.
    pub schema_version: i32,
    /// When this was so, by the server's clock.
    pub at: Timestamp,
    /// Instances by status.
    pub counts: Counts,
    /// For how long the oldest that is pending has waited, in seconds.
    pub oldest_pending_s: Option<f64>,
    /// Long steps, HTTP calls and the like, waiting or running.
    pub activities: Count,
    /// Those of them that run.
    pub activities_running: Count,
    /// Who runs instances. `None`: this role may not see them.
    pub workers: Option<Vec<Worker>>,
}

/// A worker.
#[derive(Debug, Clone, PartialEq)]
pub struct Worker {
    /// Its id.
    pub id: String,
    /// Where it runs.
    pub host: Option<String>,
    /// For how long it has been there, in seconds.
    pub alive_s: f64,
    /// When it was last heard of, in seconds ago.
    pub last_seen_s: f64,
}

pub(super) async fn read(client: &Client, database: &str) -> Result<Overview, Error> {
    let row = client.query_typed_one(FIGURES, &[(&(COUNT_MAX + 1), Type::INT8)]).await?;
    let count = |name: &str| row.try_get(name).map(Count::of);
    let pending = row.try_get::<_, i64>("ready")?.saturating_add(row.try_get("queued")?);
    let workers = if row.try_get("sees_workers")? {
        let rows = client.query_typed(WORKERS, &[(&(LIST_MAX as i64), Type::INT8)]).await?;
        Some(rows.iter().map(worker).collect::<Result<Vec<_>, Error>>()?)
    } else {
        None
    };
    Ok(Overview {
        database: database.to_owned(),
        role: row.try_get("role")?,
        sees_all: !row.try_get::<_, bool>("sees_own")?,
        schema_version: SCHEMA_VERSION,
        at: row.try_get("at")?,
        counts: Counts {
            pending: Count::of(pending),
            running: count("running")?,
            completed: count("completed")?,
            failed: count("failed")?,
            cancelled: count("cancelled")?,
        },
        oldest_pending_s: row.try_get("oldest_pending_s")?,
        activities: count("activities")?,
        activities_running: count("activities_running")?,
        workers,
    })
}

fn worker(row: &Row) -> Result<Worker, Error> {
    Ok(Worker {
        id: row.try_get("id")?,
        host: row.try_get("host")?,
        alive_s: row.try_get("alive_s")?,
        last_seen_s: row.try_get("last_seen_s")?,
    })
}
