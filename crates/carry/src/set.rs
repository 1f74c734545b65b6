//! What a change set says of itself.

use duramen_changes::{Ending, Table};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The format of the manifest and the sections that is written.
pub(crate) const FORMAT: u32 = 1;

/// Names of sections.
pub(crate) const STATEMENTS: &str = "statements";
pub(crate) const ROWS: &str = "rows";
pub(crate) const TABLES: &str = "tables";
pub(crate) const SEQUENCES: &str = "sequences";

/// Statements of a change set.
pub(crate) const STATEMENTS_MAX: u64 = 100_000;
/// Bytes of one statement.
pub(crate) const STATEMENT_BYTES_MAX: usize = 8 << 20;
/// Tables of a change set, and its sequences.
pub(crate) const TABLES_MAX: u64 = 10_000;
/// Columns of a table: what PostgreSQL allows.
pub(crate) const COLUMNS_MAX: usize = 1600;
/// Bytes of a name: PostgreSQL has 63, and servers can be built with more.
pub(crate) const NAME_BYTES_MAX: usize = 255;
/// Bytes of a row, both sides together: a row lies in one block.
pub(crate) const ROW_BYTES_MAX: usize = 15 << 20;

/// Where changes came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The branch's name.
    pub branch: String,
    /// Its id, which stands in evidence and in the audit log.
    pub branch_id: String,
    /// Its source.
    pub source: String,
    /// The generation of the source.
    pub generation: u32,
    /// The digest of that generation's snapshot, if it was known when the change set was made.
    pub snapshot_digest: Option<String>,
    /// What the branch was compared with, in words.
    pub compared_with: String,
    /// What data the source's branches hold: `full` or `masked`.
    pub data: String,
}

/// A statement that changes definitions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ddl {
    /// Its text: exactly one statement.
    pub sql: String,
    /// Whether what it makes can be used in the same transaction: not so for values that are added to enumerations.
    pub in_transaction: bool,
}

/// What a change set says of itself before its sections are read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The format of what follows.
    pub format: u32,
    /// When it was made.
    pub made_at: Timestamp,
    /// Where the changes came from.
    pub origin: Origin,
    /// The digest of what differs, as the evidence of the branch has it (`duramen branch evidence --diff`).
    pub diff_digest: String,
    /// What to know before its statements are run.
    pub warnings: Vec<String>,
    /// Statements that change definitions.
    pub statements: u64,
    /// Tables with rows that differ.
    pub tables: u64,
    /// Rows that differ.
    pub rows: Ending,
    /// Sequences that differ.
    pub sequences: u64,
}

/// A table as it stands in the file, with how many of its rows follow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredTable {
    pub(crate) table: Table,
    pub(crate) rows: Ending,
}

/// The schema and the table in which a database keeps which change sets were applied to it.
pub(crate) const REGISTRY_SCHEMA: &str = "duramen";
pub(crate) const REGISTRY_TABLE: &str = "applied_changes";

/// Whether that is the table of applied change sets, which no change set carries.
pub(crate) fn is_registry(schema: &str, name: &str) -> bool {
    (schema, name) == (REGISTRY_SCHEMA, REGISTRY_TABLE)
}
