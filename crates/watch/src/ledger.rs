//! Who waited for how long and for what: observations added up.
//!
//! A *wait* is one commit of one session. A *stall* is a time during which there was always a session that had waited
//! for [`STALL`] or longer. Both are only known as finely as there are observations.

use crate::{
    attribution::{attribute, Reason},
    observation::{Commit, Observation},
};
use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

/// A commit that has waited so long is a stall.
pub const STALL: Duration = Duration::from_millis(250);
/// Between two observations that are farther apart than this, nothing is known of what happened.
pub const BLIND: Duration = Duration::from_secs(1);
/// So many stalls are kept; of earlier ones only what they add up to.
pub const STALLS_MAX: usize = 1_000;

/// So many reasons are told apart. Standbys name themselves: what waits for more of them is counted without their names.
pub const REASONS_MAX: usize = 256;

/// Times by what was waited for.
pub type Shares = BTreeMap<Reason, Duration>;

/// What was waited for in all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Total {
    /// The time that sessions waited, added up over the sessions.
    pub waited: Duration,
    /// The time of stalls.
    pub stalled: Duration,
    /// How many stalls had this as their main reason.
    pub stalls: u64,
}

/// A time in which commits did not come through.
#[derive(Debug, Clone, PartialEq)]
pub struct Stall {
    /// Since the watching began, when the first of its commits began to wait.
    pub begin: Duration,
    /// How long, up to the last observation that still had a long wait in it.
    pub length: Duration,
    /// The most sessions that waited at a time.
    pub sessions: usize,
    /// What was waited for, of which the longest is its reason. Empty: the positions said that nothing was missing.
    pub shares: Shares,
    /// The reader on the standby that was in the way, as it was seen last.
    pub reader: Option<String>,
}

impl Stall {
    /// What it waited for most of the time.
    #[must_use]
    pub fn reason(&self) -> Option<&Reason> {
        longest(&self.shares)
    }

    /// When it ended.
    #[must_use]
    pub fn end(&self) -> Duration {
        self.begin + self.length
    }
}

/// A wait that goes on.
#[derive(Debug)]
struct Open {
    /// The commit's WAL ends here or before.
    target: u64,
    begin: Duration,
    shares: Shares,
}

/// What an observation changed.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// A stall has begun.
    Begun(Stall),
    /// One has ended.
    Ended(Stall),
}

/// All that was seen.
#[derive(Debug, Default)]
pub struct Ledger {
    open: BTreeMap<Commit, Open>,
    last: Option<Duration>,
    current: Option<Stall>,
    stalls: VecDeque<Stall>,
    totals: BTreeMap<Reason, Total>,
    own_disk: Duration,
    observations: u64,
    blind: Duration,
}

impl Ledger {
    /// Adds an observation, which must not be older than the last one.
    pub fn add(&mut self, seen: &Observation) -> Option<Change> {
        let since = self.last.map_or(Duration::ZERO, |last| seen.at.saturating_sub(last));
        self.last = Some(seen.at);
        self.observations += 1;
        if since > BLIND {
            return self.go_on_after(since, seen);
        }
        self.own_disk += since * seen.own_disk;
        self.count(since, seen);
        self.follow(since, seen)
    }

    /// What happened in a long gap between two observations is not known: waits begin anew, a stall ends where it was
    /// last seen.
    fn go_on_after(&mut self, gap: Duration, seen: &Observation) -> Option<Change> {
        self.blind += gap;
        self.open.clear();
        let ended = self.end();
        self.count(Duration::ZERO, seen);
        ended
    }

    /// Adds the time since the last observation to what waits now.
    fn count(&mut self, since: Duration, seen: &Observation) {
        let mut open = BTreeMap::new();
        for waiter in &seen.waiters {
            let (mut wait, waited) = match self.open.remove(&waiter.commit) {
                Some(wait) => (wait, since),
                None => {
                    // It was not there the last time, and has waited no longer than its statement runs.
                    let waited = since.min(waiter.running);
                    let begin = seen.at.saturating_sub(waited);
                    (Open { target: seen.flushed, begin, shares: Shares::new() }, waited)
                }
            };
            if let Some(reason) = self.reason(seen, wait.target) {
                self.totals.entry(reason.clone()).or_default().waited += waited;
                *wait.shares.entry(reason).or_default() += waited;
            }
            open.insert(waiter.commit, wait);
        }
        self.open = open;
    }

    /// What a commit waits for, among the reasons that are told apart.
    fn reason(&self, seen: &Observation, target: u64) -> Option<Reason> {
        let reason = attribute(seen, target)?;
        let is_told = self.totals.len() < REASONS_MAX || self.totals.contains_key(&reason);
        Some(if is_told { reason } else { Reason { standby: String::new(), ..reason } })
    }

    /// Begins, lengthens or ends a stall.
    fn follow(&mut self, since: Duration, seen: &Observation) -> Option<Change> {
        let oldest = self.open.values().min_by_key(|wait| wait.begin);
        let oldest = oldest.filter(|wait| seen.at.saturating_sub(wait.begin) >= STALL);
        let Some(oldest) = oldest else { return self.end() };
        let reader = reader(seen);
        let reason = self.reason(seen, oldest.target);
        if let Some(stall) = &mut self.current {
            stall.length = seen.at.saturating_sub(stall.begin);
            stall.sessions = stall.sessions.max(self.open.len());
            stall.reader = reader.or(stall.reader.take());
            if let Some(reason) = reason {
                *stall.shares.entry(reason).or_default() += since;
            }
            return None;
        }
        let stall = Stall {
            begin: oldest.begin,
            length: seen.at.saturating_sub(oldest.begin),
            sessions: self.open.len(),
            shares: oldest.shares.clone(),
            reader,
        };
        self.current = Some(stall.clone());
        Some(Change::Begun(stall))
    }

    fn end(&mut self) -> Option<Change> {
        let stall = self.current.take()?;
        for (reason, time) in &stall.shares {
            self.totals.entry(reason.clone()).or_default().stalled += *time;
        }
        if let Some(reason) = stall.reason() {
            self.totals.entry(reason.clone()).or_default().stalls += 1;
        }
        if self.stalls.len() == STALLS_MAX {
            self.stalls.pop_front();
        }
        self.stalls.push_back(stall.clone());
        Some(Change::Ended(stall))
    }

    /// Nothing more will be seen: what goes on ends here.
    pub fn finish(&mut self) -> Option<Change> {
        self.end()
    }

    /// The stall that goes on.
    #[must_use]
    pub fn current(&self) -> Option<&Stall> {
        self.current.as_ref()
    }

    /// Stalls that have ended, in order; the last [`STALLS_MAX`].
    pub fn stalls(&self) -> impl Iterator<Item = &Stall> {
        self.stalls.iter()
    }

    /// What was waited for in all. Of the stall that goes on, `stalled` is not in it yet.
    #[must_use]
    pub fn totals(&self) -> &BTreeMap<Reason, Total> {
        &self.totals
    }

    /// The time that sessions waited for the primary's own disk, added up over the sessions.
    #[must_use]
    pub fn own_disk(&self) -> Duration {
        self.own_disk
    }

    /// How many observations there were.
    #[must_use]
    pub fn observations(&self) -> u64 {
        self.observations
    }

    /// The time of which nothing is known: between observations that were too far apart.
    #[must_use]
    pub fn blind(&self) -> Duration {
        self.blind
    }

    /// When the last observation was.
    #[must_use]
    pub fn last(&self) -> Duration {
        self.last.unwrap_or_default()
    }
}

/// The one with the longest time.
#[must_use]
pub fn longest(shares: &Shares) -> Option<&Reason> {
    shares.iter().max_by_key(|(_, time)| **time).map(|(reason, _)| reason)
}

fn reader(seen: &Observation) -> Option<String> {
    seen.standbys.iter().find_map(|standby| match &standby.seen {
        Some(crate::observation::Sight::Answers { reader, .. }) => reader.clone(),
        _ => None,
    })
}
