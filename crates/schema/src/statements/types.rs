//! Types: what of them can be altered, and how the others are replaced below the columns that use them.

use super::text::{first_name, lines, schema};
use crate::catalogue::{Key, Kind, Object};
use std::collections::BTreeSet;

/// What the names of types begin with that wait for their columns to leave them. A type has this name within the
/// transaction alone.
const ASIDE: &str = "duramen_aside_";

pub(super) fn alterable(kind: Kind, from: &Object, to: &Object, differing: &BTreeSet<&str>) -> bool {
    match kind {
        // All values of before are there, in their order.
        Kind::Enum => {
            let mut after = lines(to.text("labels")).into_iter();
            lines(from.text("labels")).into_iter().all(|label| after.any(|other| other == label))
        }
        Kind::Domain => !differing.contains("base") && !differing.contains("collation"),
        // What both have stays as it is, and what is new stands behind it.
        Kind::Composite => {
            let (before, after) = (lines(from.text("attributes")), lines(to.text("attributes")));
            let kept: Vec<&str> = before.iter().copied().filter(|it| after.contains(it)).collect();
            let names: BTreeSet<&str> = before.iter().map(|it| first_name(it).0).collect();
            let is_new = |it: &&str| !names.contains(first_name(it).0);
            after.starts_with(&kept) && after[kept.len()..].iter().all(is_new) && !after.is_empty()
        }
        _ => false,
    }
}

pub(super) fn make(kind: Kind, object: &Object) -> String {
    let ident = &object.ident;
    match kind {
        Kind::Enum => format!("create type {ident} as enum ({})", lines(object.text("labels")).join(", ")),
        Kind::Composite => {
            format!("create type {ident} as ({})", lines(object.text("attributes")).join(", "))
        }
        Kind::Range => {
            let multirange = object.get("multirange").map(|it| format!(", multirange_type_name = {it}"));
            format!(
                "create type {ident} as range ({}{})",
                object.text("range"),
                multirange.unwrap_or_default()
            )
        }
        _ => {
            let mut text = format!("create domain {ident} as {}", object.text("base"));
            for (clause, property) in [("collate", "collation"), ("default", "default")] {
                if let Some(value) = object.get(property) {
                    text += &format!(" {clause} {value}");
                }
            }
            if object.has("not null") {
                text += " not null";
            }
            for constraint in lines(object.text("constraints")) {
                text += &format!(" constraint {constraint}");
            }
            text
        }
    }
}

/// Each new value, before or after one that is there by then.
pub(super) fn add_values(from: &Object, to: &Object) -> Vec<String> {
    let before = lines(from.text("labels"));
    let after = lines(to.text("labels"));
    let mut statements = Vec::new();
    for (at, label) in after.iter().enumerate().filter(|(_, label)| !before.contains(label)) {
        let place = match at.checked_sub(1).map(|at| after[at]) {
            Some(previous) => format!(" after {previous}"),
            None => before.first().map(|first| format!(" before {first}")).unwrap_or_default(),
        };
        statements.push(format!("alter type {} add value {label}{place}", to.ident));
    }
    statements
}

pub(super) fn alter(kind: Kind, from: &Object, to: &Object) -> Vec<String> {
    let ident = &to.ident;
    let mut statements = Vec::new();
    if kind == Kind::Composite {
        let (before, after) = (lines(from.text("attributes")), lines(to.text("attributes")));
        for gone in before.iter().filter(|it| !after.contains(it)) {
            statements.push(format!("alter type {ident} drop attribute {}", first_name(gone).0));
        }
        for new in after.iter().filter(|it| !before.contains(it)) {
            statements.push(format!("alter type {ident} add attribute {new}"));
        }
        return statements;
    }
    let (before, after) = (lines(from.text("constraints")), lines(to.text("constraints")));
    for gone in before.iter().filter(|it| !after.contains(it)) {
        statements.push(format!("alter domain {ident} drop constraint {}", first_name(gone).0));
    }
    if from.get("default") != to.get("default") {
        statements.push(match to.get("default") {
            Some(default) => format!("alter domain {ident} set default {default}"),
            None => format!("alter domain {ident} drop default"),
        });
    }
    for new in after.iter().filter(|it| !before.contains(it)) {
        statements.push(format!("alter domain {ident} add constraint {new}"));
    }
    if from.get("not null") != to.get("not null") {
        let how = if to.has("not null") { "set" } else { "drop" };
        statements.push(format!("alter domain {ident} {how} not null"));
    }
    statements
}

/// A name that no other type that is set aside has.
fn aside(key: &Key) -> String {
    // FNV-1a: the name has to be short, and the same in two statements.
    let hash = key.name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("{ASIDE}{hash:016x}")
}

/// Makes room for a type of the same name, for as long as columns still have this one.
pub(crate) fn set_aside(key: &Key, object: &Object) -> Vec<String> {
    let name = aside(key);
    let word = if key.kind == Kind::Domain { "domain" } else { "type" };
    let mut statements = vec![format!("alter {word} {} rename to {name}", object.ident)];
    if let Some(multirange) = object.get("multirange") {
        statements.push(format!("alter type {multirange} rename to {name}_multi"));
    }
    statements
}

/// Ends a type that was set aside.
pub(crate) fn drop_aside(key: &Key, object: &Object) -> Vec<String> {
    let word = if key.kind == Kind::Domain { "domain" } else { "type" };
    vec![format!("drop {word} {}.{}", schema(&object.ident), aside(key))]
}
