//! Which row a conflict is of.

use std::fmt;

use serde::Serialize;

use super::shown_key;
use crate::keys::{self, KeyBuf, Primitive};
use crate::names::LABEL_BYTES_MAX;
use crate::vector;

/// Which row a conflict is of: one row has at most one.
#[derive(Clone, Debug, Serialize)]
pub struct ConflictId {
    /// The kind of data.
    pub primitive: Primitive,
    /// The space.
    pub space: String,
    /// The key; of a vector `collection/key`, of a pair whose key is not text `0x` and its bytes.
    pub key: String,
    /// The key in its space as it is written, where that is known.
    #[serde(skip)]
    rest: Option<Vec<u8>>,
}

impl ConflictId {
    /// That of a row by its key as it is shown.
    ///
    /// ```
    /// use duramen_store::conflict::ConflictId;
    /// use duramen_store::Primitive;
    /// let id = ConflictId::new(Primitive::Vector, "default", "docs/north");
    /// assert_eq!(id.to_string(), "vector default/docs/north");
    /// ```
    pub fn new(primitive: Primitive, space: &str, key: &str) -> Self {
        Self { primitive, space: space.to_owned(), key: key.to_owned(), rest: None }
    }

    /// That of a row by its key in the space as it is written.
    pub(super) fn of_row(primitive: Primitive, space: &str, rest: &[u8]) -> Self {
        let key = shown_key(primitive, rest);
        Self { primitive, space: space.to_owned(), key, rest: Some(rest.to_vec()) }
    }

    /// The keys of the tree that the row may have, at least one. A shown key may stand for several: names of collections may have
    /// a slash in them.
    pub(super) fn rows(&self) -> Vec<KeyBuf> {
        let row = |rest: &[u8]| keys::key(self.primitive, &self.space, rest);
        let text = self.key.as_bytes();
        if let Some(rest) = &self.rest {
            return vec![row(rest)];
        }
        let mut rows = Vec::new();
        match self.primitive {
            Primitive::Vector => {
                let slashes = self.key.match_indices('/').take_while(|(at, _)| *at <= LABEL_BYTES_MAX);
                rows.extend(
                    slashes.map(|(at, _)| row(&vector::row_key(&self.key[..at], &self.key[at + 1..]))),
                );
            }
            Primitive::Kv => {
                rows.push(row(text));
                rows.extend(self.key.strip_prefix("0x").and_then(bytes_of).map(|bytes| row(&bytes)));
            }
            _ => {}
        }
        if rows.is_empty() {
            rows.push(row(text));
        }
        rows
    }
}

/// The bytes of hexadecimal digits.
fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    if !digits.len().is_multiple_of(2) || !digits.is_ascii() {
        return None;
    }
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).ok()).collect()
}

impl PartialEq for ConflictId {
    fn eq(&self, other: &Self) -> bool {
        (self.primitive, &self.space, &self.key) == (other.primitive, &other.space, &other.key)
    }
}

impl Eq for ConflictId {}

impl fmt::Display for ConflictId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.primitive, self.space, self.key)
    }
}
