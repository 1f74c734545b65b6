//! A branch at run time: a cloned volume, its server, and the session that stays connected to it.

mod stopping;

use crate::{
    environment::Environment,
    error::{query_failed, EngineError, Kind, QueryError},
    generation::Generation,
    home::{ADMIN_DIR, TOKEN_LEN},
    model::Policy,
    revival::Attempts,
    sleep::Sleep,
    source::{
        connected::Connected,
        connection,
        origin_server::local,
        sanitise::ADMIN,
        snapshot::{access_rules, hba_file, Admitted, HOLDER_ITERATIONS, KEPT_CACHE},
    },
    spare::Spare,
    statements,
};
use duramen_base::{clock, entropy, file::read_plain};
use duramen_postgres::{
    quote_identifier, quote_literal, volume, Canceller, Cluster, ControlGroup, Entry, EntryError, Guard,
    Outcome, Postmaster, Secret, Session, SessionError, Settings, Statement,
};
use std::{
    fs,
    num::NonZeroU32,
    path::{Path, PathBuf},
    sync::{
        atomic::{AtomicBool, Ordering},
        Arc, Mutex, PoisonError,
    },
    time::Duration,
};

/// How long a server may take to start.
const START_LIMIT: Duration = Duration::from_secs(60);
/// How long a session may take to connect.
pub(crate) const CONNECT_LIMIT: Duration = Duration::from_secs(30);
/// How long a cancel request may take.
const CANCEL_LIMIT: Duration = Duration::from_secs(1);
/// How long a statement whose caller went away may take to end after it was cancelled, and how often it is cancelled: a
/// request that arrives before the server has begun the statement is lost.
const CANCEL_GRACE: Duration = Duration::from_secs(5);
const CANCEL_EVERY: Duration = Duration::from_millis(100);
/// How long a server process may take to end when it is told to, in milliseconds.
const TERMINATE_MS: u32 = 2000;
/// Branch servers yield to the daemon: a lease must not wait behind a hundred queries.
const SERVER_NICE: i32 = 5;
/// The same for the scheduling group of a resident session.
const SESSION_GROUP_NICE: &str = "5";
/// How many callers may wait for one branch's session.
pub(crate) const SESSION_QUEUE: usize = 32;

/// What DDL branches do once, and roll back, before they are called hot: the first DDL of a session reads far more
/// of the catalogue than the second.
const WARM_DDL: &str = "create schema duramen_warm create table t (id bigint, name text, payload jsonb) \
                        create index on t (id) create index on t (name)";

/// What becomes of a branch's socket directory when the branch is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SocketDir {
    /// It goes with the branch.
    Remove,
    /// A branch that took its place uses it.
    Keep,
}

/// The secrets of one branch.
#[derive(Debug)]
struct Secrets {
    /// In its URL.
    holder: Secret,
    /// Of its superuser, from when an administrator has asked for it on.
    admin: Secret,
    /// The same until then, as in the snapshot.
    first_admin: Secret,
    /// What was that of the volume of which its own is a copy.
    inherited: Option<Secret>,
}

/// A branch with its server and session.
#[derive(Debug)]
pub(crate) struct Branch {
    pub(crate) generation: Arc<Generation>,
    pub(crate) policy: Policy,
    /// Name of its directory below `volumes/branches`.
    pub(crate) volume: String,
    /// How often writes had been lost when it was made.
    pub(crate) losses: u64,
    /// Name of its socket directory.
    pub(crate) socket: String,
    socket_dir: PathBuf,
    secrets: Secrets,
    cluster: Cluster,
    postmaster: Mutex<Option<Postmaster>>,
    session: tokio::sync::Mutex<Option<Session>>,
    pub(crate) queue: tokio::sync::Semaphore,
    /// A process that is ready for the first client.
    pub(crate) spare: Spare,
    /// Who is there, and whether its server is stopped because nobody is.
    pub(crate) sleep: Sleep,
    /// Set when its lease has ended or been given another volume: from then on nothing starts its server again.
    retired: AtomicBool,
    /// What limits its server's processes, where there is such a thing.
    pub(crate) group: Option<ControlGroup>,
    pub(crate) store: Arc<volume::Store>,
    /// Whether it was given more than its quota to clean up.
    pub(crate) over_quota: AtomicBool,
    /// When its server is started again after it ended by itself.
    pub(crate) attempts: Attempts,
}

impl Branch {
    /// A branch of a cloned volume. Its server may run already (adoption) or not.
    pub(crate) fn new(
        environment: &Environment,
        generation: Arc<Generation>,
        policy: Policy,
        volume: String,
        socket: Option<String>,
    ) -> Branch {
        let socket = socket.unwrap_or_else(|| entropy::token(TOKEN_LEN));
        let socket_dir = environment.home.socket(&socket);
        let cluster = Cluster::new(
            generation.installation.clone(),
            environment.volume(&volume),
            generation.user.clone(),
        )
        .with_log(environment.log(&volume))
        .with_private_socket(socket_dir.join(ADMIN_DIR))
        .in_group(environment.group(&volume));
        Branch {
            policy,
            secrets: Secrets {
                holder: environment.home.branch_secret(&volume),
                admin: environment.home.branch_admin_secret(&volume),
                first_admin: generation.manifest.administrator(&environment.home, &generation.source),
                inherited: None,
            },
            losses: environment.losses.load(Ordering::Acquire),
            group: environment.group(&volume),
            store: Arc::clone(&environment.store),
            over_quota: AtomicBool::new(false),
            attempts: Attempts::default(),
            socket_dir,
            socket,
            volume,
            postmaster: Mutex::new(Postmaster::adopt(cluster.data_dir())),
            cluster,
            session: tokio::sync::Mutex::new(None),
            queue: tokio::sync::Semaphore::new(SESSION_QUEUE),
            spare: Spare::default(),
            sleep: Sleep::default(),
            retired: AtomicBool::new(false),
            generation,
        }
    }

    /// The same, of a volume that is a copy of another branch's, `volume`, or of an earlier one of its own.
    pub(crate) fn inheriting(mut self, environment: &Environment, volume: Option<&str>) -> Branch {
        self.secrets.inherited = volume.map(|volume| environment.home.branch_admin_secret(volume));
        self
    }

    /// Starts the server unless it runs: the second step. Blocks.
    pub(crate) fn start(&self) -> Result<(), EngineError> {
        self.start_observed(&mut |_| {})
    }

    /// As [`Branch::start`]; `observe` is called with the server's process id while it starts.
    pub(crate) fn start_observed(&self, observe: &mut dyn FnMut(u32)) -> Result<(), EngineError> {
        let mut slot = self.postmaster.lock().unwrap_or_else(PoisonError::into_inner);
        if self.retired.load(Ordering::Acquire) {
            return Err(QueryError::Retired.into());
        }
        if slot.as_mut().is_some_and(Postmaster::is_running) {
            return Ok(());
        }
        if let Some(server) = Postmaster::adopt(self.cluster.data_dir()) {
            // An earlier daemon was killed while it started this one.
            let begin = clock::now();
            while !server.is_ready() && begin.elapsed() < START_LIMIT {
                std::thread::sleep(Duration::from_millis(5));
            }
            *slot = Some(server);
            self.sleep.wake();
            return Ok(());
        }
        let is_first = !self.had_server() && self.secrets.inherited.is_none();
        if is_first {
            self.give_secret_at_rest()?;
            self.write_rules_of_role()?;
        } else {
            self.lift_quota();
        }
        if let Some(group) = &self.group {
            group.make(self.generation.limits().group).map_err(|error| {
                let message = format!("the group that limits the branch's server cannot be made: {error}");
                EngineError::new(Kind::Failed, "server_failed", message)
            })?;
        }
        let mut settings = self.generation.server_settings(self.policy, self.cluster.data_dir());
        // What runs in a database can tell by it which copy it is in.
        settings.set("duramen.identity", &self.volume);
        let started = self.cluster.start_observed(&self.socket_dir, &settings, START_LIMIT, observe);
        if !is_first {
            self.settle_quota();
        }
        // Not before: whoever comes meanwhile has to wait. One that does not start is no sleeper any more.
        self.sleep.wake();
        let server =
            started.map_err(|error| EngineError::new(Kind::Failed, "server_failed", error.to_string()))?;
        server.set_nice(SERVER_NICE);
        *slot = Some(server);
        Ok(())
    }

    /// Puts the verifier of the branch's own secret where the snapshot has the first one of the holder's role. A
    /// statement to that end would cost a fresh server 5 ms. Only before any server ran in the directory.
    fn give_secret_at_rest(&self) -> Result<(), EngineError> {
        let Some(first) = self.generation.manifest.first_verifiers.get(&self.policy) else { return Ok(()) };
        let data_dir = self.cluster.data_dir();
        let verifier = self.secrets.holder.verifier(HOLDER_ITERATIONS);
        match first.replace(data_dir, &verifier) {
            Ok(true) => Ok(()),
            // The first session finds that the secret is not known, and an administrator's gives it.
            Ok(false) => {
                tracing::warn!(volume = self.volume, "the snapshot's first verifier is not where it was");
                Ok(())
            }
            Err(error) => Err(EngineError::new(
                Kind::Failed,
                "server_failed",
                format!("the secret of a branch cannot be written in {}: {error}", data_dir.display()),
            )),
        }
    }

    /// Writes the access rules of a branch that is entered as a role of the source.
    fn write_rules_of_role(&self) -> Result<(), EngineError> {
        if !matches!(self.policy, Policy::Role(_)) {
            return Ok(());
        }
        let generation = &self.generation;
        let admitted = generation.admitted(self.policy);
        let major = generation.installation.version.major;
        let rules = access_rules(self.policy, admitted, &generation.manifest.database, major);
        self.cluster
            .write_file(&hba_file(self.policy, admitted), &rules)
            .map_err(|error| EngineError::new(Kind::Failed, "server_failed", error.to_string()))
    }

    /// Puts the snapshot's relation cache files in place. Only before the first session of a branch whose catalogue
    /// nobody can have changed.
    pub(crate) fn place_relation_cache(&self) {
        let data_dir = self.cluster.data_dir();
        for dir in ["global".to_owned(), format!("base/{}", self.generation.manifest.database_oid)] {
            let dir = data_dir.join(dir);
            let _ = fs::rename(dir.join(KEPT_CACHE), dir.join("pg_internal.init"));
        }
    }

    /// Opens the resident session and warms it: the third step.
    pub(crate) async fn connect(&self, warm: bool) -> Result<(), EngineError> {
        let mut slot = self.session.lock().await;
        if slot.is_none() {
            self.have_statements_logged().await?;
            let mut session = self.open_session().await?;
            if warm {
                self.warm(&mut session).await.map_err(|error| session_failed(&error))?;
            }
            *slot = Some(session);
        }
        Ok(())
    }

    /// S1: before the first session of anybody.
    async fn have_statements_logged(&self) -> Result<(), EngineError> {
        if !self.generation.audits_statements {
            return Ok(());
        }
        let role = quote_identifier(self.policy.role());
        let logged = async { self.administer().await?.simple(&statements::of_role(&role)).await };
        logged.await.map_err(|error| session_failed(&error))
    }

    /// Warms the session that is connected.
    pub(crate) async fn warm_up(&self) -> Result<(), EngineError> {
        let mut slot = self.session.lock().await;
        match slot.as_mut() {
            Some(session) => self.warm(session).await.map_err(|error| session_failed(&error)),
            None => Err(QueryError::NoSession.into()),
        }
    }

    pub(crate) async fn open_session(&self) -> Result<Session, EngineError> {
        let opened = match self.log_in(self.policy.role(), &self.secrets.holder).await {
            // A role can always change its own password, and a holder is that role. Or the snapshot did not hold the
            // first verifier where it can be replaced.
            Err(error) if error.secret_is_wrong() => {
                self.let_in().await.map_err(|error| session_failed(&error))?;
                self.log_in(self.policy.role(), &self.secrets.holder).await
            }
            opened => opened,
        };
        opened.map_err(|error| session_failed(&error))
    }

    /// A session as the branch's superuser.
    async fn administer(&self) -> Result<Session, SessionError> {
        let mut opened = self.log_in(ADMIN, &self.secrets.first_admin).await;
        if opened.as_ref().is_err_and(SessionError::secret_is_wrong) {
            opened = self.log_in(ADMIN, &self.secrets.admin).await;
        }
        match (opened, &self.secrets.inherited) {
            (Err(error), Some(inherited)) if error.secret_is_wrong() => {
                // L3: an administrator of the other branch is not one of this.
                let mut session = self.log_in(ADMIN, inherited).await?;
                let verifier = self.secrets.admin.verifier(HOLDER_ITERATIONS);
                let own = format!("begin read write; alter role {ADMIN} password '{verifier}'; commit");
                session.simple(&own).await?;
                Ok(session)
            }
            (opened, _) => opened,
        }
    }

    /// Has the server write a checkpoint.
    pub(crate) async fn checkpoint(&self) -> Result<(), EngineError> {
        let done = async { self.administer().await?.simple("checkpoint").await };
        done.await.map_err(|error| session_failed(&error))
    }

    /// Makes the holder's secret known in a copy of another branch.
    pub(crate) async fn admit(&self) -> Result<(), EngineError> {
        self.let_in().await.map_err(|error| session_failed(&error))
    }

    /// Makes the administrator's secret in a copy of another branch its own.
    pub(crate) async fn adopt_secrets(&self) -> Result<(), EngineError> {
        self.administer().await.map(drop).map_err(|error| session_failed(&error))
    }

    /// A session of the branch's superuser in which nothing runs that the branch's holder, or the source, wrote.
    pub(crate) async fn administrator_client(&self) -> Result<Connected, EngineError> {
        let config = self.administrator_config().await?;
        connection::own(&config, self.generation.manifest.server_version.major).await
    }

    /// How that superuser enters the database that the branch serves.
    pub(crate) async fn administrator_config(&self) -> Result<tokio_postgres::Config, EngineError> {
        tokio::task::block_in_place(|| self.start())?;
        // Which of the two secrets is in force is seen by logging in.
        let first = self.log_in(ADMIN, &self.secrets.first_admin).await;
        let secret = if first.is_ok() { &self.secrets.first_admin } else { &self.secrets.admin };
        let manifest = &self.generation.manifest;
        Ok(local(&self.socket_dir.join(ADMIN_DIR), ADMIN, secret, &manifest.database))
    }

    /// The URL by which an administrator of the machine enters the branch as its superuser. It opens this branch alone:
    /// until it is asked for, no secret that was ever shown does.
    pub(crate) async fn admin_url(&self) -> Result<String, EngineError> {
        tokio::task::block_in_place(|| self.start())?;
        if self.log_in(ADMIN, &self.secrets.admin).await.is_err() {
            let verifier = self.secrets.admin.verifier(HOLDER_ITERATIONS);
            let statement = format!("begin read write; alter role {ADMIN} password '{verifier}'; commit");
            let changed = async { self.administer().await?.simple(&statement).await };
            changed.await.map_err(|error| session_failed(&error))?;
        }
        Ok(self.url_of(&self.socket_dir.join(ADMIN_DIR), ADMIN, &self.secrets.admin))
    }

    /// Logs in through the socket that the daemon alone can reach.
    async fn log_in(&self, role: &str, secret: &Secret) -> Result<Session, SessionError> {
        let database = &self.generation.manifest.database;
        Session::connect(&self.socket_dir.join(ADMIN_DIR), role, secret, database, CONNECT_LIMIT)
            .await
            .inspect(yield_to_daemon)
    }

    /// A process of the server for somebody who came through a door.
    pub(crate) async fn enter(&self, parameters: &[(String, String)]) -> Result<Entry, EntryError> {
        if let Some(entry) = self.take_spare(parameters).await {
            return Ok(entry);
        }
        self.open_entry(parameters).await
    }

    pub(crate) async fn open_entry(&self, parameters: &[(String, String)]) -> Result<Entry, EntryError> {
        let dir = self.socket_dir.join(ADMIN_DIR);
        let start = || {
            let started = tokio::task::block_in_place(|| self.start());
            started.map_err(|error| EntryError::Io(std::io::Error::other(error.message)))
        };
        if self.sleep.is_asleep() {
            start()?;
        }
        let open = async || Entry::open(&dir, &self.secrets.holder, parameters, CONNECT_LIMIT).await;
        let entered = match open().await {
            Err(EntryError::OtherSecret) => {
                self.let_in().await.map_err(|_| EntryError::OtherSecret)?;
                open().await
            }
            // It may be started, or stopped, right now; then this waits for that.
            Err(EntryError::Io(_)) if self.is_running() != Some(true) => {
                start()?;
                open().await
            }
            entered => entered,
        };
        entered.inspect(|entry| give_way(entry.canceller.process_id()))
    }

    /// Makes the branch's secret that of its holders' role.
    async fn let_in(&self) -> Result<(), SessionError> {
        let mut admin = self.administer().await?;
        if let (Policy::Role(role), Some(own)) = (self.policy, &self.generation.manifest.own_roles) {
            let role = role.as_str();
            let guard = Guard { read_only: true, timeout: CONNECT_LIMIT, row_limit: 1, byte_limit: 1 << 10 };
            let sql = format!(
                "select rolcanlogin from pg_catalog.pg_authid where rolname operator(pg_catalog.=) {}::pg_catalog.name",
                quote_literal(role)
            );
            let outcomes = admin.run(&[Statement { sql, parameters: Vec::new() }], guard).await?;
            if outcomes.first().is_none_or(|outcome| outcome.rows_json != b"[[true]]") {
                return admin.simple(&own.entry(role, &self.secrets.holder, HOLDER_ITERATIONS)).await;
            }
        }
        admin
            .simple(&format!(
                "begin read write; alter role {} password '{}'; commit",
                quote_identifier(self.policy.role()),
                self.secrets.holder.verifier(HOLDER_ITERATIONS)
            ))
            .await
    }

    /// Makes a branch of version 0.1 ask for secrets: until then everybody on the machine could enter it, and its holder
    /// every database. Blocks.
    pub(crate) fn secure(&self) -> Result<(), EngineError> {
        let fail = |error: &dyn std::error::Error| {
            EngineError::new(Kind::Failed, "server_failed", error.to_string())
        };
        let admitted = Admitted::of(self.generation.all_databases);
        let rules = access_rules(
            self.policy,
            admitted,
            &self.generation.manifest.database,
            self.generation.installation.version.major,
        );
        let file = hba_file(self.policy, admitted);
        if read_plain(&self.data_dir().join(&file), rules.len() as u64).is_ok_and(|text| text == rules) {
            return Ok(());
        }
        self.stop();
        let mut statements = String::new();
        for (role, secret, iterations) in [
            (ADMIN, &self.secrets.first_admin, NonZeroU32::MIN),
            (self.policy.role(), &self.secrets.holder, HOLDER_ITERATIONS),
        ] {
            statements += &format!("alter role {role} password '{}';\n", secret.verifier(iterations));
        }
        statements += &format!("alter role {} set log_min_messages = fatal;\n", self.policy.role());
        let settings = Settings::minimal(self.generation.installation.version.major);
        self.cluster.single_user("template1", &statements, &settings).map_err(|error| fail(&error))?;
        // Last, because it says that the rest was done.
        self.cluster.write_file(&file, &rules).map_err(|error| fail(&error))
    }

    /// Runs the warm-up statements and takes them back. What a policy forbids is skipped: the server refuses it.
    pub(crate) async fn warm(&self, session: &mut Session) -> Result<(), SessionError> {
        let manifest = &self.generation.manifest;
        let ddl = (self.policy == Policy::Ddl).then_some(WARM_DDL);
        let mut moved = false;
        for statement in manifest.warm.iter().map(String::as_str).chain(ddl) {
            match session.rehearse(statement).await {
                Ok(()) => moved = true,
                Err(error) if error.session_survives() => {}
                Err(error) => return Err(error),
            }
        }
        match &manifest.restore_sequences {
            // A role of the source may have advanced a sequence that it may not set back.
            Some(restore) if moved && matches!(self.policy, Policy::Role(_)) => {
                self.administer().await?.simple(restore).await
            }
            Some(restore) if moved && self.policy != Policy::ReadOnly => session.simple(restore).await,
            _ => Ok(()),
        }
    }

    /// The resident session, if nobody uses it.
    pub(crate) fn try_session(&self) -> Option<tokio::sync::MutexGuard<'_, Option<Session>>> {
        self.session.try_lock().ok()
    }

    /// Runs statements in the resident session, connected anew (and its server started anew) if the earlier one
    /// broke. Dropping the future cancels the statements and gives the session up, because it is then in the middle
    /// of an answer; the next call connects anew.
    pub(crate) async fn run(
        self: &Arc<Self>,
        statements: &[Statement],
        guard: Guard,
    ) -> Result<Vec<Outcome>, EngineError> {
        self.spare.spoil();
        let _visit = self.visit();
        let mut slot = self.session.lock().await;
        let mut session = match slot.take() {
            Some(session) => session,
            None => {
                tokio::task::block_in_place(|| self.start())?;
                self.open_session().await?
            }
        };
        let process = session.process_id();
        let running = CancelOnDrop::new(Arc::clone(self), session.canceller(), process);
        let outcome = session.run(statements, guard).await;
        running.finished();
        if !outcome.as_ref().is_err_and(|error| !error.session_survives()) {
            *slot = Some(session);
        } else if matches!(outcome, Err(SessionError::Timeout(_))) {
            drop(session);
            self.end_backend(process).await;
        }
        outcome.map_err(|error| self.with_cause(query_failed(error, self.policy)))
    }

    /// Ends a server process that does not end its statement though it was cancelled: a function can catch that, and
    /// go on for ever. What does not end when it is told to goes with its server, which starts again with the data.
    async fn end_backend(&self, process: i32) {
        let terminate = format!(
            "select coalesce((select pg_catalog.pg_terminate_backend(a.pid, {TERMINATE_MS}) \
             from pg_catalog.pg_stat_activity a where a.pid operator(pg_catalog.=) {process}), true)"
        );
        let guard = Guard { read_only: true, timeout: CONNECT_LIMIT, row_limit: 1, byte_limit: 1 << 10 };
        let ended = async {
            let statement = Statement { sql: terminate, parameters: Vec::new() };
            let outcomes = self.administer().await.ok()?.run(&[statement], guard).await.ok()?;
            Some(outcomes.first()?.rows_json == b"[[true]]")
        };
        // Nobody answers where the server is gone, and what it ran with it.
        if ended.await == Some(true) || !is_alive(process) {
            return;
        }
        tracing::warn!(
            volume = self.volume,
            process,
            "a statement did not end, so its server is started anew"
        );
        tokio::task::block_in_place(|| {
            if let Some(server) = self.postmaster.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
                server.kill();
            }
            if let Err(error) = self.start() {
                tracing::warn!(%error, volume = self.volume, "the server starts with the next query");
            }
        });
    }

    /// Ends a server of an earlier version, which ran with another group and can no longer pass through the home, if it
    /// was adopted: it would not find its libraries.
    pub(crate) fn end_if_locked_out(&self) {
        let group = |pid: u32| {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
            status.lines().find_map(|line| line.strip_prefix("Gid:"))?.split_whitespace().next()?.parse().ok()
        };
        let user = &self.generation.user;
        if user.is_other() && self.pid().and_then(group).is_some_and(|gid: u32| gid != user.gid()) {
            tracing::info!(volume = self.volume, "a server of an earlier version is started anew");
            self.stop();
        }
    }

    /// Where its server works.
    pub(crate) fn data_dir(&self) -> &Path {
        self.cluster.data_dir()
    }

    /// Whether a server ran in its volume at any time.
    pub(crate) fn had_server(&self) -> bool {
        self.cluster.data_dir().join("postmaster.opts").exists()
    }

    /// Whether its server runs; nothing is known while that is being started or stopped.
    pub(crate) fn is_running(&self) -> Option<bool> {
        let mut slot = self.postmaster.try_lock().ok()?;
        Some(slot.as_mut().is_some_and(Postmaster::is_running))
    }

    /// The same, and that its resident session has not ended, and no signal holds one of them, as SIGSTOP does. That is looked at, and not asked: a
    /// hundred leases at once, each of which waits for an answer of a server that has slept, take four times as long.
    pub(crate) fn is_fit(&self) -> Option<bool> {
        let mut slot = self.postmaster.try_lock().ok()?;
        if !slot.as_mut().is_some_and(|server| server.is_running() && !server.is_stopped()) {
            return Some(false);
        }
        // Whoever uses the session sees for himself.
        let Ok(session) = self.session.try_lock() else { return Some(true) };
        let process = session.as_ref().and_then(|session| u32::try_from(session.process_id()).ok());
        let process = process.filter(|pid| *pid != 0);
        Some(process.is_none_or(duramen_postgres::can_run))
    }

    pub(crate) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire)
    }

    /// How often a process of its server was ended for lack of memory.
    pub(crate) fn killed_for_memory(&self) -> u64 {
        self.group.as_ref().map_or(0, ControlGroup::killed_for_memory)
    }

    /// The process id of the server, if it was started or adopted.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.postmaster.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(Postmaster::pid)
    }

    /// A client program of the server's own version, as the system user of the server, that logs in as the branch's holder. Its
    /// secret is where nobody else can read it.
    pub(crate) fn client(&self, program: &str, arguments: &[String]) -> std::process::Command {
        let Branch { generation, cluster, .. } = self;
        let mut command = generation.user.command(&generation.installation.program(program));
        command
            .args(arguments)
            .current_dir(cluster.data_dir())
            .env_clear()
            .env("LC_ALL", "C")
            .env("PATH", "/usr/bin:/bin")
            .env("PGHOST", &self.socket_dir)
            .env("PGPORT", duramen_postgres::SOCKET_PORT.to_string())
            .env("PGUSER", self.policy.role())
            .env("PGPASSWORD", self.secrets.holder.expose())
            .env("PGDATABASE", &generation.manifest.database);
        command
    }

    /// The connection URL of the branch with its secret, for drivers on this machine.
    pub(crate) fn url(&self) -> String {
        self.url_of(&self.socket_dir, self.policy.role(), &self.secrets.holder)
    }

    fn url_of(&self, socket_dir: &Path, role: &str, secret: &Secret) -> String {
        format!(
            "postgresql:///{}?host={}&port={}&user={}&password={}",
            in_url(&self.generation.manifest.database),
            in_url(&socket_dir.display().to_string()),
            duramen_postgres::SOCKET_PORT,
            in_url(role),
            secret.expose()
        )
    }
}

/// A path or a name as a part of a URL.
fn in_url(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' => (byte as char).to_string(),
            other => format!("%{other:02X}"),
        })
        .collect()
}

/// Ends a running statement in the server when its caller goes away.
#[derive(Debug)]
pub(crate) struct CancelOnDrop(Option<(Arc<Branch>, Arc<Canceller>, i32)>);

impl CancelOnDrop {
    pub(crate) fn new(branch: Arc<Branch>, canceller: Arc<Canceller>, process: i32) -> CancelOnDrop {
        CancelOnDrop(Some((branch, canceller, process)))
    }

    pub(crate) fn finished(mut self) {
        self.0 = None;
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        let (Some((branch, canceller, process)), Ok(runtime)) =
            (self.0.take(), tokio::runtime::Handle::try_current())
        else {
            return;
        };
        runtime.spawn(async move {
            // The session is given up with the caller, so that its process ends when its statement does.
            let begin = clock::now();
            while is_alive(process) && begin.elapsed() < CANCEL_GRACE {
                // A failure means that the server is gone, and then so is the statement.
                let _ = tokio::time::timeout(CANCEL_LIMIT, canceller.cancel()).await;
                tokio::time::sleep(CANCEL_EVERY).await;
            }
            if is_alive(process) && !branch.retired.load(Ordering::Acquire) {
                branch.end_backend(process).await;
            }
        });
    }
}

pub(crate) fn is_alive(process: i32) -> bool {
    Path::new(&format!("/proc/{process}")).exists()
}

/// Lets the daemon go before a session's statements. Each server process is a session of its own to the kernel, and
/// where the scheduler groups by session ("autogroup") a process's own priority counts for nothing against others.
/// Best effort: without that grouping, or the right, the servers' ordinary priority holds.
fn yield_to_daemon(session: &Session) {
    give_way(session.process_id());
}

fn give_way(process: i32) {
    let _ = fs::write(format!("/proc/{process}/autogroup"), SESSION_GROUP_NICE);
}

fn session_failed(error: &SessionError) -> EngineError {
    QueryError::NotServing(error.to_string()).into()
}
