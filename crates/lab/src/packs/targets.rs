//! The targets: what each figure must reach on two cores. Set before measuring.

use duramen_measure::evidence::Evidence;
use duramen_measure::target::{self, Standing};

/// Where the figure of a target is found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Figure {
    /// The measurement whose median counts.
    pub(crate) name: &'static str,
    /// The measurement that it is divided into, if the target is a factor.
    pub(crate) against: Option<&'static str>,
}

type Target = target::Target<Figure>;

const fn most(what: &'static str, name: &'static str, limit: f64, unit: &'static str) -> Target {
    Target::most(what, Figure { name, against: None }, limit, unit)
}

/// All targets.
pub(crate) const TARGETS: &[Target] = &[
    most("write 1 M, CPU", "write_cpu_ms/1000000", 1_500.0, "ms").beside(8_700.0),
    most("write 1 M, wall", "write_ms/1000000", 1_000.0, "ms").beside(6_900.0),
    most("write 100k, CPU", "write_cpu_ms/100000", 120.0, "ms").beside(680.0),
    most("write 10k, CPU", "write_cpu_ms/10000", 15.0, "ms").beside(90.0),
    most("write 1k, CPU", "write_cpu_ms/1000", 4.0, "ms").beside(20.0),
    most("file at 1 M", "file_bytes/1000000", 6e6, "bytes").beside(8_020_389.0),
    most("peak memory at 1 M", "peak_rss_bytes/1000000", 400e6, "bytes").beside(3.1e9),
    most("allocations at 1 M", "allocs/1000000", 25_000.0, "calls").beside(2_053_635.0),
    most("read all 1 M, CPU", "read_cpu_ms/1000000", 400.0, "ms").beside(1_900.0),
    most("cold open and the grants of one principal", "lookup_us/1000000", 5_000.0, "us"),
    most("one incremental put", "put_one_us/1000000", 15.0, "us").beside(14.0),
    most("c1z3: write 1 M, CPU", "c1z3.write_cpu_ms/1000000", 2_250.0, "ms").beside(8_700.0),
    most("c1z3: write 1 M, wall", "c1z3.write_ms/1000000", 1_500.0, "ms").beside(6_900.0),
    most("c1z3: file at 1 M", "c1z3.file_bytes/1000000", 9e6, "bytes").beside(8_020_389.0),
    most("c1z3: read all 1 M, CPU", "c1z3.read_cpu_ms/1000000", 600.0, "ms").beside(1_900.0),
    Target::least(
        "write 1 M, CPU of SQLite as a multiple",
        Figure { name: "write_cpu_ms/1000000", against: Some("sqlite.write_cpu_ms/1000000") },
        8.0,
        "x",
    )
    .beside(6.7),
];

/// The targets of which there are figures.
pub(crate) fn standings(evidence: &Evidence) -> Vec<Standing> {
    let standing = |target: &Target| {
        let Figure { name, against } = target.figure;
        let own = evidence.median(name)?;
        let measured = match against {
            Some(other) => evidence.median(other)? / own.max(f64::MIN_POSITIVE),
            None => own,
        };
        Some(Standing { name: name.to_owned(), ..target.hold(measured) })
    };
    TARGETS.iter().filter_map(standing).collect()
}
