//! Parquet files of strangers. What a file says of itself is not believed before it was held against a limit.
//!
//! The reader of the format reserves memory by what the footer and the heads of pages say, and walks schemas by calling itself.
//! Here both are looked at first: `footer` is the metadata of a file whose schema is not too deep, and `Pages` are the
//! pages of a column, each of which was found to be no larger than is allowed. What is made of them is up to the caller:
//! access graphs, or documents of the store.
//!
//! Nothing of it is there without the feature `parquet`.

#[cfg(feature = "parquet")]
mod footer;
#[cfg(feature = "parquet")]
mod pages;
#[cfg(feature = "parquet")]
mod thrift;

#[cfg(feature = "parquet")]
pub use self::footer::{footer, FOOTER_BYTES_MAX, SCHEMA_DEPTH_MAX};
#[cfg(feature = "parquet")]
pub use self::pages::{BatchOf, Budget, Pages, BATCH_ROWS, HELD_BYTES_MAX, LIST_VALUES_MAX, PAGE_BYTES_MAX};
