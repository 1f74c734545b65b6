//! What looks at the server add up to: locks with their lengths, waits, statements. All times are microseconds since the rehearsal
//! began. Knows no database.

use std::collections::{BTreeMap, BTreeSet};

/// Waits and intervals of locks that are kept.
const KEPT_MAX: usize = 100_000;
/// Statements of the migration that are kept.
pub(crate) const STATEMENTS_MAX: usize = 2_000;

/// A session at one look.
#[derive(Debug, Clone, Default)]
pub(crate) struct Session {
    pub(crate) process: i32,
    pub(crate) kind: String,
    /// For a worker: whose.
    pub(crate) leader: Option<i32>,
    pub(crate) state: String,
    pub(crate) transaction_began: Option<i64>,
    pub(crate) query_began: Option<i64>,
    pub(crate) state_changed: Option<i64>,
    pub(crate) query: String,
}

/// A lock that is held or waited for at one look.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lock {
    pub(crate) process: i32,
    pub(crate) relation: Option<u32>,
    /// What is locked: `relation`, `transactionid`, `virtualxid`, `tuple` and the like.
    pub(crate) what: String,
    pub(crate) mode: String,
    pub(crate) granted: bool,
    /// When the wait began.
    pub(crate) since: Option<i64>,
    /// Who is in the way.
    pub(crate) blockers: Vec<i32>,
}

/// One look.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sample {
    pub(crate) at: i64,
    pub(crate) sessions: Vec<Session>,
    pub(crate) locks: Vec<Lock>,
    /// Whether there were more locks than are looked at.
    pub(crate) is_cut: bool,
}

/// Who waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Who {
    Load,
    Migration,
    Other,
}

/// A lock that the migration held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) relation: u32,
    pub(crate) mode: String,
    pub(crate) from: i64,
    pub(crate) to: i64,
}

/// A wait for a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wait {
    pub(crate) who: Who,
    pub(crate) process: i32,
    pub(crate) relation: Option<u32>,
    pub(crate) what: String,
    pub(crate) mode: String,
    pub(crate) from: i64,
    pub(crate) to: i64,
    /// Whether the migration was in the way, itself or as the reason why others were.
    pub(crate) by_migration: bool,
    /// What waited.
    pub(crate) query: String,
    /// What those in the way ran, or had run last, with their states.
    pub(crate) blockers: BTreeSet<String>,
}

/// A statement of the migration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) process: i32,
    pub(crate) text: String,
    pub(crate) from: i64,
    /// Its end, unless nobody saw it.
    pub(crate) to: i64,
    /// Whether the end is the server's own, not that of a look.
    pub(crate) is_exact: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct HeldKey {
    process: i32,
    transaction: Option<i64>,
    relation: u32,
    mode: String,
}

/// Everything that was seen.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// Processes that were there before the migration.
    known: BTreeSet<i32>,
    /// Processes of the rehearsal, which are excluded from what is observed.
    ours: BTreeSet<i32>,
    migration_began: Option<i64>,
    migration: BTreeSet<i32>,
    last: Option<i64>,
    holding: BTreeMap<HeldKey, i64>,
    waiting: BTreeMap<(i32, i64), Wait>,
    running: BTreeMap<i32, Seen>,
    pub(crate) held: Vec<Held>,
    pub(crate) waits: Vec<Wait>,
    pub(crate) statements: Vec<Seen>,
    pub(crate) looks: u64,
    /// The longest time between two looks while the migration ran.
    pub(crate) longest_gap: i64,
    /// Whether there was more than is kept.
    pub(crate) is_cut: bool,
}

impl Watch {
    /// `known` are processes that do not belong to the migration, unless they do something after it began; `ours` are none whatever
    /// they do.
    pub(crate) fn new(known: BTreeSet<i32>, ours: BTreeSet<i32>) -> Watch {
        Watch { known, ours, ..Watch::default() }
    }

    pub(crate) fn migration_begins(&mut self, at: i64) {
        self.migration_began = Some(at);
    }

    /// The processes of the migration at the last look.
    pub(crate) fn migration(&self) -> Vec<i32> {
        self.migration.iter().copied().collect()
    }

    /// Takes in a look. `load` are the processes of the load.
    pub(crate) fn take(&mut self, mut sample: Sample, load: &BTreeMap<i32, usize>) {
        sample.sessions.retain(|session| !self.ours.contains(&session.process));
        sample.locks.retain(|lock| !self.ours.contains(&lock.process));
        let before = self.last.unwrap_or(sample.at);
        let now = sample.at.max(before);
        self.looks += 1;
        self.is_cut |= sample.is_cut;
        if self.migration_began.is_some_and(|began| began < now) {
            self.longest_gap = self.longest_gap.max(now - before);
        }
        self.last = Some(now);
        let sessions: BTreeMap<i32, &Session> =
            sample.sessions.iter().map(|session| (session.process, session)).collect();
        self.migration = self.members(&sessions, load);
        let gap = Gap { before, now };
        self.take_waits(&sample, &sessions, load, gap);
        self.take_held(&sample, &sessions, gap);
        self.take_statements(&sessions, gap);
    }

    /// Ends what was still open at the last look.
    pub(crate) fn end(&mut self) {
        let now = self.last.unwrap_or_default();
        for (key, from) in std::mem::take(&mut self.holding) {
            self.held.push(Held { relation: key.relation, mode: key.mode, from, to: now });
        }
        for wait in std::mem::take(&mut self.waiting).into_values() {
            self.waits.push(Wait { to: now, ..wait });
        }
        for seen in std::mem::take(&mut self.running).into_values() {
            let to = if seen.is_exact { seen.to } else { now };
            self.statements.push(Seen { to, ..seen });
        }
    }

    fn members(&mut self, sessions: &BTreeMap<i32, &Session>, load: &BTreeMap<i32, usize>) -> BTreeSet<i32> {
        let Some(began) = self.migration_began else {
            self.known.extend(sessions.keys());
            return BTreeSet::new();
        };
        let is_one = |session: &Session| {
            let did = session.query_began.max(session.transaction_began).is_some_and(|time| time >= began);
            session.kind == "client backend"
                && !load.contains_key(&session.process)
                && (did || !self.known.contains(&session.process))
        };
        let mut members: BTreeSet<i32> =
            sessions.values().filter(|session| is_one(session)).map(|session| session.process).collect();
        let workers = sessions.values().filter(|session| {
            session.leader.is_some_and(|leader| leader != session.process && members.contains(&leader))
        });
        let workers: Vec<i32> = workers.map(|session| session.process).collect();
        members.extend(workers);
        members
    }

    fn take_waits(
        &mut self,
        sample: &Sample,
        sessions: &BTreeMap<i32, &Session>,
        load: &BTreeMap<i32, usize>,
        gap: Gap,
    ) {
        let waiting: Vec<&Lock> = sample.locks.iter().filter(|lock| !lock.granted).collect();
        let blockers: BTreeMap<i32, &[i32]> =
            waiting.iter().map(|lock| (lock.process, lock.blockers.as_slice())).collect();
        let mut open = std::mem::take(&mut self.waiting);
        let mut still = BTreeMap::new();
        for lock in waiting {
            let since = lock.since.unwrap_or(gap.now).min(gap.now);
            // A wait that had no beginning at the look before has one by now.
            let key = (lock.process, since);
            let early =
                open.keys().find(|(process, from)| *process == lock.process && *from >= since).copied();
            let known = open.remove(&key).or_else(|| early.and_then(|key| open.remove(&key)));
            let mut wait = known.unwrap_or_else(|| {
                let who = match () {
                    () if load.contains_key(&lock.process) => Who::Load,
                    () if self.migration.contains(&lock.process) => Who::Migration,
                    () => Who::Other,
                };
                Wait {
                    who,
                    process: lock.process,
                    relation: lock.relation,
                    what: lock.what.clone(),
                    mode: lock.mode.clone(),
                    from: since,
                    to: gap.now,
                    by_migration: false,
                    query: sessions.get(&lock.process).map(|it| it.query.clone()).unwrap_or_default(),
                    blockers: BTreeSet::new(),
                }
            });
            wait.from = since;
            wait.to = gap.now;
            wait.by_migration |=
                wait.who != Who::Migration && leads_to(lock.process, &blockers, &self.migration);
            for blocker in &lock.blockers {
                if wait.blockers.len() < 8 {
                    wait.blockers.insert(described(sessions.get(blocker).copied()));
                }
            }
            still.insert((lock.process, since), wait);
        }
        for wait in open.into_values() {
            let to = gap.end_of_statement(sessions.get(&wait.process).copied(), wait.to);
            self.keep_wait(Wait { to, ..wait });
        }
        self.waiting = still;
    }

    fn keep_wait(&mut self, wait: Wait) {
        if self.waits.len() < KEPT_MAX {
            self.waits.push(wait);
        } else {
            self.is_cut = true;
        }
    }

    fn take_held(&mut self, sample: &Sample, sessions: &BTreeMap<i32, &Session>, gap: Gap) {
        let mut open = std::mem::take(&mut self.holding);
        for lock in sample.locks.iter().filter(|lock| lock.granted && self.migration.contains(&lock.process))
        {
            let Some(relation) = lock.relation else { continue };
            let session = sessions.get(&lock.process).copied();
            let key = HeldKey {
                process: lock.process,
                transaction: session.and_then(|session| session.transaction_began),
                relation,
                mode: lock.mode.clone(),
            };
            let from = open.remove(&key).unwrap_or_else(|| {
                let waited = self.waits.iter().rev().take(100).find(|wait| {
                    wait.process == lock.process && wait.relation == Some(relation) && wait.to > gap.before
                });
                match (waited, session.and_then(|session| session.query_began)) {
                    (Some(wait), _) => wait.to,
                    (None, Some(began)) if gap.has(began) => began,
                    _ => gap.middle(),
                }
            });
            self.holding.insert(key, from);
        }
        for (key, from) in open {
            let to = gap.end_of_transaction(sessions.get(&key.process).copied(), key.transaction);
            let held = Held { relation: key.relation, mode: key.mode, from, to: to.max(from) };
            if self.held.len() < KEPT_MAX {
                self.held.push(held);
            } else {
                self.is_cut = true;
            }
        }
    }

    fn take_statements(&mut self, sessions: &BTreeMap<i32, &Session>, gap: Gap) {
        let began = self.migration_began.unwrap_or(i64::MAX);
        let mut open = std::mem::take(&mut self.running);
        for process in self.migration.clone() {
            let Some(session) = sessions.get(&process) else { continue };
            let Some(from) = session.query_began.filter(|from| *from >= began) else { continue };
            // A worker shows its leader's statement.
            if session.leader.is_some_and(|leader| leader != process) || session.query.is_empty() {
                continue;
            }
            let is_over = session.state != "active" && !session.state.starts_with("fastpath");
            let end = session.state_changed.filter(|_| is_over);
            let mut seen = match open.remove(&process) {
                Some(seen) if seen.from == from => seen,
                other => {
                    if let Some(seen) = other {
                        // It ended before the next one began.
                        let to = if seen.is_exact { seen.to } else { from.max(seen.from) };
                        self.keep_statement(Seen { to, ..seen });
                    }
                    let text = session.query.clone();
                    Seen { process, text, from, to: gap.now, is_exact: false }
                }
            };
            if !seen.is_exact {
                (seen.to, seen.is_exact) = end.map_or((gap.now, false), |end| (end.max(from), true));
            }
            self.running.insert(process, seen);
        }
        for seen in open.into_values() {
            let to = if seen.is_exact { seen.to } else { gap.middle().max(seen.to) };
            self.keep_statement(Seen { to, ..seen });
        }
    }

    fn keep_statement(&mut self, seen: Seen) {
        if self.statements.len() < STATEMENTS_MAX {
            self.statements.push(seen);
        } else {
            self.is_cut = true;
        }
    }
}

/// The time between two looks, in microseconds.
#[derive(Debug, Clone, Copy)]
struct Gap {
    before: i64,
    now: i64,
}

impl Gap {
    fn has(self, time: i64) -> bool {
        self.before < time && time <= self.now
    }

    fn middle(self) -> i64 {
        self.before + (self.now - self.before) / 2
    }

    /// When a statement ended that had not ended at the look before, at `last`.
    fn end_of_statement(self, session: Option<&Session>, last: i64) -> i64 {
        let exact = session.and_then(|session| match session.state.as_str() {
            "active" => session.query_began,
            _ => session.state_changed,
        });
        exact.filter(|time| self.has(*time)).unwrap_or_else(|| self.middle()).max(last)
    }

    /// When a transaction ended that had not ended at the look before.
    fn end_of_transaction(self, session: Option<&Session>, transaction: Option<i64>) -> i64 {
        let exact = session.and_then(|session| match session.transaction_began {
            Some(began) if Some(began) != transaction => Some(began),
            Some(_) => None,
            None => session.state_changed,
        });
        exact.filter(|time| self.has(*time)).unwrap_or_else(|| self.middle())
    }
}

/// Whether somebody waits for one of `migration`, or for somebody who does.
fn leads_to(process: i32, blockers: &BTreeMap<i32, &[i32]>, migration: &BTreeSet<i32>) -> bool {
    let (mut open, mut known) = (vec![process], BTreeSet::from([process]));
    while let Some(process) = open.pop() {
        for blocker in blockers.get(&process).copied().unwrap_or_default() {
            if migration.contains(blocker) {
                return true;
            }
            if known.insert(*blocker) {
                open.push(*blocker);
            }
        }
    }
    false
}

fn described(session: Option<&Session>) -> String {
    match session {
        // Zero is a transaction that was prepared.
        None => "a session that is not seen".to_owned(),
        Some(session) if session.kind != "client backend" => session.kind.clone(),
        Some(session) => format!("{}: {}", session.state, session.query),
    }
}

#[cfg(test)]
#[path = "../tests/unit/looks.rs"]
mod tests;
