//! Figures for Prometheus and health, over HTTP.
//!
//! Whoever can reach the port may be slow, loud or hostile: connections, their sizes and their times have limits, and a new
//! connection takes the place of the oldest, so that an honest one, which takes milliseconds, is served all the same.

use crate::failure::Failure;
use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    body::Incoming,
    header::{HeaderValue, CONTENT_TYPE},
    server::conn::http1,
    service::service_fn,
    Method, Request, Response, StatusCode,
};
use hyper_util::rt::TokioIo;
use std::{
    collections::VecDeque, convert::Infallible, future::Future, net::SocketAddr, sync::Arc, time::Duration,
};
use tokio::{
    net::{TcpListener, TcpStream},
    task::{AbortHandle, JoinSet},
    time::{sleep, timeout},
};

/// How long a connection may take.
const LIMIT: Duration = Duration::from_secs(10);
/// How many connections may be open at a time.
const CONNECTIONS_MAX: usize = 32;
/// How large the head of a request may be; the least that the library takes.
const HEAD_MAX: usize = 8 << 10;
/// Pause when no connection can be accepted, for want of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);
/// The text exposition format that every Prometheus reads.
const FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";

/// What has figures and knows whether it is well.
pub(crate) trait Figures: Send + Sync + 'static {
    /// All figures, in the text format.
    fn text(&self) -> impl Future<Output = String> + Send;

    /// What it says of itself, or why it is not well.
    fn health(&self) -> Result<&'static str, String>;
}

/// Reads the value of `--metrics`: an address with a port, or a port on the loopback interface.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = text.parse::<u16>() {
        return Ok(SocketAddr::from(([127, 0, 0, 1], port)));
    }
    text.parse().map_err(|error| {
        format!(
            "{text:?} is not an address ({error}); write it like 127.0.0.1:9464, or 9464 for this machine only"
        )
    })
}

/// Begins to listen. Returns the address with the port that was taken, too.
pub(crate) async fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), Failure> {
    let listen = async {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok((listener, address))
    };
    let listening = listen.await.map_err(|error: std::io::Error| {
        Failure::Other(format!(
            "cannot serve metrics at {address}: {error}; take another port with --metrics"
        ))
    })?;
    if !address.ip().is_loopback() {
        tracing::warn!(%address, "other machines can read the metrics, with the names of queues or servers, if nothing keeps them off");
    }
    Ok(listening)
}

/// Answers for ever.
pub(crate) async fn serve(listener: TcpListener, figures: impl Figures) {
    let figures = Arc::new(figures);
    let mut connections = JoinSet::new();
    let mut oldest: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                while connections.try_join_next().is_some() {}
                oldest.retain(|connection| !connection.is_finished());
                if oldest.len() >= CONNECTIONS_MAX {
                    if let Some(connection) = oldest.pop_front() {
                        connection.abort();
                    }
                }
                oldest.push_back(connections.spawn(timeout(LIMIT, answer(stream, Arc::clone(&figures)))));
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection for metrics");
                sleep(PAUSE).await;
            }
        }
    }
}

/// Answers one request.
async fn answer(stream: TcpStream, figures: Arc<impl Figures>) {
    let service = service_fn(move |request| {
        let figures = Arc::clone(&figures);
        async move { Ok::<_, Infallible>(page(&request, &*figures).await) }
    });
    let connection = http1::Builder::new()
        .keep_alive(false)
        .max_buf_size(HEAD_MAX)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = connection.await {
        tracing::debug!(%error, "a connection for metrics broke");
    }
}

async fn page(request: &Request<Incoming>, figures: &impl Figures) -> Response<Full<Bytes>> {
    let asks = matches!(*request.method(), Method::GET | Method::HEAD);
    let (status, kind, body) = match request.uri().path() {
        "/metrics" | "/health" if !asks => (StatusCode::METHOD_NOT_ALLOWED, TEXT, "GET only\n".to_owned()),
        "/metrics" => (StatusCode::OK, FORMAT, figures.text().await),
        "/health" => match figures.health() {
            Ok(state) => (StatusCode::OK, TEXT, format!("{state}\n")),
            Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, TEXT, format!("{reason}\n")),
        },
        _ => {
            (StatusCode::NOT_FOUND, TEXT, "the figures are at /metrics, the state is at /health\n".to_owned())
        }
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
