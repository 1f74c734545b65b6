//! Rules over the matrix that notice what is odd, in words.

use duramen_measure::evidence::{Evidence, Finding, Severity};
use duramen_measure::target;
use duramen_store::Durability;

use super::checks::is_one_sync;
use super::matrix::{Cell, Matrix};
use super::ops::{Kind, Siblings};
use super::options::{ROWS, VECTORS};
use super::targets;
use duramen_base::words::number;

/// An operation that takes so many times the median of its siblings is an outlier.
const OUTLIER: f64 = 20.0;

/// What a buffered write may take longer than one in memory, in microseconds.
const BUFFERED_US: f64 = 2.0;

/// Writes that take longer than this in memory are not compared so finely.
const HEAVY_US: f64 = 50.0;

/// Latencies whose 95th percentile is so many times the median have two modes.
const TWO_MODES: f64 = 2.0;

/// A difference below this, in microseconds, is that of caches and of the clock, not of a mode.
const MODE_US: f64 = 1.0;

/// Fewer latencies than these have no 95th percentile to speak of.
const MODE_COUNT: u64 = 40;

/// A cost that becomes so many times as much when the log or the depth of branches does has grown with it.
const GROWTH: f64 = 2.0;

/// A growth below this, in microseconds, is that of caches.
const GROWTH_US: f64 = 1.0;

/// Operations that are fewer in a second than this may each meet a sync of the background, of which there are ten.
const RATE_MIN: f64 = 40.0;

/// A sync that is cheaper than this, in microseconds, is none: the levels cannot be told apart on such a disk.
const REAL_SYNC_US: f64 = 20.0;

/// Everything that the rules find.
#[must_use]
pub(crate) fn find(matrix: &Matrix<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    read_syncs_or_appends(matrix, &mut found);
    buffered_near_strict(matrix, &mut found);
    several_syncs_per_write(matrix, &mut found);
    outlier_among_siblings(matrix, &mut found);
    two_modes(matrix, &mut found);
    let log = Growth { rule: "grows_with_log_length", mark: "", unit: "events in the log" };
    log.look(matrix, &mut found);
    let depth = Growth { rule: "grows_with_branch_depth", mark: "depth", unit: "forks deep" };
    depth.look(matrix, &mut found);
    found
}

fn read_syncs_or_appends(matrix: &Matrix<'_>, found: &mut Vec<Finding>) {
    for cell in matrix.cells.iter().filter(|cell| cell.is(Kind::Read)) {
        let (appends, syncs) = (cell.appends_per_op().unwrap_or(0.0), cell.syncs_per_op().unwrap_or(0.0));
        if appends > 0.0 || syncs > 0.0 {
            let text = format!(
                "{} only reads, and yet each costs {} appends to the log and {} syncs. A read has nothing to make \
                 durable; look for bookkeeping on the way of reads.",
                cell.name(),
                number(appends),
                number(syncs)
            );
            found.push(Finding::new(
                "read_syncs_or_appends",
                Severity::Problem,
                Some(appends.max(syncs)),
                text,
            ));
        }
    }
}

fn buffered_near_strict(matrix: &Matrix<'_>, found: &mut Vec<Finding>) {
    let is_write = |cell: &&Cell<'_>| cell.level == Durability::Buffered && cell.is(Kind::Write);
    for buffered in matrix.cells.iter().filter(is_write) {
        let Some(strict) = matrix.cell(buffered.op, Durability::Strict) else { continue };
        let floor = strict.sync_floor().map_or(matrix.sync_floor_us, |floor| floor.p50);
        let (fast, slow) = (buffered.figure.p50, strict.figure.p50);
        // Counted, it is beyond doubt; but what takes long has the syncs of the background within it.
        let syncs = buffered.syncs_per_op().is_some_and(|syncs| syncs >= 0.5)
            && buffered.ops_per_s().is_none_or(|rate| rate > RATE_MIN);
        // What takes longer than a sync even in memory has a reason of its own to be as slow as strict.
        let memory = matrix.cell(buffered.op, Durability::Memory);
        let waits = memory.is_some_and(|memory| fast > memory.figure.p50 + floor / 2.0);
        // Beside work that takes ten syncs, the noise of the machine is more than a sync.
        let shows = floor >= REAL_SYNC_US && slow < 10.0 * floor;
        let is_near = shows && slow < 2.0 * fast && waits;
        if syncs || is_near {
            let text = format!(
                "{} takes {} us, strict {} us. Buffered is acknowledged when the operating system has the record, so \
                 it should not come near one sync ({} us); it has {} syncs for each.",
                buffered.name(),
                number(fast),
                number(slow),
                number(floor),
                number(buffered.syncs_per_op().unwrap_or(0.0))
            );
            found.push(Finding::new(
                "buffered_near_strict",
                Severity::Problem,
                Some(fast / slow.max(1e-9)),
                text,
            ));
        }
    }
}

/// A buffered write costs a write to the file above one in memory, not a wait for the disk.
fn buffered_above_memory(matrix: &Matrix<'_>, found: &mut Vec<Finding>) {
    let is_write = |cell: &&Cell<'_>| cell.level == Durability::Buffered && cell.is(Kind::Write);
    for buffered in matrix.cells.iter().filter(is_write) {
        let Some(memory) = matrix.cell(buffered.op, Durability::Memory) else { continue };
        let more = buffered.figure.p50 - memory.figure.p50;
        if memory.figure.p50 <= HEAVY_US && more > BUFFERED_US {
            let text = format!(
                "{} takes {} us, {} us more than in memory. One write to the log's file should cost {BUFFERED_US} us at \
                 most; on a busy machine it may cost more.",
                buffered.name(),
                number(buffered.figure.p50),
                number(more)
            );
            found.push(Finding::new("buffered_above_memory", Severity::Info, Some(more), text));
        }
    }
}

fn several_syncs_per_write(matrix: &Matrix<'_>, found: &mut Vec<Finding>) {
    for cell in matrix.cells.iter().filter(|cell| cell.threads.is_none() && cell.is(Kind::Write)) {
        let syncs = cell.syncs_per_op().unwrap_or(0.0);
        if syncs > 1.0 && !is_one_sync(cell) {
            let text = format!(
                "{} syncs the log {} times. A commit is one record and needs one sync; look for a second commit, or \
                 for one of the caller's.",
                cell.name(),
                number(syncs)
            );
            found.push(Finding::new("several_syncs_per_write", Severity::Problem, Some(syncs), text));
        }
    }
}

fn outlier_among_siblings(matrix: &Matrix<'_>, found: &mut Vec<Finding>) {
    let siblings = |cell: &Cell<'_>| match cell.operation() {
        Some(operation) if cell.is_latency() => operation.siblings,
        _ => Siblings::None,
    };
    for cell in matrix.cells.iter().filter(|cell| siblings(cell) != Siblings::None) {
        let is_sibling = |other: &&Cell<'_>| {
            other.level == cell.level && siblings(other) == siblings(cell) && other.op != cell.op
        };
        let mut others: Vec<f64> =
            matrix.cells.iter().filter(is_sibling).map(|other| other.figure.p50).collect();
        if others.len() < 2 {
            continue;
        }
        others.sort_by(f64::total_cmp);
        let median = others[others.len() / 2];
        // Syncs that were slow while this one was measured are the disk's own.
        let own = cell.figure.p50 - cell.sync_floor().map_or(0.0, |floor| floor.p95);
        let times = own / median.max(1e-3);
        if times >= OUTLIER {
            let text = format!(
                "{} takes {} us at p50, {} times the median of its {} siblings ({} us). They do the same kind of \
                 work; look at what this one does besides.",
                cell.name(),
                number(cell.figure.p50),
                number(times),
                others.len(),
                number(median)
            );
            found.push(Finding::new("outlier_among_siblings", Severity::Warning, Some(times), text));
        }
    }
}

fn two_modes(matrix: &Matrix<'_>, found: &mut Vec<Finding>) {
    for cell in matrix.cells.iter().filter(|cell| cell.is_latency() && cell.threads.is_none()) {
        let (p50, p95) = (cell.figure.p50, cell.figure.p95);
        let ratio = p95 / p50.max(1e-3);
        // A disk whose own syncs are as slow at times has the modes, not the operation.
        let is_own = cell.sync_floor().is_none_or(|floor| p95 > TWO_MODES * floor.p95.max(p50));
        if cell.figure.count >= MODE_COUNT && ratio > TWO_MODES && p95 - p50 > MODE_US && is_own {
            let text = format!(
                "{} takes {} us at p50 and {} us at p95, {} times as much: some operations do work that others do \
                 not, or wait. The histogram tells how many.",
                cell.name(),
                number(p50),
                number(p95),
                number(ratio)
            );
            found.push(Finding::new("two_modes", Severity::Info, Some(ratio), text));
        }
    }
}

/// A rule about operations that are measured at several sizes, which their names hold after `@`.
struct Growth {
    rule: &'static str,
    /// What stands before the size.
    mark: &'static str,
    unit: &'static str,
}

impl Growth {
    fn look(&self, matrix: &Matrix<'_>, found: &mut Vec<Finding>) {
        let sized = |cell: &Cell<'_>| -> Option<(String, u64)> {
            let (op, size) = cell.op.split_once('@')?;
            Some((op.to_owned(), size.strip_prefix(self.mark)?.parse().ok()?))
        };
        for cell in &matrix.cells {
            let Some((op, size)) = sized(cell) else { continue };
            let of_smaller = |other: &Cell<'_>| {
                let (other_op, smaller) = sized(other)?;
                (other_op == op && other.level == cell.level && smaller < size)
                    .then_some((smaller, other.figure.p50))
            };
            let Some((smaller, before)) =
                matrix.cells.iter().filter_map(of_smaller).min_by_key(|(size, _)| *size)
            else {
                continue;
            };
            let after = cell.figure.p50;
            let ratio = after / before.max(1e-3);
            if ratio > GROWTH && after - before > GROWTH_US {
                let text = format!(
                    "{op}/{} takes {} us with {smaller} {unit} and {} us with {size}: {} times as much. Its cost should \
                     not depend on that.",
                    cell.level,
                    number(before),
                    number(after),
                    number(ratio),
                    unit = self.unit
                );
                found.push(Finding::new(self.rule, Severity::Warning, Some(ratio), text));
            }
        }
    }
}

/// What a reader should know of the conditions of the run.
fn conditions(evidence: &Evidence, found: &mut Vec<Finding>) {
    if let Some(timer) = evidence.measurement("timer") {
        let text =
            format!("Reading the clock takes {} us; every latency includes it once.", number(timer.p50));
        found.push(Finding::new("timer_overhead", Severity::Info, Some(timer.p50), text));
    }
    let other = |name: &str, usual: u64| {
        let set = evidence.config.get(name).and_then(serde_json::Value::as_u64);
        set.filter(|set| *set != usual)
    };
    if let Some(rows) = other("rows", ROWS) {
        let text = format!(
            "The pairs were {rows} instead of {ROWS}: what the names say of 1M holds for that many, and no target."
        );
        found.push(Finding::new("other_size", Severity::Warning, Some(rows as f64), text));
    }
    if let Some(vectors) = other("vectors", VECTORS) {
        let text = format!("The larger collection had {vectors} vectors instead of {VECTORS}.");
        found.push(Finding::new("other_size", Severity::Warning, Some(vectors as f64), text));
    }
}

/// Everything that can be found in a document: odd costs, the conditions of the run, and missed targets.
#[must_use]
pub(crate) fn of_document(evidence: &Evidence) -> Vec<Finding> {
    let matrix = Matrix::from_evidence(evidence);
    let mut found = find(&matrix);
    // What a build without optimisation takes says nothing of microseconds.
    if evidence.config.get("optimised").and_then(serde_json::Value::as_bool).unwrap_or(true) {
        buffered_above_memory(&matrix, &mut found);
    }
    conditions(evidence, &mut found);
    found.extend(target::missed(&targets::standings(evidence)));
    found
}
