//! What the crate does on real servers.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail the test by panicking")]

mod kinds;
mod large;
mod reading;
mod support;
