//! Latency histograms that can be merged and kept.
//!
//! Percentiles cannot be averaged; histograms can be added. A [`LatencyHistogram`] is an HDR histogram (Gil Tene,
//! <https://hdrhistogram.org>) of nanoseconds with three significant digits from one microsecond to one hour; a
//! [`fine`](LatencyHistogram::fine) one begins at one nanosecond.

use std::fmt;
use std::time::Duration;

use base64::engine::general_purpose::STANDARD;
use base64::Engine;
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};
use hdrhistogram::Histogram;

const LOWEST_NS: u64 = 1_000;
const LOWEST_FINE_NS: u64 = 1;
const HIGHEST_NS: u64 = 3_600_000_000_000;
const SIGNIFICANT_DIGITS: u8 = 3;

/// What can be wrong with a serialized histogram.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HistogramError {
    /// The text is not base64.
    #[error("the histogram is not base64: {0}")]
    Base64(#[from] base64::DecodeError),
    /// The bytes are not an HDR histogram in the V2 encoding.
    #[error("the histogram is not an HDR histogram in the V2 encoding: {0}")]
    Encoding(String),
    /// The histogram was made with another range or precision, so it cannot be added to one of this kind.
    #[error("the histogram has the range {low_ns}..{high_ns} ns with {digits} digits; expected {LOWEST_NS} or {LOWEST_FINE_NS}..{HIGHEST_NS} ns with {SIGNIFICANT_DIGITS}")]
    Shape {
        /// Its lowest discernible value in nanoseconds.
        low_ns: u64,
        /// Its highest trackable value in nanoseconds.
        high_ns: u64,
        /// Its significant digits.
        digits: u8,
    },
}

/// A histogram of latencies: constant in size, about 0.1 % exact, mergeable.
///
/// Latencies below a microsecond are counted, but told apart no finer than about half a microsecond, unless the
/// histogram is a [`fine`](Self::fine) one; latencies above an hour are counted as an hour, never lost.
///
/// ```
/// use duramen_measure::histogram::LatencyHistogram;
/// use std::time::Duration;
///
/// let mut latencies = LatencyHistogram::new();
/// (1..=100).for_each(|ms| latencies.record(Duration::from_millis(ms)));
/// let p95 = latencies.quantile(0.95).as_secs_f64() * 1e3;
/// assert!((p95 - 95.0).abs() < 0.1);
/// ```
#[derive(Clone, PartialEq)]
pub struct LatencyHistogram {
    inner: Histogram<u64>,
}

/// The figures of a histogram, latencies in milliseconds. All are zero when nothing was recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SummaryMs {
    /// How many latencies were recorded.
    pub count: u64,
    /// The arithmetic mean.
    pub mean: f64,
    /// The least.
    pub min: f64,
    /// The median.
    pub p50: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 95th percentile.
    pub p95: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The greatest.
    pub max: f64,
}

impl LatencyHistogram {
    /// An empty histogram.
    pub fn new() -> Self {
        Self::from_lowest(LOWEST_NS)
    }

    /// An empty histogram that tells nanoseconds apart, for what takes less than a microsecond. It takes about 270
    /// kB instead of 180.
    ///
    /// ```
    /// use duramen_measure::histogram::LatencyHistogram;
    /// use std::time::Duration;
    ///
    /// let mut latencies = LatencyHistogram::fine();
    /// latencies.extend([50, 60, 70].map(Duration::from_nanos));
    /// assert_eq!(latencies.quantile(0.5), Duration::from_nanos(60));
    /// ```
    pub fn fine() -> Self {
        Self::from_lowest(LOWEST_FINE_NS)
    }

    fn from_lowest(lowest_ns: u64) -> Self {
        let inner = Histogram::new_with_bounds(lowest_ns, HIGHEST_NS, SIGNIFICANT_DIGITS)
            .expect("the bounds are constants that the histogram accepts");
        Self { inner }
    }

    /// Counts one latency.
    pub fn record(&mut self, latency: Duration) {
        self.inner.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Adds all latencies of another histogram. This one keeps its resolution.
    pub fn merge(&mut self, other: &Self) {
        self.inner.add(&other.inner).expect("both histograms have the same upper bound");
    }

    /// What was recorded since `earlier`, which is a copy of this one from before.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use duramen_measure::histogram::LatencyHistogram;
    /// let mut all: LatencyHistogram = [Duration::from_millis(1)].into_iter().collect();
    /// let before = all.clone();
    /// all.record(Duration::from_millis(9));
    /// assert_eq!((all.since(&before).count(), all.count()), (1, 2));
    /// ```
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut since = self.clone();
        // What is not a copy of before has nothing in common with this one.
        if since.inner.subtract(&earlier.inner).is_err() {
            return self.clone();
        }
        since
    }

    /// How many latencies were recorded.
    pub fn count(&self) -> u64 {
        self.inner.len()
    }

    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.inner.is_empty()
    }

    /// The latency that the share `q` of the recorded ones does not exceed; `q` is taken into 0..=1. Zero when
    /// nothing was recorded.
    pub fn quantile(&self, q: f64) -> Duration {
        if self.is_empty() {
            return Duration::ZERO;
        }
        Duration::from_nanos(self.inner.value_at_quantile(q.clamp(0.0, 1.0)))
    }

    /// The arithmetic mean; zero when nothing was recorded.
    pub fn mean(&self) -> Duration {
        Duration::from_secs_f64(self.inner.mean() / 1e9)
    }

    /// The least latency; zero when nothing was recorded.
    pub fn min(&self) -> Duration {
        Duration::from_nanos(self.inner.min())
    }

    /// The greatest latency; zero when nothing was recorded.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.inner.max())
    }

    /// The figures that an evidence document holds, in milliseconds.
    pub fn summary_ms(&self) -> SummaryMs {
        let at = |q| duramen_base::clock::ms(self.quantile(q));
        SummaryMs {
            count: self.count(),
            mean: duramen_base::clock::ms(self.mean()),
            min: duramen_base::clock::ms(self.min()),
            p50: at(0.50),
            p90: at(0.90),
            p95: at(0.95),
            p99: at(0.99),
            max: duramen_base::clock::ms(self.max()),
        }
    }

    /// The histogram in HDR's V2 encoding (not deflated), as base64. Values are nanoseconds.
    pub fn to_base64_v2(&self) -> String {
        let mut bytes = Vec::new();
        V2Serializer::new()
            .serialize(&self.inner, &mut bytes)
            .expect("writing into memory does not fail and the counts fit");
        STANDARD.encode(bytes)
    }

    /// Reads what [`to_base64_v2`](Self::to_base64_v2) wrote.
    ///
    /// # Errors
    /// When the text is not base64, not a V2 histogram, or one of another range or precision.
    pub fn from_base64_v2(text: &str) -> Result<Self, HistogramError> {
        let bytes = STANDARD.decode(text.trim())?;
        let inner: Histogram<u64> = Deserializer::new()
            .deserialize(&mut bytes.as_slice())
            .map_err(|error| HistogramError::Encoding(error.to_string()))?;
        let (low_ns, high_ns, digits) = (inner.low(), inner.high(), inner.sigfig());
        let is_ours = [LOWEST_NS, LOWEST_FINE_NS]
            .iter()
            .any(|low| (low_ns, high_ns, digits) == (*low, HIGHEST_NS, SIGNIFICANT_DIGITS));
        if !is_ours {
            return Err(HistogramError::Shape { low_ns, high_ns, digits });
        }
        Ok(Self { inner })
    }

    /// The points of the cumulative distribution, as pairs of a latency and the share of the recorded latencies
    /// that do not exceed it, in rising order; the last share is 1.
    pub fn distribution(&self) -> Vec<(Duration, f64)> {
        let total = self.count() as f64;
        let mut seen = 0_u64;
        self.inner
            .iter_recorded()
            .map(|step| {
                seen += step.count_at_value();
                (Duration::from_nanos(step.value_iterated_to()), seen as f64 / total)
            })
            .collect()
    }
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Extend<Duration> for LatencyHistogram {
    fn extend<I: IntoIterator<Item = Duration>>(&mut self, latencies: I) {
        latencies.into_iter().for_each(|latency| self.record(latency));
    }
}

impl FromIterator<Duration> for LatencyHistogram {
    fn from_iter<I: IntoIterator<Item = Duration>>(latencies: I) -> Self {
        let mut histogram = Self::new();
        histogram.extend(latencies);
        histogram
    }
}

impl fmt::Debug for LatencyHistogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LatencyHistogram").field(&self.summary_ms()).finish()
    }
}
