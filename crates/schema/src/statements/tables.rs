//! Tables, and their places below parents.

use super::{columns, relation, text::items};
use crate::{
    catalogue::{Key, Kind, Object},
    diff::Plan,
};

/// Storage parameters and the like, in parentheses.
pub(super) fn with_options(object: &Object) -> String {
    object.get("options").map(|options| format!(" with ({options})")).unwrap_or_default()
}

/// Changes them.
pub(super) fn options(word: &str, from: &Object, to: &Object) -> Vec<String> {
    let (before, after) = (items(from.text("options")), items(to.text("options")));
    let name = |option: &str| option.split('=').next().unwrap_or_default().to_owned();
    let kept: Vec<String> = after.iter().map(|it| name(it)).collect();
    let gone: Vec<String> = before.iter().map(|it| name(it)).filter(|it| !kept.contains(it)).collect();
    let new: Vec<&str> = after.iter().copied().filter(|it| !before.contains(it)).collect();
    let mut statements = Vec::new();
    if !gone.is_empty() {
        statements.push(format!("alter {word} {} reset ({})", to.ident, gone.join(", ")));
    }
    if !new.is_empty() {
        statements.push(format!("alter {word} {} set ({})", to.ident, new.join(", ")));
    }
    statements
}

pub(super) fn make(plan: &Plan, key: &Key, table: &Object) -> Vec<String> {
    let ident = &table.ident;
    let mut own: Vec<(&Key, &Object)> = plan
        .to
        .objects
        .iter()
        .filter(|(it, column)| it.kind == Kind::Column && column.parent.as_ref() == Some(key))
        .collect();
    own.sort_by_key(|(_, column)| column.text("position").parse().unwrap_or(0_u32));
    let list: Vec<String> = own
        .iter()
        .filter(|(_, column)| !column.derived)
        .map(|(key, column)| columns::definition(plan, key, column))
        .collect();
    let unlogged = if table.has("unlogged") { "unlogged " } else { "" };
    let mut text = match (table.get("bound"), table.get("parents")) {
        (Some(bound), Some(parent)) => {
            format!("create {unlogged}table {ident} partition of {parent} {bound}")
        }
        (_, parents) => {
            let inherits = parents.map(|parents| format!(" inherits ({parents})")).unwrap_or_default();
            format!("create {unlogged}table {ident} ({}){inherits}", list.join(", "))
        }
    };
    if let Some(by) = table.get("partition key") {
        text += &format!(" partition by {by}");
    }
    if let Some(method) = table.get("access method") {
        text += &format!(" using {method}");
    }
    text += &with_options(table);
    let mut statements = vec![text];
    for (key, column) in own {
        statements.extend(columns::settings(ident, column));
        if !column.derived {
            continue;
        }
        let parents: Vec<&Key> = column.needs.iter().filter(|need| need.kind == Kind::Column).collect();
        let default = |column: &Key| plan.to.get(&Key::new(Kind::Default, column.name.clone())).is_some();
        if !default(key) && parents.iter().any(|parent| default(parent)) {
            statements.push(format!("alter table only {ident} alter column {} drop default", column.ident));
        }
        let is_stricter = column.has("not null")
            && !parents.iter().any(|parent| plan.to.get(parent).is_some_and(|it| it.has("not null")));
        if is_stricter {
            statements.push(format!("alter table {ident} alter column {} set not null", column.ident));
        }
    }
    statements.extend(row_security(
        &Object { properties: std::collections::BTreeMap::new(), ..table.clone() },
        table,
    ));
    statements
}

fn row_security(from: &Object, to: &Object) -> Vec<String> {
    let mut statements = Vec::new();
    if from.get("row security") != to.get("row security") {
        let how = if to.has("row security") { "enable" } else { "disable" };
        statements.push(format!("alter table {} {how} row level security", to.ident));
    }
    if from.get("forced row security") != to.get("forced row security") {
        let how = if to.has("forced row security") { "force" } else { "no force" };
        statements.push(format!("alter table {} {how} row level security", to.ident));
    }
    statements
}

pub(super) fn alter(from: &Object, to: &Object) -> Vec<String> {
    let mut statements = Vec::new();
    if from.get("unlogged") != to.get("unlogged") {
        let how = if to.has("unlogged") { "unlogged" } else { "logged" };
        statements.push(format!("alter table {} set {how}", to.ident));
    }
    if from.get("access method") != to.get("access method") {
        let method = to.get("access method").unwrap_or("heap");
        statements.push(format!("alter table {} set access method {method}", to.ident));
    }
    statements.extend(options("table", from, to));
    statements.extend(row_security(from, to));
    statements
}

/// What the rows of a table are known by to subscribers, after its indexes are there.
pub(crate) fn replica_identity(plan: &Plan, key: &Key) -> Option<String> {
    let after = plan.to.get(key).filter(|_| key.kind == Kind::Table)?;
    let before = plan.from.get(key).filter(|_| !plan.gone.contains(key));
    let (was, is) = (before.and_then(|it| it.get("replica identity")), after.get("replica identity"));
    let made_again = is.is_some_and(|it| it.starts_with("using"))
        && plan.made.iter().any(|it| {
            matches!(it.kind, Kind::Index | Kind::Constraint)
                && plan.to.get(it).is_some_and(|index| relation(index) == key.name)
        });
    (was != is || made_again)
        .then(|| format!("alter table {} replica identity {}", after.ident, is.unwrap_or("default")))
}

/// Takes a table away from parents that it does not have afterwards, or from its place in one.
pub(crate) fn leave(plan: &Plan, key: &Key) -> Vec<String> {
    let (Some(from), Some(to)) = (plan.from.get(key), plan.to.get(key)) else { return Vec::new() };
    if plan.gone.contains(key) {
        return Vec::new();
    }
    if from.has("bound") {
        return vec![format!("alter table {} detach partition {}", from.text("parents"), from.ident)];
    }
    let stay = items(to.text("parents"));
    let left = items(from.text("parents")).into_iter().filter(|parent| !stay.contains(parent));
    left.map(|parent| format!("alter table {} no inherit {parent}", from.ident)).collect()
}

/// Gives a table its place below parents.
pub(crate) fn enter(plan: &Plan, key: &Key) -> Vec<String> {
    let (Some(from), Some(to)) = (plan.from.get(key), plan.to.get(key)) else { return Vec::new() };
    if plan.gone.contains(key) {
        return Vec::new();
    }
    if let Some(bound) = to.get("bound") {
        return vec![format!("alter table {} attach partition {} {bound}", to.text("parents"), to.ident)];
    }
    let had = items(from.text("parents"));
    let new =
        items(to.text("parents")).into_iter().filter(|parent| from.has("bound") || !had.contains(parent));
    new.map(|parent| format!("alter table {} inherit {parent}", to.ident)).collect()
}
