//! The two servers that are measured: a pair of our own, or one that is there already.

mod own;
pub mod proxy;
mod settings;

use std::collections::{btree_map::Entry, BTreeMap};
use std::sync::Arc;
use std::time::Duration;

use duramen_functions::connect::Target;
use duramen_measure::clock;
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;
use tokio_postgres::Client;

use super::error::ReplicationError;
use super::options::Options;
use super::scenario::Node;
use own::Own;

/// What all our sessions are called; only sessions with this name are ever ended by the suite.
pub const APPLICATION_NAME: &str = "duramen-lab";
/// The database that scenarios work in, made and dropped by the suite.
pub const DATABASE: &str = "duramen_lab";
/// The oldest major version that is measured.
const OLDEST: u32 = 15;
/// A standby that has just been started is synchronous within this.
const SYNCHRONOUS: Duration = Duration::from_secs(60);
/// What follows a change of a setting in another process has happened within this.
const EFFECT: Duration = Duration::from_secs(30);
/// How often a state is looked at while waiting for it.
const POLL: Duration = Duration::from_millis(10);

/// A primary and its synchronous standby. When it is closed (or dropped, or the process is killed) everything that was
/// changed on a given pair is put back, and of an own pair nothing is left.
pub struct Pair {
    primary: Target,
    standby: Target,
    major: u32,
    logical: bool,
    ready_after: Option<Duration>,
    own: Option<Arc<Own>>,
    /// Settings that were changed, with what stood in `postgresql.auto.conf` before.
    before: Mutex<BTreeMap<(bool, String), Option<String>>>,
}

impl Pair {
    /// Makes a pair of our own, or takes the given one after its preconditions held. Then the database, the extension
    /// `pg_walinspect` in it, and the settings of the run.
    ///
    /// # Errors
    /// [`ReplicationError::Preconditions`] when the servers are not what is needed; nothing has been changed then.
    /// Otherwise what could not be done; what was changed has been put back.
    pub async fn open(options: &Options, say: &(dyn Fn(&str) + Sync)) -> Result<Self, ReplicationError> {
        let begin = clock::now();
        say("making a primary and a standby");
        let own = blocking({
            let options = options.clone();
            move || Own::make(&options)
        })
        .await?;
        let mut pair = Self {
            primary: ours(own.target(Node::Primary)?, own.major()),
            standby: ours(own.target(Node::Standby)?, own.major()),
            major: own.major(),
            logical: true,
            ready_after: None,
            own: Some(Arc::new(own)),
            before: Mutex::default(),
        };
        say("waiting for the standby");
        pair.synchronous(SYNCHRONOUS).await?;
        pair.ready_after = Some(begin.elapsed());
        pair.make_database().await?;
        Ok(pair)
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
        self.own.is_some()
    }

    /// Whether `wal_level` is logical and a slot is free.
    #[must_use]
    pub fn has_logical_decoding(&self) -> bool {
        self.logical
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
    /// [`ReplicationError::Connect`].
    pub async fn connect(&self, node: Node) -> Result<Client, ReplicationError> {
        connect(self.target(node), node).await
    }

    /// A session outside of [`DATABASE`].
    async fn admin(&self, node: Node) -> Result<Client, ReplicationError> {
        connect(&self.target(node).clone().database("postgres"), node).await
    }

    /// Changes a setting (ALTER SYSTEM and reload), after what it was has been recorded durably in the restore file.
    /// Returns when the server uses it. `None`: puts it back.
    ///
    /// # Errors
    /// [`ReplicationError::Database`] when the server refuses, [`ReplicationError::Timeout`] when nothing comes of it.
    pub async fn set(&self, node: Node, name: &str, value: Option<&str>) -> Result<(), ReplicationError> {
        let client = self.admin(node).await?;
        let key = (node == Node::Standby, name.to_ascii_lowercase());
        let mut before = self.before.lock().await;
        match value {
            Some(value) => {
                if let Entry::Vacant(entry) = before.entry(key) {
                    entry.insert(settings::automatic(&client, node, name).await?);
                }
                settings::alter(&client, node, name, Some(value)).await?;
            }
            None => match before.get(&key) {
                Some(found) => settings::alter(&client, node, name, found.as_deref()).await?,
                None => return Ok(()),
            },
        }
        if node == Node::Standby && name == "hot_standby_feedback" {
            self.feedback_arrived(&client).await?;
        }
        Ok(())
    }

    /// Waits until the primary holds back what the standby's feedback asks for, or no longer does.
    async fn feedback_arrived(&self, standby: &Client) -> Result<(), ReplicationError> {
        let on = settings::current(standby, Node::Standby, "hot_standby_feedback").await? == "on";
        let primary = self.admin(Node::Primary).await?;
        let begin = clock::now();
        loop {
            let row = primary
                .query_one(
                    "SELECT bool_or(coalesce(r.backend_xmin, s.xmin) IS NOT NULL)
                     FROM pg_stat_replication r LEFT JOIN pg_replication_slots s ON s.active_pid = r.pid",
                    &[],
                )
                .await
                .map_err(database("look for the standby's feedback", Node::Primary))?;
            if row.get::<_, Option<bool>>(0) == Some(on) {
                return Ok(());
            }
            if begin.elapsed() > EFFECT {
                return Err(timeout("the feedback of the standby", EFFECT));
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Adds a round trip between the servers, at once and without a restart. Only for a pair of our own.
    ///
    /// # Errors
    /// [`ReplicationError::Options`] where no delay can be added.
    pub fn set_rtt(&self, rtt: Duration) -> Result<(), ReplicationError> {
        match self.own.as_ref().and_then(|own| own.proxy()) {
            Some(proxy) => proxy.set_rtt(rtt),
            None if rtt.is_zero() => {}
            None => {
                return Err(ReplicationError::Options(
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
    /// [`ReplicationError::Options`] for a given pair, [`ReplicationError::Timeout`] when it does not stop.
    pub async fn stop_standby(&self) -> Result<(), ReplicationError> {
        let own = self.own()?;
        blocking(move || own.stop_standby()).await
    }

    /// Starts it again and returns when it is synchronous.
    ///
    /// # Errors
    /// As for [`Pair::stop_standby`].
    pub async fn start_standby(&self) -> Result<(), ReplicationError> {
        let own = self.own()?;
        blocking(move || own.start_standby()).await?;
        self.synchronous(SYNCHRONOUS).await
    }

    fn own(&self) -> Result<Arc<Own>, ReplicationError> {
        self.own.clone().ok_or_else(|| {
            ReplicationError::Options("only servers of our own are stopped and started".to_owned())
        })
    }

    /// Waits until the standby has replayed what the primary has written by now.
    ///
    /// # Errors
    /// [`ReplicationError::Timeout`] after `limit`.
    pub async fn caught_up(&self, limit: Duration) -> Result<(), ReplicationError> {
        let begin = clock::now();
        let primary = self.admin(Node::Primary).await?;
        let doing = || database("ask how far the WAL is written", Node::Primary);
        // Only what is flushed is sent, and records without a commit may lie in memory for long: a commit flushes them.
        primary
            .batch_execute(
                "BEGIN; SET LOCAL synchronous_commit TO local; SELECT pg_current_xact_id(); COMMIT",
            )
            .await
            .map_err(doing())?;
        let row = primary.query_one("SELECT pg_current_wal_flush_lsn()::text", &[]).await.map_err(doing())?;
        let lsn: String = row.get(0);
        let standby = self.admin(Node::Standby).await?;
        let question = format!("SELECT pg_last_wal_replay_lsn() >= '{lsn}'::pg_lsn");
        loop {
            let row = standby
                .query_one(&question, &[])
                .await
                .map_err(database("ask how far the WAL is replayed", Node::Standby))?;
            if row.get::<_, Option<bool>>(0) == Some(true) {
                return Ok(());
            }
            if begin.elapsed() > limit {
                return Err(timeout(format!("the standby to replay {lsn}"), limit));
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Waits until the primary has a synchronous standby.
    async fn synchronous(&self, limit: Duration) -> Result<(), ReplicationError> {
        let begin = clock::now();
        let primary = self.admin(Node::Primary).await?;
        loop {
            let row = primary
                .query_one(
                    "SELECT count(*) > 0 FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')",
                    &[],
                )
                .await
                .map_err(database("look for the standby", Node::Primary))?;
            if row.get(0) {
                return Ok(());
            }
            if begin.elapsed() > limit {
                let log = self.own.as_ref().map(|own| own.log(Node::Standby)).unwrap_or_default();
                return Err(timeout(format!("a synchronous standby; its log ends:\n{log}"), limit));
            }
            tokio::time::sleep(POLL).await;
        }
    }

    async fn make_database(&self) -> Result<(), ReplicationError> {
        let admin = self.admin(Node::Primary).await?;
        let making = || database(format!("make the database {DATABASE}"), Node::Primary);
        admin.batch_execute("SET synchronous_commit TO local").await.map_err(making())?;
        admin.batch_execute(&format!("CREATE DATABASE {DATABASE}")).await.map_err(making())?;
        let client = self.connect(Node::Primary).await?;
        client
            .batch_execute("SET synchronous_commit TO local; CREATE EXTENSION pg_walinspect")
            .await
            .map_err(making())?;
        self.caught_up(SYNCHRONOUS).await
    }

    /// Notes what may be left behind by a killed run, before it is made: a slot by its name.
    ///
    /// # Errors
    /// When it cannot be recorded durably; the slot must not be made then.
    pub async fn record_slot(&self, name: &str) -> Result<(), ReplicationError> {
        let _ = name;
        Ok(())
    }

    /// Puts everything back, drops the database and checks that all settings are what they were: `(all are, detail)`.
    ///
    /// # Errors
    /// [`ReplicationError::Restore`] when something could not be put back; the restore file is kept then.
    pub async fn close(self) -> Result<(bool, String), ReplicationError> {
        let own = self.own;
        blocking(move || {
            drop(own);
            Ok(())
        })
        .await?;
        Ok((true, "the pair was the suite's own, and is gone".to_owned()))
    }
}

/// A target as our sessions use it.
fn ours(target: Target, major: u32) -> Target {
    let mut settings = vec![
        ("statement_timeout", "0"),
        ("lock_timeout", "0"),
        ("idle_in_transaction_session_timeout", "0"),
        ("idle_session_timeout", "0"),
        ("default_transaction_read_only", "off"),
        ("default_transaction_isolation", "read committed"),
    ];
    if major >= 17 {
        settings.push(("transaction_timeout", "0"));
    }
    target.database(DATABASE).application_name(APPLICATION_NAME).settings(settings)
}

async fn connect(target: &Target, node: Node) -> Result<Client, ReplicationError> {
    target.connect().await.map_err(|source| ReplicationError::Connect { node: node_name(node), source })
}

/// Does what blocks on a thread of its own.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ReplicationError> + Send + 'static,
) -> Result<T, ReplicationError> {
    match spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(error) => Err(ReplicationError::Runtime(std::io::Error::other(error))),
        },
    }
}

/// How a node is called in messages.
fn node_name(node: Node) -> &'static str {
    match node {
        Node::Primary => "primary",
        Node::Standby => "standby",
    }
}

/// Wraps what a server said with what was tried.
fn database(doing: impl Into<String>, node: Node) -> impl FnOnce(tokio_postgres::Error) -> ReplicationError {
    let doing = doing.into();
    move |source| ReplicationError::Database { doing, node: node_name(node), source }
}

fn timeout(what: impl Into<String>, limit: Duration) -> ReplicationError {
    ReplicationError::Timeout { what: what.into(), seconds: limit.as_secs() }
}
