//! The value of a `df.break`: JSON with references in it.

use super::reference::{Place, Reference, Results};
use super::{push, raw, SubstituteError};
use crate::json::{self, Json, Shape};

pub(super) fn substitute(text: &str, results: &Results<'_>) -> Result<Json, SubstituteError> {
    if let Some(reference) = known(text.trim(), results) {
        let mut out = String::new();
        results.get(&reference)?.write(&reference, Place::Json, &mut out)?;
        return Ok(Json::from_valid(out));
    }
    if let Ok(json) = Json::parse(text) {
        return match json.text().contains('$') {
            true => in_strings(json.text(), results).map(Json::from_valid),
            false => Ok(json),
        };
    }
    if text.contains('$') {
        if let Ok(json) = Json::parse(&in_template(text, results)?) {
            return Ok(json);
        }
    }
    Ok(Json::string(&raw(text, results)?))
}

fn known<'a>(text: &'a str, results: &Results<'_>) -> Option<Reference<'a>> {
    Reference::whole(text).filter(|reference| results.has(reference.name))
}

/// Valid JSON with the references in its strings replaced. A string that is one reference becomes the value itself,
/// unless it is a member's name.
fn in_strings(json: &str, results: &Results<'_>) -> Result<String, SubstituteError> {
    let mut out = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(open) = rest.find('"') {
        push(&mut out, &rest[..open])?;
        let string = &rest[open..open + string_len(&rest[open..])];
        rest = &rest[open + string.len()..];
        let is_name = rest.trim_start().starts_with(':');
        match json::shape(string) {
            Shape::String(Some(text)) if text.contains('$') => match known(&text, results) {
                Some(reference) if !is_name => {
                    results.get(&reference)?.write(&reference, Place::Json, &mut out)?;
                }
                _ => push(&mut out, &json::quoted(&raw(&text, results)?))?,
            },
            _ => push(&mut out, string)?,
        }
    }
    push(&mut out, rest)?;
    Ok(out)
}

/// The length of the JSON string that `text` begins with, with its quotes.
fn string_len(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 1;
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    bytes.len().min(at + 1)
}

/// Text that may become JSON when each reference outside of double quotes is replaced by JSON, and each inside by what
/// a JSON string may hold.
fn in_template(text: &str, results: &Results<'_>) -> Result<String, SubstituteError> {
    let mut out = String::with_capacity(text.len());
    let (mut rest, mut in_string) = (text, false);
    while let Some(at) = rest.find(['$', '"', '\\']) {
        push(&mut out, &rest[..at])?;
        rest = &rest[at..];
        let reference = Reference::at(rest).filter(|reference| results.has(reference.name));
        let len = match (rest.as_bytes()[0], reference) {
            (b'$', Some(reference)) => {
                let place = if in_string { Place::JsonString } else { Place::Json };
                results.get(&reference)?.write(&reference, place, &mut out)?;
                reference.text.len()
            }
            (b'\\', _) if in_string => {
                let len = 1 + rest[1..].chars().next().map_or(0, char::len_utf8);
                push(&mut out, &rest[..len])?;
                len
            }
            (byte, _) => {
                in_string ^= byte == b'"';
                out.push(char::from(byte));
                1
            }
        };
        rest = &rest[len..];
    }
    push(&mut out, rest)?;
    Ok(out)
}
