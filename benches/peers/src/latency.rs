//! How long single operations took.

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::engine::Failure;

/// Latencies from a nanosecond to minutes with three digits. The histogram of `duramen_measure` is made for
/// server calls: it cannot tell a microsecond from half of one, which is all that these operations take.
pub(crate) struct Latencies {
    histogram: Histogram<u64>,
}

impl Latencies {
    /// None yet.
    pub(crate) fn new() -> Self {
        let histogram =
            Histogram::new_with_bounds(1, 600_000_000_000, 3).expect("the histogram accepts these constants");
        Self { histogram }
    }

    /// Counts one.
    pub(crate) fn record(&mut self, took: Duration) {
        self.histogram.saturating_record(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Adds those of another thread.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.histogram.add(&other.histogram).expect("all have the same bounds");
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The latency in microseconds that the share `q` of them does not exceed.
    ///
    /// # Errors
    /// When nothing was recorded, which would otherwise look like a very fast engine.
    pub(crate) fn us(&self, q: f64) -> Result<f64, Failure> {
        if self.histogram.is_empty() {
            return Err(Failure::Wrong("no operation ended in the time allowed".to_owned()));
        }
        Ok(self.histogram.value_at_quantile(q) as f64 / 1e3)
    }
}
