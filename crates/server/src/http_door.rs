//! The HTTP door: the daemon's interface over TCP, for holders of tokens. How it works, and what it promises, is in
//! `docs/design/doors.md`; the invariants H1 to H10 that comments and tests name are there.

mod callers;
mod credentials;
mod host;
mod tag;
mod until;
mod visit;

pub(crate) use callers::{check, refused};
pub(crate) use credentials::Credentials;

use crate::{
    certificate::Certificate,
    console::Console,
    door::{self, Counts, Share, Strangers},
    listener::{self, Accept},
    router::RouterHandle,
    tls::{Identity, TlsError, ALPN_HTTP},
    tokens::Tokens,
};
use axum::Router;
use duramen_api::doors::HttpView;
use std::{io, net::SocketAddr, path::Path, sync::Arc};
use tokio::net::{TcpListener, TcpStream};

/// One part in so many of the daemon's descriptors is for clients of this door.
const PART: u64 = 8;

/// How the door serves.
#[derive(Debug, Clone)]
pub(crate) struct HttpOptions {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// The certificate; the doors' own if there is none.
    pub(crate) identity: Option<Identity>,
    /// Whether clients from elsewhere may go without TLS.
    pub(crate) insecure: bool,
    /// Whether data that is not masked may go to clients from elsewhere.
    pub(crate) unmasked_ok: bool,
}

/// Why there is no HTTP door.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// It cannot listen.
    #[error("cannot listen for HTTP at {address}: {source}; choose another address (--http-listen)")]
    Bind {
        /// Where.
        address: SocketAddr,
        /// The operating system's answer.
        source: io::Error,
    },
    /// There is no TLS.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// An HTTP door that listens.
#[derive(Debug)]
pub(crate) struct HttpDoor {
    listener: TcpListener,
    /// How many connections it may have.
    connections: u32,
    handle: HttpHandle,
}

/// How an HTTP door is asked about itself.
#[derive(Debug, Clone)]
pub(crate) struct HttpHandle {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl HttpHandle {
    /// What it is.
    pub(crate) fn view(&self) -> HttpView {
        let fingerprint = self.shared.certificate.tls().fingerprint.clone();
        HttpView { address: self.address, fingerprint }
    }

    /// Has new connections see the certificate as it is now.
    pub(crate) fn read_certificate(&self) -> Result<(), TlsError> {
        self.shared.certificate.read_anew()
    }
}

/// What all connections share.
#[derive(Debug)]
struct Shared {
    known: Known,
    /// The port at which it listens.
    port: u16,
    certificate: Certificate,
    options: HttpOptions,
    router: Option<RouterHandle>,
    strangers: Strangers,
}

/// Who may come in, and who has come.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) tokens: Arc<Tokens>,
    pub(crate) counts: Arc<Counts>,
    pub(crate) console: Arc<Console>,
}

impl Accept for TcpListener {
    type Stream = (TcpStream, SocketAddr);

    async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        TcpListener::accept(self).await
    }
}

impl HttpDoor {
    /// Listens. `doors` is the directory of the home in which a certificate is kept.
    pub(crate) fn bind(
        known: Known,
        router: Option<RouterHandle>,
        doors: &Path,
        options: HttpOptions,
    ) -> Result<HttpDoor, HttpError> {
        let failed = |source| HttpError::Bind { address: options.address, source };
        let listener = door::listen(options.address).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let certificate = Certificate::open(options.identity.clone(), doors, ALPN_HTTP)?;
        let share = Share::of(PART, listener::CONNECTIONS_MAX);
        let shared = Shared {
            known,
            port: address.port(),
            certificate,
            options,
            router,
            strangers: Strangers::new(share.strangers),
        };
        let handle = HttpHandle { address, shared: Arc::new(shared) };
        Ok(HttpDoor { listener, connections: share.connections, handle })
    }

    /// For asking about it while it serves.
    pub(crate) fn handle(&self) -> HttpHandle {
        self.handle.clone()
    }

    /// Has requests answered by `found` until `stop` is ready, then gives those under way 5 seconds.
    pub(crate) async fn serve(self, found: Router, stop: impl Future<Output = ()>) {
        let HttpDoor { listener, connections, handle: HttpHandle { shared, .. } } = self;
        let each = move |(stream, peer), course| {
            visit::serve(Arc::clone(&shared), stream, peer, found.clone(), course)
        };
        listener::serve_each(listener, connections, each, stop).await;
    }
}
