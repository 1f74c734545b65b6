//! What a worker counts, and how it tells Prometheus.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident: $kind:literal,)+) => {
        /// Counters since the worker began, and gauges.
        #[derive(Debug, Default)]
        pub struct Metrics {
            $($(#[doc = $doc])+ pub $name: AtomicU64,)+
        }

        impl Metrics {
            /// The text exposition format of Prometheus, version 0.0.4.
            #[must_use]
            pub fn prometheus(&self) -> String {
                let mut text = String::new();
                $(
                    let name = concat!("duramen_functions_", stringify!($name));
                    let help = [$($doc),+].concat();
                    // Writing to a string does not fail.
                    let _ = writeln!(text, "# HELP {name} {}\n# TYPE {name} {}\n{name} {}",
                        help.trim(), $kind, self.$name.load(Ordering::Relaxed));
                )+
                text
            }
        }
    };
}

counters! {
    /// Turns that took at least one instance.
    turns_total: "counter",
    /// Looks for instances that found none.
    empty_looks_total: "counter",
    /// Turns that failed as a whole and were rolled back.
    failed_turns_total: "counter",
    /// Instances taken in turn.
    claimed_total: "counter",
    /// Instances that ended.
    ended_total: "counter",
    /// Activities that began: slow SQL, HTTP, statements outside of transactions.
    activities_total: "counter",
    /// Activities whose result was refused because they had been given to another worker, or were not needed any more.
    fenced_total: "counter",
    /// Times that activities could not be taken, because the database refused or was not to be reached.
    failed_takes_total: "counter",
    /// Instances that queues let in.
    admitted_total: "counter",
    /// Times that queues could not be looked into.
    failed_admissions_total: "counter",
    /// Times that schedules could not be looked at.
    failed_schedules_total: "counter",
    /// Times that the housekeeping failed, other than for a lock that somebody held.
    failed_maintenance_total: "counter",
    /// Hot tables that were emptied because dead rows had swollen them.
    rotated_total: "counter",
    /// Activities that run now.
    running_activities: "gauge",
    /// Notifications that woke the worker.
    wakes_total: "counter",
    /// Heartbeats.
    heartbeats_total: "counter",
    /// Times that the worker found itself buried by another and began a new epoch.
    buried_total: "counter",
}

pub(crate) fn add(counter: &AtomicU64, count: usize) {
    counter.fetch_add(count as u64, Ordering::Relaxed);
}
