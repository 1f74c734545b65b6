//! The integration tests of this crate, in one program: linking is most of what a test program costs.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail the test by panicking")]

#[cfg(feature = "arrow")]
mod batches;
mod c1z_ecosystem;
mod c1z_equivalence;
mod c1z_faults;
mod c1z_hostile;
mod c1z_model;
mod c1z_round_trip;
mod c1z_sdk;
mod c1z_support;
mod c1z_writers;
mod compact;
mod conversions;
mod expand;
mod expansion;
mod graph;
mod hostile_bytes;
mod prune;
#[cfg(feature = "remote")]
mod remote;
mod rows;
#[cfg(feature = "parquet")]
mod tables;
#[cfg(feature = "parquet")]
mod tables_import;
