//! Keys and values as people read them, for diffs and conflicts.

use serde_json::{json, Value as Json};

use crate::blob;
use crate::event::{part_of, Event, EventPart};
use crate::expiry;
use crate::keys::Primitive;
use crate::kv;
use crate::state;
use crate::value::Value;
use crate::vector::decode_row;

/// The key of an entry, without its space; none for what a primitive keeps for itself, such as an index.
pub(crate) fn display_key(primitive: Primitive, key: &[u8]) -> Option<String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match primitive {
        Primitive::Kv => Some(kv::display(key).into_owned()),
        Primitive::Blob | Primitive::State | Primitive::Json | Primitive::Index => Some(text(key)),
        Primitive::Event => match part_of(key)? {
            EventPart::Entry(seq) => Some(seq.to_string()),
            EventPart::Index { .. } | EventPart::Start => None,
        },
        Primitive::Vector => {
            let (_, name) = key.split_first()?;
            Some(text(name).replacen('\0', "/", 1))
        }
    }
}

/// The value of an entry. What cannot be read as its kind is displayed as text.
pub(crate) fn display_value(primitive: Primitive, bytes: &[u8]) -> Json {
    let decoded = match primitive {
        Primitive::Kv => Value::decode(expiry::value(bytes)).ok().and_then(|value| value.to_json().ok()),
        Primitive::Blob => blob::display_value(bytes),
        Primitive::State => state::display_value(bytes),
        Primitive::Json => serde_json::from_slice(bytes).ok(),
        Primitive::Event => display_event(bytes),
        Primitive::Vector => display_vector(bytes),
        Primitive::Index => bytes.get(1..).and_then(|text| serde_json::from_slice(text).ok()),
    };
    decoded.unwrap_or_else(|| Json::String(String::from_utf8_lossy(bytes).into_owned()))
}

fn display_event(bytes: &[u8]) -> Option<Json> {
    let event = Event::decode(0, bytes).ok()?;
    let payload = event.payload.to_value().ok()?;
    Some(json!({ "type": event.event_type, "at_ms": event.at_ms, "payload": payload }))
}

fn display_vector(bytes: &[u8]) -> Option<Json> {
    let row = decode_row(bytes).ok()?;
    Some(json!({ "vector": row.to_vec(), "metadata": row.metadata().ok()? }))
}
