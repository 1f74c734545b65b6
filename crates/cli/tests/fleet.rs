//! A fleet of real daemons and a real etcd, in network namespaces (root): `make test-fleet`. The invariants FL-1 to FL-13 that tests
//! name are in `docs/design/fleet.md`.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail the test by panicking")]

#[path = "fleet/attacks.rs"]
mod attacks;
#[path = "fleet/bed.rs"]
mod bed;
#[path = "fleet/figures.rs"]
mod figures;
#[path = "fleet/history.rs"]
mod history;
#[path = "fleet/lives.rs"]
mod lives;
#[path = "fleet/operate.rs"]
mod operate;
#[path = "fleet/sessions.rs"]
mod sessions;
#[path = "fleet/stalls.rs"]
mod stalls;
#[path = "fleet/storm.rs"]
mod storm;
#[allow(dead_code, reason = "what only other tests need")]
#[path = "it/support.rs"]
mod support;
