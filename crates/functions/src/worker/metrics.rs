//! What a worker counts, and how it tells Prometheus.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::histogram::Histogram;

/// What every name begins with.
pub(crate) const PREFIX: &str = "duramen_functions_";

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident: $kind:literal,)+) => {
        /// Counters since the worker began, and gauges.
        #[derive(Debug, Default)]
        pub struct Metrics {
            $($(#[doc = $doc])+ pub $name: AtomicU64,)+
            /// How long things take.
            pub times: Times,
        }

        impl Metrics {
            /// The text exposition format of Prometheus, version 0.0.4.
            #[must_use]
            pub fn prometheus(&self) -> String {
                let mut text = String::new();
                $(
                    let help = [$($doc),+].concat();
                    let name = head(&mut text, stringify!($name), $kind, &help);
                    // Writing to a string does not fail.
                    let _ = writeln!(text, "{name} {}", self.$name.load(Ordering::Relaxed));
                )+
                self.times.write(&mut text);
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
    /// Activities that began once more, because the worker or the session that ran them was lost, or the database refused.
    repeated_activities_total: "counter",
    /// Attempts of df.retry that failed and are made again.
    retries_total: "counter",
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
    /// Times that the database could not be asked what waits, for whoever reads these figures.
    failed_backlogs_total: "counter",
    /// Spans that a collector of traces has taken.
    spans_total: "counter",
    /// Spans that were dropped: the collector refused them, was away for too long, or is too slow.
    dropped_spans_total: "counter",
    /// Activities that run now.
    running_activities: "gauge",
    /// Lanes that are in a turn now.
    busy_lanes: "gauge",
    /// Lanes there are.
    lanes: "gauge",
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

/// One that counts up for as long as it lives.
pub(crate) struct Busy<'a>(&'a AtomicU64);

impl<'a> Busy<'a> {
    pub(crate) fn begins(gauge: &'a AtomicU64) -> Self {
        gauge.fetch_add(1, Ordering::Relaxed);
        Self(gauge)
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Writes what stands above the lines of a metric; its full name.
pub(crate) fn head(text: &mut String, name: &str, kind: &str, help: &str) -> String {
    let name = format!("{PREFIX}{name}");
    // Writing to a string does not fail.
    let _ = writeln!(text, "# HELP {name} {}\n# TYPE {name} {kind}", help.trim());
    name
}

/// How long things take.
#[derive(Debug, Default)]
pub struct Times {
    /// From the start to the end of instances that completed.
    pub completed: Histogram,
    /// Of those that failed.
    pub failed: Histogram,
    /// Of those that were cancelled.
    pub cancelled: Histogram,
    /// From the start of an instance to its first turn, or to when its queue let it in.
    pub waited: Histogram,
    /// Steps in turns.
    pub step_in_turn: Histogram,
    /// Steps outside of turns.
    pub activity: Histogram,
    /// Turns that took at least one instance.
    pub turn: Histogram,
}

impl Times {
    /// A round of steps in a turn: what each took alone only the server knows, so that they share the time equally.
    pub(crate) fn round(&self, took: Duration, steps: usize) {
        if let Some(each) = u32::try_from(steps).ok().and_then(|steps| took.checked_div(steps)) {
            self.step_in_turn.record_many(each, steps);
        }
    }

    fn write(&self, text: &mut String) {
        let mut family = |name: &str, help: &str, histograms: &[(&str, &Histogram)]| {
            let name = head(text, name, "histogram", help);
            for (label, histogram) in histograms {
                histogram.write(text, &name, label);
            }
        };
        family(
            "instance_seconds",
            "From the start of an instance to its end, by how it ended.",
            &[
                ("status=\"completed\"", &self.completed),
                ("status=\"failed\"", &self.failed),
                ("status=\"cancelled\"", &self.cancelled),
            ],
        );
        family(
            "wait_seconds",
            "From the start of an instance to its first turn, or to when its queue let it in; with delays that were asked for.",
            &[("", &self.waited)],
        );
        family(
            "step_seconds",
            "Steps, in turns (a round's time divided by its steps) and outside of them (with the commit).",
            &[("place=\"turn\"", &self.step_in_turn), ("place=\"activity\"", &self.activity)],
        );
        family("turn_seconds", "Turns that took at least one instance.", &[("", &self.turn)]);
    }
}
