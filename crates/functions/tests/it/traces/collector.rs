//! A collector of traces: it reads what exporters send, with the definitions of the OpenTelemetry project.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use duramen_base::clock;
use duramen_traces::prost::Message as _;
use duramen_traces::proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use duramen_traces::proto::tonic::common::v1::any_value::Value;
use duramen_traces::{KeyValue, Span, TraceSettings};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::time::sleep;

/// How long spans that were sent may take to be here.
const SOON: Duration = Duration::from_secs(30);

/// What a collector does with the next batch.
#[derive(Clone, Copy)]
pub(crate) enum Mood {
    Takes,
    /// Answers with this status.
    Says(u16),
    /// Takes it, but for so many spans.
    Rejects(i64),
    /// Reads it, and answers when the test is long over.
    Stalls,
}

#[derive(Default)]
struct Seen {
    spans: Vec<Span>,
    bodies: Vec<Bytes>,
    headers: Vec<HeaderMap>,
    resource: Vec<KeyValue>,
    /// The headers of calls that are no batches.
    calls: Vec<HeaderMap>,
    moods: Vec<Mood>,
}

/// Runs as long as the test's runtime.
pub(crate) struct Collector {
    pub(crate) port: u16,
    seen: Arc<Mutex<Seen>>,
}

impl Collector {
    /// One that meets its first batches with these moods, and takes the others.
    pub(crate) async fn start(moods: &[Mood]) -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let moods = moods.iter().rev().copied().collect();
        let seen = Arc::new(Mutex::new(Seen { moods, ..Seen::default() }));
        let shared = Arc::clone(&seen);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let seen = Arc::clone(&shared);
                let service = service_fn(move |request| answer(request, Arc::clone(&seen)));
                let serving = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service);
                tokio::spawn(async move { drop(serving.await) });
            }
        });
        Collector { port, seen }
    }

    /// How a worker is told of it.
    pub(crate) fn settings(&self, more: &[(&str, &str)]) -> TraceSettings {
        let endpoint = format!("http://127.0.0.1:{}/", self.port);
        let read = TraceSettings::from_variables(|wanted| match wanted {
            "OTEL_EXPORTER_OTLP_ENDPOINT" => Some(endpoint.clone()),
            _ => more.iter().find(|(name, _)| *name == wanted).map(|(_, value)| (*value).to_owned()),
        });
        read.unwrap().unwrap()
    }

    pub(crate) fn spans(&self) -> Vec<Span> {
        self.seen.lock().unwrap().spans.clone()
    }

    /// The spans, when there are so many.
    pub(crate) async fn spans_of(&self, many: usize) -> Vec<Span> {
        let began = clock::now();
        loop {
            let spans = self.spans();
            if spans.len() >= many {
                return spans;
            }
            assert!(began.elapsed() < SOON, "{} of {many} spans: {spans:#?}", spans.len());
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Whether a text was sent at all.
    pub(crate) fn has_seen(&self, text: &str) -> bool {
        let seen = self.seen.lock().unwrap();
        seen.bodies.iter().any(|body| body.windows(text.len()).any(|part| part == text.as_bytes()))
    }

    /// How many batches have come.
    pub(crate) fn batches(&self) -> usize {
        self.seen.lock().unwrap().bodies.len()
    }

    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let seen = self.seen.lock().unwrap();
        Some(seen.headers.first()?.get(name)?.to_str().unwrap().to_owned())
    }

    pub(crate) fn resource(&self, key: &str) -> Option<String> {
        string(&self.seen.lock().unwrap().resource, key)
    }

    /// The headers of what was called beside it.
    pub(crate) fn calls(&self) -> Vec<HeaderMap> {
        self.seen.lock().unwrap().calls.clone()
    }
}

async fn answer(
    request: Request<Incoming>,
    seen: Arc<Mutex<Seen>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    if head.uri.path() != "/v1/traces" {
        seen.lock().unwrap().calls.push(head.headers);
        return Ok(Response::new(Full::new(Bytes::from_static(b"called"))));
    }
    let batch = ExportTraceServiceRequest::decode(body.clone()).expect("OTLP");
    let mood = {
        let mut seen = seen.lock().unwrap();
        seen.bodies.push(body);
        seen.headers.push(head.headers);
        seen.moods.pop().unwrap_or(Mood::Takes)
    };
    let mut said = ExportTraceServiceResponse::default();
    match mood {
        Mood::Says(status) => {
            return Ok(Response::builder().status(status).body(Full::default()).unwrap());
        }
        Mood::Stalls => {
            sleep(SOON * 10).await;
        }
        Mood::Rejects(rejected_spans) => {
            said.partial_success =
                Some(ExportTracePartialSuccess { rejected_spans, error_message: "no".to_owned() });
        }
        Mood::Takes => {}
    }
    let mut seen = seen.lock().unwrap();
    for resource in batch.resource_spans {
        seen.resource = resource.resource.unwrap().attributes;
        seen.spans.extend(resource.scope_spans.into_iter().flat_map(|scope| scope.spans));
    }
    Ok(Response::new(Full::new(Bytes::from(said.encode_to_vec()))))
}

/// An attribute that is a text.
pub(crate) fn string(attributes: &[KeyValue], key: &str) -> Option<String> {
    match value(attributes, key)? {
        Value::StringValue(text) => Some(text),
        other => panic!("{key} is {other:?}"),
    }
}

/// An attribute that is a number.
pub(crate) fn number(attributes: &[KeyValue], key: &str) -> Option<i64> {
    match value(attributes, key)? {
        Value::IntValue(number) => Some(number),
        other => panic!("{key} is {other:?}"),
    }
}

fn value(attributes: &[KeyValue], key: &str) -> Option<Value> {
    let mut found = attributes.iter().filter(|attribute| attribute.key == key);
    let first = found.next()?;
    assert!(found.next().is_none(), "{key} is there twice");
    first.value.clone()?.value
}
