//! What is attached, read as the daemon reads it: real stores with a writer beside them, packs, files of access graphs, and documents of
//! measurements. All in one program: linking is most of what a test program costs.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail the test by panicking")]

mod differences;
mod entries;
mod graphs;
mod lab_comparisons;
mod lab_directories;
mod lab_experiments;
mod lab_histories;
mod lab_reports;
mod lab_support;
mod packs;
mod stores;
