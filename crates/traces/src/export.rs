//! Sends spans to a collector: OTLP over HTTP, in protobuf. Whatever the collector does, only this waits for it.

use std::hash::Hash;
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
use rustls::{ClientConfig, RootCertStore};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::attribute::text;
use crate::queue::{Queue, BATCH};
use crate::settings::TraceSettings;
use crate::Span;

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

/// Who is told what became of spans.
pub trait Tally: Sync {
    /// So many were taken by the collector.
    fn sent(&self, spans: usize);
    /// So many are lost.
    fn dropped(&self, spans: usize);
}

/// Who sends.
#[derive(Debug, Clone)]
pub struct Sender {
    /// The part of Duramen whose spans these are, as `duramen.functions`.
    pub scope: &'static str,
    /// What tells this process from others of its service.
    pub instance: String,
}

/// Spans that wait, by those to whom they belong, and where they go.
#[derive(Debug)]
pub struct Outbox<Owner> {
    settings: TraceSettings,
    queue: Queue<Owner>,
    /// Set: what is there is sent now, and no more comes.
    closing: watch::Sender<bool>,
}

impl<Owner: Eq + Hash + Clone> Outbox<Owner> {
    /// An empty one.
    #[must_use]
    pub fn new(settings: TraceSettings) -> Self {
        Self { settings, queue: Queue::new(), closing: watch::Sender::new(false) }
    }

    /// What it was made with.
    pub fn settings(&self) -> &TraceSettings {
        &self.settings
    }

    /// Takes over spans, and waits for nothing (T-3). How many found no room is returned (T-4).
    pub fn put(&self, owner: &Owner, spans: Vec<Span>) -> usize {
        self.queue.put(owner, spans)
    }

    /// Sends spans until [`flush`](Self::flush), then what is left.
    pub async fn send_all(&self, sender: Sender, tally: &impl Tally) {
        let client = match client() {
            Ok(client) => client,
            Err(error) => {
                tracing::error!(error, "traces cannot be sent");
                return;
            }
        };
        let exporter = Exporter { settings: &self.settings, client, tally, sender };
        let mut closing = self.closing.subscribe();
        let mut is_well = true;
        loop {
            tokio::select! {
                () = self.queue.full() => {}
                () = sleep(EVERY) => {}
                () = closes(&mut closing) => {}
            }
            loop {
                let is_last = *closing.borrow();
                let batch = self.queue.take();
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

    /// Has `sending`, which runs [`send_all`](Self::send_all), send what is there, for at most this time. How many spans are lost is
    /// returned.
    pub async fn flush(&self, mut sending: JoinHandle<()>, limit: Duration) -> usize {
        self.closing.send_replace(true);
        if tokio::time::timeout(limit, &mut sending).await.is_ok() {
            return 0;
        }
        sending.abort();
        let left = self.queue.len();
        tracing::warn!(spans = left, "the collector of traces takes too long, and the last spans are lost");
        left
    }
}

async fn closes(closing: &mut watch::Receiver<bool>) {
    // The sender lives as long as the outbox does.
    let _ = closing.wait_for(|closing| *closing).await;
}

struct Exporter<'a, T> {
    settings: &'a TraceSettings,
    client: Client,
    tally: &'a T,
    sender: Sender,
}

/// What became of a batch.
enum Sent {
    /// So many were refused of it.
    Taken(usize),
    /// It may be sent again: after this time, if the collector says so.
    Later(String, Option<Duration>),
    Refused(String),
}

impl<T: Tally> Exporter<'_, T> {
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
                    self.tally.sent(many.saturating_sub(refused));
                    self.tally.dropped(refused);
                    return true;
                }
                Sent::Refused(reason) => break reason,
                Sent::Later(reason, _) if left == 0 || *closing.borrow() => break reason,
                Sent::Later(_, after) => {
                    let jitter = entropy::rng(entropy::seed()).f64() + 0.5;
                    let wait = after.unwrap_or(pause.mul_f64(jitter)).min(PAUSES.1);
                    tokio::select! {
                        () = sleep(wait) => {}
                        () = closes(closing) => {}
                    }
                    pause = (pause * 2).min(PAUSES.1);
                }
            }
        };
        self.tally.dropped(many);
        if was_well {
            tracing::warn!(
                reason,
                spans = many,
                "spans are lost; all else goes on without, and the next ones are tried again"
            );
        }
        false
    }

    async fn attempt(&self, body: Vec<u8>) -> Sent {
        let request = self
            .client
            .post(self.settings.url.clone())
            .headers(self.settings.headers.clone())
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
                text("service.name", &self.settings.service),
                text("service.version", version),
                text("service.instance.id", &self.sender.instance),
                text("host.name", &host),
                text("telemetry.sdk.name", "duramen"),
                text("telemetry.sdk.language", "rust"),
                text("telemetry.sdk.version", version),
            ],
            ..Resource::default()
        };
        let scope = InstrumentationScope {
            name: self.sender.scope.to_owned(),
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

/// What went wrong, down to its root.
fn with_cause(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        text = format!("{text}: {inner}");
        source = inner.source();
    }
    text
}

/// The operator has chosen where it leads.
fn client() -> Result<Client, String> {
    Client::builder()
        .user_agent(concat!("duramen/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .http1_only()
        .tls_backend_preconfigured(tls()?)
        .timeout(ANSWER_WITHIN)
        .build()
        .map_err(|error| error.to_string())
}

/// TLS with the certificate authorities of the host, or of `SSL_CERT_FILE`.
fn tls() -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    // Without authorities http still works, and https fails with the reason.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let mut config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
