//! What is asked for, and what is found.

use std::fmt;
use std::str::FromStr;

use crate::error::StoreError;
use crate::event::Direction;
use crate::filter::Filter;
use crate::kv::Key;

/// Which rows are looked for, and in what order they come.
///
/// Without an order they come by their keys. Values are ordered by kind, then among themselves: missing, null, false, true,
/// numbers, text by its bytes, and then arrays and objects, in no order that means something. Rows with the same values come
/// by their keys.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Query {
    pub(super) filter: Filter,
    pub(super) prefix: Vec<u8>,
    pub(super) order: Vec<String>,
    pub(super) direction: Direction,
    pub(super) after: Option<Cursor>,
}

impl Query {
    /// All rows that fulfil a filter.
    pub fn new(filter: Filter) -> Self {
        Self { filter, ..Self::default() }
    }

    /// Only rows whose keys begin so.
    #[must_use]
    pub fn prefix(self, prefix: impl Into<Vec<u8>>) -> Self {
        Self { prefix: prefix.into(), ..self }
    }

    /// In the order of these fields, the first of which decides first.
    #[must_use]
    pub fn order<F: Into<String>>(self, fields: impl IntoIterator<Item = F>) -> Self {
        Self { order: fields.into_iter().map(Into::into).collect(), ..self }
    }

    /// The last one first.
    #[must_use]
    pub fn backwards(self) -> Self {
        Self { direction: Direction::Backwards, ..self }
    }

    /// Only what comes behind the end of another page of the same query.
    #[must_use]
    pub fn after(self, cursor: Cursor) -> Self {
        Self { after: Some(cursor), ..self }
    }

    pub(super) fn is_backwards(&self) -> bool {
        self.direction == Direction::Backwards
    }
}

/// Where a page ended: the place of its last row in the order of the query, whatever becomes of that row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor(pub(super) Vec<u8>);

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for Cursor {
    type Err = StoreError;

    fn from_str(text: &str) -> Result<Self, StoreError> {
        let refuse = |_| {
            let reason = "it is not the end of a page; take it from what was printed with one".to_owned();
            StoreError::InvalidInput { what: "a cursor", reason }
        };
        Key::from_hex(text).map(|key| Self(key.into_bytes())).map_err(refuse)
    }
}

/// What a query found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found<T> {
    /// The rows with their keys, in the order that was asked for.
    pub rows: Vec<T>,
    /// Where the page ends, if there is more.
    pub next: Option<Cursor>,
    /// How many rows were looked at, or passed over for their keys.
    pub examined: u64,
}

impl<T> Found<T> {
    /// The same page, with its rows as `row` makes them.
    ///
    /// # Errors
    /// The first that `row` has.
    pub fn try_map<U, E>(self, row: impl FnMut(T) -> Result<U, E>) -> Result<Found<U>, E> {
        let rows = self.rows.into_iter().map(row).collect::<Result<_, E>>()?;
        Ok(Found { rows, next: self.next, examined: self.examined })
    }
}
