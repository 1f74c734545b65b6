//! Which trace an instance belongs to, and the ids of its spans.
//!
//! Ids are not drawn but computed, from what every turn of an instance knows: so the spans of several turns and workers belong
//! together, and a child knows its parent's span before that has ended.

use jiff::Timestamp;

use crate::interpret::Cell;
use duramen_traces::{Sampler, SpanId, TraceId, Traceparent};

/// The trace of an instance, as far as its spans need to know it.
#[derive(Clone, Debug)]
pub(crate) struct Trace {
    pub(super) id: TraceId,
    /// The span that it was started in.
    pub(super) parent: Option<SpanId>,
    sampled: bool,
    /// What the ids of its spans are computed from.
    origin: [u8; 32],
}

impl Trace {
    /// The trace of an instance of this database.
    pub(super) fn new(
        identity: &str,
        sampler: &Sampler,
        (seq, created_at): (i64, Timestamp),
        traceparent: Option<&str>,
    ) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("duramen functions, ids of traces, 1");
        hasher.update(&seq.to_le_bytes());
        hasher.update(&created_at.as_nanosecond().to_le_bytes());
        hasher.update(identity.as_bytes());
        let origin = *hasher.finalize().as_bytes();
        let given = traceparent.and_then(Traceparent::parse);
        let id = given.map_or_else(|| nonzero(&origin), |given| given.trace);
        let sampled = sampler.samples(&id, given.map(|given| given.sampled));
        Self { id, parent: given.map(|given| given.span), sampled, origin }
    }

    /// Whether its spans are sent.
    pub(crate) fn is_sampled(&self) -> bool {
        self.sampled
    }

    /// The id of the instance's span.
    pub(super) fn span(&self) -> SpanId {
        nonzero(blake3::keyed_hash(&self.origin, b"instance").as_bytes())
    }

    /// The id of a step's span. A cell asks for one thing at a time, so that this is another one for each attempt.
    pub(super) fn step_span(&self, cell: &Cell, asked_at: Timestamp) -> SpanId {
        let mut hasher = blake3::Hasher::new_keyed(&self.origin);
        hasher.update(&asked_at.as_nanosecond().to_le_bytes());
        hasher.update(cell.as_str().as_bytes());
        nonzero(hasher.finalize().as_bytes())
    }

    /// What a step hands on, to a child or over HTTP: itself, as the parent of what happens there.
    pub(crate) fn of_step(&self, cell: &Cell, asked_at: Timestamp) -> String {
        let span = self.step_span(cell, asked_at);
        Traceparent { trace: self.id, span, sampled: self.sampled }.to_string()
    }
}

/// The first bytes of a digest, as an id: that has at least one bit.
fn nonzero<const N: usize>(digest: &[u8; 32]) -> [u8; N] {
    let mut id = [0; N];
    id.copy_from_slice(&digest[..N]);
    if id == [0; N] {
        id[N - 1] = 1;
    }
    id
}

#[cfg(test)]
mod tests;
