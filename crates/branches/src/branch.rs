//! A branch at run time: a cloned volume, its server, and the session that stays connected to it.

use crate::{
    error::{EngineError, Kind},
    generation::Generation,
    home::{Home, TOKEN_LEN},
    model::Policy,
    source::import::KEPT_CACHE,
};
use duramen_measure::entropy;
use duramen_postgres::{
    volume, Canceller, Cluster, Guard, Outcome, Postmaster, ServerUser, Session, SessionError, Statement,
};
use std::{
    fs,
    path::PathBuf,
    sync::{
        atomic::{AtomicBool, Ordering},
        Arc, Mutex, PoisonError,
    },
    time::Duration,
};

/// How long a server may take to start.
const START_LIMIT: Duration = Duration::from_secs(60);
/// How long a session may take to connect.
const CONNECT_LIMIT: Duration = Duration::from_secs(30);
/// How long a cancel request may take.
const CANCEL_LIMIT: Duration = Duration::from_secs(5);
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

/// The places that a branch needs.
#[derive(Debug, Clone)]
pub(crate) struct Workshop {
    pub(crate) home: Home,
    pub(crate) store: Arc<volume::Store>,
    pub(crate) user: ServerUser,
}

impl Workshop {
    pub(crate) fn branches(&self) -> PathBuf {
        self.store.root.join("branches")
    }

    pub(crate) fn volume(&self, name: &str) -> PathBuf {
        self.branches().join(name)
    }

    pub(crate) fn log(&self, volume: &str) -> PathBuf {
        self.home.logs().join(format!("{volume}.log"))
    }

    /// A clone of a generation's snapshot, not started: the first of the three steps to a hot branch.
    pub(crate) fn clone_snapshot(&self, generation: &Generation) -> Result<String, EngineError> {
        let name = format!("v-{}", entropy::token(16));
        self.store.volumes.clone_volume(&generation.snapshot, &self.volume(&name)).map_err(|error| {
            let code = match error {
                volume::VolumeError::DiskFull { .. } => "disk_full",
                volume::VolumeError::Missing { .. } => "snapshot_missing",
                _ => "clone_failed",
            };
            EngineError::new(Kind::Failed, code, error.to_string())
        })?;
        Ok(name)
    }

    /// Deletes what a volume's name stands for. Its server must be gone.
    pub(crate) fn delete_volume(&self, name: &str) {
        if let Err(error) = self.store.volumes.delete(&self.volume(name)) {
            tracing::warn!(%error, volume = name, "a deleted branch's volume is left to the next start's sweep");
        }
        let _ = fs::remove_file(self.log(name));
    }
}

/// A branch with its server and session.
#[derive(Debug)]
pub(crate) struct Branch {
    pub(crate) generation: Arc<Generation>,
    pub(crate) policy: Policy,
    /// Name of its directory below `volumes/branches`.
    pub(crate) volume: String,
    /// Name of its socket directory.
    pub(crate) socket: String,
    socket_dir: PathBuf,
    cluster: Cluster,
    postmaster: Mutex<Option<Postmaster>>,
    session: tokio::sync::Mutex<Option<Session>>,
    pub(crate) queue: tokio::sync::Semaphore,
    /// Set when its lease has ended or been given another volume: from then on nothing starts its server again.
    retired: AtomicBool,
}

impl Branch {
    /// A branch of a cloned volume. Its server may run already (adoption) or not.
    pub(crate) fn new(
        workshop: &Workshop,
        generation: Arc<Generation>,
        policy: Policy,
        volume: String,
        socket: Option<String>,
    ) -> Branch {
        let socket = socket.unwrap_or_else(|| entropy::token(TOKEN_LEN));
        let cluster =
            Cluster::new(generation.installation.clone(), workshop.volume(&volume), workshop.user.clone())
                .with_log(workshop.log(&volume));
        Branch {
            policy,
            socket_dir: workshop.home.socket(&socket),
            socket,
            volume,
            postmaster: Mutex::new(Postmaster::adopt(cluster.data_dir())),
            cluster,
            session: tokio::sync::Mutex::new(None),
            queue: tokio::sync::Semaphore::new(SESSION_QUEUE),
            retired: AtomicBool::new(false),
            generation,
        }
    }

    /// Starts the server unless it runs: the second step. Blocks.
    pub(crate) fn start(&self) -> Result<(), EngineError> {
        self.start_observed(&mut |_| {})
    }

    /// As [`Branch::start`]; `observe` is called with the server's process id while it starts.
    pub(crate) fn start_observed(&self, observe: &mut dyn FnMut(u32)) -> Result<(), EngineError> {
        let mut slot = self.postmaster.lock().unwrap_or_else(PoisonError::into_inner);
        if self.retired.load(Ordering::Acquire) {
            return Err(EngineError::new(
                Kind::NotFound,
                "destroyed",
                "the branch was destroyed or reset meanwhile",
            ));
        }
        if slot.as_mut().is_some_and(Postmaster::is_running) {
            return Ok(());
        }
        let settings = self.generation.server_settings(self.policy, self.cluster.data_dir());
        let server = self
            .cluster
            .start_observed(&self.socket_dir, &settings, START_LIMIT, observe)
            .map_err(|error| EngineError::new(Kind::Failed, "server_failed", error.to_string()))?;
        server.set_nice(SERVER_NICE);
        *slot = Some(server);
        Ok(())
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
            let mut session = self.open_session().await?;
            if warm {
                self.warm(&mut session).await.map_err(|error| session_failed(&error))?;
            }
            *slot = Some(session);
        }
        Ok(())
    }

    /// Warms the session that is connected.
    pub(crate) async fn warm_up(&self) -> Result<(), EngineError> {
        let mut slot = self.session.lock().await;
        match slot.as_mut() {
            Some(session) => self.warm(session).await.map_err(|error| session_failed(&error)),
            None => Err(EngineError::new(Kind::Failed, "server_failed", "the branch has no session")),
        }
    }

    async fn open_session(&self) -> Result<Session, EngineError> {
        let database = &self.generation.manifest.database;
        Session::connect(&self.socket_dir, self.policy.role(), database, CONNECT_LIMIT)
            .await
            .inspect(yield_to_daemon)
            .map_err(|error| session_failed(&error))
    }

    /// Runs the warm-up statements and takes them back. What a policy forbids is skipped: the server refuses it.
    async fn warm(&self, session: &mut Session) -> Result<(), SessionError> {
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
            Some(restore) if moved && self.policy != Policy::ReadOnly => session.simple(restore).await,
            _ => Ok(()),
        }
    }

    /// Runs statements in the resident session, connected anew (and its server started anew) if the earlier one
    /// broke. Dropping the future cancels the statements and gives the session up, because it is then in the middle
    /// of an answer; the next call connects anew.
    pub(crate) async fn run(
        &self,
        statements: &[Statement],
        guard: Guard,
    ) -> Result<Vec<Outcome>, EngineError> {
        let mut slot = self.session.lock().await;
        let mut session = match slot.take() {
            Some(session) => session,
            None => {
                tokio::task::block_in_place(|| self.start())?;
                self.open_session().await?
            }
        };
        let running = CancelOnDrop(Some(session.canceller()));
        let outcome = session.run(statements, guard).await;
        running.finished();
        if !outcome.as_ref().is_err_and(|error| !error.session_survives()) {
            *slot = Some(session);
        }
        outcome.map_err(query_failed)
    }

    /// The process id of the server, if it was started or adopted.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.postmaster.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(Postmaster::pid)
    }

    /// Nothing starts the server again, and nobody new finds its socket. Sessions that are open go on until the
    /// server is ended.
    pub(crate) fn retire(&self) {
        self.retired.store(true, Ordering::Release);
        let _ = fs::remove_file(self.socket_dir.join(format!(".s.PGSQL.{}", duramen_postgres::SOCKET_PORT)));
    }

    /// Ends the server at once, for good. Blocks.
    pub(crate) fn kill(&self) {
        self.retired.store(true, Ordering::Release);
        if let Some(mut server) = self.postmaster.lock().unwrap_or_else(PoisonError::into_inner).take() {
            server.kill();
        }
    }

    /// Stops the server with a checkpoint, so that its data come back with the next start. Blocks.
    pub(crate) fn stop(&self) {
        if let Some(mut server) = self.postmaster.lock().unwrap_or_else(PoisonError::into_inner).take() {
            if server.stop(duramen_postgres::StopMode::Fast, START_LIMIT).is_err() {
                server.kill();
            }
        }
    }

    /// Ends the server and deletes everything the branch had, except a socket directory that is still in use.
    pub(crate) fn delete(&self, workshop: &Workshop, keep_socket: bool) {
        self.kill();
        workshop.delete_volume(&self.volume);
        if !keep_socket {
            let _ = fs::remove_dir_all(&self.socket_dir);
        }
    }

    /// The connection URL of the branch, for drivers on this machine.
    pub(crate) fn url(&self) -> String {
        let host: String = self
            .socket_dir
            .display()
            .to_string()
            .bytes()
            .map(|byte| match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' => {
                    (byte as char).to_string()
                }
                other => format!("%{other:02X}"),
            })
            .collect();
        format!(
            "postgresql:///{}?host={host}&port={}&user={}",
            self.generation.manifest.database,
            duramen_postgres::SOCKET_PORT,
            self.policy.role()
        )
    }
}

/// Cancels a running statement in the server when its caller goes away.
struct CancelOnDrop(Option<Arc<Canceller>>);

impl CancelOnDrop {
    fn finished(mut self) {
        self.0 = None;
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        let (Some(canceller), Ok(runtime)) = (self.0.take(), tokio::runtime::Handle::try_current()) else {
            return;
        };
        runtime.spawn(async move {
            // If even this fails, the server notices the closed connection at its next check.
            let _ = tokio::time::timeout(CANCEL_LIMIT, canceller.cancel()).await;
        });
    }
}

/// Lets the daemon go before a session's statements. Each server process is a session of its own to the kernel, and
/// where the scheduler groups by session ("autogroup") a process's own priority counts for nothing against others.
/// Best effort: without that grouping, or the right, the servers' ordinary priority holds.
fn yield_to_daemon(session: &Session) {
    let _ = fs::write(format!("/proc/{}/autogroup", session.process_id()), SESSION_GROUP_NICE);
}

fn session_failed(error: &SessionError) -> EngineError {
    EngineError::new(Kind::Failed, "server_failed", format!("the branch's server does not serve: {error}"))
}

/// A failed statement in the caller's terms.
fn query_failed(error: SessionError) -> EngineError {
    match error {
        SessionError::Server(refusal) => {
            let mut error = EngineError::new(Kind::Sql, "sql_error", refusal.to_string());
            if refusal.code == "57014" {
                error = EngineError::new(
                    Kind::Timeout,
                    "cancelled",
                    format!("the statement was cancelled: {refusal}"),
                );
            }
            error.sqlstate = Some(refusal.code);
            error
        }
        SessionError::ZeroByte => EngineError::new(Kind::Invalid, "zero_byte", error.to_string()),
        SessionError::Cancelled(_) => EngineError::new(
            Kind::Timeout,
            "statement_timeout",
            format!("{error}: raise timeout_ms (--timeout), or ask for less"),
        ),
        SessionError::TransactionControl => {
            EngineError::new(Kind::Invalid, "transaction_control", error.to_string())
        }
        SessionError::CopyFromClient => {
            EngineError::new(Kind::Invalid, "copy_from_client", error.to_string())
        }
        SessionError::CopyToClient => EngineError::new(Kind::Invalid, "copy_to_client", error.to_string()),
        SessionError::Timeout(_) => EngineError::new(
            Kind::Timeout,
            "server_timeout",
            format!("{error}; the session was closed, and the next query opens a new one"),
        ),
        _ => EngineError::new(
            Kind::Failed,
            "session_lost",
            format!("{error}; the next query opens a new session"),
        ),
    }
}
