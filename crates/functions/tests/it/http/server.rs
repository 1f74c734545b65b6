//! A server that remembers what it was asked, and calls to it.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use duramen_functions::http::{perform, HttpCall, HttpPolicy};
use duramen_functions::interpret::Failure;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

/// A request as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) peer: SocketAddr,
}

/// A server on a port of its own, that runs as long as the test's runtime.
pub(crate) struct Server {
    pub(crate) port: u16,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Server {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let shared = seen.clone();
        tokio::spawn(async move {
            loop {
                let (stream, peer) = listener.accept().await.unwrap();
                let seen = shared.clone();
                let service = service_fn(move |request| answer(request, peer, seen.clone()));
                let serving = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service);
                tokio::spawn(async move { drop(serving.await) });
            }
        });
        Self { port, seen }
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

/// A server that sends these bytes to whoever connects; it then closes the connection or holds it open.
pub(crate) async fn raw_server(bytes: Vec<u8>, hold: bool) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let bytes = bytes.clone();
            tokio::spawn(async move {
                let mut request = [0; 4096];
                drop(stream.read(&mut request).await);
                drop(stream.write_all(&bytes).await);
                if hold {
                    tokio::time::sleep(Duration::from_secs(60)).await;
                }
            });
        }
    });
    port
}

async fn answer(
    request: Request<Incoming>,
    peer: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let target = head.uri.to_string();
    let request =
        Seen { method: head.method.to_string(), target: target.clone(), headers: head.headers, body, peer };
    let echoed = request.body.clone();
    seen.lock().unwrap().push(request);
    let builder = Response::builder();
    let (builder, body) = match target.split('?').next().unwrap() {
        "/echo" => (builder.header("content-type", "text/plain"), echoed),
        "/binary" => (builder, Bytes::from_static(&[0xff, 0x00, 0xfe])),
        "/nul" => (builder, Bytes::from_static(b"a\0b")),
        "/unicode" => (builder, Bytes::from("gr\u{fc}n \"q\" \u{1f332}\n")),
        "/headers" => {
            let builder = builder.header("X-Twice", "one").header("x-twice", "two");
            (
                builder.header("X-Latin", hyper::header::HeaderValue::from_bytes(b"\xe9").unwrap()),
                Bytes::new(),
            )
        }
        "/redirect" => (builder.status(302).header("location", "/echo"), Bytes::from("moved")),
        "/slow" => {
            tokio::time::sleep(Duration::from_secs(30)).await;
            (builder, Bytes::new())
        }
        "/large" => (builder, Bytes::from(vec![b'x'; 16 * 1024 * 1024])),
        "/too-large" => (builder, Bytes::from(vec![b'x'; 16 * 1024 * 1024 + 1])),
        path => {
            let status = path.strip_prefix("/status/").unwrap().parse::<u16>().unwrap();
            (builder.status(status), Bytes::from("the  reason\r\nis this"))
        }
    };
    Ok(builder.body(Full::new(body)).unwrap())
}

/// A policy that opens the loopback interface.
pub(crate) fn open() -> HttpPolicy {
    policy("127.0.0.1, localhost", true)
}

pub(crate) fn policy(hosts: &str, allow_private: bool) -> HttpPolicy {
    let allow_private = if allow_private { "on" } else { "off" };
    HttpPolicy::from_settings(Some("on"), Some(hosts), Some(allow_private)).unwrap()
}

pub(crate) fn get(url: String) -> HttpCall {
    HttpCall { url, method: "GET".to_owned(), timeout_s: 20, ..HttpCall::default() }
}

pub(crate) fn to(port: u16, path: &str) -> HttpCall {
    get(format!("http://127.0.0.1:{port}{path}"))
}

/// The envelope, read back.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Envelope {
    pub(crate) status: u16,
    pub(crate) body: String,
    pub(crate) encoding: String,
    pub(crate) headers: std::collections::BTreeMap<String, String>,
    pub(crate) ok: bool,
    pub(crate) duration_ms: u64,
}

pub(crate) async fn result(call: &HttpCall) -> Envelope {
    serde_json::from_str(perform(call, &open()).await.unwrap().text()).unwrap()
}

pub(crate) async fn failure(call: &HttpCall, policy: &HttpPolicy) -> Failure {
    perform(call, policy).await.unwrap_err()
}

/// Asserts that a call fails with all of these texts in its message, and with this SQLSTATE.
pub(crate) async fn fails(call: &HttpCall, policy: &HttpPolicy, sqlstate: &str, texts: &[&str]) {
    let failure = failure(call, policy).await;
    for text in texts {
        assert!(failure.message.contains(text), "{:?} lacks {text:?}", failure.message);
    }
    assert_eq!(failure.sqlstate.as_deref(), Some(sqlstate), "{}", failure.message);
}
