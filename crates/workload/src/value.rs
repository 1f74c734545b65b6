//! Values of variables.

use std::fmt;

/// What a variable holds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    /// Nothing.
    Null,
    /// A truth value.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Another number.
    Double(f64),
    /// What a query returned that is none of these.
    Text(String),
}

impl Value {
    /// What a text of a query means, as scripts read it: a number, a truth value, or itself.
    #[must_use]
    pub(crate) fn from_text(text: &str) -> Self {
        if let Ok(number) = text.parse() {
            return Self::Int(number);
        }
        if let Ok(number) = text.parse::<f64>() {
            if text.starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '.') {
                return Self::Double(number);
            }
        }
        match text.to_ascii_lowercase().as_str() {
            "null" => Self::Null,
            "t" | "true" | "yes" | "on" => Self::Bool(true),
            "f" | "false" | "no" | "off" => Self::Bool(false),
            _ => Self::Text(text.to_owned()),
        }
    }

    /// Whether it counts as true: neither null nor zero.
    ///
    /// # Errors
    /// It is a text.
    pub(crate) fn truth(&self) -> Result<bool, String> {
        match self {
            Self::Null => Ok(false),
            Self::Bool(truth) => Ok(*truth),
            Self::Int(number) => Ok(*number != 0),
            Self::Double(number) => Ok(*number != 0.0),
            Self::Text(text) => Err(format!("{text:?} is neither true nor false")),
        }
    }

    /// As a whole number.
    ///
    /// # Errors
    /// It is none, or out of range.
    pub(crate) fn int(&self) -> Result<i64, String> {
        match self {
            Self::Int(number) => Ok(*number),
            Self::Double(number) => {
                let whole = number.round_ties_even();
                // The limits as doubles: the upper one is the first that does not fit.
                if whole.is_nan()
                    || !(-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&whole)
                {
                    return Err(format!("{number} does not fit into a bigint"));
                }
                Ok(whole as i64)
            }
            other => Err(format!("{other} is not a number")),
        }
    }

    /// As a number.
    ///
    /// # Errors
    /// It is none.
    pub(crate) fn double(&self) -> Result<f64, String> {
        match self {
            Self::Int(number) => Ok(*number as f64),
            Self::Double(number) => Ok(*number),
            other => Err(format!("{other} is not a number")),
        }
    }
}

impl fmt::Display for Value {
    /// As it is put into SQL.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("NULL"),
            Self::Bool(truth) => write!(f, "{truth}"),
            Self::Int(number) => write!(f, "{number}"),
            // What can be read back without loss.
            Self::Double(number) => write!(f, "{number:?}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}
