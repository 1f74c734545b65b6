//! The bars: what each figure must reach on two cores. Set before measuring.
//!
//! Those against other engines are not here: they need the others in the same run. A figure that was taken with
//! another amount of data than its bar is for is shown, and is said to be unlike it rather than to meet it.

use duramen_measure::evidence::{Evidence, Finding, Severity};
use duramen_store::Durability::{self, Buffered, Memory, Strict};
use serde_json::Value;

use super::matrix::{Cell, Matrix};
use super::options::{ROWS, VECTORS};

use crate::rules::finding;

pub use crate::branches::bars::{number, Outcome};

/// Where the figure of a bar is found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Source {
    /// The p50 of an operation at a level.
    At(&'static str, Durability),
    /// The worst p50 of an operation at all levels that were run.
    Worst(&'static str),
    /// The p50 of an operation, divided by that of another, the worse of memory and buffered.
    Ratio(&'static str, &'static str),
    /// The p50 of an operation at the level strict, divided by that of one sync at the same time.
    OverFloor(&'static str),
    /// Operations per second of so many threads at the level strict, divided by those of one.
    Threads(&'static str, u32),
    /// Records in the log for each operation, at the level strict.
    Appends(&'static str),
}

/// How much data a bar is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// Any amount.
    Nothing,
    /// A million pairs.
    Rows,
    /// A hundred thousand vectors.
    Vectors,
}

/// What a figure must reach.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bar {
    /// What it is about, in words.
    pub what: &'static str,
    /// Where the figure is found.
    pub source: Source,
    /// What it must not exceed, or with `at_least` not fall below.
    pub limit: f64,
    /// Its unit.
    pub unit: &'static str,
    /// Whether more is better.
    pub at_least: bool,
    /// How much data it is for.
    pub needs: Needs,
}

const fn most(what: &'static str, source: Source, limit: f64, unit: &'static str) -> Bar {
    Bar { what, source, limit, unit, at_least: false, needs: Needs::Rows }
}

const fn any(bar: Bar) -> Bar {
    Bar { needs: Needs::Nothing, ..bar }
}

const fn vectors(bar: Bar) -> Bar {
    Bar { needs: Needs::Vectors, ..bar }
}

const fn at_least(bar: Bar) -> Bar {
    Bar { at_least: true, ..bar }
}

/// All bars.
pub const BARS: &[Bar] = &[
    most("put, memory, p50", Source::At("kv.put.100B", Memory), 1.5, "us"),
    most("put, buffered, p50", Source::At("kv.put.100B", Buffered), 2.2, "us"),
    most(
        "put with a snapshot every 100 commits over put",
        Source::Ratio("kv.put.100B+snapshots", "kv.put.100B"),
        3.0,
        "ratio",
    ),
    at_least(most(
        "puts per second, strict, 32 threads over one",
        Source::Threads("kv.put.100B", 32),
        5.0,
        "ratio",
    )),
    most("put, strict, over one fdatasync", Source::OverFloor("kv.put.100B"), 1.3, "ratio"),
    most(
        "put p99.9 during a checkpoint, memory",
        Source::At("kv.put.p999_during_checkpoint", Memory),
        5_000.0,
        "us",
    ),
    most(
        "put p99.9 during a checkpoint, buffered",
        Source::At("kv.put.p999_during_checkpoint", Buffered),
        5_000.0,
        "us",
    ),
    most(
        "put p99.9 during a checkpoint, strict",
        Source::At("kv.put.p999_during_checkpoint", Strict),
        5_000.0,
        "us",
    ),
    most("get, p50", Source::Worst("kv.get.100B"), 1.1, "us"),
    at_least(most("scan", Source::Worst("kv.scan"), 25e6, "rows/s")),
    most("range of 100, p50", Source::Worst("kv.range100"), 4.0, "us"),
    most("bulk load of 1 M", Source::Worst("kv.bulk_load"), 0.5, "s"),
    most("size after bulk load over raw", Source::Worst("kv.bulk_load.size_ratio"), 1.1, "ratio"),
    most("open after clean close", Source::Worst("open"), 20.0, "ms"),
    most("fork, memory, p50", Source::At("branch.fork", Memory), 1.0, "us"),
    most("log records of a durable fork", Source::Appends("branch.fork"), 1.0, "records"),
    most("log records of a durable delete", Source::Appends("branch.delete"), 1.0, "records"),
    most("diff of 1,000 changes in 1 M", Source::At("branch.diff.1000of1M", Memory), 3_000.0, "us"),
    most("merge of 1,000 changes in 1 M", Source::At("branch.merge.1000of1M", Memory), 10_000.0, "us"),
    any(most("event append, memory", Source::At("event.append", Memory), 3.0, "us")),
    any(most("events by type, 500 of 1,000", Source::Worst("event.by_type"), 100.0, "us")),
    any(most("json set at a path, memory", Source::At("json.set_path", Memory), 4.0, "us")),
    any(most("json get", Source::Worst("json.get"), 2.0, "us")),
    any(most("vector search, 10k x 128", Source::Worst("vector.search.10k128"), 350.0, "us")),
    vectors(most(
        "vector search, 100k x 128, changed fork",
        Source::Worst("vector.search.100k128"),
        1_500.0,
        "us",
    )),
    at_least(any(most("recall, 10k x 128", Source::Worst("vector.recall.10k128"), 1.0, "ratio"))),
    at_least(vectors(most(
        "recall, 100k x 128, changed fork",
        Source::Worst("vector.recall.100k128"),
        1.0,
        "ratio",
    ))),
];

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
    /// A missed bar in words.
    #[must_use]
    pub fn sentence(&self) -> String {
        let Bar { what, limit, unit, at_least, .. } = self.bar;
        let Some(measured) = self.measured else { return format!("{what}: not measured.") };
        let (side, off) =
            if at_least { ("below", 1.0 - measured / limit) } else { ("above", measured / limit - 1.0) };
        format!(
            "{what}: {}, {:.0} % {side} the bar of {}.",
            quantity(measured, unit),
            off * 100.0,
            quantity(limit, unit)
        )
    }

    /// The outcome as tables have it.
    #[must_use]
    pub fn word(&self) -> &'static str {
        if self.outcome == Outcome::Unlike {
            return "other size";
        }
        self.outcome.word()
    }

    /// The bar with its side, as a table shows it.
    #[must_use]
    pub fn limit(&self) -> String {
        let side = if self.bar.at_least { ">=" } else { "<=" };
        format!("{side} {}", quantity(self.bar.limit, self.bar.unit))
    }
}

/// A value with its unit: ratios with a times sign, rows in millions, long times in
/// milliseconds.
#[must_use]
pub fn quantity(value: f64, unit: &str) -> String {
    match unit {
        "ratio" => format!("{} x", number(value)),
        "rows/s" => format!("{} M rows/s", number(value / 1e6)),
        "us" if value >= 1e3 => format!("{} ms", number(value / 1e3)),
        _ => format!("{} {unit}", number(value)),
    }
}

fn figure_of(matrix: &Matrix<'_>, bar: &Bar) -> Option<f64> {
    let p50 = |op: &str, level| matrix.cell(op, level).map(|cell| cell.figure.p50);
    let rate = |op: &str, threads: u32| {
        let cell = matrix.cells.iter().find(|cell| (cell.op, cell.threads) == (op, Some(threads)))?;
        cell.ops_per_s()
    };
    let worst = |values: Vec<f64>| {
        let worse = if bar.at_least { f64::min } else { f64::max };
        values.into_iter().reduce(worse)
    };
    match bar.source {
        Source::At(op, level) => p50(op, level),
        Source::Worst(op) => {
            let is_it = |cell: &&Cell<'_>| cell.op == op && cell.threads.is_none();
            worst(matrix.cells.iter().filter(is_it).map(|cell| cell.figure.p50).collect())
        }
        Source::Ratio(op, base) => {
            let ratio = |level| Some(p50(op, level)? / p50(base, level)?.max(1e-3));
            worst([Memory, Buffered].into_iter().filter_map(ratio).collect())
        }
        Source::OverFloor(op) => {
            let cell = matrix.cell(op, Strict)?;
            let floor = cell.sync_floor().map_or(matrix.sync_floor_us, |floor| floor.p50);
            Some(cell.figure.p50 / floor.max(1e-3))
        }
        Source::Threads(op, threads) => Some(rate(op, threads)? / rate(op, 1)?.max(1e-3)),
        Source::Appends(op) => matrix.cell(op, Strict)?.appends_per_op(),
    }
}

/// Holds a run against every bar that it has a figure for, in the order of [`BARS`].
#[must_use]
pub fn compare(evidence: &Evidence) -> Vec<Row> {
    let matrix = Matrix::of(evidence);
    let set = |name: &str| evidence.config.get(name).and_then(Value::as_u64);
    let row = |bar: &Bar| {
        let measured = figure_of(&matrix, bar)?;
        let is_like = match bar.needs {
            Needs::Nothing => true,
            Needs::Rows => set("rows") == Some(ROWS),
            Needs::Vectors => set("vectors") == Some(VECTORS),
        };
        let holds = if bar.at_least { measured >= bar.limit } else { measured <= bar.limit };
        let outcome = match (is_like, holds) {
            (false, _) => Outcome::Unlike,
            (true, true) => Outcome::Met,
            (true, false) => Outcome::Missed,
        };
        Some(Row { bar: *bar, measured: Some(measured), outcome })
    };
    BARS.iter().filter_map(row).collect()
}

/// A finding for every bar that was missed.
#[must_use]
pub fn missed(evidence: &Evidence) -> Vec<Finding> {
    let rows = compare(evidence).into_iter().filter(|row| row.outcome == Outcome::Missed);
    rows.map(|row| finding("bar_missed", Severity::Warning, row.measured, row.sentence())).collect()
}
