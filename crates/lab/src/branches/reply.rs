//! The parts of replies that are looked at on the hot path.
//!
//! They borrow from the reply and leave the rest unparsed: the load generator must stay cheap, and yet no
//! answer counts before it was seen to be the right one.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

/// What a create must say.
#[derive(Deserialize)]
pub(crate) struct Created<'a> {
    #[serde(borrow)]
    pub(crate) name: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) policy: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) state: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) url: Cow<'a, str>,
    pub(crate) durable: bool,
    #[serde(default)]
    pub(crate) existing: bool,
}

/// What a destroy must say.
#[derive(Deserialize)]
pub(crate) struct Destroyed<'a> {
    #[serde(borrow)]
    pub(crate) name: Cow<'a, str>,
}

/// What a query must say.
#[derive(Deserialize)]
pub(crate) struct Answered<'a> {
    #[serde(borrow)]
    pub(crate) results: Vec<Outcome<'a>>,
    pub(crate) server_us: u64,
}

/// What one statement gave.
#[derive(Deserialize)]
pub(crate) struct Outcome<'a> {
    #[serde(borrow)]
    pub(crate) rows: &'a RawValue,
    pub(crate) row_count: u64,
    #[serde(borrow)]
    pub(crate) command: Cow<'a, str>,
}

/// Reads a reply.
pub(crate) fn read<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, String> {
    serde_json::from_slice(bytes).map_err(|error| format!("the reply cannot be read: {error}"))
}

/// Whether rows are those expected. Texts are compared first, which costs nothing; only if they differ are
/// both parsed, because the same rows may be written in more than one way.
pub(crate) fn same_rows(found: &str, expected: &str) -> bool {
    let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).ok();
    found == expected || (value(found).is_some() && value(found) == value(expected))
}

/// An integer of a JSON cell; 64-bit integers may come as text.
pub(crate) fn integer(cell: &serde_json::Value) -> Option<u64> {
    cell.as_u64().or_else(|| cell.as_str()?.parse().ok())
}
