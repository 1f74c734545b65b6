//! Batches into the store: documents, pairs and vectors, committed a stated number of rows at a time.
//!
//! What a value of Arrow becomes. What is not here is refused, with the name of its column:
//!
//! | type | in a document | as the value of a pair |
//! | --- | --- | --- |
//! | `Null` | null | null |
//! | `Boolean` | true, false | bool |
//! | `Int8` to `Int64`, `UInt8` to `UInt32` | the number | int |
//! | `UInt64` | the number, all of its digits | int; refused above 2^63 - 1 |
//! | `Float16`, `Float32`, `Float64` | the number, as a float of 64 bits; NaN and infinities are refused | float |
//! | `Utf8`, `LargeUtf8`, `Utf8View` | text | string |
//! | the same, with the extension `arrow.json` | the value that the text says | the value that the text says |
//! | `Binary`, `LargeBinary`, `BinaryView`, `FixedSizeBinary` | `{"$bytes": "..."}` with base64 | bytes |
//! | `Decimal32` to `Decimal256` | text: `"12.50"` | string |
//! | `Date32`, `Date64` | text: `"2026-11-27"`; refused with a time of day, or beyond the year 9999 | string |
//! | `Timestamp` with a zone | text in UTC: `"2026-11-27T10:00:00.5Z"`; the moment is kept, the name of the zone is not | string |
//! | `Timestamp` without | text: `"2026-11-27T10:00:00.5"` | string |
//! | `Time32`, `Time64` | text: `"10:00:00.5"` | string |
//! | `List`, `LargeList`, `FixedSizeList` | an array | array |
//! | `Struct`, and `Map` with keys of text | an object | object |
//! | `Dictionary` | what its value becomes | what its value becomes |
//!
//! A null is left out of its object, or is null: [`Nulls`] says which. In an array it is null in any case, and so it is as the value
//! of a pair.

mod cells;
mod documents;
mod error;
mod pairs;
mod times;
mod vectors;

pub use self::documents::{load_documents, DocumentsIn, KeyFrom};
pub use self::error::{LoadError, Refusal};
pub use self::pairs::{load_pairs, PairsIn};
pub use self::vectors::{load_vectors, VectorsIn};

/// Whether a null is left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Nulls {
    /// A member of an object that is null is not there.
    #[default]
    LeaveOut,
    /// It is there, and null.
    Keep,
}

/// How much one commit has. It has one row at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The most rows of a commit.
    pub rows_max: usize,
    /// A commit ends behind the row with which its keys and values have so many bytes.
    pub bytes_max: usize,
}

impl Default for Commit {
    fn default() -> Commit {
        Commit { rows_max: 10_000, bytes_max: 16 << 20 }
    }
}

impl Commit {
    fn is_full(self, rows: usize, bytes: usize) -> bool {
        rows >= self.rows_max.max(1) || bytes >= self.bytes_max
    }
}

/// What was loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// How many rows.
    pub rows: u64,
    /// In how many commits.
    pub commits: u64,
}
