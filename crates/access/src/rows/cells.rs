//! What stands in a row: a cell for each column of its table.

use crate::graph::Timestamp;

/// What cells of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A text.
    Text,
    /// Texts.
    Texts,
    /// Yes or no.
    Flag,
    /// A count.
    Count,
    /// A moment.
    Time,
}

/// A cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell<'a> {
    /// A text; empty if nothing is said.
    Text(&'a str),
    /// Texts in their order.
    Texts(Vec<&'a str>),
    /// Yes or no.
    Flag(bool),
    /// A count.
    Count(u64),
    /// A moment, if there is one.
    Time(Option<Timestamp>),
}

/// A time as RFC 3339 in UTC; its seconds if it is beyond the calendar.
pub(super) fn time(time: Timestamp) -> String {
    match jiff::Timestamp::new(time.seconds, time.nanos) {
        Ok(known) => known.to_string(),
        Err(_) => time.seconds.to_string(),
    }
}

/// Microseconds since 1970, if they can be counted.
#[cfg(any(feature = "arrow", feature = "parquet"))]
pub(super) fn micros(time: Timestamp) -> Option<i64> {
    time.seconds.checked_mul(1_000_000)?.checked_add(i64::from(time.nanos / 1000))
}
