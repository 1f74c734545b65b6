//! Cells of tables and values of JSON.

use jiff::Timestamp;
use serde_json::value::{to_raw_value, RawValue};
use std::time::Duration;

/// A text on one line, at most so many characters long.
pub(crate) fn short(text: &str, chars_max: usize) -> String {
    let mut line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() > chars_max {
        line = line.chars().take(chars_max.saturating_sub(3)).collect();
        line.push_str("...");
    }
    line
}

/// A text or nothing, as a cell.
pub(crate) fn cell(text: Option<&str>, chars_max: usize) -> String {
    text.map_or_else(|| "-".to_owned(), |text| short(text, chars_max))
}

/// JSON as the server wrote it, so that no digit and no order of columns is lost; other text as a JSON string.
pub(crate) fn raw(text: String) -> Option<Box<RawValue>> {
    RawValue::from_string(text.clone()).or_else(|_| to_raw_value(&text)).ok()
}

/// A span to a sensible number of digits.
pub(crate) fn span(span: Duration) -> String {
    match span.as_secs() {
        0 => format!("{} ms", span.as_millis()),
        1..60 => format!("{:.1} s", span.as_secs_f64()),
        seconds => humantime::format_duration(Duration::from_secs(seconds)).to_string(),
    }
}

/// The span from one moment to another; none when clocks disagree.
pub(crate) fn between(begin: Timestamp, end: Timestamp) -> Duration {
    Duration::try_from(end.duration_since(begin)).unwrap_or_default()
}

/// A span of seconds as the server counts them.
pub(crate) fn seconds(seconds: f64) -> String {
    span(Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX))
}

#[cfg(test)]
#[path = "../../tests/unit/function_cells.rs"]
mod tests;
