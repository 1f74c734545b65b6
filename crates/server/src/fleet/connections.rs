//! Connections to other nodes, kept for the next request. Both sides show certificates of the fleet (FL-10).
//!
//! A connection has no task of its own: who waits for its answer drives it. A task would hand each request, each head and each
//! part of a body from thread to thread, and such a handing over takes as long as the encryption.

use super::protocol::{self, ALPN, ALPN_COPIES, ALPN_SESSIONS};
use crate::{door, reply::Refusal};
use axum::body::Body;
use bytes::Bytes;
use duramen_fleet::authority::{expected, Trust};
use hyper::{
    body::{Body as _, Frame, Incoming, SizeHint},
    client::conn::{
        http1::{self, SendRequest},
        TrySendError,
    },
    Request, Response, StatusCode,
};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use std::{
    collections::HashMap,
    future::poll_fn,
    pin::{pin, Pin},
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, Waker},
    time::Duration,
};
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::{client::TlsStream, TlsConnector};

/// How long it may take until a connection is there.
const CONNECT_LIMIT: Duration = Duration::from_millis(1500);
/// Connections to one node that wait for a request.
const IDLE_MAX: usize = 64;

/// What drives a connection, until it has ended.
type Driver = Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>;

/// A connection.
struct Line {
    sender: SendRequest<Body>,
    driver: Driver,
}

/// Connections that wait for a request, by node and address.
#[derive(Default)]
struct Idle(Mutex<HashMap<String, Vec<Line>>>);

/// Connections to other nodes.
pub(super) struct Connections {
    requests: Arc<ClientConfig>,
    sessions: Arc<ClientConfig>,
    copies: Arc<ClientConfig>,
    idle: Arc<Idle>,
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
            idle: Arc::default(),
        }
    }

    /// Sends a request to a node, by a connection that is there or a new one.
    pub(super) async fn send(
        &self,
        node: &str,
        address: &str,
        mut request: Request<Body>,
    ) -> Result<Response<Said>, Refusal> {
        let key = key(node, address);
        loop {
            let (mut line, is_new) = match self.idle.take(&key) {
                Some(line) => (line, false),
                None => (self.connect(node, address).await?, true),
            };
            match line.ask(request).await {
                Ok(response) => {
                    let (head, body) = response.into_parts();
                    let home = Some((Arc::clone(&self.idle), key, line));
                    return Ok(Response::from_parts(head, Said { body, home }));
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

    async fn connect(&self, node: &str, address: &str) -> Result<Line, Refusal> {
        let stream = tls(node, address, &self.requests).await?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| unreachable(node, address, error))?;
        Ok(Line { sender, driver: Box::pin(connection) })
    }

    /// Forgets the connections to a node, which do not work any more.
    pub(super) fn forget(&self, node: &str) {
        let prefix = key(node, "");
        self.idle.lock().retain(|key, _| !key.starts_with(&prefix));
    }
}

impl Line {
    /// Sends a request, and waits for the head of its answer.
    async fn ask(
        &mut self,
        request: Request<Body>,
    ) -> Result<Response<Incoming>, TrySendError<Request<Body>>> {
        let Line { sender, driver } = self;
        let mut answer = pin!(sender.try_send_request(request));
        let mut has_ended = false;
        poll_fn(|cx| {
            if !has_ended {
                has_ended = driver.as_mut().poll(cx).is_ready();
            }
            if has_ended {
                // What it had of the request is given back with the error when it goes.
                *driver = Box::pin(std::future::pending());
            }
            answer.as_mut().poll(cx)
        })
        .await
    }

    /// Takes note of what came while nobody waited for it, and tells whether another request can be sent.
    fn is_ready(&mut self) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        self.driver.as_mut().poll(&mut context).is_pending() && self.sender.is_ready()
    }
}

impl Idle {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Vec<Line>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection that was used last, of those that were not closed meanwhile.
    fn take(&self, key: &str) -> Option<Line> {
        loop {
            let mut line = self.lock().get_mut(key)?.pop()?;
            if line.is_ready() {
                return Some(line);
            }
        }
    }

    fn keep(&self, key: String, mut line: Line) {
        if !line.is_ready() {
            return;
        }
        let mut idle = self.lock();
        let of_node = idle.entry(key).or_default();
        if of_node.len() < IDLE_MAX {
            of_node.push(line);
        }
    }
}

/// The body of an answer, as it comes. Its connection is kept for the next request once all of it is there, and closed if it is
/// dropped before.
pub(crate) struct Said {
    body: Incoming,
    home: Option<(Arc<Idle>, String, Line)>,
}

impl std::fmt::Debug for Said {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Said").field("body", &self.body).finish_non_exhaustive()
    }
}

impl Said {
    fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        // First it is said that something is wanted, which the connection then reads.
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            return Poll::Ready(frame);
        }
        let Some((.., line)) = &mut self.home else { return Poll::Pending };
        if line.driver.as_mut().poll(cx).is_ready() {
            self.home = None;
        }
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn settle(&mut self) {
        if let Some((idle, key, line)) = self.home.take() {
            idle.keep(key, line);
        }
    }
}

impl hyper::body::Body for Said {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        let this = self.get_mut();
        let polled = this.poll_body(cx);
        let is_over = match &polled {
            Poll::Ready(None) => true,
            Poll::Ready(Some(Ok(_))) => this.body.is_end_stream(),
            Poll::Ready(Some(Err(_))) => {
                this.home = None;
                false
            }
            Poll::Pending => false,
        };
        if is_over {
            this.settle();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Said {
    fn drop(&mut self) {
        // Of an answer without a body nobody asks for more.
        if self.body.is_end_stream() {
            self.settle();
        }
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
        Ok(Ok(stream))
            if stream.get_ref().1.alpn_protocol() == config.alpn_protocols.first().map(Vec::as_slice) =>
        {
            Ok(stream)
        }
        Ok(Ok(_)) => Err(protocol::other(node, "another protocol")),
        Ok(Err(error)) if protocol::is_other(&error) => Err(protocol::other(node, "another protocol")),
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
