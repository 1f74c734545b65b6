//! Values to JSON and back, without loss.
//!
//! JSON has no byte strings: they become `{"$bytes": "<padded base64>"}`. An object of one member whose key is already
//! `$bytes`, with any number of `$` before it, gets one more `$` on the way to JSON and loses it on the way back.

use serde::de::DeserializeOwned;
use serde::Serialize;
use serde_json::Value as Json;

use super::base64;
use super::error::{ValueError, MAX_NESTING};
use super::owned::Value;

impl Value {
    /// The value as JSON.
    ///
    /// Byte strings become `{"$bytes": "<padded base64>"}`; an object that looks like this itself gets one more `$`
    /// before its key. [`Value::from_json`] undoes both.
    ///
    /// # Errors
    /// [`ValueError::NotFinite`] for a NaN or an infinity, which JSON lacks, and [`ValueError::TooDeep`].
    ///
    /// ```
    /// use duramen_store::value::Value;
    ///
    /// let json = Value::from(*b"oak").to_json()?;
    /// assert_eq!(json, serde_json::json!({ "$bytes": "b2Fr" }));
    /// assert_eq!(Value::from_json(&json)?, Value::from(*b"oak"));
    /// # Ok::<(), duramen_store::value::ValueError>(())
    /// ```
    pub fn to_json(&self) -> Result<Json, ValueError> {
        to_json(self, 0, true)
    }

    /// The value as JSON, in which a NaN or an infinity is null.
    ///
    /// # Errors
    /// [`ValueError::TooDeep`].
    pub(crate) fn to_json_or_null(&self) -> Result<Json, ValueError> {
        to_json(self, 0, false)
    }

    /// The value that a JSON value means. Numbers without point and exponent become integers, others floats.
    ///
    /// # Errors
    /// [`ValueError::OutOfRange`] for an integer over 63 bits, [`ValueError::BadBytes`] for a `{"$bytes": ...}`
    /// without base64 text, and [`ValueError::TooDeep`].
    pub fn from_json(json: &Json) -> Result<Value, ValueError> {
        from_json(json, 0)
    }
}

impl Value {
    /// The value of something that can be serialised, as JSON has it: bytes are numbers, and a 64-bit number has a sign.
    ///
    /// ```
    /// use duramen_store::{Scope, Store, Value};
    /// #[derive(serde::Serialize, serde::Deserialize, PartialEq, Debug)]
    /// struct User {
    ///     name: String,
    ///     visits: u32,
    /// }
    /// let (store, ada) = (Store::memory(), User { name: "Ada".into(), visits: 3 });
    /// let main = store.branch("main")?;
    /// main.kv().put("user:1", Value::from_serde(&ada)?)?;
    /// let found = main.kv().get("user:1")?.expect("it was put");
    /// assert_eq!(found.to_serde::<User>()?, ada);
    /// # Ok::<(), duramen_store::StoreError>(())
    /// ```
    ///
    /// # Errors
    /// [`ValueError::Serde`], and those of [`from_json`](Self::from_json).
    pub fn from_serde<T: Serialize + ?Sized>(value: &T) -> Result<Value, ValueError> {
        Value::from_json(&serde_json::to_value(value).map_err(told)?)
    }

    /// What was made a value by [`from_serde`](Self::from_serde).
    ///
    /// # Errors
    /// [`ValueError::Serde`] when it is something else, and those of [`to_json`](Self::to_json).
    pub fn to_serde<T: DeserializeOwned>(&self) -> Result<T, ValueError> {
        serde_json::from_value(self.to_json()?).map_err(told)
    }
}

fn told(error: serde_json::Error) -> ValueError {
    ValueError::Serde { reason: error.to_string() }
}

impl TryFrom<&Value> for Json {
    type Error = ValueError;

    fn try_from(value: &Value) -> Result<Json, ValueError> {
        value.to_json()
    }
}

impl TryFrom<&Json> for Value {
    type Error = ValueError;

    fn try_from(json: &Json) -> Result<Value, ValueError> {
        Value::from_json(json)
    }
}

/// If not `finite`, a number that JSON does not have is null.
fn to_json(value: &Value, depth: usize, finite: bool) -> Result<Json, ValueError> {
    Ok(match value {
        Value::Null => Json::Null,
        Value::Bool(value) => Json::Bool(*value),
        Value::Int(value) => Json::from(*value),
        Value::Float(value) if !finite && !value.is_finite() => Json::Null,
        Value::Float(value) => serde_json::Number::from_f64(*value)
            .map(Json::Number)
            .ok_or(ValueError::NotFinite { number: *value })?,
        Value::String(value) => Json::String(value.clone()),
        Value::Bytes(value) => one_member("$bytes", Json::String(base64::encode(value))),
        Value::Array(_) | Value::Object(_) if depth >= MAX_NESTING => {
            return Err(ValueError::TooDeep { max: MAX_NESTING });
        }
        Value::Array(elements) => Json::Array(
            elements.iter().map(|element| to_json(element, depth + 1, finite)).collect::<Result<_, _>>()?,
        ),
        Value::Object(members) => match sole(members.iter()) {
            Some((key, member)) if is_marker(key) => {
                one_member(&format!("${key}"), to_json(member, depth + 1, finite)?)
            }
            _ => members
                .iter()
                .map(|(key, member)| Ok((key.clone(), to_json(member, depth + 1, finite)?)))
                .collect::<Result<serde_json::Map<_, _>, _>>()?
                .into(),
        },
    })
}

fn from_json(json: &Json, depth: usize) -> Result<Value, ValueError> {
    Ok(match json {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(number) => {
            if let Some(integer) = number.as_i64() {
                Value::Int(integer)
            } else if let Some(float) = number.as_f64().filter(|_| number.is_f64()) {
                Value::Float(float)
            } else {
                return Err(ValueError::OutOfRange { number: number.to_string() });
            }
        }
        Json::String(value) => Value::String(value.clone()),
        Json::Object(members) if members.len() == 1 && members.contains_key("$bytes") => {
            bytes(&members["$bytes"])?
        }
        Json::Array(_) | Json::Object(_) if depth >= MAX_NESTING => {
            return Err(ValueError::TooDeep { max: MAX_NESTING });
        }
        Json::Array(elements) => Value::Array(
            elements.iter().map(|element| from_json(element, depth + 1)).collect::<Result<_, _>>()?,
        ),
        Json::Object(members) => {
            let marked = sole(members.iter()).is_some_and(|(key, _)| is_marker(key));
            let member = |(key, member): (&String, &Json)| {
                Ok((key[usize::from(marked)..].to_owned(), from_json(member, depth + 1)?))
            };
            Value::Object(members.iter().map(member).collect::<Result<_, _>>()?)
        }
    })
}

fn bytes(member: &Json) -> Result<Value, ValueError> {
    let refused = |reason: String| ValueError::BadBytes { reason };
    let text = member.as_str().ok_or_else(|| refused("it holds no text".to_owned()))?;
    base64::decode(text).map(Value::Bytes).map_err(refused)
}

/// Whether a key is `$bytes`, with any number of `$` before it.
fn is_marker(key: &str) -> bool {
    key.strip_suffix("bytes").is_some_and(|signs| !signs.is_empty() && signs.bytes().all(|sign| sign == b'$'))
}

/// The only item, if there is exactly one.
fn sole<T>(mut items: impl Iterator<Item = T>) -> Option<T> {
    items.next().filter(|_| items.next().is_none())
}

fn one_member(key: &str, member: Json) -> Json {
    Json::Object([(key.to_owned(), member)].into_iter().collect())
}
