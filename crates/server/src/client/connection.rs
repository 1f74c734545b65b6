//! One connection. It is driven by the task that waits for the answer, not by a task of its own: that saves two
//! hand-overs a request, and dropping an unfinished request closes the connection, which ends the work.

use super::{Client, ClientError, Method};
use crate::reply::ErrorReply;
use bytes::{Bytes, BytesMut};
use duramen_branches::model::{ErrorBody, Progress, SourceView};
use duramen_measure::clock;
use http_body_util::{BodyExt, Full};
use hyper::{
    body::Incoming,
    client::conn::http1,
    header::{HeaderValue, CONTENT_TYPE, HOST},
    Request, Response, Uri,
};
use hyper_util::rt::TokioIo;
use serde::{de::DeserializeOwned, Serialize};
use std::{
    future::{poll_fn, Future},
    io,
    pin::{pin, Pin},
    task::Poll,
    time::Duration,
};
use tokio::{net::UnixStream, time::sleep, time::timeout};

/// The pause before another attempt when the daemon's queue of new connections is full.
const QUEUE_PAUSE: Duration = Duration::from_millis(2);
/// The longest line of a stream.
const LINE_MAX: usize = 4 << 20;

type Wire = http1::Connection<TokioIo<UnixStream>, Full<Bytes>>;

/// A connection to the daemon. Requests follow one another; use several connections for concurrent ones.
#[derive(Debug)]
pub struct Connection {
    client: Client,
    /// `None` after a failure: the next request opens a new one.
    link: Option<Link>,
}

#[derive(Debug)]
struct Link {
    sender: http1::SendRequest<Full<Bytes>>,
    wire: Pin<Box<Wire>>,
}

impl Connection {
    pub(super) async fn open(client: Client) -> Result<Connection, ClientError> {
        let link = Some(Link::open(&client).await?);
        Ok(Connection { client, link })
    }

    /// How long each further request may take.
    pub fn set_deadline(&mut self, deadline: Duration) {
        self.client.deadline = deadline;
    }

    /// `GET`.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn get<T: DeserializeOwned>(&mut self, path: &str) -> Result<T, ClientError> {
        let reply = self.send(Method::GET, path, Bytes::new()).await?;
        parse(&Method::GET, path, &reply)
    }

    /// `POST` of a JSON body.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn post<B, T>(&mut self, path: &str, body: &B) -> Result<T, ClientError>
    where
        B: Serialize + ?Sized,
        T: DeserializeOwned,
    {
        self.exchange(Method::POST, path, body).await
    }

    /// `POST` without a body: what the path says is all there is to say.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn act<T: DeserializeOwned>(&mut self, path: &str) -> Result<T, ClientError> {
        let reply = self.send(Method::POST, path, Bytes::new()).await?;
        parse(&Method::POST, path, &reply)
    }

    /// `PATCH` with a JSON body.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn patch<B, T>(&mut self, path: &str, body: &B) -> Result<T, ClientError>
    where
        B: Serialize + ?Sized,
        T: DeserializeOwned,
    {
        self.exchange(Method::PATCH, path, body).await
    }

    /// `DELETE`.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn delete<T: DeserializeOwned>(&mut self, path: &str) -> Result<T, ClientError> {
        let reply = self.send(Method::DELETE, path, Bytes::new()).await?;
        parse(&Method::DELETE, path, &reply)
    }

    async fn exchange<B, T>(&mut self, method: Method, path: &str, body: &B) -> Result<T, ClientError>
    where
        B: Serialize + ?Sized,
        T: DeserializeOwned,
    {
        let reply = self.send(method.clone(), path, encode(&method, path, body)?).await?;
        parse(&method, path, &reply)
    }

    /// Sends a request whose body is JSON text already (or empty) and returns the body of the reply. Dropping the
    /// returned future closes the connection, and so ends what the request was doing.
    ///
    /// # Errors
    /// [`ClientError::Refused`] for every status that is no success; else what kept the reply from coming.
    pub async fn send(&mut self, method: Method, path: &str, body: Bytes) -> Result<Bytes, ClientError> {
        let deadline = self.client.deadline;
        match timeout(deadline, self.send_unlimited(&method, path, body)).await {
            Ok(result) => result,
            Err(_) => Err(timed_out(&method, path, deadline)),
        }
    }

    async fn send_unlimited(
        &mut self,
        method: &Method,
        path: &str,
        body: Bytes,
    ) -> Result<Bytes, ClientError> {
        let (response, mut link) = self.begin(method, path, body).await?;
        let status = response.status();
        let collected = link.drive(response.into_body().collect()).await;
        let bytes = match collected {
            Some(Ok(body)) => body.to_bytes(),
            Some(Err(error)) => return Err(broken(method, path, &error.to_string())),
            None => return Err(broken(method, path, "it was closed in the middle of the reply")),
        };
        self.link = Some(link);
        if status.is_success() {
            return Ok(bytes);
        }
        Err(refused(status.as_u16(), &bytes))
    }

    /// Sends a request whose reply is a stream of progress lines, tells of each step, and returns the source at its
    /// end. The deadline holds for each line, not for the whole.
    ///
    /// # Errors
    /// [`ClientError::Refused`] when the operation failed, at its begin or later.
    pub async fn stream(
        &mut self,
        method: Method,
        path: &str,
        body: Bytes,
        mut on_progress: impl FnMut(&str, Option<f64>),
    ) -> Result<SourceView, ClientError> {
        let deadline = self.client.deadline;
        let begun = timeout(deadline, self.begin(&method, path, body)).await;
        let (response, mut link) = begun.map_err(|_| timed_out(&method, path, deadline))??;
        let status = response.status();
        let mut body = response.into_body();
        let mut unread = BytesMut::new();
        loop {
            let frame = timeout(deadline, link.drive(body.frame())).await;
            let frame = match frame.map_err(|_| timed_out(&method, path, deadline))? {
                Some(Some(Ok(frame))) => frame,
                Some(Some(Err(error))) => return Err(broken(&method, path, &error.to_string())),
                Some(None) | None if !status.is_success() => return Err(refused(status.as_u16(), &unread)),
                Some(None) | None => return Err(broken(&method, path, "the stream ended without a result")),
            };
            let Some(data) = frame.data_ref() else { continue };
            unread.extend_from_slice(data);
            while let Some(end) =
                unread.iter().position(|&byte| byte == b'\n').filter(|_| status.is_success())
            {
                let line = unread.split_to(end + 1);
                match parse(&method, path, &line)? {
                    Progress::Step { doing, fraction } => on_progress(&doing, fraction),
                    Progress::Done(source) => return Ok(*source),
                    Progress::Failed(body) => return Err(ClientError::Refused { status: 500, body }),
                }
            }
            if unread.len() > LINE_MAX {
                let reason = format!("a line is longer than {LINE_MAX} bytes");
                return Err(ClientError::BadReply { request: shown(&method, path), reason });
            }
        }
    }

    /// Sends the request and waits for the head of its reply. The link is taken: whoever gets to the end of the
    /// reply puts it back; if nobody does, it is closed.
    async fn begin(
        &mut self,
        method: &Method,
        path: &str,
        body: Bytes,
    ) -> Result<(Response<Incoming>, Link), ClientError> {
        let request = request(method, path, body)?;
        let mut link = match self.link.take() {
            Some(link) => link,
            None => Link::open(&self.client).await?,
        };
        // The daemon may have closed a connection that was idle for long. Nothing was sent yet, so a new one will do.
        if !link.ready().await {
            link = Link::open(&self.client).await?;
            if !link.ready().await {
                return Err(broken(method, path, "a new connection was closed at once"));
            }
        }
        let sent = link.sender.send_request(request);
        match link.drive(sent).await {
            Some(Ok(response)) => Ok((response, link)),
            Some(Err(error)) => Err(broken(method, path, &error.to_string())),
            None => Err(broken(method, path, "it was closed before the reply")),
        }
    }
}

impl Link {
    async fn open(client: &Client) -> Result<Link, ClientError> {
        let stream = connect(client).await?;
        let opened = http1::Builder::new().max_buf_size(1 << 20).handshake(TokioIo::new(stream)).await;
        let (sender, wire) = opened.map_err(|error| ClientError::Connect {
            socket: client.socket.display().to_string(),
            source: io::Error::other(error),
        })?;
        Ok(Link { sender, wire: Box::pin(wire) })
    }

    /// Waits for `work` while moving bytes. `None`: the connection ended first.
    async fn drive<F: Future>(&mut self, work: F) -> Option<F::Output> {
        let wire = &mut self.wire;
        let mut work = pin!(work);
        poll_fn(|context| {
            if let Poll::Ready(output) = work.as_mut().poll(context) {
                return Poll::Ready(Some(output));
            }
            let ended = wire.as_mut().poll(context).is_ready();
            // What the wire has just read may be what the work waits for.
            match work.as_mut().poll(context) {
                Poll::Ready(output) => Poll::Ready(Some(output)),
                Poll::Pending if ended => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            }
        })
        .await
    }

    /// Whether the next request can be sent.
    async fn ready(&mut self) -> bool {
        let Link { sender, wire } = self;
        poll_fn(|context| {
            // The wire first: it notices that the other side has closed.
            if wire.as_mut().poll(context).is_ready() {
                return Poll::Ready(false);
            }
            sender.poll_ready(context).map(|ready| ready.is_ok())
        })
        .await
    }
}

async fn connect(client: &Client) -> Result<UnixStream, ClientError> {
    let begin = clock::now();
    loop {
        let source = match UnixStream::connect(&client.socket).await {
            Ok(stream) => return Ok(stream),
            Err(error) => error,
        };
        match source.kind() {
            // A unix socket whose queue is full refuses at once instead of waiting.
            io::ErrorKind::WouldBlock if begin.elapsed() < client.deadline => sleep(QUEUE_PAUSE).await,
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                return Err(ClientError::NotRunning { home: client.home.display().to_string() });
            }
            _ => return Err(ClientError::Connect { socket: client.socket.display().to_string(), source }),
        }
    }
}

fn request(method: &Method, path: &str, body: Bytes) -> Result<Request<Full<Bytes>>, ClientError> {
    let uri: Uri = path.parse().map_err(|error: hyper::http::uri::InvalidUri| ClientError::BadRequest {
        request: shown(method, path),
        reason: error.to_string(),
    })?;
    let has_body = !body.is_empty();
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = method.clone();
    *request.uri_mut() = uri;
    // HTTP/1.1 demands a host; this one stands for "the other end of the socket".
    request.headers_mut().insert(HOST, HeaderValue::from_static("duramen"));
    if has_body {
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    Ok(request)
}

fn shown(method: &Method, path: &str) -> String {
    format!("{method} {path}")
}

fn timed_out(method: &Method, path: &str, deadline: Duration) -> ClientError {
    ClientError::Timeout { request: shown(method, path), seconds: deadline.as_secs_f64() }
}

fn broken(method: &Method, path: &str, reason: &str) -> ClientError {
    ClientError::Broken { request: shown(method, path), reason: reason.to_owned() }
}

fn refused(status: u16, body: &[u8]) -> ClientError {
    let body = serde_json::from_slice(body).map_or_else(
        |_| ErrorBody {
            code: "unknown".to_owned(),
            message: format!("status {status}: {}", String::from_utf8_lossy(body).trim()),
            sqlstate: None,
        },
        |reply: ErrorReply| reply.error,
    );
    ClientError::Refused { status, body }
}

fn encode<B: Serialize + ?Sized>(method: &Method, path: &str, body: &B) -> Result<Bytes, ClientError> {
    let encoded = serde_json::to_vec(body).map_err(|error| ClientError::BadRequest {
        request: shown(method, path),
        reason: error.to_string(),
    })?;
    Ok(encoded.into())
}

fn parse<T: DeserializeOwned>(method: &Method, path: &str, body: &[u8]) -> Result<T, ClientError> {
    serde_json::from_slice(body)
        .map_err(|error| ClientError::BadReply { request: shown(method, path), reason: error.to_string() })
}
