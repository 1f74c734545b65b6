//! JSON in which no key stands twice: of two values of one key, a common parser silently takes the last.

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::fmt;

/// The first JSON value of a text, and how many bytes of it that took.
///
/// # Errors
/// When the text is not JSON, or an object in it repeats a key; the error names both values.
pub(crate) fn strict(text: &str) -> (Result<Value, serde_json::Error>, usize) {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Strict>();
    let first = values.next();
    let value = match first {
        Some(value) => value.map(|value| value.0),
        None => Err(serde_json::Error::custom("there is none")),
    };
    (value, values.byte_offset())
}

/// A value whose objects have each key once.
struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Values).map(Self)
    }
}

struct Values;

impl<'de> Visitor<'de> for Values {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(Strict(value)) = list.next_element()? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Value, A::Error> {
        let mut values = Map::new();
        while let Some((key, Strict(value))) = object.next_entry::<String, Strict>()? {
            if let Some(first) = values.get(&key) {
                let (first, second) = (excerpt(first), excerpt(&value));
                let what =
                    format!("there are two values of `{key}`, {first} and {second}: it has one value only");
                return Err(A::Error::custom(what));
            }
            values.insert(key, value);
        }
        Ok(Value::Object(values))
    }
}

/// A value as an error shows it.
fn excerpt(value: &Value) -> String {
    value.to_string().chars().take(super::QUOTED_CHARS).collect()
}
