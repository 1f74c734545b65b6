//! The figures of a document as a matrix: operation by level.

use std::collections::BTreeMap;

use duramen_measure::evidence::{Evidence, Measurement};
use duramen_store::Durability;

use super::ops::{operation, Kind, Operation};

/// The figures beside a latency, by the endings of their names.
const FIGURES: [&str; 6] = [
    "ops_per_s",
    "appends_per_op",
    "syncs_per_op",
    "log_bytes_per_op",
    "fsync_floor_us",
    "fsync_floor_p95_us",
];

/// One operation at one level.
#[derive(Debug, Clone)]
pub(crate) struct Cell<'e> {
    /// The operation's name, as the document has it before the slash.
    pub op: &'e str,
    /// The level.
    pub level: Durability,
    /// How many threads, if the name says it.
    pub threads: Option<u32>,
    /// The figure itself: a latency, mostly.
    pub figure: &'e Measurement,
    figures: BTreeMap<&'static str, f64>,
}

impl Cell<'_> {
    /// The measurement's name.
    #[must_use]
    pub(crate) fn name(&self) -> &str {
        &self.figure.name
    }

    /// What the suite knows of the operation, if it knows it.
    #[must_use]
    pub(crate) fn operation(&self) -> Option<&'static Operation> {
        match self.threads {
            Some(threads) => operation(&format!("{}@{threads}", self.op)),
            None => operation(self.op),
        }
    }

    /// Whether the operation is of a kind. One that the suite does not know is of none.
    #[must_use]
    pub(crate) fn is(&self, kind: Kind) -> bool {
        self.operation().is_some_and(|operation| operation.kind == kind)
    }

    /// Whether the figure is a distribution of latencies in microseconds.
    #[must_use]
    pub(crate) fn is_latency(&self) -> bool {
        self.figure.unit == "us" && self.figure.histogram.is_some()
    }

    /// Operations per second.
    #[must_use]
    pub(crate) fn ops_per_s(&self) -> Option<f64> {
        self.figures.get(FIGURES[0]).copied()
    }

    /// Records appended to the log for each operation.
    #[must_use]
    pub(crate) fn appends_per_op(&self) -> Option<f64> {
        self.figures.get(FIGURES[1]).copied()
    }

    /// Syncs of the log for each operation.
    #[must_use]
    pub(crate) fn syncs_per_op(&self) -> Option<f64> {
        self.figures.get(FIGURES[2]).copied()
    }

    /// Bytes appended to the log for each operation.
    #[must_use]
    pub(crate) fn log_bytes_per_op(&self) -> Option<f64> {
        self.figures.get(FIGURES[3]).copied()
    }

    /// What one sync took right before the operation was measured, if it waits for one.
    #[must_use]
    pub(crate) fn sync_floor(&self) -> Option<SyncFloor> {
        let p50 = self.figures.get(FIGURES[4]).copied()?;
        Some(SyncFloor { p50, p95: self.figures.get(FIGURES[5]).copied().unwrap_or(p50) })
    }
}

/// What one sync of the disk took while an operation was measured, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct SyncFloor {
    /// The median.
    pub p50: f64,
    /// The 95th percentile.
    pub p95: f64,
}

/// All operations at all levels, in the order of the document.
#[derive(Debug, Clone)]
pub(crate) struct Matrix<'e> {
    /// The cells.
    pub cells: Vec<Cell<'e>>,
    /// What one sync takes, in microseconds.
    pub sync_floor_us: f64,
    /// The 99.9th percentile of what syncs took in the run, if there were enough.
    pub sync_floor_p999_us: Option<f64>,
}

impl<'e> Matrix<'e> {
    /// Reads the measurements of a document.
    #[must_use]
    pub(crate) fn from_evidence(evidence: &'e Evidence) -> Self {
        let mut cells: Vec<Cell<'e>> = Vec::new();
        for figure in &evidence.measurements {
            let Some((op, at)) = figure.name.split_once('/') else { continue };
            let (place, beside) = match FIGURES
                .iter()
                .find_map(|beside| Some((at.strip_suffix(beside)?.strip_suffix('.')?, *beside)))
            {
                Some((place, beside)) => (place, Some(beside)),
                None => (at, None),
            };
            let (level, threads) = match place.split_once('@') {
                Some((level, threads)) => (level, threads.parse().ok()),
                None => (place, None),
            };
            let Ok(level) = level.parse::<Durability>() else { continue };
            let is_it = |cell: &&mut Cell<'_>| (cell.op, cell.level, cell.threads) == (op, level, threads);
            match (beside, cells.iter_mut().find(is_it)) {
                (Some(beside), Some(cell)) => {
                    cell.figures.insert(beside, figure.p50);
                }
                (None, None) => cells.push(Cell { op, level, threads, figure, figures: BTreeMap::new() }),
                // A cost without its operation, or a name that stands twice: the first counts.
                _ => {}
            }
        }
        let floor = evidence.measurement("fsync_floor").map(|floor| floor.p50).filter(|floor| *floor > 0.0);
        let p999 = evidence.measurement("fsync_floor_p999").map(|floor| floor.p50);
        Self {
            cells,
            sync_floor_us: floor.unwrap_or(evidence.host.fsync_floor_us),
            sync_floor_p999_us: p999.filter(|floor| *floor > 0.0),
        }
    }

    /// An operation at a level, by one thread.
    #[must_use]
    pub(crate) fn cell(&self, op: &str, level: Durability) -> Option<&Cell<'e>> {
        self.cells.iter().find(|cell| (cell.op, cell.level, cell.threads) == (op, level, None))
    }

    /// The operations in the order of the document, those of several threads apart.
    #[must_use]
    pub(crate) fn operations(&self) -> Vec<(&'e str, Option<u32>)> {
        let mut operations = Vec::new();
        for cell in &self.cells {
            if !operations.contains(&(cell.op, cell.threads)) {
                operations.push((cell.op, cell.threads));
            }
        }
        operations
    }

    /// The levels of the document, from the weakest to the strongest.
    #[must_use]
    pub(crate) fn levels(&self) -> Vec<Durability> {
        let there = |level: &Durability| self.cells.iter().any(|cell| cell.level == *level);
        Durability::ALL.into_iter().filter(there).collect()
    }
}
