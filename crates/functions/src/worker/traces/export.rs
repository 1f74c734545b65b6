//! Sends a worker's spans, and counts them.

use std::sync::Arc;

use duramen_traces::{Sender, Tally};

use crate::worker::metrics::{add, Metrics};
use crate::worker::shared::Shared;

impl Tally for Metrics {
    fn sent(&self, spans: usize) {
        add(&self.spans_total, spans);
    }

    fn dropped(&self, spans: usize) {
        add(&self.dropped_spans_total, spans);
    }
}

/// Sends spans for as long as the worker runs, then what is left.
pub(crate) async fn export(shared: Arc<Shared>) {
    let Some(tracer) = &shared.tracer else { return };
    let sender = Sender { scope: "duramen.functions", instance: shared.epoch.lock().clone() };
    tracer.outbox.send_all(sender, &shared.metrics).await;
}
