//! A value on its way into a column, whether it comes from a document or a pair.

use std::borrow::Cow;

use duramen_store::value::{ValueError, ValueRef};
use serde_json::Value as Json;

/// Integers up to this have a float of their own.
const EXACT_MAX: u64 = 1 << 53;

/// A value.
#[derive(Clone, Debug)]
pub(crate) enum Datum<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(Cow<'a, str>),
    Bytes(&'a [u8]),
    /// An array, an object, or a number that is neither a signed integer of 64 bits nor a float.
    Json(Cow<'a, Json>),
}

impl<'a> Datum<'a> {
    /// What a JSON value is.
    pub(crate) fn of(json: &'a Json) -> Datum<'a> {
        match json {
            Json::Null => Datum::Null,
            Json::Bool(value) => Datum::Bool(*value),
            Json::String(text) => Datum::Text(Cow::Borrowed(text)),
            Json::Number(number) => match (number.as_i64(), number.as_f64()) {
                (Some(integer), _) => Datum::Int(integer),
                (None, Some(float)) if number.is_f64() => Datum::Float(float),
                _ => Datum::Json(Cow::Borrowed(json)),
            },
            Json::Array(_) | Json::Object(_) => Datum::Json(Cow::Borrowed(json)),
        }
    }

    /// What the text of a JSON value says.
    pub(crate) fn parse(text: &'a str) -> Result<Datum<'a>, serde_json::Error> {
        Ok(match text.as_bytes() {
            b"null" => Datum::Null,
            b"true" => Datum::Bool(true),
            b"false" => Datum::Bool(false),
            [b'"', inner @ .., b'"'] if !inner.contains(&b'\\') => {
                Datum::Text(Cow::Borrowed(&text[1..text.len() - 1]))
            }
            [b'"', ..] => Datum::Text(Cow::Owned(serde_json::from_str(text)?)),
            [b'{' | b'[', ..] => Datum::Json(Cow::Owned(serde_json::from_str(text)?)),
            _ => match text.parse() {
                Ok(integer) if text != "-0" => Datum::Int(integer),
                _ => {
                    let number: Json = serde_json::from_str(text)?;
                    match number.as_f64().filter(|_| number.is_f64()) {
                        Some(float) => Datum::Float(float),
                        None => Datum::Json(Cow::Owned(number)),
                    }
                }
            },
        })
    }

    /// What the value of a pair is.
    pub(crate) fn of_pair(value: &ValueRef<'a>) -> Result<Datum<'a>, ValueError> {
        Ok(match value {
            ValueRef::Null => Datum::Null,
            ValueRef::Bool(value) => Datum::Bool(*value),
            ValueRef::Int(value) => Datum::Int(*value),
            ValueRef::Float(value) => Datum::Float(*value),
            ValueRef::Str(text) => Datum::Text(Cow::Borrowed(text)),
            ValueRef::Bytes(bytes) => Datum::Bytes(bytes),
            ValueRef::Array(_) | ValueRef::Object(_) => Datum::Json(Cow::Owned(value.to_value()?.to_json()?)),
        })
    }

    /// What it is, as it is told.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Datum::Null => "null",
            Datum::Bool(_) => "a boolean",
            Datum::Int(_) => "an integer",
            Datum::Float(_) => "a float",
            Datum::Text(_) => "text",
            Datum::Bytes(_) => "bytes",
            Datum::Json(json) => match **json {
                Json::Array(_) => "a list",
                Json::Object(_) => "an object",
                _ => "an integer of more than 63 bits",
            },
        }
    }
}

/// Whether an integer is the same as a float.
pub(crate) fn is_exact(integer: i64) -> bool {
    integer.unsigned_abs() <= EXACT_MAX
}
