//! Why rows were not loaded.

use arrow_schema::DataType;
use duramen_store::StoreError;

use super::Loaded;

/// Why a load ended early, and what is in the store by then.
#[derive(Debug, thiserror::Error)]
#[error("{refusal}; the first {} rows are loaded, and no others", loaded.rows)]
pub struct LoadError {
    /// What was committed before.
    pub loaded: Loaded,
    /// Why not more.
    #[source]
    pub refusal: Refusal,
}

/// Why a row was not loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// There is no further batch, though it is not the end.
    #[error("cannot read the rows: {0}")]
    Batches(Box<dyn std::error::Error + Send + Sync>),
    /// The store takes no more.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A column is not there.
    #[error("there is no column {column:?}, which is needed; there are {}", known.join(", "))]
    NoColumn {
        /// The column.
        column: String,
        /// Those that are there.
        known: Vec<String>,
    },
    /// A column has a type that nothing in the store is like.
    #[error("the column {column:?} is {found}, and has to be {wanted}: cast it, or leave it out")]
    Type {
        /// The column, and where in it.
        column: String,
        /// Its type.
        found: Box<DataType>,
        /// What is taken.
        wanted: &'static str,
    },
    /// A value of a row is not taken.
    #[error("the column {column:?} of row {row} {problem}")]
    Cell {
        /// The column.
        column: String,
        /// The number of the row, from 1.
        row: u64,
        /// What is wrong with it.
        problem: String,
    },
}
