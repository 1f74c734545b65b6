//! The rules by which values of a source are replaced, or rows left out, before any branch of it exists.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// The masking rules of a source. An empty object (`{}`) leaves only the labels of PostgreSQL Anonymizer as rules.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Masking {
    /// What becomes of columns, by `schema.table` (names as in SQL) and column. A rule for a partitioned table or a parent
    /// is one for all that inherit from it.
    pub columns: BTreeMap<String, BTreeMap<String, Mask>>,
    /// Conditions in SQL, by `schema.table`: rows that do not meet theirs are removed, and with them the rows whose
    /// foreign keys refer to them.
    pub rows: BTreeMap<String, String>,
}

/// What becomes of the values of a column.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mask {
    /// They become null.
    Null,
    /// A pseudonym that cannot be computed without the home's key. Equal values stay equal in all columns of the same type.
    Hash,
    /// They are kept, whatever label the column has.
    Keep,
    /// All of them become this one, written as in SQL without its quotes.
    Constant(String),
}

impl std::fmt::Display for Mask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Mask::Null => "null",
            Mask::Hash => "hash",
            Mask::Keep => "keep",
            Mask::Constant(_) => "constant",
        })
    }
}
