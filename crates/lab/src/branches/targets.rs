//! The targets: what each figure must reach, and what the published reference reached. Set before measuring.
//!
//! The targets are for two cores with the load generator on the same machine; the reference had eight. A figure
//! that was taken under another load than its target is shown, and is said to be unlike it rather than to meet
//! it.

use duramen_measure::evidence::{Evidence, Measurement};
use duramen_measure::target::{self, Outcome, Standing};

use super::options::Runner;

/// Which figure of a distribution a target is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Percentile {
    /// The median.
    P50,
    /// The 95th percentile.
    P95,
}

impl Percentile {
    /// Its name, as evidence has it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Percentile::P50 => "p50",
            Percentile::P95 => "p95",
        }
    }

    /// Its value.
    pub(crate) fn value(self, measurement: &Measurement) -> f64 {
        match self {
            Percentile::P50 => measurement.p50,
            Percentile::P95 => measurement.p95,
        }
    }
}

/// Which runs a target is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Load {
    /// All.
    Any,
    /// A hundred clients at once, which are no programs of others: those take the processors from what is measured.
    Hundred,
    /// A hundred clients at once, queries through the resident sessions.
    HundredInSession,
    /// Pools of a thousand.
    Thousand,
    /// Two sizes of a source.
    TwoSizes,
}

/// Where the figure of a target is found, and which runs it is for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Figure {
    percentile: Percentile,
    /// Under which write only; `None`: under every other.
    write: Option<&'static str>,
    load: Load,
}

type Target = target::Target<Figure>;

const fn most(measurement: &'static str, limit: f64, unit: &'static str) -> Target {
    Target::most(
        measurement,
        Figure { percentile: Percentile::P95, write: None, load: Load::Hundred },
        limit,
        unit,
    )
}

const fn median(target: Target) -> Target {
    Target { figure: Figure { percentile: Percentile::P50, ..target.figure }, ..target }
}

const fn under(write: &'static str, target: Target) -> Target {
    Target { figure: Figure { write: Some(write), ..target.figure }, ..target }
}

const fn load(load: Load, target: Target) -> Target {
    Target { figure: Figure { load, ..target.figure }, ..target }
}

/// All targets. Of several for one measurement, the first that fits the write counts.
pub(crate) const TARGETS: &[Target] = &[
    most("lease_ms", 4.0, "ms").beside(91.0),
    load(Load::HundredInSession, most("first_query_ms", 10.0, "ms").beside(28.7)),
    load(Load::HundredInSession, most("second_query_ms", 8.0, "ms").beside(12.7)),
    under("events", load(Load::HundredInSession, most("write_ms", 20.0, "ms").beside(95.6))),
    under("ddl", load(Load::HundredInSession, most("write_ms", 120.0, "ms").beside(297.0))),
    under("ddl", most("destroy_ms", 10.0, "ms").beside(177.0)),
    most("destroy_ms", 10.0, "ms").beside(134.0),
    under("events", load(Load::HundredInSession, most("wall_ms", 150.0, "ms").beside(327.0))),
    under("ddl", most("refill_ms", 2_000.0, "ms").beside(8_300.0)),
    most("refill_ms", 1_500.0, "ms").beside(3_930.0),
    load(Load::Hundred, most("wire_first_query_ms", 150.0, "ms")),
    load(Load::Hundred, most("router_first_query_ms", 40.0, "ms").beside(183.0)),
    load(Load::Any, median(most("cpu_per_branch_ms", 25.0, "ms"))),
    load(Load::Any, median(most("cold_branch_ms", 35.0, "ms").beside(115.0))),
    load(Load::Any, most("idle_branch_pss_bytes", 7e6, "bytes")),
    load(Load::TwoSizes, median(most("scale_lease_p50_ratio", 1.2, "ratio"))),
    load(Load::TwoSizes, median(most("scale_lease_p95_ratio", 1.2, "ratio"))),
    load(Load::TwoSizes, median(most("scale_first_query_p50_ratio", 1.2, "ratio"))),
    load(Load::TwoSizes, median(most("scale_first_query_p95_ratio", 1.2, "ratio"))),
    load(Load::Thousand, median(most("pool_warm_ms", 30_000.0, "ms"))),
    load(Load::Thousand, median(most("pool_pss_bytes", 8e9, "bytes"))),
];

/// What of a run decides which targets it is held against.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Setup {
    /// The write.
    pub(crate) write: String,
    /// The runner.
    pub(crate) runner: String,
    /// Clients at once.
    pub(crate) concurrency: u64,
    /// The pool's size.
    pub(crate) pool: u64,
    /// How many sizes of a source are compared.
    pub(crate) sizes: usize,
}

impl Setup {
    /// Reads it from the configuration of an evidence document.
    pub(crate) fn read(evidence: &Evidence) -> Setup {
        let text = |name: &str| evidence.text_set(name).unwrap_or_default().to_owned();
        let number = |name: &str| evidence.count_set(name).unwrap_or(0);
        Setup {
            write: text("write"),
            runner: text("runner"),
            concurrency: number("concurrency"),
            pool: number("pool"),
            sizes: evidence.config.get("scale").and_then(|sizes| sizes.as_array()).map_or(0, Vec::len),
        }
    }

    fn is_like(&self, load: Load) -> bool {
        match load {
            Load::Any => true,
            Load::Hundred => {
                let programs = [Runner::Psql, Runner::NodePg].map(Runner::name);
                self.concurrency == 100 && !programs.contains(&self.runner.as_str())
            }
            Load::HundredInSession => self.concurrency == 100 && self.runner == "session",
            Load::Thousand => self.pool >= 1_000,
            Load::TwoSizes => self.sizes > 0,
        }
    }
}

/// Holds a run against every target that is for its write, in the order of [`TARGETS`].
pub(crate) fn standings(evidence: &Evidence) -> Vec<Standing> {
    let setup = Setup::read(evidence);
    let mut standings: Vec<Standing> = Vec::new();
    for target in TARGETS {
        let Figure { percentile, write, load } = target.figure;
        let fits = write.is_none_or(|write| write == setup.write);
        if !fits || standings.iter().any(|standing| standing.name == target.what) {
            continue;
        }
        let mut standing = match evidence.measurement(target.what) {
            None if !setup.is_like(load) => continue,
            None => target.without_figure(),
            Some(found) => target.hold(percentile.value(found)),
        };
        if standing.measured.is_some() && !setup.is_like(load) {
            standing.outcome = Outcome::OtherLoad;
        }
        standing.interval = evidence.interval(target.what);
        standing.name = target.what.to_owned();
        standing.what = format!("{}, {}", target.what, percentile.name());
        standings.push(standing);
    }
    standings
}

/// The limit of a measurement.
pub(crate) fn limit(measurement: &str) -> Option<f64> {
    TARGETS.iter().find(|target| target.what == measurement).map(|target| target.limit)
}

/// What the best published project reached of a measurement.
pub(crate) fn reference(measurement: &str) -> Option<f64> {
    TARGETS.iter().find(|target| target.what == measurement)?.reference
}
