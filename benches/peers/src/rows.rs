//! The rows: what is measured, in which units, and which way is better.

mod puts;
mod reads;
mod strict;

use crate::bench::Bench;
use crate::engine::{Done, Kind, Level};

/// Which values win.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Better {
    /// Smaller ones.
    Less,
    /// Greater ones.
    More,
    /// None: the value is there to judge others by.
    Neither,
}

/// One figure of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Metric {
    /// Its name in the table and, with the engine's after a slash, in the JSON file.
    pub(crate) name: &'static str,
    /// The unit of its values.
    pub(crate) unit: &'static str,
    /// Which values win.
    pub(crate) better: Better,
    /// Whether the table shows it; the JSON file has all.
    pub(crate) shown: bool,
}

/// A figure of which less is better.
pub(crate) const fn less(name: &'static str, unit: &'static str) -> Metric {
    Metric { name, unit, better: Better::Less, shown: true }
}

/// A figure of which more is better.
pub(crate) const fn more(name: &'static str, unit: &'static str) -> Metric {
    Metric { name, unit, better: Better::More, shown: true }
}

const fn tail(name: &'static str) -> Metric {
    Metric { name, unit: "us", better: Better::Less, shown: false }
}

const fn floor(name: &'static str) -> Metric {
    Metric { name, unit: "us", better: Better::Neither, shown: true }
}

/// One piece of work. The values of a run are in the order of `metrics`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    /// What `--only` selects by.
    pub(crate) name: &'static str,
    /// What it tells.
    pub(crate) metrics: &'static [Metric],
    /// The level that an engine must have for it.
    pub(crate) level: Level,
    run: fn(&Bench, Kind, u64) -> Done<Vec<f64>>,
}

impl Row {
    /// Does the work once. `round` is the number of the repetition; data drawn at random differs between
    /// rounds and is the same for all engines within one.
    pub(crate) fn run(&self, bench: &Bench, kind: Kind, round: u64) -> Done<Vec<f64>> {
        let values = (self.run)(bench, kind, round)?;
        assert_eq!(values.len(), self.metrics.len(), "row {} returns one value for each metric", self.name);
        Ok(values)
    }
}

/// All rows in the order in which they are run: those that change the loaded store are last.
pub(crate) const ALL: [Row; 11] = [
    Row {
        name: "bulk_load",
        metrics: &[less("bulk_load", "s"), less("bulk_load file/raw", "x")],
        level: Level::Strict,
        run: reads::bulk_load,
    },
    Row { name: "open", metrics: &[less("open", "ms")], level: Level::Strict, run: reads::open },
    Row {
        name: "get",
        metrics: &[less("get p50", "us"), tail("get p99")],
        level: Level::Strict,
        run: reads::get,
    },
    Row { name: "scan", metrics: &[more("scan", "M rows/s")], level: Level::Strict, run: reads::scan },
    Row {
        name: "range100",
        metrics: &[less("range100 p50", "us"), tail("range100 p99")],
        level: Level::Strict,
        run: reads::range100,
    },
    Row {
        name: "put_memory",
        metrics: &[less("put_memory p50", "us"), tail("put_memory p99"), more("put_memory", "k/s")],
        level: Level::Memory,
        run: puts::memory,
    },
    Row {
        name: "put_buffered",
        metrics: &[less("put_buffered p50", "us"), tail("put_buffered p99"), more("put_buffered", "k/s")],
        level: Level::Buffered,
        run: puts::buffered,
    },
    Row {
        name: "put_buffered_snapshots",
        metrics: &[
            less("put_buffered_snapshots p50", "us"),
            tail("put_buffered_snapshots p99"),
            more("put_buffered_snapshots", "k/s"),
        ],
        level: Level::Buffered,
        run: puts::buffered_snapshots,
    },
    Row {
        name: "put_strict_1",
        metrics: &[
            floor("put_strict_1 sync floor"),
            less("put_strict_1 p50", "us"),
            tail("put_strict_1 p99"),
            more("put_strict_1", "k/s"),
        ],
        level: Level::Strict,
        run: |bench, kind, round| strict::run(bench, kind, round, 1),
    },
    Row {
        name: "put_strict_8",
        metrics: &[
            floor("put_strict_8 sync floor"),
            Metric { shown: false, ..less("put_strict_8 p50", "us") },
            tail("put_strict_8 p99"),
            more("put_strict_8", "k/s"),
        ],
        level: Level::Strict,
        run: |bench, kind, round| strict::run(bench, kind, round, 8),
    },
    Row {
        name: "put_strict_32",
        metrics: &[
            floor("put_strict_32 sync floor"),
            Metric { shown: false, ..less("put_strict_32 p50", "us") },
            tail("put_strict_32 p99"),
            more("put_strict_32", "k/s"),
        ],
        level: Level::Strict,
        run: |bench, kind, round| strict::run(bench, kind, round, 32),
    },
];

#[cfg(test)]
#[path = "../tests/unit/rows.rs"]
mod tests;
