//! Whether latencies stay what they are: with more clients, with time, and beside slow work. What is about time is never
//! a check: a busy machine would fail it. It is told as a finding.

use duramen_measure::evidence::{Evidence, Finding, Severity};

use duramen_base::words::number;

/// A median may be so many times that of the level of concurrency before.
pub(crate) const CLIFF_STEP: f64 = 3.0;
/// And at this level so many times that of one session.
pub(crate) const CLIFF_WHOLE: (usize, f64) = (32, 10.0);
/// Trivial instances beside a queue of slow ones end within so many milliseconds, at the 95th percentile. The queue
/// itself takes seconds.
pub(crate) const STARVED_MS: f64 = 500.0;
/// The last quarter of a soak may be worse than the first by this share.
pub(crate) const DRIFT: f64 = 0.1;
/// Tables that differ by less than this, in bytes, have not grown: they are made of pages, and vacuumed now and then.
pub(crate) const DRIFT_BYTES: f64 = 1_048_576.0;

/// Everything about steadiness that a document shows.
pub(super) fn find(evidence: &Evidence, found: &mut Vec<Finding>) {
    found.extend(cliff(&levels(evidence)));
    let quarter = |number: u32| {
        let p50 = |name: &str| Some(evidence.measurement(&format!("{name}/q{number}"))?.p50);
        let [per_s, p50_ms, hot_bytes] = [p50("soak_completed_per_s")?, p50("soak_ms")?, p50("hot_bytes")?];
        Some(Quarter { per_s, p50_ms, hot_bytes })
    };
    if let (Some(first), Some(last)) = (quarter(1), quarter(super::soak::QUARTERS)) {
        found.extend(drift(&first, &last));
    }
    let beside = evidence.measurement("beside_slow_ms").filter(|figure| figure.count > 0);
    found.extend(beside.and_then(|figure| starvation(figure.p95)));
}

/// The medians of trivial instances by concurrency, in order.
fn levels(evidence: &Evidence) -> Vec<(usize, f64)> {
    let level = |figure: &duramen_measure::evidence::Measurement| {
        let level = figure.name.strip_prefix("end_to_end_ms/c=")?.parse().ok()?;
        (figure.count > 0).then_some((level, figure.p50))
    };
    let mut levels: Vec<(usize, f64)> = evidence.measurements.iter().filter_map(level).collect();
    levels.sort_by_key(|(level, _)| *level);
    levels
}

/// Medians that jump from one level of concurrency to the next, or from one session to many. `levels` are
/// concurrencies with medians in milliseconds, in order.
#[must_use]
pub(crate) fn cliff(levels: &[(usize, f64)]) -> Option<Finding> {
    let mut steep = Vec::new();
    for pair in levels.windows(2) {
        let [(before, low), (after, high)] = [pair[0], pair[1]];
        if high > CLIFF_STEP * low {
            steep.push((high / low, before, after));
        }
    }
    let median = |level: usize| levels.iter().find(|(at, _)| *at == level).map(|(_, median)| *median);
    let (top, most) = CLIFF_WHOLE;
    if let (Some(low), Some(high)) = (median(1), median(top)) {
        if high > most * low {
            steep.push((high / low, 1, top));
        }
    }
    let worst = steep.iter().map(|(times, ..)| *times).reduce(f64::max)?;
    let drops: Vec<String> = steep
        .iter()
        .map(|(times, before, after)| format!("{} times from {before} to {after}", number(*times)))
        .collect();
    let shown: Vec<String> = levels.iter().map(|(level, p50)| format!("{level}: {}", number(*p50))).collect();
    let text = format!(
        "The median jumps with more clients: {}. In ms by concurrency: {}.",
        drops.join(", "),
        shown.join(", ")
    );
    Some(Finding::new("cliff", Severity::Warning, Some(worst), text))
}

/// One quarter of a soak.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Quarter {
    /// Instances per second.
    pub per_s: f64,
    /// The median of trivial instances, in milliseconds.
    pub p50_ms: f64,
    /// The most that the hot tables took with their indexes, in bytes.
    pub hot_bytes: f64,
}

/// A last quarter of a soak that is worse than the first.
#[must_use]
pub(crate) fn drift(first: &Quarter, last: &Quarter) -> Option<Finding> {
    let slower = last.per_s < first.per_s * (1.0 - DRIFT);
    let later = last.p50_ms > first.p50_ms * (1.0 + DRIFT);
    let larger =
        last.hot_bytes > first.hot_bytes * (1.0 + DRIFT) && last.hot_bytes - first.hot_bytes > DRIFT_BYTES;
    let worse: Vec<&str> = [(slower, "the rate"), (later, "the median"), (larger, "the hot tables")]
        .into_iter()
        .filter_map(|(is_worse, what)| is_worse.then_some(what))
        .collect();
    if worse.is_empty() {
        return None;
    }
    let text = format!(
        "The soak got worse by more than {} %: {}. First to last quarter: {} to {} instances/s, p50 {} to {} ms, hot \
         tables with indexes {} to {} KB; a snapshot was held open for the second half.",
        DRIFT * 100.0,
        worse.join(", "),
        number(first.per_s),
        number(last.per_s),
        number(first.p50_ms),
        number(last.p50_ms),
        number(first.hot_bytes / 1024.0),
        number(last.hot_bytes / 1024.0)
    );
    Some(Finding::new("drift", Severity::Warning, Some(last.per_s / first.per_s.max(1e-9)), text))
}

/// Trivial instances that wait for slow ones, by their 95th percentile in milliseconds.
#[must_use]
pub(crate) fn starvation(p95_ms: f64) -> Option<Finding> {
    if p95_ms <= STARVED_MS {
        return None;
    }
    let text = format!(
        "Trivial instances beside a queue of slow ones took {} ms at p95 (expected: at most {STARVED_MS} ms): they wait \
         for its steps.",
        number(p95_ms)
    );
    Some(Finding::new("starvation", Severity::Warning, Some(p95_ms), text))
}
