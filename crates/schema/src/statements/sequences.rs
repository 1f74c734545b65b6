//! Sequences.

use crate::catalogue::Object;
use duramen_postgres::quote_literal;

/// Changes the definition of a sequence. Where it stands stays, or comes to the nearest number within its new bounds.
pub(super) fn alter(from: &Object, to: &Object) -> Vec<String> {
    let ident = &to.ident;
    let mut statements = Vec::new();
    if from.get("unlogged") != to.get("unlogged") {
        let logged = if to.has("unlogged") { "unlogged" } else { "logged" };
        statements.push(format!("alter sequence {ident} set {logged}"));
    }
    let (before, after) = (Bounds::of(from), Bounds::of(to));
    if after.min > before.min || after.max < before.max {
        let (min, max) = (before.min.min(after.min), before.max.max(after.max));
        statements.push(format!("alter sequence {ident} as bigint minvalue {min} maxvalue {max}"));
        statements.push(format!(
            "select setval({}::regclass, greatest(least(s.last_value, {}), {}), s.is_called) from {ident} s",
            quote_literal(ident),
            after.max,
            after.min
        ));
    }
    statements.push(format!("alter sequence {ident} as {} {}", to.text("type"), to.text("clauses")));
    statements
}

struct Bounds {
    min: i64,
    max: i64,
}

impl Bounds {
    fn of(sequence: &Object) -> Bounds {
        let clauses = sequence.text("clauses");
        let number =
            |clause: &str| -> Option<i64> { clauses.split_once(clause)?.1.split(' ').next()?.parse().ok() };
        Bounds { min: number("minvalue ").unwrap_or(i64::MIN), max: number("maxvalue ").unwrap_or(i64::MAX) }
    }
}
