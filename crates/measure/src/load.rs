//! Load, in the two ways that answer two questions.
//!
//! A **closed loop** ([`closed_loop`]) has a fixed number of clients, each of which starts its next operation when
//! the last one ended. It tells how much work a system does. While the system stalls, the clients wait with it and
//! ask for nothing, so a stall shows as one slow operation per client however long it was.
//!
//! An **open loop** ([`open_loop`]) starts operations at fixed times, as users who know nothing of each other do,
//! and counts each latency from the time at which the operation *should* have started. It tells what users wait
//! for. Leaving that waiting out is the error that Gil Tene named coordinated omission ("How NOT to Measure
//! Latency", 2013).
//!
//! Both run on the caller's tokio runtime, and every limit is an argument.

mod closed;
mod open;

use std::time::Duration;

pub use closed::{closed_loop, closed_loop_with, ClosedRun};
pub use open::{open_loop, open_loop_until, OpenRun};

/// What can keep a load from being run.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// A closed loop needs at least one client, an open loop at least one operation in flight.
    #[error("a load needs at least one client or operation in flight")]
    Nobody,
    /// The rate of an open loop is not a positive finite number.
    #[error("the rate {0} per second is not a positive number")]
    Rate(f64),
    /// Operations panicked, so that their latencies are unknown and no figure of this run is right.
    #[error("{0} of the operations panicked")]
    Panicked(u64),
}

/// Which operation is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Call {
    /// The client, from 0; always 0 in an open loop, which has none.
    pub client: usize,
    /// The operation's number, from 0: in a closed loop within its client, in an open loop in the schedule.
    pub index: u64,
}

/// One operation that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample<T> {
    /// Which one.
    pub call: Call,
    /// When it should have started, after the beginning of the run. In a closed loop that is when it did start.
    pub scheduled: Duration,
    /// When it did start, after the beginning of the run. The difference is the load generator's own lateness.
    pub started: Duration,
    /// How long it took, from `scheduled` to its end.
    pub latency: Duration,
    /// What it returned; commonly a `Result`, because a failed operation has a latency too.
    pub output: T,
}
