//! What one look at the servers shows.

use crate::synchronous::Quorum;
use duramen_replication::scenario::Wait;
use std::time::Duration;

/// What the primary shows at one time.
#[derive(Debug, Clone)]
pub struct Observation {
    /// Since the watching began.
    pub at: Duration,
    /// How far the primary's own WAL is on its disk.
    pub flushed: u64,
    /// Sessions whose commit is on the primary's disk and waits for a standby, the one that has waited longest first.
    pub waiters: Vec<Waiter>,
    /// Sessions that wait until the primary's own WAL is on its disk.
    pub own_disk: u32,
    /// Whom commits wait for.
    pub quorum: Quorum,
    /// What streams from the primary.
    pub standbys: Vec<Standby>,
}

/// A session that waits for a standby (`IPC:SyncRep`).
#[derive(Debug, Clone, PartialEq)]
pub struct Waiter {
    /// Which commit of which session: the process, its transaction, and when its statement began (seconds since 1970).
    pub commit: Commit,
    /// For how long its statement has run: its wait is no longer than this.
    pub running: Duration,
}

/// One commit of one session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Commit {
    /// The process of the session.
    pub process: i32,
    /// Its transaction; 0 if it has none.
    pub transaction: u64,
    /// When its statement began, in microseconds since 1970.
    pub began: i64,
}

/// A row of `pg_stat_replication`.
#[derive(Debug, Clone, PartialEq)]
pub struct Standby {
    /// Its `application_name`.
    pub name: String,
    /// Whether commits may wait for it: its `sync_state` is `sync` or `quorum`, and it streams.
    pub is_synchronous: bool,
    /// How far the primary has sent, and the standby has written, flushed and replayed.
    pub positions: Positions,
    /// What the standby shows of itself, where it is watched too.
    pub seen: Option<Sight>,
}

/// Positions in the WAL.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Positions {
    /// Sent by the primary.
    pub sent: u64,
    /// Written by the standby.
    pub written: u64,
    /// On the standby's disk.
    pub flushed: u64,
    /// Replayed by the standby.
    pub replayed: u64,
}

/// What a standby shows of itself.
#[derive(Debug, Clone, PartialEq)]
pub enum Sight {
    /// It does not answer, or refuses connections.
    Unreachable,
    /// It answers.
    Answers {
        /// What the startup process waits for, as `Type:Event`. `None`: it works.
        startup: Option<String>,
        /// The same as a cause, if it is one.
        wait: Option<Wait>,
        /// What the receiver waits for, as `Type:Event`; `busy` if it waits for nothing that has a name.
        receiver: Option<String>,
        /// Whether there is a receiver that streams.
        is_receiving: bool,
        /// Whether somebody has paused the replay.
        is_paused: bool,
        /// The reader that is probably in the way, in words.
        reader: Option<String>,
    },
}
