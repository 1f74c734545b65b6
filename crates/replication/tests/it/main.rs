//! The integration tests of this crate, in one program: linking is most of what a test program costs.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail the test by panicking")]

mod broken;
mod catalog;
mod expect;
mod figures;
mod pair;
mod passes;
mod plan;
mod preconditions;
mod proxy;
mod report;
mod run;
mod stall;
mod synthetic;
mod table;
mod topology;
mod user;
mod workload;
