//! What a run is asked to do.

use std::path::PathBuf;

use duramen_reports::suite::{Measured, Output, Plan, Say, Suite, SuiteError};

use super::document::Shards;
use super::run;

/// Everything that is set for a run.
#[derive(Debug, Clone)]
pub struct Options {
    /// How often the leader of a pair is killed, of one pair after the other.
    pub failovers: u32,
    /// How often a worker is killed meanwhile.
    pub kills: u32,
    /// Whether commits on the pairs wait for the standby.
    pub is_synchronous: bool,
    /// Clients that start instances.
    pub clients: usize,
    /// The program `duramen`, which is run as a worker.
    pub program: PathBuf,
    /// Where Patroni's modules are; `None`: a package of the home, or Python's own.
    pub site: Option<PathBuf>,
    /// The major version of PostgreSQL. `None`: the newest that has all that Patroni runs.
    pub major: Option<u32>,
    /// The home directory, where packages are looked for.
    pub home: PathBuf,
    /// The folder that everything is made in, and removed from at the end.
    pub dir: PathBuf,
    /// What becomes of the evidence.
    pub output: Output,
}

impl Options {
    /// One failover and three kills, with synchronous standbys, in a folder.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>, program: impl Into<PathBuf>) -> Self {
        let dir = dir.into();
        Self {
            failovers: 1,
            kills: 3,
            is_synchronous: true,
            clients: 8,
            program: program.into(),
            site: None,
            major: None,
            home: dir.clone(),
            dir,
            output: Output::default(),
        }
    }
}

impl Plan for Options {
    fn suite(&self) -> &'static dyn Suite {
        &Shards
    }

    fn output(&self) -> &Output {
        &self.output
    }

    fn output_mut(&mut self) -> &mut Output {
        &mut self.output
    }

    fn validate(&self) -> Result<(), SuiteError> {
        if self.clients == 0 || self.clients > 64 {
            return Err(SuiteError::Options("there are from 1 to 64 clients".to_owned()));
        }
        if self.failovers > 1000 || self.kills > 10_000 {
            return Err(SuiteError::Options("there are 1,000 failovers and 10,000 kills at most".to_owned()));
        }
        Ok(())
    }

    fn measure(&self, say: Say<'_>) -> Result<Measured, SuiteError> {
        std::fs::create_dir_all(&self.dir).map_err(SuiteError::file("make", &self.dir))?;
        run::run(self, say)
    }
}
