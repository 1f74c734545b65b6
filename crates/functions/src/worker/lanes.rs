//! Lanes take turns. The leader looks for work, in ever longer steps, and declares the worker asleep when there is
//! none; helpers join while there is.

use std::collections::VecDeque;
use std::sync::{atomic::Ordering, Arc};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::time::sleep;
use tokio_postgres::{types::Type, Client};
use tracing::Instrument;

use duramen_measure::clock;

use super::control::drains;
use super::executors;
use super::metrics::add;
use super::session::Place;
use super::shared::Shared;
use super::turn::{self, Report, TurnError};

/// How often a busy worker makes sure that starters know.
const SAY_AWAKE: Duration = Duration::from_secs(1);
/// How many instances a turn takes at most.
const MANY: i32 = 100;
/// Pauses between looks while there is nothing; after the last the worker falls asleep.
const PAUSES: [Duration; 6] = [
    Duration::from_micros(300),
    Duration::from_micros(600),
    Duration::from_millis(1),
    Duration::from_millis(3),
    Duration::from_millis(6),
    Duration::from_millis(10),
];
/// Looks after falling asleep: a starter that saw the worker awake may still be committing.
const LAST_LOOKS: [Duration; 4] =
    [Duration::ZERO, Duration::from_millis(5), Duration::from_millis(50), Duration::from_millis(250)];
/// After so many turns of one role others are asked for.
const TURNS_OF_A_ROLE: u32 = 16;
/// Pause after an error, doubled up to the second.
const ERROR_PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// From which number on new instances are looked for. Rows that were taken stay in the index until vacuum comes, and
/// with a snapshot held open somewhere it does not: looks begin behind them. A starter whose commit came late is found
/// by the look from the beginning, once a second.
#[derive(Default)]
pub(crate) struct Cursor {
    taken: VecDeque<(Instant, i64)>,
    settled: i64,
    from_beginning: Option<Instant>,
}

/// How long a number is waited for after a higher one was seen.
const SETTLE: Duration = Duration::from_millis(100);
/// How often everything is looked at.
const FULL_LOOK: Duration = Duration::from_secs(1);

impl Cursor {
    fn after(&mut self) -> i64 {
        while self.taken.front().is_some_and(|(at, _)| at.elapsed() > SETTLE) {
            if let Some((_, number)) = self.taken.pop_front() {
                self.settled = self.settled.max(number);
            }
        }
        if self.from_beginning.is_none_or(|at| at.elapsed() > FULL_LOOK) {
            self.from_beginning = Some(clock::now());
            return 0;
        }
        self.settled
    }

    /// The next look is at everything.
    fn restart(&mut self) {
        self.from_beginning = None;
    }

    fn took(&mut self, newest: i64) {
        if newest > 0 {
            self.taken.push_back((clock::now(), newest));
        }
    }
}

/// A lane's own state.
struct Lane {
    shared: Arc<Shared>,
    cursor: Arc<Mutex<Cursor>>,
    /// Reads which roles wait.
    scout: Option<Client>,
    place: Option<Place>,
    turns_of_place: u32,
}

/// The lane that never stops looking. There is one a worker.
pub(crate) async fn lead(shared: Arc<Shared>, cursor: Arc<Mutex<Cursor>>) {
    let mut lane = Lane::new(shared, cursor);
    let mut idle = 0;
    lane.set_asleep(false).await;
    let mut said_awake = clock::now();
    let mut draining = lane.shared.draining.subscribe();
    let mut error_pause = ERROR_PAUSES.0;
    while !lane.shared.is_draining() {
        match lane.look().await {
            Ok(report) if report.claimed > 0 => {
                error_pause = ERROR_PAUSES.0;
                idle = 0;
                // Another worker that ends says that all sleep.
                if lane.shared.asleep.load(Ordering::Relaxed) || said_awake.elapsed() > SAY_AWAKE {
                    lane.set_asleep(false).await;
                    said_awake = clock::now();
                }
                // Whoever waits joins in.
                lane.shared.turns.notify_one();
                continue;
            }
            Ok(_) => error_pause = ERROR_PAUSES.0,
            Err(error) => {
                lane.report(&error);
                sleep(error_pause).await;
                error_pause = (error_pause * 2).min(ERROR_PAUSES.1);
                continue;
            }
        }
        let pause = if idle < PAUSES.len() {
            Some(PAUSES[idle])
        } else {
            if idle == PAUSES.len() {
                lane.set_asleep(true).await;
            }
            LAST_LOOKS.get(idle - PAUSES.len()).copied()
        };
        idle += 1;
        if idle > PAUSES.len() {
            lane.cursor.lock().restart();
        }
        tokio::select! {
            () = lane.shared.turns.notified() => {}
            () = async { match pause { Some(pause) => sleep(pause).await, None => std::future::pending().await } } => {}
            () = drains(&mut draining) => {}
        }
    }
}

/// A lane that looks only when there is reason to.
pub(crate) async fn help(shared: Arc<Shared>, cursor: Arc<Mutex<Cursor>>) {
    let mut lane = Lane::new(shared, cursor);
    let mut draining = lane.shared.draining.subscribe();
    while !lane.shared.is_draining() {
        tokio::select! {
            () = lane.shared.turns.notified() => {}
            () = drains(&mut draining) => return,
        }
        loop {
            match lane.look().await {
                Ok(report) if report.claimed > 0 => {}
                Ok(_) => break,
                Err(error) => {
                    lane.report(&error);
                    sleep(ERROR_PAUSES.0).await;
                    break;
                }
            }
        }
    }
}

impl Lane {
    fn new(shared: Arc<Shared>, cursor: Arc<Mutex<Cursor>>) -> Self {
        Self { shared, cursor, scout: None, place: None, turns_of_place: 0 }
    }

    fn report(&self, error: &TurnError) {
        add(&self.shared.metrics.failed_turns_total, 1);
        tracing::warn!(%error, "a turn came to nothing and is taken again");
    }

    /// One turn of the role that has the floor; if that finds nothing, of the role that waits longest.
    async fn look(&mut self) -> Result<Report, TurnError> {
        let after = self.cursor.lock().after();
        if self.place.is_some() && self.turns_of_place < TURNS_OF_A_ROLE {
            let report = self.turn(after).await?;
            if report.claimed > 0 {
                return Ok(report);
            }
        }
        self.turns_of_place = 0;
        let waiting = self.waiting(after).await?;
        let current = self.place.as_ref().map(|place| place.role);
        // Another role goes before the one that has just had its turns.
        let next = waiting.iter().find(|place| Some(place.role) != current).or(waiting.first());
        match next {
            Some(place) => {
                self.place = Some(place.clone());
                self.turn(after).await
            }
            None => {
                add(&self.shared.metrics.empty_looks_total, 1);
                Ok(Report::default())
            }
        }
    }

    async fn turn(&mut self, after: i64) -> Result<Report, TurnError> {
        let Some(place) = self.place.clone() else { return Ok(Report::default()) };
        if !executors::ensure(&self.shared, &place).await? {
            // Its steps cannot run here; on their own they fail with the reason.
            self.shared.without_role(place.role);
        }
        self.turns_of_place += 1;
        let mut claimed = Vec::new();
        let span = tracing::debug_span!("turn", role = place.role_name);
        match turn::take(&self.shared, &place, after, MANY, &mut claimed).instrument(span).await {
            Ok(report) => {
                self.cursor.lock().took(report.newest);
                self.shared.note(&report);
                if report.claimed > 0 {
                    add(&self.shared.metrics.turns_total, 1);
                }
                Ok(report)
            }
            Err(error) => {
                self.cursor.lock().restart();
                if matches!(error, TurnError::Steps(_)) {
                    self.shared.suspect(&claimed);
                }
                // The executor may be gone, with its role's other objects.
                self.shared.executors.lock().await.remove(&place.role);
                Err(error)
            }
        }
    }

    async fn scout(&mut self) -> Result<&Client, TurnError> {
        if self.scout.as_ref().is_none_or(Client::is_closed) {
            // Whether somebody sleeps is not worth a flush.
            self.scout = Some(self.shared.target.clone().settings([("synchronous_commit", "off")]).connect().await?);
        }
        match &self.scout {
            Some(scout) => Ok(scout),
            None => unreachable!("it was set above"),
        }
    }

    async fn waiting(&mut self, after: i64) -> Result<Vec<Place>, TurnError> {
        let database = self.shared.target.database_name().to_owned();
        let scout = self.scout().await?;
        let rows =
            scout.query_typed("SELECT role, role_name FROM df._waiting($1)", &[(&after, Type::INT8)]).await?;
        Ok(rows
            .iter()
            .map(|row| Place { role: row.get(0), role_name: row.get(1), database: database.clone() })
            .collect())
    }

    async fn set_asleep(&mut self, asleep: bool) {
        let set = async {
            let scout = self.scout().await?;
            scout.query_typed("SELECT df._set_asleep($1)", &[(&asleep, Type::BOOL)]).await?;
            Ok::<(), TurnError>(())
        };
        match set.await {
            Ok(()) => self.shared.asleep.store(asleep, Ordering::Relaxed),
            Err(error) => tracing::warn!(%error, "starters cannot be told whether the worker sleeps"),
        }
    }
}
