//! What an engine has to do.

use std::path::Path;
use std::str::FromStr;

use super::workload::Workload;
use duramen_reports::suite::Cause;

/// One grant as an engine read it: all of its fields.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Read<'a> {
    /// The id of the grant.
    pub id: &'a str,
    /// The id of the entitlement.
    pub entitlement: &'a str,
    /// The type of the entitlement's resource.
    pub resource_type: &'a str,
    /// The entitlement's resource.
    pub resource: &'a str,
    /// The type of the principal.
    pub principal_type: &'a str,
    /// The principal.
    pub principal: &'a str,
    /// When it was seen, in seconds since 1970.
    pub seen_seconds: i64,
}

/// How many rows are read at once.
pub(crate) const PAGE_ROWS: usize = 10_000;

/// A file format with its engine.
pub(crate) trait Engine {
    /// Writes all grants into a new file, durably, and closes it.
    fn write(&self, path: &Path, workload: &Workload) -> Result<(), Cause>;
    /// Opens the file, reads all grants in pages of [`PAGE_ROWS`] with all their fields, and closes it.
    fn read(&self, path: &Path, visit: &mut dyn FnMut(Read<'_>)) -> Result<(), Cause>;
    /// Opens the file and reads the grants of one user.
    fn lookup(&self, path: &Path, user: &str) -> Result<usize, Cause>;
    /// How many users are looked up.
    fn lookups(&self) -> usize {
        50
    }
    /// Opens the file and puts grants one by one into what is there, each of which must outlive the process when its
    /// put returns. `timed` is called with each put.
    fn put(&self, path: &Path, ids: &[(String, String)], timed: &mut dyn FnMut(Put<'_>))
        -> Result<(), Cause>;
}

/// One put, to be timed.
pub(crate) type Put<'a> = &'a mut dyn FnMut();

/// Which engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineName {
    /// An access graph in a pack.
    Pack,
    /// A `.c1z` file of version 3.
    C1z3,
    /// SQLite, tuned.
    Sqlite,
}

impl EngineName {
    /// All engines, in the order in which they are reported.
    pub const ALL: [EngineName; 3] = [EngineName::Pack, EngineName::C1z3, EngineName::Sqlite];

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            EngineName::Pack => "pack",
            EngineName::C1z3 => "c1z3",
            EngineName::Sqlite => "sqlite",
        }
    }

    /// What the names of its figures begin with.
    #[must_use]
    pub fn prefix(self) -> &'static str {
        match self {
            EngineName::Pack => "",
            EngineName::C1z3 => "c1z3.",
            EngineName::Sqlite => "sqlite.",
        }
    }

    pub(crate) fn engine(self) -> Box<dyn Engine> {
        match self {
            EngineName::Pack => Box::new(super::pack::PackEngine),
            EngineName::C1z3 => Box::new(super::c1z3::C1z3Engine),
            EngineName::Sqlite => Box::new(super::sqlite::SqliteEngine),
        }
    }
}

impl FromStr for EngineName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = EngineName::ALL.into_iter().find(|engine| engine.name() == text);
        found.ok_or_else(|| format!("there is no engine {text:?}; there are pack, c1z3 and sqlite"))
    }
}
