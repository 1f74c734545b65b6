//! JSON as text: what results are made of.
//!
//! A parsed tree would lose what matters here: the order of columns, the exact digits of a number, and time. So a
//! [`Json`] is the text itself, known to be valid, and is looked into only where somebody asks.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use indexmap::IndexMap;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// Text that is not JSON.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JsonError {
    /// The text breaks JSON's grammar, or one of its strings holds half a surrogate pair.
    #[error("not valid JSON ({0}): check quotes, commas and brackets at that place")]
    Invalid(#[from] serde_json::Error),
}

/// Valid JSON text, cheap to clone.
///
/// Equality is that of the text: `1.0` is not `1`, and the order of an object's members counts.
///
/// ```
/// use duramen_functions::json::Json;
/// let json = Json::parse(r#" {"b": 1.50, "a": null} "#)?;
/// assert_eq!(json.text(), r#"{"b": 1.50, "a": null}"#);
/// assert_eq!(json.field("b").map(|b| b.text().to_owned()).as_deref(), Some("1.50"));
/// # Ok::<(), duramen_functions::json::JsonError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Json(Arc<str>);

impl Json {
    /// Checks `text` and keeps it, without the white space around it.
    ///
    /// # Errors
    /// [`JsonError::Invalid`] when it is not JSON, or not Unicode: a string with one half of a surrogate pair.
    pub fn parse(text: &str) -> Result<Self, JsonError> {
        let raw: &RawValue = serde_json::from_str(text)?;
        // A raw value's strings are skipped, not decoded. Only an escape can hold half a surrogate pair.
        let text = raw.get();
        if text.contains("\\ud") || text.contains("\\uD") {
            serde_json::from_str::<Decodable>(text)?;
        }
        Ok(Self(text.into()))
    }

    /// Takes text that is known to be valid JSON: the server's own, or what this crate wrote.
    pub fn from_valid(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// `null`.
    pub fn null() -> Self {
        Self("null".into())
    }

    /// A JSON string that holds `text`.
    ///
    /// ```
    /// assert_eq!(duramen_functions::json::Json::string("a\"b\n").text(), r#""a\"b\n""#);
    /// ```
    pub fn string(text: &str) -> Self {
        Self(quoted(text).into())
    }

    /// The member `name` of an object; the last one when there are several. `None` when this is not an object, or has no
    /// such member.
    pub fn field(&self, name: &str) -> Option<Self> {
        member(self.text(), name).map(|text| Self(text.into()))
    }

    /// The first row of a result set, in the order of its columns. `None` when this is not a result set or has no rows.
    pub fn first_row(&self) -> Option<IndexMap<String, Self>> {
        let row = first_element(rows_text(self.text())?)?;
        owned(row)
    }

    /// All rows of a result set. `None` when this is not a result set.
    pub fn rows(&self) -> Option<Vec<IndexMap<String, Self>>> {
        elements(rows_text(self.text())?)?.into_iter().map(owned).collect()
    }

    /// Whether this is what a SQL step gives: an object with an array `rows` and a number `row_count`.
    pub fn is_result_set(&self) -> bool {
        rows_text(self.text()).is_some()
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(&self.0).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Ok(Self(Box::<str>::from(raw).into()))
    }
}

/// `text` as a JSON string, with its quotes.
pub(crate) fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("a string can always be written as JSON")
}

/// What kind of value a valid JSON text is; strings are decoded.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Shape<'a> {
    Null,
    Bool(bool),
    /// The digits as they stand.
    Number(&'a str),
    /// `None` when an escape is half a surrogate pair.
    String(Option<Cow<'a, str>>),
    Array(&'a str),
    Object(&'a str),
}

pub(crate) fn shape(text: &str) -> Shape<'_> {
    let text = text.trim_matches([' ', '\t', '\n', '\r']);
    match text.as_bytes().first() {
        Some(b'{') => Shape::Object(text),
        Some(b'[') => Shape::Array(text),
        Some(b'"') => Shape::String(serde_json::from_str::<Borrowed>(text).ok().map(|Borrowed(text)| text)),
        Some(b't') => Shape::Bool(true),
        Some(b'f') => Shape::Bool(false),
        Some(b'-' | b'0'..=b'9') => Shape::Number(text),
        _ => Shape::Null,
    }
}

/// The text of the member `name`; the last one wins.
pub(crate) fn member<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut found = None;
    let each = |key: &str, value: &'a str| {
        if key == name {
            found = Some(value);
        }
    };
    serde_json::Deserializer::from_str(text).deserialize_map(Members(each)).ok()?;
    found
}

/// The members of an object in their order. A name that comes twice has its last value at its first place.
pub(crate) fn members(text: &str) -> Option<IndexMap<String, &str>> {
    let mut found = IndexMap::new();
    let each = |key: &str, value| {
        found.insert(key.to_owned(), value);
    };
    serde_json::Deserializer::from_str(text).deserialize_map(Members(each)).ok()?;
    Some(found)
}

/// The values of an object's members in their order, those of one name too.
pub(crate) fn values(text: &str) -> Option<Vec<&str>> {
    let mut found = Vec::new();
    serde_json::Deserializer::from_str(text)
        .deserialize_map(Members(|_: &str, value| found.push(value)))
        .ok()?;
    Some(found)
}

/// The names of the first object's members in an array, in their order and as often as they come.
pub(crate) fn first_names(text: &str) -> Option<Vec<String>> {
    let mut found = Vec::new();
    serde_json::Deserializer::from_str(first_element(text)?)
        .deserialize_map(Members(|key: &str, _| found.push(key.to_owned())))
        .ok()?;
    Some(found)
}

/// The first member of an object; the rest is not read.
pub(crate) fn first_member(text: &str) -> Option<&str> {
    let mut first = None;
    // It stops before the end of the object, which counts as an error.
    let _ = serde_json::Deserializer::from_str(text).deserialize_map(FirstMember(&mut first));
    first
}

/// The elements of an array.
pub(crate) fn elements(text: &str) -> Option<Vec<&str>> {
    let raw: Vec<&RawValue> = serde_json::from_str(text).ok()?;
    Some(raw.into_iter().map(RawValue::get).collect())
}

/// The first element of an array; the rest is not read.
pub(crate) fn first_element(text: &str) -> Option<&str> {
    let mut first = None;
    // It stops before the end of the array, which counts as an error.
    let _ = serde_json::Deserializer::from_str(text).deserialize_seq(FirstElement(&mut first));
    first
}

/// The text of a result set's array of rows.
pub(crate) fn rows_text(text: &str) -> Option<&str> {
    let (mut rows, mut counted) = (None, false);
    let each = |key: &str, value| match key {
        "rows" => rows = Some(value),
        "row_count" => counted = matches!(shape(value), Shape::Number(_)),
        _ => {}
    };
    serde_json::Deserializer::from_str(text).deserialize_map(Members(each)).ok()?;
    rows.filter(|rows| counted && rows.starts_with('['))
}

fn owned(row: &str) -> Option<IndexMap<String, Json>> {
    Some(members(row)?.into_iter().map(|(name, value)| (name, Json(value.into()))).collect())
}

/// Calls its function with every member of an object.
struct Members<F>(F);

impl<'de, F: FnMut(&str, &'de str)> Visitor<'de> for Members<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(Borrowed(key)) = map.next_key()? {
            let value: &RawValue = map.next_value()?;
            (self.0)(&key, value.get());
        }
        Ok(())
    }
}

struct FirstElement<'a, 'de>(&'a mut Option<&'de str>);

impl<'de> Visitor<'de> for FirstElement<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        *self.0 = seq.next_element::<&RawValue>()?.map(RawValue::get);
        Ok(())
    }
}

struct FirstMember<'a, 'de>(&'a mut Option<&'de str>);

impl<'de> Visitor<'de> for FirstMember<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        *self.0 = map.next_entry::<IgnoredAny, &RawValue>()?.map(|(_, value)| value.get());
        Ok(())
    }
}

/// A string, borrowed where it holds no escapes. (serde's own `Cow` is always owned.)
#[derive(Deserialize)]
#[serde(transparent)]
pub(crate) struct Borrowed<'a>(#[serde(borrow)] pub(crate) Cow<'a, str>);

/// Reads a value to its end and decodes every string on the way.
struct Decodable;

impl<'de> Deserialize<'de> for Decodable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Decode.deserialize(deserializer).map(|()| Self)
    }
}

#[derive(Clone, Copy)]
struct Decode;

impl<'de> DeserializeSeed<'de> for Decode {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Decode {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element_seed(self)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while map.next_key_seed(self)?.is_some() {
            map.next_value_seed(self)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
