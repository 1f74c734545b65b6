//! The crate's tests, one behaviour a file.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail the test by panicking")]

mod documents;
mod moments;
mod pairs;
#[cfg(feature = "parquet")]
mod parquet_files;
mod types;
mod vectors_and_events;
