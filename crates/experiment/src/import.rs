//! Rows of other tools' logs: `autoresearch.jsonl`, and `.auto/log.jsonl` as it is called today.
//!
//! A log is one JSON object a line. A row of the type `config` names the figure that the rows after it are
//! about, and begins a segment. Rows of the type `hook`, and of types that are unknown and have no result,
//! are passed over. All others are results:
//!
//! ```text
//! {"type":"config","name":"...","metricName":"write_ms","metricUnit":"ms","bestDirection":"lower"}
//! {"run":1,"commit":"fdde009","metric":4246,"metrics":{"sqlite_ms":812},"status":"keep",
//!  "description":"baseline","timestamp":1762300000000,"segment":0,"confidence":null,"asi":{"hypothesis":"..."}}
//! ```

use crate::event::{Event, Metrics};
use crate::figures;
use serde_json::{Map, Value};

/// The name of the figure of rows that no `config` row precedes.
const METRIC: &str = "metric";

/// The longest line, in bytes.
const LINE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Why a log could not be imported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// A line is not a row of such a log.
    #[error("{file}:{line}: {what}; nothing was imported: fix or remove the line")]
    Line {
        /// The file, as it was given.
        file: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        what: String,
    },
    /// There is no result in it.
    #[error("{file} has no rows of results: it is not a log of an autoresearch loop, or an empty one")]
    Empty {
        /// The file, as it was given.
        file: String,
    },
}

/// The results in a log, as [`Event::Imported`] each, in their order. `file` is what they and errors call it.
///
/// # Errors
/// When a line is not a JSON object, or a result lacks its status or its figure, or there is no result.
pub fn autoresearch(text: &str, file: &str) -> Result<Vec<Event>, ImportError> {
    let mut events = Vec::new();
    let mut metric = METRIC.to_owned();
    for (index, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let wrong = |what: String| ImportError::Line { file: file.to_owned(), line: index + 1, what };
        if line.trim().is_empty() {
            continue;
        }
        if line.len() > LINE_BYTES_MAX {
            return Err(wrong(format!("it is longer than {LINE_BYTES_MAX} bytes")));
        }
        let row = object(line).map_err(|error| wrong(format!("it is not a JSON object ({error})")))?;
        match row.get("type").and_then(Value::as_str) {
            Some("config") => {
                let name = row.get("metricName").and_then(Value::as_str).map(str::trim);
                metric = name.filter(|name| figures::is_name(name)).unwrap_or(METRIC).to_owned();
            }
            Some("hook") => {}
            Some(_) if !row.contains_key("status") => {}
            _ => {
                let run = events.len() as u64 + 1;
                events.push(result(&row, &metric, run, file).map_err(wrong)?);
            }
        }
    }
    if events.is_empty() {
        return Err(ImportError::Empty { file: file.to_owned() });
    }
    Ok(events)
}

/// A line as an object in which no key stands twice: nothing else follows it.
fn object(line: &str) -> Result<Map<String, Value>, String> {
    let (value, length) = figures::strict(line);
    match value.map_err(|error| error.to_string())? {
        Value::Object(row) if line[length..].trim().is_empty() => Ok(row),
        Value::Object(_) => Err("something follows it".to_owned()),
        _ => Err("it is another value".to_owned()),
    }
}

fn result(row: &Map<String, Value>, metric: &str, run: u64, file: &str) -> Result<Event, String> {
    let text = |key: &str| row.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let status = text("status");
    if status.is_empty() {
        return Err("it has no `status`".to_owned());
    }
    let mut metrics: Metrics = match row.get("metrics") {
        None | Some(Value::Null) => Metrics::new(),
        Some(Value::Object(others)) => {
            let named = others.iter().filter(|(name, _)| figures::is_name(name));
            named.filter_map(|(name, value)| Some((name.clone(), value.as_f64()?))).collect()
        }
        Some(_) => return Err("its `metrics` are not an object".to_owned()),
    };
    match row.get("metric") {
        // What crashed has none.
        None | Some(Value::Null) => {}
        Some(value) => {
            let value =
                value.as_f64().ok_or_else(|| format!("its `metric` is {value}, which is not a number"))?;
            if let Some(other) = metrics.insert(metric.to_owned(), value).filter(|other| *other != value) {
                return Err(format!(
                    "there are two values of the figure `{metric}`, {value} in `metric` and {other} in `metrics`"
                ));
            }
        }
    }
    Ok(Event::Imported {
        file: file.to_owned(),
        run: row.get("run").and_then(Value::as_u64).unwrap_or(run),
        commit: text("commit"),
        metric: metric.to_owned(),
        metrics,
        status,
        description: text("description"),
        timestamp: timestamp(row.get("timestamp")),
    })
}

/// Milliseconds since 1970 as RFC 3339, anything else as it is given.
fn timestamp(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => {
            let millis = number.as_i64().or_else(|| number.as_f64().map(|millis| millis as i64));
            let time = millis.and_then(|millis| jiff::Timestamp::from_millisecond(millis).ok());
            time.map_or_else(|| number.to_string(), |time| time.to_string())
        }
        Some(other) => other.to_string(),
    }
}
