//! How durable a commit must be before it is acknowledged.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How durable a commit is when it is acknowledged.
///
/// Set for a store, and overridable for one commit. A later level includes the earlier ones.
///
/// ```
/// # use duramen_store::durability::Durability;
/// assert_eq!("strict".parse(), Ok(Durability::Strict));
/// assert_eq!(Durability::Buffered.to_string(), "buffered");
/// assert!(Durability::Memory < Durability::Strict);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// Acknowledged when it stands in the memory of this process. A killed process may lose it; one that ends
    /// cleanly does not.
    Memory,
    /// Acknowledged when the operating system has it. It survives a killed process. A power cut may lose the
    /// commits of about the last 100 ms, because that is how often the log is flushed.
    #[default]
    Buffered,
    /// Acknowledged when the disk has said that it is durable. It survives a power cut.
    Strict,
}

impl Durability {
    /// Every level, from the weakest to the strongest.
    pub const ALL: [Self; 3] = [Self::Memory, Self::Buffered, Self::Strict];

    /// The name of the level, in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Buffered => "buffered",
            Self::Strict => "strict",
        }
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A text that names no level of durability.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a level of durability: use memory, buffered or strict")]
pub struct UnknownDurability(pub String);

impl FromStr for Durability {
    type Err = UnknownDurability;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|level| level.name().eq_ignore_ascii_case(text.trim()));
        found.ok_or_else(|| UnknownDurability(text.to_owned()))
    }
}
