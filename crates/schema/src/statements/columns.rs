//! Columns.

use super::relation;
use crate::{
    catalogue::{Key, Kind, Object},
    diff::Plan,
};
use std::collections::BTreeSet;

/// Types that every value has a cast to.
const TEXTS: &[&str] = &["text", "character varying", "character", "name"];

/// What ends the definition of a column that holds a value in every row.
const NOT_NULL: &str = " not null";

pub(super) fn alterable(from: &Object, to: &Object, differing: &BTreeSet<&str>) -> bool {
    let is_generated = from.has("generated") || to.has("generated");
    let of_expression = ["generated", "expression", "type", "collation"];
    if !is_generated || !differing.iter().any(|name| of_expression.contains(name)) {
        return true;
    }
    // What was stored can go on as plain values.
    from.get("generated") == Some("stored") && !to.has("generated") && !differing.contains("type")
}

/// A column as it stands in `CREATE TABLE` and `ADD COLUMN`.
pub(super) fn definition(plan: &Plan, key: &Key, column: &Object) -> String {
    let mut text = format!("{} {}", column.ident, column.text("type"));
    if let Some(collation) = column.get("collation") {
        text += &format!(" collate {collation}");
    }
    if let Some(compression) = column.get("compression") {
        text += &format!(" compression {compression}");
    }
    if let Some(how) = column.get("generated") {
        text += &format!(" generated always as ({}) {how}", column.text("expression"));
    }
    if let Some(how) = column.get("identity") {
        text += &format!(" generated {how} as identity ({})", column.text("identity sequence"));
    }
    let default = Key::new(Kind::Default, key.name.clone());
    if plan.is_inline(&default) {
        if let Some(default) = plan.to.get(&default) {
            text += &format!(" default {}", default.text("expression"));
        }
    }
    if column.has("not null") {
        text += NOT_NULL;
    }
    text
}

/// What of a new column is not in its definition.
pub(super) fn settings(on: &str, column: &Object) -> Vec<String> {
    let alter = format!("alter table only {on} alter column {}", column.ident);
    let mut statements = Vec::new();
    if let Some(storage) = column.get("storage") {
        statements.push(format!("{alter} set storage {storage}"));
    }
    if let Some(target) = column.get("statistics") {
        statements.push(format!("{alter} set statistics {target}"));
    }
    if let Some(options) = column.get("options") {
        statements.push(format!("{alter} set ({options})"));
    }
    statements
}

/// Adds a column to a table that is there, unless it comes with its table.
pub(super) fn add(plan: &Plan, key: &Key, column: &Object) -> Vec<String> {
    if column.parent.as_ref().is_some_and(|table| plan.made.contains(table)) {
        return Vec::new();
    }
    let on = relation(column);
    let whole = definition(plan, key, column);
    // Where nothing else gives rows a value, by itself: whoever has the values can put them in before.
    let default = Key::new(Kind::Default, key.name.clone());
    let has_value = (plan.is_inline(&default) && plan.to.get(&default).is_some())
        || ["generated", "identity"].iter().any(|name| column.has(name));
    let bare = whole.strip_suffix(NOT_NULL).filter(|_| !has_value);
    let mut statements = vec![format!("alter table {on} add column {}", bare.unwrap_or(&whole))];
    statements.extend(settings(on, column));
    if bare.is_some() {
        statements.push(format!("alter table {on} alter column {} set{NOT_NULL}", column.ident));
    }
    statements
}

pub(super) fn alter(plan: &Plan, key: &Key, from: &Object, to: &Object) -> Vec<String> {
    let on = relation(to);
    let alter = format!("alter table {on} alter column {}", to.ident);
    let alter_only = format!("alter table only {on} alter column {}", to.ident);
    let differs = |name: &str| from.get(name) != to.get(name);
    let mut statements = Vec::new();
    if from.has("generated") && !to.has("generated") && !to.derived {
        statements.push(format!("{alter} drop expression"));
    }
    if plan.retyped.contains(key) && !to.derived {
        statements.push(retype(plan, &alter, from, to));
    }
    if differs("not null") && !changes_with_parent(plan, to, from) {
        let how = if to.has("not null") { "set" } else { "drop" };
        statements.push(format!("{alter} {how} not null"));
    }
    if let (Some(how), false) = (to.get("identity"), to.derived) {
        if !from.has("identity") {
            statements
                .push(format!("{alter} add generated {how} as identity ({})", to.text("identity sequence")));
        } else {
            if differs("identity") {
                statements.push(format!("{alter} set generated {how}"));
            }
            if differs("identity sequence") {
                statements.push(format!("{alter} {}", set_sequence(to.text("identity sequence"))));
            }
        }
    }
    if differs("storage") && !to.derived {
        statements.push(format!("{alter} set storage {}", to.get("storage").unwrap_or("default")));
    }
    if differs("compression") && !to.derived {
        statements.push(format!("{alter} set compression {}", to.get("compression").unwrap_or("default")));
    }
    if differs("statistics") {
        statements.push(format!("{alter_only} set statistics {}", to.get("statistics").unwrap_or("-1")));
    }
    if differs("options") {
        let names = |text: &str| -> Vec<String> {
            super::text::items(text).iter().filter_map(|it| it.split('=').next()).map(str::to_owned).collect()
        };
        if from.has("options") {
            statements.push(format!("{alter_only} reset ({})", names(from.text("options")).join(", ")));
        }
        if let Some(options) = to.get("options") {
            statements.push(format!("{alter_only} set ({options})"));
        }
    }
    statements
}

/// Whether the same happens to the column of a parent, and so to this one.
fn changes_with_parent(plan: &Plan, to: &Object, from: &Object) -> bool {
    let parents = to.needs.iter().filter(|need| need.kind == Kind::Column && to.derived);
    parents.filter_map(|parent| Some((plan.from.get(parent)?, plan.to.get(parent)?))).any(
        |(before, after)| {
            before.get("not null") == from.get("not null") && after.get("not null") == to.get("not null")
        },
    )
}

/// Ends an identity; its sequence may stand in the way of what is made.
pub(crate) fn drop_identity(plan: &Plan, key: &Key) -> Option<String> {
    let (from, to) = (plan.from.get(key)?, plan.to.get(key)?);
    (from.has("identity") && !to.has("identity") && !to.derived)
        .then(|| format!("alter table {} alter column {} drop identity", relation(to), to.ident))
}

/// The clauses of an identity's sequence as `ALTER COLUMN` takes them.
fn set_sequence(clauses: &str) -> String {
    let mut text = String::new();
    for (clause, word) in [
        ("increment by ", "set increment by "),
        ("minvalue ", "set minvalue "),
        ("maxvalue ", "set maxvalue "),
        ("start with ", "set start with "),
        ("cache ", "set cache "),
    ] {
        let value =
            clauses.split_once(clause).map_or("", |(_, rest)| rest.split(' ').next().unwrap_or_default());
        text += &format!("{word}{value} ");
    }
    text + if clauses.ends_with("no cycle") { "set no cycle" } else { "set cycle" }
}

/// Gives a column another type, by a cast where there is one, else by the text of the values.
fn retype(plan: &Plan, alter: &str, from: &Object, to: &Object) -> String {
    let (name, new) = (&to.ident, to.text("type"));
    let collation = to.get("collation").map(|it| format!(" collate {it}")).unwrap_or_default();
    let (before, after) = (from.text("base type"), to.text("base type"));
    let element = |name: &str| name.strip_suffix("[]").unwrap_or(name).to_owned();
    let has_cast = before == after && from.get("type") != to.get("type")
        || plan.from.casts.contains(&(element(before), element(after)))
            && before.ends_with("[]") == after.ends_with("[]")
        || TEXTS.contains(&after);
    let using = if has_cast { format!("{name}::{new}") } else { format!("{name}::text::{new}") };
    format!("{alter} type {new}{collation} using {using}")
}
