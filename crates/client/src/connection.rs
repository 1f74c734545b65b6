//! One connection. It is driven by the task that waits for the answer, not by a task of its own: that saves two
//! hand-overs a request, and dropping an unfinished request closes the connection, which ends the work.

use crate::{socket, wire::Wire, Client, ClientError, Encoded, Place};
use bytes::{Bytes, BytesMut};
use duramen_api::model::{ErrorBody, PairLine, Progress, SourceView};
use duramen_api::{data_diff::DataDiff, problem::Problem, route::Route};
use http_body_util::{BodyExt, Full};
use hyper::{
    body::Incoming,
    client::conn::http1,
    header::{HeaderValue, AUTHORIZATION, CONTENT_TYPE, HOST},
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
use tokio::{sync::mpsc, time::timeout};

/// The longest line of a stream.
const LINE_MAX: usize = 4 << 20;

type Driver = http1::Connection<TokioIo<Wire>, Full<Bytes>>;

/// A connection to the daemon. Requests follow one another; use several connections for concurrent ones.
#[derive(Debug)]
pub struct Connection {
    client: Client,
    /// `None` after a failure: the next request opens a new one.
    link: Option<Link>,
    /// The nodes of which the last reply says nothing.
    missing: Option<String>,
}

#[derive(Debug)]
struct Link {
    sender: http1::SendRequest<Full<Bytes>>,
    driver: Pin<Box<Driver>>,
}

impl Connection {
    pub(crate) async fn open(client: Client) -> Result<Connection, ClientError> {
        let link = Some(Link::open(&client).await?);
        Ok(Connection { client, link, missing: None })
    }

    /// How long each further request may take.
    pub fn set_deadline(&mut self, deadline: Duration) {
        self.client.deadline = deadline;
    }

    /// The nodes of a fleet, as text, of which the last reply says nothing because they did not answer; nothing, if it is whole.
    #[must_use]
    pub fn missing(&self) -> Option<&str> {
        self.missing.as_deref()
    }

    /// A request and its reply.
    pub(crate) async fn exchange<T: DeserializeOwned>(
        &mut self,
        route: Route<'_>,
        body: Bytes,
    ) -> Result<T, ClientError> {
        let reply = self.send(route, body).await?;
        parse(route, &reply)
    }

    /// The same with a body that is not written yet.
    pub(crate) async fn post<B: Serialize, T: DeserializeOwned>(
        &mut self,
        route: Route<'_>,
        body: &B,
    ) -> Result<T, ClientError> {
        let body = Encoded::new(body)?.into_bytes();
        self.exchange(route, body).await
    }

    /// Sends a request whose body is JSON text already (or empty) and returns the body of the reply.
    ///
    /// # Errors
    /// [`ClientError::Refused`] when the daemon refuses, else what kept the reply from coming.
    pub async fn send(&mut self, route: Route<'_>, body: Bytes) -> Result<Bytes, ClientError> {
        let deadline = self.client.deadline;
        match timeout(deadline, self.send_unlimited(route, body)).await {
            Ok(result) => result,
            Err(_) => Err(timed_out(route, deadline)),
        }
    }

    async fn send_unlimited(&mut self, route: Route<'_>, body: Bytes) -> Result<Bytes, ClientError> {
        let (response, mut link) = self.begin(route, body).await?;
        let status = response.status();
        let missing = response.headers().get(duramen_api::fleet::MISSING);
        self.missing = missing.and_then(|missing| missing.to_str().ok()).map(str::to_owned);
        let collected = link.drive(response.into_body().collect()).await;
        let bytes = match collected {
            Some(Ok(body)) => body.to_bytes(),
            Some(Err(error)) => return Err(broken(route, &error.to_string())),
            None => return Err(broken(route, "it was closed in the middle of the reply")),
        };
        self.link = Some(link);
        if status.is_success() {
            return Ok(bytes);
        }
        Err(refused(status.as_u16(), &bytes))
    }

    /// Sends a request whose reply is a stream of progress lines, reports each step, and returns the source at its
    /// end.
    pub(crate) async fn stream(
        &mut self,
        route: Route<'_>,
        body: Bytes,
        mut on_progress: impl FnMut(&str, Option<f64>),
    ) -> Result<SourceView, ClientError> {
        self.lines(route, body, |line| match line {
            Progress::Step { doing, fraction } => {
                on_progress(&doing, fraction);
                None
            }
            Progress::Done(source) => Some(Ok(*source)),
            Progress::Failed(body) => Some(Err(ClientError::Refused { status: 500, body })),
        })
        .await
    }

    /// The same with the lines of a comparison, up to its summary.
    pub(crate) async fn differences(
        &mut self,
        route: Route<'_>,
        mut on_line: impl FnMut(DataDiff),
    ) -> Result<(), ClientError> {
        self.lines(route, Bytes::new(), |line| match line {
            DataDiff::Failed(body) => Some(Err(ClientError::Refused { status: 500, body })),
            line => {
                let is_last = matches!(line, DataDiff::Summary(_));
                on_line(line);
                is_last.then_some(Ok(()))
            }
        })
        .await
    }

    /// The same with the lines about a pair, until `on_line` has heard enough.
    pub(crate) async fn pair_lines(
        &mut self,
        route: Route<'_>,
        body: Bytes,
        mut on_line: impl FnMut(PairLine) -> bool,
    ) -> Result<(), ClientError> {
        self.lines(route, body, |line| match line {
            PairLine::Failed(body) => Some(Err(ClientError::Refused { status: 500, body })),
            line => (!on_line(line)).then_some(Ok(())),
        })
        .await
    }

    /// Sends a request whose reply is a stream of lines, until `take` has a result. The deadline holds for each line, not for
    /// the whole.
    async fn lines<L: DeserializeOwned, T>(
        &mut self,
        route: Route<'_>,
        body: Bytes,
        mut take: impl FnMut(L) -> Option<Result<T, ClientError>>,
    ) -> Result<T, ClientError> {
        let deadline = self.client.deadline;
        let begun = timeout(deadline, self.begin(route, body)).await;
        let (response, mut link) = begun.map_err(|_| timed_out(route, deadline))??;
        let status = response.status();
        let mut body = response.into_body();
        let mut unread = BytesMut::new();
        loop {
            let frame = timeout(deadline, link.drive(body.frame())).await;
            let frame = match frame.map_err(|_| timed_out(route, deadline))? {
                Some(Some(Ok(frame))) => frame,
                Some(Some(Err(error))) => return Err(broken(route, &error.to_string())),
                Some(None) | None if !status.is_success() => return Err(refused(status.as_u16(), &unread)),
                Some(None) | None => return Err(broken(route, "the stream ended without a result")),
            };
            let Some(data) = frame.data_ref() else { continue };
            unread.extend_from_slice(data);
            while let Some(end) =
                unread.iter().position(|&byte| byte == b'\n').filter(|_| status.is_success())
            {
                let line = unread.split_to(end + 1);
                if let Some(result) = take(parse(route, &line)?) {
                    return result;
                }
            }
            if unread.len() > LINE_MAX {
                let reason = format!("a line is longer than {LINE_MAX} bytes");
                return Err(ClientError::BadReply { request: route.to_string(), reason });
            }
        }
    }

    /// Sends a request whose reply is bytes, and passes them on as they come, until all are there or nobody takes them any more.
    /// The deadline holds for each part.
    pub(crate) async fn octets(
        &mut self,
        route: Route<'_>,
        parts: &mpsc::Sender<Bytes>,
    ) -> Result<(), ClientError> {
        let deadline = self.client.deadline;
        let begun = timeout(deadline, self.begin(route, Bytes::new())).await;
        let (response, mut link) = begun.map_err(|_| timed_out(route, deadline))??;
        let status = response.status();
        let mut body = response.into_body();
        let mut refusal = BytesMut::new();
        loop {
            let frame = timeout(deadline, link.drive(body.frame())).await;
            let frame = match frame.map_err(|_| timed_out(route, deadline))? {
                Some(Some(Ok(frame))) => frame,
                Some(None) if status.is_success() => {
                    self.link = Some(link);
                    return Ok(());
                }
                Some(Some(Err(_))) | None if status.is_success() => {
                    let reason = "it broke off, and what came of it is not whole; the daemon's log says why";
                    return Err(broken(route, reason));
                }
                _ => return Err(refused(status.as_u16(), &refusal)),
            };
            let Ok(data) = frame.into_data() else { continue };
            if !status.is_success() {
                if refusal.len() + data.len() <= LINE_MAX {
                    refusal.extend_from_slice(&data);
                }
            } else if parts.send(data).await.is_err() {
                return Err(broken(route, "what came cannot be written"));
            }
        }
    }

    /// Sends the request and waits for the head of its reply. The link is taken: whoever gets to the end of the
    /// reply puts it back; if nobody does, it is closed.
    async fn begin(
        &mut self,
        route: Route<'_>,
        body: Bytes,
    ) -> Result<(Response<Incoming>, Link), ClientError> {
        let request = request(&self.client.place, route, body)?;
        let mut link = match self.link.take() {
            Some(link) => link,
            None => Link::open(&self.client).await?,
        };
        // The daemon may have closed a connection that was idle for long. Nothing was sent yet, so a new one will do.
        if !link.ready().await {
            link = Link::open(&self.client).await?;
            if !link.ready().await {
                return Err(broken(route, "a new connection was closed at once"));
            }
        }
        let sent = link.sender.send_request(request);
        match link.drive(sent).await {
            Some(Ok(response)) => Ok((response, link)),
            Some(Err(error)) => Err(broken(route, &error.to_string())),
            None => Err(broken(route, "it was closed before the reply")),
        }
    }
}

impl Link {
    async fn open(client: &Client) -> Result<Link, ClientError> {
        let stream = connect(client).await?;
        let opened = http1::Builder::new().max_buf_size(1 << 20).handshake(TokioIo::new(stream)).await;
        let (sender, driver) = opened.map_err(|error| ClientError::Connect {
            socket: client.place.to_string(),
            source: io::Error::other(error),
        })?;
        Ok(Link { sender, driver: Box::pin(driver) })
    }

    /// Waits for `work` while moving bytes. `None`: the connection ended first.
    async fn drive<F: Future>(&mut self, work: F) -> Option<F::Output> {
        let driver = &mut self.driver;
        let mut work = pin!(work);
        poll_fn(|context| {
            if let Poll::Ready(output) = work.as_mut().poll(context) {
                return Poll::Ready(Some(output));
            }
            let ended = driver.as_mut().poll(context).is_ready();
            // What the driver has just read may be what the work waits for.
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
        let Link { sender, driver } = self;
        poll_fn(|context| {
            // The driver first: it notices that the other side has closed.
            if driver.as_mut().poll(context).is_ready() {
                return Poll::Ready(false);
            }
            sender.poll_ready(context).map(|ready| ready.is_ok())
        })
        .await
    }
}

async fn connect(client: &Client) -> Result<Wire, ClientError> {
    let socket = match &client.place {
        Place::Home { socket, .. } => socket,
        Place::Url(remote) => {
            let failed = |source| ClientError::Connect { socket: remote.to_string(), source };
            return match timeout(client.deadline, remote.connect()).await {
                Ok(connected) => connected.map_err(failed),
                Err(_) => Err(failed(io::ErrorKind::TimedOut.into())),
            };
        }
    };
    socket::connect(client, socket).await
}

impl std::fmt::Display for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.place.fmt(f)
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Place::Home { home, .. } => write!(f, "{}", home.display()),
            Place::Url(remote) => write!(f, "{remote}"),
        }
    }
}

fn request(place: &Place, route: Route<'_>, body: Bytes) -> Result<Request<Full<Bytes>>, ClientError> {
    let uri = Uri::try_from(route.path())
        .map_err(|error| ClientError::BadRequest { request: route.to_string(), reason: error.to_string() })?;
    let has_body = !body.is_empty();
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = route.method();
    *request.uri_mut() = uri;
    let headers = request.headers_mut();
    match place {
        // HTTP/1.1 demands a host; this one stands for "the other end of the socket".
        Place::Home { .. } => drop(headers.insert(HOST, HeaderValue::from_static("duramen"))),
        Place::Url(remote) => {
            headers.insert(HOST, remote.host());
            headers.insert(AUTHORIZATION, remote.authorization());
        }
    }
    if has_body {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    Ok(request)
}

fn timed_out(route: Route<'_>, deadline: Duration) -> ClientError {
    ClientError::Timeout { request: route.to_string(), seconds: deadline.as_secs_f64() }
}

/// What is told of a request whose connection broke.
#[must_use]
pub fn broken(route: Route<'_>, reason: &str) -> ClientError {
    ClientError::Broken { request: route.to_string(), reason: reason.to_owned() }
}

/// What is told of a request that was refused, by the body of the reply.
#[must_use]
pub fn refused(status: u16, body: &[u8]) -> ClientError {
    let body = serde_json::from_slice(body).map_or_else(
        |_| ErrorBody {
            code: "unknown".to_owned(),
            message: format!("status {status}: {}", String::from_utf8_lossy(body).trim()),
            sqlstate: None,
            position: None,
        },
        |problem: Problem| problem.error,
    );
    ClientError::Refused { status, body }
}

/// The value that the body of a reply stands for.
///
/// # Errors
/// [`ClientError::BadReply`].
pub fn parse<T: DeserializeOwned>(route: Route<'_>, body: &[u8]) -> Result<T, ClientError> {
    serde_json::from_slice(body)
        .map_err(|error| ClientError::BadReply { request: route.to_string(), reason: error.to_string() })
}
