//! The one place where the time is read.
//!
//! Every other module asks here, so that a test or a simulation has a single place to replace, and so that the
//! monotonic clock (for durations) and the wall clock (for time stamps) are never confused.
#![allow(clippy::disallowed_methods, reason = "this module is the one that may read the clocks")]

#[cfg(all(debug_assertions, target_os = "linux"))]
mod jumps;

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
    let now = jiff::Timestamp::now();
    match jumped().wall_ms {
        0 => now,
        by => now.checked_add(jiff::SignedDuration::from_millis(by)).unwrap_or(now),
    }
}

/// The wall clock in milliseconds since 1970-01-01T00:00:00Z (negative before it).
pub fn unix_ms() -> i64 {
    let now = SystemTime::now();
    let since = |duration: Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
    let unix_ms = match now.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => since(after),
        Err(before) => -since(before.duration()),
    };
    unix_ms.saturating_add(jumped().wall_ms)
}

/// A moment by the clock that goes on while the machine is suspended, which [`Instant`] does not on Linux. For what is over
/// after some time whatever this machine does meanwhile: what somebody else gave it for so long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SinceBoot(Duration);

impl std::ops::Add<Duration> for SinceBoot {
    type Output = SinceBoot;

    fn add(self, later: Duration) -> SinceBoot {
        SinceBoot(self.0.saturating_add(later))
    }
}

impl SinceBoot {
    /// How long it is from an earlier moment to this one; nothing, if that one is later.
    #[must_use]
    pub fn saturating_duration_since(self, earlier: SinceBoot) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

/// The clock that goes on while the machine is suspended (CLOCK_BOOTTIME). Where there is none, it stands still then.
///
/// ```
/// use duramen_base::clock::since_boot;
/// use std::time::Duration;
/// let begin = since_boot();
/// assert!(since_boot() >= begin && since_boot() < begin + Duration::from_secs(60));
/// ```
pub fn since_boot() -> SinceBoot {
    #[cfg(target_os = "linux")]
    {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
        let nanoseconds = u32::try_from(now.tv_nsec).unwrap_or(0);
        SinceBoot(Duration::new(seconds, nanoseconds).saturating_add(jumped().suspended))
    }
    #[cfg(not(target_os = "linux"))]
    {
        static BEGIN: OnceLock<Instant> = OnceLock::new();
        SinceBoot(BEGIN.get_or_init(Instant::now).elapsed())
    }
}

/// By how much a test has set the clocks off.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Jumped {
    /// The wall clock, in milliseconds.
    wall_ms: i64,
    /// How long the machine was suspended.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "no clock of it counts that"))]
    suspended: Duration,
}

#[cfg(all(debug_assertions, target_os = "linux"))]
fn jumped() -> Jumped {
    jumps::now()
}

/// No release reads anything but the clocks.
#[cfg(not(all(debug_assertions, target_os = "linux")))]
const fn jumped() -> Jumped {
    Jumped { wall_ms: 0, suspended: Duration::ZERO }
}

/// The wall clock in milliseconds, for deadlines after which something is destroyed: the earlier of [`unix_ms`] and of
/// what that would be if nobody had set the clock since this was first called in the process ([`since_boot`]). A clock that is set
/// forward brings no deadline nearer, one that is set back puts them off; the time in which the machine was suspended counts.
///
/// ```
/// let begin = duramen_base::clock::steady_unix_ms();
/// assert!(duramen_base::clock::steady_unix_ms() >= begin - 60_000);
/// ```
pub fn steady_unix_ms() -> i64 {
    static BEGIN: OnceLock<(i64, SinceBoot)> = OnceLock::new();
    let (at_ms, SinceBoot(since)) = BEGIN.get_or_init(|| (unix_ms(), since_boot()));
    let elapsed = i64::try_from(since_boot().0.saturating_sub(*since).as_millis()).unwrap_or(i64::MAX);
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
