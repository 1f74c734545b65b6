//! `$n.*` in SQL: the rows of a result as a table of constants.

use super::reference::doubled;
use super::{push, SubstituteError, ROWS_MAX};
use crate::json::{self, Shape};

/// What a column's values are, over all rows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Type {
    /// Nothing but NULL so far.
    Unknown,
    Bool,
    Number,
    Text,
    /// Arrays, objects, or values of several types, which only a column of JSON can have.
    Json,
}

/// Puts `(VALUES (..),(..)) AS "n"("c1",..)` at the end of `out`.
pub(super) fn write(name: &str, rows: &str, out: &mut String) -> Result<(), SubstituteError> {
    // Whoever writes a result set by hand, as an input or the body of an answer, may put anything into it: to leave out what
    // is no row would be to go on with less than there is.
    let not_rows = || SubstituteError::NotRows { name: name.to_owned() };
    let rows = json::elements(rows).ok_or_else(not_rows)?;
    if rows.len() > ROWS_MAX {
        return Err(SubstituteError::TooManyRows { name: name.to_owned(), rows: rows.len() });
    }
    let rows = rows.into_iter().map(json::members).collect::<Option<Vec<_>>>().ok_or_else(not_rows)?;
    let columns: Vec<&String> = rows.first().map(|row| row.keys().collect()).unwrap_or_default();
    let alias = doubled(name, '"', false);
    // Rows without columns cannot be written as VALUES. They are as good as none: nothing can be read from them.
    if columns.is_empty() {
        return push(out, &format!("(SELECT NULL WHERE false) AS \"{alias}\""));
    }

    let types: Vec<Type> = columns
        .iter()
        .map(|column| {
            rows.iter().filter_map(|row| row.get(*column)).fold(Type::Unknown, |so_far, v| join(so_far, v))
        })
        .collect();
    push(out, "(VALUES ")?;
    for (index, row) in rows.iter().enumerate() {
        push(out, if index == 0 { "(" } else { ",(" })?;
        for (index, (column, of)) in columns.iter().zip(&types).enumerate() {
            if index > 0 {
                out.push(',');
            }
            let value = row.get(*column).copied().unwrap_or("null");
            write_value(value, *of, &format!("${name}.{column}"), out)?;
        }
        out.push(')');
    }
    push(out, &format!(") AS \"{alias}\"("))?;
    for (index, column) in columns.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        push(out, &format!("{comma}\"{}\"", doubled(column, '"', false)))?;
    }
    out.push(')');
    Ok(())
}

fn join(so_far: Type, value: &str) -> Type {
    let of = match json::shape(value) {
        Shape::Null => return so_far,
        Shape::Bool(_) => Type::Bool,
        Shape::Number(_) => Type::Number,
        Shape::String(_) => Type::Text,
        Shape::Array(_) | Shape::Object(_) => Type::Json,
    };
    match so_far {
        Type::Unknown => of,
        same if same == of => of,
        _ => Type::Json,
    }
}

fn write_value(value: &str, of: Type, origin: &str, out: &mut String) -> Result<(), SubstituteError> {
    let shape = json::shape(value);
    let (text, cast) = match (of, &shape) {
        (_, Shape::Null) => return push(out, "NULL"),
        (Type::Json, _) => (value, "jsonb"),
        (_, Shape::Bool(value)) => return push(out, if *value { "true" } else { "false" }),
        (_, Shape::Number(digits)) => return push(out, digits),
        (_, Shape::String(Some(text))) if !text.contains('\0') => (text.as_ref(), "text"),
        _ => return Err(SubstituteError::Character { reference: origin.to_owned() }),
    };
    let escapes = text.contains('\\');
    let prefix = if escapes { "E" } else { "" };
    push(out, &format!("{prefix}'{}'::{cast}", doubled(text, '\'', escapes)))
}
