//! A fleet of real daemons and a real etcd, in network namespaces (root): `make test-fleet`. The invariants FL-1 to FL-20 that tests
//! name are in `docs/design/fleet.md`.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail the test by panicking")]

#[path = "fleet/attacks.rs"]
mod attacks;
#[path = "fleet/bed.rs"]
mod bed;
#[path = "fleet/clocks.rs"]
mod clocks;
#[path = "fleet/copies.rs"]
mod copies;
#[path = "fleet/figures.rs"]
mod figures;
#[path = "fleet/history.rs"]
mod history;
#[path = "fleet/hops.rs"]
mod hops;
#[path = "fleet/keys.rs"]
mod keys;
#[path = "fleet/lives.rs"]
mod lives;
#[path = "fleet/operate.rs"]
mod operate;
#[path = "fleet/rolling.rs"]
mod rolling;
#[path = "fleet/sessions.rs"]
mod sessions;
#[path = "fleet/silent.rs"]
mod silent;
#[path = "fleet/stalls.rs"]
mod stalls;
#[path = "fleet/storm.rs"]
mod storm;
#[allow(dead_code, reason = "what only other tests need")]
#[path = "it/support.rs"]
mod support;
