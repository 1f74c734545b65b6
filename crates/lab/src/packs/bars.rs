//! The bars: what each figure must reach on two cores. Set before measuring.

use duramen_measure::evidence::{Evidence, Finding, Severity};

use crate::branches::bars::number;
use crate::rules::finding;

/// What a figure must not exceed, or with `at_least` not fall below.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bar {
    /// What it is about, in words.
    pub what: &'static str,
    /// The measurement whose median counts.
    pub name: &'static str,
    /// The measurement that it is divided into, if the bar is a factor.
    pub against: Option<&'static str>,
    /// What it must reach.
    pub limit: f64,
    /// Its unit.
    pub unit: &'static str,
    /// Whether more is better.
    pub at_least: bool,
    /// What the engine of the reference reached on such a machine.
    pub reference: Option<f64>,
}

const fn most(
    what: &'static str,
    name: &'static str,
    limit: f64,
    unit: &'static str,
    reference: Option<f64>,
) -> Bar {
    Bar { what, name, against: None, limit, unit, at_least: false, reference }
}

/// All bars.
pub const BARS: &[Bar] = &[
    most("write 1 M, CPU", "write_cpu_ms/1000000", 1_500.0, "ms", Some(8_700.0)),
    most("write 1 M, wall", "write_ms/1000000", 1_000.0, "ms", Some(6_900.0)),
    most("write 100k, CPU", "write_cpu_ms/100000", 120.0, "ms", Some(680.0)),
    most("write 10k, CPU", "write_cpu_ms/10000", 15.0, "ms", Some(90.0)),
    most("write 1k, CPU", "write_cpu_ms/1000", 4.0, "ms", Some(20.0)),
    most("file at 1 M", "file_bytes/1000000", 6e6, "bytes", Some(8_020_389.0)),
    most("peak memory at 1 M", "peak_rss_bytes/1000000", 400e6, "bytes", Some(3.1e9)),
    most("allocations at 1 M", "allocs/1000000", 25_000.0, "calls", Some(2_053_635.0)),
    most("read all 1 M, CPU", "read_cpu_ms/1000000", 400.0, "ms", Some(1_900.0)),
    most("cold open and the grants of one principal", "lookup_us/1000000", 5_000.0, "us", None),
    most("one incremental put", "put_one_us/1000000", 15.0, "us", Some(14.0)),
    most("c1z3: write 1 M, CPU", "c1z3.write_cpu_ms/1000000", 2_250.0, "ms", Some(8_700.0)),
    most("c1z3: write 1 M, wall", "c1z3.write_ms/1000000", 1_500.0, "ms", Some(6_900.0)),
    most("c1z3: file at 1 M", "c1z3.file_bytes/1000000", 9e6, "bytes", Some(8_020_389.0)),
    most("c1z3: read all 1 M, CPU", "c1z3.read_cpu_ms/1000000", 600.0, "ms", Some(1_900.0)),
    Bar {
        against: Some("sqlite.write_cpu_ms/1000000"),
        at_least: true,
        ..most("write 1 M, CPU of SQLite as a multiple", "write_cpu_ms/1000000", 8.0, "x", Some(6.7))
    },
];

/// A bar with what was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// The bar.
    pub bar: Bar,
    /// The figure.
    pub measured: f64,
}

impl Row {
    /// Whether the bar is met.
    #[must_use]
    pub fn is_met(&self) -> bool {
        if self.bar.at_least {
            self.measured >= self.bar.limit
        } else {
            self.measured <= self.bar.limit
        }
    }

    /// The limit in words.
    #[must_use]
    pub fn limit(&self) -> String {
        let sign = if self.bar.at_least { ">=" } else { "<=" };
        format!("{sign} {}", quantity(self.bar.limit, self.bar.unit))
    }
}

/// A figure with its unit.
#[must_use]
pub fn quantity(value: f64, unit: &str) -> String {
    match unit {
        "bytes" if value >= 1e5 => format!("{} MB", number(value / 1e6)),
        "bytes" => format!("{} kB", number(value / 1e3)),
        _ => format!("{} {unit}", number(value)),
    }
}

/// The bars of which there are figures.
#[must_use]
pub fn compare(evidence: &Evidence) -> Vec<Row> {
    let median =
        |name: &str| evidence.measurement(name).filter(|found| found.count > 0).map(|found| found.p50);
    let row = |bar: &Bar| {
        let own = median(bar.name)?;
        let measured = match bar.against {
            Some(other) => median(other)? / own.max(f64::MIN_POSITIVE),
            None => own,
        };
        Some(Row { bar: *bar, measured })
    };
    BARS.iter().filter_map(row).collect()
}

/// A finding for each bar that was missed.
#[must_use]
pub fn missed(evidence: &Evidence) -> Vec<Finding> {
    let text = |row: &Row| {
        let measured = quantity(row.measured, row.bar.unit);
        format!("{}: {measured} where {} was to be reached.", row.bar.what, row.limit())
    };
    let rows = compare(evidence).into_iter().filter(|row| !row.is_met());
    rows.map(|row| finding("bar_missed", Severity::Warning, Some(row.measured), text(&row))).collect()
}
