//! Why rows were not made into batches.

use arrow_schema::{ArrowError, DataType};
use duramen_store::StoreError;

/// Why there is no batch, or no further one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutError {
    /// The store cannot be read, or has no such collection.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A value does not fit its column.
    #[error(
        "{field} of {row} is {found} and has to be {wanted}: look at more rows for the schema, give one, or have what does not \
         fit as JSON text in a column of its own"
    )]
    Misfit {
        /// The document or pair.
        row: String,
        /// Where in it.
        field: String,
        /// What is there.
        found: &'static str,
        /// What the column takes.
        wanted: &'static str,
    },
    /// A column of the schema that was given is of a type that nothing is made into.
    #[error(
        "the column {column:?} is to be {found}: values are made into Boolean, Int64, Float64, Utf8, Utf8 with the extension \
         arrow.json, and List and Struct of these; values of pairs also into Binary"
    )]
    UnknownType {
        /// The column.
        column: String,
        /// Its type.
        found: DataType,
    },
    /// Two columns would have one name.
    #[error("there would be two columns {name:?}: choose another name for that of the keys, or for that of what does not fit")]
    TwoColumns {
        /// The name.
        name: String,
    },
    /// The documents of the sample have more fields, or the schema has more columns, than a table may.
    #[error("the table would have {found} columns or more, those in structs and lists counted singly, and {max} are allowed: give a schema with those that matter")]
    TooManyColumns {
        /// How many were found.
        found: usize,
        /// How many are allowed.
        max: usize,
    },
    /// A key is not text, and the column of keys is.
    #[error("the key {key} is not text, and the first ones were: have the keys as bytes")]
    KeyIsNotText {
        /// The key, as it is shown.
        key: String,
    },
    /// The batch could not be made.
    #[error("cannot make a batch: {0}")]
    Arrow(#[from] ArrowError),
}
