//! A document, or a part of one, as text.

use std::fmt;
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer};
use serde::ser::{Error as _, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::Value;

use super::canonical::canonical;
use super::error::JsonError;
use super::path::Path;
use super::text::{locate, to_text, NewValue};

/// A JSON value as its text, which is parsed only where it is asked for.
///
/// The text has no white space, keeps its keys in the order in which they came, and has none twice. Two are equal
/// when their texts are: the order of the keys counts.
///
/// ```
/// use duramen_store::json::Json;
///
/// let tree: Json = r#"{ "name": "oak", "rings": [1, 2, 3] }"#.parse()?;
/// assert_eq!(tree.as_str(), r#"{"name":"oak","rings":[1,2,3]}"#);
/// let ring = tree.get(&"rings[1]".parse()?)?.expect("there are three");
/// assert_eq!(ring.to_value()?, 2);
/// # Ok::<(), duramen_store::json::JsonError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Json(Box<str>);

impl Json {
    /// The text of a parsed value.
    ///
    /// # Errors
    /// When the value breaks a limit of documents: depth 100, arrays of a million elements, 16 MiB of text.
    pub fn from_value(value: &Value) -> Result<Json, JsonError> {
        Json::from_stored(to_text(value)?)
    }

    /// A text that is as a document is stored.
    ///
    /// # Errors
    /// [`JsonError::Corrupt`] when it is not UTF-8. Nothing else is checked.
    pub(crate) fn from_stored(text: impl Into<Vec<u8>>) -> Result<Json, JsonError> {
        let text = String::from_utf8(text.into())
            .map_err(|error| JsonError::Corrupt { position: error.utf8_error().valid_up_to() })?;
        Ok(Json(text.into_boxed_str()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text, parsed.
    ///
    /// # Errors
    /// [`JsonError::Corrupt`] when the text is damaged, which only that of a damaged store can be.
    pub fn to_value(&self) -> Result<Value, JsonError> {
        // The text has no line breaks, so the column is the place.
        serde_json::from_str(&self.0).map_err(|error| JsonError::Corrupt { position: error.column() })
    }

    /// The value at a path, or nothing if there is none.
    ///
    /// # Errors
    /// [`JsonError::Corrupt`] when the text is damaged on the way.
    pub fn get(&self, path: &Path) -> Result<Option<Json>, JsonError> {
        let Some(range) = locate(self.0.as_bytes(), path)? else { return Ok(None) };
        let part = self.0.get(range.clone()).ok_or(JsonError::Corrupt { position: range.start })?;
        Ok(Some(Json(part.into())))
    }
}

impl<'a> From<&'a Json> for NewValue<'a> {
    fn from(text: &'a Json) -> Self {
        NewValue::Text(text.as_str())
    }
}

/// Takes any JSON text: white space goes, limits are checked, a key that an object has twice is refused.
impl FromStr for Json {
    type Err = JsonError;

    fn from_str(text: &str) -> Result<Json, JsonError> {
        Ok(Json(canonical(text)?.into_boxed_str()))
    }
}

impl TryFrom<&Value> for Json {
    type Error = JsonError;

    fn try_from(value: &Value) -> Result<Json, JsonError> {
        Json::from_value(value)
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Writes the text as it is; made for the serializers of `serde_json`.
impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(&self.0).map_err(S::Error::custom)?;
        raw.serialize(serializer)
    }
}

/// Takes any JSON value; made for the deserializers of `serde_json`.
impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Json, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        raw.get().parse().map_err(serde::de::Error::custom)
    }
}
