//! Traces: a span for each instance and each step, in the trace of whoever started it. See `docs/design/traces.md`.
//!
//! Turns note what has ended and hand it over when they have committed; one task sends it. Without the feature `otlp` a worker
//! has no [`Tracer`], and the compiler knows it.

#[cfg(feature = "otlp")]
mod context;
#[cfg(feature = "otlp")]
mod export;
#[cfg(not(feature = "otlp"))]
mod off;
#[cfg(feature = "otlp")]
mod spans;

#[cfg(feature = "otlp")]
pub(crate) use {context::Trace, export::export, spans::Tracer};

#[cfg(not(feature = "otlp"))]
pub(crate) use off::{export, Trace, Tracer};

/// A span, as it is handed over.
#[cfg(feature = "otlp")]
pub(crate) type Span = duramen_traces::Span;
#[cfg(not(feature = "otlp"))]
pub(crate) type Span = std::convert::Infallible;

/// The variable that has the trace context of whoever started an instance: a `traceparent` of W3C Trace Context.
pub(crate) const TRACEPARENT: &str = "df.traceparent";
