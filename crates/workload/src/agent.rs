//! Load from another machine: an agent there, started by ssh, that does what the lab says and ends with it.
//!
//! Nobody listens on a port. What the two say to each other goes through the standard input and output of the agent, a line
//! each, so that whoever may log in there by ssh may use it and nobody else. An agent has one run: its first line is what
//! it is to do and where, and it ends when its input does, or when it has heard nothing for [`SILENT`].

mod line;
mod serve;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::crew::{Block, Following};
use crate::tally::{Freshness, Tally};
use crate::workload::Sources;

pub use line::{Agent, Clocks};
pub use serve::serve;

/// What both speak. Another version is refused.
const PROTOCOL: u32 = 1;
/// How often each of both lets the other one hear of it.
const BEAT: Duration = Duration::from_secs(2);
/// Whoever has not been heard of for so long is gone.
pub const SILENT: Duration = Duration::from_secs(20);
/// No line is longer.
const LONGEST_LINE: u64 = 64 << 20;

/// What an agent is to do.
#[derive(Serialize, Deserialize)]
pub struct Begin {
    /// What the lab speaks.
    pub(crate) protocol: u32,
    /// A word that nobody else knows; every answer carries it.
    pub(crate) run: String,
    /// The workload.
    pub sources: Sources,
    /// How the primary is reached, with the password of the workload's role.
    pub primary: String,
    /// How the standby is.
    pub standby: String,
    /// How many sessions.
    pub clients: u32,
    /// For the numbers that are drawn.
    pub seed: u64,
}

impl std::fmt::Debug for Begin {
    /// Without the passwords.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Begin").field("clients", &self.clients).finish_non_exhaustive()
    }
}

/// What the lab says.
#[derive(Debug, Serialize, Deserialize)]
enum Told {
    Begin(Box<Begin>),
    Run(Block),
    Follow(Following),
    Clock(u64),
    Beat,
}

/// What an agent says.
#[derive(Debug, Serialize, Deserialize)]
struct Answer {
    /// The word of the run; nothing before the agent knows it.
    run: String,
    said: Said,
}

#[derive(Debug, Serialize, Deserialize)]
enum Said {
    Hello {
        protocol: u32,
        version: String,
    },
    Ready,
    Loaded(Box<Tally>),
    Followed(Vec<Freshness>),
    /// Its wall clock, in nanoseconds since 1970.
    Clock {
        number: u64,
        unix_ns: i64,
    },
    Failed(String),
    Beat,
}

/// The wall clock in nanoseconds since 1970.
fn unix_ns() -> i64 {
    i64::try_from(duramen_base::clock::utc_now().as_nanosecond()).unwrap_or(i64::MAX)
}
