//! What counts as true: for the condition of an `df.if` and of a loop.

use crate::json::{self, Json, Shape};

/// Whether a value is true. Of a result set, the first column of the first row decides.
///
/// False are: no rows, NULL, `false`, zero, the texts ``, `false`, `f`, `no` and `0` (in any case of letters), and
/// arrays and objects that hold nothing. All else is true. A `numeric` arrives as text, so that `0` is false but
/// `0.00` is true: compare it (`x <> 0`) where that matters.
///
/// ```
/// use duramen_functions::{json::Json, truth::is_true};
/// let result = |value: &str| Json::parse(&format!(r#"{{"rows":[{{"a":{value}}}],"row_count":1}}"#)).unwrap();
/// assert!(is_true(&result("7")));
/// assert!(!is_true(&result(r#""no""#)));
/// ```
pub fn is_true(value: &Json) -> bool {
    match json::rows_text(value.text()) {
        Some(rows) => json::first_element(rows).and_then(json::first_member).is_some_and(scalar),
        None => scalar(value.text()),
    }
}

fn scalar(text: &str) -> bool {
    match json::shape(text) {
        Shape::Null => false,
        Shape::Bool(value) => value,
        // Digits decide, not a float: 1e-400 is not zero.
        Shape::Number(digits) => {
            digits.bytes().take_while(|b| !matches!(b, b'e' | b'E')).any(|b| matches!(b, b'1'..=b'9'))
        }
        Shape::String(text) => text
            .is_none_or(|text| !["", "false", "f", "no", "0"].iter().any(|no| text.eq_ignore_ascii_case(no))),
        Shape::Array(text) | Shape::Object(text) => {
            !matches!(text[1..].trim_start().as_bytes().first(), Some(b']' | b'}'))
        }
    }
}

#[cfg(test)]
mod tests;
