//! Merging a branch into the one that it was made of.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};
use utoipa::ToSchema;

/// What becomes of conflicts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MergeStrategy {
    /// Nothing is merged if there is one.
    #[default]
    Fail,
    /// The parent's side is taken.
    Ours,
    /// The child's side is taken.
    Theirs,
}

/// What it is when both sides changed a column to the same value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MergeEqual {
    /// Agreement.
    Agree,
    /// A conflict: both may have computed it from what was there before, and one of the changes would be lost.
    #[default]
    Conflict,
}

/// What triggers of the parent do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MergeTriggers {
    /// Nothing is merged if tables that would be written have any.
    #[default]
    Refuse,
    /// They fire, as for any other change.
    Fire,
    /// They are off in the transaction; the parent's role has to own the tables.
    Off,
}

/// A word that is not one of those that there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownWord {
    word: String,
    known: &'static str,
}

impl fmt::Display for UnknownWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not one of {}", self.word, self.known)
    }
}

impl std::error::Error for UnknownWord {}

macro_rules! words {
    ($type:ident, $known:literal, $($word:literal => $value:ident),+) => {
        impl FromStr for $type {
            type Err = UnknownWord;

            fn from_str(word: &str) -> Result<Self, UnknownWord> {
                match word {
                    $($word => Ok($type::$value),)+
                    _ => Err(UnknownWord { word: word.to_owned(), known: $known }),
                }
            }
        }
    };
}

words!(MergeStrategy, "fail, ours, theirs", "fail" => Fail, "ours" => Ours, "theirs" => Theirs);
words!(MergeEqual, "agree, conflict", "agree" => Agree, "conflict" => Conflict);
words!(MergeTriggers, "refuse, fire, off", "refuse" => Refuse, "fire" => Fire, "off" => Off);

/// `POST /v1/branches/{name}/merge`: the branch in the path is the child.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MergeBranch {
    /// The branch that gets the changes: the one that the child was made of, or one that was made of the same.
    pub into: String,
    /// What becomes of conflicts.
    #[serde(default)]
    pub strategy: MergeStrategy,
    /// What equal changes are.
    #[serde(default)]
    pub equal: MergeEqual,
    /// What triggers of the parent do.
    #[serde(default)]
    pub triggers: MergeTriggers,
    /// Whether all of it is done and taken back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

/// What came of a merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MergeStatus {
    /// It is done.
    Merged,
    /// It can be done, and was taken back.
    WouldMerge,
    /// It was done before, and the child has not changed since: nothing was done.
    AlreadyMerged,
    /// The child has changed nothing: nothing was done.
    NothingToDo,
    /// There are conflicts that nothing answers: nothing was done.
    Conflicts,
}

/// What was done to a table, or would be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MergedTable {
    /// Its schema.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// Rows that came.
    pub inserted: u64,
    /// Rows that changed.
    pub updated: u64,
    /// Rows that went.
    pub deleted: u64,
}

/// A column and its value; null is NULL.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MergeKey {
    /// The column.
    pub column: String,
    /// Its value as text, cut off if it is long.
    pub value: Option<String>,
}

/// A column's values in the base, the parent and the child, cut off where they are long; null is NULL, or that there is no row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MergeValues {
    /// The column.
    pub column: String,
    /// In what the child was made of.
    pub base: Option<String>,
    /// In the parent.
    pub ours: Option<String>,
    /// In the child.
    pub theirs: Option<String>,
}

/// A conflict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MergeConflict {
    /// Why: `changed`, `same-change`, `deleted-by-parent`, `deleted-by-child`, `inserted`, `too-few`, `constraint` or `structure`.
    pub reason: String,
    /// The schema of the table; empty if it is not known.
    pub schema: String,
    /// Its name.
    pub table: String,
    /// What identifies the row, if it is about one.
    pub key: Vec<MergeKey>,
    /// The columns that are concerned.
    pub columns: Vec<MergeValues>,
    /// Whose side was taken, `ours` or `theirs`; null if nothing answers it.
    pub taken: Option<String>,
    /// All of it in words.
    pub message: String,
}

/// A merge, told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MergeReport {
    /// What came of it.
    pub status: MergeStatus,
    /// The child's name.
    pub child: String,
    /// The parent's.
    pub parent: String,
    /// What both were compared with, in words.
    pub base: String,
    /// The statements that changed definitions, or would.
    pub statements: Vec<String>,
    /// Tables whose rows were written, or would be.
    pub tables: Vec<MergedTable>,
    /// Sequences that the child had moved on, and that were moved on.
    pub sequences: u64,
    /// The first conflicts, also those that a strategy answered.
    pub conflicts: Vec<MergeConflict>,
    /// Whether there are more.
    pub more_conflicts: bool,
    /// When it was merged, if it was before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merged_at: Option<Timestamp>,
}
