//! Why a change set cannot be written, read or applied.

use crate::apply::Conflict;
use duramen_base::words::counted;
use duramen_pack::PackError;
use duramen_postgres::connection::ConnectError;
use jiff::Timestamp;
use std::time::Duration;

/// Why a change set cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetError {
    /// The file is not a pack, is a pack of another kind, is damaged, or cannot be read or written.
    #[error(transparent)]
    Pack(#[from] PackError),
    /// All digests are right, and what stands in it makes no sense.
    #[error("{file} cannot be used as a change set: {what}; make it again with `duramen change make`")]
    Malformed {
        /// Which file.
        file: String,
        /// What is wrong with it.
        what: String,
    },
    /// A later version wrote it.
    #[error("{file} has the format {found} of change sets, and this version knows up to {known}; use the version that wrote it")]
    Newer {
        /// Which file.
        file: String,
        /// What it says.
        found: u32,
        /// The latest that is known here.
        known: u32,
    },
    /// Not all that differs was told, so it would not be what the branch is.
    #[error("more than {limit} rows differ, and a change set holds all of them or none; change less in one branch, or carry the work by what did it")]
    TooManyRows {
        /// How many are told at most.
        limit: u64,
    },
    /// Something cannot be carried.
    #[error("{what} cannot go into a change set: {why}")]
    NotCarried {
        /// What.
        what: String,
        /// Why, and what to do.
        why: String,
    },
}

/// A table that the server names in an error.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    /// Its schema.
    pub schema: String,
    /// Its name.
    pub table: String,
}

/// Why a change set was not applied. Unless it says otherwise, nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// The file.
    #[error(transparent)]
    Set(#[from] SetError),
    /// The database was not reached.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// Rows are not as they were when the branch was made.
    #[error("nothing was changed: {} with the change set{}; look there, then make the change set again from a branch of the present data", counted(.conflicts.len(), "conflict"), if *.more { ", and more" } else { "" })]
    Conflicts {
        /// The first of them.
        conflicts: Vec<Conflict>,
        /// Whether there are more.
        more: bool,
    },
    /// The server refused.
    #[error("nothing was changed: {doing} failed: {cause}")]
    Refused {
        /// What was done.
        doing: String,
        /// Its words.
        cause: String,
        /// Its code (SQLSTATE), if it gave one.
        code: Option<String>,
        /// The table that it names, if it names one.
        place: Option<Box<Place>>,
    },
    /// Somebody holds a lock.
    #[error("nothing was changed: {doing} waited for a lock for {} ms; try again when the database is less busy, or with a longer --lock-timeout", .limit.as_millis())]
    Locked {
        /// What was done.
        doing: String,
        /// How long it was waited for.
        limit: Duration,
    },
    /// A statement is none that a change set may hold.
    #[error("nothing was changed: statement {number} of the change set is refused: {why}: {sql}")]
    Statement {
        /// Which one, from 1.
        number: usize,
        /// Why.
        why: String,
        /// Its beginning.
        sql: String,
    },
    /// The table of applied change sets is not one that can be trusted.
    #[error("nothing was changed: {0}")]
    Registry(String),
    /// Triggers would fire, and nobody has said whether they are to.
    #[error("nothing was changed: tables of the change set have triggers ({}); what they did in the branch stands in the change set: say `--triggers off` to have it as it stands there, or `--triggers fire` to have them fire once more", .names.join(", "))]
    Triggers {
        /// Some of them: the table, and the trigger.
        names: Vec<String>,
    },
    /// A trigger or rule of the database had rows changed otherwise.
    #[error("nothing was changed: {doing} of {table} reached {found} rows, and the change set has {expected}; a trigger, a rule or a cascade did something else with them, and `--triggers off` keeps triggers from it")]
    OtherRows {
        /// What was done.
        doing: &'static str,
        /// In which table.
        table: String,
        /// Rows of the change set.
        expected: u64,
        /// Rows that the server reports.
        found: u64,
    },
    /// The connection broke before the commit.
    #[error("nothing was changed: the connection to {target} broke: {cause}; apply it again")]
    Lost {
        /// Host and database.
        target: String,
        /// Why.
        cause: String,
    },
    /// The connection broke at the commit, and the database was not reached since.
    #[error("it is not known whether the change set was applied: the connection to {target} broke at the commit ({cause}), and it was not reached since; run the same command again: it tells, and never applies twice")]
    Unknown {
        /// Host and database.
        target: String,
        /// Why.
        cause: String,
    },
    /// A branch was merged before, and has changed since.
    #[error("nothing was changed: {branch} was merged before, at {at} by {by}, and has changed since: what came by that merge cannot be told from what the parent did itself; make a new branch of the parent, and do the rest there")]
    MergedBefore {
        /// The branch.
        branch: String,
        /// When it was merged.
        at: Timestamp,
        /// By which role.
        by: String,
    },
    /// It cannot be applied as a durable function.
    #[error("nothing was changed: it cannot be applied durably: {0}")]
    NotDurable(String),
    /// The instance that was to apply it ended otherwise.
    #[error("nothing was changed: instance {instance} did not apply the change set: {cause}; run the same command again to have another one do it")]
    Instance {
        /// Its id.
        instance: String,
        /// What became of it.
        cause: String,
    },
    /// It took too long.
    #[error("nothing was changed: it took longer than {} s; change less at once", .limit.as_secs())]
    TooSlow {
        /// The limit.
        limit: Duration,
    },
}
