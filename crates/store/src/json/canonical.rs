//! Any JSON text to the one that is stored.

use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::error::JsonError;
use super::text::{check_array, check_level, check_size, syntax, write_key};

/// Writes a JSON text without white space, with its keys in the order in which they stand, and checks the limits.
///
/// Numbers and strings are written as `serde_json` writes them.
pub(super) fn canonical(text: &str) -> Result<String, JsonError> {
    let mut writer = Writer { out: Vec::with_capacity(text.len()), refused: None };
    let mut parser = serde_json::Deserializer::from_str(text);
    let parsed = Node { writer: &mut writer, depth: 0 }.deserialize(&mut parser).and_then(|()| parser.end());
    if let Some(refused) = writer.refused {
        return Err(refused);
    }
    parsed.map_err(syntax)?;
    check_size(writer.out.len())?;
    String::from_utf8(writer.out)
        .map_err(|error| JsonError::Corrupt { position: error.utf8_error().valid_up_to() })
}

struct Writer {
    out: Vec<u8>,
    /// Why the parser was stopped, if not for the syntax.
    refused: Option<JsonError>,
}

impl Writer {
    fn check<E: Error>(&mut self, checked: Result<(), JsonError>) -> Result<(), E> {
        checked.map_err(|error| {
            let stop = E::custom(&error);
            self.refused = Some(error);
            stop
        })
    }

    fn scalar<E: Error>(&mut self, value: impl serde::Serialize) -> Result<(), E> {
        serde_json::to_writer(&mut self.out, &value).map_err(E::custom)
    }
}

/// A value that is being read, inside of `depth` arrays and objects.
struct Node<'a> {
    writer: &'a mut Writer,
    depth: usize,
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.writer.scalar(())
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.writer.scalar(value)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.writer.scalar(value)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.writer.scalar(value)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        self.writer.scalar(value)
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        self.writer.scalar(value)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        let Node { writer, depth } = self;
        writer.check(check_level(depth))?;
        writer.out.push(b'[');
        let mut count = 0;
        loop {
            // The comma is written before it is known whether an element follows, and taken back if not.
            let end = writer.out.len();
            if count > 0 {
                writer.out.push(b',');
            }
            if elements.next_element_seed(Node { writer, depth: depth + 1 })?.is_none() {
                writer.out.truncate(end);
                break;
            }
            count += 1;
            writer.check(check_array(count))?;
        }
        writer.out.push(b']');
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let Node { writer, depth } = self;
        writer.check(check_level(depth))?;
        writer.out.push(b'{');
        let mut keys = HashSet::new();
        while let Some(key) = members.next_key::<String>()? {
            if !keys.is_empty() {
                writer.out.push(b',');
            }
            let written = write_key(&key, &mut writer.out);
            writer.check(written)?;
            if let Some(key) = keys.replace(key) {
                writer.check(Err(JsonError::DuplicateKey { key }))?;
            }
            members.next_value_seed(Node { writer, depth: depth + 1 })?;
        }
        writer.out.push(b'}');
        Ok(())
    }
}
