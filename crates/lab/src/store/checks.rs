//! What the levels promise, held against what was counted.

use duramen_measure::evidence::{Check, Evidence};
use duramen_store::Durability;

use super::matrix::{Cell, Matrix};
use super::ops::Kind;

/// What a buffered write may take longer than one in memory, in microseconds.
pub const BUFFERED_US: f64 = 2.0;

/// Writes that take longer than this in memory are judged by their syncs: two microseconds more or less are not to be
/// told from noise.
const HEAVY_US: f64 = 50.0;

/// How many syncs more or less than one for each commit are let pass, as a share and as a number: the log begins new
/// segments, and checkpoints release old ones.
const SYNCS_SHARE: f64 = 0.01;
const SYNCS: f64 = 2.0;

/// The log of the levels below strict is synced about so often in a second; twice that is let pass.
const SYNCS_PER_S: f64 = 10.0;

/// What decides how latencies are judged.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Conditions {
    /// The load average, which is told beside a latency that is too high.
    pub load: f64,
    /// Whether the program was built with optimisation. Without it, writes are judged by their syncs alone.
    pub optimised: bool,
}

impl Conditions {
    /// Reads them from a document.
    #[must_use]
    pub fn of(evidence: &Evidence) -> Self {
        let optimised = evidence.config.get("optimised").and_then(serde_json::Value::as_bool);
        Self { load: evidence.host.load_average[0], optimised: optimised.unwrap_or(true) }
    }
}

/// The checks that the figures can be held against. A level that was not run is not checked.
#[must_use]
pub fn of(matrix: &Matrix<'_>, conditions: Conditions) -> Vec<Check> {
    let levels = matrix.levels();
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
    if levels.contains(&Durability::Memory) && is_write(Durability::Buffered) {
        add("buffered_really_batches", buffered_really_batches(matrix, conditions));
    }
    checks
}

/// Reads and switches append nothing and sync nothing, at every level.
#[must_use]
pub fn reads_never_log(matrix: &Matrix<'_>) -> (bool, String) {
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
pub fn one_sync_per_strict_write(matrix: &Matrix<'_>) -> (bool, String) {
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

/// A buffered write does not wait for the disk: it takes two microseconds more than one in memory at most.
#[must_use]
pub fn buffered_really_batches(matrix: &Matrix<'_>, conditions: Conditions) -> (bool, String) {
    let (mut guilty, mut largest, mut heavy) = (Vec::new(), (f64::MIN, ""), Vec::new());
    let is_write = |cell: &&Cell<'_>| cell.level == Durability::Buffered && cell.is(Kind::Write);
    for buffered in matrix.cells.iter().filter(is_write) {
        let Some(memory) = matrix.cell(buffered.op, Durability::Memory) else { continue };
        let more = buffered.figure.p50 - memory.figure.p50;
        if memory.figure.p50 > HEAVY_US || !conditions.optimised {
            let ops = buffered.figure.count as f64;
            let seconds = buffered.ops_per_s().map_or(0.0, |rate| ops / rate);
            let syncs = buffered.syncs_per_op().unwrap_or(f64::MAX) * ops;
            if syncs > 2.0 * SYNCS_PER_S * seconds + SYNCS {
                guilty.push(format!("{}: {syncs:.0} syncs for {ops:.0} operations", buffered.op));
            }
            heavy.push(buffered.op);
            continue;
        }
        if more > largest.0 {
            largest = (more, buffered.op);
        }
        if more > BUFFERED_US {
            guilty.push(format!(
                "{}: {:.2} us, {more:.2} us above memory ({:.4} syncs for each)",
                buffered.op,
                buffered.figure.p50,
                buffered.syncs_per_op().unwrap_or(0.0)
            ));
        }
    }
    let heavy = if heavy.is_empty() {
        String::new()
    } else {
        let reason = if conditions.optimised {
            format!("because {BUFFERED_US} us is noise there")
        } else {
            "because the program was built without optimisation".to_owned()
        };
        format!("; by their syncs, {reason}: {}", heavy.join(", "))
    };
    if guilty.is_empty() {
        let (more, op) = largest;
        let most =
            if op.is_empty() { String::new() } else { format!("at most {more:.2} us above memory ({op})") };
        return (true, format!("{most}{heavy}").trim_start_matches("; ").to_owned());
    }
    (false, format!("{}{heavy}; the load average was {:.1}", guilty.join("; "), conditions.load))
}
