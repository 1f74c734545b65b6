//! Two real sshd of our own on the loopback interface, and this program as its users have it: `make test-hosts`.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail the test by panicking")]

mod agents;
mod attacks;
mod pairs;
mod sshd;
