//! The work of a plan as text, for clients that are told statements and print rows.

use serde_json::Value;

use super::workload::{Change, Key, Read, AIRLINE_READ, EVENT_INSERT, PLAIN_READ, POINT_READ};

/// A read with its value in it.
pub(crate) fn of_read(read: &Read) -> String {
    match &read.key {
        Key::Nothing => PLAIN_READ.to_owned(),
        Key::Airline(carrier) => AIRLINE_READ.replace("$1", &literal(carrier)),
        Key::Flight(flight) => POINT_READ.replace("$1", &flight.to_string()),
    }
}

/// A write with its values in it; several statements are one text, and so one implicit transaction.
pub(crate) fn of_change(change: &Change) -> String {
    match change {
        // The payload comes last, so that nothing in it is taken for the place of another value.
        Change::Event { flight, kind, payload, .. } => EVENT_INSERT
            .replace("$1", &flight.to_string())
            .replace("$2", &literal(kind))
            .replace("$3", &literal(payload)),
        Change::Schema { statements, .. } => statements.join(";\n"),
    }
}

/// A text as a literal, whatever is in it.
pub(crate) fn literal(text: &str) -> String {
    let doubled = text.replace('\'', "''");
    if doubled.contains('\\') {
        format!("E'{}'", doubled.replace('\\', "\\\\"))
    } else {
        format!("'{doubled}'")
    }
}

/// The expected rows of a read (JSON) as text: a line for each row, its cells separated by `|`.
pub(crate) fn expected_text(read: &Read) -> Option<String> {
    let rows: Vec<Vec<Value>> = serde_json::from_str(&read.expected).ok()?;
    Some(rows_as_text(&rows))
}

/// Rows as `psql` prints them unaligned.
pub(crate) fn rows_as_text(rows: &[Vec<Value>]) -> String {
    let cell = |cell: &Value| match cell {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let line = |row: &Vec<Value>| row.iter().map(cell).collect::<Vec<_>>().join("|");
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
#[path = "../../tests/unit/branches/statement.rs"]
mod tests;
