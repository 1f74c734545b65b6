//! What both sides did, and what is in the way.

use crate::{
    apply::{conflict::LISTED_MAX, Conflict},
    error::Place,
};
use serde::Serialize;
use std::fmt;

/// Characters of a value that are told.
const VALUE_CHARS_MAX: usize = 200;

/// Why something is a conflict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Reason {
    /// Both changed a column, to different values.
    Changed,
    /// Both changed a column to the same value.
    SameChange,
    /// The child changed a row that the parent deleted.
    DeletedByParent,
    /// The child deleted a row that the parent changed.
    DeletedByChild,
    /// Both inserted a row with this key, with different values.
    Inserted,
    /// Rows without a key, of which the parent has fewer than the child took away.
    TooFew,
    /// A constraint is violated by the combination.
    Constraint,
    /// Something is not there, is of another type, or would go with what goes.
    Structure,
}

/// Whose side was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Taken {
    /// The parent's.
    Ours,
    /// The child's.
    Theirs,
}

/// A column's three values. Long ones are cut off.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Three {
    /// The column.
    pub column: String,
    /// In the base; `None` for NULL, and for a row that was not there.
    pub base: Option<String>,
    /// In the parent.
    pub ours: Option<String>,
    /// In the child.
    pub theirs: Option<String>,
}

/// One conflict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MergeConflict {
    /// Why.
    pub reason: Reason,
    /// The schema of the table; empty if the server did not say.
    pub schema: String,
    /// Its name.
    pub table: String,
    /// The columns and values that identify the row; of a row without a key all of it. Empty if it is not about one row.
    pub key: Vec<(String, Option<String>)>,
    /// The columns that are concerned.
    pub columns: Vec<Three>,
    /// In words, where columns do not say it.
    pub detail: Option<String>,
    /// Whose side was taken; `None` if nothing answers it.
    pub taken: Option<Taken>,
}

/// A value as it is told.
pub(super) fn told(value: Option<&str>) -> Option<String> {
    let value = value?;
    match value.char_indices().nth(VALUE_CHARS_MAX) {
        None => Some(value.to_owned()),
        Some((end, _)) => Some(format!("{}...", &value[..end])),
    }
}

/// For people, in one line.
impl fmt::Display for MergeConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = |text: &str| text.chars().flat_map(char::escape_debug).collect::<String>();
        let value = |value: &Option<String>| match value {
            None => "NULL".to_owned(),
            Some(text) => format!("'{}'", plain(text)),
        };
        if !self.table.is_empty() && self.reason != Reason::Structure {
            write!(f, "{}", plain(&duramen_changes::shown_name(&self.schema, &self.table)))?;
            let key: Vec<String> =
                self.key.iter().map(|(column, it)| format!("{} {}", plain(column), value(it))).collect();
            if !key.is_empty() {
                write!(f, " [{}]", key.join(", "))?;
            }
            f.write_str(": ")?;
        }
        let columns = |show: &dyn Fn(&Three) -> String| {
            let all: Vec<String> = self.columns.iter().map(show).collect();
            all.join("; ")
        };
        let three = |it: &Three| {
            let (base, ours, theirs) = (value(&it.base), value(&it.ours), value(&it.theirs));
            format!("{} was {base}, and is {ours} in the parent and {theirs} in the child", plain(&it.column))
        };
        match self.reason {
            Reason::Changed => f.write_str(&columns(&three))?,
            Reason::SameChange => f.write_str(&columns(&|it| {
                let (base, ours) = (value(&it.base), value(&it.ours));
                format!("{} was {base}, and both sides made it {ours}", plain(&it.column))
            }))?,
            Reason::DeletedByParent => f.write_str("the child changed the row, and the parent deleted it")?,
            Reason::DeletedByChild => {
                let changed = columns(&|it| {
                    format!("{} was {}, and is {}", plain(&it.column), value(&it.base), value(&it.ours))
                });
                write!(f, "the child deleted the row, and the parent changed it: {changed}")?;
            }
            Reason::Inserted => {
                let differing = columns(&|it| {
                    format!("{} {} and {}", plain(&it.column), value(&it.ours), value(&it.theirs))
                });
                write!(
                    f,
                    "both sides inserted a row with this key, the parent and the child with {differing}"
                )?;
            }
            Reason::TooFew | Reason::Constraint | Reason::Structure => {
                // Words of ours, or of the server's, in which names are quoted: what moves a cursor may be among them.
                let detail = self.detail.as_deref().unwrap_or_default();
                detail.chars().try_for_each(|letter| match letter.is_control() {
                    true => write!(f, "{}", letter.escape_debug()),
                    false => write!(f, "{letter}"),
                })?;
            }
        }
        match self.taken {
            None => Ok(()),
            Some(Taken::Ours) => f.write_str(" (the parent's side was taken)"),
            Some(Taken::Theirs) => f.write_str(" (the child's side was taken)"),
        }
    }
}

/// Conflicts that were found, the first of them.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) listed: Vec<MergeConflict>,
    pub(super) more: bool,
    /// Whether nothing answers one of them.
    pub(super) is_open: bool,
}

impl Found {
    pub(super) fn push(&mut self, conflict: MergeConflict) {
        self.is_open |= conflict.taken.is_none();
        if self.listed.len() < LISTED_MAX {
            self.listed.push(conflict);
        } else {
            self.more = true;
        }
    }

    /// Something that is not as it has to be.
    pub(super) fn structure(&mut self, conflict: &Conflict) {
        self.push(MergeConflict {
            reason: Reason::Structure,
            schema: conflict.schema.clone(),
            table: conflict.table.clone(),
            key: conflict
                .key
                .iter()
                .map(|(column, value)| (column.clone(), told(value.as_deref())))
                .collect(),
            columns: Vec::new(),
            detail: Some(conflict.to_string()),
            taken: None,
        });
    }

    /// A constraint that the combination violates, in the server's words.
    pub(super) fn constraint(&mut self, detail: String, place: Option<Box<Place>>) {
        let Place { schema, table } = place.map(|place| *place).unwrap_or_default();
        self.push(MergeConflict {
            reason: Reason::Constraint,
            schema,
            table,
            key: Vec::new(),
            columns: Vec::new(),
            detail: Some(detail),
            taken: None,
        });
    }
}
