//! Scenarios: what is set up, what happens beside the load, what the load is, and what must be seen for the figures
//! to mean what they are said to mean. All of it is data; the module `pass` carries it out.
//!
//! SQL may hold `{rows}` and other `{names}`, which are replaced by the numbers of [`Scenario::sizes`] (scaled).

mod broken;
mod catalog;
mod fragment;
mod lock;
mod pin;
mod snapshot;
mod special;
mod statement;
mod throughput;

use super::level::Level;
use std::fmt;
use std::time::Duration;

pub use catalog::{catalog, find};

/// One scenario.
#[derive(Debug, Clone, Copy)]
pub struct Scenario {
    /// 1 for `S1`.
    pub number: u32,
    /// A name in words, for `--help`, tables and headings: `snapshot conflict by VACUUM`.
    pub name: &'static str,
    /// What is shown, in two or three sentences: what happens, why commits at which level wait for it.
    pub text: &'static str,
    /// How it is measured.
    pub kind: Kind,
    /// The numbers in its SQL: name, in a default run, in a quick run.
    pub sizes: &'static [(&'static str, u64, u64)],
    /// Extensions that must be there (beside `pg_walinspect`); without them the scenario is skipped and says so.
    pub extensions: &'static [&'static str],
    /// What the pair must be able to do; without it the scenario is skipped and says so.
    pub needs: &'static [Need],
    /// Makes the data anew, on the primary, at level local. Begins with DROP ... IF EXISTS.
    pub setup: &'static [&'static str],
    /// Before every pass when the set-up is shared (quick runs): makes the data what the set-up left, cheaply.
    pub reset: &'static [&'static str],
    /// What happens beside the load, one after the other.
    pub actions: &'static [Action],
    /// The load.
    pub probe: Probe,
    /// What must have been seen.
    pub expect: &'static [Expect],
    /// Removes everything, on the primary. Errors are told and do not stop the others.
    pub teardown: &'static [&'static str],
    /// What to do about it.
    pub advice: &'static str,
    /// It is run only if it is asked for by its number or name.
    pub on_demand: bool,
    /// The scenario that this one is the control of: the same without what that one is about.
    pub control_of: Option<u32>,
}

impl Scenario {
    /// Whether what holds up the replay is a reader on the standby, which `max_standby_streaming_delay` ends.
    #[must_use]
    pub fn has_reader(&self) -> bool {
        self.actions.iter().any(|action| matches!(action, Action::Hold { .. }))
    }
}

impl Scenario {
    /// What it breaks or makes slow.
    #[must_use]
    pub fn breaks(&self) -> Option<Breakage> {
        self.actions.iter().find_map(|action| match *action {
            Action::Break { what, .. } | Action::Slow(what) => Some(what),
            _ => None,
        })
    }

    /// Whether its mechanism is the same whatever is committed: something on the way of the WAL, or the standby itself, is
    /// stopped. Then a workload can be its load.
    #[must_use]
    pub fn takes_any_load(&self) -> bool {
        let stops = |action: &Action| matches!(action, Action::Break { .. } | Action::StopStandby);
        self.kind == Kind::Stall && self.actions.iter().any(stops)
    }

    /// What is slow in it for as long as a pass lasts.
    #[must_use]
    pub fn slows(&self) -> Option<Breakage> {
        self.actions.iter().find_map(|action| match *action {
            Action::Slow(what) => Some(what),
            _ => None,
        })
    }

    /// Whether it writes little, however it is run: some hundred commits a second for some seconds, to small tables.
    #[must_use]
    pub fn is_small(&self) -> bool {
        matches!(self.kind, Kind::Stall | Kind::Special(_))
    }

    /// Whether commits at a level stop in it; `None`: it does not say.
    #[must_use]
    pub fn stops(&self, level: Level) -> Option<bool> {
        self.expect.iter().find_map(|expect| match expect {
            Expect::StallsFrom(from) => Some(level >= *from),
            _ => None,
        })
    }

    /// How long what it breaks is broken in a pass.
    #[must_use]
    pub fn broken_for(&self, quick: bool, level: Level, control: bool) -> Option<Duration> {
        let (ms, quick_ms) = self.actions.iter().find_map(|action| match *action {
            Action::Break { ms, quick_ms, .. } => Some((ms, quick_ms)),
            _ => None,
        })?;
        let ms = if quick { quick_ms } else { ms };
        let is_brief = control || self.stops(level) == Some(false);
        Some(Duration::from_millis(if is_brief { ms.min(Breakage::BRIEF_MS) } else { ms }))
    }
}

/// How a scenario is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Commits that get slower: blocks of load at each level, interleaved at random, each closed loop and open loop. The
    /// actions are carried out anew for each block, just before its load; what they start in the background runs beside
    /// the load and is awaited after it.
    Latency,
    /// As `Latency`, at growing numbers of clients, closed loop only, and without actions.
    Saturation,
    /// Commits that stop: one pass a level, open loop, with something that holds up the replay for a known time.
    Stall,
    /// One statement (the first of the probe), timed on a connection that is open, after the actions; a pass a level
    /// and repeat, data made anew each time.
    Statement,
    /// As `Stall` with a known end, but what is looked at is a figure of its own (calibration, cancelled wait).
    Special(Special),
}

/// Scenarios that do not fit elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Special {
    /// `recovery_min_apply_delay` adds a known time: blocks at remote_apply, half of them after the actions (which set
    /// it), half of them with all settings put back.
    Calibration,
    /// A commit that is cancelled while it waits has happened all the same. The actions hold up the replay (up to
    /// `AwaitStartup`), then one probe statement at remote_apply is cancelled while it waits; then what is left of the
    /// actions.
    CancelledWait,
}

/// What a pair must be able to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// A pair of our own: servers are stopped, files are counted.
    OwnPair,
    /// A pair of our own whose standby's processes can be traced (`strace`), which only root may.
    Tracer,
    /// A pair of our own whose servers can be connected through a network namespace, which only root may make.
    Namespace,
    /// A pair of our own whose standby's disk can be frozen, which only root may.
    FrozenDisk,
    /// `wal_level = logical` and a free replication slot for one of this name. The set-up makes it and the teardown drops
    /// it; before the set-up it is noted with `Pair::record_slot`.
    LogicalSlot(&'static str),
}

/// What happens beside the load. Each waits for the state that the next one needs, never for a time.
#[derive(Debug, Clone, Copy)]
pub enum Action {
    /// Statements on the primary, each in a transaction of its own, at level local, on a session of their own.
    Run(&'static [&'static str]),
    /// The same in the background; awaited at the end of the pass.
    Start(&'static [&'static str]),
    /// As `Run`, on several sessions at once, in whose SQL `{session}` is 0, 1...; goes on when all have ended.
    RunTogether {
        /// How many sessions.
        sessions: u32,
        /// What each of them runs.
        sql: &'static [&'static str],
    },
    /// Waits until the standby has replayed all that the primary has written by now.
    AwaitReplay,
    /// A session on the standby runs these statements (it begins a transaction) and stays idle in transaction. Then
    /// it is waited until the standby shows what `holds` says.
    Hold {
        /// The statements, the first of them BEGIN.
        sql: &'static [&'static str],
        /// What the session has then.
        holds: Holds,
    },
    /// From now on the hold lasts for the length of the blocker (`Options::blocker`); then its transaction ends. The
    /// time from here to the end of the COMMIT is the blocker's true length.
    Release,
    /// A setting on one of the servers, recorded and put back at the end of the pass.
    Set {
        /// Where.
        node: Node,
        /// The setting.
        name: &'static str,
        /// Its value.
        value: &'static str,
    },
    /// The standby is stopped, stays away for the length of the blocker, and is started again. (Own pairs only.)
    StopStandby,
    /// Something on the way of the WAL is broken, for a known time, and put right again. (Own pairs only.)
    Break {
        /// What.
        what: Breakage,
        /// For how long, in milliseconds, where commits stop; where they do not, and in a control, no longer than
        /// [`Breakage::BRIEF_MS`].
        ms: u64,
        /// The same in a quick run.
        quick_ms: u64,
    },
    /// Something on the way of the WAL is slow, for as long as the pass lasts. (Own pairs only.)
    Slow(Breakage),
    /// Waits until so much of the load has been committed since the beginning of the pass.
    AwaitCommits(u64),
    /// Waits until the startup process of the standby waits for one of these, or the deadline (then it goes on: the
    /// expectation will fail).
    AwaitStartup(&'static [Wait]),
    /// CHECKPOINT on the primary.
    Checkpoint,
}

/// What can be broken between the primary and the standby.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Breakage {
    /// The WAL receiver is stopped (SIGSTOP): the standby is connected, and does nothing.
    Receiver,
    /// The network between the servers carries nothing, in neither direction; connections stay open.
    Network,
    /// The file system of the standby's `pg_wal` is frozen (FIFREEZE).
    Disk,
    /// Every chunk takes up to so many milliseconds longer, each another time, in each direction.
    Jitter(u32),
    /// So many of 100 packets are lost, in each direction.
    Loss(u32),
    /// Every flush of the standby's WAL receiver takes so many milliseconds longer.
    Flush(u32),
}

impl Breakage {
    /// So long it lasts where it is only to be seen that commits go on.
    pub const BRIEF_MS: u64 = 2_000;
}

/// What a hold must have before it goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    /// `backend_xmin` of the session is not null.
    Snapshot,
    /// It has a lock on this table.
    Lock(&'static str),
    /// Its statement has ended (a pin of a buffer cannot be seen from outside).
    Nothing,
}

/// One of the two servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Node {
    /// Takes the commits.
    Primary,
    /// Replays them.
    Standby,
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Node::Primary => "primary",
            Node::Standby => "standby",
        })
    }
}

/// What commits that wait for the standby wait for: a wait of its startup process, or the stage at which the WAL is stuck.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Wait {
    /// `IPC:RecoveryConflictSnapshot`: a reader's snapshot still needs what is to be removed.
    Snapshot,
    /// `Lock:relation` (or another heavyweight lock): a reader has locked what is to be locked exclusively.
    Lock,
    /// `BufferPin:BufferPin`: a reader has pinned a page that is to be cleaned.
    BufferPin,
    /// `Timeout:RecoveryApplyDelay`: `recovery_min_apply_delay`.
    ApplyDelay,
    /// It is not there: the standby is down, or the primary has none that is connected.
    Absent,
    /// The standby does not write what it is sent: its receiver hangs, or the network does.
    Unreceived,
    /// The standby has WAL that it cannot write or flush: its disk is stuck.
    Unflushed,
    /// It waits for nobody: it replays what the standby has received, and is behind.
    Replaying,
}

impl Wait {
    /// Whether somebody or something is in the way of the replay, which a change of conditions would take away; not that
    /// it is just slow.
    #[must_use]
    pub fn is_in_the_way(self) -> bool {
        self != Wait::Replaying
    }
}

/// The load.
#[derive(Debug, Clone, Copy)]
pub struct Probe {
    /// Statements with their weights; each is one transaction. `$1`, `$2`... are drawn from `draws`.
    pub statements: &'static [(u32, &'static str)],
    /// Uniform numbers from the first to the last, both names of sizes or decimal numbers.
    pub draws: &'static [(&'static str, &'static str)],
    /// How many sessions.
    pub clients: u32,
    /// Open loop: how many a second (stalls). For `Kind::Latency` it follows from what the closed loop reaches.
    pub rate_per_s: f64,
}

impl Expect {
    /// Whether the WAL of each block has to be looked at.
    #[must_use]
    pub fn is_of_blocks(&self) -> bool {
        match self {
            Expect::BlockRecords(..) | Expect::BlockImages(..) => true,
            Expect::Since(_, inner) | Expect::Before(_, inner) => inner.is_of_blocks(),
            _ => false,
        }
    }
}

/// What must have been seen in a pass, else its figures say nothing.
#[derive(Debug, Clone, Copy)]
pub enum Expect {
    /// The startup process waited so (or the WAL was stuck so), at least for half of the blocker's length.
    Startup(Wait),
    /// At least enough samples for a cause saw it.
    Seen(Wait),
    /// In half of the samples with a load, writing on the standby lags by so many milliseconds at least; in a control, by
    /// less, or by less than 5 ms.
    WriteLag(f64),
    /// As `WriteLag`, in a tenth of the samples, of which each also counts for how long something has not been written by then; in
    /// a control, by less, or by less than 20 ms.
    SomeWriteLag(f64),
    /// As `WriteLag`, for flushing behind writing.
    FlushLag(f64),
    /// As `Startup` from this major version on, and no such wait before.
    StartupSince(u32, Wait),
    /// At least so many WAL records of a resource manager (`Btree`, `Gin`...), or of one of its types
    /// (`Heap2/REWRITE`), for each 1,000 commits of the load (`true`) or in all (`false`).
    Records(&'static str, u64, bool),
    /// No WAL record of a resource manager, or of one of its types.
    NoRecords(&'static str),
    /// The record at which a reader held up the replay is of one of these types. Says what wrote it, which the wait does
    /// not: VACUUM and on-access pruning are waited for alike.
    HeldUpAt(&'static [&'static str]),
    /// Another one, from this major version on.
    Since(u32, &'static Expect),
    /// Another one, before this major version.
    Before(u32, &'static Expect),
    /// In every block of load, while it ran: at least so many WAL records of a resource manager (or of one of its types),
    /// beside so many for each of its commits, which are the load's own. What is to run beside the load has run beside
    /// each block then.
    BlockRecords(&'static str, u64, u64),
    /// In every block of load, while it ran: at least so many records with full-page images, for each 1,000 of its
    /// commits (`true`) or in all (`false`).
    BlockImages(u64, bool),
    /// The standby had at least so many bytes to replay when the statement began.
    Backlog(u64),
    /// At least so many files of relations went away on the standby.
    FilesRemoved(u64),
    /// The replay wrote at least so many files of logical mappings (`pg_logical/mappings`).
    MappingFiles(u64),
    /// The replay wrote no such file.
    NoMappingFiles,
    /// `true`: with `hot_standby_feedback` the wait does not happen; `false`: it happens all the same.
    FeedbackHelps(bool),
    /// The level at which commits stop (and at all stronger ones); at weaker ones they do not.
    StallsFrom(Level),
}
