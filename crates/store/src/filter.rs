//! Conditions on documents, pairs, and the metadata of vectors.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};

/// Conditions that must all hold; without any, everything matches.
///
/// In JSON a list of `{"field": "year", "op": "gte", "value": 2020}`. As text `year >= 2020 and tag in ["a", "b"]`,
/// with the operators `=` (or `==`), `!=`, `>`, `>=`, `<`, `<=`, `in` and `contains`. Values are JSON; a single word
/// may go without quotes. A field name of other characters than letters, digits, `_`, `-` and `.` stands in quotes; `$` is
/// the whole value.
///
/// ```
/// use duramen_store::filter::Filter;
/// let filter: Filter = r#"year>=2020 and tags contains "x""#.parse().unwrap();
/// assert!(filter.matches(&serde_json::json!({"year": 2021.5, "tags": ["x", "y"]})));
/// assert!(!filter.matches(&serde_json::json!({"year": "2021", "tags": ["x"]})));
/// ```
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Filter {
    /// The conditions.
    pub conditions: Vec<Condition>,
}

/// A condition on one field.
///
/// Values of different types are never equal and never ordered; numbers are one type, whatever their notation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Condition {
    /// The field: a key of the object or, when there is no such key, a path of keys with dots between, or `$` for all of it.
    pub field: String,
    /// The comparison.
    pub op: FilterOp,
    /// What to compare with.
    pub value: Value,
}

/// How a field is compared with a value. Of a missing field, only [`FilterOp::Ne`] is true.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FilterOp {
    /// Equal.
    Eq,
    /// Not equal, of another type, or missing.
    Ne,
    /// Greater: numbers, and strings by their bytes.
    Gt,
    /// Greater or equal.
    Gte,
    /// Less.
    Lt,
    /// Less or equal.
    Lte,
    /// Equal to an element of the value, which is a list.
    In,
    /// The field is a list with an element equal to the value, or a string that holds the value, a string.
    Contains,
}

impl FilterOp {
    /// The operator in the text form.
    pub fn symbol(self) -> &'static str {
        match self {
            FilterOp::Eq => "=",
            FilterOp::Ne => "!=",
            FilterOp::Gt => ">",
            FilterOp::Gte => ">=",
            FilterOp::Lt => "<",
            FilterOp::Lte => "<=",
            FilterOp::In => "in",
            FilterOp::Contains => "contains",
        }
    }
}

/// Why a filter's text was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the filter is wrong at character {at}: expected {expected}, as in: year >= 2020 and tag in [\"a\", \"b\"]")]
#[non_exhaustive]
pub struct FilterError {
    /// Where, in bytes from 0.
    pub at: usize,
    /// What should stand there.
    pub expected: &'static str,
}

impl Filter {
    /// Whether there is no condition at all.
    pub fn is_empty(&self) -> bool {
        self.conditions.is_empty()
    }

    /// Whether every condition holds.
    pub fn matches(&self, metadata: &Value) -> bool {
        self.conditions.iter().all(|condition| condition.matches(metadata))
    }
}

impl Condition {
    /// Whether the condition holds.
    pub fn matches(&self, metadata: &Value) -> bool {
        let Some(field) = field(metadata, &self.field) else {
            return self.op == FilterOp::Ne;
        };
        let ordered = |test: fn(Ordering) -> bool| order(field, &self.value).is_some_and(test);
        match self.op {
            FilterOp::Eq => equal(field, &self.value),
            FilterOp::Ne => !equal(field, &self.value),
            FilterOp::Gt => ordered(Ordering::is_gt),
            FilterOp::Gte => ordered(Ordering::is_ge),
            FilterOp::Lt => ordered(Ordering::is_lt),
            FilterOp::Lte => ordered(Ordering::is_le),
            FilterOp::In => self.value.as_array().is_some_and(|list| list.iter().any(|x| equal(field, x))),
            FilterOp::Contains => match (field, &self.value) {
                (Value::Array(list), value) => list.iter().any(|x| equal(x, value)),
                (Value::String(text), Value::String(part)) => text.contains(part.as_str()),
                _ => false,
            },
        }
    }
}

/// A field of a value, as [`Condition::field`] names it; none if it is missing.
///
/// ```
/// use duramen_store::filter::field;
/// let value = serde_json::json!({"a": {"b": 1}, "a.c": 2});
/// assert_eq!(field(&value, "a.b"), Some(&1.into()));
/// assert_eq!(field(&value, "a.c"), Some(&2.into()));
/// assert_eq!(field(&value, "b"), None);
/// ```
pub fn field<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    value.get(name).or_else(|| {
        if name == WHOLE {
            return Some(value);
        }
        let mut keys = name.contains('.').then(|| name.split('.'))?;
        keys.try_fold(value, |value, key| value.get(key))
    })
}

/// The name of the whole value.
const WHOLE: &str = "$";

fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => order_numbers(a, b) == Some(Ordering::Equal),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| equal(a, b)))
        }
        _ => a == b,
    }
}

fn order(a: &Value, b: &Value) -> Option<Ordering> {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => order_numbers(a, b),
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        _ => None,
    }
}

/// Numbers as numbers, exactly: integers beyond 2^53 are not rounded to floats to compare them.
fn order_numbers(a: &Number, b: &Number) -> Option<Ordering> {
    match (a.as_i128(), b.as_i128()) {
        (Some(a), Some(b)) => Some(a.cmp(&b)),
        (Some(a), None) => order_mixed(a, b.as_f64()?),
        (None, Some(b)) => order_mixed(b, a.as_f64()?).map(Ordering::reverse),
        (None, None) => a.as_f64()?.partial_cmp(&b.as_f64()?),
    }
}

fn order_mixed(a: i128, b: f64) -> Option<Ordering> {
    // Below 2^53 a rounded integer keeps its order; from there on, a float is a whole number (and the cast saturates).
    if b.abs() < 9_007_199_254_740_992.0 {
        (a as f64).partial_cmp(&b)
    } else {
        Some(a.cmp(&(b as i128)))
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, condition) in self.conditions.iter().enumerate() {
            if index > 0 {
                f.write_str(" and ")?;
            }
            write!(f, "{condition}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.field.is_empty() && self.field.chars().all(is_word) {
            f.write_str(&self.field)?;
        } else {
            write!(f, "{}", Value::from(self.field.as_str()))?;
        }
        write!(f, " {} {}", self.op.symbol(), self.value)
    }
}

impl FromStr for Filter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        let mut parser = Parser { text, at: 0 };
        let mut conditions = Vec::new();
        parser.skip_space();
        while !parser.rest().is_empty() {
            let joined = conditions.is_empty() || parser.take("&&") || parser.take_word("and");
            if !joined {
                return Err(parser.expected("\"and\" or the end"));
            }
            conditions.push(parser.condition()?);
            parser.skip_space();
        }
        Ok(Self { conditions })
    }
}

impl FromStr for Condition {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        let mut parser = Parser { text, at: 0 };
        let condition = parser.condition()?;
        parser.skip_space();
        if parser.rest().is_empty() {
            Ok(condition)
        } else {
            Err(parser.expected("the end"))
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.')
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn expected(&self, expected: &'static str) -> FilterError {
        FilterError { at: self.at, expected }
    }

    fn skip_space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    fn take(&mut self, token: &str) -> bool {
        self.skip_space();
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn take_word(&mut self, word: &str) -> bool {
        self.skip_space();
        let found = self.word() == word;
        if found {
            self.at += word.len();
        }
        found
    }

    /// The word that comes next, which may be empty.
    fn word(&self) -> &'a str {
        let rest = self.rest();
        &rest[..rest.find(|c| !is_word(c)).unwrap_or(rest.len())]
    }

    fn json(&mut self) -> Option<Value> {
        let mut values = serde_json::Deserializer::from_str(self.rest()).into_iter::<Value>();
        let value = values.next()?.ok()?;
        self.at += values.byte_offset();
        Some(value)
    }

    fn condition(&mut self) -> Result<Condition, FilterError> {
        self.skip_space();
        let field = if self.rest().starts_with('"') {
            match self.json() {
                Some(Value::String(field)) => field,
                _ => return Err(self.expected("a field name")),
            }
        } else if self.take(WHOLE) {
            WHOLE.to_owned()
        } else {
            let word = self.word();
            self.at += word.len();
            word.to_owned()
        };
        if field.is_empty() {
            return Err(self.expected("a field name"));
        }
        let op = self.op()?;
        self.skip_space();
        let start = self.at;
        let value = self.value()?;
        if op == FilterOp::In && !value.is_array() {
            return Err(FilterError { at: start, expected: "a list" });
        }
        Ok(Condition { field, op, value })
    }

    fn op(&mut self) -> Result<FilterOp, FilterError> {
        use FilterOp::{Contains, Eq, Gt, Gte, In, Lt, Lte, Ne};
        // An operator comes before those that it begins with.
        let symbols = [("==", Eq), ("!=", Ne), (">=", Gte), ("<=", Lte), ("=", Eq), (">", Gt), ("<", Lt)];
        if let Some((_, op)) = symbols.into_iter().find(|(symbol, _)| self.take(symbol)) {
            return Ok(op);
        }
        match [In, Contains].into_iter().find(|op| self.take_word(op.symbol())) {
            Some(op) => Ok(op),
            None => Err(self.expected("one of = != > >= < <= in contains")),
        }
    }

    fn value(&mut self) -> Result<Value, FilterError> {
        let start = self.at;
        let word = self.word();
        // A number, true, false, null, or anything in quotes or brackets is JSON, but "2020-01" is a word.
        if let Some(value) = self.json() {
            if self.at >= start + word.len() {
                return Ok(value);
            }
            self.at = start;
        }
        if word.is_empty() {
            return Err(self.expected("a JSON value or a word"));
        }
        self.at += word.len();
        Ok(Value::from(word))
    }
}

#[cfg(test)]
#[path = "../tests/unit/filter.rs"]
mod tests;
