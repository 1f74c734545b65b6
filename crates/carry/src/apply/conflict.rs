//! What keeps a change set from being applied.

use duramen_changes::shown_name;
use serde::Serialize;
use std::fmt;

/// Conflicts that are listed.
pub(crate) const LISTED_MAX: usize = 100;
/// Characters of a value that are shown.
const SHOWN_MAX: usize = 60;

/// Something that is not as the change set needs it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Conflict {
    /// The schema of the table or sequence.
    pub schema: String,
    /// Its name.
    pub table: String,
    /// The columns and values that identify the row; of a row without a key all that it had. Empty if it is about all of the table.
    pub key: Vec<(String, Option<String>)>,
    /// What is not as it was.
    #[serde(flatten)]
    pub kind: ConflictKind,
}

/// What is not as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "conflict", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ConflictKind {
    /// A row that is to be changed or to go is not there.
    Missing,
    /// A row that is to be changed or to go has other values.
    Changed {
        /// Which.
        columns: Vec<Differing>,
    },
    /// A row that is to come is there.
    Exists,
    /// Rows without a key: fewer of them are there.
    TooFew {
        /// How many are to go.
        expected: i64,
        /// How many are there.
        found: i64,
    },
    /// A table that is to go has rows that the branch did not know.
    MoreRows {
        /// How many it had.
        expected: i64,
        /// How many it has.
        found: i64,
    },
    /// Rows of another table, which the change set does not know, would go or change with rows that are to go.
    Referenced {
        /// The other table.
        by: String,
        /// How many of its rows.
        rows: i64,
    },
    /// The table or sequence is not there.
    NotThere,
    /// A column is not there.
    NoColumn {
        /// Which.
        column: String,
    },
    /// A column has another type.
    OtherType {
        /// Which.
        column: String,
        /// The type in the branch.
        expected: String,
        /// The type here.
        found: String,
    },
    /// What identified a row in the branch does not identify one here.
    NoKey,
}

/// A value that is not as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Differing {
    /// The column.
    pub column: String,
    /// As it was when the branch was made.
    pub expected: Option<String>,
    /// As it is.
    pub found: Option<String>,
}

fn shown(value: Option<&str>) -> String {
    let Some(value) = value else { return "NULL".to_owned() };
    let begin: String = value.chars().take(SHOWN_MAX).flat_map(char::escape_debug).collect();
    let more = if value.chars().count() > SHOWN_MAX { "..." } else { "" };
    format!("'{begin}'{more}")
}

/// For people, in one line: what was stored may hold what moves a cursor.
impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name: String =
            shown_name(&self.schema, &self.table).chars().flat_map(char::escape_debug).collect();
        let plain = |text: &str| text.chars().flat_map(char::escape_debug).collect::<String>();
        write!(f, "{name}")?;
        let key: Vec<String> = self
            .key
            .iter()
            .map(|(column, value)| format!("{} {}", plain(column), shown(value.as_deref())))
            .collect();
        if !key.is_empty() {
            write!(f, " [{}]", key.join(", "))?;
        }
        match &self.kind {
            ConflictKind::Missing => write!(f, ": the row is not there any more"),
            ConflictKind::Changed { columns } => {
                let columns: Vec<String> = columns
                    .iter()
                    .map(|it| {
                        let (expected, found) = (shown(it.expected.as_deref()), shown(it.found.as_deref()));
                        format!("{} was {expected}, and is {found}", plain(&it.column))
                    })
                    .collect();
                write!(f, ": {}", columns.join("; "))
            }
            ConflictKind::Exists => write!(f, ": a row with this key is there already"),
            ConflictKind::TooFew { expected, found } => {
                write!(f, ": {expected} such rows are to go, and {found} are there")
            }
            ConflictKind::MoreRows { expected, found } => {
                write!(f, ": the table is to go; it had {expected} rows, and has {found}")
            }
            ConflictKind::Referenced { by, rows } => {
                write!(
                    f,
                    ": {rows} rows of {} that the change set does not know would go or change with its rows",
                    plain(by)
                )
            }
            ConflictKind::NotThere => write!(f, ": it is not there"),
            ConflictKind::NoColumn { column } => write!(f, ": the column {} is not there", plain(column)),
            ConflictKind::OtherType { column, expected, found } => {
                let [column, expected, found] = [column, expected, found].map(|text| plain(text));
                write!(f, ": the column {column} was {expected}, and is {found}")
            }
            ConflictKind::NoKey => {
                write!(f, ": what identified its rows in the branch is not unique here")
            }
        }
    }
}

/// Conflicts that were found, the first of them.
#[derive(Debug, Default)]
pub(crate) struct Conflicts {
    pub(crate) listed: Vec<Conflict>,
    pub(crate) more: bool,
}

impl Conflicts {
    pub(crate) fn push(&mut self, conflict: Conflict) {
        if self.listed.len() < LISTED_MAX {
            self.listed.push(conflict);
        } else {
            self.more = true;
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.listed.is_empty()
    }

    /// How many more are worth asking for, with one that says that there are more.
    pub(crate) fn room(&self) -> usize {
        LISTED_MAX + 1 - self.listed.len().min(LISTED_MAX)
    }
}
