//! Schedules: what is started at which times, and when next.

use super::LIST_MAX;
use crate::schedule::Schedule;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use tokio_postgres::{types::Type, Client, Error, Row};

/// How many of the next times are told.
pub const NEXT_TIMES: usize = 5;
/// Of how many schedules more than the next time is told: the rarest need years of the calendar to be looked through.
const LOOKED_AHEAD: usize = 1000;

const SCHEDULES: &str = "\
    SELECT left(name, 200) AS name, submitted_by::text AS role, cron, time_zone, extract(epoch FROM every)::float8 AS every_s, \
        overlap, queue, paused, next_at, last_at, last_id, last_status, started, skipped \
    FROM df.schedules() LIMIT $1";

/// A schedule.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Scheduled {
    /// Its name.
    pub name: String,
    /// Whose it is.
    pub role: String,
    /// The times, in five fields.
    pub cron: Option<String>,
    /// The time zone of `cron`.
    pub time_zone: String,
    /// Or an interval, in seconds.
    pub every_s: Option<f64>,
    /// What happens when the instance before still goes on: `skip`, `allow`, `buffer` or `cancel`.
    pub overlap: String,
    /// The queue in which its instances wait.
    pub queue: Option<String>,
    /// It starts nothing.
    pub paused: bool,
    /// When it starts the next one.
    pub next_at: Option<Timestamp>,
    /// The last time that it started one.
    pub last_at: Option<Timestamp>,
    /// The instance that it started last.
    pub last_id: Option<String>,
    /// How that one stands.
    pub last_status: Option<String>,
    /// How many it has started.
    pub started: i64,
    /// How many times it has skipped.
    pub skipped: i64,
    /// The next times, if it is not paused: the first is `next_at`, those behind it without jitter. At most [`NEXT_TIMES`].
    #[serde(skip)]
    pub next: Vec<Timestamp>,
}

impl Scheduled {
    fn read(row: &Row) -> Result<Scheduled, Error> {
        Ok(Scheduled {
            name: row.try_get("name")?,
            role: row.try_get("role")?,
            cron: row.try_get("cron")?,
            time_zone: row.try_get("time_zone")?,
            every_s: row.try_get("every_s")?,
            overlap: row.try_get("overlap")?,
            queue: row.try_get("queue")?,
            paused: row.try_get("paused")?,
            next_at: row.try_get("next_at")?,
            last_at: row.try_get("last_at")?,
            last_id: row.try_get("last_id")?,
            last_status: row.try_get("last_status")?,
            started: row.try_get("started")?,
            skipped: row.try_get("skipped")?,
            next: Vec::new(),
        })
    }

    /// The next times, as far as they can be told from here.
    fn look_ahead(&self) -> Vec<Timestamp> {
        let Some(first) = self.next_at.filter(|_| !self.paused) else { return Vec::new() };
        let cron = self.cron.as_deref().and_then(|cron| Schedule::parse(cron, &self.time_zone).ok());
        let every = self.every_s.and_then(|every| SignedDuration::try_from_secs_f64(every).ok());
        let after = |time: &Timestamp| match (&cron, every) {
            (Some(cron), _) => cron.next_after(*time),
            (None, Some(every)) if every.is_positive() => time.checked_add(every).ok(),
            (None, _) => None,
        };
        std::iter::successors(Some(first), after).take(NEXT_TIMES).collect()
    }
}

/// The schedules that the role of a session sees, by role and name; at most [`LIST_MAX`].
///
/// # Errors
/// What the server says against it.
pub async fn schedules(client: &Client) -> Result<Vec<Scheduled>, Error> {
    let rows = client.query_typed(SCHEDULES, &[(&(LIST_MAX as i64), Type::INT8)]).await?;
    let mut schedules = rows.iter().map(Scheduled::read).collect::<Result<Vec<_>, Error>>()?;
    for schedule in schedules.iter_mut().take(LOOKED_AHEAD) {
        schedule.next = schedule.look_ahead();
    }
    Ok(schedules)
}
