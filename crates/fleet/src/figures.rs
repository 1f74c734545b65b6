//! What a node counts of etcd.

use prometheus_client::{
    metrics::{
        counter::Counter,
        family::Family,
        histogram::{exponential_buckets, Histogram},
    },
    registry::{Registry, Unit},
};
use std::time::Duration;

type Labels = [(&'static str, &'static str); 1];

/// What a node counts of etcd.
#[derive(Debug, Clone)]
pub(crate) struct Figures {
    requests: Family<Labels, Histogram>,
    freed_late: Counter,
}

impl Default for Figures {
    fn default() -> Figures {
        // From half a millisecond to two seconds.
        let short = || Histogram::new(exponential_buckets(0.0005, 2.0, 13));
        Figures { requests: Family::new_with_constructor(short), freed_late: Counter::default() }
    }
}

impl Figures {
    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register_with_unit(
            "fleet_etcd_request",
            "Requests to etcd until their answer, or until they were given up",
            Unit::Seconds,
            self.requests.clone(),
        );
        registry.register(
            "fleet_names_freed_late",
            "Names of branches that had ended which etcd freed only at a later try",
            self.freed_late.clone(),
        );
    }

    /// A request that was answered, or was not.
    pub(crate) fn asked(&self, took: Duration, answered: bool) {
        let outcome = if answered { "answered" } else { "failed" };
        self.requests.get_or_create(&[("outcome", outcome)]).observe(took.as_secs_f64());
    }

    /// A name that was freed at a later try.
    pub(crate) fn freed_late(&self) {
        self.freed_late.inc();
    }
}
