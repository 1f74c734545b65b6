//! Values as they are shown: their text up to a limit, whatever they hold, without a copy of all of them.

use crate::text::Cut;
use base64::{display::Base64Display, engine::general_purpose::STANDARD};
use duramen_api::attachments::store::ShownValue;
use duramen_store::{
    value::{ValueError, ValueRef},
    vector::Row,
};
use std::ops::ControlFlow;

/// Lists and objects in one another that are shown: a value may have 128.
const DEPTH_MAX: usize = 128;

fn shown(form: &str, limit: usize, write: impl FnOnce(&mut Cut) -> ControlFlow<()>) -> ShownValue {
    let mut cut = Cut::new(limit);
    let flow = write(&mut cut);
    ShownValue { form: form.to_owned(), cut: cut.is_cut || flow.is_break(), text: cut.text }
}

/// A value of a pair or a cell.
pub(super) fn of_value(value: &ValueRef<'_>, limit: usize) -> Result<ShownValue, ValueError> {
    let mut failed = None;
    let shown = match value {
        ValueRef::Null => shown("null", limit, |cut| cut.push("null")),
        ValueRef::Bool(value) => shown("bool", limit, |cut| cut.push_display(value)),
        ValueRef::Int(value) => shown("int", limit, |cut| cut.push_display(value)),
        ValueRef::Float(value) => shown("float", limit, |cut| cut.push_display(value)),
        ValueRef::Str(text) => shown("string", limit, |cut| cut.push_prose(text)),
        ValueRef::Bytes(bytes) => shown("bytes", limit, |cut| cut.push_escaped(bytes)),
        ValueRef::Array(_) => shown("list", limit, |cut| json(value, 0, cut, &mut failed)),
        ValueRef::Object(_) => shown("object", limit, |cut| json(value, 0, cut, &mut failed)),
    };
    failed.map_or(Ok(shown), Err)
}

/// Writes a value as JSON. Numbers that JSON does not have are strings, and bytes are base64, as everywhere in a store.
fn json(
    value: &ValueRef<'_>,
    depth: usize,
    cut: &mut Cut,
    failed: &mut Option<ValueError>,
) -> ControlFlow<()> {
    if depth > DEPTH_MAX {
        *failed = Some(ValueError::TooDeep { max: DEPTH_MAX });
        return ControlFlow::Break(());
    }
    match value {
        ValueRef::Null => cut.push("null"),
        ValueRef::Bool(value) => cut.push_display(value),
        ValueRef::Int(value) => cut.push_display(value),
        ValueRef::Float(value) if value.is_finite() => cut.push_display(format_args!("{value:?}")),
        ValueRef::Float(value) => cut.push_display(format_args!("\"{value}\"")),
        ValueRef::Str(text) => cut.push_json_string(text),
        ValueRef::Bytes(bytes) => {
            cut.push("{\"$bytes\":\"")?;
            cut.push_display(Base64Display::new(bytes, &STANDARD))?;
            cut.push("\"}")
        }
        ValueRef::Array(array) => {
            cut.push("[")?;
            for (at, element) in array.iter().enumerate() {
                if at > 0 {
                    cut.push(",")?;
                }
                json(&taken(element, failed)?, depth + 1, cut, failed)?;
            }
            cut.push("]")
        }
        ValueRef::Object(object) => {
            cut.push("{")?;
            for (at, member) in object.iter().enumerate() {
                if at > 0 {
                    cut.push(",")?;
                }
                let (key, member) = taken(member, failed)?;
                cut.push_json_string(key)?;
                cut.push(":")?;
                json(&member, depth + 1, cut, failed)?;
            }
            cut.push("}")
        }
    }
}

/// What was read, or an end.
fn taken<T>(read: Result<T, ValueError>, failed: &mut Option<ValueError>) -> ControlFlow<(), T> {
    match read {
        Ok(value) => ControlFlow::Continue(value),
        Err(error) => {
            *failed = Some(error);
            ControlFlow::Break(())
        }
    }
}

/// A JSON text.
pub(super) fn of_json(text: &str, limit: usize) -> ShownValue {
    let form = match text.trim_ascii_start().as_bytes().first() {
        Some(b'{') => "object",
        Some(b'[') => "list",
        Some(b'"') => "string",
        Some(b't' | b'f') => "bool",
        Some(b'n') => "null",
        _ => "float",
    };
    // Of a text, what it says, and not how JSON writes it.
    match (form, serde_json::from_str::<String>(text)) {
        ("string", Ok(text)) => shown(form, limit, |cut| cut.push_prose(&text)),
        _ => shown(form, limit, |cut| cut.push_json(text)),
    }
}

/// The numbers of a vector.
pub(super) fn of_vector(row: &Row<'_>, limit: usize) -> ShownValue {
    shown("vector", limit, |cut| {
        cut.push("[")?;
        for (at, element) in row.elements().enumerate() {
            if at > 0 {
                cut.push(",")?;
            }
            match element.is_finite() {
                true => cut.push_display(element)?,
                false => cut.push_display(format_args!("\"{element}\""))?,
            }
        }
        cut.push("]")
    })
}

/// What is kept beside a vector.
pub(super) fn of_metadata(row: &Row<'_>, limit: usize) -> Option<ShownValue> {
    let bytes = row.metadata_bytes()?;
    Some(match std::str::from_utf8(bytes) {
        Ok(text) => of_json(text, limit),
        Err(_) => of_bytes("bytes", bytes, limit),
    })
}

/// Bytes, such as those with which a blob begins.
pub(super) fn of_bytes(form: &str, bytes: &[u8], limit: usize) -> ShownValue {
    shown(form, limit, |cut| cut.push_escaped(bytes))
}
