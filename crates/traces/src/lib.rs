//! Traces on their way to a collector: the context of W3C Trace Context, samplers, what spans are made of, the queue in which they
//! wait, and the one task that sends them over OTLP. What a span tells of is known to those who make it: workers of durable functions
//! and the daemon. See `docs/design/traces.md`, whose invariants comments and tests name.
#![cfg(feature = "otlp")]

pub mod attribute;
mod context;
mod export;
mod queue;
mod sampler;
mod settings;

pub use context::{SpanId, TraceId, Traceparent};
pub use export::{Outbox, Sender, Tally};
pub use queue::{BATCH, MAX, MAX_OF_OWNER};
pub use sampler::{Sampler, SamplerError};
pub use settings::{TraceSettings, TraceSettingsError, ENDPOINT};

/// All messages of OTLP, and what reads them, for collectors.
pub use {opentelemetry_proto as proto, prost};

pub use opentelemetry_proto::tonic::common::v1::KeyValue;
pub use opentelemetry_proto::tonic::trace::v1::{
    span::{Event, SpanKind},
    status::StatusCode,
    Span, Status,
};
