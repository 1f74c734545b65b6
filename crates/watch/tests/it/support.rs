//! Observations by hand.

use duramen_watch::{
    observation::{Commit, Observation, Positions, Sight, Standby, Waiter},
    synchronous::Quorum,
};
use std::time::Duration;

/// A standby that has come so far: sent, written, flushed, replayed.
pub(crate) fn standby(name: &str, [sent, written, flushed, replayed]: [u64; 4]) -> Standby {
    let positions = Positions { sent, written, flushed, replayed };
    Standby { name: name.to_owned(), is_synchronous: true, positions, seen: None }
}

/// One that shows what its startup process waits for.
pub(crate) fn sight(startup: Option<&str>) -> Sight {
    Sight::Answers {
        startup: startup.map(str::to_owned),
        wait: startup.and_then(duramen_replication::pass::sample::wait_named),
        receiver: None,
        is_receiving: true,
        is_paused: false,
        reader: None,
    }
}

/// What the primary shows after so many milliseconds, with sessions of these numbers waiting.
pub(crate) fn at(ms: u64, waiting: &[i32], standbys: Vec<Standby>) -> Observation {
    let waiter = |process: &i32| Waiter {
        commit: Commit { process: *process, transaction: 1, began: 1 },
        running: Duration::from_secs(100),
    };
    Observation {
        at: Duration::from_millis(ms),
        flushed: 100,
        waiters: waiting.iter().map(waiter).collect(),
        own_disk: 0,
        quorum: Quorum::First(1),
        standbys,
    }
}
