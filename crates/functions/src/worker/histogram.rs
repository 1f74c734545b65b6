//! Durations, counted by upper bounds: cheap to record, and in the form in which Prometheus wants them.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The upper bounds, in microseconds: from a short step to an instance that waits for a week.
const BOUNDS_US: [u64; 20] = [
    500,
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    30_000_000,
    60_000_000,
    600_000_000,
    3_600_000_000,
    86_400_000_000,
    604_800_000_000,
];

/// A histogram of durations. Recording is two atomic additions.
#[derive(Debug, Default)]
pub struct Histogram {
    /// Of each bound those that are above the bound before; at the end what exceeds all of them.
    counts: [AtomicU64; BOUNDS_US.len() + 1],
    sum_us: AtomicU64,
}

impl Histogram {
    pub(crate) fn record(&self, took: Duration) {
        self.record_many(took, 1);
    }

    /// Records several that took as long each.
    pub(crate) fn record_many(&self, took: Duration, many: usize) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let many = many as u64;
        let place = BOUNDS_US.partition_point(|bound| *bound < us);
        self.counts[place].fetch_add(many, Ordering::Relaxed);
        self.sum_us.fetch_add(us.saturating_mul(many), Ordering::Relaxed);
    }

    /// How many were recorded.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// Its lines in the text exposition format. `label` is empty or like `status="failed"`.
    pub(crate) fn write(&self, text: &mut String, name: &str, label: &str) {
        let comma = if label.is_empty() { "" } else { "," };
        let braces = if label.is_empty() { String::new() } else { format!("{{{label}}}") };
        let sum = self.sum_us.load(Ordering::Relaxed) as f64 / 1e6;
        let mut below = 0;
        // Writing to a string does not fail.
        for (bound, count) in BOUNDS_US.iter().zip(&self.counts) {
            below += count.load(Ordering::Relaxed);
            let bound = *bound as f64 / 1e6;
            let _ = writeln!(text, "{name}_bucket{{{label}{comma}le=\"{bound}\"}} {below}");
        }
        below += self.counts[BOUNDS_US.len()].load(Ordering::Relaxed);
        let _ = writeln!(text, "{name}_bucket{{{label}{comma}le=\"+Inf\"}} {below}");
        let _ = writeln!(text, "{name}_sum{braces} {sum}\n{name}_count{braces} {below}");
    }
}

#[cfg(test)]
mod tests;
