//! HTTP/1.1 over a socket: connections, limits, draining. Knows no route.

use crate::caller::{Caller, Peer};
use bytes::Bytes;
use hyper::{
    body::{Body, Incoming},
    server::conn::http1,
    service::service_fn,
    Request, Response,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::{
    fs::{fchmod, Mode},
    net::{bind, listen, socket_with, AddressFamily, SocketAddrUnix, SocketFlags, SocketType},
};
use std::{convert::Infallible, future::Future, io, path::Path, pin::pin, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{UnixListener, UnixStream},
    sync::{watch, Semaphore},
    time::{sleep, timeout},
};

/// Open connections at one time; more wait in the socket's queue.
pub const CONNECTIONS_MAX: u32 = 4096;
/// Connections that wait to be accepted. The kernel lowers it to `net.core.somaxconn`.
const BACKLOG: i32 = 4096;
/// The largest request body.
pub const BODY_MAX: usize = 8 << 20;
/// A request whose head is not complete after this time ends its connection, and so does no request at all.
pub const HEAD_LIMIT: Duration = Duration::from_secs(300);
/// The largest request head.
const HEAD_MAX: usize = 64 << 10;
/// The largest number of header fields.
const FIELDS_MAX: usize = 64;
/// How long requests under way may take when the listener stops.
const DRAIN_LIMIT: Duration = Duration::from_secs(5);
/// Pause after a failed accept, which mostly means that descriptors are short.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// The longest path of a unix socket on Linux (unix(7)), without its final zero.
pub const SOCKET_PATH_MAX: usize = 107;

/// Why a socket could not be bound.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// The path does not fit into a socket address.
    #[error("the socket path {path} has {length} bytes, and a unix socket address holds {SOCKET_PATH_MAX}; choose a shorter --home")]
    TooLong {
        /// The path.
        path: String,
        /// Its length in bytes.
        length: usize,
    },
    /// The operating system refused.
    #[error("cannot listen on {path}: {source}")]
    Io {
        /// The path.
        path: String,
        /// The operating system's answer.
        source: io::Error,
    },
}

/// Binds a socket that only this user (and root) can connect to, replacing what is at the path: whoever calls
/// this holds the lock of the home, so a socket that is there belongs to nobody.
///
/// # Errors
/// [`BindError`].
pub fn bind_private(path: &Path) -> Result<UnixListener, BindError> {
    let length = path.as_os_str().len();
    if length > SOCKET_PATH_MAX {
        return Err(BindError::TooLong { path: path.display().to_string(), length });
    }
    let bind_at = || -> io::Result<UnixListener> {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        // The file takes the socket's mode, so there is no moment in which others could connect.
        fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
        bind(&socket, &SocketAddrUnix::new(path)?)?;
        listen(&socket, BACKLOG)?;
        UnixListener::from_std(socket.into())
    };
    bind_at().map_err(|source| BindError::Io { path: path.display().to_string(), source })
}

/// How far the listener is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Serving,
    /// No new requests; those under way go on.
    Draining,
    /// What is still under way is dropped.
    Closed,
}

/// Where connections come from.
pub(crate) trait Accept {
    /// One of them.
    type Stream: Send + 'static;

    /// Waits for the next one.
    fn accept(&self) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

impl Accept for UnixListener {
    type Stream = UnixStream;

    async fn accept(&self) -> io::Result<UnixStream> {
        UnixListener::accept(self).await.map(|(stream, _)| stream)
    }
}

/// How far the listener is, as its connections see it.
#[derive(Debug, Clone)]
pub(crate) struct Course(watch::Receiver<Phase>);

/// What a connection may take of the daemon.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// How long a head may take, and how long there may be none.
    pub(crate) head: Duration,
    /// Bytes of a head.
    pub(crate) head_bytes: usize,
    /// Whether replies have a date.
    pub(crate) dates: bool,
}

/// Serves connections until `stop` is ready, then gives requests under way 5 seconds and drops the rest. When a
/// client closes its connection, the future of its request is dropped.
pub async fn serve<H, F, B>(listener: UnixListener, handler: H, stop: impl Future<Output = ()>)
where
    H: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let limits = Limits { head: HEAD_LIMIT, head_bytes: HEAD_MAX, dates: false };
    let each = move |stream: UnixStream, course| {
        let handler = handler.clone();
        async move {
            let caller = match stream.peer_cred() {
                Ok(peer) => Caller::of_peer(Peer(peer.uid())).await,
                Err(_) => None,
            };
            let handler = move |mut request: Request<Incoming>| {
                request.extensions_mut().insert(caller.clone().unwrap_or(Caller::Stranger));
                handler(request)
            };
            converse(stream, handler, limits, course).await;
        }
    };
    serve_each(listener, CONNECTIONS_MAX, each, stop).await;
}

/// Has each connection served in a task of its own until `stop` is ready, then gives them time to end. There are at most `most`
/// of them at one time.
pub(crate) async fn serve_each<L, C, F>(listener: L, most: u32, each: C, stop: impl Future<Output = ()>)
where
    L: Accept,
    C: Fn(L::Stream, Course) -> F,
    F: Future<Output = ()> + Send + 'static,
{
    let free = Arc::new(Semaphore::new(most as usize));
    let (phase, in_phase) = watch::channel(Phase::Serving);
    let accept = async {
        loop {
            let Ok(place) = Arc::clone(&free).acquire_owned().await else { return };
            match listener.accept().await {
                Ok(stream) => {
                    let connection = each(stream, Course(in_phase.clone()));
                    tokio::spawn(async move {
                        connection.await;
                        drop(place);
                    });
                }
                Err(error) => {
                    tracing::warn!("cannot accept a connection: {error}");
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
    for next in [Phase::Draining, Phase::Closed] {
        // No receiver: no connection is left.
        let _ = phase.send(next);
        if timeout(DRAIN_LIMIT, free.acquire_many(most)).await.is_ok() {
            return;
        }
    }
    tracing::warn!("connections did not end in time");
}

/// Serves the requests of one connection to its end.
pub(crate) async fn converse<S, H, F, B>(stream: S, handler: H, limits: Limits, course: Course)
where
    S: AsyncRead + AsyncWrite + Unpin,
    H: Fn(Request<Incoming>) -> F,
    F: Future<Output = Response<B>>,
    B: Body<Data = Bytes> + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let Course(mut phase) = course;
    let service = service_fn(move |request: Request<Incoming>| {
        let response = handler(request);
        async move { Ok::<_, Infallible>(response.await) }
    });
    let mut connection = pin!(http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_buf_size(limits.head_bytes)
        .max_headers(FIELDS_MAX)
        .pipeline_flush(true)
        // Nobody caches what comes out of the daemon's socket, and formatting the date costs on every reply.
        .auto_date_header(limits.dates)
        .serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        result = connection.as_mut() => return ended(result),
        _ = phase.wait_for(|phase| *phase >= Phase::Draining) => {}
    }
    connection.as_mut().graceful_shutdown();
    tokio::select! {
        result = connection.as_mut() => ended(result),
        _ = phase.wait_for(|phase| *phase == Phase::Closed) => {}
    }
}

fn ended(result: hyper::Result<()>) {
    if let Err(error) = result {
        // A client that leaves before its reply is no fault of ours.
        tracing::debug!("a connection ended early: {error}");
    }
}
