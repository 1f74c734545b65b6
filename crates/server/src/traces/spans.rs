//! What a request, a lease and a first client look like in a trace.

use super::leases::Leases;
use crate::{caller::Caller, daemon::ServeOptions};
use axum::{body::Body, extract::Request};
use duramen_api::{
    route::{Endpoint, Op},
    token::Token,
};
use duramen_base::{clock, entropy};
use duramen_branches::{steps, Door};
use duramen_traces::{
    attribute::{nanoseconds, number, text, FLAGS_LOCAL, FLAGS_REMOTE},
    KeyValue, Outbox, Sender, Span, SpanId, SpanKind, Status, StatusCode, Tally, Traceparent,
};
use hyper::{HeaderMap, Response};
use jiff::Timestamp;
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};
use tokio::task::JoinHandle;

/// The header of W3C Trace Context.
const TRACEPARENT: &str = "traceparent";
/// How long a daemon that ends waits for the collector at most (T-3).
const FLUSH_WITHIN: Duration = Duration::from_secs(5);

/// What a daemon traces with.
#[derive(Debug)]
pub(crate) struct Tracer {
    /// By the id of the token; none: of those who ask on the machine.
    outbox: Outbox<Option<String>>,
    leases: Mutex<Leases>,
}

/// The task that sends.
#[must_use = "without its end the last spans are lost"]
pub(crate) struct Sending(Option<(Arc<Tracer>, JoinHandle<()>)>);

/// Losses are logged by the outbox; the daemon's figures do not have them.
struct Untold;

impl Tally for Untold {
    fn sent(&self, _: usize) {}

    fn dropped(&self, _: usize) {}
}

/// A span whose end is not there yet.
struct Begun {
    own: Traceparent,
    parent: Option<SpanId>,
    is_remote: bool,
    /// By both clocks.
    at: (Timestamp, Instant),
}

impl Tracer {
    /// The tracer of a daemon that was told of a collector, and what sends for it.
    pub(crate) fn of(options: &ServeOptions) -> (Option<Arc<Tracer>>, Sending) {
        let Some(settings) = options.traces.clone() else { return (None, Sending(None)) };
        let tracer = Arc::new(Tracer { outbox: Outbox::new(settings), leases: Mutex::default() });
        let sends = Arc::clone(&tracer);
        let sending = tokio::spawn(async move {
            let sender = Sender { scope: "duramen.server", instance: entropy::token(16) };
            sends.outbox.send_all(sender, &Untold).await;
        });
        (Some(Arc::clone(&tracer)), Sending(Some((tracer, sending))))
    }

    /// Has a request answered, and traces it if it is somebody's (T-10).
    pub(crate) async fn request<F: Future<Output = Response<Body>>>(
        &self,
        endpoint: &Endpoint,
        request: Request,
        answer: impl FnOnce(Request) -> F,
    ) -> Response<Body> {
        let owner = match request.extensions().get::<Caller>() {
            Some(Caller::Holder(visitor)) => Some(visitor.token.id.clone()),
            Some(Caller::Owner | Caller::Member) => None,
            Some(Caller::Nobody | Caller::Stranger) | None => return answer(request).await,
        };
        if matches!(endpoint.op, Op::Health | Op::Ready | Op::Version | Op::Metrics | Op::Events) {
            return answer(request).await;
        }
        let begun = self.begin(given(request.headers()), clock::now());
        let Some(begun) = begun else { return answer(request).await };
        let (response, noted) = steps::watch(async {
            let response = answer(request).await;
            (response, steps::take())
        })
        .await;
        let status = response.status();
        let mut attributes = vec![
            text("http.request.method", endpoint.method.as_str()),
            text("http.route", endpoint.path),
            number("http.response.status_code", status.as_u16().into()),
        ];
        attributes.extend(owner.as_deref().map(|token| text("duramen.token", token)));
        attributes.extend(noted.leased.as_deref().map(|id| text("duramen.branch.id", id)));
        let mut ended = Status::default();
        if status.is_server_error() {
            attributes.push(text("error.type", status.as_str()));
            ended.code = StatusCode::Error.into();
        }
        if let Some(id) = noted.leased {
            // Before the reply: who reads it may be at the router at once.
            self.leases.lock().unwrap_or_else(PoisonError::into_inner).remember(id, begun.own);
        }
        let name = format!("{} {}", endpoint.method, endpoint.path);
        let span = Span { name, attributes, status: Some(ended), ..begun.span(SpanKind::Server) };
        self.put(&owner, span, begun, &noted.steps);
        response
    }

    /// Traces the first client of a branch, from its connection at `began` to the first byte of the server's that went to it, which is
    /// now: in the trace in which the branch was leased, or in one of its own if this client has leased it.
    pub(crate) fn first_byte(&self, door: &Door, token: &Token, began: Instant) {
        let steps::Noted { steps, leased } = steps::take();
        let given = self.leases.lock().unwrap_or_else(PoisonError::into_inner).take(&door.id);
        if given.is_none() && leased.as_ref() != Some(&door.id) {
            return;
        }
        let Some(mut begun) = self.begin(given, began) else { return };
        begun.is_remote = false;
        let attributes = vec![
            text("db.system.name", "postgresql"),
            text("duramen.branch.id", &door.id),
            text("duramen.source", &door.source),
            text("duramen.token", &token.id),
        ];
        let span = Span { name: "first byte".to_owned(), attributes, ..begun.span(SpanKind::Server) };
        self.put(&Some(token.id.clone()), span, begun, &steps);
    }

    /// A span that began then, unless its trace is not sent.
    fn begin(&self, given: Option<Traceparent>, began: Instant) -> Option<Begun> {
        let trace = given.map_or_else(nonzero, |given| given.trace);
        let sampler = self.outbox.settings().sampler();
        let is_sampled = sampler.samples(&trace, given.map(|given| given.sampled));
        is_sampled.then(|| Begun {
            own: Traceparent { trace, span: nonzero(), sampled: true },
            parent: given.map(|given| given.span),
            is_remote: given.is_some(),
            at: (earlier(clock::utc_now(), began.elapsed()), began),
        })
    }

    fn put(&self, owner: &Option<String>, span: Span, begun: Begun, steps: &[steps::Step]) {
        let children = steps.iter().map(|step| begun.child(step));
        let spans: Vec<Span> = children.chain([span]).collect();
        let dropped = self.outbox.put(owner, spans);
        if dropped > 0 {
            tracing::debug!(spans = dropped, "spans found no room");
        }
    }
}

impl Begun {
    /// Ended now, without a name.
    fn span(&self, kind: SpanKind) -> Span {
        Span {
            trace_id: self.own.trace.to_vec(),
            span_id: self.own.span.to_vec(),
            parent_span_id: self.parent.map(|parent| parent.to_vec()).unwrap_or_default(),
            flags: if self.is_remote { FLAGS_REMOTE } else { FLAGS_LOCAL },
            kind: kind.into(),
            start_time_unix_nano: nanoseconds(self.at.0),
            end_time_unix_nano: self.wall(clock::now()),
            ..Span::default()
        }
    }

    fn child(&self, step: &steps::Step) -> Span {
        Span {
            trace_id: self.own.trace.to_vec(),
            span_id: nonzero::<8>().to_vec(),
            parent_span_id: self.own.span.to_vec(),
            flags: FLAGS_LOCAL,
            name: step.what.to_owned(),
            kind: SpanKind::Internal.into(),
            start_time_unix_nano: self.wall(step.began),
            end_time_unix_nano: self.wall(step.ended),
            attributes: Vec::<KeyValue>::new(),
            ..Span::default()
        }
    }

    /// A moment since this began, by the wall clock as it was then: so what is within a span stays within.
    fn wall(&self, at: Instant) -> u64 {
        let since = u64::try_from(at.saturating_duration_since(self.at.1).as_nanos()).unwrap_or(u64::MAX);
        nanoseconds(self.at.0).saturating_add(since)
    }
}

impl Sending {
    /// Sends what is there, for a few seconds at most.
    pub(crate) async fn flush(self) {
        if let Some((tracer, sending)) = self.0 {
            tracer.outbox.flush(sending, FLUSH_WITHIN).await;
        }
    }
}

/// The context that a request came with (T-5).
fn given(headers: &HeaderMap) -> Option<Traceparent> {
    let mut all = headers.get_all(TRACEPARENT).iter();
    let first = all.next()?;
    // Of several nobody knows which one is meant: so the standard wants it.
    if all.next().is_some() {
        return None;
    }
    Traceparent::parse(first.to_str().ok()?)
}

fn earlier(now: Timestamp, by: Duration) -> Timestamp {
    now.checked_sub(by).unwrap_or(now)
}

/// A random id: one that has at least one bit.
fn nonzero<const N: usize>() -> [u8; N] {
    let mut id: [u8; N] = entropy::random_bytes();
    if id == [0; N] {
        id[N - 1] = 1;
    }
    id
}
