//! What a run is asked to do.

use std::path::PathBuf;

use duramen_measure::evidence::Evidence;

use duramen_reports::suite::{Output, SuiteError};

/// Everything that is set for a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many grants, one size after another.
    pub grants: Vec<usize>,
    /// How often each engine runs at each size.
    pub rounds: usize,
    /// The folder that files are made in, and removed from.
    pub dir: PathBuf,
    /// The program that is started for each part.
    pub exe: PathBuf,
    /// What becomes of the evidence.
    pub output: Output,
}

impl Options {
    /// All sizes, three rounds each.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>, exe: impl Into<PathBuf>) -> Self {
        Self {
            grants: vec![100, 1_000, 10_000, 100_000, 1_000_000],
            rounds: 3,
            dir: dir.into(),
            exe: exe.into(),
            output: Output::default(),
        }
    }

    pub(crate) fn check(&self) -> Result<(), SuiteError> {
        let refuse = |message: &str| Err(SuiteError::Options(message.to_owned()));
        if self.grants.is_empty() || self.grants.iter().any(|count| !(1..=50_000_000).contains(count)) {
            return refuse("--grants must be from 1 to 50000000");
        }
        if !(1..=100).contains(&self.rounds) {
            return refuse("--rounds must be from 1 to 100");
        }
        Ok(())
    }

    pub(crate) fn note(&self, evidence: &mut Evidence) {
        evidence.configure("grants", self.grants.clone());
        evidence.configure("rounds", self.rounds);
        evidence.configure("workload", "unique");
        evidence.configure("dir", self.dir.display().to_string());
        evidence.configure("sqlite_version", rusqlite::version());
    }
}
