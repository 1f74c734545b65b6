//! What passes bring back, before it becomes figures.

use std::time::Duration;

use duramen_measure::histogram::LatencyHistogram;

use super::level::Level;
use super::scenario::Wait;

/// Under which conditions something was measured.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Conditions {
    /// `hot_standby_feedback`.
    pub feedback: bool,
    /// The added round trip between the servers.
    pub rtt_ms: u32,
    /// The control of a scenario that breaks something: nothing is broken.
    pub control: bool,
}

/// A scenario as it was measured.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// 1 for `S1`.
    pub number: u32,
    /// The passes, in the order in which they ran.
    pub passes: Vec<Pass>,
    /// Why it was not run: something that it needs is not there, or the time was over.
    pub skipped: Option<String>,
    /// Why it came to no end, although it was run: an error.
    pub failed: Option<String>,
}

/// One pass: fresh data, the actions, the load.
#[derive(Debug, Clone)]
pub struct Pass {
    /// Under which conditions.
    pub conditions: Conditions,
    /// From 0.
    pub repeat: u32,
    /// The load, block by block, in the order in which they ran. A stall pass has one.
    pub blocks: Vec<Block>,
    /// From the release of the hold's clock to the end of its transaction, as its own session saw it.
    pub blocker: Option<Duration>,
    /// What the samplers saw, in order, ten times a second.
    pub samples: Vec<Sample>,
    /// The WAL of the pass.
    pub wal: Wal,
    /// At which kinds of WAL records (`Heap2/PRUNE_ON_ACCESS`) a reader held up the replay, and in how many samples, the
    /// one that was seen most often first.
    pub held_up_at: Vec<(String, u64)>,
    /// Bytes that the standby had to replay when the timed statement began.
    pub backlog_bytes: Option<u64>,
    /// Files of relations that went away on the standby.
    pub files_removed: Option<u64>,
    /// Files of logical mappings (`pg_logical/mappings`) that the replay wrote.
    pub mapping_files: Option<u64>,
    /// Queries of the standby that were cancelled by conflicts.
    pub cancelled: u64,
    /// Which expectations were not met, in words. Empty: the pass is valid.
    pub unmet: Vec<String>,
}

/// Load at one level.
#[derive(Debug, Clone)]
pub struct Block {
    /// At which level.
    pub level: Level,
    /// How many sessions.
    pub clients: u32,
    /// What the replay was delayed by on purpose (`recovery_min_apply_delay`) while it ran; zero but for the calibration.
    pub apply_delay: Duration,
    /// From the beginning of the pass.
    pub begin: Duration,
    /// How long: to the end of the last operation.
    pub elapsed: Duration,
    /// Open loop: from the scheduled start to the end (also of those that were cut off, not of those that failed). Empty for closed loops.
    pub response: LatencyHistogram,
    /// From the start to the end.
    pub service: LatencyHistogram,
    /// When each commit was acknowledged, from the beginning of the pass, in order. Empty for `Saturation`.
    pub commits: Vec<Duration>,
    /// How many were committed.
    pub committed: u64,
    /// How many failed, and what the first one said.
    pub failed: Option<(u64, String)>,
    /// How many of those were due while the queue of the load was full.
    pub dropped: u64,
    /// Gaps between commits of a second and more. None of one statement, or where the times of commits are not kept, unless
    /// nothing was committed at all.
    pub gaps: Vec<Gap>,
    /// Its WAL, if the scenario expects something of it.
    pub wal: Option<BlockWal>,
}

/// What was written to the WAL while the load of a block ran, by all sessions.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BlockWal {
    /// Records by resource manager and type: name, count.
    pub records: Vec<(String, u64)>,
    /// Records with a full-page image.
    pub with_images: u64,
}

/// A time without commits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gap {
    /// From the beginning of the pass.
    pub begin: Duration,
    /// Its length.
    pub length: Duration,
    /// Where the WAL was stuck, or what the startup process waited for in it, or that it was replaying. `None`: no evidence;
    /// the machine, or something else, held it up. The replay is no cause for commits that do not wait for the replay.
    pub cause: Option<Wait>,
}

/// What was seen at one time.
#[derive(Debug, Clone, Default)]
pub struct Sample {
    /// From the beginning of the pass.
    pub at: Duration,
    /// What the startup process waited for, `Type:Event`; `None` while it works or nothing is known.
    pub startup: Option<String>,
    /// The same as a cause, if it is one.
    pub wait: Option<Wait>,
    /// What the standby's WAL receiver waited for, `Type:Event`, or [`BUSY`](super::pass::stage::BUSY); `None` if there is
    /// none, or nothing is known.
    pub receiver: Option<String>,
    /// The stage before the replay at which the WAL has stood still since the last sample.
    pub stuck: Option<Wait>,
    /// Current WAL position of the primary.
    pub primary_lsn: u64,
    /// How far the primary has flushed it: what it sends.
    pub flushed_lsn: u64,
    /// How far the standby has written it, as the primary knows.
    pub written_lsn: u64,
    /// How far the standby has flushed it, as the primary knows.
    pub kept_lsn: u64,
    /// What the standby has received, and replayed.
    pub received_lsn: u64,
    /// What the standby has replayed.
    pub replayed_lsn: u64,
    /// As `pg_stat_replication` tells, in milliseconds.
    pub write_lag_ms: Option<f64>,
    /// As `pg_stat_replication` tells, in milliseconds.
    pub flush_lag_ms: Option<f64>,
    /// As `pg_stat_replication` tells, in milliseconds.
    pub replay_lag_ms: Option<f64>,
    /// Sessions of the load that wait in `IPC:SyncRep`.
    pub waiting_sessions: u32,
    /// Whether the primary has a synchronous standby now.
    pub synchronous: bool,
}

impl Sample {
    /// Whether it names this cause, whatever commits wait for.
    #[must_use]
    pub fn names(&self, wait: Wait) -> bool {
        self.wait == Some(wait) || self.stuck == Some(wait)
    }
}

/// The WAL that a pass wrote, by `pg_walinspect`.
#[derive(Debug, Clone, Default)]
pub struct Wal {
    /// Its length.
    pub bytes: u64,
    /// Records by resource manager and type (`Heap2/PRUNE`): count, bytes, bytes of full-page images.
    pub records: Vec<(String, u64, u64, u64)>,
}

/// How stale reads of the standby are right after a commit at a level.
#[derive(Debug, Clone)]
pub struct Staleness {
    /// The level.
    pub level: Level,
    /// How many commits were followed.
    pub commits: u64,
    /// How many were not yet visible at once.
    pub stale: u64,
    /// From the acknowledgement to the first read that saw it (0 for those that were visible at once).
    pub visible_after: LatencyHistogram,
}
