//! What the engine counts, for whoever watches it.
//!
//! Names follow the conventions of Prometheus: totals, seconds, bytes. Labels have few values: sources, policies, codes of
//! errors; never names of branches, of which there is no end.

use crate::{
    engine::Engine,
    error::EngineError,
    model::{BranchView, FollowView, Policy, RefillReport},
};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric, LabelSetEncoder},
    metrics::{
        counter::{ConstCounter, Counter},
        family::Family,
        gauge::ConstGauge,
        histogram::{exponential_buckets, Histogram},
    },
    registry::{Registry, Unit},
};
use std::{
    fmt,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

/// Of a source, under a policy.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Pool {
    source: String,
    policy: Policy,
}

impl EncodeLabelSet for Pool {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        [("source", self.source.as_str()), ("policy", &self.policy.to_string())].encode(encoder)
    }
}

/// A histogram of what takes from half a millisecond to half a minute.
fn short() -> Histogram {
    Histogram::new(exponential_buckets(0.0005, 2.0, 17))
}

/// A histogram of what takes from a second to nine hours.
fn long() -> Histogram {
    Histogram::new(exponential_buckets(1.0, 2.0, 16))
}

type Labels = Vec<(&'static str, String)>;

/// What is counted as it happens.
#[derive(Debug)]
pub(crate) struct Metrics {
    leases: Family<Pool, Histogram>,
    refused: Family<Labels, Counter>,
    queries: Family<Labels, Histogram>,
    resets: Family<Labels, Histogram>,
    refills: Family<Labels, Histogram>,
    refilled: Family<Labels, Counter>,
    imports: Family<Labels, Histogram>,
    expired: Counter,
}

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics {
            leases: Family::new_with_constructor(short),
            refused: Family::default(),
            queries: Family::new_with_constructor(short),
            resets: Family::new_with_constructor(short),
            refills: Family::new_with_constructor(short),
            refilled: Family::default(),
            imports: Family::new_with_constructor(long),
            expired: Counter::default(),
        }
    }
}

/// `ok`, or the code of an error.
fn outcome<T>(result: &Result<T, EngineError>) -> String {
    result.as_ref().err().map_or("ok", |error| error.code).to_owned()
}

impl Metrics {
    /// A create that was answered.
    pub(crate) fn leased(&self, begin: Instant, result: &Result<BranchView, EngineError>) {
        match result {
            Ok(view) => {
                let pool = Pool { source: view.source.clone(), policy: view.policy };
                self.leases.get_or_create(&pool).observe(begin.elapsed().as_secs_f64());
            }
            Err(error) => {
                self.refused.get_or_create(&vec![("code", error.code.to_owned())]).inc();
            }
        }
    }

    /// A request for statements that was answered.
    pub(crate) fn queried<T>(&self, begin: Instant, result: &Result<T, EngineError>) {
        observe(&self.queries, "outcome", outcome(result), begin.elapsed());
    }

    /// A reset that ended.
    pub(crate) fn reset<T>(&self, begin: Instant, result: &Result<T, EngineError>) {
        observe(&self.resets, "outcome", outcome(result), begin.elapsed());
    }

    /// An import that ended.
    pub(crate) fn imported<T>(&self, begin: Instant, result: &Result<T, EngineError>) {
        observe(&self.imports, "outcome", outcome(result), begin.elapsed());
    }

    /// A refill that ended.
    pub(crate) fn refilled(&self, source: &str, report: &RefillReport) {
        let steps = [
            ("clone", report.clone_ms),
            ("start", report.start_ms),
            ("connect", report.connect_ms),
            ("total", report.total_ms),
        ];
        for (step, ms) in steps {
            // A pipelined refill has no steps of its own.
            if ms > 0.0 {
                observe(&self.refills, "step", step.to_owned(), Duration::from_secs_f64(ms / 1000.0));
            }
        }
        for (outcome, count) in [("ok", report.branches), ("failed", report.failed)] {
            let labels = vec![("source", source.to_owned()), ("outcome", outcome.to_owned())];
            self.refilled.get_or_create(&labels).inc_by(u64::from(count));
        }
    }

    /// A lease whose time was over.
    pub(crate) fn expired(&self) {
        self.expired.inc();
    }

    fn register(&self, registry: &mut Registry) {
        registry.register_with_unit(
            "lease",
            "From asking for a branch to having it",
            Unit::Seconds,
            self.leases.clone(),
        );
        registry.register(
            "leases_refused",
            "Branches that were asked for and not given",
            self.refused.clone(),
        );
        registry.register(
            "leases_expired",
            "Leases that ended because their time was over",
            self.expired.clone(),
        );
        registry.register_with_unit(
            "query",
            "Requests for statements through the daemon, with their waiting",
            Unit::Seconds,
            self.queries.clone(),
        );
        registry.register_with_unit("reset", "Resets of branches", Unit::Seconds, self.resets.clone());
        registry.register_with_unit(
            "refill",
            "Refills of pools, whole and by step",
            Unit::Seconds,
            self.refills.clone(),
        );
        registry.register("pool_branches_made", "Branches that refills made", self.refilled.clone());
        registry.register_with_unit("import", "Imports of sources", Unit::Seconds, self.imports.clone());
    }
}

fn observe(family: &Family<Labels, Histogram>, label: &'static str, value: String, took: Duration) {
    family.get_or_create(&vec![(label, value)]).observe(took.as_secs_f64());
}

/// What is looked up when it is asked for.
#[derive(Debug)]
struct Present(Weak<Engine>);

impl Engine {
    /// Adds what the engine counts to what is told to whoever watches.
    pub fn register_metrics(self: &Arc<Self>, registry: &mut Registry) {
        self.shared.metrics.register(registry);
        registry.register_collector(Box::new(Present(Arc::downgrade(self))));
    }
}

/// Writes one gauge for each of `values`.
fn gauges<L: EncodeLabelSet>(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help, unit): (&str, &str, Option<&Unit>),
    values: impl IntoIterator<Item = (L, u64)>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, unit, ConstGauge::<i64>::new(0).metric_type())?;
    for (labels, value) in values {
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

/// How far sources are that follow their origin, and what is kept of their past.
fn followed(encoder: &mut DescriptorEncoder<'_>, engine: &Engine) -> fmt::Result {
    let shared = &engine.shared;
    let views: Vec<(String, FollowView)> = shared
        .registry
        .sources()
        .into_iter()
        .filter_map(|record| {
            let view = shared.follow_view(&record.name, &record.settings.follow)?;
            Some((record.name, view))
        })
        .collect();
    let of_each = |value: &dyn Fn(&FollowView) -> Option<u64>| -> Vec<([(&'static str, String); 1], u64)> {
        let known = views.iter().filter_map(|(name, view)| Some(([("source", name.clone())], value(view)?)));
        known.collect()
    };
    let lag = "What the origin of a source that follows it has written and its standby lacks";
    gauges(encoder, ("follow_lag", lag, Some(&Unit::Bytes)), of_each(&|view| view.lag_bytes))?;
    let since = "For how long the standby of a source has lacked something that its origin wrote";
    gauges(encoder, ("follow_lag", since, Some(&Unit::Seconds)), of_each(&|view| view.lag_s))?;
    let streams = "1 if the standby of a source receives what its origin writes, or archives";
    let is_streaming = of_each(&|view| Some(u64::from(["streaming", "replaying"].contains(&&*view.state))));
    gauges(encoder, ("follow_streaming", streams, None), is_streaming)?;
    let kept = "The write-ahead log that is kept for branches of the past";
    gauges(
        encoder,
        ("history_kept", kept, Some(&Unit::Bytes)),
        of_each(&|view| Some(view.history.as_ref()?.bytes)),
    )?;
    let span = "From the earliest to the latest moment of the past of which branches can be made";
    let covered = of_each(&|view| {
        let history = view.history.as_ref()?;
        let span = history.until?.duration_since(history.from?);
        Some(u64::try_from(span.as_secs()).unwrap_or_default())
    });
    gauges(encoder, ("history_span", span, Some(&Unit::Seconds)), covered)
}

impl Collector for Present {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(engine) = self.0.upgrade() else { return Ok(()) };
        let shared = &engine.shared;
        let status = engine.status();
        let alone: [(&str, &str); 0] = [];
        let one = |value: u64| [(alone, value)];
        let encoder = &mut encoder;
        gauges(encoder, ("leases_held", "Branches that are leased", None), one(status.leases.into()))?;
        let limit = one(status.limits.leases.into());
        gauges(encoder, ("leases_limit", "Leases that the machine bears", None), limit)?;
        let pools = |value: fn(&crate::model::PoolView) -> u32| {
            status.pools.iter().map(move |pool| {
                let labels = Pool { source: pool.source.clone(), policy: pool.policy };
                (labels, u64::from(value(pool)))
            })
        };
        gauges(encoder, ("pool_hot", "Branches that are ready", None), pools(|pool| pool.hot))?;
        gauges(encoder, ("pool_target", "Branches that should be ready", None), pools(|pool| pool.target))?;
        gauges(
            encoder,
            ("pool_waiting", "Requests that wait for a branch", None),
            pools(|pool| pool.waiting),
        )?;
        gauges(encoder, ("pool_cold", "Clones that are not started yet", None), one(status.cold.into()))?;
        gauges(
            encoder,
            ("branches_to_delete", "Branches that wait to be deleted", None),
            one(status.to_delete.into()),
        )?;
        let is_settled = one(u64::from(status.settled));
        gauges(
            encoder,
            ("settled", "1 if every pool is full and nothing waits to be deleted", None),
            is_settled,
        )?;
        gauges(
            encoder,
            ("pool_failed", "1 if a pool could not be filled", None),
            one(u64::from(status.pool_error.is_some())),
        )?;
        gauges(
            encoder,
            ("warnings", "What the operator has to look at; `duramen status` tells it", None),
            one(status.warnings.len() as u64),
        )?;
        followed(encoder, &engine)?;
        let store = &shared.environment.store;
        let mut sizes = vec![("total", store.total_bytes())];
        sizes.extend(store.free_bytes().ok().map(|free| ("free", free)));
        let sizes = sizes.into_iter().map(|(kind, bytes)| ([("kind", kind)], bytes));
        gauges(encoder, ("volumes", "The volume store", Some(&Unit::Bytes)), sizes)?;
        let mut memory = Vec::new();
        memory.extend(duramen_postgres::memory_total().map(|bytes| ("total", bytes)));
        memory.extend(duramen_postgres::memory_available().map(|bytes| ("available", bytes)));
        let memory = memory.into_iter().map(|(kind, bytes)| ([("kind", kind)], bytes));
        gauges(encoder, ("machine_memory", "The machine's memory", Some(&Unit::Bytes)), memory)?;
        let (entries, is_whole) = shared.audit.written();
        let counter = ConstCounter::new(entries);
        let of = encoder.encode_descriptor(
            "audit_entries",
            "Entries of the audit log",
            None,
            counter.metric_type(),
        )?;
        counter.encode(of)?;
        gauges(
            encoder,
            ("audit_failed", "1 if the audit log cannot be written", None),
            one(u64::from(!is_whole)),
        )
    }
}
