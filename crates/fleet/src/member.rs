//! Being a node: registered under a lease of etcd, fenced by one's own clock, drained; and following what others are.

use crate::{
    address::{Access, Address},
    etcd::{Etcd, EtcdError, Found},
    names::Pending,
    record::{Capacity, DrainRecord, Key, MemberRecord, NameRecord, NodeRecord, PROTOCOL},
    restore::RestoreMark,
    view::{Change, NodeView, View},
};
use duramen_base::clock::{self, SinceBoot};
use etcd_client::{Compare, CompareOp, EventType, PutOptions, Txn, TxnOp, WatchOptions};
use prometheus_client::registry::Registry;
use std::{
    sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
    time::Duration,
};
use tokio::{
    sync::{watch, Notify},
    task::JoinHandle,
    time::{sleep, timeout},
};

/// How long a registration lasts without being renewed.
pub const LEASE: Duration = Duration::from_secs(5);
/// How often it is renewed.
const RENEW_EVERY: Duration = Duration::from_millis(1500);
/// How often its record is written at most, where the capacity changed.
const WRITE_EVERY: Duration = Duration::from_secs(2);
/// Pause after something failed.
const PAUSE: Duration = Duration::from_millis(300);
/// How often a watch is asked whether it is alive.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);
/// A watch that says nothing for this long is begun anew.
const WATCH_SILENT: Duration = Duration::from_secs(3);

const TAKEN_AWAY: &str = "its registration was taken away in etcd";

/// How a node takes part.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where etcd is, and which fleet is meant.
    pub etcd: Address,
    /// By what right it is asked.
    pub access: Access,
    /// The node's name.
    pub node: String,
    /// Where other nodes reach it, `HOST:PORT`.
    pub advertise: String,
    /// The identity of its home.
    pub home: String,
    /// The starts of that home's daemon, the last of them being this one. Where etcd has another one, the home is a copy of before.
    pub starts: Vec<String>,
    /// Where the home is: on which boot of which machine, and in which directory. Two processes of one place never run beside
    /// each other; of two places they may.
    pub place: String,
    /// Whether it serves sessions of PostgreSQL clients that others pass on.
    pub sessions: bool,
    /// Its version.
    pub version: String,
    /// How long names are kept for a node that is gone.
    pub grace: Duration,
}

/// Whether a node may give names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// It is registered, until then unless it renews that.
    Member(SinceBoot),
    /// It is not, and why.
    Joining(String),
    /// The name is another home's.
    Refused(String),
}

/// A registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Registration {
    /// The revision at which it was made: its number.
    pub(crate) number: i64,
    pub(crate) lease: i64,
    /// FL-2: the fence. The clock goes on while the machine is suspended.
    pub(crate) until: SinceBoot,
}

/// What a node has room for, as it says when it is asked.
pub type Measure = Box<dyn Fn() -> Capacity + Send + Sync>;

/// A node of a fleet.
pub struct Fleet {
    pub(crate) settings: Settings,
    pub(crate) etcd: Arc<Etcd>,
    view: RwLock<View>,
    standing: Mutex<Standing>,
    registration: Mutex<Option<Registration>>,
    /// Why it does not register, if it should not.
    kept_out: Mutex<Option<Standing>>,
    pub(crate) pending: Pending,
    measure: Measure,
    /// How often it was registered.
    registered: watch::Sender<u64>,
    /// The view has changed.
    changed: watch::Sender<u64>,
    renew_now: Notify,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl std::fmt::Debug for Fleet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fleet").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Fleet {
    /// Takes part, from now on and in the background: it is not waited for etcd.
    ///
    /// # Errors
    /// When a file that is needed to ask etcd cannot be read.
    pub fn join(settings: Settings, measure: Measure) -> Result<Arc<Fleet>, EtcdError> {
        let etcd = Etcd::new(settings.etcd.clone(), settings.access.clone())?;
        let fleet = Arc::new(Fleet {
            etcd,
            view: RwLock::new(View::new(settings.grace)),
            standing: Mutex::new(Standing::Joining("etcd was not reached yet".to_owned())),
            registration: Mutex::new(None),
            kept_out: Mutex::new(None),
            pending: Pending::default(),
            measure,
            registered: watch::Sender::new(0),
            changed: watch::Sender::new(0),
            renew_now: Notify::new(),
            tasks: Mutex::default(),
            settings,
        });
        let tasks = [
            tokio::spawn({
                let fleet = Arc::clone(&fleet);
                async move { fleet.stay().await }
            }),
            tokio::spawn({
                let fleet = Arc::clone(&fleet);
                async move { fleet.follow().await }
            }),
            tokio::spawn({
                let fleet = Arc::clone(&fleet);
                async move { fleet.free_pending().await }
            }),
        ];
        fleet.tasks.lock().unwrap_or_else(PoisonError::into_inner).extend(tasks);
        Ok(fleet)
    }

    /// Takes part no more: the registration ends at once, names stay.
    pub async fn leave(&self) {
        for task in self.tasks.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            task.abort();
        }
        let registration = self.registration.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.stand(Standing::Joining("this node leaves".to_owned()));
        if let (Some(registration), Ok(mut leases)) = (registration, self.etcd.leases().await) {
            if let Err(error) = self.etcd.within(leases.revoke(registration.lease)).await {
                tracing::warn!(%error, "this node's registration ends by itself, within 5 s");
            }
        }
    }

    /// Takes part no more, without telling anybody: another process of this home goes on as the same node.
    pub fn hand_over(&self) {
        for task in self.tasks.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            task.abort();
        }
    }

    /// The fleet's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.settings.etcd.fleet
    }

    /// The node's name.
    #[must_use]
    pub fn node(&self) -> &str {
        &self.settings.node
    }

    /// Whether it may give names now.
    #[must_use]
    pub fn standing(&self) -> Standing {
        let standing = self.standing.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match standing {
            Standing::Member(until) if clock::since_boot() >= until => {
                Standing::Joining("its registration was not renewed: etcd did not answer".to_owned())
            }
            standing => standing,
        }
    }

    /// The registration, if it surely lasts now (FL-2).
    pub(crate) fn registration(&self) -> Option<Registration> {
        let registration = *self.registration.lock().unwrap_or_else(PoisonError::into_inner);
        registration.filter(|registration| clock::since_boot() < registration.until)
    }

    /// What was seen of the fleet.
    pub fn view(&self) -> RwLockReadGuard<'_, View> {
        self.view.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn view_mut(&self) -> RwLockWriteGuard<'_, View> {
        self.view.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells of changes of the view; some changes are told of together.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Tells of registrations.
    #[must_use]
    pub fn registrations(&self) -> watch::Receiver<u64> {
        self.registered.subscribe()
    }

    /// How many transactions wrote to names: two a lease (FL-9).
    #[must_use]
    pub fn writes(&self) -> u64 {
        self.etcd.writes()
    }

    /// How long its registration surely lasts, unless it is renewed (FL-2); nothing while it is not registered.
    #[must_use]
    pub fn fence_left(&self) -> Option<Duration> {
        self.registration()
            .map(|registration| registration.until.saturating_duration_since(clock::since_boot()))
    }

    /// Has what is counted of etcd told with other figures.
    pub fn register_metrics(&self, registry: &mut Registry) {
        self.etcd.figures.register(registry);
    }

    /// Has a node give no more names, or ends that (FL-11). Tells the revision of etcd since when it is so: a view that has reached it
    /// has all names that the node was given before.
    ///
    /// # Errors
    /// When etcd does not answer.
    pub async fn drain(&self, node: &str, drains: bool) -> Result<i64, EtcdError> {
        let key = self.etcd.keys.key(Key::Drain(node));
        let op = match drains {
            true => TxnOp::put(key, json(&DrainRecord { since: clock::utc_now() }), None),
            false => TxnOp::delete(key, None),
        };
        let answer = self.etcd.txn(Txn::new().and_then([op])).await?;
        Ok(answer.header().map_or(0, etcd_client::ResponseHeader::revision))
    }

    /// A restore of a backup that was begun and not finished.
    ///
    /// # Errors
    /// When etcd does not answer.
    pub async fn unfinished_restore(&self) -> Result<Option<RestoreMark>, EtcdError> {
        let found = self.etcd.get_at(self.etcd.keys.restore()).await?;
        Ok(found.and_then(|found| found.read::<RestoreMark>()).filter(|mark| !mark.done))
    }

    /// Waits until everything up to a revision of etcd was seen, as long as `limit`; tells whether it was.
    pub async fn seen(&self, revision: i64, limit: Duration) -> bool {
        let mut changes = self.changes();
        let waiting = async {
            while self.view().revision() < revision {
                if changes.changed().await.is_err() {
                    return;
                }
            }
        };
        timeout(limit, waiting).await.is_ok()
    }

    /// Whether a name is that of a node of this fleet: by what was seen, else as etcd has it.
    pub async fn is_member(&self, node: &str) -> bool {
        // The read has to be over before etcd is asked.
        let is_seen = self.view().is_member(node);
        is_seen || matches!(self.etcd.get(Key::Member(node)).await, Ok(Some(_)))
    }

    /// Forgets a node that is not registered, so that another home can have its name. Its names stay, as lost ones. Tells whether it
    /// could: a node that is registered is not forgotten.
    ///
    /// # Errors
    /// When etcd does not answer.
    pub async fn forget(&self, node: &str) -> Result<bool, EtcdError> {
        let key = |key| self.etcd.keys.key(key);
        let txn =
            Txn::new().when([Compare::create_revision(key(Key::Node(node)), CompareOp::Equal, 0)]).and_then(
                [TxnOp::delete(key(Key::Member(node)), None), TxnOp::delete(key(Key::Drain(node)), None)],
            );
        Ok(self.etcd.txn(txn).await?.succeeded())
    }

    /// One node as it is seen.
    #[must_use]
    pub fn node_view(&self, node: &str) -> Option<NodeView> {
        self.view().node(node)
    }

    /// The claim of a name, as etcd has it now.
    ///
    /// # Errors
    /// When etcd does not answer.
    pub async fn find(&self, name: &str) -> Result<Option<NameRecord>, EtcdError> {
        Ok(self.etcd.get(Key::Name(name)).await?.and_then(|found| found.read()))
    }

    /// etcd has no registration of that number any more, whatever its lease says: another one is made.
    pub(crate) fn taken_away(&self, number: i64) {
        let mut registration = self.registration.lock().unwrap_or_else(PoisonError::into_inner);
        if registration.is_some_and(|registration| registration.number == number) {
            *registration = None;
            self.renew_now.notify_one();
        }
    }

    /// Stays out of the fleet, and says why; or takes part again. A registration ends with its lease.
    pub fn keep_out(&self, why: Option<Standing>) {
        let is_out = why.is_some();
        *self.kept_out.lock().unwrap_or_else(PoisonError::into_inner) = why;
        if is_out {
            *self.registration.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        self.renew_now.notify_one();
    }

    fn stand(&self, standing: Standing) {
        let mut current = self.standing.lock().unwrap_or_else(PoisonError::into_inner);
        if !matches!((&*current, &standing), (Standing::Member(_), Standing::Member(_)))
            && *current != standing
        {
            match &standing {
                Standing::Member(_) => tracing::info!(node = self.settings.node, "registered in the fleet"),
                Standing::Joining(why) => {
                    tracing::warn!(why, "this node gives no names: it is not registered")
                }
                Standing::Refused(why) => tracing::error!(why, "this node is not let into the fleet"),
            }
        }
        *current = standing;
    }

    /// Registers, and stays registered.
    async fn stay(&self) {
        loop {
            let kept_out = self.kept_out.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some(why) = kept_out {
                self.stand(why);
                let _ = timeout(PAUSE, self.renew_now.notified()).await;
                continue;
            }
            match self.register().await {
                Ok(registration) => {
                    self.set(registration);
                    self.registered.send_modify(|times| *times += 1);
                    let why = self.renew(registration).await;
                    *self.registration.lock().unwrap_or_else(PoisonError::into_inner) = None;
                    self.stand(Standing::Joining(why));
                }
                Err(Joining::Taken(why)) => self.stand(Standing::Refused(why)),
                Err(Joining::Waits(why)) => self.stand(Standing::Joining(why)),
                Err(Joining::Etcd(error)) => self.stand(Standing::Joining(error.to_string())),
            }
            sleep(PAUSE).await;
        }
    }

    fn set(&self, registration: Registration) {
        *self.registration.lock().unwrap_or_else(PoisonError::into_inner) = Some(registration);
        self.stand(Standing::Member(registration.until));
    }

    /// The same registration lasts longer, unless it was found to be gone meanwhile.
    fn prolong(&self, registration: Registration) {
        let mut current = self.registration.lock().unwrap_or_else(PoisonError::into_inner);
        if current.is_some() {
            *current = Some(registration);
            drop(current);
            self.stand(Standing::Member(registration.until));
        }
    }

    fn is_taken_away(&self) -> bool {
        self.registration.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    fn record(&self) -> NodeRecord {
        NodeRecord {
            address: self.settings.advertise.clone(),
            version: self.settings.version.clone(),
            capacity: (self.measure)(),
            sessions: self.settings.sessions,
            protocol: PROTOCOL,
        }
    }

    async fn register(&self) -> Result<Registration, Joining> {
        let Settings { node, home, starts, place, .. } = &self.settings;
        let key = |key| self.etcd.keys.key(key);
        let mut leases = self.etcd.leases().await?;
        let sent = clock::since_boot();
        let ttl = i64::try_from(LEASE.as_secs()).unwrap_or(5);
        let lease = self.etcd.within(leases.grant(ttl, None)).await?.id();
        let until = sent + LEASE;
        // FL-12.
        let member = self.etcd.get(Key::Member(node)).await?;
        let earlier = member.as_ref().and_then(Found::read::<MemberRecord>);
        if let Some(other) = earlier.as_ref().filter(|it| it.home != *home) {
            return Err(Joining::Taken(format!(
                "the name {node} belongs to another home ({}, registered at {}); choose another name (--node), or free it: duramen node forget {node}",
                other.home, other.registered_at
            )));
        }
        let is_newer = |it: &&MemberRecord| !it.start.is_empty() && !starts.contains(&it.start);
        if let Some(newer) = earlier.as_ref().filter(is_newer) {
            return Err(Joining::Taken(format!(
                "this home is an earlier copy of the node {node}, which was started elsewhere since (registered at {}); if that one is gone for good: duramen node forget {node}",
                newer.registered_at
            )));
        }
        let moved = earlier.is_some_and(|it| it.place != *place);
        let seen = member.map_or(0, |member| member.modified);
        // What an earlier process of this home left: its lease has not ended yet.
        let ours = Compare::mod_revision(key(Key::Member(node)), CompareOp::Equal, seen);
        if seen > 0 && !moved {
            let txn = Txn::new().when([ours.clone()]).and_then([TxnOp::delete(key(Key::Node(node)), None)]);
            self.etcd.txn(txn).await?;
        }
        let record = MemberRecord {
            home: home.clone(),
            registered_at: clock::utc_now(),
            start: starts.last().cloned().unwrap_or_default(),
            place: place.clone(),
        };
        let leased = PutOptions::new().with_lease(lease);
        let txn = Txn::new()
            .when([ours, Compare::create_revision(key(Key::Node(node)), CompareOp::Equal, 0)])
            .and_then([
                TxnOp::put(key(Key::Member(node)), json(&record), None),
                TxnOp::put(key(Key::Node(node)), json(&self.record()), Some(leased)),
            ])
            .or_else([TxnOp::get(key(Key::Node(node)), None)]);
        let answer = self.etcd.txn(txn).await?;
        if !answer.succeeded() {
            let _ = self.etcd.within(leases.revoke(lease)).await;
            if moved {
                return Err(Joining::Waits(format!(
                    "a daemon of this home is registered as {node} from another machine or directory; this one waits until that ends. If \
                     this home is a copy of that one, make a home of its own, with another name (--node)"
                )));
            }
            return Err(Joining::Etcd(self.etcd.silent("another registration came between")));
        }
        let number = answer.header().map_or(0, etcd_client::ResponseHeader::revision);
        Ok(Registration { number, lease, until })
    }

    /// Renews a registration for as long as that works, and says why it does not any more.
    async fn renew(&self, mut registration: Registration) -> String {
        let mut written = (self.record(), clock::now());
        'connected: loop {
            if self.is_taken_away() {
                return TAKEN_AWAY.to_owned();
            }
            if clock::since_boot() >= registration.until {
                return "its registration was not renewed in time: etcd did not answer".to_owned();
            }
            let opened = async {
                let mut leases = self.etcd.leases().await?;
                self.etcd.within(leases.keep_alive(registration.lease)).await
            };
            let (mut keeper, mut answers) = match opened.await {
                Ok(opened) => opened,
                Err(error) => {
                    tracing::debug!(%error, "the registration is not renewed yet");
                    sleep(PAUSE).await;
                    continue;
                }
            };
            loop {
                if self.is_taken_away() {
                    return TAKEN_AWAY.to_owned();
                }
                let sent = clock::since_boot();
                let renewed = async {
                    self.etcd.within(keeper.keep_alive()).await?;
                    self.etcd.within(answers.message()).await
                };
                match renewed.await {
                    Ok(Some(answer)) if answer.ttl() > 0 => {
                        registration.until = sent + LEASE;
                        self.prolong(registration);
                    }
                    Ok(Some(_)) => return "its registration ended in etcd".to_owned(),
                    Ok(None) | Err(_) => {
                        sleep(PAUSE).await;
                        continue 'connected;
                    }
                }
                let record = self.record();
                if record != written.0 && written.1.elapsed() >= WRITE_EVERY {
                    let key = self.etcd.keys.key(Key::Node(&self.settings.node));
                    let leased = PutOptions::new().with_lease(registration.lease);
                    let txn = Txn::new()
                        .when([Compare::create_revision(key.clone(), CompareOp::Equal, registration.number)])
                        .and_then([TxnOp::put(key, json(&record), Some(leased))]);
                    match self.etcd.txn(txn).await {
                        Ok(answer) if answer.succeeded() => written = (record, clock::now()),
                        Ok(_) => return TAKEN_AWAY.to_owned(),
                        Err(_) => {}
                    }
                }
                let _ = timeout(RENEW_EVERY, self.renew_now.notified()).await;
            }
        }
    }

    /// Follows all keys of the fleet.
    async fn follow(&self) {
        loop {
            if let Err(error) = self.watch().await {
                tracing::debug!(%error, "the fleet is looked at anew");
            }
            sleep(PAUSE).await;
        }
    }

    async fn watch(&self) -> Result<(), EtcdError> {
        let keys = &self.etcd.keys;
        let all = self.etcd.all().await?;
        let found = all
            .kvs()
            .iter()
            .filter_map(|kv| Some((keys.read(kv.key_str().ok()?)?, kv.value(), kv.mod_revision())));
        let revision = all.header().map_or(0, etcd_client::ResponseHeader::revision);
        {
            let mut view = self.view_mut();
            view.load(found);
            view.reach(revision);
        }
        self.changed.send_modify(|times| *times += 1);
        let options = WatchOptions::new().with_prefix().with_start_revision(revision + 1);
        let mut watches = self.etcd.watches().await?;
        let mut stream = self.etcd.within(watches.watch(keys.prefix(), Some(options))).await?;
        let mut heard = clock::now();
        loop {
            let message = match timeout(PROGRESS_EVERY, stream.message()).await {
                Ok(Ok(Some(message))) => message,
                Ok(Ok(None)) => return Err(self.etcd.silent("the watch ended")),
                Ok(Err(error)) => return Err(self.etcd.failed(&error)),
                Err(_) if heard.elapsed() > WATCH_SILENT => {
                    return Err(self.etcd.silent("the watch is silent"))
                }
                Err(_) => {
                    self.etcd.within(stream.request_progress()).await?;
                    continue;
                }
            };
            heard = clock::now();
            if message.canceled() {
                return Err(self
                    .etcd
                    .silent(format_args!("the watch was ended: {}", message.cancel_reason())));
            }
            let mut gone = 0;
            let mut view = self.view_mut();
            view.hear();
            for event in message.events() {
                let Some((kv, key)) = event.kv().and_then(|kv| Some((kv, keys.read(kv.key_str().ok()?)?)))
                else {
                    continue;
                };
                let change = match event.event_type() {
                    EventType::Put => Change::Put(kv.value(), kv.mod_revision()),
                    EventType::Delete => Change::Gone,
                };
                view.apply(key, change);
                view.reach(kv.mod_revision());
                if key == Key::Node(&self.settings.node) && matches!(change, Change::Gone) {
                    gone = gone.max(kv.mod_revision());
                }
            }
            drop(view);
            if let Some(registration) = self.registration().filter(|registration| registration.number < gone)
            {
                self.taken_away(registration.number);
            }
            if !message.events().is_empty() {
                self.changed.send_modify(|times| *times += 1);
            }
        }
    }
}

/// Why a node is not registered.
enum Joining {
    Taken(String),
    /// Another process of this home is there.
    Waits(String),
    Etcd(EtcdError),
}

impl From<EtcdError> for Joining {
    fn from(error: EtcdError) -> Joining {
        Joining::Etcd(error)
    }
}

/// The text of a record.
pub(crate) fn json<T: serde::Serialize>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value).expect("texts, numbers and times are always JSON")
}
