//! What replies are made of: a body that is ready, or lines that come as the work goes on; and refusals.

use bytes::Bytes;
use duramen_api::{
    model::ErrorBody,
    problem::{Problem, PROBLEM},
    EVENTS,
};
use duramen_branches::{EngineError, Kind};
use hyper::{
    body::{Body, Frame, SizeHint},
    header::{HeaderValue, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE},
    Response, StatusCode,
};
use serde::Serialize;
use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};
use tokio::sync::mpsc;

/// Plain text.
pub(crate) const PLAIN: &str = "text/plain; charset=utf-8";
/// When it may be worth asking again, in seconds: a pool makes branches all the time.
const RETRY_AFTER_S: &str = "1";

/// Is ready once another node is not there any more.
#[cfg(feature = "fleet")]
pub(crate) type Silence = Pin<Box<dyn Future<Output = ()> + Send>>;

#[cfg(feature = "fleet")]
struct Gone(Silence);

#[cfg(feature = "fleet")]
impl std::fmt::Debug for Gone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gone").finish_non_exhaustive()
    }
}

/// The body of a reply.
#[derive(Debug)]
pub struct Reply(Content);

#[derive(Debug)]
enum Content {
    Whole(Bytes),
    Lines {
        first: Option<Bytes>,
        rest: mpsc::Receiver<Bytes>,
    },
    /// Breaks off with an error, so that nobody takes it for whole.
    Octets {
        first: Option<Bytes>,
        rest: mpsc::Receiver<io::Result<Bytes>>,
    },
    /// What another node says, as it comes.
    #[cfg(feature = "fleet")]
    Passed(crate::fleet::Said, Gone),
}

impl Reply {
    /// The text of a reply that is ready.
    pub(crate) fn whole(&self) -> Option<&Bytes> {
        match &self.0 {
            Content::Whole(bytes) => Some(bytes),
            _ => None,
        }
    }
}

impl Body for Reply {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match &mut self.0 {
            Content::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Content::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Content::Lines { first, rest } => match first.take() {
                Some(line) => Poll::Ready(Some(Ok(Frame::data(line)))),
                None => rest.poll_recv(context).map(|line| line.map(|line| Ok(Frame::data(line)))),
            },
            Content::Octets { first, rest } => match first.take() {
                Some(part) => Poll::Ready(Some(Ok(Frame::data(part)))),
                None => rest.poll_recv(context).map(|part| part.map(|part| part.map(Frame::data))),
            },
            #[cfg(feature = "fleet")]
            Content::Passed(body, Gone(gone)) => match Pin::new(body).poll_frame(context) {
                // A node that is stopped says nothing, and closes nothing.
                Poll::Pending => gone.as_mut().poll(context).map(|()| {
                    Some(Err(io::Error::new(io::ErrorKind::TimedOut, "the node went away while it answered")))
                }),
                frame => frame.map(|frame| frame.map(|frame| frame.map_err(io::Error::other))),
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Content::Whole(bytes) => bytes.is_empty(),
            #[cfg(feature = "fleet")]
            Content::Passed(body, _) => body.is_end_stream(),
            _ => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Content::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            #[cfg(feature = "fleet")]
            Content::Passed(body, _) => body.size_hint(),
            Content::Lines { .. } | Content::Octets { .. } => SizeHint::default(),
        }
    }
}

fn response(status: StatusCode, content_type: &'static str, content: Content) -> Response<Reply> {
    let mut response = Response::new(Reply(content));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// A reply of JSON text that is ready.
#[must_use]
pub fn text(status: StatusCode, json: Bytes) -> Response<Reply> {
    response(status, "application/json", Content::Whole(json))
}

/// A reply of one value.
///
/// # Errors
/// A [`Refusal`] when the value has no JSON form.
pub fn json<T: Serialize + ?Sized>(value: &T) -> Result<Response<Reply>, Refusal> {
    let body = serde_json::to_vec(value).map_err(|error| {
        Refusal::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            format!("a reply has no JSON form: {error}"),
        )
    })?;
    Ok(text(StatusCode::OK, body.into()))
}

/// A reply without a body.
pub(crate) fn done() -> Response<Reply> {
    let mut response = Response::new(Reply(Content::Whole(Bytes::new())));
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

/// A reply of text.
pub(crate) fn plain(status: StatusCode, content_type: &'static str, text: String) -> Response<Reply> {
    response(status, content_type, Content::Whole(text.into()))
}

/// A reply of lines, the first of which is there already.
pub(crate) fn lines(first: Bytes, rest: mpsc::Receiver<Bytes>) -> Response<Reply> {
    response(StatusCode::OK, "application/x-ndjson", Content::Lines { first: Some(first), rest })
}

/// A reply of server-sent events, the first of which are there already.
pub(crate) fn events(first: Bytes, rest: mpsc::Receiver<Bytes>) -> Response<Reply> {
    let mut response = response(StatusCode::OK, EVENTS, Content::Lines { first: Some(first), rest });
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// A reply of bytes, the first of which are there already.
pub(crate) fn octets(first: Bytes, rest: mpsc::Receiver<io::Result<Bytes>>) -> Response<Reply> {
    let mut response =
        response(StatusCode::OK, "application/octet-stream", Content::Octets { first: Some(first), rest });
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// What another node replied, as it comes.
#[cfg(feature = "fleet")]
pub(crate) fn passed(
    head: hyper::http::response::Parts,
    body: crate::fleet::Said,
    gone: Silence,
) -> Response<Reply> {
    let mut response = Response::new(Reply(Content::Passed(body, Gone(gone))));
    *response.status_mut() = head.status;
    pass_on(head.headers, response.headers_mut());
    response
}

/// The same, once all of it is there.
#[cfg(feature = "fleet")]
pub(crate) fn passed_whole(head: hyper::http::response::Parts, body: Bytes) -> Response<Reply> {
    let mut response = Response::new(Reply(Content::Whole(body)));
    *response.status_mut() = head.status;
    pass_on(head.headers, response.headers_mut());
    response
}

/// The fields of a head but for those that are about its connection.
#[cfg(feature = "fleet")]
fn pass_on(from: hyper::HeaderMap, to: &mut hyper::HeaderMap) {
    use hyper::header::{CONNECTION, CONTENT_LENGTH, DATE, TRANSFER_ENCODING};
    to.extend(from);
    for name in [CONNECTION, CONTENT_LENGTH, DATE, TRANSFER_ENCODING] {
        to.remove(name);
    }
}

/// A request that is not done, and why.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// The status of the reply.
    pub status: StatusCode,
    /// The reason.
    pub body: ErrorBody,
}

impl Refusal {
    /// A refusal with a stable word for programs and a sentence for people.
    #[must_use]
    pub fn new(status: StatusCode, code: &str, message: impl Into<String>) -> Refusal {
        Refusal {
            status,
            body: ErrorBody {
                code: code.to_owned(),
                message: message.into(),
                sqlstate: None,
                position: None,
            },
        }
    }

    /// The refusal of who has not shown a token that is alive: it is the same whatever is wrong (H1).
    pub(crate) fn unauthenticated() -> Refusal {
        let message = "this needs the name and the secret of a token: `Authorization: Bearer NAME:SECRET`, or curl -u NAME:SECRET; \
                       `duramen token create` on the daemon's machine makes one";
        Refusal::new(StatusCode::UNAUTHORIZED, "not_authenticated", message)
    }

    /// The reply.
    #[must_use]
    pub fn into_response(self) -> Response<Reply> {
        let Refusal { status, body: error } = self;
        let problem = Problem {
            kind: "about:blank".to_owned(),
            title: status.canonical_reason().unwrap_or_default().to_owned(),
            status: status.as_u16(),
            detail: error.message.clone(),
            code: error.code.clone(),
            sqlstate: error.sqlstate.clone(),
            position: error.position,
            error,
        };
        let body = serde_json::to_vec(&problem).expect("strings under fixed names are always JSON");
        let mut response = response(status, PROBLEM, Content::Whole(body.into()));
        if status == StatusCode::UNAUTHORIZED {
            // Not Basic, which is understood too: a browser would keep the secret, and send it along for other sites.
            let challenge = HeaderValue::from_static("Bearer realm=\"duramen\"");
            response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
        if matches!(status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER_S));
        }
        response
    }
}

impl From<EngineError> for Refusal {
    fn from(error: EngineError) -> Refusal {
        let status = match error.kind {
            Kind::NotFound => StatusCode::NOT_FOUND,
            Kind::Conflict => StatusCode::CONFLICT,
            Kind::Invalid => StatusCode::BAD_REQUEST,
            Kind::Sql => StatusCode::UNPROCESSABLE_ENTITY,
            Kind::Quota => StatusCode::TOO_MANY_REQUESTS,
            Kind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Kind::Timeout => StatusCode::GATEWAY_TIMEOUT,
            // `Failed`, and kinds that are added later.
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Refusal { status, body: error.body() }
    }
}
