//! What differs between two catalogues, and the way from one to the other.
//!
//! The way is: values of enumerations; tables that leave their parents; drops, dependents first; what is made or altered,
//! each after what it needs; tables that get parents; types that nothing uses any more; grants and comments. So whatever
//! stands in the way of a change is dropped before it and made again after it.

mod plan;
mod risks;

use crate::catalogue::{Catalogue, Key, Kind, Object};
use std::{collections::BTreeSet, fmt};

pub(crate) use plan::Plan;

/// What happened to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// Only the second side has it.
    Added,
    /// Only the first side has it.
    Removed,
    /// Both have it, defined differently.
    Changed,
}

/// One property that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// What it is called.
    pub what: String,
    /// Its value in the first side; `None`: it has none.
    pub from: Option<String>,
    /// Its value in the second side.
    pub to: Option<String>,
}

/// One object that differs. What belongs to an object that was added or removed as a whole is not named apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// What happened to it.
    pub how: How,
    /// What it is.
    pub key: Key,
    /// What differs, if it was changed.
    pub differences: Vec<Difference>,
}

/// What a statement may do to those who use the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Risk {
    /// Rows or values are gone afterwards.
    DataLoss,
    /// It fails if rows do not fit.
    MayFail,
    /// A table is written anew.
    Rewrite,
    /// Others wait for it, for as long as a table is read.
    Lock,
    /// No statement is written for it.
    ByHand,
}

impl Risk {
    /// What it is called.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Risk::DataLoss => "data loss",
            Risk::MayFail => "may fail",
            Risk::Rewrite => "rewrite",
            Risk::Lock => "lock",
            Risk::ByHand => "by hand",
        }
    }
}

/// Something to know before the DDL runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// What it is about.
    pub risk: Risk,
    /// The object.
    pub key: Key,
    /// In words.
    pub message: String,
}

/// One statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Its text, without a semicolon at the end.
    pub sql: String,
    /// Whether it runs in the transaction with the others. Values that are added to an enumeration cannot be used before
    /// the transaction that added them has ended, so these go ahead, in one of their own.
    pub in_transaction: bool,
}

/// Two schemas compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diff {
    changes: Vec<Change>,
    steps: Vec<Step>,
    warnings: Vec<Warning>,
}

/// What a script sets before its statements: names in definitions are qualified, and bodies of functions may name what
/// is made after them.
const SETTINGS: [&str; 2] = ["set local search_path = pg_catalog", "set local check_function_bodies = off"];

impl Diff {
    /// Compares two catalogues.
    #[must_use]
    pub fn between(from: &Catalogue, to: &Catalogue) -> Diff {
        let changes = changes(from, to);
        if changes.is_empty() {
            return Diff { changes, steps: Vec::new(), warnings: Vec::new() };
        }
        let (steps, warnings) = Plan::new(from, to).write();
        Diff { changes, steps, warnings }
    }

    /// What differs.
    #[must_use]
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// The statements that make the first side the second, in the order in which they run. Sessions that run them one by
    /// one set what [`Diff::script`] sets.
    #[must_use]
    pub fn ddl(&self) -> &[Step] {
        &self.steps
    }

    /// What to know before.
    #[must_use]
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// All statements as one script: what has to be committed before the rest, then the rest, each in a
    /// transaction.
    #[must_use]
    pub fn script(&self) -> String {
        let mut text = String::new();
        for warning in &self.warnings {
            // A name may hold a line break.
            let line = format!("{}: {}: {}", warning.risk.name(), warning.key, warning.message);
            text += &format!("-- {}\n", line.replace(['\n', '\r'], " "));
        }
        let ahead: Vec<&Step> = self.steps.iter().filter(|step| !step.in_transaction).collect();
        if !ahead.is_empty() {
            text += "begin;\n";
            for step in ahead {
                text += &format!("{};\n", step.sql);
            }
            text += "commit;\n";
        }
        let inside: Vec<&Step> = self.steps.iter().filter(|step| step.in_transaction).collect();
        if !inside.is_empty() {
            text += "begin;\n";
            for setting in SETTINGS {
                text += &format!("{setting};\n");
            }
            for step in inside {
                text += &format!("{};\n", step.sql);
            }
            text += "commit;\n";
        }
        text
    }
}

/// Changes as text, one object a paragraph, and the warnings below.
impl fmt::Display for Diff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for change in &self.changes {
            let sign = match change.how {
                How::Added => '+',
                How::Removed => '-',
                How::Changed => '~',
            };
            writeln!(f, "{sign} {}", change.key)?;
            for Difference { what, from, to } in &change.differences {
                let long = |value: &Option<String>| value.as_ref().is_some_and(|it| it.contains('\n'));
                if long(from) || long(to) {
                    writeln!(f, "    {what}:")?;
                    for (sign, value) in [('-', from), ('+', to)] {
                        for line in value.iter().flat_map(|it| it.lines()) {
                            writeln!(f, "      {sign} {line}")?;
                        }
                    }
                } else {
                    let value = |it: &Option<String>| it.clone().unwrap_or_else(|| "(none)".to_owned());
                    writeln!(f, "    {what}: {} -> {}", value(from), value(to))?;
                }
            }
        }
        for warning in &self.warnings {
            writeln!(f, "! {}: {}: {}", warning.risk.name(), warning.key, warning.message)?;
        }
        Ok(())
    }
}

/// Properties that follow from others, or do not count.
const NOT_COMPARED: &[(Kind, &[&str])] = &[
    (Kind::Column, &["position", "base type"]),
    (Kind::Function, &["arguments", "result", "is", "settings"]),
    (Kind::Index, &["table", "name"]),
    (Kind::Constraint, &["is"]),
    (Kind::ForeignKey, &["references"]),
];
/// What the columns of partitions and children have of their own.
const OF_DERIVED_COLUMNS: &[&str] = &["not null", "statistics", "options"];

/// The properties of an object that differ; for one that is derived on both sides, those that may differ alone.
pub(crate) fn differing<'a>(key: &Key, from: &'a Object, to: &'a Object) -> BTreeSet<&'a str> {
    let skipped = NOT_COMPARED.iter().find(|(kind, _)| *kind == key.kind).map_or(&[][..], |(_, names)| names);
    let derived = to.derived && (from.derived || key.kind != Kind::Column);
    from.properties
        .keys()
        .chain(to.properties.keys())
        .map(String::as_str)
        .filter(|name| !skipped.contains(name))
        .filter(|name| !derived || key.kind == Kind::Column && OF_DERIVED_COLUMNS.contains(name))
        .filter(|name| from.get(name) != to.get(name))
        .collect()
}

/// Whether comments and grants of an object are compared: children's columns have their own.
pub(crate) fn is_described(key: &Key, object: &Object) -> bool {
    !object.derived || key.kind == Kind::Column
}

fn changes(from: &Catalogue, to: &Catalogue) -> Vec<Change> {
    let keys: BTreeSet<&Key> = from.objects.keys().chain(to.objects.keys()).collect();
    let mut changes = Vec::new();
    for key in keys {
        let (before, after) = (from.get(key), to.get(key));
        let own = |it: Option<&Object>| it.is_some_and(|it| !it.derived);
        let with_parent = |side: &Catalogue, object: Option<&Object>| {
            // The other side does not have the parent either.
            object.and_then(|it| it.parent.as_ref()).is_some_and(|parent| side.get(parent).is_none())
        };
        let (how, differences) = match (before, after) {
            (Some(before), Some(after)) => {
                let differences = differences(key, before, after);
                if differences.is_empty() {
                    continue;
                }
                (How::Changed, differences)
            }
            (None, _) if own(after) && !with_parent(from, after) => (How::Added, Vec::new()),
            (_, None) if own(before) && !with_parent(to, before) => (How::Removed, Vec::new()),
            _ => continue,
        };
        changes.push(Change { how, key: key.clone(), differences });
    }
    changes
}

fn differences(key: &Key, from: &Object, to: &Object) -> Vec<Difference> {
    let value = |object: &Object, name: &str| object.get(name).map(str::to_owned);
    let mut found: Vec<Difference> = differing(key, from, to)
        .into_iter()
        .map(|name| Difference { what: name.to_owned(), from: value(from, name), to: value(to, name) })
        .collect();
    if is_described(key, to) {
        if from.comment != to.comment {
            let (from, to) = (from.comment.clone(), to.comment.clone());
            found.push(Difference { what: "comment".to_owned(), from, to });
        }
        if from.grants != to.grants {
            let (from, to) = (grants_in_words(from), grants_in_words(to));
            found.push(Difference { what: "grants".to_owned(), from, to });
        }
    }
    found
}

fn grants_in_words(object: &Object) -> Option<String> {
    let words: Vec<String> = object
        .grants
        .iter()
        .map(|((grantee, privilege), passed_on)| {
            let grantee = if grantee.is_empty() { "public" } else { grantee };
            format!("{privilege} to {grantee}{}", if *passed_on { " with grant option" } else { "" })
        })
        .collect();
    (!words.is_empty()).then(|| words.join(", "))
}
