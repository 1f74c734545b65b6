//! What a run is asked to do.

use std::path::PathBuf;
use std::time::Duration;

use duramen_measure::evidence::Evidence;
use duramen_store::Durability;

use super::names::matches;
use super::ops::OPERATIONS;
use duramen_reports::suite::{Output, SuiteError};

/// Rows of the key-value operations, unless the options say otherwise.
pub(crate) const ROWS: u64 = 1_000_000;

/// Vectors of the larger collection, unless the options say otherwise.
pub(crate) const VECTORS: u64 = 100_000;

/// The fewest rows that the operations make sense with.
pub(crate) const ROWS_MIN: u64 = 2_000;

/// How often each operation is taken up again at each level, in a random order of the levels.
pub(crate) const ROUNDS: u32 = 3;

/// The most operations that are timed in a second of the budget, so that fast ones do not fill the disk.
const MOST_PER_S: f64 = 200_000.0;

/// How the store is spoilt, so that a test can see the rules notice it.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sabotage {
    /// Not at all.
    #[default]
    None,
    /// Every read leaves a durable note.
    NotedReads,
    /// The store of the level buffered commits as strict does.
    StrictForBuffered,
    /// Every write is two durable commits.
    TwoCommits,
    /// To set a cell, all pairs are counted first.
    SlowCells,
    /// Every eighth write counts all pairs.
    TwoModes,
    /// An append reads the log first.
    GrowingAppends,
    /// A read in a fork asks the branches above, too.
    LayeredReads,
    /// Reads of pairs look for another key than they should.
    WrongReads,
}

/// Everything that is set for a run.
#[derive(Debug, Clone)]
pub struct Options {
    /// The levels of durability.
    pub levels: Vec<Durability>,
    /// Globs of the operations, separated by commas.
    pub ops: String,
    /// How many pairs the key-value operations have.
    pub rows: u64,
    /// How many vectors the larger collection has. `None`: a hundred thousand, or fewer if there are fewer rows.
    pub vectors: Option<u64>,
    /// How long each operation is timed at each level, at most, in seconds.
    pub seconds: f64,
    /// The folder that the stores are made in, and removed from at the end.
    pub dir: PathBuf,
    /// Whether the threads that wait for the disk get real-time priority.
    pub fifo: bool,
    /// What becomes of the evidence.
    pub output: Output,
    #[doc(hidden)]
    pub sabotage: Sabotage,
}

impl Options {
    /// The whole suite in a folder.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            levels: Durability::ALL.to_vec(),
            ops: "*".to_owned(),
            rows: ROWS,
            vectors: None,
            seconds: 1.0,
            dir: dir.into(),
            fifo: false,
            output: Output::default(),
            sabotage: Sabotage::None,
        }
    }

    /// How many vectors the larger collection has.
    #[must_use]
    pub fn vectors(&self) -> u64 {
        self.vectors.unwrap_or_else(|| VECTORS.min(self.rows / 10)).max(1_000)
    }

    /// The budget of one slice: of one operation at one level in one round.
    pub(crate) fn slice(&self) -> (Duration, u64) {
        let seconds = self.seconds / f64::from(ROUNDS);
        (Duration::from_secs_f64(seconds), ((seconds * MOST_PER_S) as u64).max(20))
    }

    /// Refuses options that cannot be measured with.
    pub(crate) fn check(&self) -> Result<(), SuiteError> {
        let refuse = |message: String| Err(SuiteError::Options(message));
        if self.levels.is_empty() {
            return refuse("--durability names no level; use memory, buffered, strict".to_owned());
        }
        if self.rows < ROWS_MIN {
            return refuse(format!("--rows must be at least {ROWS_MIN}"));
        }
        if !(self.seconds > 0.0 && self.seconds <= 3600.0) {
            return refuse("--seconds must be above 0 and at most 3600".to_owned());
        }
        if !OPERATIONS.iter().any(|op| matches(&self.ops, op.name)) {
            let names: Vec<&str> = OPERATIONS.iter().map(|op| op.name).collect();
            return refuse(format!("no operation fits {:?}; there are {}", self.ops, names.join(", ")));
        }
        Ok(())
    }

    /// Notes all options in an evidence document.
    pub(crate) fn note(&self, evidence: &mut Evidence) {
        let levels: Vec<&str> = self.levels.iter().map(|level| level.name()).collect();
        evidence.configure("durability", levels);
        evidence.configure("ops", self.ops.as_str());
        evidence.configure("rows", self.rows);
        evidence.configure("vectors", self.vectors());
        evidence.configure("seconds", self.seconds);
        evidence.configure("rounds", ROUNDS);
        evidence.configure("dir", self.dir.display().to_string());
        evidence.configure("fifo", self.fifo);
    }
}
