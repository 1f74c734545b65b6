//! What came of a block of load, so that it can travel from the machine that made it.

use std::collections::BTreeMap;
use std::time::Duration;

use duramen_measure::histogram::LatencyHistogram;
use serde::{Deserialize, Serialize};

/// So many codes of errors are told apart.
const MOST_CODES: usize = 32;
/// What is kept of the first text of an error.
const LONGEST_TEXT: usize = 200;

/// A block of load.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Tally {
    /// Each kind, in the order of the workload.
    pub kinds: Vec<KindTally>,
    /// From the beginning to the end of the last transaction, in nanoseconds.
    pub elapsed_ns: u64,
    /// How many transactions were due while too many waited already (open loop).
    pub dropped: u64,
    /// The longest time in which no transaction ended well, in nanoseconds.
    pub longest_gap_ns: u64,
    /// Sessions that were not at the level of the block any more when it ended.
    pub strayed: u64,
}

/// One kind of transaction.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct KindTally {
    /// Its name.
    pub name: String,
    /// Transactions that ended well.
    pub committed: u64,
    /// From when each was due (open loop) or begun to its end, retries included; also of those that were cut off.
    #[serde(with = "histogram")]
    pub response: LatencyHistogram,
    /// Everything before the statements that commit.
    #[serde(with = "histogram")]
    pub work: LatencyHistogram,
    /// The statements that commit: COMMIT, or those outside of any block. What waits for the standby waits here.
    #[serde(with = "histogram")]
    pub commit: LatencyHistogram,
    /// Transactions that were tried more than once.
    pub retried: u64,
    /// Tries that were repeated, by SQLSTATE.
    pub retries: BTreeMap<String, u64>,
    /// Transactions that failed, by SQLSTATE or by what else it was.
    pub errors: BTreeMap<String, Failures>,
}

/// Failures of one code.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Failures {
    /// How many.
    pub count: u64,
    /// What the first one said.
    pub first: String,
}

/// How soon the standby shows what was committed.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Freshness {
    /// The kind of transaction.
    pub name: String,
    /// Commits after which the standby was asked.
    pub asked: u64,
    /// Of those, how many it did not show at once.
    pub stale: u64,
    /// And how many it had not shown when it was not asked any longer.
    pub never: u64,
    /// How long those were stale that were shown later.
    #[serde(with = "histogram")]
    pub stale_for: LatencyHistogram,
    /// Questions that failed, by SQLSTATE.
    pub errors: BTreeMap<String, Failures>,
}

/// What failed, and how.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Failed {
    /// A SQLSTATE, `client`, `connection`, `open` or `cut off`.
    pub(crate) code: String,
    pub(crate) text: String,
}

impl Failed {
    pub(crate) fn client(line: usize, text: impl std::fmt::Display) -> Self {
        Self { code: "client".to_owned(), text: format!("line {line}: {text}") }
    }

    pub(crate) fn cut_off() -> Self {
        Self { code: "cut off".to_owned(), text: "it had not ended when the load was given up".to_owned() }
    }

    pub(crate) fn of_server(error: &tokio_postgres::Error) -> Self {
        match error.as_db_error() {
            Some(said) => Self { code: said.code().code().to_owned(), text: said.to_string() },
            None => Self {
                code: "connection".to_owned(),
                text: duramen_postgres::connection::with_sources(error),
            },
        }
    }
}

/// Counts a failure; what are too many codes are told together.
pub(crate) fn note(errors: &mut BTreeMap<String, Failures>, failed: &Failed) {
    let is_known = errors.contains_key(&failed.code) || errors.len() < MOST_CODES;
    let code = if is_known { failed.code.as_str() } else { "others" };
    let entry = errors.entry(code.to_owned()).or_default();
    if entry.count == 0 {
        entry.first = failed.text.chars().take(LONGEST_TEXT).collect();
    }
    entry.count += 1;
}

/// One transaction that ended.
pub(crate) struct Ended {
    pub(crate) kind: usize,
    pub(crate) work: Duration,
    pub(crate) commit: Duration,
    pub(crate) service: Duration,
    pub(crate) retries: Vec<String>,
    pub(crate) result: Result<(), Failed>,
    /// When it ended, after the beginning of the block.
    pub(crate) at: Duration,
}

impl Tally {
    pub(crate) fn of<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let kind = |name: &str| KindTally { name: name.to_owned(), ..KindTally::default() };
        Self { kinds: names.map(kind).collect(), ..Self::default() }
    }

    /// Counts one; `response` in an open loop is from when it was due.
    pub(crate) fn note(&mut self, ended: &Ended, response: Option<Duration>) {
        let Some(kind) = self.kinds.get_mut(ended.kind) else { return };
        if !ended.retries.is_empty() {
            kind.retried += 1;
        }
        for code in &ended.retries {
            *kind.retries.entry(code.clone()).or_default() += 1;
        }
        let response = response.unwrap_or(ended.service);
        match &ended.result {
            Ok(()) => {
                kind.committed += 1;
                kind.response.record(response);
                kind.work.record(ended.work);
                kind.commit.record(ended.commit);
            }
            Err(failed) => {
                // How soon something fails says nothing of commits; that it has waited so long at least does.
                if failed.code == "cut off" {
                    kind.response.record(response);
                }
                note(&mut kind.errors, failed);
            }
        }
    }

    pub(crate) fn close(&mut self, elapsed: Duration, mut ends: Vec<Duration>) {
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.elapsed_ns = nanoseconds(elapsed);
        ends.push(elapsed);
        ends.sort_unstable();
        let mut last = Duration::ZERO;
        let mut longest = Duration::ZERO;
        for end in ends {
            longest = longest.max(end.saturating_sub(last));
            last = end;
        }
        self.longest_gap_ns = nanoseconds(longest);
    }

    /// How many transactions ended well.
    #[must_use]
    pub fn committed(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.committed).sum()
    }

    /// How many failed.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.kinds.iter().flat_map(|kind| kind.errors.values()).map(|failures| failures.count).sum()
    }

    /// How long it lasted.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.elapsed_ns)
    }

    /// Transactions a second.
    #[must_use]
    pub fn per_second(&self) -> f64 {
        self.committed() as f64 / self.elapsed().as_secs_f64().max(1e-9)
    }
}

/// Histograms as text.
mod histogram {
    use duramen_measure::histogram::LatencyHistogram;
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        histogram: &LatencyHistogram,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&histogram.to_base64_v2())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<LatencyHistogram, D::Error> {
        let text = String::deserialize(deserializer)?;
        LatencyHistogram::from_base64_v2(&text).map_err(D::Error::custom)
    }
}
