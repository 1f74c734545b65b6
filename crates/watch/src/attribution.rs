//! What a commit waits for: the stage that its WAL has not passed, and what holds it up there.
//!
//! A pure function of one observation. Its rules are those of `docs/design/watching.md`.

use crate::{
    observation::{Observation, Positions, Sight, Standby},
    synchronous::Quorum,
};
use duramen_replication::{
    pass::{sample::is_working, stage::is_at_the_disk},
    scenario::Wait,
    summary::{self, cause},
};
use std::fmt;

/// How far the WAL of a commit has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// There are fewer synchronous standbys than commits wait for.
    Absent,
    /// The primary has not sent it.
    Send,
    /// It was sent, and the standby has not written it.
    Write,
    /// The standby has written it, and it is not on its disk.
    Flush,
    /// It is on the standby's disk, and not replayed.
    Replay,
}

impl Stage {
    /// In order.
    pub const ALL: [Stage; 5] = [Stage::Absent, Stage::Send, Stage::Write, Stage::Flush, Stage::Replay];

    /// Its name in figures.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Stage::Absent => "absent",
            Stage::Send => "send",
            Stage::Write => "write",
            Stage::Flush => "flush",
            Stage::Replay => "replay",
        }
    }

    /// What commits wait for there, in words: "commits waited for ...".
    #[must_use]
    pub fn in_words(self) -> &'static str {
        match self {
            Stage::Absent => "a synchronous standby",
            Stage::Send => "the primary to send",
            Stage::Write => "the standby to receive",
            Stage::Flush => "the standby's disk",
            Stage::Replay => "the standby to replay",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// What a commit waits for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reason {
    /// The stage.
    pub stage: Stage,
    /// What holds it up there, as findings name it.
    pub cause: &'static str,
    /// At which standby; empty where there is none.
    pub standby: String,
}

/// The replay is paused.
pub const PAUSED: &str = "replay paused";
/// A standby that is not watched, or shows nothing that would explain it.
pub const UNKNOWN: &str = "unknown";
/// Nothing arrives, and the standby does not answer us either.
pub const UNREACHABLE: &str = "standby unreachable";
/// The primary does not send: its connection takes no more, or it is busy.
pub const NOT_SENT: &str = "not sent";
/// What a commit waits for whose WAL ends at `target` or before. `None`: everything has come as far, and the session is
/// about to be woken.
#[must_use]
pub fn attribute(seen: &Observation, target: u64) -> Option<Reason> {
    let synchronous: Vec<&Standby> = seen.standbys.iter().filter(|it| it.is_synchronous).collect();
    let wanted = match seen.quorum {
        Quorum::Nobody => 1,
        Quorum::First(count) | Quorum::Any(count) => count,
    };
    if synchronous.len() < wanted {
        return Some(Reason { stage: Stage::Absent, cause: cause(Wait::Absent), standby: String::new() });
    }
    // The standby on which it depends, for each position: the slowest of those that all must come so far, or the one
    // that makes the number full.
    let of = |position: Position| -> Option<&Standby> {
        let mut ordered = synchronous.clone();
        ordered.sort_by_key(|standby| std::cmp::Reverse(position(&standby.positions)));
        let decides = match seen.quorum {
            Quorum::Any(count) => ordered.get(count.max(1) - 1).copied(),
            Quorum::First(_) | Quorum::Nobody => ordered.last().copied(),
        };
        decides.filter(|standby| position(&standby.positions) < target)
    };
    let stages: [(Stage, Position); 4] = [
        (Stage::Send, |at| at.sent),
        (Stage::Write, |at| at.written),
        (Stage::Flush, |at| at.flushed),
        (Stage::Replay, |at| at.replayed),
    ];
    let (stage, standby) = stages.iter().find_map(|(stage, position)| Some((*stage, of(*position)?)))?;
    let held_up_by = match stage {
        Stage::Absent => cause(Wait::Absent),
        Stage::Send => NOT_SENT,
        Stage::Write => match standby.seen {
            Some(Sight::Unreachable) => UNREACHABLE,
            Some(Sight::Answers { receiver: Some(ref receiver), .. }) if is_at_the_disk(receiver) => {
                summary::cause(Wait::Unflushed)
            }
            _ => summary::cause(Wait::Unreceived),
        },
        Stage::Flush => summary::cause(Wait::Unflushed),
        Stage::Replay => replay(standby.seen.as_ref()),
    };
    Some(Reason { stage, cause: held_up_by, standby: standby.name.clone() })
}

/// One of the positions of a standby.
type Position = fn(&Positions) -> u64;

/// What holds up the replay.
fn replay(seen: Option<&Sight>) -> &'static str {
    match seen {
        Some(Sight::Answers { is_paused: true, .. }) => PAUSED,
        Some(Sight::Answers { wait: Some(wait), .. }) => summary::cause(*wait),
        Some(Sight::Answers { startup, .. }) if is_working(startup.as_deref()) => {
            summary::cause(Wait::Replaying)
        }
        _ => UNKNOWN,
    }
}

/// A reason that a document names, if it is one that this version knows.
#[must_use]
pub fn reason(stage: Stage, cause: &str, standby: String) -> Option<Reason> {
    let waits =
        [Wait::Snapshot, Wait::Lock, Wait::BufferPin, Wait::ApplyDelay, Wait::Absent, Wait::Replaying];
    let own = [PAUSED, UNKNOWN, UNREACHABLE, NOT_SENT];
    let known = waits.into_iter().map(summary::cause).chain(own).find(|known| *known == cause)?;
    Some(Reason { stage, cause: known, standby })
}
