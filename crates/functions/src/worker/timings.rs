//! How long the instances of a turn have waited and lived. It is known when the turn has committed, and recorded only then.

use jiff::Timestamp;
use std::time::Duration;

use super::instance::Instance;
use super::metrics::{add, Metrics};
use crate::interpret::Outcome;

/// What is to be recorded of a turn.
pub(crate) struct Timings {
    now: Timestamp,
    waited: Vec<Duration>,
    completed: Vec<Duration>,
    failed: Vec<Duration>,
    cancelled: Vec<Duration>,
    retries: usize,
}

impl Timings {
    pub(crate) fn new(now: Timestamp) -> Self {
        let (waited, completed, failed, cancelled) = Default::default();
        Self { now, waited, completed, failed, cancelled, retries: 0 }
    }

    /// An instance as the turn leaves it.
    pub(crate) fn note(&mut self, instance: &Instance) {
        self.retries += instance.retries;
        if instance.is_first {
            self.waited.push(between(instance.created_at, instance.state.started_at()));
        }
        let lived = || between(instance.created_at, self.now);
        match &instance.outcome {
            Some(Outcome::Completed(_)) => self.completed.push(lived()),
            Some(Outcome::Failed(_)) => self.failed.push(lived()),
            Some(Outcome::Cancelled(_)) => self.cancelled.push(lived()),
            None => {}
        }
    }

    pub(crate) fn record(self, metrics: &Metrics) {
        let times = &metrics.times;
        add(&metrics.retries_total, self.retries);
        for (histogram, durations) in [
            (&times.waited, self.waited),
            (&times.completed, self.completed),
            (&times.failed, self.failed),
            (&times.cancelled, self.cancelled),
        ] {
            for took in durations {
                histogram.record(took);
            }
        }
    }
}

/// From one of the server's times to another. If its clock was set back in between, it is nothing.
fn between(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or(Duration::ZERO)
}
