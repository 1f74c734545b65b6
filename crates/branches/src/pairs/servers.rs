//! The two servers of a pair, from the first clone to the last file.

use super::{settings, Place};
use crate::{
    environment::Environment,
    error::{EngineError, PairError},
    generation::Generation,
    home::TOKEN_LEN,
    model::{PairTimes, PairView},
    source::{connection, origin_server::local, sanitise::ADMIN},
};
use duramen_base::{
    clock::{self, ms},
    entropy,
};
use duramen_postgres::{
    end_processes, processes_below, quote_parameter, Cluster, GroupLimits, Postmaster, Secret, Settings,
    SOCKET_PORT,
};
use std::{
    fs,
    num::NonZeroU32,
    path::{Path, PathBuf},
    sync::{
        atomic::{AtomicBool, Ordering},
        Mutex, MutexGuard, PoisonError,
    },
    time::Duration,
};
use tokio::runtime::Handle;

/// What the standby calls itself on the primary.
const STANDBY_NAME: &str = "duramen_standby";
/// A server takes sessions, and the standby streams, within this.
const START_LIMIT: Duration = Duration::from_secs(50);
/// How often it is looked whether it streams.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// What one server runs: 200 sessions and its own processes. A branch has fewer.
const PROCESSES: u32 = 256;
/// The memory of one server at least.
const MEMORY: u64 = 1 << 30;
/// How long the removal waits for who makes the pair, whose programs it ends meanwhile; then the maker removes it.
const REMOVE_LIMIT: Duration = Duration::from_secs(20);

/// One of the two.
#[derive(Debug)]
struct Server {
    /// Its name in messages.
    which: &'static str,
    volume: String,
    cluster: Cluster,
    sockets: PathBuf,
}

/// The pair of servers, and what has been made of it so far.
#[derive(Debug)]
pub(super) struct Servers {
    environment: Environment,
    generation: Generation,
    id: String,
    space: u64,
    secret: Secret,
    primary: Server,
    standby: Server,
    /// Held by who makes or removes them.
    running: Mutex<Vec<Postmaster>>,
    doing: Mutex<&'static str>,
    given_up: AtomicBool,
    _place: Place,
}

impl Servers {
    /// Nothing is there yet.
    pub(super) fn new(
        environment: &Environment,
        generation: Generation,
        id: &str,
        space: u64,
        place: Place,
    ) -> Servers {
        let server = |which: &'static str| {
            let volume = format!("{id}-{which}");
            let sockets = environment.home.socket(&entropy::token(TOKEN_LEN));
            let (installation, user) = (generation.installation.clone(), generation.user.clone());
            let cluster = Cluster::new(installation, environment.volume(&volume), user)
                .with_log(environment.log(&volume))
                .in_group(environment.group(&volume));
            Server { which, volume, cluster, sockets }
        };
        Servers {
            environment: environment.clone(),
            id: id.to_owned(),
            space,
            secret: Secret::random(),
            primary: server("primary"),
            standby: server("standby"),
            generation,
            running: Mutex::new(Vec::new()),
            doing: Mutex::new("nothing was done yet"),
            given_up: AtomicBool::new(false),
            _place: place,
        }
    }

    /// The source, and the number of its generation.
    pub(super) fn generation(&self) -> (&str, u32) {
        (&self.generation.source, self.generation.manifest.generation)
    }

    /// What is being done.
    pub(super) fn doing(&self) -> &'static str {
        *self.doing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn view(&self, took: PairTimes) -> PairView {
        let manifest = &self.generation.manifest;
        PairView {
            id: self.id.clone(),
            source: self.generation.source.clone(),
            generation: manifest.generation,
            data: self.generation.data().to_owned(),
            server_version: self.generation.installation.version.to_string(),
            primary: self.primary.sockets.display().to_string(),
            standby: self.standby.sockets.display().to_string(),
            standby_name: STANDBY_NAME.to_owned(),
            role: ADMIN.to_owned(),
            secret: self.secret.expose().to_owned(),
            database: manifest.database.clone(),
            took,
        }
    }

    /// Makes both, until the standby streams. On failure, or when they are given up meanwhile, nothing of them is left. Blocks.
    pub(super) fn fill(
        &self,
        runtime: &Handle,
        check: &dyn Fn() -> Result<(), PairError>,
        report: &dyn Fn(&str),
    ) -> Result<PairTimes, EngineError> {
        let mut running = self.lock();
        let made = self.make(&mut running, runtime, check, report);
        let made = made.and_then(|took| match self.is_given_up() {
            true => Err(PairError::CallerLeft.into()),
            false => Ok(took),
        });
        if made.is_err() {
            self.clear(&mut running);
        }
        made
    }

    fn make(
        &self,
        running: &mut Vec<Postmaster>,
        runtime: &Handle,
        check: &dyn Fn() -> Result<(), PairError>,
        report: &dyn Fn(&str),
    ) -> Result<PairTimes, EngineError> {
        let mut took = PairTimes::default();
        let begin = clock::now();
        self.step("cloning the generation", report)?;
        self.clone_to(&self.generation.snapshot, &self.primary)?;
        check()?;
        took.clone_ms = ms(begin.elapsed());

        let begin = clock::now();
        self.step("making the clone a primary", report)?;
        let mut settings = settings::of(&self.generation, &self.id, self.space)?;
        self.open(&settings)?;
        took.open_ms = ms(begin.elapsed());

        let begin = clock::now();
        self.step("cloning the primary", report)?;
        self.clone_to(self.primary.cluster.data_dir(), &self.standby)?;
        settings.set("primary_conninfo", &self.upstream());
        self.write(&self.standby, &[("postgresql.conf", &settings.to_conf()), ("standby.signal", "")])?;
        took.standby_ms = ms(begin.elapsed());

        let begin = clock::now();
        self.step("starting both servers", report)?;
        let started = std::thread::scope(|scope| {
            let standby = scope.spawn(|| self.start(&self.standby));
            let primary = self.start(&self.primary);
            let standby = standby.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            [primary, standby]
        });
        // Those that run are noted before anything is said of those that do not.
        let mut failed = None;
        for server in started {
            match server {
                Ok(server) => running.push(server),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        self.step("waiting for the standby", report)?;
        runtime.block_on(async {
            match tokio::time::timeout(START_LIMIT, self.streams()).await {
                Ok(streams) => streams,
                Err(_) => Err(PairError::TooSlow { doing: self.doing(), limit: START_LIMIT }.into()),
            }
        })?;
        took.stream_ms = ms(begin.elapsed());
        Ok(took)
    }

    /// Goes on to the next step, unless nobody wants that any more.
    fn step(&self, doing: &'static str, report: &dyn Fn(&str)) -> Result<(), EngineError> {
        if self.is_given_up() {
            return Err(PairError::CallerLeft.into());
        }
        *self.doing.lock().unwrap_or_else(PoisonError::into_inner) = doing;
        report(doing);
        Ok(())
    }

    fn failed(&self, error: &dyn std::error::Error) -> EngineError {
        if self.is_given_up() {
            // Its programs were ended.
            return PairError::CallerLeft.into();
        }
        PairError::NotMade { doing: self.doing(), reason: error.to_string() }.into()
    }

    fn clone_to(&self, from: &Path, server: &Server) -> Result<(), EngineError> {
        self.environment.clone_named(from, &server.volume, self.space / 2)
    }

    /// Gives the primary's clone its settings, its access rules and its secret. Its program is run once, with nobody let in, and
    /// ends in order: only then does its control file say that a standby can go on from there.
    fn open(&self, settings: &Settings) -> Result<(), EngineError> {
        let files = [
            ("postgresql.conf", &*settings.to_conf()),
            ("postgresql.auto.conf", ""),
            ("pg_hba.conf", &settings::access_rules()),
            ("pg_ident.conf", ""),
        ];
        self.write(&self.primary, &files)?;
        // Settings of roles and databases are the source's, and some name libraries.
        let sql = format!(
            "set search_path = pg_catalog, pg_temp;\n\
             delete from pg_catalog.pg_db_role_setting;\n\
             alter role {ADMIN} password '{}';\n",
            self.secret.verifier(NonZeroU32::MIN)
        );
        let mut once = Settings::new();
        once.set("synchronous_standby_names", "").set("fsync", "off");
        let database = &self.generation.manifest.database;
        let run = self.primary.cluster.single_user(database, &sql, &once);
        run.map(drop).map_err(|error| self.failed(&error))
    }

    /// Files are written and never read: who else runs as the servers' user could have put something else in their place.
    fn write(&self, server: &Server, files: &[(&str, &str)]) -> Result<(), EngineError> {
        let mut files = files.iter();
        files.try_for_each(|(name, text)| {
            server.cluster.write_file(name, text).map_err(|error| self.failed(&error))
        })
    }

    /// How the standby reaches the primary.
    fn upstream(&self) -> String {
        format!(
            "host={} port={SOCKET_PORT} user={ADMIN} password={} application_name={STANDBY_NAME}",
            quote_parameter(&self.primary.sockets.display().to_string()),
            self.secret.expose()
        )
    }

    fn start(&self, server: &Server) -> Result<Postmaster, EngineError> {
        // As the servers' user's alone: members of the group, who hold branches, are not let in here.
        server.cluster.prepare_dir(&server.sockets).map_err(|error| self.failed(&error))?;
        if let Some(group) = self.environment.group(&server.volume) {
            let limits = self.generation.limits().group;
            let limits = GroupLimits {
                memory: limits.memory.max(MEMORY),
                processes: limits.processes.max(PROCESSES),
                ..limits
            };
            group.make(limits).map_err(|error| self.failed(&error))?;
        }
        let started = server.cluster.start(&server.sockets, &Settings::new(), START_LIMIT);
        started.map_err(|error| self.failed(&error))
    }

    /// Waits until the standby streams. Nobody but who has the secret gets to ask.
    async fn streams(&self) -> Result<(), EngineError> {
        let manifest = &self.generation.manifest;
        let config = local(&self.primary.sockets, ADMIN, &self.secret, &manifest.database);
        let client = connection::own(&config, self.generation.installation.version.major).await?;
        let sql = "select exists (select from pg_catalog.pg_stat_replication r \
                   where r.application_name operator(pg_catalog.=) $1::pg_catalog.text \
                   and r.state operator(pg_catalog.=) 'streaming'::pg_catalog.text)";
        loop {
            let row = client.query_one(sql, &[&STANDBY_NAME]).await.map_err(|error| self.failed(&error))?;
            if row.get(0) {
                return Ok(());
            }
            if self.is_given_up() {
                return Err(PairError::CallerLeft.into());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Whether it is being removed, or gone.
    pub(super) fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Acquire)
    }

    /// Which of them has ended by itself, with the end of its log.
    pub(super) fn ended(&self) -> Option<(&'static str, String)> {
        // Whoever has the lock removes them.
        let mut running = self.running.try_lock().ok()?;
        let servers = [&self.primary, &self.standby];
        let mut both = servers.into_iter().zip(running.iter_mut());
        let ended = both.find_map(|(server, postmaster)| (!postmaster.is_running()).then_some(server));
        ended.map(|server| (server.which, server.cluster.log().tail()))
    }

    /// Has who makes them stop at the next step.
    pub(super) fn give_up(&self) {
        self.given_up.store(true, Ordering::Release);
    }

    /// Ends both servers and removes all that they had, however far they were made. Blocks.
    pub(super) fn remove(&self) {
        self.give_up();
        let begin = clock::now();
        loop {
            let free = self.running.try_lock();
            let free = match free {
                Err(std::sync::TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
                free => free.ok(),
            };
            if let Some(mut running) = free {
                return self.clear(&mut running);
            }
            if begin.elapsed() > REMOVE_LIMIT {
                tracing::warn!(
                    pair = self.id,
                    "a pair that is still being made removes itself when it is done"
                );
                return;
            }
            // Programs that it waits for would hold up the maker.
            for server in [&self.primary, &self.standby] {
                let dir = server.cluster.data_dir();
                end_processes(&processes_below(dir), dir);
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Postmaster>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Processes first, then what they had.
    fn clear(&self, running: &mut Vec<Postmaster>) {
        // At the same time: each may take two seconds to end.
        std::thread::scope(|scope| {
            for mut server in running.drain(..) {
                scope.spawn(move || server.kill());
            }
        });
        for server in [&self.primary, &self.standby] {
            let dir = server.cluster.data_dir();
            end_processes(&processes_below(dir), dir);
            if let Some(group) = self.environment.group(&server.volume) {
                group.remove();
            }
            self.environment.delete_volume(&server.volume);
            let _ = fs::remove_dir_all(&server.sockets);
        }
    }
}
