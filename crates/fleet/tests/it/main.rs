//! Nodes of a fleet against a real etcd. The invariants FL-1 to FL-20 that tests name are in
//! `docs/design/fleet.md`, and OP-1 to OP-7 in `docs/design/operating.md`.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail the test by panicking")]

mod bed;
mod health;
mod member;
mod names;
mod restore;
mod secure;
mod sources;
