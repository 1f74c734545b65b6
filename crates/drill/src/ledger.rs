//! What clients were told, and what became of it.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// One row that a client tried to write. It is never tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    /// Which client.
    pub client: i32,
    /// Which of its rows, from 1.
    pub number: i64,
    /// At which node.
    pub node: usize,
    /// When it was sent, from the beginning of the ledger.
    pub begin: Duration,
    /// When the client knew.
    pub end: Duration,
    /// Whether it was acknowledged. If not, nobody has said whether it is there.
    pub is_acknowledged: bool,
}

/// What clients were told.
#[derive(Debug, Default)]
pub struct Ledger {
    pages: Mutex<Pages>,
}

#[derive(Debug, Default)]
struct Pages {
    attempts: Vec<Attempt>,
    errors: BTreeMap<String, u64>,
}

/// What became of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// Rows that were tried.
    pub attempted: u64,
    /// Rows that were acknowledged.
    pub acknowledged: u64,
    /// Acknowledged rows that are not there.
    pub lost: u64,
    /// Rows that are there and were not acknowledged: their clients do not know.
    pub unacknowledged: u64,
    /// Rows that are there and that nobody tried to write.
    pub strange: u64,
    /// Rows that the old leader acknowledged although they were sent to it after a new one had acknowledged others.
    pub split: u64,
}

impl Ledger {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Notes an attempt.
    pub fn note(&self, attempt: Attempt) {
        self.pages().attempts.push(attempt);
    }

    /// Notes what a client was told instead of an acknowledgement.
    pub fn complain(&self, text: &str) {
        // A server may say anything; so many kinds of errors are told apart.
        let mut pages = self.pages();
        let key = if pages.errors.len() < 100 || pages.errors.contains_key(text) { text } else { "others" };
        *pages.errors.entry(key.to_owned()).or_insert(0) += 1;
    }

    /// What clients were told, and how often.
    #[must_use]
    pub fn errors(&self) -> BTreeMap<String, u64> {
        self.pages().errors.clone()
    }

    /// All attempts, in the order of their ends.
    #[must_use]
    pub fn attempts(&self) -> Vec<Attempt> {
        let mut attempts = self.pages().attempts.clone();
        attempts.sort_by_key(|attempt| attempt.end);
        attempts
    }

    /// When a row was acknowledged first that was sent after a time, to a node that `is_wanted`.
    #[must_use]
    pub fn first_after(&self, after: Duration, is_wanted: impl Fn(usize) -> bool) -> Option<Duration> {
        let pages = self.pages();
        let acknowledged = pages.attempts.iter().filter(|attempt| attempt.is_acknowledged);
        let after = acknowledged.filter(|attempt| attempt.begin > after && is_wanted(attempt.node));
        after.map(|attempt| attempt.end).min()
    }

    /// When a row was acknowledged last, if any was.
    #[must_use]
    pub fn last(&self) -> Option<Duration> {
        let pages = self.pages();
        pages.attempts.iter().filter(|attempt| attempt.is_acknowledged).map(|attempt| attempt.end).max()
    }

    /// The longest time without an acknowledgement between two times, for whom `is_wanted` says: from the last one before
    /// to the first one after. The ends count as acknowledgements, so that what never comes back is as long as it was waited for.
    #[must_use]
    pub fn longest_gap(&self, [begin, end]: [Duration; 2], is_wanted: impl Fn(&Attempt) -> bool) -> Duration {
        let pages = self.pages();
        let acknowledged = pages.attempts.iter().filter(|attempt| attempt.is_acknowledged);
        let mut ends: Vec<Duration> =
            acknowledged.filter(|attempt| is_wanted(attempt)).map(|attempt| attempt.end).collect();
        ends.sort_unstable();
        let before = ends.iter().rev().find(|at| **at <= begin).copied().unwrap_or(begin);
        let inside = ends.into_iter().filter(|at| *at > begin && *at < end);
        let mut last = before;
        let mut longest = Duration::ZERO;
        for at in inside.chain([end]) {
            longest = longest.max(at.saturating_sub(last));
            last = at;
        }
        longest
    }

    /// The last row that was acknowledged before the longest time without one that ended between two times, whoever wrote it.
    #[must_use]
    pub fn stopped(&self, [begin, end]: [Duration; 2]) -> Option<Duration> {
        let acknowledged = self.attempts().into_iter().filter(|attempt| attempt.is_acknowledged);
        let ends: Vec<Duration> = acknowledged.map(|attempt| attempt.end).collect();
        let gaps = ends.windows(2).filter(|pair| pair[1] > begin && pair[1] <= end);
        gaps.max_by_key(|pair| pair[1] - pair[0]).map(|pair| pair[0])
    }

    /// What became of it: `there` are the rows that are there now, `old` is the node that led at the beginning.
    #[must_use]
    pub fn account(&self, there: &HashSet<(i32, i64)>, old: usize) -> Account {
        let pages = self.pages();
        let acknowledged = || pages.attempts.iter().filter(|attempt| attempt.is_acknowledged);
        let tried: HashSet<(i32, i64)> =
            pages.attempts.iter().map(|attempt| (attempt.client, attempt.number)).collect();
        let is_there = |attempt: &&Attempt| there.contains(&(attempt.client, attempt.number));
        let other = acknowledged().filter(|attempt| attempt.node != old).map(|attempt| attempt.end).min();
        let is_split =
            |attempt: &&Attempt| attempt.node == old && other.is_some_and(|other| attempt.begin > other);
        let count = |count: usize| count as u64;
        Account {
            attempted: count(pages.attempts.len()),
            acknowledged: count(acknowledged().count()),
            lost: count(acknowledged().filter(|attempt| !is_there(attempt)).count()),
            unacknowledged: count(
                pages.attempts.iter().filter(|attempt| !attempt.is_acknowledged).filter(is_there).count(),
            ),
            strange: count(there.difference(&tried).count()),
            split: count(acknowledged().filter(is_split).count()),
        }
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
