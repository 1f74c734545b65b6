//! How far each standby has come, some hundred times a second.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use duramen_base::clock;
use duramen_postgres::connection::Target;
use duramen_reports::suite::SuiteError;
use tokio::sync::watch;
use tokio_postgres::{Client, Statement};

use crate::error::said;
use crate::level::Level;

/// Between two looks at the primary.
const PAUSE: Duration = Duration::from_millis(2);
/// Between two looks at a standby of a standby.
const PAUSE_BELOW: Duration = Duration::from_millis(10);
/// A server answers within this, or has not answered.
const ANSWER: Duration = Duration::from_secs(2);

/// How far a standby has come: positions in the WAL, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Position {
    /// Written to its operating system.
    pub written: u64,
    /// On its disk.
    pub flushed: u64,
    /// Replayed.
    pub replayed: u64,
}

/// One of the positions of a standby.
pub type Stage = fn(&Position) -> u64;

impl Position {
    /// The stages, in order, with their names.
    pub const STAGES: [(&'static str, Stage); 3] =
        [("write", |at| at.written), ("flush", |at| at.flushed), ("replay", |at| at.replayed)];

    /// What a commit at a level waits for.
    #[must_use]
    pub fn of(&self, level: Level) -> u64 {
        match level {
            Level::RemoteWrite => self.written,
            Level::RemoteApply => self.replayed,
            Level::Off | Level::Local | Level::On => self.flushed,
        }
    }
}

/// A standby of the primary at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// How far it has come, as the primary knows.
    pub position: Position,
    /// Whether commits may wait for it now: `sync` or `quorum`.
    pub is_synchronous: bool,
}

/// One look at the primary.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// From the beginning of the pass.
    pub at: Duration,
    /// How far the WAL is on the primary's own disk.
    pub flushed: u64,
    /// Its standbys, by their names.
    pub standbys: BTreeMap<String, Seen>,
}

/// One look at a standby of a standby, which the primary does not know.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Below {
    /// From the beginning of the pass.
    pub at: Duration,
    /// How far it has come.
    pub position: Position,
}

/// What was seen in a pass.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Seeing {
    /// Of the primary, in order.
    pub samples: Vec<Sample>,
    /// Of standbys of standbys, by name, in order.
    pub below: BTreeMap<String, Vec<Below>>,
}

impl Seeing {
    /// The time between two looks, in the middle.
    #[must_use]
    pub fn resolution(&self) -> Duration {
        let mut pauses: Vec<Duration> =
            self.samples.windows(2).map(|pair| pair[1].at.saturating_sub(pair[0].at)).collect();
        pauses.sort_unstable();
        pauses.get(pauses.len() / 2).copied().unwrap_or_default()
    }

    /// Where a standby stood at each look at which it was there.
    #[must_use]
    pub fn track(&self, name: &str) -> Vec<(Duration, Position)> {
        match self.below.get(name) {
            Some(below) => below.iter().map(|look| (look.at, look.position)).collect(),
            None => {
                let seen = |sample: &Sample| Some((sample.at, sample.standbys.get(name)?.position));
                self.samples.iter().filter_map(seen).collect()
            }
        }
    }

    /// At each look at a standby between two times: by how many bytes, and for how long, it was behind the primary's disk.
    /// Late is how long ago the first byte that it does not have was on that disk.
    #[must_use]
    pub fn behind(
        &self,
        name: &str,
        stage: Stage,
        [begin, end]: [Duration; 2],
    ) -> Vec<(Duration, u64, Duration)> {
        let mut newest = 0;
        let mut oldest = 0;
        let mut behind = Vec::new();
        for (at, position) in self.track(name) {
            let has = stage(&position);
            while newest + 1 < self.samples.len() && self.samples[newest + 1].at <= at {
                newest += 1;
            }
            // Positions only grow, and so does what the standby misses first.
            while oldest < newest && self.samples[oldest].flushed <= has {
                oldest += 1;
            }
            let (Some(now), Some(first)) = (self.samples.get(newest), self.samples.get(oldest)) else {
                break;
            };
            if at < begin || at > end {
                continue;
            }
            let late = if first.flushed > has { at.saturating_sub(first.at) } else { Duration::ZERO };
            behind.push((at, now.flushed.saturating_sub(has), late));
        }
        behind
    }
}

/// The primary's question. One row a standby, and one without a name where there is none.
const QUESTION: &str = "SELECT (pg_current_wal_flush_lsn() - '0/0'::pg_lsn)::bigint, application_name,
     (write_lsn - '0/0'::pg_lsn)::bigint, (flush_lsn - '0/0'::pg_lsn)::bigint, (replay_lsn - '0/0'::pg_lsn)::bigint,
     coalesce(sync_state IN ('sync', 'quorum'), false)
     FROM (SELECT 1) AS one LEFT JOIN pg_catalog.pg_stat_replication ON state = 'streaming'";
/// A standby's.
const BELOW: &str = "SELECT coalesce((pg_last_wal_receive_lsn() - '0/0'::pg_lsn)::bigint, 0),
     coalesce((pg_last_wal_replay_lsn() - '0/0'::pg_lsn)::bigint, 0)";

/// One who looks at the primary.
pub(super) struct Eye {
    client: Client,
    question: Statement,
}

impl Eye {
    /// Connects.
    pub(super) async fn open(target: &Target) -> Result<Self, SuiteError> {
        let client = target.connect().await.map_err(SuiteError::refused("open a session that looks"))?;
        let prepared = tokio::time::timeout(ANSWER, client.prepare(QUESTION)).await;
        let question = prepared
            .map_err(|_| crate::error::timeout("the primary to answer", ANSWER))?
            .map_err(|error| SuiteError::refused("ask the primary for its standbys")(said(&error)))?;
        Ok(Self { client, question })
    }

    /// Looks once.
    pub(super) async fn look(&self, origin: Instant) -> Result<Sample, SuiteError> {
        let rows = tokio::time::timeout(ANSWER, self.client.query(&self.question, &[]))
            .await
            .map_err(|_| crate::error::timeout("the primary to tell of its standbys", ANSWER))?
            .map_err(|error| SuiteError::refused("ask the primary for its standbys")(said(&error)))?;
        let position = |value: Option<i64>| value.and_then(|value| u64::try_from(value).ok()).unwrap_or(0);
        let mut sample = Sample {
            at: clock::now().duration_since(origin),
            flushed: rows.first().map_or(0, |row| position(row.get(0))),
            standbys: BTreeMap::new(),
        };
        for row in rows {
            let Some(name) = row.get::<_, Option<String>>(1) else { continue };
            let seen = Seen {
                position: Position {
                    written: position(row.get(2)),
                    flushed: position(row.get(3)),
                    replayed: position(row.get(4)),
                },
                is_synchronous: row.get(5),
            };
            sample.standbys.insert(name, seen);
        }
        Ok(sample)
    }

    /// Looks until it is told to stop.
    pub(super) async fn watch(
        &self,
        origin: Instant,
        stop: watch::Receiver<bool>,
    ) -> Result<Vec<Sample>, SuiteError> {
        let mut samples = Vec::new();
        while !*stop.borrow() {
            samples.push(self.look(origin).await?);
            tokio::time::sleep(PAUSE).await;
        }
        Ok(samples)
    }
}

/// Looks at a standby of a standby until it is told to stop. One that is not there is looked for again.
pub(super) async fn watch_below(target: Target, origin: Instant, stop: watch::Receiver<bool>) -> Vec<Below> {
    let mut looks = Vec::new();
    let mut client: Option<Client> = None;
    while !*stop.borrow() {
        if client.is_none() {
            client = target.connect().await.ok();
        }
        let asked = match &client {
            Some(client) => tokio::time::timeout(ANSWER, client.query_one(BELOW, &[])).await.ok(),
            None => None,
        };
        match asked {
            Some(Ok(row)) => {
                let position = |index| u64::try_from(row.get::<_, i64>(index)).unwrap_or(0);
                // It says when it has received, which is when it has flushed.
                let (received, replayed) = (position(0), position(1));
                let position = Position { written: received, flushed: received, replayed };
                looks.push(Below { at: clock::now().duration_since(origin), position });
            }
            _ => client = None,
        }
        tokio::time::sleep(PAUSE_BELOW).await;
    }
    looks
}
