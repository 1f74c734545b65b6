//! What a rehearsal comes to: the document, its outcome, its exit status.

use crate::{
    figures::{LoadReport, Statement, TableLocks, WaitOf},
    migration::Ending,
    plans::QueryPlans,
    relations::RelationChange,
};
use duramen_api::model::SchemaDiff;
use duramen_client::run::Fate;
use duramen_measure::evidence::Finding;
use jiff::Timestamp;
use serde::Serialize;
use std::collections::BTreeMap;

/// The form of the document.
pub const SCHEMA: &str = "duramen.rehearsal/1";

/// What a rehearsal came to. The greatest one that holds counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Outcome {
    /// The migration succeeded, and no gate was exceeded.
    Succeeded,
    /// It did, but somebody would wait for too long.
    GateExceeded,
    /// It did, but not enough was seen of it.
    Invalid,
    /// It failed.
    MigrationFailed,
    /// It did not end before its deadline, and was ended.
    Deadline,
}

impl Outcome {
    /// The exit status that says so.
    ///
    /// ```
    /// use duramen_rehearse::Outcome;
    /// assert_eq!((Outcome::Succeeded.exit_code(), Outcome::GateExceeded.exit_code()), (0, 6));
    /// ```
    #[must_use]
    pub fn exit_code(self) -> u8 {
        match self {
            Outcome::Succeeded => 0,
            Outcome::Invalid => 3,
            Outcome::MigrationFailed => 4,
            Outcome::Deadline => 5,
            Outcome::GateExceeded => 6,
        }
    }

    /// In a word or two.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Succeeded => "succeeded",
            Outcome::GateExceeded => "gate exceeded",
            Outcome::Invalid => "invalid",
            Outcome::MigrationFailed => "failed",
            Outcome::Deadline => "deadline",
        }
    }
}

/// A limit, and what was held against it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Gate {
    /// The limit, in milliseconds.
    pub max_lock_wait_ms: f64,
    /// The longest wait of the load for the migration; without a load, the longest time for which a lock was held that keeps others
    /// from writing.
    pub measured_ms: f64,
    /// Whether it is within the limit.
    pub passed: bool,
}

/// The log that was written, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Wal {
    /// While the migration ran, by everybody.
    pub bytes: u64,
    /// Of these, what the load writes in such a time, by its rate before.
    pub load_bytes: u64,
    /// Sizes of new files, whose content is not logged with `wal_level = minimal`, and is elsewhere.
    pub unlogged_bytes: u64,
}

/// How closely it was looked.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Looks {
    /// How often.
    pub count: u64,
    /// The time between two looks that was meant, in milliseconds.
    pub interval_ms: f64,
    /// The longest time between two looks while the migration ran.
    pub longest_gap_ms: f64,
    /// Whether there was more to be seen than is kept.
    pub is_cut: bool,
    /// What kept it from seeing more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The command, and how it ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Migration {
    /// The command.
    pub command: String,
    /// How it ended.
    pub ending: Ending,
    /// How long it ran, in milliseconds.
    pub duration_ms: f64,
    /// The end of what it printed.
    pub output: Vec<String>,
    /// Whether it printed more.
    pub is_output_cut: bool,
    /// Its statements, as far as they were seen.
    pub statements: Vec<Statement>,
    /// What it waited for itself.
    pub waits: Vec<WaitOf>,
}

/// An upgrade of the server that was rehearsed in the place of a migration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Upgrade {
    /// The version before.
    pub from: String,
    /// The version after.
    pub to: String,
    /// Extensions of which a later version waits for `ALTER EXTENSION ... UPDATE`.
    pub outdated_extensions: Vec<String>,
}

/// Everything that is told of a rehearsal.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Version of Duramen.
    pub version: &'static str,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub finished_at: Timestamp,
    /// What it came to.
    pub outcome: Outcome,
    /// The source.
    pub source: String,
    /// Its generation.
    pub generation: u64,
    /// The branch in which it happened.
    pub branch: String,
    /// What became of that.
    pub fate: Fate,
    /// Settings of the branch's server that matter, and its version.
    pub server: BTreeMap<String, String>,
    /// The migration.
    pub migration: Migration,
    /// The upgrade, if it was one; the migration is `pg_upgrade` then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upgrade: Option<Upgrade>,
    /// The gate, if one was set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gate: Option<Gate>,
    /// What was noticed.
    pub findings: Vec<Finding>,
    /// Locks that the migration held on what was there before it, the worst first.
    pub locks: Vec<TableLocks>,
    /// Tables and indexes that are not as they were.
    pub relations: Vec<RelationChange>,
    /// The log.
    pub wal: Wal,
    /// The load, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load: Option<LoadReport>,
    /// Plans of the queries that were given.
    pub queries: Vec<QueryPlans>,
    /// What the branch defines, compared with what it was made of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub definitions: Option<SchemaDiff>,
    /// Why it is not known what the branch defines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub definitions_unknown: Option<String>,
    /// How closely it was looked.
    pub looks: Looks,
}

impl Report {
    /// What it comes to, by its parts.
    pub(crate) fn judged(mut self) -> Report {
        self.outcome = match self.migration.ending {
            Ending::Deadline => Outcome::Deadline,
            Ending::Exit(0) if self.looks.error.is_some() => Outcome::Invalid,
            Ending::Exit(0) if self.gate.as_ref().is_some_and(|gate| !gate.passed) => Outcome::GateExceeded,
            Ending::Exit(0) => Outcome::Succeeded,
            Ending::Exit(_) | Ending::Signal(_) => Outcome::MigrationFailed,
        };
        self
    }

    /// The outcome in a sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        use duramen_base::words::number;
        let took = crate::figures::span(self.migration.duration_ms);
        let gate = self.gate.as_ref().filter(|gate| !gate.passed).map(|gate| {
            let whose = if self.load.is_some() {
                "The load waited for the migration for up to"
            } else {
                "A lock that keeps others from writing was held for"
            };
            let limit = number(gate.max_lock_wait_ms);
            format!(" {whose} {}; the limit is {limit} ms.", crate::figures::span(gate.measured_ms))
        });
        let gate = gate.unwrap_or_default();
        let what = match &self.upgrade {
            Some(upgrade) => format!("The upgrade from PostgreSQL {} to {}", upgrade.from, upgrade.to),
            None => "The migration".to_owned(),
        };
        match (self.outcome, self.migration.ending) {
            (Outcome::Invalid, _) => {
                let why = self.looks.error.as_deref().unwrap_or("not enough was seen");
                format!("{what} succeeded after {took}, but what it did to others is not known: {why}.")
            }
            (_, Ending::Deadline) => format!("{what} was ended at its deadline, after {took}.{gate}"),
            (_, Ending::Exit(0)) => format!("{what} succeeded after {took}.{gate}"),
            (_, Ending::Exit(_)) if self.upgrade.is_some() => format!("{what} is refused."),
            (_, Ending::Exit(code)) => {
                format!("{what} failed with exit status {code} after {took}.{gate}")
            }
            (_, Ending::Signal(signal)) => {
                format!("{what} was ended by signal {signal} after {took}.{gate}")
            }
        }
    }
}
