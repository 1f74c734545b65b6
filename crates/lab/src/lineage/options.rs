//! What a run is asked to do.

use duramen_measure::evidence::Evidence;
use duramen_postgres::volume::Choice;
use duramen_reports::suite::{Output, SuiteError};
use std::path::PathBuf;

/// Everything that is set for a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The home directory whose daemon is used, or in which one is started.
    pub home: PathBuf,
    /// The program that a daemon is started with.
    pub exe: PathBuf,
    /// How volumes are cloned, if a daemon is started.
    pub volumes: Choice,
    /// Size of a loop-backed volume store, if one is made.
    pub volume_size: Option<u64>,
    /// How many children are made of a branch that has just been written to.
    pub fresh: u32,
    /// How many bytes are written to it before each of them.
    pub fresh_bytes: u64,
    /// How many branches the spine has.
    pub depth: u32,
    /// How many levels of three children each the bushy tree has.
    pub levels: u32,
    /// How many children one branch has.
    pub fan_out: u32,
    /// What becomes of the evidence.
    pub output: Output,
}

impl Options {
    /// The shapes of BranchBench at their full size.
    #[must_use]
    pub fn new(home: impl Into<PathBuf>, exe: impl Into<PathBuf>) -> Self {
        Self {
            home: home.into(),
            exe: exe.into(),
            volumes: Choice::Auto,
            volume_size: None,
            fresh: 30,
            fresh_bytes: 100_000_000,
            depth: 64,
            levels: 4,
            fan_out: 1024,
            output: Output::default(),
        }
    }

    pub(crate) fn check(&self) -> Result<(), SuiteError> {
        let refuse = |message: &str| Err(SuiteError::Options(message.to_owned()));
        if self.depth > 1000 || self.fan_out > 4000 || self.levels > 6 || self.fresh > 10_000 {
            return refuse("at most --depth 1000, --fan-out 4000, --levels 6 and --fresh 10000");
        }
        if self.fresh_bytes > 2_000_000_000 {
            return refuse("--fresh-bytes must be at most 2G");
        }
        Ok(())
    }

    pub(crate) fn note(&self, evidence: &mut Evidence) {
        evidence.configure("fresh", self.fresh);
        evidence.configure("fresh_bytes", self.fresh_bytes);
        evidence.configure("depth", self.depth);
        evidence.configure("levels", self.levels);
        evidence.configure("fan_out", self.fan_out);
    }
}
