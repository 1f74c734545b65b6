//! `GET /v1/branches/{name}/data-diff`: which rows of a branch differ from the snapshot that it was cloned from.

use crate::model::ErrorBody;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Rows that are told unless the request says how many.
pub const DIFF_ROWS: u32 = 1000;
/// Rows that are told at most.
pub const DIFF_ROWS_MAX: u32 = 1_000_000;

/// A line of the reply. A table's rows and its ending follow it. The last line is the summary, or says why the comparison
/// failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DataDiff {
    /// A table that differs.
    Table(DiffTable),
    /// A row of the last table that differs.
    Row(DiffRow),
    /// How many rows of the last table differ.
    Ending(DiffCounts),
    /// A sequence that differs.
    Sequence(DiffSequence),
    /// The end of all.
    Summary(DiffSummary),
    /// The comparison failed. What was told until then holds.
    Failed(ErrorBody),
}

/// A column that is compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiffColumn {
    /// Its name.
    pub name: String,
    /// Its type in the branch.
    pub type_name: String,
    /// Whether it is `GENERATED ALWAYS AS IDENTITY`.
    pub is_always_generated: bool,
}

/// The side that alone has something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DiffSide {
    /// The branch.
    Branch,
    /// The snapshot.
    Snapshot,
}

/// A column that is not compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiffLeftOut {
    /// Its name.
    pub name: String,
    /// The side that alone has it, if that is why.
    pub only_in: Option<DiffSide>,
    /// Why.
    pub why: String,
}

/// What of a table was read on both sides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DiffCompared {
    /// Its blocks that differ.
    Blocks {
        /// How many.
        changed: u64,
        /// Out of how many.
        of: u64,
    },
    /// All of it.
    Full {
        /// Why.
        why: String,
    },
}

/// A table that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiffTable {
    /// Its schema.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// The columns that both have, in the order of the values of rows.
    pub columns: Vec<DiffColumn>,
    /// Places in `columns` of those that identify a row; empty if whole rows are compared.
    pub key: Vec<usize>,
    /// The columns that are not compared.
    pub left_out: Vec<DiffLeftOut>,
    /// If only one side has the table.
    pub only_in: Option<DiffSide>,
    /// What was read.
    pub compared: DiffCompared,
}

/// A row that differs. Values are as the server writes them as text; `null` is NULL.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiffRow {
    /// In the snapshot; null for one that was added.
    pub old: Option<Vec<Option<String>>>,
    /// In the branch; null for one that was removed.
    pub new: Option<Vec<Option<String>>>,
}

/// How many rows differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiffCounts {
    /// Rows that the branch alone has.
    pub added: u64,
    /// Rows that the snapshot alone has.
    pub removed: u64,
    /// Rows with the same key and other values.
    pub changed: u64,
    /// Those of all these that were told.
    pub listed: u64,
}

/// Where a sequence stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiffSequenceState {
    /// The last value.
    pub last_value: i64,
    /// Whether it was given out.
    pub is_called: bool,
}

/// A sequence that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiffSequence {
    /// Its schema.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// In the snapshot, if it is there.
    pub old: Option<DiffSequenceState>,
    /// In the branch, if it is there.
    pub new: Option<DiffSequenceState>,
}

/// All that differs, counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiffSummary {
    /// Tables that were compared.
    pub tables: u64,
    /// Tables with rows that differ.
    pub differing: u64,
    /// Their rows.
    pub rows: DiffCounts,
    /// Sequences that differ.
    pub sequences: u64,
}

/// Tables in one text, separated by commas. A name that holds a comma stands in double quotes, as in SQL.
#[must_use]
pub fn names_in(text: &str) -> Vec<String> {
    let (mut names, mut name, mut is_quoted) = (Vec::new(), String::new(), false);
    for character in text.chars() {
        match character {
            ',' if !is_quoted => names.push(std::mem::take(&mut name)),
            _ => {
                is_quoted ^= character == '"';
                name.push(character);
            }
        }
    }
    names.push(name);
    names.retain(|name| !name.trim().is_empty());
    names.iter().map(|name| name.trim().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::names_in;

    #[test]
    fn commas_in_quotes_separate_nothing() {
        assert_eq!(names_in("public.a, \"o,d\"\"d\".b,"), ["public.a", "\"o,d\"\"d\".b"]);
        assert!(names_in("").is_empty());
    }
}
