//! The bars: what each figure must reach, and what the published reference reached. Set before measuring.
//!
//! The bars are for two cores with the load generator on the same machine; the reference had eight. A figure
//! that was taken under another load than its bar is shown, and is said to be unlike it rather than to meet
//! it.

use duramen_measure::evidence::{Evidence, Finding, Measurement, Severity};
use serde_json::Value;

use crate::rules::finding;

/// Which figure of a distribution a bar is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Percentile {
    /// The median.
    P50,
    /// The 95th percentile.
    P95,
}

impl Percentile {
    /// Its name, as evidence has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Percentile::P50 => "p50",
            Percentile::P95 => "p95",
        }
    }

    /// Its value.
    #[must_use]
    pub fn of(self, measurement: &Measurement) -> f64 {
        match self {
            Percentile::P50 => measurement.p50,
            Percentile::P95 => measurement.p95,
        }
    }
}

/// Which runs a bar is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// All.
    Any,
    /// A hundred clients at once.
    Hundred,
    /// A hundred clients at once, queries through the resident sessions.
    HundredInSession,
    /// Pools of a thousand.
    Thousand,
}

/// What a figure must reach.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bar {
    /// The measurement.
    pub measurement: &'static str,
    /// Its figure that counts.
    pub percentile: Percentile,
    /// What it must not exceed.
    pub limit: f64,
    /// The unit of the limit.
    pub unit: &'static str,
    /// What the reference reached, at the same percentile, in the same unit.
    pub reference: Option<f64>,
    /// Under which write only; `None`: under every other.
    pub write: Option<&'static str>,
    /// Under which load.
    pub load: Load,
}

const fn bar(measurement: &'static str, limit: f64, unit: &'static str, reference: Option<f64>) -> Bar {
    Bar { measurement, percentile: Percentile::P95, limit, unit, reference, write: None, load: Load::Hundred }
}

const fn at(percentile: Percentile, bar: Bar) -> Bar {
    Bar { percentile, ..bar }
}

const fn under(write: &'static str, bar: Bar) -> Bar {
    Bar { write: Some(write), ..bar }
}

const fn load(load: Load, bar: Bar) -> Bar {
    Bar { load, ..bar }
}

/// All bars. Of several for one measurement, the first that fits the write counts.
pub const BARS: &[Bar] = &[
    bar("lease_ms", 5.0, "ms", Some(91.0)),
    load(Load::HundredInSession, bar("first_query_ms", 10.0, "ms", Some(28.7))),
    load(Load::HundredInSession, bar("second_query_ms", 8.0, "ms", Some(12.7))),
    under("events", load(Load::HundredInSession, bar("write_ms", 25.0, "ms", Some(95.6)))),
    under("ddl", load(Load::HundredInSession, bar("write_ms", 300.0, "ms", Some(297.0)))),
    under("ddl", bar("destroy_ms", 10.0, "ms", Some(177.0))),
    bar("destroy_ms", 10.0, "ms", Some(134.0)),
    under("events", load(Load::HundredInSession, bar("wall_ms", 150.0, "ms", Some(327.0)))),
    under("ddl", bar("refill_ms", 3_000.0, "ms", Some(8_300.0))),
    bar("refill_ms", 2_000.0, "ms", Some(3_930.0)),
    load(Load::Any, at(Percentile::P50, bar("cpu_per_branch_ms", 25.0, "ms", None))),
    load(Load::Any, at(Percentile::P50, bar("cold_branch_ms", 35.0, "ms", Some(115.0)))),
    load(Load::Any, bar("idle_branch_pss_bytes", 7e6, "bytes", None)),
    load(Load::Any, at(Percentile::P50, bar("scale_ratio", 1.5, "ratio", None))),
    load(Load::Thousand, at(Percentile::P50, bar("pool_warm_ms", 30_000.0, "ms", None))),
    load(Load::Thousand, at(Percentile::P50, bar("pool_pss_bytes", 8e9, "bytes", None))),
];

/// What of a run decides which bars it is held against.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    /// The write.
    pub write: String,
    /// The runner.
    pub runner: String,
    /// Clients at once.
    pub concurrency: u64,
    /// The pool's size.
    pub pool: u64,
}

impl Setup {
    /// Reads it from the configuration of an evidence document.
    #[must_use]
    pub fn of(evidence: &Evidence) -> Setup {
        let text =
            |name: &str| evidence.config.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let number = |name: &str| evidence.config.get(name).and_then(Value::as_u64).unwrap_or(0);
        Setup {
            write: text("write"),
            runner: text("runner"),
            concurrency: number("concurrency"),
            pool: number("pool"),
        }
    }

    fn is_like(&self, load: Load) -> bool {
        match load {
            Load::Any => true,
            Load::Hundred => self.concurrency == 100,
            Load::HundredInSession => self.concurrency == 100 && self.runner == "session",
            Load::Thousand => self.pool >= 1_000,
        }
    }
}

/// How a figure stands to its bar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It does not exceed it.
    Met,
    /// It exceeds it.
    Missed,
    /// It was taken under another load.
    Unlike,
    /// There is no figure.
    NotMeasured,
}

impl Outcome {
    /// The word in tables.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Outcome::Met => "met",
            Outcome::Missed => "missed",
            Outcome::Unlike => "other load",
            Outcome::NotMeasured => "not measured",
        }
    }
}

/// A bar with the figure that is held against it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
    /// The bar.
    pub bar: Bar,
    /// The figure.
    pub measured: Option<f64>,
    /// How it stands.
    pub outcome: Outcome,
}

impl Row {
    /// A missed bar in words: by how much, and what the reference reached.
    #[must_use]
    pub fn sentence(&self) -> String {
        let Bar { measurement, percentile, limit, unit, reference, .. } = self.bar;
        let Some(measured) = self.measured else {
            return format!("{measurement} was not measured.");
        };
        let over = (measured / limit - 1.0) * 100.0;
        let reference = match reference {
            Some(reference) if measured > reference => {
                format!(" That is worse than the reference, which reached {}.", quantity(reference, unit))
            }
            Some(reference) => format!(" The reference reached {}.", quantity(reference, unit)),
            None => String::new(),
        };
        let stands = if measured > limit { format!("{over:.0} % over") } else { "within".to_owned() };
        format!(
            "{measurement} {} is {}, {stands} the bar of {}.{reference}",
            percentile.name(),
            quantity(measured, unit),
            quantity(limit, unit)
        )
    }
}

/// Holds a run against every bar that is for its write, in the order of [`BARS`].
#[must_use]
pub fn compare(evidence: &Evidence) -> Vec<Row> {
    let setup = Setup::of(evidence);
    let mut rows: Vec<Row> = Vec::new();
    for bar in BARS {
        let fits = bar.write.is_none_or(|write| write == setup.write);
        if !fits || rows.iter().any(|row| row.bar.measurement == bar.measurement) {
            continue;
        }
        let measured = evidence.measurement(bar.measurement).map(|m| bar.percentile.of(m));
        let outcome = match measured {
            None if !setup.is_like(bar.load) => continue,
            None => Outcome::NotMeasured,
            Some(_) if !setup.is_like(bar.load) => Outcome::Unlike,
            Some(measured) if measured <= bar.limit => Outcome::Met,
            Some(_) => Outcome::Missed,
        };
        rows.push(Row { bar: *bar, measured, outcome });
    }
    rows
}

/// A finding for every bar that was missed.
#[must_use]
pub fn missed(evidence: &Evidence) -> Vec<Finding> {
    let rows = compare(evidence).into_iter().filter(|row| row.outcome == Outcome::Missed);
    rows.map(|row| finding("bar_missed", Severity::Warning, row.measured, row.sentence())).collect()
}

/// A value with its unit, as people read it: memory in decimal megabytes or gigabytes, ratios bare.
#[must_use]
pub fn quantity(value: f64, unit: &str) -> String {
    match unit {
        "bytes" if value >= 1e9 => format!("{} GB", number(value / 1e9)),
        "bytes" => format!("{} MB", number(value / 1e6)),
        "ratio" => number(value),
        _ => format!("{} {unit}", number(value)),
    }
}

/// A number with about three significant digits.
#[must_use]
pub fn number(value: f64) -> String {
    let digits = match value.abs() {
        m if m >= 100.0 => 0,
        m if m >= 10.0 => 1,
        m if m >= 1.0 => 2,
        _ => 3,
    };
    let text = format!("{value:.digits$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}
