//! What replies are made of: a body that is ready, or lines that come as the work goes on; and refusals.

use bytes::Bytes;
use duramen_branches::{model::ErrorBody, EngineError, Kind};
use hyper::{
    body::{Body, Frame, SizeHint},
    header::{HeaderValue, CONTENT_TYPE},
    Response, StatusCode,
};
use serde::{Deserialize, Serialize};
use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};
use tokio::sync::mpsc;

/// The body of a reply.
#[derive(Debug)]
pub struct Reply(Content);

#[derive(Debug)]
enum Content {
    Whole(Bytes),
    Lines { first: Option<Bytes>, rest: mpsc::Receiver<Bytes> },
}

/// The JSON of a refusal.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ErrorReply {
    /// What was refused, and why.
    pub error: ErrorBody,
}

impl Body for Reply {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut self.0 {
            Content::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Content::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Content::Lines { first, rest } => match first.take() {
                Some(line) => Poll::Ready(Some(Ok(Frame::data(line)))),
                None => rest.poll_recv(context).map(|line| line.map(|line| Ok(Frame::data(line)))),
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.0, Content::Whole(bytes) if bytes.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Content::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Content::Lines { .. } => SizeHint::default(),
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

/// A reply of lines, the first of which is there already.
pub(crate) fn lines(first: Bytes, rest: mpsc::Receiver<Bytes>) -> Response<Reply> {
    response(StatusCode::OK, "application/x-ndjson", Content::Lines { first: Some(first), rest })
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
        Refusal { status, body: ErrorBody { code: code.to_owned(), message: message.into(), sqlstate: None } }
    }

    /// The reply.
    #[must_use]
    pub fn into_response(self) -> Response<Reply> {
        let body = serde_json::to_vec(&ErrorReply { error: self.body })
            .expect("strings under fixed names are always JSON");
        text(self.status, body.into())
    }
}

impl From<EngineError> for Refusal {
    fn from(error: EngineError) -> Refusal {
        let status = match error.kind {
            Kind::NotFound => StatusCode::NOT_FOUND,
            Kind::Conflict => StatusCode::CONFLICT,
            Kind::Invalid => StatusCode::BAD_REQUEST,
            Kind::Sql => StatusCode::UNPROCESSABLE_ENTITY,
            Kind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Kind::Timeout => StatusCode::GATEWAY_TIMEOUT,
            // `Failed`, and kinds that are added later.
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Refusal { status, body: error.body() }
    }
}
