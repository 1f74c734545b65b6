//! What spans are made of: attributes of bounded size, events, and times as OTLP has them.

use jiff::Timestamp;
use opentelemetry_proto::tonic::common::v1::{any_value::Value, AnyValue, KeyValue};

use crate::Event;

/// How many bytes of a text that somebody else chose a span has (T-8).
pub const NAME_BYTES: usize = 200;
/// How many bytes of a SQL text, or of a message.
pub const TEXT_BYTES: usize = 2_000;
/// The flags of a span that is sampled, and whose parent is known to be here, if it has one.
pub const FLAGS_LOCAL: u32 = 0x101;
/// The same, and whose parent is known to be elsewhere.
pub const FLAGS_REMOTE: u32 = 0x301;

/// The beginning of a text, in so many bytes.
#[must_use]
pub fn cut(text: &str, bytes: usize) -> &str {
    if text.len() <= bytes {
        return text;
    }
    let end = (0..=bytes).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

fn attribute(key: &str, value: Value) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

/// A text, in [`NAME_BYTES`].
#[must_use]
pub fn text(key: &str, value: &str) -> KeyValue {
    attribute(key, Value::StringValue(cut(value, NAME_BYTES).to_owned()))
}

/// A long text, in [`TEXT_BYTES`].
#[must_use]
pub fn long_text(key: &str, value: &str) -> KeyValue {
    attribute(key, Value::StringValue(cut(value, TEXT_BYTES).to_owned()))
}

/// A number.
#[must_use]
pub fn number(key: &str, value: i64) -> KeyValue {
    attribute(key, Value::IntValue(value))
}

/// That something is so.
#[must_use]
pub fn truth(key: &str) -> KeyValue {
    attribute(key, Value::BoolValue(true))
}

/// Something that happened while a span lasted.
#[must_use]
pub fn event(name: &str, at: Timestamp, attributes: Vec<KeyValue>) -> Event {
    Event { time_unix_nano: nanoseconds(at), name: name.to_owned(), attributes, dropped_attributes_count: 0 }
}

/// A time as OTLP has it, which begins in 1970 and ends in 2554.
#[must_use]
pub fn nanoseconds(at: Timestamp) -> u64 {
    u64::try_from(at.as_nanosecond().max(0)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
