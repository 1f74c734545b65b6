//! The fleet as a daemon takes part in it.

use super::{
    agreeing::{Agreeing, Holding},
    connections::Connections,
    copying::SENDS_MAX,
    metrics::Hops,
    offers::Offers,
    placing::Placed,
    removing::{Removed, DROPS_MAX},
    sources::Changing,
};
use crate::{
    daemon::{ServeError, ServeOptions},
    door,
    doors::Doors,
    order::Order,
    router::RouterHandle,
    tokens::Tokens,
};
use duramen_base::{entropy, file};
use duramen_branches::Engine;
use duramen_fleet::{
    address::{is_name, Access, Address},
    authority::{AuthorityError, Trust},
    etcd::EtcdError,
    member::{Fleet, Settings, Standing},
    record::{BringingRecord, Capacity, Pool},
};
use std::{
    collections::HashSet,
    io,
    net::SocketAddr,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{net::TcpListener, sync::Semaphore};

/// The directory of a home in which certificates of the fleet and the home's identity are.
pub(super) const DIR: &str = "fleet";
/// The file with the identity.
const IDENTITY: &str = "identity";
const IDENTITY_MODE: u32 = 0o600;
/// The longest identity.
const IDENTITY_MAX: u64 = 100;
/// The file with the starts of this home's daemon.
const STARTS: &str = "starts";
/// So many starts are remembered.
const STARTS_MAX: usize = 4096;
/// The longest file of starts.
const STARTS_SIZE_MAX: u64 = 256 << 10;
/// How often names are brought together with what is held, when nothing happens.
const RECONCILE_EVERY: Duration = Duration::from_secs(10);
/// Pause after that failed.
const PAUSE: Duration = Duration::from_millis(500);

/// How a daemon takes part in a fleet.
#[derive(Debug, Clone)]
pub struct FleetOptions {
    /// Where etcd is, and which fleet is meant.
    pub etcd: Address,
    /// By what right etcd is asked.
    pub access: Access,
    /// The node's name.
    pub node: String,
    /// Where other nodes reach it, `HOST:PORT`.
    pub advertise: String,
    /// Where it listens for them.
    pub listen: SocketAddr,
    /// Where its certificates are; `fleet` in the home, if it is `None`.
    pub certificates: Option<PathBuf>,
    /// How long names are kept for a node that is gone.
    pub grace: Duration,
}

/// Why a daemon is not in the fleet that it should be in.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FleetError {
    /// The name cannot name a node.
    #[error("{0:?} cannot name a node: use 1 to 40 of a-z 0-9 - and neither begin nor end with - (--node)")]
    Name(String),
    /// There are no certificates, or they are not good.
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    /// etcd cannot be asked.
    #[error(transparent)]
    Etcd(#[from] EtcdError),
    /// It cannot listen.
    #[error("cannot listen for other nodes at {address}: {source}; choose another address (--fleet-listen)")]
    Bind {
        /// Where.
        address: SocketAddr,
        /// The operating system's answer.
        source: io::Error,
    },
    /// The identity of the home cannot be read or written.
    #[error("cannot use {path}: {source}")]
    Identity {
        /// The file.
        path: PathBuf,
        /// The operating system's answer.
        source: io::Error,
    },
}

/// The fleet as a daemon takes part in it.
#[derive(Debug)]
pub(crate) struct Peers {
    pub(super) fleet: Arc<Fleet>,
    pub(super) engine: Arc<Engine>,
    pub(super) tokens: Option<Arc<Tokens>>,
    pub(super) connections: Connections,
    pub(super) placed: Placed,
    pub(super) hops: Hops,
    pub(super) trust: Trust,
    pub(super) unmasked_ok: bool,
    pub(super) router: Option<RouterHandle>,
    pub(super) listener: Mutex<Option<TcpListener>>,
    pub(super) offers: Arc<Offers>,
    /// Generations that are being sent.
    pub(super) sends: Semaphore,
    /// The nodes to which they are.
    pub(super) receivers: Mutex<HashSet<String>>,
    /// Removals whose copies could not be dropped at once.
    pub(super) drops: Arc<Semaphore>,
    pub(super) removed: Removed,
    pub(super) changing: Changing,
}

/// A daemon that is about to take part.
pub(crate) struct Joining {
    options: Option<FleetOptions>,
    home: PathBuf,
    unmasked_ok: bool,
}

impl Peers {
    pub(crate) fn join(options: &ServeOptions) -> Joining {
        Joining {
            options: options.fleet.clone(),
            home: options.engine.home.clone(),
            unmasked_ok: options.router.unmasked_ok,
        }
    }

    /// Takes part no more. Who takes the home over goes on as the same node.
    pub(crate) async fn close(&self, order: Order) {
        match order {
            Order::HandOver | Order::Replace => self.fleet.hand_over(),
            Order::Stop | Order::Serve => self.fleet.leave().await,
        }
    }

    /// The node's name.
    pub(crate) fn node(&self) -> &str {
        self.fleet.node()
    }

    /// Waits until etcd knows that branches of a name have ended, for a moment: who destroyed one can then give its name to another
    /// one on any node. If etcd does not answer, it is told later.
    pub(crate) async fn settled(&self, name: &str) {
        const LIMIT: Duration = Duration::from_secs(2);
        if !self.fleet.name_freed(name, LIMIT).await {
            tracing::warn!(name, "etcd does not answer: the name is freed later");
        }
    }

    /// Brings names and branches together, whenever it is registered and at times (FL-6).
    pub(super) async fn reconcile(&self) {
        let holding = Holding(Arc::clone(&self.engine));
        let mut registrations = self.fleet.registrations();
        loop {
            let pause = match self.fleet.reconcile(&holding).await {
                Ok(done) if done == duramen_fleet::names::Reconciled::default() => RECONCILE_EVERY,
                Ok(done) => {
                    tracing::info!(?done, "names were brought together with branches");
                    RECONCILE_EVERY
                }
                Err(error) => {
                    tracing::debug!(%error, "names are brought together with branches later");
                    PAUSE
                }
            };
            let _ = tokio::time::timeout(pause, registrations.changed()).await;
        }
    }
}

impl Joining {
    pub(crate) fn open(self, engine: &Arc<Engine>, doors: &Doors) -> Result<Option<Arc<Peers>>, ServeError> {
        let Some(options) = self.options else { return Ok(None) };
        Ok(Some(open(options, &self.home, self.unmasked_ok, engine, doors)?))
    }
}

fn open(
    options: FleetOptions,
    home: &Path,
    unmasked_ok: bool,
    engine: &Arc<Engine>,
    doors: &Doors,
) -> Result<Arc<Peers>, FleetError> {
    let FleetOptions { etcd, access, node, advertise, listen, certificates, grace } = options;
    if !is_name(&node) {
        return Err(FleetError::Name(node));
    }
    let dir = home.join(DIR);
    let trust = Trust::open(certificates.as_deref().unwrap_or(&dir), &node)?;
    let listener = door::listen(listen).map_err(|source| FleetError::Bind { address: listen, source })?;
    let settings = Settings {
        etcd,
        access,
        node,
        advertise,
        home: identity(&dir)?,
        starts: starts(&dir)?,
        place: place(&dir)?,
        sessions: doors.router().is_some(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        grace,
    };
    let offers = Arc::new(Offers::default());
    let measure = {
        let (engine, offers) = (Arc::clone(engine), Arc::clone(&offers));
        Box::new(move || capacity(&engine, &offers))
    };
    let fleet = Fleet::join(settings, measure)?;
    offers.join(&fleet);
    if doors.shared_tokens().is_some() {
        // Which is so as soon as etcd has answered.
        let why = "the tokens of the fleet were not compared with this home's yet";
        fleet.keep_out(Some(Standing::Joining(why.to_owned())));
    }
    engine.agree_on_names(Arc::new(Agreeing {
        fleet: Arc::clone(&fleet),
        offers: Arc::clone(&offers),
        engine: Arc::downgrade(engine),
    }));
    let router = doors.router();
    let peers = Arc::new(Peers {
        fleet,
        engine: Arc::clone(engine),
        tokens: doors.shared_tokens(),
        connections: Connections::new(&trust),
        placed: Placed::default(),
        hops: Hops::default(),
        trust,
        unmasked_ok,
        router: router.clone(),
        listener: Mutex::new(Some(listener)),
        offers,
        sends: Semaphore::new(SENDS_MAX),
        receivers: Mutex::default(),
        drops: Arc::new(Semaphore::new(DROPS_MAX)),
        removed: Removed::open(&dir),
        changing: Changing::default(),
    });
    if let Some(router) = router {
        router.join(&peers);
    }
    Ok(peers)
}

impl Peers {
    pub(super) fn take_listener(&self) -> Option<TcpListener> {
        self.listener.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The identity of a home, made once (FL-12).
fn identity(dir: &Path) -> Result<String, FleetError> {
    let path = dir.join(IDENTITY);
    let failed = |source| FleetError::Identity { path: path.clone(), source };
    match file::read_plain(&path, IDENTITY_MAX) {
        Ok(identity) => return Ok(identity.trim().to_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    std::fs::create_dir_all(dir).map_err(failed)?;
    let identity = format!("h-{}", entropy::token(16));
    file::replace(&path, format!("{identity}\n").as_bytes(), IDENTITY_MODE).map_err(failed)?;
    Ok(identity)
}

/// The starts of this home's daemon, to which this one is added: a copy of the home does not know those that came after it (FL-12).
fn starts(dir: &Path) -> Result<Vec<String>, FleetError> {
    let path = dir.join(STARTS);
    let failed = |source| FleetError::Identity { path: path.clone(), source };
    let before = match file::read_plain(&path, STARTS_SIZE_MAX) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(failed(error)),
    };
    let mut starts: Vec<String> = before.lines().map(str::to_owned).collect();
    starts.push(format!("s-{}", entropy::token(16)));
    let too_many = starts.len().saturating_sub(STARTS_MAX);
    starts.drain(..too_many);
    file::replace(&path, format!("{}\n", starts.join("\n")).as_bytes(), IDENTITY_MODE).map_err(failed)?;
    Ok(starts)
}

/// Where a home is: on which boot of which machine, and in which directory, of which the lock of the home keeps other processes away.
fn place(dir: &Path) -> Result<String, FleetError> {
    const BOOT: &str = "/proc/sys/kernel/random/boot_id";
    let failed = |path: &Path, source| FleetError::Identity { path: path.to_owned(), source };
    let boot = std::fs::read_to_string(BOOT).map_err(|source| failed(Path::new(BOOT), source))?;
    let directory = std::fs::metadata(dir).map_err(|source| failed(dir, source))?;
    Ok(format!("{}:{}:{}", boot.trim(), directory.dev(), directory.ino()))
}

fn capacity(engine: &Engine, offers: &Offers) -> Capacity {
    let (sources, copies, bringing) = offers.told(&engine.local_sources());
    let (status, room) = (engine.status(), engine.room());
    let pools = status.pools.into_iter().map(|pool| Pool {
        source: pool.source,
        policy: pool.policy.to_string(),
        hot: pool.hot,
    });
    Capacity {
        // To 64 MiB, because each change is a write to etcd.
        memory_free: room.memory >> 26 << 26,
        disk_free: room.disk >> 26 << 26,
        leases: status.leases,
        places: status.limits.leases,
        pools: pools.collect(),
        sources,
        copies,
        bringing: bringing.into_iter().map(|it| BringingRecord { done: it.done >> 20 << 20, ..it }).collect(),
    }
}
