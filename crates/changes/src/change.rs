//! What is told of a comparison.

use serde::{Deserialize, Serialize};

/// One piece of what is told. All rows of a table come between its [`Part::Table`] and its [`Part::Ending`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// A table whose rows differ, or may differ.
    Table(Table),
    /// A row of the last table.
    Row(Row),
    /// How many rows of the last table differ.
    Ending(Ending),
    /// A sequence that differs.
    Sequence(Sequence),
    /// The end of all.
    Summary(Summary),
}

/// A column with its place in the rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type in the branch, as SQL.
    pub type_name: String,
    /// Whether an `INSERT` has to override the value that the server would generate.
    pub is_always_generated: bool,
}

/// A column that is not compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Its name.
    pub name: String,
    /// The side that alone has it, if that is why.
    pub only_in: Option<Only>,
    /// Why.
    pub why: String,
}

/// Why a column is not compared whose values follow from those of others.
pub(crate) const GENERATED: &str = "it is generated from other columns";

impl LeftOut {
    /// Whether its values follow from those of other columns.
    #[must_use]
    pub fn is_generated(&self) -> bool {
        self.why == GENERATED
    }

    /// Whether one side alone has a column of these: then the tables differ, whatever their rows hold.
    #[must_use]
    pub fn any_one_sided(columns: &[LeftOut]) -> bool {
        columns.iter().any(|column| column.only_in.is_some())
    }
}

/// The side that alone has something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Only {
    /// The branch.
    Branch,
    /// The snapshot.
    Snapshot,
}

/// What of a table was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Compared {
    /// The blocks that differ.
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

/// A table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// Its schema.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// The columns that are compared, in the order of the values of rows.
    pub columns: Vec<Column>,
    /// Places in `columns` of those that identify a row; empty if whole rows are compared.
    pub key: Vec<usize>,
    /// The columns that are not compared.
    pub left_out: Vec<LeftOut>,
    /// If only one side has the table.
    pub only_in: Option<Only>,
    /// What was read.
    pub compared: Compared,
}

impl Table {
    /// Whether a column is one that the branch alone has. If its values are told all the same, rows of the snapshot have
    /// `None` in its place.
    #[must_use]
    pub fn is_new(&self, column: &str) -> bool {
        self.left_out.iter().any(|it| it.only_in == Some(Only::Branch) && it.name == column)
    }
}

/// A row that differs. Values are as the server writes them as text; `None` is NULL.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// In the snapshot; `None` for one that was added.
    pub old: Option<Vec<Option<String>>>,
    /// In the branch; `None` for one that was removed.
    pub new: Option<Vec<Option<String>>>,
}

/// How many rows of a table differ.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SequenceState {
    /// The last value.
    pub last_value: i64,
    /// Whether it was given out.
    pub is_called: bool,
}

/// A sequence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sequence {
    /// Its schema.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// In the snapshot, if it is there.
    pub old: Option<SequenceState>,
    /// In the branch, if it is there.
    pub new: Option<SequenceState>,
}

/// All that differs, counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Tables that were compared.
    pub tables: u64,
    /// Tables with rows that differ.
    pub differing: u64,
    /// Their rows.
    pub rows: Ending,
    /// Sequences that differ.
    pub sequences: u64,
}

impl Ending {
    /// Rows that differ.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.added + self.removed + self.changed
    }

    /// Whether there are rows that were not told.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.listed < self.total()
    }
}

impl Summary {
    /// Whether nothing differs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.total() == 0 && self.sequences == 0
    }
}

/// A table or sequence as people write it: `schema.name`, quoted where that is needed to tell it from others.
#[must_use]
pub fn shown_name(schema: &str, name: &str) -> String {
    let part = |text: &str| match text.contains(['.', '"', '(', ' ', ',']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    };
    format!("{}.{}", part(schema), part(name))
}
