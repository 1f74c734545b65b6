//! Values on the command line and on paper.

use super::input::Input;
use crate::failure::Failure;
use clap::{Args, ValueEnum};
use duramen_store::Value;

/// What a value that was written down is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// Text
    String,
    /// A 64-bit integer
    Int,
    /// A 64-bit float
    Float,
    /// true or false
    Bool,
    /// Bytes as they come
    Bytes,
    /// JSON: null, numbers, lists and objects too
    Json,
}

/// A value, given as an argument or on the standard input.
#[derive(Debug, Args)]
pub(crate) struct Given {
    /// The value; `-` reads it from the standard input
    #[arg(allow_hyphen_values = true, required_unless_present = "stdin")]
    value: Option<String>,
    /// Read the value from the standard input
    #[arg(long, conflicts_with = "value")]
    stdin: bool,
    /// What the value is
    #[arg(long = "type", value_enum, value_name = "TYPE", default_value = "string")]
    kind: Kind,
}

impl Given {
    pub(crate) fn read(self, input: &Input) -> Result<Value, Failure> {
        match self.value {
            Some(text) if text != "-" => self.kind.parse(&text).map_err(Failure::Usage),
            _ if self.kind == Kind::Bytes => Ok(Value::Bytes(input.all()?)),
            _ => self.kind.parse(&input.text()?).map_err(Failure::Other),
        }
    }
}

impl Kind {
    pub(crate) fn parse(self, text: &str) -> Result<Value, String> {
        let shown = || text.chars().take(64).collect::<String>();
        match self {
            Kind::String => Ok(text.into()),
            Kind::Bytes => Ok(text.as_bytes().into()),
            Kind::Int => {
                let number: Result<i64, _> = text.trim().parse();
                number
                    .map(Value::Int)
                    .map_err(|error| format!("{:?} is not a 64-bit integer: {error}", shown()))
            }
            Kind::Float => {
                let number: Result<f64, _> = text.trim().parse();
                number.map(Value::Float).map_err(|error| format!("{:?} is not a number: {error}", shown()))
            }
            Kind::Bool => match text.trim() {
                "true" => Ok(Value::Bool(true)),
                "false" => Ok(Value::Bool(false)),
                _ => Err(format!("{:?} is neither true nor false", shown())),
            },
            Kind::Json => {
                let json: serde_json::Value = serde_json::from_str(text)
                    .map_err(|error| format!("{:?} is not JSON: {error}; is it --type string?", shown()))?;
                Value::from_json(&json).map_err(|error| error.to_string())
            }
        }
    }
}

/// A value as JSON.
pub(crate) fn json(value: &Value) -> Result<serde_json::Value, Failure> {
    value.to_json().map_err(|error| Failure::Other(error.to_string()))
}

/// A value for people: text as it is, everything else as JSON, but the floats that JSON lacks.
pub(crate) fn shown(value: &Value) -> Result<String, Failure> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Float(number) if !number.is_finite() => Ok(number.to_string()),
        _ => Ok(json(value)?.to_string()),
    }
}

/// What a value's bytes are: text and bytes as they are, everything else as it is shown.
pub(crate) fn raw(value: Value) -> Result<Vec<u8>, Failure> {
    match value {
        Value::Bytes(bytes) => Ok(bytes),
        value => Ok(shown(&value)?.into_bytes()),
    }
}
