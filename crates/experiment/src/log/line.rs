//! One line: what it looks like, and how it is proven.
//!
//! `{"seq":1,"at":"...","prev":"...","type":"...", ..., "sum":"<16 digits>"}`: `sum` is the beginning of the BLAKE3
//! of all that stands before `,"sum"`. The chain of digests proves every line but the last, `sum` proves each alone.

use super::Entry;
use crate::event::{Event, SCHEMA};
use serde_json::Value;

/// How many digits of the digest a line carries of itself.
const SUM_DIGITS: usize = 16;
/// What stands before them.
const SUM_NAME: &str = ",\"sum\":\"";
/// What stands behind them.
const SUM_END: &str = "\"}";
const SUM_LENGTH: usize = SUM_NAME.len() + SUM_DIGITS + SUM_END.len();

/// Why a line is not taken.
pub(super) enum Wrong {
    /// It is not what was written.
    Damaged(String),
    /// It is, by a later version.
    Later(String),
}

/// The line of an entry, without its newline. Fails if it would not be read the same again.
pub(super) fn write(entry: &Entry) -> Result<String, String> {
    let mut text = serde_json::to_string(entry).map_err(|error| error.to_string())?;
    match serde_json::from_str::<Entry>(&text) {
        Ok(reparsed) if reparsed == *entry => {}
        // JSON has no infinity and no NaN.
        _ => return Err("it holds a figure that is infinite or no number".to_owned()),
    }
    text.pop();
    let sum = sum(text.as_bytes());
    text.push_str(SUM_NAME);
    text.push_str(&sum);
    text.push_str(SUM_END);
    Ok(text)
}

/// The entry of a line that must have this number and follow the line with this digest.
pub(super) fn read(bytes: &[u8], seq: u64, prev: &str) -> Result<Entry, Wrong> {
    let damaged = |why: &str| Err(Wrong::Damaged(why.to_owned()));
    if !is_whole(bytes) {
        return damaged("its sum is not that of its content");
    }
    let value: Value = match serde_json::from_slice(bytes) {
        Ok(value) => value,
        Err(error) => return Err(Wrong::Damaged(error.to_string())),
    };
    // In this order, so that a line of a later version is told from one that was moved.
    if value["prev"].as_str() != Some(prev) {
        return damaged(
            "it does not name the digest of the line before, so lines were changed, moved or removed",
        );
    }
    if value["seq"].as_u64() != Some(seq) {
        return Err(Wrong::Damaged(format!("it says that it is line {}", value["seq"])));
    }
    later(&value).map_or(Ok(()), |what| Err(Wrong::Later(what)))?;
    // Not from the value: that would read numbers twice, and the text is what was proven.
    serde_json::from_slice(bytes).map_err(|error| Wrong::Later(format!("it cannot be read ({error})")))
}

/// What a line says that this version does not know.
fn later(value: &Value) -> Option<String> {
    let kind = value["type"].as_str().unwrap_or_default();
    if kind == "segment" && value["schema"].as_str() != Some(SCHEMA) {
        return Some(format!("its schema is {}, and this version knows `{SCHEMA}`", value["schema"]));
    }
    // A known type complains about what is missing, an unknown one about the type.
    let probe = serde_json::from_value::<Event>(serde_json::json!({ "type": kind }));
    let unknown = probe.err().is_some_and(|error| error.to_string().starts_with("unknown variant"));
    unknown.then(|| format!("it holds an event `{kind}`"))
}

/// Whether a line, without its newline, carries the sum of itself.
pub(super) fn is_whole(bytes: &[u8]) -> bool {
    let Some(at) = bytes.len().checked_sub(SUM_LENGTH) else { return false };
    let (body, end) = bytes.split_at(at);
    *end == *format!("{SUM_NAME}{}{SUM_END}", sum(body)).as_bytes()
}

/// The digest of a line, by which the next one names it.
pub(super) fn digest(line: &str) -> String {
    digest_of(line.as_bytes())
}

/// The same for bytes.
pub(super) fn digest_of(line: &[u8]) -> String {
    blake3::hash(line).to_hex().to_string()
}

fn sum(body: &[u8]) -> String {
    blake3::hash(body).to_hex()[..SUM_DIGITS].to_owned()
}
