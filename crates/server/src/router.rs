//! The router: one port over which every PostgreSQL client enters every branch. How it works, and what it promises, is in
//! `docs/design/doors.md`; the invariants R1 to R12 that comments and tests name are there.

mod connection;
mod message;
mod proxied;
mod sessions;
mod splice;
mod splicers;
mod startup;

pub use crate::tls::{Identity, TlsError};

use crate::metrics::RouterMetrics;
use crate::tokens::Tokens;
use crate::{
    certificate::Certificate,
    door::{self, Counts, Share, Strangers},
    tls,
    traces::Tracer,
};
use duramen_api::doors::RouterView;
use duramen_branches::Engine;
use ipnet::IpNet;
use sessions::Sessions;
use splicers::Splicers;
use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::Path,
    sync::Arc,
    time::Duration,
};
use tokio::{
    net::TcpListener,
    sync::{watch, Semaphore},
    time::{sleep, timeout},
};

/// What of a client's first packet, its length left out, goes on to a branch's server: the parameters, without those that say who
/// and where, and without ours. Nothing, if it asks for something else than a session, or is refused. For tools and fuzzing.
///
/// # Examples
/// ```
/// let packet = b"\0\x03\0\0user\0ci\0database\0try\0options\0-c duramen.ttl=60 -c work_mem=8MB\0\0";
/// let passed = duramen_server::router::passed_on(packet).unwrap();
/// assert_eq!(passed, [("options".to_owned(), "-c work_mem=8MB".to_owned())]);
/// assert_eq!(duramen_server::router::passed_on(b"\x04\xd2\x16\x2f"), None, "a request for TLS");
/// ```
#[must_use]
pub fn passed_on(packet: &[u8]) -> Option<Vec<(String, String)>> {
    match startup::parse(packet) {
        Ok(startup::First::Startup(startup)) => Some(startup.parameters),
        _ => None,
    }
}

/// The port that the router has unless it is told otherwise.
pub const PORT: u16 = 6432;
/// Open connections at one time; more wait in the socket's queue.
pub const CONNECTIONS_MAX: u32 = 10_000;
/// One part in so many of the daemon's descriptors is for clients of this door, and as many for their processes.
const PART: u64 = 4;
/// Pause after a failed accept, which mostly means that descriptors are short.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How long sessions may go on when the daemon stops.
const DRAIN_LIMIT: Duration = Duration::from_secs(5);

/// Where the router listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Listen {
    /// At 127.0.0.1:6432, if nobody else does.
    #[default]
    Usual,
    /// There, or the daemon does not start.
    At(SocketAddr),
    /// Nowhere.
    Off,
}

/// How the router serves.
#[derive(Debug, Clone, Default)]
pub struct RouterOptions {
    /// Where it listens.
    pub listen: Listen,
    /// The certificate; one of its own if there is none.
    pub identity: Option<Identity>,
    /// Whether clients from elsewhere may go without TLS.
    pub insecure: bool,
    /// Whether clients from elsewhere may enter branches whose data is not masked.
    pub unmasked_ok: bool,
    /// Proxies that say who their clients are, by the PROXY protocol.
    pub proxies: Vec<IpNet>,
    /// After how long a session in which nothing happens is ended; never, if it is `None`.
    pub idle: Option<Duration>,
}

/// Why there is no router.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RouterError {
    /// It cannot listen.
    #[error("cannot listen for PostgreSQL clients at {address}: {source}; choose another address (--pg-listen), or none (--pg-listen off)")]
    Bind {
        /// Where.
        address: SocketAddr,
        /// The operating system's answer.
        source: io::Error,
    },
    /// There is nobody to pass bytes on.
    #[error("cannot start a thread for PostgreSQL clients: {0}")]
    NoThread(io::Error),
    /// There is no TLS.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// A router that listens.
#[derive(Debug)]
pub struct Router {
    listener: TcpListener,
    shared: Arc<Shared>,
}

/// What all connections of a router share.
#[derive(Debug)]
struct Shared {
    engine: Arc<Engine>,
    tokens: Arc<Tokens>,
    certificate: Certificate,
    options: RouterOptions,
    share: Share,
    strangers: Strangers,
    counts: Arc<Counts>,
    sessions: Sessions,
    splicers: Splicers,
    metrics: RouterMetrics,
    /// The fleet that the daemon is in, once it is.
    #[cfg(feature = "fleet")]
    fleet: std::sync::OnceLock<Arc<crate::fleet::Peers>>,
    /// What traces first clients of branches, if something does.
    tracer: Option<Arc<Tracer>>,
}

/// How a router is asked about itself.
#[derive(Debug, Clone)]
pub struct RouterHandle {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl RouterHandle {
    /// What it is at now.
    #[must_use]
    pub fn view(&self) -> RouterView {
        RouterView {
            address: self.address,
            fingerprint: self.shared.certificate.tls().fingerprint.clone(),
            sessions: self.shared.sessions.count(),
        }
    }
}

impl RouterHandle {
    /// Has new connections see the certificate as it is now.
    pub(crate) fn read_certificate(&self) -> Result<(), TlsError> {
        self.shared.certificate.read_anew()
    }

    /// From now on sessions whose branches are elsewhere are passed on.
    #[cfg(feature = "fleet")]
    pub(crate) fn join(&self, fleet: &Arc<crate::fleet::Peers>) {
        let _ = self.shared.fleet.set(Arc::clone(fleet));
    }

    /// Serves a session that another node passes on.
    #[cfg(feature = "fleet")]
    pub(crate) async fn serve_passed_on(
        &self,
        stream: tokio_rustls::server::TlsStream<tokio::net::TcpStream>,
    ) {
        connection::hop::serve(&self.shared, stream).await;
    }

    /// What it counts.
    pub(crate) fn metrics(&self) -> &RouterMetrics {
        &self.shared.metrics
    }
}

impl Router {
    /// Listens for the branches of an engine. `doors` is the directory of the home in which a certificate is kept. Nothing, if
    /// it is to listen nowhere, or at the usual address where somebody else listens.
    ///
    /// # Errors
    /// [`RouterError`]
    pub(crate) fn bind(
        (engine, tokens, counts): (Arc<Engine>, Arc<Tokens>, Arc<Counts>),
        tracer: Option<Arc<Tracer>>,
        doors: &Path,
        options: RouterOptions,
    ) -> Result<Option<Router>, RouterError> {
        let (address, is_usual) = match options.listen {
            Listen::Off => return Ok(None),
            Listen::At(address) => (address, false),
            Listen::Usual => (SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), PORT), true),
        };
        let listener = match door::listen(address) {
            Ok(listener) => listener,
            Err(error) if is_usual && error.kind() == io::ErrorKind::AddrInUse => {
                tracing::warn!(%address, "somebody else listens there, so PostgreSQL clients only come by sockets");
                return Ok(None);
            }
            Err(source) => return Err(RouterError::Bind { address, source }),
        };
        let certificate = Certificate::open(options.identity.clone(), doors, tls::ALPN)?;
        let splicers = Splicers::start().map_err(RouterError::NoThread)?;
        let share = Share::of(PART, CONNECTIONS_MAX);
        let shared = Shared {
            engine,
            tokens,
            certificate,
            options,
            share,
            strangers: Strangers::new(share.strangers),
            counts,
            sessions: Sessions::default(),
            splicers,
            metrics: RouterMetrics::default(),
            #[cfg(feature = "fleet")]
            fleet: std::sync::OnceLock::new(),
            tracer,
        };
        let shared = Arc::new(shared);
        Ok(Some(Router { listener, shared }))
    }

    /// For asking about it while it serves.
    ///
    /// # Errors
    /// When the operating system does not say where it listens.
    pub fn handle(&self) -> io::Result<RouterHandle> {
        Ok(RouterHandle { address: self.listener.local_addr()?, shared: Arc::clone(&self.shared) })
    }

    /// Serves until `stop` is ready, then gives sessions 5 seconds and ends the rest.
    pub async fn serve(self, stop: impl Future<Output = ()>) {
        let Router { listener, shared } = self;
        let most = shared.share.connections;
        let free = Arc::new(Semaphore::new(most as usize));
        let (end, ending) = watch::channel(());
        let accept = async {
            loop {
                let Ok(place) = Arc::clone(&free).acquire_owned().await else { return };
                match listener.accept().await {
                    Ok((stream, peer)) => {
                        let (shared, mut ending) = (Arc::clone(&shared), ending.clone());
                        tokio::spawn(async move {
                            tokio::select! {
                                () = connection::serve(&shared, stream, peer) => {}
                                // Nothing is ever sent: it ends when the sender is dropped.
                                _ = ending.changed() => {}
                            }
                            drop(place);
                        });
                    }
                    Err(error) => {
                        tracing::warn!("cannot accept a PostgreSQL client: {error}");
                        sleep(ACCEPT_PAUSE).await;
                    }
                }
            }
        };
        tokio::select! {
            () = accept => {}
            () = stop => {}
        }
        drop(listener);
        let all = || free.acquire_many(most);
        if timeout(DRAIN_LIMIT, all()).await.is_err() {
            drop((end, ending));
            if timeout(DRAIN_LIMIT, all()).await.is_err() {
                tracing::warn!("sessions of PostgreSQL clients did not end in time");
            }
        }
    }
}
