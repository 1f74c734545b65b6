//! Sends spans to a collector: OTLP over HTTP, in protobuf. Whatever the collector does, only this waits for it.

use std::sync::Arc;
use std::time::Duration;

use duramen_base::entropy;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans};
use prost::Message as _;
use reqwest::header::{CONTENT_TYPE, RETRY_AFTER};
use reqwest::{Client, StatusCode};
use tokio::sync::watch;
use tokio::time::sleep;

use super::queue::BATCH;
use super::spans::{text, Tracer};
use super::Span;
use crate::http;
use crate::worker::control::drains;
use crate::worker::metrics::{add, Metrics};
use crate::worker::shared::Shared;

/// How long spans wait for others to be sent with.
const EVERY: Duration = Duration::from_secs(1);
/// How long a collector may take for a batch.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// How often a batch is sent to a collector that is not there or is busy, before it is dropped.
const TRIES_MAX: u32 = 5;
/// The first pause between two of them, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// How much of an answer is read.
const ANSWER_BYTES: usize = 64 << 10;

/// Sends spans for as long as the worker runs, then what is left.
pub(crate) async fn export(shared: Arc<Shared>) {
    let Some(tracer) = &shared.tracer else { return };
    let client = match client() {
        Ok(client) => client,
        Err(error) => {
            tracing::error!(error, "traces cannot be sent");
            return;
        }
    };
    let instance = shared.epoch.lock().clone();
    let exporter = Exporter { tracer, client, metrics: &shared.metrics, instance };
    let mut closing = tracer.closing.subscribe();
    let mut is_well = true;
    loop {
        tokio::select! {
            () = tracer.queue.full() => {}
            () = sleep(EVERY) => {}
            () = drains(&mut closing) => {}
        }
        loop {
            let is_last = *closing.borrow();
            let batch = tracer.queue.take();
            if batch.is_empty() && is_last {
                return;
            }
            let many = batch.len();
            if many > 0 {
                is_well = exporter.send(batch, &mut closing, is_well).await;
            }
            if many < BATCH && !is_last {
                break;
            }
        }
    }
}

struct Exporter<'a> {
    tracer: &'a Tracer,
    client: Client,
    metrics: &'a Metrics,
    /// What tells this worker from others of its service.
    instance: String,
}

/// What became of a batch.
enum Sent {
    /// So many were refused of it.
    Taken(usize),
    /// It may be sent again: after this time, if the collector says so.
    Later(String, Option<Duration>),
    Refused(String),
}

impl Exporter<'_> {
    /// Sends a batch, and again if the collector may take it later. `false`: it is lost. That is told once in a row.
    async fn send(&self, batch: Vec<Span>, closing: &mut watch::Receiver<bool>, was_well: bool) -> bool {
        let many = batch.len();
        let body = self.request(batch).encode_to_vec();
        let mut pause = PAUSES.0;
        let mut left = TRIES_MAX;
        let reason = loop {
            left -= 1;
            match self.attempt(body.clone()).await {
                Sent::Taken(refused) => {
                    add(&self.metrics.spans_total, many.saturating_sub(refused));
                    add(&self.metrics.dropped_spans_total, refused);
                    return true;
                }
                Sent::Refused(reason) => break reason,
                Sent::Later(reason, _) if left == 0 || *closing.borrow() => break reason,
                Sent::Later(_, after) => {
                    let jitter = entropy::rng(entropy::seed()).f64() + 0.5;
                    let wait = after.unwrap_or(pause.mul_f64(jitter)).min(PAUSES.1);
                    tokio::select! {
                        () = sleep(wait) => {}
                        () = drains(closing) => {}
                    }
                    pause = (pause * 2).min(PAUSES.1);
                }
            }
        };
        add(&self.metrics.dropped_spans_total, many);
        if was_well {
            tracing::warn!(
                reason,
                spans = many,
                "spans are lost; the worker goes on without, and tries again with others"
            );
        }
        false
    }

    async fn attempt(&self, body: Vec<u8>) -> Sent {
        let request = self
            .client
            .post(self.tracer.settings.url.clone())
            .headers(self.tracer.settings.headers.clone())
            .header(CONTENT_TYPE, "application/x-protobuf")
            .body(body)
            .send();
        let mut response = match request.await {
            Ok(response) => response,
            // A URL may hold a secret.
            Err(error) => return Sent::Later(with_cause(&error.without_url()), None),
        };
        let status = response.status();
        if status.is_success() {
            let mut answer = Vec::new();
            while answer.len() < ANSWER_BYTES {
                match response.chunk().await {
                    Ok(Some(chunk)) => answer.extend_from_slice(&chunk),
                    Ok(None) | Err(_) => break,
                }
            }
            // What is not an answer of a collector does not say that spans were refused.
            let answer = ExportTraceServiceResponse::decode(answer.as_slice()).unwrap_or_default();
            let refused = answer.partial_success.map_or(0, |partial| partial.rejected_spans);
            return Sent::Taken(usize::try_from(refused).unwrap_or(0));
        }
        let reason = format!("the collector answers {status}");
        match status {
            StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT => {
                let after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
                let after = after.and_then(|seconds| seconds.parse().ok()).map(Duration::from_secs);
                Sent::Later(reason, after)
            }
            _ => Sent::Refused(reason),
        }
    }

    fn request(&self, spans: Vec<Span>) -> ExportTraceServiceRequest {
        let version = env!("CARGO_PKG_VERSION");
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let resource = Resource {
            attributes: vec![
                text("service.name", &self.tracer.settings.service),
                text("service.version", version),
                text("service.instance.id", &self.instance),
                text("host.name", &host),
                text("telemetry.sdk.name", "duramen"),
                text("telemetry.sdk.language", "rust"),
                text("telemetry.sdk.version", version),
            ],
            ..Resource::default()
        };
        let scope = InstrumentationScope {
            name: "duramen.functions".to_owned(),
            version: version.to_owned(),
            ..InstrumentationScope::default()
        };
        let scope_spans = vec![ScopeSpans { scope: Some(scope), spans, ..ScopeSpans::default() }];
        ExportTraceServiceRequest {
            resource_spans: vec![ResourceSpans {
                resource: Some(resource),
                scope_spans,
                ..ResourceSpans::default()
            }],
        }
    }
}

/// What went wrong, at its root.
fn with_cause(error: &reqwest::Error) -> String {
    duramen_postgres::connection::with_sources(error)
}

/// The operator has chosen where it leads: the policy of HTTP steps does not apply to it.
fn client() -> Result<Client, String> {
    Client::builder()
        .user_agent(concat!("duramen/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .http1_only()
        .tls_backend_preconfigured(http::tls()?)
        .timeout(ANSWER_WITHIN)
        .build()
        .map_err(|error| error.to_string())
}
