//! The one place where the time is read.
//!
//! Every other module asks here, so that a test or a simulation has a single place to replace, and so that the
//! monotonic clock (for durations) and the wall clock (for time stamps) are never confused.
#![allow(clippy::disallowed_methods, reason = "this module is the one that may read the clocks")]

use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime};

/// The monotonic clock: for measuring how long something took, never for telling the date.
///
/// ```
/// let begin = duramen_base::clock::now();
/// assert!(begin.elapsed().as_nanos() < 60_000_000_000);
/// ```
pub fn now() -> Instant {
    Instant::now()
}

/// The wall clock in UTC: for time stamps, never for durations, because it may be set back.
#[cfg(feature = "jiff")]
pub fn utc_now() -> jiff::Timestamp {
    jiff::Timestamp::now()
}

/// The wall clock in milliseconds since 1970-01-01T00:00:00Z (negative before it).
pub fn unix_ms() -> i64 {
    let now = SystemTime::now();
    let since = |duration: Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
    match now.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => since(after),
        Err(before) => -since(before.duration()),
    }
}

/// The wall clock in milliseconds, for deadlines after which something is destroyed: the earlier of [`unix_ms`] and of
/// what that would be if nobody had set the clock since this was first called in the process. A clock that is set forward
/// brings no deadline nearer, one that is set back puts them off.
///
/// ```
/// let begin = duramen_base::clock::steady_unix_ms();
/// assert!(duramen_base::clock::steady_unix_ms() >= begin - 60_000);
/// ```
pub fn steady_unix_ms() -> i64 {
    static BEGIN: OnceLock<(i64, Instant)> = OnceLock::new();
    let (at_ms, since) = BEGIN.get_or_init(|| (unix_ms(), Instant::now()));
    let elapsed = i64::try_from(since.elapsed().as_millis()).unwrap_or(i64::MAX);
    unix_ms().min(at_ms.saturating_add(elapsed))
}

/// A duration in milliseconds with its fraction, the unit of every latency that is reported.
///
/// ```
/// use std::time::Duration;
/// assert_eq!(duramen_base::clock::ms(Duration::from_micros(1500)), 1.5);
/// ```
pub fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
