//! The two servers that are measured: a pair of our own, or one that is there already.

mod broken;
pub(super) mod disk;
mod given;
mod hop;
pub mod hosts;
pub mod lent;
mod load;
pub(crate) mod own;
pub mod patroni;
pub mod pending;
pub mod preconditions;
pub mod proxy;
pub(super) mod settings;

use crate::error::{cannot_reach, no_runtime, refused, timeout};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use duramen_base::clock;
use duramen_postgres::connection::Target;
use duramen_postgres::Guardian;
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;
use tokio_postgres::Client;

use super::options::Options;
use super::pass::within;
use super::restore::{self, Place, Record, RestoreFile};
use super::scenario::Node;
use duramen_reports::suite::SuiteError;
use given::Given;
use hosts::OnHosts;
use lent::{Lender, Lent};
use own::Own;
use settings::Snapshot;

/// What our sessions in [`DATABASE`] are called. Only these are ever ended by the suite, and those of the run elsewhere,
/// which have the run's own number in their name.
pub const APPLICATION_NAME: &str = "duramen-lab";
/// The database that scenarios work in, made and dropped by the suite.
pub const DATABASE: &str = "duramen_lab";
/// The oldest major version that is measured.
const OLDEST: u32 = 15;
/// A standby that has just been started is synchronous within this.
const SYNCHRONOUS: Duration = Duration::from_secs(60);
/// What follows a change of a setting in another process has happened within this.
const EFFECT: Duration = Duration::from_secs(30);
/// A statement that only asks, or changes a setting, has been answered within this. Somebody may have locked what it
/// reads, and our sessions have no time limits of the server's.
const ANSWER: Duration = Duration::from_secs(30);
/// A database is made within this: the server copies its template, and may write a checkpoint for it.
const MAKE: Duration = Duration::from_secs(300);
/// Whoever lends a pair says within this that it is gone.
const LOSS_TOLD: Duration = Duration::from_secs(3);
/// How often a state is looked at while waiting for it.
const POLL: Duration = Duration::from_millis(10);

/// A primary and its synchronous standby. When it is closed (or dropped, or the process is killed) everything that was
/// changed on a given pair is put back, and of an own pair nothing is left.
pub struct Pair {
    primary: Target,
    standby: Target,
    /// The same servers, in databases that are there before and after the run.
    homes: [Target; 2],
    major: u32,
    logical: bool,
    ready_after: Option<Duration>,
    /// What the standby is called on the primary.
    standby_name: String,
    kind: Kind,
    /// A session for as long as the run lasts, by which others see that it goes on.
    presence: Option<Client>,
    ledger: Mutex<Ledger>,
    // The last field: when a pair is dropped, the guardian puts back what the ledger no longer holds the lock of.
    guardian: Option<Guardian>,
}

enum Kind {
    Own(Arc<Own>),
    Given(Box<Given>),
    Lent(Box<Lent>),
    Hosts(Box<OnHosts>),
}

/// What has been changed.
enum Ledger {
    /// On servers that go away with the run.
    Memory(Record),
    /// On servers that stay.
    File(RestoreFile),
}

impl Ledger {
    fn record(&self) -> &Record {
        match self {
            Ledger::Memory(record) => record,
            Ledger::File(file) => file.record(),
        }
    }

    /// Notes what is about to be changed, so that it can be put back whatever happens.
    fn note(&mut self, change: impl FnOnce(&mut Record)) -> Result<(), SuiteError> {
        match self {
            Ledger::Memory(record) => {
                change(record);
                Ok(())
            }
            Ledger::File(file) => file.update(change),
        }
    }
}

impl Pair {
    /// Makes a pair of our own, or takes the given one after its preconditions held. Then the database, the extension
    /// `pg_walinspect` in it, and the settings of the run.
    ///
    /// # Errors
    /// [`SuiteError::Preconditions`] when the servers are not what is needed; nothing has been changed then.
    /// Otherwise what could not be done; what was changed has been put back.
    pub async fn open(options: &Options, say: &(dyn Fn(&str) + Sync)) -> Result<Self, SuiteError> {
        if let Some(wanted) = &options.hosts {
            return Self::on_hosts(options, wanted, say).await;
        }
        match (&options.primary, &options.standby, &options.lender) {
            (None, None, None) => Self::make(options, say).await,
            (None, None, Some(lender)) => Self::borrow(options, &**lender, say).await,
            (Some(primary), Some(standby), None) => Self::take(options, primary, standby, say).await,
            (.., Some(_)) => Err(SuiteError::Options(
                "a pair of a source is made for the run: leave out --primary and --standby, or --source"
                    .to_owned(),
            )),
            _ => Err(SuiteError::Options(
                "--primary and --standby belong together: give both, or none for a pair of the suite's own"
                    .to_owned(),
            )),
        }
    }

    async fn make(options: &Options, say: &(dyn Fn(&str) + Sync)) -> Result<Self, SuiteError> {
        let begin = clock::now();
        say("making a primary and a standby");
        let own = blocking({
            let options = options.clone();
            move || Own::make(&options)
        })
        .await?;
        let homes = [own.target(Node::Primary)?, own.target(Node::Standby)?];
        let homes = homes.map(|target| ours(target, own.major()));
        let mut pair = Self {
            primary: homes[0].clone().database(DATABASE),
            standby: homes[1].clone().database(DATABASE),
            homes,
            major: own.major(),
            logical: true,
            ready_after: None,
            standby_name: own::STANDBY_NAME.to_owned(),
            kind: Kind::Own(Arc::new(own)),
            presence: None,
            ledger: Mutex::new(Ledger::Memory(Record::of_our_own())),
            guardian: None,
        };
        say("waiting for the standby");
        pair.synchronous(SYNCHRONOUS).await?;
        pair.ready_after = Some(begin.elapsed());
        pair.make_database().await?;
        Ok(pair)
    }

    async fn borrow(
        options: &Options,
        lender: &dyn Lender,
        say: &(dyn Fn(&str) + Sync),
    ) -> Result<Self, SuiteError> {
        if options.rtt_ms.iter().any(|rtt| *rtt > 0) {
            return Err(SuiteError::Options(
                "--rtt-ms is for a pair of the suite's own: leave it out, or --source".to_owned(),
            ));
        }
        let begin = clock::now();
        say("asking for a pair of the source");
        let lent = lender.lend(own::space(options)).await?;
        if lent.major < OLDEST {
            return Err(SuiteError::Preconditions(vec![format!(
                "the source {} runs on PostgreSQL {}, which is too old: the suite needs {OLDEST} or newer",
                lent.source, lent.major
            )]));
        }
        let [homes, [primary, standby]] = lent.targets(DATABASE)?;
        let mut pair = Self {
            primary,
            standby,
            homes,
            major: lent.major,
            logical: true,
            ready_after: None,
            standby_name: lent.standby_name.clone(),
            kind: Kind::Lent(Box::new(lent)),
            presence: None,
            ledger: Mutex::new(Ledger::Memory(Record::of_our_own())),
            guardian: None,
        };
        say("waiting for the standby");
        let prepared = async {
            pair.synchronous(SYNCHRONOUS).await?;
            let ready = begin.elapsed();
            pair.set_wanted(options).await?;
            pair.make_database().await?;
            Ok(ready)
        };
        match prepared.await {
            Ok(ready) => pair.ready_after = Some(ready),
            Err(error) => return Err(pair.lost_lately().await.unwrap_or(error)),
        }
        Ok(pair)
    }

    async fn take(
        options: &Options,
        primary: &str,
        standby: &str,
        say: &(dyn Fn(&str) + Sync),
    ) -> Result<Self, SuiteError> {
        if options.rtt_ms.iter().any(|rtt| *rtt > 0) {
            return Err(SuiteError::Options(
                "--rtt-ms is for a pair of the suite's own: leave it out, or --primary and --standby"
                    .to_owned(),
            ));
        }
        say("looking at the primary and the standby");
        let (given, file, guardian) = given::look(options, primary, standby).await?;
        let [primary, standby] = given.targets.clone();
        let name = restore::run_name(file.record().oid);
        let mut pair = Self {
            homes: [primary.clone().application_name(&name), standby.clone().application_name(&name)],
            primary: primary.database(DATABASE),
            standby: standby.database(DATABASE),
            major: given.version / 10_000,
            logical: false,
            ready_after: None,
            standby_name: given.standby_name.clone(),
            kind: Kind::Given(Box::new(given)),
            presence: None,
            ledger: Mutex::new(Ledger::File(file)),
            guardian: Some(guardian),
        };
        pair.presence = Some(pair.admin(Node::Primary).await?);
        pair.logical = pair.decodes().await?;
        say("preparing the primary and the standby");
        pair.set_wanted(options).await?;
        pair.ledger.get_mut().note(|record| record.database = Some(DATABASE.to_owned()))?;
        pair.make_database().await?;
        Ok(pair)
    }

    /// Sets what of the run's settings on the standby differs.
    async fn set_wanted(&self, options: &Options) -> Result<(), SuiteError> {
        let client = self.admin(Node::Standby).await?;
        for (name, value) in wanted(options) {
            if settings::current(&client, Node::Standby, name).await? != value {
                self.set(Node::Standby, name, Some(&value)).await?;
            }
        }
        Ok(())
    }

    /// Waits until the pair is gone although the run goes on, and says why: it was lent, and whoever lent it is no more. Others
    /// stay for as long as they are needed, and this waits for ever.
    pub async fn lost(&self) -> SuiteError {
        match &self.kind {
            Kind::Lent(lent) => SuiteError::Failed(format!(
                "the pair is gone in the midst of the run: {}",
                lent.is_gone().await
            )),
            Kind::Hosts(hosts) => hosts.lost().await,
            Kind::Own(_) | Kind::Given(_) => std::future::pending().await,
        }
    }

    /// Why a lent pair is gone, if that is why something has just failed: whoever lent it may say so a little later.
    pub(super) async fn lost_lately(&self) -> Option<SuiteError> {
        tokio::time::timeout(LOSS_TOLD, self.lost()).await.ok()
    }

    /// The pair that is lent.
    #[must_use]
    pub fn lent(&self) -> Option<&Lent> {
        match &self.kind {
            Kind::Lent(lent) => Some(lent),
            Kind::Own(_) | Kind::Given(_) | Kind::Hosts(_) => None,
        }
    }

    /// The pair on other hosts.
    #[must_use]
    pub fn hosts(&self) -> Option<&OnHosts> {
        match &self.kind {
            Kind::Hosts(hosts) => Some(hosts),
            Kind::Own(_) | Kind::Given(_) | Kind::Lent(_) => None,
        }
    }

    /// From the command to a synchronous pair; `None` for a given pair.
    #[must_use]
    pub fn ready_after(&self) -> Option<Duration> {
        self.ready_after
    }

    /// The major version of both.
    #[must_use]
    pub fn major(&self) -> u32 {
        self.major
    }

    /// Whether it is our own.
    #[must_use]
    pub fn is_own(&self) -> bool {
        matches!(self.kind, Kind::Own(_))
    }

    /// The manager of a given pair, if it is Patroni: then settings cannot be changed ([`SuiteError::Theirs`]).
    #[must_use]
    pub fn patroni(&self) -> Option<&patroni::Patroni> {
        match &self.kind {
            Kind::Own(_) | Kind::Lent(_) | Kind::Hosts(_) => None,
            Kind::Given(given) => given.patroni.as_ref(),
        }
    }

    /// Whether another standby may acknowledge commits in the place of this one, so that it holds up none of them.
    #[must_use]
    pub fn is_optional(&self) -> bool {
        matches!(&self.kind, Kind::Given(given) if given.is_optional)
    }

    /// Whether `wal_level` is logical and a slot is free.
    #[must_use]
    pub fn has_logical_decoding(&self) -> bool {
        self.logical
    }

    /// What the standby is called on the primary.
    pub(super) fn standby_name(&self) -> &str {
        &self.standby_name
    }

    /// Where to connect, in [`DATABASE`], under [`APPLICATION_NAME`], with `statement_timeout` and the like off.
    #[must_use]
    pub fn target(&self, node: Node) -> &Target {
        match node {
            Node::Primary => &self.primary,
            Node::Standby => &self.standby,
        }
    }

    /// Connects.
    ///
    /// # Errors
    /// [`SuiteError::Failed`].
    pub async fn connect(&self, node: Node) -> Result<Client, SuiteError> {
        connect(self.target(node), node).await
    }

    /// A session outside of [`DATABASE`].
    async fn admin(&self, node: Node) -> Result<Client, SuiteError> {
        connect(&self.homes[usize::from(node == Node::Standby)], node).await
    }

    async fn decodes(&self) -> Result<bool, SuiteError> {
        let row = answered("look for a free slot", Node::Primary, self
            .admin(Node::Primary)
            .await?
            .query_one(
                "SELECT current_setting('wal_level') = 'logical'
                        AND current_setting('max_replication_slots')::int > count(*) FROM pg_replication_slots",
                &[],
            )).await?;
        Ok(row.get(0))
    }

    /// Changes a setting (ALTER SYSTEM and reload), after what it was has been recorded durably in the restore file.
    /// Returns when the server uses it. `None`: puts it back.
    ///
    /// # Errors
    /// [`SuiteError::Theirs`] when Patroni manages the pair and the setting has another value;
    /// [`SuiteError::Theirs`] when somebody else has set it during the run: it is left as it is;
    /// [`SuiteError::Options`] when it needs a restart, or ALTER SYSTEM has no effect on it;
    /// [`SuiteError::Refused`] when the server refuses, [`SuiteError::Timeout`] when nothing comes of it.
    pub async fn set(&self, node: Node, name: &str, value: Option<&str>) -> Result<(), SuiteError> {
        let client = self.admin(node).await?;
        let mut ledger = self.ledger.lock().await;
        if let Some(place) = &ledger.record().server(node).place {
            let found = Place::read(&client, node).await?;
            if found != *place {
                return Err(SuiteError::Options(format!(
                    "the connection string of the {} leads to another server now ({found}) than when the run began \
                     ({place}): nothing is set there",
                    node
                )));
            }
        }
        let known = ledger.record().setting(node, name).cloned();
        if let Some(known) = &known {
            if known.is_taken(settings::automatic(&client, node, name).await?.as_deref()) {
                let theirs = SuiteError::Theirs(format!(
                    "somebody else has set {name} on the {node} during the run: it is left as it is"
                ));
                // Nothing is to be put back any more. That it is not as it was is told when the pair is closed.
                return if value.is_some() { Err(theirs) } else { Ok(()) };
            }
        }
        let known = known.map(|setting| setting.before);
        match (value, known) {
            (None, None) => return Ok(()),
            (None, Some(before)) => settings::alter(&client, node, name, before.as_deref()).await?,
            (Some(value), known) => {
                if let Some(patroni) = self.patroni() {
                    if settings::current(&client, node, name).await? == value {
                        return Ok(());
                    }
                    let command = patroni.command(&[(name, value)]);
                    return Err(SuiteError::Theirs(format!(
                        "{name} is managed by Patroni; to have this measured, run: {command}"
                    )));
                }
                if let Some(text) = settings::obstacle(&client, node, name).await? {
                    return Err(SuiteError::Options(text));
                }
                let before = match known {
                    Some(before) => before,
                    None => settings::automatic(&client, node, name).await?,
                };
                ledger.note(|record| record.note_setting(node, name, before, value))?;
                settings::alter(&client, node, name, Some(value)).await?;
                if let Some(source) = settings::overridden(&client, node, name).await? {
                    let text = format!("the setting {name} of the {node} is given by its {source}: ALTER SYSTEM has no effect");
                    return Err(SuiteError::Options(text));
                }
            }
        }
        if node == Node::Standby && name == "hot_standby_feedback" {
            self.feedback_arrived(&client).await?;
        }
        Ok(())
    }

    /// Waits until the primary holds back what the standby's feedback asks for, or no longer does.
    async fn feedback_arrived(&self, standby: &Client) -> Result<(), SuiteError> {
        let on = settings::current(standby, Node::Standby, "hot_standby_feedback").await? == "on";
        let primary = self.admin(Node::Primary).await?;
        let sql = "SELECT bool_or(coalesce(r.backend_xmin, s.xmin) IS NOT NULL)
                   FROM pg_stat_replication r LEFT JOIN pg_replication_slots s ON s.active_pid = r.pid
                   WHERE r.application_name = $1";
        let arrived = async || {
            let doing = "look for the standby's feedback";
            let row = answered(doing, Node::Primary, primary.query_one(sql, &[&self.standby_name])).await?;
            Ok(row.get::<_, Option<bool>>(0) == Some(on))
        };
        until(EFFECT, || "the feedback of the standby".to_owned(), arrived).await
    }

    /// Adds a round trip between the servers, at once and without a restart. Only for a pair of our own.
    ///
    /// # Errors
    /// [`SuiteError::Options`] where no delay can be added.
    pub fn set_rtt(&self, rtt: Duration) -> Result<(), SuiteError> {
        let proxy = match &self.kind {
            Kind::Own(own) => own.proxy(),
            Kind::Given(_) | Kind::Lent(_) | Kind::Hosts(_) => None,
        };
        match proxy {
            Some(proxy) => proxy.set_rtt(rtt),
            None if rtt.is_zero() => {}
            None => {
                return Err(SuiteError::Options(
                    "a round trip can only be added to a pair of our own, and only if the options name one"
                        .to_owned(),
                ))
            }
        }
        Ok(())
    }

    /// Stops the standby (own pairs).
    ///
    /// # Errors
    /// [`SuiteError::Options`] for a given pair, [`SuiteError::Timeout`] when it does not stop.
    pub async fn stop_standby(&self) -> Result<(), SuiteError> {
        let own = self.own()?;
        blocking(move || own.stop_standby()).await
    }

    /// Starts it again and returns when it is synchronous.
    ///
    /// # Errors
    /// As for [`Pair::stop_standby`].
    pub async fn start_standby(&self) -> Result<(), SuiteError> {
        let own = self.own()?;
        blocking(move || own.start_standby()).await?;
        self.synchronous(SYNCHRONOUS).await
    }

    fn own(&self) -> Result<Arc<Own>, SuiteError> {
        match &self.kind {
            Kind::Own(own) => Ok(Arc::clone(own)),
            Kind::Given(_) | Kind::Lent(_) | Kind::Hosts(_) => {
                Err(SuiteError::Options("only servers of our own are stopped and started".to_owned()))
            }
        }
    }

    /// Waits until the standby has replayed what the primary has written by now.
    ///
    /// # Errors
    /// [`SuiteError::Timeout`] after `limit`.
    pub async fn caught_up(&self, limit: Duration) -> Result<(), SuiteError> {
        let lsn = within(limit, "the primary to say how far the WAL is written", self.flushed()).await??;
        let standby = self.admin(Node::Standby).await?;
        let question = format!("SELECT pg_last_wal_replay_lsn() >= '{lsn}'::pg_lsn");
        let replayed = async || {
            let asked = standby.query_one(&question, &[]);
            let row = answered("ask how far the WAL is replayed", Node::Standby, asked).await?;
            Ok(row.get::<_, Option<bool>>(0) == Some(true))
        };
        until(limit, || format!("the standby to replay {lsn}"), replayed).await
    }

    /// Where the WAL ends that the primary has written by now, and flushed.
    async fn flushed(&self) -> Result<String, SuiteError> {
        let primary = self.admin(Node::Primary).await?;
        let doing = || refused("ask how far the WAL is written", Node::Primary);
        // Only what is flushed is sent, and records without a commit may lie in memory for long: a commit flushes them.
        primary
            .batch_execute(
                "BEGIN; SET LOCAL synchronous_commit TO local; SELECT pg_current_xact_id(); COMMIT",
            )
            .await
            .map_err(doing())?;
        let row = primary.query_one("SELECT pg_current_wal_flush_lsn()::text", &[]).await.map_err(doing())?;
        Ok(row.get(0))
    }

    /// Waits until the primary has a synchronous standby.
    async fn synchronous(&self, limit: Duration) -> Result<(), SuiteError> {
        let primary = self.admin(Node::Primary).await?;
        let sql = "SELECT count(*) > 0 FROM pg_stat_replication
                   WHERE application_name = $1 AND sync_state IN ('sync', 'quorum')";
        let synchronous = async || {
            let doing = "look for the standby";
            Ok(answered(doing, Node::Primary, primary.query_one(sql, &[&self.standby_name])).await?.get(0))
        };
        let what = || match &self.kind {
            Kind::Own(own) => {
                format!("a synchronous standby, whose log ends\n{}", own.log(Node::Standby))
            }
            Kind::Given(_) | Kind::Lent(_) | Kind::Hosts(_) => "a synchronous standby".to_owned(),
        };
        until(limit, what, synchronous).await
    }

    async fn make_database(&self) -> Result<(), SuiteError> {
        let admin = self.admin(Node::Primary).await?;
        let making = format!("make the database {DATABASE}");
        let make = async |client: &Client, sql: &str| {
            within(MAKE, &making, client.batch_execute(sql)).await?.map_err(refused(&*making, Node::Primary))
        };
        make(&admin, "SET synchronous_commit TO local").await?;
        // By its OID it is known to be this run's, whoever else makes one of that name. `template0` is as it came with
        // the server: nothing of the owner's is copied, and no session of his is in the way.
        let oid = self.ledger.lock().await.record().oid;
        make(&admin, &format!("CREATE DATABASE {DATABASE} OID = {oid} TEMPLATE template0")).await?;
        let client = self.connect(Node::Primary).await?;
        if let Kind::Lent(lent) = &self.kind {
            // Before 17 they cannot be turned off, and would run as our superuser.
            let sql = "SELECT count(*) FROM pg_catalog.pg_event_trigger";
            let row = answered("look for event triggers", Node::Primary, client.query_one(sql, &[])).await?;
            if row.get::<_, i64>(0) > 0 {
                return Err(SuiteError::Preconditions(vec![format!(
                    "template0 of the source {} has event triggers, which the suite does not run: drop them there, and \
                     import it again",
                    lent.source
                )]));
            }
        }
        make(&client, "SET synchronous_commit TO local; CREATE EXTENSION pg_walinspect").await?;
        self.caught_up(SYNCHRONOUS).await
    }

    /// Notes what may be left behind by a killed run, before it is made: a slot by its name. It must be in [`DATABASE`].
    ///
    /// # Errors
    /// When there is a slot of that name, or it cannot be recorded durably; it must not be made then.
    pub async fn record_slot(&self, name: &str) -> Result<(), SuiteError> {
        let row = answered(
            "look for the slot",
            Node::Primary,
            self.admin(Node::Primary)
                .await?
                .query_one("SELECT count(*) > 0 FROM pg_replication_slots WHERE slot_name = $1", &[&name]),
        )
        .await?;
        if row.get(0) {
            return Err(SuiteError::Options(format!("the primary has a slot {name} already")));
        }
        let mut ledger = self.ledger.lock().await;
        if ledger.record().slots.iter().any(|slot| slot == name) {
            return Ok(());
        }
        ledger.note(|record| record.slots.push(name.to_owned()))
    }

    /// The restore file of a given pair.
    pub async fn restore_file(&self) -> Option<std::path::PathBuf> {
        match &*self.ledger.lock().await {
            Ledger::Memory(_) => None,
            Ledger::File(file) => Some(file.path().to_owned()),
        }
    }

    /// Puts everything back, drops the database and checks that all settings are what they were: `(all are, detail)`.
    ///
    /// # Errors
    /// [`SuiteError::Unrestored`] when something could not be put back; the restore file is kept then, and the
    /// guardian goes on trying.
    pub async fn close(self) -> Result<(bool, String), SuiteError> {
        let Self { homes, kind, ledger, guardian, presence, .. } = self;
        let (given, file) = match (kind, ledger.into_inner()) {
            (Kind::Given(given), Ledger::File(file)) => (given, file),
            (Kind::Hosts(hosts), _) => {
                // The servers are not asked to end while somebody is connected.
                drop(presence);
                hosts.close().await?;
                return Ok((
                    true,
                    "the pair was made for this run on two hosts, and is removed from both".to_owned(),
                ));
            }
            (Kind::Lent(lent), _) => {
                let detail = format!(
                    "the pair was made for this run of the source {}, and is given back",
                    lent.source
                );
                blocking(move || {
                    drop(lent);
                    Ok(())
                })
                .await?;
                return Ok((true, detail));
            }
            (kind, _) => {
                blocking(move || {
                    drop(kind);
                    Ok(())
                })
                .await?;
                return Ok((true, "the pair was the suite's own, and is gone".to_owned()));
            }
        };
        let path = file.path().to_owned();
        // Ours, and not to be counted among the sessions that are in the way.
        drop(presence);
        let ours = [Node::Primary, Node::Standby].map(|node| file.record().names_on(node));
        let begin = clock::now();
        let mut outcome = restore::put_back(file).await;
        // A server that is just starting again takes a while.
        while !matches!(&outcome, Ok(outcome) if outcome.left.is_empty()) && begin.elapsed() < EFFECT {
            tokio::time::sleep(POLL * 50).await;
            if let Ok(Some(file)) = RestoreFile::take_over(&path) {
                outcome = restore::put_back(file).await;
            }
        }
        let (detail, theirs) = match outcome {
            Ok(outcome) => (outcome.left.join("; "), outcome.theirs),
            Err(error) => (error.to_string(), Vec::new()),
        };
        if !detail.is_empty() {
            if let Some(guardian) = guardian {
                guardian.release();
            }
            let detail = format!(
                "cannot put back the settings of the pair: {detail}\nrun `duramen lab restore` when it can be \
                 reached; {} says what is to be put back",
                path.display()
            );
            return Err(SuiteError::Unrestored { detail, file: Some(path) });
        }
        blocking(move || {
            drop(guardian);
            Ok(())
        })
        .await?;
        let mut count = 0;
        let mut lines = theirs;
        let nodes = [Node::Primary, Node::Standby].into_iter().zip(&ours);
        for ((target, found), (node, ours)) in homes.iter().zip(&given.found).zip(nodes) {
            let later = Snapshot::take(&connect(target, node).await?, node).await?;
            count += later.len();
            let lines_of = found.differences(&later, ours).into_iter();
            lines.extend(lines_of.map(|line| format!("{}: {line}", node)));
        }
        if lines.is_empty() {
            return Ok((true, format!("all {count} settings of both servers are as they were found")));
        }
        Ok((false, lines.join("; ")))
    }
}

/// Asks again and again until it is so. A server that does not answer is not waited for longer than one that says no.
async fn until(
    limit: Duration,
    what: impl FnOnce() -> String,
    is_so: impl AsyncFn() -> Result<bool, SuiteError>,
) -> Result<(), SuiteError> {
    let asking = async {
        while !is_so().await? {
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    };
    tokio::time::timeout(limit, asking).await.unwrap_or_else(|_| Err(timeout(what(), limit)))
}

/// The settings of a run on the standby.
fn wanted(options: &Options) -> [(&'static str, String); 2] {
    [
        ("hot_standby_feedback", "off".to_owned()),
        ("max_standby_streaming_delay", options.max_standby_delay_ms.to_string()),
    ]
}

/// A target as our sessions use it, of a server that is not too old.
fn ours(target: Target, major: u32) -> Target {
    let target = untimed(target).application_name(APPLICATION_NAME).settings([
        ("default_transaction_read_only", "off"),
        ("default_transaction_isolation", "read committed"),
        ("idle_session_timeout", "0"),
    ]);
    if major >= 17 {
        target.settings([("transaction_timeout", "0")])
    } else {
        target
    }
}

/// A target whose statements take as long as they take. (Versions that are too old know these settings, too.)
pub(super) fn untimed(target: Target) -> Target {
    target.settings([
        ("statement_timeout", "0"),
        ("lock_timeout", "0"),
        ("idle_in_transaction_session_timeout", "0"),
    ])
}

async fn connect(target: &Target, node: Node) -> Result<Client, SuiteError> {
    target.connect().await.map_err(cannot_reach(node))
}

/// Does what blocks on a thread of its own.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SuiteError> + Send + 'static,
) -> Result<T, SuiteError> {
    match spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(error) => Err(no_runtime(std::io::Error::other(error))),
        },
    }
}

/// What a server answers, in time.
pub(super) async fn answered<T>(
    doing: impl Into<String>,
    node: Node,
    statement: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, SuiteError> {
    let doing = doing.into();
    let what = format!("the {} to {doing}", node);
    within(ANSWER, &what, statement).await?.map_err(refused(doing, node))
}
