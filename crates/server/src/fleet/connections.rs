//! Connections to other nodes, kept for the next request. Both sides show certificates of the fleet (FL-10).

use crate::{door, reply::Refusal};
use axum::body::Body;
use duramen_fleet::authority::{expected, Trust};
use hyper::{
    body::Incoming,
    client::conn::http1::{self, SendRequest},
    Request, Response, StatusCode,
};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::{client::TlsStream, TlsConnector};

/// What ALPN calls requests between nodes.
pub(super) const ALPN: &[u8] = b"duramen-node/1";
/// And sessions of PostgreSQL clients.
pub(super) const ALPN_SESSIONS: &[u8] = b"duramen-session/1";
/// And generations of sources.
pub(super) const ALPN_COPIES: &[u8] = b"duramen-copy/1";
/// How long it may take until a connection is there.
const CONNECT_LIMIT: Duration = Duration::from_millis(1500);
/// Connections to one node that wait for a request.
const IDLE_MAX: usize = 64;

/// Connections to other nodes.
pub(super) struct Connections {
    requests: Arc<ClientConfig>,
    sessions: Arc<ClientConfig>,
    copies: Arc<ClientConfig>,
    idle: Mutex<HashMap<String, Vec<SendRequest<Body>>>>,
}

impl std::fmt::Debug for Connections {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connections").finish_non_exhaustive()
    }
}

impl Connections {
    pub(super) fn new(trust: &Trust) -> Connections {
        Connections {
            requests: trust.client(ALPN),
            sessions: trust.client(ALPN_SESSIONS),
            copies: trust.client(ALPN_COPIES),
            idle: Mutex::default(),
        }
    }

    /// Sends a request to a node, by a connection that is there or a new one.
    pub(super) async fn send(
        &self,
        node: &str,
        address: &str,
        mut request: Request<Body>,
    ) -> Result<Response<Incoming>, Refusal> {
        loop {
            let (mut sender, is_new) = match self.idle(node, address) {
                Some(sender) => (sender, false),
                None => (self.connect(node, address).await?, true),
            };
            match sender.try_send_request(request).await {
                Ok(response) => {
                    self.keep(node, address, sender);
                    return Ok(response);
                }
                Err(mut error) => match error.take_message() {
                    // It was closed meanwhile, and nothing of the request has left.
                    Some(unsent) if !is_new => request = unsent,
                    _ => return Err(unreachable(node, address, error.into_error())),
                },
            }
        }
    }

    /// A connection for a session of a PostgreSQL client.
    pub(super) async fn session(&self, node: &str, address: &str) -> Result<TlsStream<TcpStream>, Refusal> {
        tls(node, address, &self.sessions).await
    }

    /// A connection for a generation of a source.
    pub(super) async fn copies(&self, node: &str, address: &str) -> Result<TlsStream<TcpStream>, Refusal> {
        tls(node, address, &self.copies).await
    }

    fn idle(&self, node: &str, address: &str) -> Option<SendRequest<Body>> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let of_node = idle.get_mut(&key(node, address))?;
        of_node.retain(|sender| !sender.is_closed());
        let place = of_node.iter().position(SendRequest::is_ready)?;
        Some(of_node.swap_remove(place))
    }

    fn keep(&self, node: &str, address: &str, sender: SendRequest<Body>) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let of_node = idle.entry(key(node, address)).or_default();
        if of_node.len() < IDLE_MAX {
            of_node.push(sender);
        }
    }

    async fn connect(&self, node: &str, address: &str) -> Result<SendRequest<Body>, Refusal> {
        let stream = tls(node, address, &self.requests).await?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| unreachable(node, address, error))?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to another node ended early");
            }
        });
        Ok(sender)
    }

    /// Forgets the connections to a node, which do not work any more.
    pub(super) fn forget(&self, node: &str) {
        let prefix = key(node, "");
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).retain(|key, _| !key.starts_with(&prefix));
    }
}

fn key(node: &str, address: &str) -> String {
    format!("{node}@{address}")
}

/// A connection to a node that has shown that it is that node.
async fn tls(node: &str, address: &str, config: &Arc<ClientConfig>) -> Result<TlsStream<TcpStream>, Refusal> {
    let Some(name) = expected(node) else {
        return Err(unreachable(node, address, "this is not a valid node name"));
    };
    let connecting = async {
        let stream = TcpStream::connect(address).await?;
        door::prepare(&stream);
        TlsConnector::from(Arc::clone(config)).connect(name, stream).await
    };
    match timeout(CONNECT_LIMIT, connecting).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(error)) => Err(unreachable(node, address, error)),
        Err(_) => Err(unreachable(
            node,
            address,
            format_args!("no connection within {} ms", CONNECT_LIMIT.as_millis()),
        )),
    }
}

/// The refusal of a request whose node cannot be reached.
pub(super) fn unreachable(node: &str, address: &str, what: impl std::fmt::Display) -> Refusal {
    let message =
        format!("the node {node} ({address}) cannot be reached: {what}; `duramen node list` shows all");
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "node_unreachable", message)
}
