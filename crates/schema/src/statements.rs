//! Statements that drop, make and alter objects.

mod columns;
pub(crate) mod grants;
mod sequences;
mod tables;
pub(crate) mod text;
mod types;

use crate::{
    catalogue::{Key, Kind, Object},
    diff::Plan,
};
use duramen_postgres::quote_literal;
use std::collections::BTreeSet;

pub(crate) use columns::drop_identity;
pub(crate) use tables::{enter, leave, replica_identity};
pub(crate) use types::{drop_aside, set_aside};

/// The relation that an object is a part of.
fn relation(object: &Object) -> &str {
    object
        .parent
        .as_ref()
        .filter(|it| it.kind != Kind::Column)
        .map_or_else(|| object.text("table"), |it| &it.name)
}

/// Whether an object can be altered in place where these properties differ.
pub(crate) fn alterable(key: &Key, from: &Object, to: &Object, differing: &BTreeSet<&str>) -> bool {
    let only = |names: &[&str]| differing.iter().all(|name| names.contains(name));
    match key.kind {
        Kind::Extension | Kind::Default | Kind::Ownership => true,
        Kind::Sequence => true,
        Kind::Enum | Kind::Composite | Kind::Domain | Kind::Range => {
            types::alterable(key.kind, from, to, differing)
        }
        Kind::Table => !differing.contains("partition key") && !differing.contains("of type"),
        Kind::Column => columns::alterable(from, to, differing),
        // An input may get neither another name nor lose its default, and results keep their types.
        Kind::Function => ["is", "arguments", "result"].iter().all(|name| from.get(name) == to.get(name)),
        Kind::View => {
            let (before, after) = (text::lines(from.text("columns")), text::lines(to.text("columns")));
            after.starts_with(&before)
        }
        Kind::MaterializedView => only(&["options", "empty"]),
        Kind::Constraint | Kind::ForeignKey => {
            only(&["definition"])
                && from.text("definition").strip_suffix(" NOT VALID") == to.get("definition")
        }
        Kind::Trigger | Kind::Rule => only(&["enabled"]),
        _ => false,
    }
}

/// Ends an object.
pub(crate) fn drop(key: &Key, object: &Object) -> Vec<String> {
    let (ident, on) = (&object.ident, relation(object));
    let one = match key.kind {
        Kind::Schema => format!("drop schema {ident}"),
        Kind::Extension => format!("drop extension {ident}"),
        Kind::Enum | Kind::Composite | Kind::Range => format!("drop type {ident}"),
        Kind::Domain => format!("drop domain {ident}"),
        Kind::Function => format!("drop routine {ident}"),
        Kind::Sequence => format!("drop sequence {ident}"),
        Kind::Table => format!("drop table {ident}"),
        Kind::Column => format!("alter table {on} drop column {ident}"),
        Kind::Default => format!("alter table only {on} alter column {ident} drop default"),
        Kind::Ownership => format!("alter sequence {ident} owned by none"),
        Kind::Constraint | Kind::ForeignKey => format!("alter table {on} drop constraint {ident}"),
        Kind::Index => format!("drop index {ident}"),
        Kind::Statistics => format!("drop statistics {ident}"),
        Kind::View => format!("drop view {ident}"),
        Kind::MaterializedView => format!("drop materialized view {ident}"),
        Kind::Rule => format!("drop rule {ident} on {on}"),
        Kind::Trigger => format!("drop trigger {ident} on {on}"),
        Kind::Policy => format!("drop policy {ident} on {on}"),
        Kind::ViewColumn | Kind::DefaultPrivileges | Kind::Other => return Vec::new(),
    };
    vec![one]
}

/// Makes an object of the second side.
pub(crate) fn make(plan: &Plan, key: &Key) -> Vec<String> {
    let Some(object) = plan.to.get(key) else { return Vec::new() };
    let (ident, on, definition) = (&object.ident, relation(object), object.text("definition"));
    let mut statements = match key.kind {
        Kind::Schema => vec![format!("create schema {ident}")],
        Kind::Extension => {
            let (schema, version) = (object.text("schema"), quote_literal(object.text("version")));
            vec![format!("create extension {ident} with schema {schema} version {version}")]
        }
        Kind::Enum | Kind::Composite | Kind::Domain | Kind::Range => vec![types::make(key.kind, object)],
        Kind::Function => vec![definition.to_owned()],
        Kind::Sequence => {
            let unlogged = if object.has("unlogged") { "unlogged " } else { "" };
            vec![format!(
                "create {unlogged}sequence {ident} as {} {}",
                object.text("type"),
                object.text("clauses")
            )]
        }
        Kind::Table => tables::make(plan, key, object),
        Kind::Column => columns::add(plan, key, object),
        Kind::Default if plan.is_inline(key) => Vec::new(),
        Kind::Default => vec![set_default(object)],
        Kind::Ownership => vec![format!("alter sequence {ident} owned by {}", object.text("column"))],
        Kind::Constraint | Kind::ForeignKey => {
            vec![format!("alter table {on} add constraint {ident} {definition}")]
        }
        Kind::Index => vec![recursing(object)],
        Kind::Statistics | Kind::Rule | Kind::Trigger => vec![definition.to_owned()],
        Kind::View => vec![format!("create view {ident}{} as {definition}", tables::with_options(object))],
        Kind::MaterializedView => {
            let method = object.get("access method").map(|it| format!(" using {it}")).unwrap_or_default();
            let data = if object.has("empty") { " with no data" } else { "" };
            let options = tables::with_options(object);
            vec![format!("create materialized view {ident}{method}{options} as {definition}{data}")]
        }
        Kind::Policy => vec![policy(object)],
        Kind::ViewColumn | Kind::DefaultPrivileges | Kind::Other => Vec::new(),
    };
    if object.has("enabled") {
        statements.push(enabled(key, object));
    }
    statements
}

/// Alters an object in place. What must be committed before it is used goes `ahead`.
pub(crate) fn alter(plan: &Plan, key: &Key, ahead: &mut Vec<String>, steps: &mut Vec<String>) {
    let (Some(from), Some(to)) = (plan.from.get(key), plan.to.get(key)) else { return };
    let (ident, on) = (&to.ident, relation(to));
    match key.kind {
        Kind::Extension => {
            if from.get("version") != to.get("version") {
                steps
                    .push(format!("alter extension {ident} update to {}", quote_literal(to.text("version"))));
            }
            if from.get("schema") != to.get("schema") {
                steps.push(format!("alter extension {ident} set schema {}", to.text("schema")));
            }
        }
        Kind::Enum => ahead.extend(types::add_values(from, to)),
        Kind::Composite | Kind::Domain => steps.extend(types::alter(key.kind, from, to)),
        Kind::Function => steps.push(to.text("definition").to_owned()),
        Kind::Sequence => steps.extend(sequences::alter(from, to)),
        Kind::Table => steps.extend(tables::alter(from, to)),
        Kind::Column => steps.extend(columns::alter(plan, key, from, to)),
        Kind::Default => steps.push(set_default(to)),
        Kind::Ownership => steps.push(format!("alter sequence {ident} owned by {}", to.text("column"))),
        Kind::View => {
            let (options, definition) = (tables::with_options(to), to.text("definition"));
            steps.push(format!("create or replace view {ident}{options} as {definition}"));
        }
        Kind::MaterializedView => {
            steps.extend(tables::options("materialized view", from, to));
            if from.get("empty") != to.get("empty") {
                let data = if to.has("empty") { " with no data" } else { "" };
                steps.push(format!("refresh materialized view {ident}{data}"));
            }
        }
        Kind::Constraint | Kind::ForeignKey => {
            steps.push(format!("alter table {on} validate constraint {ident}"))
        }
        Kind::Trigger | Kind::Rule => steps.push(enabled(key, to)),
        _ => {}
    }
}

fn set_default(default: &Object) -> String {
    let (on, ident, expression) = (relation(default), &default.ident, default.text("expression"));
    format!("alter table only {on} alter column {ident} set default {expression}")
}

/// The definition of an index, with the partitions of its table.
fn recursing(index: &Object) -> String {
    let definition = index.text("definition");
    let (name, table) = (index.text("name"), index.text("table"));
    match definition.split_once(&format!(" {name} ON ONLY {table} ")) {
        Some((before, after)) => format!("{before} {name} ON {table} {after}"),
        None => definition.to_owned(),
    }
}

/// Whether a trigger or a rule fires.
fn enabled(key: &Key, object: &Object) -> String {
    let how = match object.text("enabled") {
        "D" => "disable",
        "R" => "enable replica",
        "A" => "enable always",
        _ => "enable",
    };
    format!("alter table {} {how} {} {}", relation(object), key.kind.name(), object.ident)
}

fn policy(object: &Object) -> String {
    let mut text = format!(
        "create policy {} on {} as {} for {} to {}",
        object.ident,
        relation(object),
        object.text("as"),
        object.text("for"),
        object.text("to")
    );
    for (clause, property) in [("using", "using"), ("with check", "check")] {
        if let Some(condition) = object.get(property) {
            text += &format!(" {clause} ({condition})");
        }
    }
    text
}

/// Gives an object of the second side its comment, or takes it away.
pub(crate) fn comment(plan: &Plan, key: &Key, object: &Object) -> Option<String> {
    let word = match key.kind {
        Kind::Enum | Kind::Composite | Kind::Range => "type",
        Kind::Function => "routine",
        Kind::ForeignKey => "constraint",
        Kind::ViewColumn => "column",
        Kind::Default | Kind::Ownership | Kind::DefaultPrivileges | Kind::Other => return None,
        kind => kind.name(),
    };
    // What is not written has no place for a comment.
    plan.to.get(key)?;
    let name = if key.kind == Kind::Function { &object.ident } else { &key.name };
    let text = object.comment.as_deref().map_or_else(|| "null".to_owned(), quote_literal);
    Some(format!("comment on {word} {name} is {text}"))
}
