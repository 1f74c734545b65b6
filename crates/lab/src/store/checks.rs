//! What the levels promise, held against what was counted.

use duramen_measure::evidence::Check;
use duramen_store::Durability;

use super::matrix::{Cell, Matrix};
use super::ops::Kind;

/// How many syncs more or less than one for each commit are let pass, as a share and as a number: the log begins new
/// segments, and checkpoints release old ones.
const SYNCS_SHARE: f64 = 0.01;
const SYNCS: f64 = 2.0;

/// The log of the levels below strict is synced about so often in a second; twice that is let pass.
const SYNCS_PER_S: f64 = 10.0;

/// The checks that the figures can be held against. A level that was not run is not checked.
#[must_use]
pub(crate) fn all(matrix: &Matrix<'_>) -> Vec<Check> {
    let mut checks = Vec::new();
    let mut add = |name: &str, (passed, detail)| checks.push(Check { name: name.to_owned(), passed, detail });
    if matrix.cells.iter().any(|cell| cell.is(Kind::Read)) {
        add("reads_never_log", reads_never_log(matrix));
    }
    let is_write = |level: Durability| {
        matrix.cells.iter().any(|cell| cell.level == level && cell.threads.is_none() && cell.is(Kind::Write))
    };
    if is_write(Durability::Strict) {
        add("one_sync_per_strict_write", one_sync_per_strict_write(matrix));
    }
    if is_write(Durability::Buffered) {
        add("buffered_really_batches", buffered_really_batches(matrix));
    }
    checks
}

/// Reads and switches append nothing and sync nothing, at every level.
#[must_use]
pub(crate) fn reads_never_log(matrix: &Matrix<'_>) -> (bool, String) {
    let reads: Vec<&Cell<'_>> = matrix.cells.iter().filter(|cell| cell.is(Kind::Read)).collect();
    let guilty: Vec<String> = reads
        .iter()
        .filter(|cell| cell.appends_per_op() != Some(0.0) || cell.syncs_per_op() != Some(0.0))
        .map(|cell| {
            let count =
                |figure: Option<f64>| figure.map_or("uncounted".to_owned(), |count| format!("{count:.4}"));
            let (appends, syncs) = (count(cell.appends_per_op()), count(cell.syncs_per_op()));
            format!("{}: {appends} appends, {syncs} syncs for each", cell.name())
        })
        .collect();
    if guilty.is_empty() {
        return (true, format!("{} reads: 0 appends, 0 syncs", reads.len()));
    }
    (false, guilty.join("; "))
}

/// Whether syncs are one for each operation, but for what the log needs itself.
pub(crate) fn is_one_sync(cell: &Cell<'_>) -> bool {
    let Some(syncs) = cell.syncs_per_op() else { return false };
    let ops = cell.figure.count as f64;
    (syncs * ops - ops).abs() <= SYNCS.max(ops * SYNCS_SHARE) + 1e-6
}

/// Every write at the level strict syncs the log once.
#[must_use]
pub(crate) fn one_sync_per_strict_write(matrix: &Matrix<'_>) -> (bool, String) {
    let is_write =
        |cell: &&Cell<'_>| cell.level == Durability::Strict && cell.threads.is_none() && cell.is(Kind::Write);
    let writes: Vec<&Cell<'_>> = matrix.cells.iter().filter(is_write).collect();
    let guilty: Vec<String> = writes
        .iter()
        .filter(|cell| !is_one_sync(cell))
        .map(|cell| format!("{}: {:.3} syncs", cell.name(), cell.syncs_per_op().unwrap_or(f64::NAN)))
        .collect();
    if guilty.is_empty() {
        let names: Vec<&str> = writes.iter().map(|cell| cell.op).collect();
        return (true, format!("1 sync for each of {}", names.join(", ")));
    }
    (false, guilty.join("; "))
}

/// Buffered writes do not sync: what is counted while they run is the log's own syncs, so many a second and for each new
/// segment. How long they take is a figure, and never decides.
#[must_use]
pub(crate) fn buffered_really_batches(matrix: &Matrix<'_>) -> (bool, String) {
    let is_write = |cell: &&Cell<'_>| cell.level == Durability::Buffered && cell.is(Kind::Write);
    let (mut guilty, mut writes, mut all_syncs) = (Vec::new(), 0.0, 0.0);
    for cell in matrix.cells.iter().filter(is_write) {
        let count = cell.figure.count as f64;
        let seconds = cell.ops_per_s().map_or(0.0, |rate| count / rate);
        let Some(syncs) = cell.syncs_per_op().map(|each| each * count) else {
            guilty.push(format!("{}: its syncs were not counted", cell.op));
            continue;
        };
        writes += count;
        all_syncs += syncs;
        if syncs > 2.0 * SYNCS_PER_S * seconds + SYNCS + count * SYNCS_SHARE {
            guilty.push(format!("{}: {syncs:.0} syncs for {count:.0} operations", cell.op));
        }
    }
    if guilty.is_empty() {
        return (true, format!("{writes:.0} buffered writes, {all_syncs:.0} syncs of the log beside them"));
    }
    (false, guilty.join("; "))
}
