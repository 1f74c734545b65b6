//! One connection, from its first byte to its last: TLS or not, then requests.

use super::{
    callers::{self, Counted},
    host::{self, Names},
    tag,
    until::until,
    Shared,
};
use crate::{
    caller::Caller,
    console::{self, Browser},
    door,
    listener::{self, Course, Limits},
    reply::Refusal,
};
use axum::{body::Body, Router};
use hyper::{
    body::Incoming,
    header::{HeaderName, HeaderValue},
    Method, Request, Response, StatusCode,
};
use std::{
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::Arc,
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};
use tokio_io_timeout::TimeoutStream;
use tower_service::Service;

/// How long a client may take until its TLS is there.
const HELLO_LIMIT: Duration = Duration::from_secs(10);
/// How long it may read nothing of a reply (H8).
const WRITE_LIMIT: Duration = Duration::from_secs(30);
/// How long it may take to read why it is refused.
const REFUSAL_LIMIT: Duration = Duration::from_secs(2);
/// The first byte of a TLS handshake.
const TLS_HANDSHAKE: u8 = 0x16;
/// What a connection may take of the daemon (H8).
const LIMITS: Limits = Limits { head: Duration::from_secs(30), head_bytes: 32 << 10, dates: true };
const NOSNIFF: (HeaderName, HeaderValue) =
    (HeaderName::from_static("x-content-type-options"), HeaderValue::from_static("nosniff"));

/// Serves one client.
pub(super) async fn serve(
    shared: Arc<Shared>,
    stream: TcpStream,
    peer: SocketAddr,
    found: Router,
    course: Course,
) {
    door::prepare(&stream);
    let peer = peer.ip().to_canonical();
    let (stranger, turned_away) = shared.strangers.arrive();
    let counted = Counted::of(stranger);
    tokio::select! {
        () = hello(&shared, stream, peer, &counted, found, course) => {}
        () = turned_away.wait() => {}
    }
}

async fn hello(
    shared: &Shared,
    mut stream: TcpStream,
    peer: IpAddr,
    counted: &Counted,
    found: Router,
    course: Course,
) {
    let mut first = [0];
    match timeout(HELLO_LIMIT, stream.peek(&mut first)).await {
        Ok(Ok(1..)) => {}
        _ => return,
    }
    let tls = shared.certificate.tls();
    let names = Names::new(&tls.names);
    let tls_comes = first[0] == TLS_HANDSHAKE;
    let browser = Browser { peer, tls: tls_comes, port: shared.port };
    let handler = |request| answer((shared, &names, counted), &browser, found.clone(), request);
    if tls_comes {
        // A client that speaks another protocol, or does not trust the certificate, is no fault of ours.
        let accepting = tls.acceptor.accept(impatient(stream, WRITE_LIMIT));
        if let Ok(Ok(mut stream)) = timeout(HELLO_LIMIT, accepting).await {
            listener::converse(&mut stream, handler, LIMITS, course).await;
            linger(&mut stream).await;
        }
    } else if peer.is_loopback() || shared.options.insecure {
        let mut stream = impatient(stream, WRITE_LIMIT);
        listener::converse(&mut stream, handler, LIMITS, course).await;
        linger(&mut stream).await;
    } else {
        // R4. What was sent in the clear is not read.
        const WHY: &str = "connections from other machines need TLS: https\n";
        let refusal = format!(
            "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-type: text/plain\r\ncontent-length: {}\r\n\r\n{WHY}",
            WHY.len()
        );
        let _ = timeout(REFUSAL_LIMIT, stream.write_all(refusal.as_bytes())).await;
        let _ = timeout(REFUSAL_LIMIT, stream.shutdown()).await;
    }
}

/// A connection that is over when the other side takes nothing for so long: replies wait in memory.
fn impatient<S: AsyncRead + AsyncWrite>(stream: S, limit: Duration) -> Pin<Box<TimeoutStream<S>>> {
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(limit));
    Box::pin(stream)
}

/// Reads, for a moment, what a client still sends after the last reply: to close before that would take the reply from it.
async fn linger(stream: &mut (impl AsyncRead + Unpin)) {
    let mut unread = vec![0; 16 << 10];
    let reading = async { while let Ok(1..) = stream.read(&mut unread).await {} };
    let _ = timeout(REFUSAL_LIMIT, reading).await;
}

/// Answers one request.
async fn answer(
    (shared, names, counted): (&Shared, &Names, &Counted),
    browser: &Browser,
    found: Router,
    request: Request<Incoming>,
) -> Response<Body> {
    let is_get = request.method() == Method::GET;
    let headers = request.headers().clone();
    let mut response = match admitted((shared, names, counted), browser, found, request).await {
        Ok(Admitted::Page(response)) => response,
        Ok(Admitted::Found(response)) if is_get => tag::tagged(&headers, response).await,
        Ok(Admitted::Found(response)) => response,
        Err(refusal) => refusal.into_response().map(Body::new),
    };
    let (name, value) = NOSNIFF;
    response.headers_mut().insert(name, value);
    response
}

/// What a request was answered with.
enum Admitted {
    /// A file of the console's page, which is the same for everybody.
    Page(Response<Body>),
    /// What its caller may be told.
    Found(Response<Body>),
}

async fn admitted(
    (shared, names, counted): (&Shared, &Names, &Counted),
    browser: &Browser,
    mut found: Router,
    mut request: Request<Incoming>,
) -> Result<Admitted, Refusal> {
    let headers = request.headers();
    let Some(called) = names.called(request.uri(), headers) else {
        let message = "the header Host does not name this door: call it by an address, by localhost, or by a name of its \
                       certificate (--tls-cert)";
        return Err(Refusal::new(StatusCode::MISDIRECTED_REQUEST, "unknown_host", message));
    };
    if host::is_from_elsewhere(&called, headers) {
        let message = "this comes from a page of another site, and those are not served";
        return Err(Refusal::new(StatusCode::FORBIDDEN, "cross_origin", message));
    }
    let (method, path) = (request.method(), request.uri().path());
    if let Some(page) = console::page(duramen_console::embedded(), method, path, headers) {
        return Ok(Admitted::Page(page));
    }
    let (caller, grant) = callers::caller(shared, counted, browser, &called, (method, headers)).await?;
    request.extensions_mut().insert::<Caller>(caller);
    request.extensions_mut().insert(browser.clone());
    let response = async {
        match found.call(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    };
    let Some(mut grant) = grant else { return Ok(Admitted::Found(response.await)) };
    let kept = grant.clone();
    tokio::select! {
        response = response => Ok(Admitted::Found(response.map(|body| until(kept, body)))),
        // H9.
        () = grant.ends() => Err(Refusal::unauthenticated()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// H8.
    #[tokio::test]
    async fn a_client_that_reads_nothing_of_its_reply_is_given_up() {
        let (own, mut client) = tokio::io::duplex(64);
        let mut stream = impatient(own, Duration::from_millis(50));
        stream.write_all(&[0; 64]).await.expect("it fits");
        let stalled = stream.write_all(&[0; 64]).await.expect_err("nobody reads");
        assert_eq!(stalled.kind(), std::io::ErrorKind::TimedOut);
        // One that reads, however slowly, is served.
        let (own, mut slow) = tokio::io::duplex(64);
        let mut stream = impatient(own, Duration::from_millis(500));
        let reading = async {
            let mut some = [0; 32];
            for _ in 0..32 {
                slow.read_exact(&mut some).await.expect("bytes");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let (written, ()) = tokio::join!(stream.write_all(&[0; 1024]), reading);
        written.expect("all of it");
        drop(stream);
        assert_eq!(client.read(&mut [0; 100]).await.unwrap(), 64);
    }
}
