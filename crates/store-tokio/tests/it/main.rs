//! The integration tests of this crate, in one program.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail the test by panicking")]

mod cancelled;
mod closing;
mod machine;
mod progress;
mod runtimes;
mod unpolled;
mod watching;
