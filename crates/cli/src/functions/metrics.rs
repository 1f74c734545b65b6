//! A worker's figures for Prometheus, over HTTP on the loopback interface.

use crate::failure::Failure;
use bytes::Bytes;
use duramen_functions::worker::Metrics;
use http_body_util::Full;
use hyper::{
    body::Incoming, header::CONTENT_TYPE, server::conn::http1, service::service_fn, Method, Request,
    Response, StatusCode,
};
use hyper_util::rt::TokioIo;
use std::{convert::Infallible, net::SocketAddr, time::Duration};
use tokio::{
    net::{TcpListener, TcpStream},
    time::{sleep, timeout},
};

/// How long a connection may take.
const LIMIT: Duration = Duration::from_secs(10);
/// Pause when no connection can be accepted, for want of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);
/// The text exposition format that every Prometheus reads.
const FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Begins to listen. Returns the address with the port that was taken, too.
pub(crate) async fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), Failure> {
    let listen = async {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok((listener, address))
    };
    listen.await.map_err(|error: std::io::Error| {
        Failure::Other(format!(
            "cannot serve metrics at {address}: {error}; take another port with --metrics"
        ))
    })
}

/// Answers for ever. Without a listener there is nobody to answer.
pub(crate) async fn serve(listener: Option<TcpListener>, metrics: &Metrics) {
    let Some(listener) = listener else { return std::future::pending().await };
    loop {
        match listener.accept().await {
            // The figures are of now, so that the connection needs nothing of the worker.
            Ok((stream, _)) => drop(tokio::spawn(timeout(LIMIT, answer(stream, metrics.prometheus())))),
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection for metrics");
                sleep(PAUSE).await;
            }
        }
    }
}

/// Answers one request.
async fn answer(stream: TcpStream, figures: String) {
    let figures = Bytes::from(figures);
    let service = service_fn(move |request| {
        let response = page(&request, figures.clone());
        async move { Ok::<_, Infallible>(response) }
    });
    let connection = http1::Builder::new().keep_alive(false).serve_connection(TokioIo::new(stream), service);
    if let Err(error) = connection.await {
        tracing::debug!(%error, "a connection for metrics broke");
    }
}

fn page(request: &Request<Incoming>, figures: Bytes) -> Response<Full<Bytes>> {
    let (status, kind, body) = match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/metrics") => (StatusCode::OK, FORMAT, figures),
        (_, "/metrics") => (StatusCode::METHOD_NOT_ALLOWED, "text/plain", Bytes::from_static(b"GET only\n")),
        _ => (StatusCode::NOT_FOUND, "text/plain", Bytes::from_static(b"the figures are at /metrics\n")),
    };
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(kind));
    response
}
