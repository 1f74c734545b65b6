//! Who may do what.

use super::relation;
use crate::{
    catalogue::{Grants, Key, Kind, Object},
    diff::Plan,
};
use std::collections::{BTreeMap, BTreeSet};

/// All grants that differ; those of tables before those of their columns, which a revocation from the table takes too.
pub(crate) fn of_everything(plan: &Plan) -> Vec<String> {
    let mut statements = Vec::new();
    for (key, after) in &plan.to.objects {
        if !crate::diff::is_described(key, after) || key.kind == Kind::DefaultPrivileges {
            continue;
        }
        let Some(target) = target(key, after) else { continue };
        let is_new = plan.from.get(key).is_none() || plan.gone.contains(key);
        let (certain, possible) = match plan.from.get(key) {
            Some(before) if !is_new => (before.grants.clone(), before.grants.clone()),
            _ => at_first(plan, key, after),
        };
        statements.extend(between(&target, &certain, &possible, &after.grants));
    }
    let defaults: BTreeSet<&Key> = plan.from.objects.keys().chain(plan.to.objects.keys()).collect();
    for key in defaults.into_iter().filter(|key| key.kind == Kind::DefaultPrivileges) {
        let (before, after) = (plan.from.get(key), plan.to.get(key));
        let Some(object) = after.or(before) else { continue };
        let grants = |side: Option<&Object>| side.map_or_else(|| of_nobody(object), |it| it.grants.clone());
        let target = Target {
            before: format!("alter default privileges {} ", object.ident),
            on: object.text("on").to_owned(),
            column: String::new(),
        };
        statements.extend(between(&target, &grants(before), &grants(before), &grants(after)));
    }
    statements
}

/// What default privileges are where none are set.
fn of_nobody(default: &Object) -> Grants {
    match (default.has("everywhere"), default.text("on")) {
        (true, "functions") => public("execute"),
        (true, "types") => public("usage"),
        _ => Grants::new(),
    }
}

fn public(privilege: &str) -> Grants {
    Grants::from([((String::new(), privilege.to_owned()), false)])
}

/// What is granted on an object as soon as it is made: what is for certain, and what may be, by default privileges of
/// whoever makes it.
fn at_first(plan: &Plan, key: &Key, object: &Object) -> (Grants, Grants) {
    let (certain, on) = match key.kind {
        Kind::Function => (public("execute"), "functions"),
        kind if kind.is_type() => (public("usage"), "types"),
        Kind::Sequence => (Grants::new(), "sequences"),
        Kind::Table | Kind::View | Kind::MaterializedView => (Grants::new(), "tables"),
        Kind::Schema => (Grants::new(), "schemas"),
        _ => return (Grants::new(), Grants::new()),
    };
    let schema = super::text::schema(&object.ident);
    let mut possible = certain.clone();
    let mut is_certain = true;
    for (_, default) in plan.from.objects.iter().filter(|(it, _)| it.kind == Kind::DefaultPrivileges) {
        let here = default.has("everywhere") || default.ident.ends_with(&format!(" in schema {schema}"));
        if default.text("on") == on && here {
            is_certain &= !default.has("everywhere");
            possible.extend(default.grants.clone());
        }
    }
    (if is_certain { certain } else { Grants::new() }, possible)
}

/// What a statement says before `grant`, and after `on`.
struct Target {
    before: String,
    on: String,
    /// In parentheses, behind each privilege.
    column: String,
}

fn target(key: &Key, object: &Object) -> Option<Target> {
    let word = match key.kind {
        Kind::Schema => "schema",
        Kind::Function => "routine",
        Kind::Sequence => "sequence",
        Kind::Table | Kind::View | Kind::MaterializedView => "table",
        Kind::Column | Kind::ViewColumn => {
            let (on, column) = (format!("table {}", relation(object)), format!(" ({})", object.ident));
            return Some(Target { before: String::new(), on, column });
        }
        kind if kind.is_type() => "type",
        _ => return None,
    };
    Some(Target { before: String::new(), on: format!("{word} {}", object.ident), column: String::new() })
}

fn between(target: &Target, certain: &Grants, possible: &Grants, wanted: &Grants) -> Vec<String> {
    let Target { before, on, column } = target;
    // By what is done, and by grantee.
    let mut revoked: BTreeMap<(&str, &str), Vec<String>> = BTreeMap::new();
    let mut granted: BTreeMap<(&str, &str), Vec<String>> = BTreeMap::new();
    for ((grantee, privilege), passed_on) in possible {
        let what = format!("{privilege}{column}");
        match wanted.get(&(grantee.clone(), privilege.clone())) {
            None => revoked.entry(("", grantee)).or_default().push(what),
            Some(false) if *passed_on => {
                revoked.entry(("grant option for ", grantee)).or_default().push(what)
            }
            Some(_) => {}
        }
    }
    for ((grantee, privilege), passed_on) in wanted {
        let has = certain.get(&(grantee.clone(), privilege.clone()));
        if has.is_none_or(|has| *passed_on && !has) {
            let option = if *passed_on { " with grant option" } else { "" };
            granted.entry((option, grantee)).or_default().push(format!("{privilege}{column}"));
        }
    }
    let name = |grantee: &str| if grantee.is_empty() { "public".to_owned() } else { grantee.to_owned() };
    let revoked = revoked.into_iter().map(|((option, grantee), what)| {
        format!("{before}revoke {option}{} on {on} from {}", what.join(", "), name(grantee))
    });
    let granted = granted.into_iter().map(|((option, grantee), what)| {
        format!("{before}grant {} on {on} to {}{option}", what.join(", "), name(grantee))
    });
    revoked.chain(granted).collect()
}
