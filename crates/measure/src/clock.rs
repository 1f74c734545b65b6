//! The one place where the time is read.
//!
//! Every other module asks here, so that a test or a simulation has a single place to replace, and so that the
//! monotonic clock (for durations) and the wall clock (for time stamps) are never confused.
#![allow(clippy::disallowed_methods, reason = "this module is the one that may read the clocks")]

use std::time::{Duration, Instant};

/// The monotonic clock: for measuring how long something took, never for telling the date.
///
/// ```
/// let begin = duramen_measure::clock::now();
/// assert!(begin.elapsed().as_nanos() < 60_000_000_000);
/// ```
pub fn now() -> Instant {
    Instant::now()
}

/// The wall clock in UTC: for time stamps, never for durations, because it may be set back.
pub fn utc_now() -> jiff::Timestamp {
    jiff::Timestamp::now()
}

/// The wall clock in milliseconds since 1970-01-01T00:00:00Z (negative before it).
pub fn unix_ms() -> i64 {
    utc_now().as_millisecond()
}

/// A duration in milliseconds with its fraction, the unit of every latency that is reported.
///
/// ```
/// use std::time::Duration;
/// assert_eq!(duramen_measure::clock::ms(Duration::from_micros(1500)), 1.5);
/// ```
pub fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
