//! Lanes take turns. The leader looks for work, in ever longer steps, and declares the worker asleep when there is
//! none; helpers join while there is.

use std::collections::{HashMap, VecDeque};
use std::sync::{atomic::Ordering, Arc};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::time::sleep;
use tokio_postgres::{types::Type, Client};
use tracing::Instrument;

use duramen_base::clock;

use super::control::{drains, seconds};
use super::executors;
use super::metrics::{add, Busy};
use super::session::Place;
use super::shared::Shared;
use super::turn::{self, Report, Share, TurnError};

/// How often a busy worker makes sure that starters know.
const SAY_AWAKE: Duration = Duration::from_secs(1);
/// How many instances a turn takes at least, when there are so many, and at most.
const MANY: (i32, i32) = (5, 100);
/// A turn that takes longer than the second was too large, and one that takes less than the first may be larger.
const TURN_TIMES: (Duration, Duration) = (Duration::from_millis(15), Duration::from_millis(30));
/// Pauses between looks while there is nothing; after the last the worker falls asleep.
pub(crate) const PAUSES: [Duration; 6] = [
    Duration::from_micros(300),
    Duration::from_micros(600),
    Duration::from_millis(1),
    Duration::from_millis(3),
    Duration::from_millis(6),
    Duration::from_millis(10),
];
/// Looks after falling asleep: a starter that saw the worker awake may still be committing.
pub(crate) const LAST_LOOKS: [Duration; 4] =
    [Duration::ZERO, Duration::from_millis(5), Duration::from_millis(50), Duration::from_millis(250)];
/// Helpers join when a turn of the leader takes this long, or takes as many as it may. Else they would only share its
/// work out into smaller turns, which cost more each.
const JOIN_AFTER: Duration = Duration::from_millis(5);
/// And they are called again after each such time, for what has come meanwhile. Turns of a usual length are over by then.
const JOIN_AGAIN: Duration = Duration::from_millis(50);
/// After so many turns of one role others are asked for.
const TURNS_OF_A_ROLE: u32 = 16;
/// Pause after an error, doubled up to the second.
pub(crate) const ERROR_PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// From which number on new instances are looked for. Rows that were taken stay in the index until vacuum comes, and
/// with a snapshot held open somewhere it does not: looks begin behind them. A starter whose commit came late is found
/// by the look further back that comes now and then, and by that from the beginning, once a second.
#[derive(Default)]
pub(crate) struct Cursor {
    /// When turns have taken up to which numbers, both ascending.
    taken: VecDeque<(Instant, i64)>,
    /// What is not above it was taken so long ago that it is not looked at but from the beginning.
    floor: i64,
    /// When it was last looked at everything, and further back, by a turn that enters and by one that leaves alone what comes for
    /// queues.
    entering: Looks,
    beside_queues: Looks,
}

/// When looks were made.
#[derive(Clone, Copy, Default)]
struct Looks {
    from_beginning: Option<Instant>,
    from_floor: Option<Instant>,
}

/// How long a number is waited for after a higher one was seen, by every look and by those further back.
const LATE_COMMIT: Duration = Duration::from_millis(3);
const VERY_LATE_COMMIT: Duration = Duration::from_millis(100);
/// How often it is looked so far back.
const LATE_LOOK: Duration = Duration::from_millis(10);
/// How often everything is looked at.
const FULL_LOOK: Duration = Duration::from_secs(1);

impl Cursor {
    /// From where on a turn looks that `enters`, or leaves alone what comes for queues.
    fn after(&mut self, now: Instant, enters: bool) -> i64 {
        while self.taken.front().is_some_and(|(at, _)| now.duration_since(*at) > VERY_LATE_COMMIT) {
            if let Some((_, number)) = self.taken.pop_front() {
                self.floor = self.floor.max(number);
            }
        }
        let (after, looks) = self.next(now, if enters { self.entering } else { self.beside_queues });
        self.beside_queues = looks;
        if enters {
            self.entering = looks;
        }
        after
    }

    /// From where on it is asked whether there is anything: 0 when a look at everything is due.
    fn peek(&self, now: Instant) -> i64 {
        self.next(now, self.entering).0
    }

    /// From where on a look is made after these, and what they are then.
    fn next(&self, now: Instant, mut looks: Looks) -> (i64, Looks) {
        let is_due = |last: Option<Instant>, every| last.is_none_or(|at| now.duration_since(at) > every);
        if is_due(looks.from_beginning, FULL_LOOK) {
            return (0, Looks { from_beginning: Some(now), from_floor: Some(now) });
        }
        if is_due(looks.from_floor, LATE_LOOK) {
            looks.from_floor = Some(now);
            return (self.floor, looks);
        }
        let old = self.taken.partition_point(|(at, _)| now.duration_since(*at) > LATE_COMMIT);
        let newest = old.checked_sub(1).and_then(|index| self.taken.get(index));
        (newest.map_or(self.floor, |(_, number)| *number), looks)
    }

    /// The next look is at everything.
    fn restart(&mut self) {
        (self.entering, self.beside_queues) = (Looks::default(), Looks::default());
    }

    /// A turn took new ones up to this number, and all that came before, if it `enters`: else something that came for a queue
    /// may have been left alone.
    fn took(&mut self, now: Instant, newest: i64, enters: bool) {
        if newest > 0 && enters {
            let newest = self.taken.back().map_or(newest, |(_, last)| newest.max(*last));
            self.taken.push_back((now, newest));
        }
    }
}

/// The cursors of the roles.
pub(crate) type Cursors = Mutex<HashMap<u32, Cursor>>;

/// A lane's own state.
struct Lane {
    /// It is the one that never stops looking.
    leads: bool,
    shared: Arc<Shared>,
    cursors: Arc<Cursors>,
    /// Reads which roles wait.
    scout: Option<Client>,
    place: Option<Place>,
    turns_of_place: u32,
    /// How many instances the next turn takes.
    many: i32,
    /// The last turn took as many as it might: there are more.
    took_all: bool,
}

/// The lane that never stops looking. There is one a worker.
pub(crate) async fn lead(shared: Arc<Shared>, cursors: Arc<Cursors>) {
    let mut lane = Lane::new(shared, cursors, true);
    let mut idle = 0;
    // If it fails, starters believe what they did, until a turn has taken something.
    lane.set_asleep(false).await;
    let mut said_awake = clock::now();
    let mut draining = lane.shared.draining.subscribe();
    let mut error_pause = ERROR_PAUSES.0;
    while !lane.shared.is_draining() {
        let beside;
        match lane.look_or_call_helpers().await {
            Ok(report) if !report.is_empty() => {
                lane.shared.health.hears();
                error_pause = ERROR_PAUSES.0;
                idle = 0;
                // Another worker that ends says that all sleep.
                if lane.shared.asleep.load(Ordering::Relaxed) || said_awake.elapsed() > SAY_AWAKE {
                    lane.set_asleep(false).await;
                    said_awake = clock::now();
                }
                if lane.took_all {
                    lane.shared.turns.notify_one();
                }
                continue;
            }
            Ok(report) => {
                beside = report.beside;
                if beside {
                    // There is work, which another lane does: this one hears when that is over.
                    idle = idle.max(PAUSES.len() - 2);
                }
            }
            Err(error) => {
                lane.report(&error);
                sleep(error_pause).await;
                error_pause = (error_pause * 2).min(ERROR_PAUSES.1);
                idle = 0;
                continue;
            }
        }
        let pause = if idle < PAUSES.len() {
            Some(PAUSES[idle])
        } else {
            if idle == PAUSES.len() && !lane.set_asleep(true).await {
                // Starters would not notify a worker that they take to be awake: it stays so.
                sleep(error_pause).await;
                error_pause = (error_pause * 2).min(ERROR_PAUSES.1);
                idle = 0;
                continue;
            }
            LAST_LOOKS.get(idle - PAUSES.len()).copied()
        };
        idle += 1;
        if idle > PAUSES.len() {
            error_pause = ERROR_PAUSES.0;
            lane.cursors.lock().clear();
        }
        tokio::select! {
            // From the beginning: a timer may be a little early, and there may be a next one.
            () = lane.shared.lead.notified() => idle = 0,
            // Were it to fall asleep while there is work, every start would notify.
            () = lane.shared.until_let_in(), if beside => idle = 0,
            () = async { match pause { Some(pause) => sleep(pause).await, None => std::future::pending().await } } => {}
            () = drains(&mut draining) => {}
        }
    }
}

/// A lane that looks only when there is reason to.
pub(crate) async fn help(shared: Arc<Shared>, cursors: Arc<Cursors>) {
    let mut lane = Lane::new(shared, cursors, false);
    let mut draining = lane.shared.draining.subscribe();
    let mut error_pause = ERROR_PAUSES.0;
    while !lane.shared.is_draining() {
        tokio::select! {
            () = lane.shared.turns.notified() => {}
            () = drains(&mut draining) => return,
        }
        loop {
            match lane.look().await {
                // What comes for queues next is the leader's again, if it waits for that.
                Ok(report) if report.entered && lane.shared.leader_waits() => break,
                Ok(report) if !report.is_empty() => error_pause = ERROR_PAUSES.0,
                Ok(_) => {
                    error_pause = ERROR_PAUSES.0;
                    break;
                }
                Err(error) => {
                    lane.report(&error);
                    sleep(error_pause).await;
                    error_pause = (error_pause * 2).min(ERROR_PAUSES.1);
                    // The work is still there.
                    lane.shared.wake();
                    break;
                }
            }
        }
    }
}

impl Lane {
    fn new(shared: Arc<Shared>, cursors: Arc<Cursors>, leads: bool) -> Self {
        Self {
            leads,
            shared,
            cursors,
            scout: None,
            place: None,
            turns_of_place: 0,
            many: MANY.1,
            took_all: false,
        }
    }

    fn report(&self, error: &TurnError) {
        add(&self.shared.metrics.failed_turns_total, 1);
        if error.is_lock_timeout() {
            // A worker empties hot tables, or somebody holds a lock: nothing is wrong.
            tracing::debug!(%error, "a turn came to nothing and is taken again");
            return;
        }
        tracing::warn!(%error, "a turn came to nothing and is taken again");
    }

    /// A look, and others beside it when it takes long.
    async fn look_or_call_helpers(&mut self) -> Result<Report, TurnError> {
        let shared = Arc::clone(&self.shared);
        let mut look = std::pin::pin!(self.look());
        let mut pause = JOIN_AFTER;
        loop {
            tokio::select! {
                looked = &mut look => return looked,
                () = sleep(pause) => shared.turns.notify_one(),
            }
            // As long as it takes nobody else looks, and starters do not notify.
            pause = JOIN_AGAIN;
        }
    }

    /// One turn of the role that has the floor; if that finds nothing, of the role that waits longest.
    async fn look(&mut self) -> Result<Report, TurnError> {
        let mut beside = None;
        if let Some(place) = self.place.clone().filter(|_| self.turns_of_place < TURNS_OF_A_ROLE) {
            let report = self.turn(&place).await?;
            if !report.is_empty() {
                return Ok(report);
            }
            beside = report.beside.then_some(place.role);
        }
        self.turns_of_place = 0;
        self.place = None;
        let (mut waiting, everywhere) = self.waiting().await?;
        // What that role has left is what another lane lets in.
        waiting.retain(|place| beside != Some(place.role));
        match self.shared.choose(&waiting) {
            Some(place) => {
                // There is something, if nobody else takes it: perhaps where the cursor does not look.
                if let Some(cursor) = self.cursors.lock().get_mut(&place.role).filter(|_| everywhere) {
                    cursor.restart();
                }
                self.place = Some(place.clone());
                self.turn(place).await
            }
            None => {
                add(&self.shared.metrics.empty_looks_total, 1);
                Ok(Report { beside: beside.is_some(), ..Report::default() })
            }
        }
    }

    async fn turn(&mut self, place: &Place) -> Result<Report, TurnError> {
        let shared = Arc::clone(&self.shared);
        self.turns_of_place += 1;
        match executors::ensure(&shared, place).await {
            Ok(true) => {}
            // Its steps cannot run here; on their own they fail with the reason, which is asked for there once more.
            Ok(false) => shared.without_role(place.role),
            Err(error) if error.refusal().is_some() => shared.without_role(place.role),
            Err(error) => {
                self.place = None;
                shared.role_failed(place.role, &[], None);
                return Err(error);
            }
        }
        shared.serves(place.role);
        let many = if shared.takes_one(place.role) { 1 } else { self.many };
        // Two turns would have to wait for each other's queues, and put into them what could begin at once.
        let mut entering = shared.enters(place.role, self.leads);
        let enters = entering.is_some();
        let after = self.cursors.lock().entry(place.role).or_default().after(clock::now(), enters);
        let share = Share { after, many };
        let mut claimed = Vec::new();
        let began = clock::now();
        let _open = shared.turns_are_open.read().await;
        let span = tracing::debug_span!("turn", role = place.role_name);
        let _busy = Busy::begins(&shared.metrics.busy_lanes);
        match turn::take(&shared, place, share, &mut entering, &mut claimed).instrument(span).await {
            Ok(mut report) => {
                report.beside = report.is_empty() && !enters;
                self.took_all = usize::try_from(many).is_ok_and(|many| report.claimed >= many);
                if let Some(cursor) = self.cursors.lock().get_mut(&place.role) {
                    cursor.took(clock::now(), report.newest, enters);
                    if self.took_all && after == 0 && report.newest == 0 {
                        // There may be more timers that are long due.
                        cursor.restart();
                    }
                }
                shared.note(&report);
                self.learn(report.claimed, began.elapsed());
                if report.claimed > 0 {
                    shared.role_is_well(place.role);
                    add(&shared.metrics.turns_total, 1);
                    shared.metrics.times.turn.record(began.elapsed());
                }
                Ok(report)
            }
            Err(error) => {
                self.cursors.lock().remove(&place.role);
                self.place = None;
                if error.blames_steps() {
                    shared.suspect(&claimed);
                }
                shared.role_failed(place.role, &claimed, error.refusal());
                // The executor may be gone, with its role's other objects.
                shared.executors.lock().remove(&place.role);
                Err(error)
            }
        }
    }

    /// Fits the size of turns to how long they take here and now.
    fn learn(&mut self, claimed: usize, took: Duration) {
        if took > TURN_TIMES.1 {
            let half = i32::try_from(claimed / 2).unwrap_or(MANY.1);
            self.many = half.clamp(MANY.0, self.many);
        } else if took < TURN_TIMES.0 {
            self.many = (self.many * 2).min(MANY.1);
        }
    }

    async fn scout(&mut self) -> Result<&Client, TurnError> {
        if self.scout.as_ref().is_none_or(Client::is_closed) {
            // Whether somebody sleeps is not worth a flush.
            let target = self.shared.guarded().settings([("synchronous_commit", "off")]);
            self.scout = Some(self.shared.sessions.at_home(&target).await?);
        }
        match &self.scout {
            Some(scout) => Ok(scout),
            None => unreachable!("it was set above"),
        }
    }

    /// Who waits, and whether it was looked for everywhere.
    async fn waiting(&mut self) -> Result<(Vec<Place>, bool), TurnError> {
        let database = self.shared.target.database_name().to_owned();
        let now = clock::now();
        let mut known: Vec<(u32, i64)> =
            self.cursors.lock().iter().map(|(role, cursor)| (*role, cursor.peek(now))).collect();
        known.sort_unstable();
        let everywhere = known.iter().any(|(_, after)| *after == 0);
        let roles: Vec<u32> = known.iter().map(|(role, _)| *role).collect();
        let afters: Vec<i64> = known.iter().map(|(_, after)| if everywhere { 0 } else { *after }).collect();
        let scout = self.scout().await?;
        let rows = scout
            .query_typed(
                "SELECT role, role_name FROM df._waiting($1, $2)",
                &[(&roles, Type::OID_ARRAY), (&afters, Type::INT8_ARRAY)],
            )
            .await?;
        let waiting = rows.iter().map(|row| Place {
            role: row.get(0),
            role_name: row.get(1),
            database: database.clone(),
        });
        Ok((waiting.collect(), everywhere))
    }

    /// Says whether starters must notify. False: it could not be said, and they believe what they did.
    async fn set_asleep(&mut self, asleep: bool) -> bool {
        let set = async {
            let scout = self.scout().await?;
            let row = scout.query_typed_one("SELECT df._set_asleep($1)", &[(&asleep, Type::BOOL)]).await?;
            Ok::<_, TurnError>(row.get::<_, Option<f64>>(0))
        };
        match set.await {
            Ok(due_in_s) => {
                self.shared.asleep.store(asleep, Ordering::Relaxed);
                // Who looks into queues falls asleep, and wakes up, with those who take turns.
                self.shared.queues.notify_one();
                self.shared.due(seconds(due_in_s));
                true
            }
            Err(error) => {
                tracing::warn!(%error, "starters cannot be told whether the worker sleeps");
                false
            }
        }
    }
}

#[cfg(test)]
mod tests;
