//! Traces: a span for each request, with what a lease's time went into, and one for the first client that enters the branch. See
//! `docs/design/traces.md`. Without the feature `otlp` there is never a [`Tracer`], and the compiler knows it.

#[cfg(feature = "otlp")]
mod leases;
#[cfg(not(feature = "otlp"))]
mod off;
#[cfg(feature = "otlp")]
mod spans;

#[cfg(not(feature = "otlp"))]
pub(crate) use off::Tracer;
#[cfg(feature = "otlp")]
pub(crate) use spans::Tracer;
