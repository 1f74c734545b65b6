//! A value that owns its parts.

use std::collections::BTreeMap;

/// One value.
///
/// Floats compare as IEEE 754 has it, hence a NaN is not equal to itself. They are stored bit by bit, so the sign of
/// a zero and the payload of a NaN are kept.
///
/// ```
/// use duramen_store::value::Value;
///
/// let value = Value::from(vec![Value::from("oak"), Value::from(3)]);
/// let mut bytes = Vec::new();
/// value.encode_into(&mut bytes)?;
/// assert_eq!(Value::decode(&bytes)?, value);
/// assert_ne!(Value::Int(1), Value::Float(1.0));
/// # Ok::<(), duramen_store::value::ValueError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Value {
    /// Nothing: a value of its own, unlike a key that is not there.
    #[default]
    Null,
    /// True or false.
    Bool(bool),
    /// A signed 64-bit integer.
    Int(i64),
    /// A 64-bit float, NaN and the infinities included.
    Float(f64),
    /// UTF-8 text.
    String(String),
    /// Bytes of any kind.
    Bytes(Vec<u8>),
    /// Values in order.
    Array(Vec<Value>),
    /// Values by name, in the order of the names' bytes.
    Object(BTreeMap<String, Value>),
}

impl Value {
    /// The name of the kind: `null`, `bool`, `int`, `float`, `string`, `bytes`, `array` or `object`.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "bool",
            Value::Int(_) => "int",
            Value::Float(_) => "float",
            Value::String(_) => "string",
            Value::Bytes(_) => "bytes",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        }
    }

    /// Whether this is [`Value::Null`].
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// The truth value, if it is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// The integer, if it is one.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Value::Int(value) => Some(*value),
            _ => None,
        }
    }

    /// The float, if it is one. An integer is none.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Value::Float(value) => Some(*value),
            _ => None,
        }
    }

    /// The text, if it is a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(value) => Some(value),
            _ => None,
        }
    }

    /// The bytes, if it is a byte string. Text is none.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Value::Bytes(value) => Some(value),
            _ => None,
        }
    }

    /// The elements, if it is an array.
    pub fn as_array(&self) -> Option<&[Value]> {
        match self {
            Value::Array(value) => Some(value),
            _ => None,
        }
    }

    /// The members, if it is an object.
    pub fn as_object(&self) -> Option<&BTreeMap<String, Value>> {
        match self {
            Value::Object(value) => Some(value),
            _ => None,
        }
    }
}

macro_rules! from {
    ($($source:ty => $value:ident: $made:expr;)*) => {$(
        impl From<$source> for Value {
            fn from($value: $source) -> Self {
                $made
            }
        }
    )*};
}

from! {
    bool => value: Value::Bool(value);
    i64 => value: Value::Int(value);
    i32 => value: Value::Int(value.into());
    u32 => value: Value::Int(value.into());
    f64 => value: Value::Float(value);
    &str => value: Value::String(value.to_owned());
    String => value: Value::String(value);
    &String => value: Value::String(value.clone());
    Vec<u8> => value: Value::Bytes(value);
    &[u8] => value: Value::Bytes(value.to_vec());
    Vec<Value> => value: Value::Array(value);
    BTreeMap<String, Value> => value: Value::Object(value);
    &Value => value: value.clone();
}

impl<const N: usize> From<[u8; N]> for Value {
    fn from(value: [u8; N]) -> Self {
        Value::Bytes(value.to_vec())
    }
}

impl<const N: usize> From<&[u8; N]> for Value {
    fn from(value: &[u8; N]) -> Self {
        Value::Bytes(value.to_vec())
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Value::Null, Into::into)
    }
}
