//! What a run over arrangements of standbys is asked to do.

use std::path::PathBuf;
use std::time::Duration;

use duramen_reports::suite::{Measured, Output, Plan, Say, Suite, SuiteError};

use super::arrangement::{Arrangement, Fault};
use super::document::Topologies;
use super::run;
use crate::level::Level;

/// Everything that is set for a run.
#[derive(Debug, Clone)]
pub struct Options {
    /// The arrangements that are brought up, one after another. Empty with [`primary`](Self::primary).
    pub arrangements: Vec<Arrangement>,
    /// What is done to standbys.
    pub faults: Vec<Fault>,
    /// At which level commits are made.
    pub levels: Vec<Level>,
    /// Sessions that commit, one commit after another.
    pub clients: usize,
    /// Shorter faults.
    pub quick: bool,
    /// A primary that is there already: nothing is done to its standbys, no setting is changed, and no object is made.
    pub primary: Option<String>,
    /// The major version of servers of our own. `None`: the newest that is there.
    pub major: Option<u32>,
    /// The home directory, where fetched packages are looked for.
    pub home: PathBuf,
    /// The folder that servers of our own are made in, and removed from at the end.
    pub dir: PathBuf,
    /// What becomes of the evidence.
    pub output: Output,
}

impl Options {
    /// All arrangements and all faults on servers of our own, in a folder.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        let dir = dir.into();
        Self {
            arrangements: Arrangement::catalog(),
            faults: Fault::ALL.to_vec(),
            levels: vec![Level::On],
            clients: 4,
            quick: false,
            primary: None,
            major: None,
            home: dir.clone(),
            dir,
            output: Output::default(),
        }
    }

    /// How long a fault lasts, or a pass without one.
    #[must_use]
    pub fn lasts(&self, fault: Fault) -> Duration {
        Duration::from_millis(match (fault, self.quick) {
            (Fault::Vanish, true) => 4_000,
            (Fault::Vanish, false) => 6_000,
            (_, true) => 1_500,
            (_, false) => 4_000,
        })
    }
}

/// The longer way of a slow standby, there and back.
pub const FAR: Duration = Duration::from_millis(60);
/// After how long without an answer the primary gives up a standby that vanishes (`wal_sender_timeout`).
pub const GIVEN_UP: Duration = Duration::from_secs(2);

impl Plan for Options {
    fn suite(&self) -> &'static dyn Suite {
        &Topologies
    }

    fn output(&self) -> &Output {
        &self.output
    }

    fn output_mut(&mut self) -> &mut Output {
        &mut self.output
    }

    fn validate(&self) -> Result<(), SuiteError> {
        let refused = |text: &str| Err(SuiteError::Options(text.to_owned()));
        if self.clients == 0 || self.clients > 64 {
            return refused("there are from 1 to 64 clients");
        }
        if self.levels.is_empty() || self.faults.is_empty() {
            return refused("nothing to measure: name at least one level and one fault");
        }
        if self.primary.is_none() && self.arrangements.is_empty() {
            return refused("there is no arrangement to measure");
        }
        Ok(())
    }

    fn measure(&self, say: Say<'_>) -> Result<Measured, SuiteError> {
        std::fs::create_dir_all(&self.dir).map_err(SuiteError::file("make", &self.dir))?;
        run::run(self, say)
    }
}
