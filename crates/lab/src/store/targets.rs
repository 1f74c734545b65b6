//! The targets: what each figure must reach on two cores. Set before measuring.
//!
//! Those against other engines are not here: they need the others in the same run. A figure that was taken with
//! another amount of data than its target is for is shown, and is said to be unlike it rather than to meet it.

use duramen_measure::evidence::Evidence;
use duramen_measure::target::{self, Outcome, Standing};
use duramen_store::Durability::{self, Buffered, Memory, Strict};

use super::matrix::{Cell, Matrix};
use super::options::{ROWS, VECTORS};

/// Where the figure of a target is found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Source {
    /// The p50 of an operation at a level.
    At(&'static str, Durability),
    /// The worst p50 of an operation at all levels that were run.
    Worst(&'static str),
    /// The p50 of an operation, divided by that of another, the worse of memory and buffered.
    Ratio(&'static str, &'static str),
    /// The p50 of an operation at the level strict, divided by that of one sync at the same time.
    OverFloor(&'static str),
    /// The figure of an operation at the level strict, a 99.9th percentile, divided by that of all syncs of the floor in the run.
    TailOverFloor(&'static str),
    /// Operations per second of so many threads, divided by those of so many others.
    Threads(&'static str, u32, u32),
    /// Records in the log for each operation, at the level strict.
    Appends(&'static str),
}

/// How much data a target is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Any amount.
    Nothing,
    /// A million pairs.
    Rows,
    /// A hundred thousand vectors.
    Vectors,
}

/// Where the figure of a target is found, and how much data it is for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Figure {
    source: Source,
    needs: Needs,
}

type Target = target::Target<Figure>;

const fn most(what: &'static str, source: Source, limit: f64, unit: &'static str) -> Target {
    Target::most(what, Figure { source, needs: Needs::Rows }, limit, unit)
}

const fn needs(needs: Needs, target: Target) -> Target {
    Target { figure: Figure { needs, ..target.figure }, ..target }
}

const fn any(target: Target) -> Target {
    needs(Needs::Nothing, target)
}

const fn vectors(target: Target) -> Target {
    needs(Needs::Vectors, target)
}

const fn at_least(target: Target) -> Target {
    Target { at_least: true, ..target }
}

/// All targets.
pub(crate) const TARGETS: &[Target] = &[
    most("put, memory, p50", Source::At("kv.put.100B", Memory), 1.2, "us"),
    most("put, buffered, p50", Source::At("kv.put.100B", Buffered), 1.8, "us"),
    most(
        "put with a snapshot every 100 commits over put",
        Source::Ratio("kv.put.100B+snapshots", "kv.put.100B"),
        2.0,
        "ratio",
    ),
    at_least(most(
        "puts per second, strict, 32 threads over one",
        Source::Threads("kv.put.100B", 32, 1),
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
        "put p99.9 during a checkpoint, strict, over the p99.9 of one fdatasync",
        Source::TailOverFloor("kv.put.p999_during_checkpoint"),
        2.0,
        "ratio",
    ),
    most("get, p50", Source::Worst("kv.get.100B"), 0.9, "us"),
    at_least(most("gets per second, 2 threads over one", Source::Threads("kv.get.100B", 2, 1), 1.9, "ratio")),
    at_least(most("gets per second, 8 threads over 2", Source::Threads("kv.get.100B", 8, 2), 1.0, "ratio")),
    at_least(most("scan", Source::Worst("kv.scan"), 35e6, "rows/s")),
    most("range of 100, p50", Source::Worst("kv.range100"), 3.0, "us"),
    most("bulk load of 1 M", Source::Worst("kv.bulk_load"), 0.4, "s"),
    most("size after bulk load over raw", Source::Worst("kv.bulk_load.size_ratio"), 1.0, "ratio"),
    most("open after clean close", Source::Worst("open"), 1.0, "ms"),
    most("fork, memory, p50", Source::At("branch.fork", Memory), 1.0, "us"),
    most("log records of a durable fork", Source::Appends("branch.fork"), 1.0, "records"),
    most("log records of a durable delete", Source::Appends("branch.delete"), 1.0, "records"),
    most("diff of 1,000 changes in 1 M", Source::At("branch.diff.1000of1M", Memory), 2_000.0, "us"),
    most("merge of 1,000 changes in 1 M", Source::At("branch.merge.1000of1M", Memory), 6_000.0, "us"),
    any(most("event append, memory", Source::At("event.append", Memory), 2.5, "us")),
    any(most("events by type, 500 of 1,000", Source::Worst("event.by_type"), 100.0, "us")),
    any(most("json set at a path, memory", Source::At("json.set_path", Memory), 2.0, "us")),
    any(most("json get", Source::Worst("json.get"), 1.0, "us")),
    any(most("vector search, 10k x 128", Source::Worst("vector.search.10k128"), 200.0, "us")),
    vectors(most(
        "vector search, 100k x 128, changed fork",
        Source::Worst("vector.search.100k128"),
        1_200.0,
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

fn figure_of(matrix: &Matrix<'_>, target: &Target) -> Option<f64> {
    let p50 = |op: &str, level| matrix.cell(op, level).map(|cell| cell.figure.p50);
    let rate = |op: &str, threads: u32| {
        let cell = matrix.cells.iter().find(|cell| (cell.op, cell.threads) == (op, Some(threads)))?;
        cell.ops_per_s()
    };
    let worst = |values: Vec<f64>| {
        let worse = if target.at_least { f64::min } else { f64::max };
        values.into_iter().reduce(worse)
    };
    match target.figure.source {
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
        Source::TailOverFloor(op) => Some(p50(op, Strict)? / matrix.sync_floor_p999_us?.max(1e-3)),
        Source::Threads(op, threads, others) => Some(rate(op, threads)? / rate(op, others)?.max(1e-3)),
        Source::Appends(op) => matrix.cell(op, Strict)?.appends_per_op(),
    }
}

/// Holds a run against every target that it has a figure for, in the order of [`TARGETS`].
pub(crate) fn standings(evidence: &Evidence) -> Vec<Standing> {
    let matrix = Matrix::from_evidence(evidence);
    let standing = |target: &Target| {
        let measured = figure_of(&matrix, target)?;
        let is_like = match target.figure.needs {
            Needs::Nothing => true,
            Needs::Rows => evidence.count_set("rows") == Some(ROWS),
            Needs::Vectors => evidence.count_set("vectors") == Some(VECTORS),
        };
        let mut standing = target.hold(measured);
        if !is_like {
            standing.outcome = Outcome::OtherSize;
        }
        Some(standing)
    };
    TARGETS.iter().filter_map(standing).collect()
}
