//! The integration tests of this crate, in one program: linking is most of what a test program costs.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail the test by panicking")]

mod branch_model;
mod branch_packs;
mod container_faults;
mod container_reads;
mod container_round_trip;
mod container_writers;
mod formats;
mod support;
