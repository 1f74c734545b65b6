//! The integration tests of this crate, in one program: linking is most of what a test program costs.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail the test by panicking")]

mod lab_comparisons;
mod lab_directories;
mod lab_experiments;
mod lab_histories;
mod lab_reports;
mod lab_support;
