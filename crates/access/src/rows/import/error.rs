//! Why a folder of tables was not read.

use std::path::PathBuf;

use parquet::errors::ParquetError;

/// Why tables could not be read: which file, where in it, and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// A table is not there.
    #[error(
        "{} is not there: a folder of tables has resource_types, resources, entitlements and grants, each as NAME.parquet; \
         write it, without rows if there are none",
        file.display()
    )]
    Missing {
        /// The file.
        file: PathBuf,
    },
    /// The operating system failed.
    #[error("cannot read {}: {source}", file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// The file is no Parquet file, or is damaged.
    #[error("{} cannot be read as Parquet: {what}; write it again", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// What is wrong, and where.
        what: String,
    },
    /// A column is not there that every row needs.
    #[error("{} has no column {column:?}, which every row needs; it has {}", file.display(), known.join(", "))]
    MissingColumn {
        /// The file.
        file: PathBuf,
        /// The column.
        column: &'static str,
        /// The columns that it has.
        known: Vec<String>,
    },
    /// A column is of another type.
    #[error(
        "the column {column:?} of {} is {found} and has to be {wanted}: cast it when the file is written",
        file.display()
    )]
    WrongType {
        /// The file.
        file: PathBuf,
        /// The column.
        column: &'static str,
        /// What it is.
        found: String,
        /// What it has to be.
        wanted: &'static str,
    },
    /// More comes out of the file than out of any that is right.
    #[error("{} holds {found} {what}, and for a file of its length {most} are allowed", file.display())]
    TooMuch {
        /// The file.
        file: PathBuf,
        /// Of what.
        what: &'static str,
        /// How many there are, or were found so far.
        found: u64,
        /// How many are allowed.
        most: u64,
    },
    /// A part of the file cannot be read, although it may be right, or is larger than any that is.
    #[error("the column {column:?} of {}, row group {group}: {source}", file.display())]
    Column {
        /// The file.
        file: PathBuf,
        /// The column.
        column: &'static str,
        /// The number of the row group, from 1.
        group: usize,
        /// Why not.
        source: ParquetError,
    },
    /// A cell does not say what it has to say.
    #[error("the column {column:?} of {}, row {row}, {problem}", file.display())]
    Cell {
        /// The file.
        file: PathBuf,
        /// The column.
        column: &'static str,
        /// The number of the row, from 1.
        row: u64,
        /// What is wrong with it.
        problem: String,
    },
}
