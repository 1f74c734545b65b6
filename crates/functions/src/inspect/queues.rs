//! Queues: their limits, and how full they are.

use super::LIST_MAX;
use serde::Serialize;
use tokio_postgres::{types::Type, Client, Error, Row};

const QUEUES: &str = "\
    SELECT left(name, 200) AS name, submitted_by::text AS role, state, concurrency, worker_concurrency, rate, \
        extract(epoch FROM per)::float8 AS per_s, partition_by, partition_concurrency, waiting, delayed, oldest_s, \
        running, admitted \
    FROM df.queues() LIMIT $1";

/// A queue.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Queue {
    /// Its name.
    pub name: String,
    /// Whose it is.
    pub role: String,
    /// `open`, `paused` or `draining`.
    pub state: String,
    /// How many of its instances may go on at once.
    pub concurrency: Option<i32>,
    /// How many of their long steps one worker may run at once.
    pub worker_concurrency: Option<i32>,
    /// How many may begin within `per_s`.
    pub rate: Option<i32>,
    /// The time that the rate is for, in seconds.
    pub per_s: Option<f64>,
    /// The key of the input that says to which partition an instance belongs.
    pub partition_by: Option<String>,
    /// How many of one partition may go on at once.
    pub partition_concurrency: Option<i32>,
    /// How many wait to be let in.
    pub waiting: i64,
    /// How many wait for their time.
    pub delayed: i64,
    /// For how long the oldest has waited to be let in, in seconds.
    pub oldest_s: Option<f64>,
    /// How many were let in and have not ended.
    pub running: i64,
    /// How many were let in within the time of the rate; absent without a rate.
    pub admitted: Option<i64>,
}

impl Queue {
    fn read(row: &Row) -> Result<Queue, Error> {
        Ok(Queue {
            name: row.try_get("name")?,
            role: row.try_get("role")?,
            state: row.try_get("state")?,
            concurrency: row.try_get("concurrency")?,
            worker_concurrency: row.try_get("worker_concurrency")?,
            rate: row.try_get("rate")?,
            per_s: row.try_get("per_s")?,
            partition_by: row.try_get("partition_by")?,
            partition_concurrency: row.try_get("partition_concurrency")?,
            waiting: row.try_get("waiting")?,
            delayed: row.try_get("delayed")?,
            oldest_s: row.try_get("oldest_s")?,
            running: row.try_get("running")?,
            admitted: row.try_get("admitted")?,
        })
    }
}

/// The queues that the role of a session sees, by role and name; at most [`LIST_MAX`].
///
/// # Errors
/// What the server says against it.
pub async fn queues(client: &Client) -> Result<Vec<Queue>, Error> {
    let rows = client.query_typed(QUEUES, &[(&(LIST_MAX as i64), Type::INT8)]).await?;
    rows.iter().map(Queue::read).collect()
}
