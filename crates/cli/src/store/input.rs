//! What comes from the standard input: one value, or a line for each.

use crate::failure::Failure;
use serde::de::DeserializeOwned;
use std::io::{BufRead, Read};

/// More than any value may have, written in whatever way.
const VALUE_BYTES_MAX: u64 = 64 << 20;

/// All of the standard input.
pub(crate) fn all() -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let read = std::io::stdin().lock().take(VALUE_BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|error| Failure::Other(format!("cannot read the standard input: {error}")))?;
    if bytes.len() as u64 > VALUE_BYTES_MAX {
        let most = VALUE_BYTES_MAX >> 20;
        return Err(Failure::Other(format!("the standard input has more than {most} MiB; no value may")));
    }
    Ok(bytes)
}

/// All of the standard input as text, without the line break at its end.
pub(crate) fn text() -> Result<String, Failure> {
    let mut text = String::from_utf8(all()?).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Failure::Other(format!("the standard input is not UTF-8 text from byte {at} on; try --type bytes"))
    })?;
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    Ok(text)
}

/// The lines of the standard input that are not blank, each as `parse` reads it. The first bad one ends it.
pub(crate) fn lines<T>(mut parse: impl FnMut(&str) -> Result<T, String>) -> Result<Vec<T>, Failure> {
    let mut parsed = Vec::new();
    for (index, line) in std::io::stdin().lock().lines().enumerate() {
        let number = index + 1;
        let line = line.map_err(|error| {
            Failure::Other(format!("cannot read line {number} of the standard input: {error}"))
        })?;
        if line.trim().is_empty() {
            continue;
        }
        let item = parse(&line).map_err(|reason| {
            Failure::Other(format!("line {number} of the standard input: {reason}; nothing was written"))
        })?;
        parsed.push(item);
    }
    Ok(parsed)
}

/// A line that is JSON.
pub(crate) fn json<T: DeserializeOwned>(line: &str, example: &str) -> Result<T, String> {
    serde_json::from_str(line).map_err(|error| format!("{error}; write it like {example}"))
}

/// JSON that was given as an argument, or `-` for the standard input.
pub(crate) fn json_argument(what: &str, text: &str) -> Result<serde_json::Value, Failure> {
    if text == "-" {
        let text = self::text()?;
        return serde_json::from_str(&text).map_err(|error| {
            Failure::Other(format!("the {what} on the standard input is not JSON: {error}"))
        });
    }
    serde_json::from_str(text).map_err(|error| {
        Failure::Usage(format!("the {what} is not JSON: {error}; a text stands in double quotes: '\"text\"'"))
    })
}
