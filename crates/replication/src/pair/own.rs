//! A primary and a synchronous standby of our own, in a private folder that goes away with them.

use crate::error::cannot_reach;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use duramen_postgres::connection::Target;
use duramen_postgres::{
    processes_below, quote_parameter, volume, Cluster, Guardian, Installation, Postmaster, ServerUser,
    Settings, StopMode, SOCKET_PORT,
};

use duramen_postgres::Scratch;
use rustix::process::{kill_process, Pid, Signal};

use super::super::options::Options;
use super::super::scenario::{catalog, Node, Scenario};
use super::disk::Disk;
use super::hop::{self, Hop};
use super::preconditions;
use super::proxy::Proxy;
use duramen_reports::suite::SuiteError;

/// The bootstrap superuser.
pub(crate) const OWNER: &str = "postgres";
/// What the standby calls itself on the primary.
pub(super) const STANDBY_NAME: &str = "duramen_standby";
/// The folder of a proxy's socket.
const PROXY: &str = "x";
/// The folder of the primary's socket.
const PRIMARY: &str = "p";
/// A server is ready, or has stopped, within this.
const PATIENCE: Duration = Duration::from_secs(60);
/// What a run may write to both servers: data, indexes and up to `max_wal_size` of WAL each.
const SPACE: u64 = 12 << 30;
/// The same for a quick run.
const QUICK_SPACE: u64 = 4 << 30;

/// The same for scenarios that write little.
const SMALL_SPACE: u64 = 1 << 30;

/// The scenario that locks tens of thousands of relations in a transaction, and `max_locks_per_transaction` for that.
const MANY_LOCKS: (u32, &str) = (33, "1024");

/// A server of ours in a folder that goes away with it.
pub(crate) struct Server {
    cluster: Cluster,
    sockets: PathBuf,
    postmaster: Mutex<Option<Postmaster>>,
}

impl Server {
    pub(crate) fn new(cluster: Cluster, sockets: PathBuf) -> Self {
        Self { cluster, sockets, postmaster: Mutex::new(None) }
    }

    /// Starts it, if it does not run, and waits until it takes connections.
    pub(crate) fn start(&self) -> Result<(), SuiteError> {
        let mut running = self.postmaster.lock().unwrap_or_else(PoisonError::into_inner);
        if !running.as_mut().is_some_and(Postmaster::is_running) {
            *running = Some(
                self.cluster.start(&self.sockets, &Settings::new(), PATIENCE).map_err(SuiteError::other)?,
            );
        }
        Ok(())
    }

    pub(crate) fn stop(&self) -> Result<(), SuiteError> {
        let mut running = self.postmaster.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(postmaster) = running.as_mut() {
            postmaster.stop(StopMode::Fast, PATIENCE).map_err(|error| SuiteError::Timeout {
                what: format!("the end of a server of the pair ({error})"),
                seconds: PATIENCE.as_secs(),
            })?;
        }
        *running = None;
        Ok(())
    }

    /// Ends every process of it at once, as a machine does that loses its power. Blocks.
    pub(crate) fn kill(&self) {
        let dir = fs::canonicalize(self.cluster.data_dir());
        let dir = dir.unwrap_or_else(|_| self.cluster.data_dir().to_owned());
        for pid in processes_below(&dir) {
            if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
                // Who has ended meanwhile needs no signal.
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        let mut running = self.postmaster.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mut postmaster) = running.take() {
            postmaster.kill();
        }
    }

    /// Where it listens, in its database `postgres`.
    pub(crate) fn address(&self) -> String {
        let sockets = quote_parameter(&self.sockets.display().to_string());
        format!("host={sockets} port={SOCKET_PORT} user={OWNER} dbname=postgres")
    }

    /// The folder of its socket.
    pub(crate) fn sockets(&self) -> &Path {
        &self.sockets
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let running = self.postmaster.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(mut postmaster) = running.take() {
            postmaster.kill();
        }
    }
}

/// Both servers. When this is dropped they are ended and deleted; when the process is killed, the guardian of the
/// folder does it.
pub(super) struct Own {
    primary: Server,
    standby: Server,
    /// Between them, when round trips are to be added, or the network is to be broken.
    proxy: Mutex<Option<Arc<Proxy>>>,
    /// Between the standby and what is before it, when packets are to be lost.
    hop: Mutex<Option<Hop>>,
    /// What the standby's WAL is on while its disk is to be broken.
    disk: Mutex<Option<Disk>>,
    // After the servers: whoever is still there when it is dropped is ended by its guardian.
    scratch: Scratch,
}

impl Own {
    /// Makes and starts both. Blocks.
    pub(super) fn make(options: &Options) -> Result<Self, SuiteError> {
        let user = ServerUser::current().map_err(SuiteError::other)?;
        let installation = Installation::choose(&options.home, options.major).map_err(SuiteError::other)?;
        if installation.version.major < super::OLDEST {
            return Err(SuiteError::Preconditions(vec![format!(
                "PostgreSQL {} is too old: the suite needs {} or newer; choose another one with --major",
                installation.version,
                super::OLDEST
            )]));
        }
        let scratch = Scratch::make(&options.dir, "lab-replication", &user).map_err(SuiteError::other)?;
        has_space(scratch.path(), options)?;
        let sockets = |name| scratch.path().join(name);
        let cluster = Cluster::new(installation, scratch.path().join("primary"), user);
        cluster.init(OWNER, true).map_err(SuiteError::other)?;
        cluster
            .write_file("pg_hba.conf", "local all all trust\nlocal replication all trust\n")
            .map_err(SuiteError::other)?;
        cluster.append_conf(&settings(options).to_conf()).map_err(SuiteError::other)?;
        let proxy = if options.rtt_ms.iter().any(|rtt| *rtt > 0) {
            Some(Arc::new(distance(&sockets(PROXY), &sockets(PRIMARY))?))
        } else {
            None
        };
        let upstream = sockets(if proxy.is_some() { PROXY } else { PRIMARY });
        let standby = cluster.cold_standby(scratch.path().join("standby"), &conninfo(&upstream));
        let standby = standby.map_err(SuiteError::other)?;
        let own = Self {
            primary: Server::new(cluster, sockets(PRIMARY)),
            standby: Server::new(standby, sockets("s")),
            proxy: Mutex::new(proxy),
            hop: Mutex::new(None),
            disk: Mutex::new(None),
            scratch,
        };
        thread::scope(|scope| {
            let primary = scope.spawn(|| own.primary.start());
            let standby = own.standby.start();
            match primary.join() {
                Ok(primary) => primary.and(standby),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })?;
        Ok(own)
    }

    /// The major version.
    pub(super) fn major(&self) -> u32 {
        self.primary.cluster.installation().version.major
    }

    /// Where a server listens, in its database `postgres`.
    pub(super) fn target(&self, node: Node) -> Result<Target, SuiteError> {
        Target::parse(&self.server(node).address()).map_err(cannot_reach(node))
    }

    /// What lies between the servers.
    pub(super) fn proxy(&self) -> Option<Arc<Proxy>> {
        self.proxy.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts a proxy between the servers, if there is none yet: how the standby reaches the primary through it. Blocks.
    pub(super) fn detour(&self) -> Result<Option<String>, SuiteError> {
        let mut proxy = self.proxy.lock().unwrap_or_else(PoisonError::into_inner);
        if proxy.is_some() {
            return Ok(None);
        }
        let sockets = self.scratch.path().join(PROXY);
        *proxy = Some(Arc::new(distance(&sockets, &self.primary.sockets)?));
        Ok(Some(conninfo(&sockets)))
    }

    /// Takes it away again. Blocks.
    pub(super) fn end_detour(&self) {
        let proxy = self.proxy.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(proxy);
        // What is left in it goes with the folder of the pair.
        let _ = fs::remove_dir(self.scratch.path().join(PROXY));
    }

    /// Puts a hop on which packets can be lost before the standby: how the standby reaches the primary by it. Blocks.
    pub(super) fn add_hop(&self) -> Result<String, SuiteError> {
        let mut hop = self.hop();
        if hop.is_none() {
            let upstream = if self.proxy().is_some() { PROXY } else { PRIMARY };
            *hop = Some(Hop::make(self.scratch.path(), upstream).map_err(SuiteError::Failed)?);
        }
        Ok(conninfo(&self.scratch.path().join(hop::FOLDER)))
    }

    /// Takes it away again. Blocks.
    pub(super) fn remove_hop(&self) {
        drop(self.hop().take());
        // What is left in it goes with the folder of the pair; without it no other hop is made.
        let _ = fs::remove_dir_all(self.scratch.path().join(hop::FOLDER));
    }

    /// Loses so many of 100 packets on it until what this returns is dropped. Blocks.
    pub(super) fn lose_packets(&self, percent: u32) -> Result<Guardian, SuiteError> {
        let hop = self.hop();
        let hop = hop.as_ref().ok_or_else(|| {
            SuiteError::Failed(
                "there is no hop between the servers on which packets could be lost".to_owned(),
            )
        })?;
        hop.lose(percent).map_err(SuiteError::Failed)
    }

    fn hop(&self) -> MutexGuard<'_, Option<Hop>> {
        self.hop.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts the standby's WAL on a disk of its own, which can be frozen. The standby is stopped meanwhile; of its segments
    /// none is needed that comes after `newest`. Blocks.
    pub(super) fn add_disk(&self, newest: &str) -> Result<(), SuiteError> {
        self.standby.stop()?;
        let disk = Disk::make(self.scratch.path(), self.data_dir(Node::Standby), newest);
        *self.disk() = Some(disk.map_err(SuiteError::Failed)?);
        self.standby.start()
    }

    /// Takes it back, if there is one, and starts the standby. Blocks.
    pub(super) fn remove_disk(&self, newest: &str) -> Result<(), SuiteError> {
        let Some(disk) = self.disk().take() else { return self.standby.start() };
        self.standby.stop()?;
        disk.give_back(newest).map_err(SuiteError::Failed)?;
        self.standby.start()
    }

    /// Freezes it until what this returns is dropped. Blocks.
    pub(super) fn freeze_disk(&self) -> Result<Guardian, SuiteError> {
        let disk = self.disk();
        let disk = disk.as_ref().ok_or_else(|| {
            SuiteError::Failed("the standby has no disk of its own that could be frozen".to_owned())
        })?;
        disk.freeze().map_err(SuiteError::Failed)
    }

    /// Whether it has one.
    pub(super) fn has_disk(&self) -> bool {
        self.disk().is_some()
    }

    fn disk(&self) -> MutexGuard<'_, Option<Disk>> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A process of a server, which is to be signalled or traced: only one that works in its data directory.
    pub(super) fn process(&self, node: Node, pid: i32) -> Result<Pid, SuiteError> {
        let is_ours = u32::try_from(pid).is_ok_and(|pid| processes_below(self.data_dir(node)).contains(&pid));
        Pid::from_raw(pid).filter(|_| is_ours).ok_or_else(|| {
            SuiteError::Failed(format!("the process {pid} is none of the {node} of this pair"))
        })
    }

    /// The data directory of a server.
    pub(super) fn data_dir(&self, node: Node) -> &Path {
        self.server(node).cluster.data_dir()
    }

    /// The last lines of a server's log.
    pub(super) fn log(&self, node: Node) -> String {
        self.server(node).cluster.log().tail()
    }

    /// Stops the standby. Blocks.
    pub(super) fn stop_standby(&self) -> Result<(), SuiteError> {
        self.standby.stop()
    }

    /// Starts the standby. Blocks.
    pub(super) fn start_standby(&self) -> Result<(), SuiteError> {
        self.standby.start()
    }

    fn server(&self, node: Node) -> &Server {
        match node {
            Node::Primary => &self.primary,
            Node::Standby => &self.standby,
        }
    }
}

pub(super) fn settings(options: &Options) -> Settings {
    let mut settings = Settings::of_a_pair();
    for (name, value) in super::wanted(options) {
        settings.set(name, &value);
    }
    if options.scenarios.contains(&MANY_LOCKS.0) {
        settings.set("max_locks_per_transaction", MANY_LOCKS.1);
    }
    settings
}

/// A proxy with its socket in a folder of its own, to the server whose socket is in the other.
fn distance(sockets: &Path, upstream: &Path) -> Result<Proxy, SuiteError> {
    let name = format!(".s.PGSQL.{SOCKET_PORT}");
    let start = || {
        fs::create_dir(sockets)?;
        Proxy::start(&sockets.join(&name), &upstream.join(&name))
    };
    start().map_err(|source| SuiteError::File { doing: "put a proxy into", path: sockets.to_owned(), source })
}

/// How the standby reaches the primary by a socket in a folder.
fn conninfo(sockets: &Path) -> String {
    let host = quote_parameter(&sockets.display().to_string());
    format!("host={host} port={SOCKET_PORT} user={OWNER} application_name={STANDBY_NAME}")
}

/// What a run may write to a file system that both servers are on.
pub(super) fn space(options: &Options) -> u64 {
    let chosen = |scenario: &&Scenario| {
        options.scenarios.contains(&scenario.number) || options.scenarios.is_empty() && !scenario.on_demand
    };
    if catalog().iter().filter(chosen).all(Scenario::is_small) {
        SMALL_SPACE
    } else if options.quick {
        QUICK_SPACE
    } else {
        SPACE
    }
}

/// That a run fits into what is free.
fn has_space(dir: &Path, options: &Options) -> Result<(), SuiteError> {
    let wanted = space(options);
    let free = volume::free_bytes(dir).map_err(|source| SuiteError::File {
        doing: "ask for the free space of",
        path: dir.to_owned(),
        source,
    })?;
    if free < wanted {
        return Err(SuiteError::Preconditions(vec![preconditions::too_little(dir, free, wanted, options)]));
    }
    Ok(())
}
