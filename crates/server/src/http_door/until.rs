//! A reply that goes on for long ends with the token by which it was asked for (H9).

use crate::tokens::Grant;
use axum::body::{Body, Bytes};
use hyper::body::{Body as _, Frame, SizeHint};
use std::{
    future::Future,
    io,
    pin::Pin,
    task::{Context, Poll},
};

/// A body that breaks off when a token ends.
struct Until {
    body: Body,
    ends: Pin<Box<dyn Future<Output = ()> + Send>>,
}

/// The same body, until the token ends. One that is ready is sent as it is.
pub(super) fn until(mut grant: Grant, body: Body) -> Body {
    if body.size_hint().exact().is_some() {
        return body;
    }
    Body::new(Until { body, ends: Box::pin(async move { grant.ends().await }) })
}

impl hyper::body::Body for Until {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.ends.as_mut().poll(context).is_ready() {
            // Not its proper end: the client is to know that this is not all.
            let error = io::Error::other("the token has ended");
            return Poll::Ready(Some(Err(axum::Error::new(error))));
        }
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
