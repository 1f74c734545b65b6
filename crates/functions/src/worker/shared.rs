//! What the tasks of a worker share.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{watch, Notify};
use tokio_postgres::{CancelToken, Client};

use duramen_base::clock;

use super::health::Health;
use super::hot::Churn;
use super::memory::Memory;
use super::metrics::{add, Metrics};
use super::rows::RowTypes;
use super::session::{Place, Sessions};
use super::traces::Tracer;
use super::turn::{Report, TurnError};
use crate::http::HttpPolicy;
use crate::rehearsal::Rehearsal;
use duramen_postgres::connection::Target;

/// A step that takes so long does not belong in a turn.
pub(crate) const SLOW: Duration = Duration::from_millis(25);
/// How long a text that was slow is not tried in a turn again.
const SLOW_REMEMBERED: Duration = Duration::from_secs(60);
/// How long it is believed that the worker cannot act for a role.
const GONE_REMEMBERED: Duration = Duration::from_secs(10);
/// How many slow texts and suspected instances are remembered.
const REMEMBERED_MAX: usize = 10_000;
/// How long a cancelled statement may go on before its session is ended.
pub(crate) const CANCEL_GRACE: Duration = Duration::from_secs(2);

/// What becomes of steps that reach outside of the database.
pub(crate) struct Outside {
    /// Some instances here were begun in another copy of the database, for which the adoption has said it.
    pub(crate) has_adopted: bool,
    /// None of any instance is done.
    pub(crate) rehearsal: Option<Rehearsal>,
}

pub(crate) struct Shared {
    /// When the worker began, by the clock of the server.
    pub(crate) began: String,
    pub(crate) target: Target,
    pub(crate) sessions: Sessions,
    /// The worker's name in the database: anew after it was buried.
    pub(crate) epoch: Mutex<String>,
    /// What becomes of steps that reach outside.
    pub(crate) outside: Outside,
    /// How the rows are sent that a turn writes.
    pub(crate) row_types: RowTypes,
    pub(crate) metrics: Metrics,
    /// What ends is traced.
    pub(crate) tracer: Option<Tracer>,
    pub(crate) health: Health,
    pub(crate) memory: Memory,
    /// There may be instances for a turn: the leader looks, and sees when the next timer is due.
    pub(crate) lead: Notify,
    /// There may be instances for more lanes than one.
    pub(crate) turns: Notify,
    /// There may be activities.
    pub(crate) activities: Notify,
    /// Queues may have something to let in.
    pub(crate) queues: Notify,
    /// A schedule may be due, or was changed.
    pub(crate) schedules: Notify,
    /// There are queues at all.
    pub(crate) has_queues: AtomicBool,
    /// A timer was set: the sleeper looks at the clock again.
    pub(crate) timers: Notify,
    /// When the earliest timer that is known is due.
    pub(crate) next_due: Mutex<Option<Instant>>,
    /// Set: no new work is begun.
    pub(crate) draining: watch::Sender<bool>,
    /// Nobody looks for work: a starter must notify.
    pub(crate) asleep: AtomicBool,
    pub(crate) http: Mutex<HttpPolicy>,
    /// What has died in hot tables.
    pub(crate) churn: Churn,
    /// Closed while hot tables are emptied: a turn that met their locks would come to nothing.
    pub(crate) turns_are_open: tokio::sync::RwLock<()>,
    /// The roles whose executor exists.
    pub(crate) executors: Mutex<HashSet<u32>>,
    roles: Mutex<HashMap<u32, Service>>,
    /// The roles for whose queues a turn lets in.
    entering: Mutex<HashSet<u32>>,
    /// A lane that does not lead lets in no more.
    has_let_in: Notify,
    /// The lane that leads has nothing to do until then.
    leader_waits: AtomicBool,
    condemned: Mutex<HashMap<i64, Condemned>>,
    running: Mutex<HashMap<(i64, String), Running>>,
    slow: Mutex<HashMap<u64, Instant>>,
    suspects: Mutex<HashSet<i64>>,
    /// Roles that the worker cannot act for: dropped, or it is not a member. Asked again after a while.
    gone_roles: Mutex<HashMap<u32, Instant>>,
}

/// An activity that runs here.
#[derive(Clone, Default)]
pub(crate) struct Running {
    /// Which activity it is, and which attempt of it.
    pub(crate) number: i64,
    pub(crate) attempt: i32,
    /// The statement that can be cancelled, and the process that runs it. The lock is held while a cancel request is
    /// under way, so that it does not hit what the session does next.
    statement: Arc<tokio::sync::Mutex<Option<(CancelToken, i32)>>>,
    /// Its result is not wanted: what it reports is not recorded.
    unwanted: Arc<AtomicBool>,
    stop: Arc<Notify>,
}

impl Running {
    pub(crate) fn new(number: i64, attempt: i32) -> Self {
        Self { number, attempt, ..Self::default() }
    }

    /// A statement begins.
    pub(crate) async fn begins(&self, token: CancelToken, pid: i32) {
        *self.statement.lock().await = Some((token, pid));
    }

    /// The statement is over: nothing may cancel it any more.
    pub(crate) async fn is_over(&self) {
        *self.statement.lock().await = None;
    }

    pub(crate) fn is_unwanted(&self) -> bool {
        self.unwanted.load(Ordering::Relaxed)
    }

    /// Returns when the activity is to be left alone, whatever it does.
    pub(crate) async fn stopped(&self) {
        self.stop.notified().await;
    }
}

/// How a role has been served.
#[derive(Default)]
struct Service {
    last: Option<Instant>,
    /// After failures it is left out until then.
    pause: Option<(Instant, Duration)>,
    /// Until then one instance is taken at a time.
    one_by_one: Option<Instant>,
}

/// That a turn lets in for the queues of a role, until this is dropped.
pub(crate) struct Entering<'a> {
    shared: &'a Shared,
    role: u32,
    leads: bool,
}

impl Drop for Entering<'_> {
    fn drop(&mut self) {
        self.shared.entering.lock().remove(&self.role);
        if !self.leads {
            self.shared.has_let_in.notify_one();
        }
    }
}

/// That somebody waits, until this is dropped.
struct Waits<'a>(&'a AtomicBool);

impl<'a> Waits<'a> {
    fn begin(waits: &'a AtomicBool) -> Self {
        waits.store(true, Ordering::Relaxed);
        Self(waits)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// An instance whose turn alone has failed.
struct Condemned {
    strikes: u32,
    reason: String,
}

/// How long a role whose turn failed is left out, doubled up to the second.
const ROLE_PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));
/// How long a role's instances are taken one by one after the server refused what a turn wrote.
const ONE_BY_ONE: Duration = Duration::from_secs(5);
/// After so many turns that failed with it alone, an instance ends.
const STRIKES_MAX: u32 = 3;

impl Shared {
    #[expect(clippy::too_many_arguments, reason = "each is of another type, and there is one caller")]
    pub(crate) fn new(
        began: String,
        target: Target,
        sessions: Sessions,
        epoch: String,
        outside: Outside,
        row_types: RowTypes,
        memory: Memory,
        tracer: Option<Tracer>,
    ) -> Self {
        Self {
            began,
            target,
            outside,
            row_types,
            sessions,
            epoch: Mutex::new(epoch),
            metrics: Metrics::default(),
            tracer,
            health: Health::new(),
            memory,
            lead: Notify::new(),
            turns: Notify::new(),
            activities: Notify::new(),
            queues: Notify::new(),
            schedules: Notify::new(),
            has_queues: AtomicBool::new(false),
            timers: Notify::new(),
            next_due: Mutex::new(None),
            draining: watch::Sender::new(false),
            asleep: AtomicBool::new(false),
            http: Mutex::new(HttpPolicy::default()),
            churn: Churn::default(),
            turns_are_open: tokio::sync::RwLock::default(),
            executors: Mutex::default(),
            roles: Mutex::default(),
            entering: Mutex::default(),
            has_let_in: Notify::new(),
            leader_waits: AtomicBool::new(false),
            condemned: Mutex::default(),
            running: Mutex::default(),
            slow: Mutex::default(),
            suspects: Mutex::default(),
            gone_roles: Mutex::default(),
        }
    }

    /// Where the worker's sessions connect to under its present name.
    pub(crate) fn guarded(&self) -> Target {
        self.target.clone().application_name(&format!("duramen fn {}", self.epoch.lock()))
    }

    /// A session of the worker's own in the database that has the schema.
    pub(crate) async fn home(&self) -> Result<Client, TurnError> {
        self.sessions.at_home(&self.guarded()).await
    }

    pub(crate) fn is_draining(&self) -> bool {
        *self.draining.borrow()
    }

    /// Whether a step is known to need a session of its own.
    pub(crate) fn runs_alone(&self, role: u32, seq: i64, text: &str) -> bool {
        if self.gone_roles.lock().get(&role).is_some_and(|since| since.elapsed() < GONE_REMEMBERED) {
            return true;
        }
        if !self.suspects.lock().is_empty() && self.suspects.lock().contains(&seq) {
            return true;
        }
        let mut slow = self.slow.lock();
        if slow.is_empty() {
            return false;
        }
        let shape = shape(role, text);
        match slow.get(&shape) {
            Some(since) if since.elapsed() < SLOW_REMEMBERED => true,
            Some(_) => {
                slow.remove(&shape);
                false
            }
            None => false,
        }
    }

    /// Remembers how long a step took alone, for the next of its kind.
    pub(crate) fn remember(&self, role: u32, text: &str, took: Duration) {
        let mut slow = self.slow.lock();
        if took < SLOW {
            // It was slow because something else was.
            slow.remove(&shape(role, text));
            return;
        }
        if slow.len() >= REMEMBERED_MAX {
            slow.clear();
        }
        slow.insert(shape(role, text), clock::now());
    }

    /// A turn with these instances failed as a whole: their next steps run alone, where a failure is theirs only.
    pub(crate) fn suspect(&self, seqs: &[i64]) {
        let mut suspects = self.suspects.lock();
        if suspects.len() + seqs.len() > REMEMBERED_MAX {
            suspects.clear();
        }
        suspects.extend(seqs);
    }

    /// The worker cannot act for a role: its steps go alone, and fail there with the reason.
    pub(crate) fn without_role(&self, role: u32) {
        self.gone_roles.lock().insert(role, clock::now());
    }

    /// There may be something for a turn.
    pub(crate) fn wake(&self) {
        self.lead.notify_one();
        // The leader may be held up.
        self.turns.notify_one();
    }

    /// Tells the other tasks what a turn has led to.
    pub(crate) fn note(&self, report: &Report) {
        add(&self.metrics.claimed_total, report.claimed);
        add(&self.metrics.ended_total, report.ended);
        self.churn.add(report.died);
        if report.activities {
            self.activities.notify_one();
        }
        if report.mail {
            self.wake();
        }
        // Who is awake looks again anyway.
        if report.queues || (report.entered && self.asleep.load(Ordering::Relaxed)) {
            self.queues.notify_one();
        }
        self.due(report.due_in);
    }

    pub(crate) fn clear_suspect(&self, seq: i64) {
        self.suspects.lock().remove(&seq);
    }

    /// A turn lets in for the queues of a role, unless another one of this worker does. `leads`: it is the leading lane's.
    pub(crate) fn enters(&self, role: u32, leads: bool) -> Option<Entering<'_>> {
        self.entering.lock().insert(role).then(|| Entering { shared: self, role, leads })
    }

    /// The leading lane waits until another one lets in no more.
    pub(crate) async fn until_let_in(&self) {
        let _waits = Waits::begin(&self.leader_waits);
        self.has_let_in.notified().await;
    }

    /// Whether the leading lane waits for that: then it goes on with what another one has let in for.
    pub(crate) fn leader_waits(&self) -> bool {
        self.leader_waits.load(Ordering::Relaxed)
    }

    /// A role has the floor.
    pub(crate) fn serves(&self, role: u32) {
        self.roles.lock().entry(role).or_default().last = Some(clock::now());
    }

    /// Of roles that wait, the one that was served the longest ago and is not left out.
    pub(crate) fn choose<'a>(&self, waiting: &'a [Place]) -> Option<&'a Place> {
        let roles = self.roles.lock();
        let served = |place: &&Place| roles.get(&place.role).and_then(|service| service.last);
        let left_out = |place: &&Place| {
            roles
                .get(&place.role)
                .and_then(|service| service.pause)
                .is_some_and(|(until, _)| clock::now() < until)
        };
        waiting.iter().filter(|place| !left_out(place)).min_by_key(served)
    }

    /// Whether a turn of the role takes one instance only.
    pub(crate) fn takes_one(&self, role: u32) -> bool {
        let roles = self.roles.lock();
        roles.get(&role).and_then(|service| service.one_by_one).is_some_and(|until| clock::now() < until)
    }

    /// A turn of the role went well.
    pub(crate) fn role_is_well(&self, role: u32) {
        if let Some(service) = self.roles.lock().get_mut(&role) {
            service.pause = None;
        }
    }

    /// A turn of the role failed: with these instances, and if the server refused what was written, for this reason.
    pub(crate) fn role_failed(&self, role: u32, claimed: &[i64], refusal: Option<String>) {
        let mut roles = self.roles.lock();
        let service = roles.entry(role).or_default();
        let pause = service.pause.map_or(ROLE_PAUSES.0, |(_, pause)| (pause * 2).min(ROLE_PAUSES.1));
        service.pause = Some((clock::now() + pause, pause));
        let Some(reason) = refusal else { return };
        service.one_by_one = Some(clock::now() + ONE_BY_ONE);
        if let [seq] = claimed {
            let mut condemned = self.condemned.lock();
            if condemned.len() >= REMEMBERED_MAX {
                condemned.clear();
            }
            let entry = condemned.entry(*seq).or_insert(Condemned { strikes: 0, reason: String::new() });
            entry.strikes += 1;
            entry.reason = reason;
        }
    }

    /// Why an instance can only be ended.
    pub(crate) fn condemned(&self, seq: i64) -> Option<String> {
        let mut condemned = self.condemned.lock();
        if condemned.is_empty() || condemned.get(&seq)?.strikes < STRIKES_MAX {
            return None;
        }
        let reason = condemned.remove(&seq)?.reason;
        Some(format!("what this instance has come to cannot be written down: {reason}"))
    }

    /// An attempt begins. One that holds its place is older, and nobody's any more: it is stopped.
    pub(crate) fn started(self: &Arc<Self>, seq: i64, cell: &str, running: Running) {
        let older = self.running.lock().insert((seq, cell.to_owned()), running);
        if let Some(older) = older {
            self.end(older);
        }
    }

    /// An attempt is over. Its place may be a later one's by now.
    pub(crate) fn ended(&self, seq: i64, cell: &str, which: &Running) {
        let mut running = self.running.lock();
        let key = (seq, cell.to_owned());
        if running.get(&key).is_some_and(|there| Arc::ptr_eq(&there.stop, &which.stop)) {
            running.remove(&key);
        }
    }

    /// The activities that run here: their numbers and attempts.
    pub(crate) fn held(&self) -> (Vec<i64>, Vec<i32>) {
        self.running.lock().values().map(|running| (running.number, running.attempt)).unzip()
    }

    /// The activity of this number, if it runs here.
    pub(crate) fn running_with(&self, number: i64) -> Option<Running> {
        self.running.lock().values().find(|running| running.number == number).cloned()
    }

    /// Stops an activity if it runs here. Its row must be gone, or given back: what it reports is not recorded.
    pub(crate) fn stop(self: &Arc<Self>, seq: i64, cell: &str) {
        let running = self.running.lock().get(&(seq, cell.to_owned())).cloned();
        if let Some(running) = running {
            self.end(running);
        }
    }

    /// Stops all activities that run here. Their rows must be gone, or given back.
    pub(crate) fn stop_all(self: &Arc<Self>) {
        let all: Vec<Running> = self.running.lock().values().cloned().collect();
        for running in all {
            self.end(running);
        }
    }

    /// Stops an attempt whose row is gone, or another's.
    pub(crate) fn end(self: &Arc<Self>, running: Running) {
        let shared = Arc::clone(self);
        running.unwanted.store(true, Ordering::Relaxed);
        tokio::spawn(async move {
            {
                let statement = running.statement.lock().await;
                if let (Some((token, _)), Ok(tls)) = (statement.as_ref(), shared.target.tls()) {
                    // Whether it arrives or not, the session is ended soon if the statement goes on.
                    let _ = tokio::time::timeout(CANCEL_GRACE, token.clone().cancel_query(tls)).await;
                }
            }
            tokio::time::sleep(CANCEL_GRACE).await;
            let pid = running.statement.lock().await.as_ref().map(|(_, pid)| *pid);
            if let Some(pid) = pid {
                // It takes no notice of being cancelled.
                shared.sessions.terminate(pid).await;
            }
            running.stop.notify_one();
        });
    }

    /// A timer is due after this time.
    pub(crate) fn due(&self, after: Option<Duration>) {
        let Some(at) = after.map(|after| clock::now() + after) else { return };
        let mut next = self.next_due.lock();
        if next.is_none_or(|known| at < known) {
            *next = Some(at);
            drop(next);
            self.timers.notify_one();
        }
    }
}

/// A text without its literals, hashed: two calls of `pg_sleep` with different times are alike.
pub(crate) fn shape(role: u32, text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    role.hash(&mut hasher);
    let mut quoted = false;
    for character in text.chars() {
        if character == '\'' {
            quoted = !quoted;
        } else if !quoted && !character.is_ascii_digit() {
            character.hash(&mut hasher);
        }
    }
    hasher.finish()
}
