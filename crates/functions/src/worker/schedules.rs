//! Starts what schedules are due. When that is, is worked out here, where the calendar is; what is started, and how often, is
//! decided in the database, under a lock on the schedule.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::sleep;
use tokio_postgres::{
    types::{ToSql, Type},
    Client, Row,
};

use super::control::{drains, seconds};
use super::lanes::ERROR_PAUSES;
use super::metrics::add;
use super::shared::Shared;
use super::turn::TurnError;
use crate::schedule::Schedule;

/// How many times of one schedule are made up for, or filled in, by one look.
const TIMES_MAX: usize = 100;
/// A look may be put off so long when the clock of the database is asked again.
const LONGEST: Duration = Duration::from_secs(3_600);

/// When a schedule comes.
enum Rhythm {
    Cron(Schedule),
    Every(SignedDuration),
}

impl Rhythm {
    fn read(row: &Row) -> Result<Rhythm, String> {
        match row.get::<_, Option<&str>>("cron") {
            Some(cron) => Schedule::parse(cron, row.get("time_zone"))
                .map(Rhythm::Cron)
                .map_err(|error| error.to_string()),
            None => {
                let every: f64 = row.get::<_, Option<f64>>("every_s").ok_or("it has no time at all")?;
                SignedDuration::try_from_secs_f64(every.max(1.0))
                    .map(Rhythm::Every)
                    .map_err(|error| error.to_string())
            }
        }
    }

    /// The first time behind this one. Intervals are counted from the time before.
    fn after(&self, time: Timestamp) -> Option<Timestamp> {
        match self {
            Rhythm::Cron(schedule) => schedule.next_after(time),
            Rhythm::Every(every) => time.checked_add(*every).ok(),
        }
    }
}

/// What is to be done about a schedule.
#[derive(Debug, Default, PartialEq, Eq)]
struct Due {
    /// To be started.
    times: Vec<Timestamp>,
    /// The time behind these.
    next: Option<Timestamp>,
    /// Times of a backfill, and from where on it goes on.
    filled: Vec<Timestamp>,
    fill_from: Option<Timestamp>,
}

/// Which times have come. `next` is the first that has not been seen to; without one the schedule begins now.
fn due(
    rhythm: &Rhythm,
    now: Timestamp,
    next: Option<Timestamp>,
    catch_up: SignedDuration,
    fill: Option<(Timestamp, Timestamp)>,
) -> Due {
    let mut due = Due { next: next.or_else(|| rhythm.after(now)), ..Due::default() };
    let oldest = now.checked_sub(catch_up).unwrap_or(Timestamp::MIN);
    while let Some(time) = due.next.filter(|time| *time <= now) {
        if due.times.len() == TIMES_MAX {
            // The rest follows with the next look.
            break;
        }
        let following = rhythm.after(time);
        // One whose time has just come is never too late: nothing is quicker than this look.
        let is_latest = following.is_none_or(|following| following > now);
        let just = now.duration_since(time) < SignedDuration::from_secs(10);
        if time >= oldest || (is_latest && just) {
            due.times.push(time);
            due.next = following;
        } else if let Rhythm::Cron(_) = rhythm {
            // Years may have passed: the first one that is not too old follows the time before which all are.
            due.next = rhythm.after(oldest - SignedDuration::from_nanos(1)).max(following);
        } else {
            due.next = Some(skip(rhythm, time, oldest).unwrap_or(now));
        }
    }
    if let Some((from, to)) = fill {
        let mut next = match rhythm {
            Rhythm::Cron(_) => rhythm.after(from - SignedDuration::from_nanos(1)),
            Rhythm::Every(_) => Some(from),
        };
        while let Some(time) = next.filter(|time| *time <= to) {
            if due.filled.len() == TIMES_MAX {
                break;
            }
            due.filled.push(time);
            next = rhythm.after(time);
        }
        due.fill_from = next.filter(|next| *next <= to);
    }
    due
}

/// The first time of an interval that is not older than that.
fn skip(rhythm: &Rhythm, time: Timestamp, oldest: Timestamp) -> Option<Timestamp> {
    let Rhythm::Every(every) = rhythm else { return None };
    let behind = oldest.duration_since(time).as_nanos();
    let count = (behind + every.as_nanos() - 1) / every.as_nanos();
    let whole = i64::try_from(count * every.as_nanos()).ok()?;
    time.checked_add(SignedDuration::from_nanos(whole)).ok()
}

/// How much of the jitter a time is put off by: the same for every worker that looks.
fn put_off(time: Timestamp, id: i64, jitter_s: f64) -> SignedDuration {
    let mut seed = (time.as_second() as u64) ^ (id as u64).rotate_left(32);
    seed = (seed ^ (seed >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    seed = (seed ^ (seed >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    let part = ((seed ^ (seed >> 33)) >> 11) as f64 / (1u64 << 53) as f64;
    SignedDuration::try_from_secs_f64(part * jitter_s).unwrap_or_default()
}

/// What is to be done about the schedule of a row, and when it is seen to again.
fn what_is_due(row: &Row, id: i64, now: Timestamp) -> Result<(Due, Option<Timestamp>), String> {
    let rhythm = Rhythm::read(row)?;
    let catch_up = SignedDuration::try_from_secs_f64(row.get("catch_up_s"));
    let catch_up = catch_up.map_err(|error| format!("what it catches up on: {error}"))?;
    let fill = row.get::<_, Option<Timestamp>>("backfill_from").zip(row.get("backfill_to"));
    let found = due(&rhythm, now, row.get("next_at"), catch_up, fill);
    let due_at = found.next.and_then(|next| next.checked_add(put_off(next, id, row.get("jitter_s"))).ok());
    Ok((found, due_at))
}

/// Sees to schedules when they are due or were changed.
pub(crate) async fn fire(shared: Arc<Shared>) {
    let mut draining = shared.draining.subscribe();
    let mut client: Option<Client> = None;
    let mut error_pause = ERROR_PAUSES.0;
    while !shared.is_draining() {
        let due_in = match look(&shared, &mut client).await {
            Ok(due_in) => {
                error_pause = ERROR_PAUSES.0;
                due_in.unwrap_or(LONGEST).min(LONGEST)
            }
            Err(error) => {
                add(&shared.metrics.failed_schedules_total, 1);
                tracing::warn!(%error, "schedules cannot be looked at; the worker tries again");
                client = None;
                error_pause = (error_pause * 2).min(ERROR_PAUSES.1);
                error_pause
            }
        };
        tokio::select! {
            () = shared.schedules.notified() => {}
            // Another worker may be at it.
            () = sleep(due_in.max(Duration::from_millis(5))) => {}
            () = drains(&mut draining) => {}
        }
    }
}

/// One look; in which time the next one is due.
async fn look(shared: &Shared, client: &mut Option<Client>) -> Result<Option<Duration>, TurnError> {
    if client.as_ref().is_none_or(Client::is_closed) {
        *client = Some(shared.home().await?);
    }
    let Some(client) = client else { unreachable!("it was set above") };
    let due_in = "SELECT df._schedule_due_in_s()";
    let first: Option<f64> = client.query_typed_one(due_in, &[]).await?.get(0);
    if first.is_none_or(|seconds| seconds > 0.0) {
        return Ok(seconds(first));
    }
    let mut transaction = client.transaction().await?;
    let rows = transaction.query_typed("SELECT * FROM df._due_schedules()", &[]).await?;
    let mut started = false;
    for row in &rows {
        let id: i64 = row.get("id");
        let now: Timestamp = row.get("now");
        let (found, due_at) = match what_is_due(row, id, now) {
            Ok(found) => found,
            Err(error) => {
                // Somebody has changed it by hand: it never comes.
                tracing::warn!(schedule = id, error, "a schedule cannot be read");
                (Due::default(), None)
            }
        };
        // What never comes again is looked at again in a year, and not all the time.
        let never = now.checked_add(SignedDuration::from_hours(24 * 365)).unwrap_or(Timestamp::MAX);
        let (next, due_at) = (found.next.unwrap_or(never), due_at.unwrap_or(never));
        started |= !found.times.is_empty() || !found.filled.is_empty();
        let parameters: [(&(dyn ToSql + Sync), Type); 6] = [
            (&id, Type::INT8),
            (&found.times, Type::TIMESTAMPTZ_ARRAY),
            (&next, Type::TIMESTAMPTZ),
            (&due_at, Type::TIMESTAMPTZ),
            (&found.filled, Type::TIMESTAMPTZ_ARRAY),
            (&found.fill_from, Type::TIMESTAMPTZ),
        ];
        // One that the server refuses keeps no other from being started.
        let alone = transaction.transaction().await?;
        match alone.query_typed("SELECT df._fire($1, $2, $3, $4, $5, $6)", &parameters).await {
            Ok(_) => alone.commit().await?,
            Err(error) if error.as_db_error().is_none() => return Err(error.into()),
            Err(error) => {
                tracing::warn!(schedule = id, %error, "a schedule starts nothing, and is tried again in a minute");
                alone.rollback().await?;
                transaction.query_typed("SELECT df._put_off($1)", &[(&id, Type::INT8)]).await?;
            }
        }
    }
    transaction.commit().await?;
    if started {
        shared.wake();
        shared.queues.notify_one();
    }
    let next: Option<f64> = client.query_typed_one(due_in, &[]).await?.get(0);
    Ok(seconds(next))
}

#[cfg(test)]
mod tests;
