//! Which states are retained, and for how long.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::StoreError;

/// The shortest time between two states that are retained by the clock.
const EVERY_LEAST: Duration = Duration::from_secs(1);

/// When a state is retained. Its numbers are part of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Every {
    /// After each commit, merge, reset and bulk load.
    Commit,
    /// When something changed, and as many milliseconds passed.
    Ms(u64),
}

/// Which states of a branch are retained, and for how long. States with a tag are neither counted nor forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keep {
    /// When a state is retained.
    pub every: Every,
    /// As many are kept, and up to an eighth more; none: 65,536.
    pub versions: Option<u64>,
    /// So far back, in milliseconds, states can be asked for.
    pub age_ms: Option<u64>,
    /// The oldest are forgotten when all of them hold more bytes on disk than this.
    pub bytes: Option<u64>,
}

impl Keep {
    /// Each commit.
    pub fn each_commit() -> Self {
        Self { every: Every::Commit, versions: None, age_ms: None, bytes: None }
    }

    /// What there is every so often, if anything changed.
    pub fn every(time: Duration) -> Self {
        Self { every: Every::Ms(millis(time)), ..Self::each_commit() }
    }

    /// As many of them, and up to an eighth more.
    #[must_use]
    pub fn versions(self, versions: u64) -> Self {
        Self { versions: Some(versions), ..self }
    }

    /// So far back.
    #[must_use]
    pub fn age(self, age: Duration) -> Self {
        Self { age_ms: Some(millis(age)), ..self }
    }

    /// As long as they hold no more bytes on disk.
    #[must_use]
    pub fn bytes(self, bytes: u64) -> Self {
        Self { bytes: Some(bytes), ..self }
    }

    pub(crate) fn is_each_commit(&self) -> bool {
        self.every == Every::Commit
    }

    /// `tells_sizes` says whether what states hold is known.
    pub(crate) fn check(&self, tells_sizes: bool) -> Result<(), StoreError> {
        let refuse = |reason: &str| {
            Err(StoreError::InvalidInput { what: "such a history", reason: reason.to_owned() })
        };
        match self.every {
            Every::Ms(ms) if ms < millis(EVERY_LEAST) => {
                return refuse("retain at most one state a second, or each commit")
            }
            _ => {}
        }
        if self.versions == Some(0) || self.age_ms == Some(0) || self.bytes == Some(0) {
            return refuse("a limit of 0 keeps nothing; turn the history off instead");
        }
        if self.bytes.is_some() && !tells_sizes {
            return refuse(
                "this store does not know what a state takes in its bucket; limit versions, or how far back",
            );
        }
        Ok(())
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
