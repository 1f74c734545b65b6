//! The integration tests of this crate, in one program: linking is most of what a test program costs.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail the test by panicking")]

mod conflicts;
mod hostile;
mod merge;
mod merge_model;
mod model;
mod once;
mod orders;
mod support;
