//! The integration tests of this crate, in one program.
//!
//! The suites of the store run here, too, as they stand: in this program, `duramen_store` is the store with another
//! `Store::open`, which makes of the name of a folder a place in a bucket. `DURAMEN_TEST_BUCKET` says in which: `memory` (the
//! default), `file`, or `s3://bucket`, whose server and credentials the environment names.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail the test by panicking")]

extern crate duramen_store as real;
extern crate self as duramen_store;

pub use real::*;

mod shim;
pub use shim::{Follower, Store};

mod attacks;
mod faults;
mod fencing;
mod places;
mod proxy;
mod server;

// The suites of the store.
#[path = "../../../store/tests/it/bases_and_garbage.rs"]
mod bases_and_garbage;
#[path = "../../../store/tests/it/blobs.rs"]
mod blobs;
#[path = "../../../store/tests/it/contention.rs"]
mod contention;
#[path = "../../../store/tests/it/crash_log.rs"]
mod crash_log;
#[path = "../../../store/tests/it/crash_nodes.rs"]
mod crash_nodes;
#[path = "../../../store/tests/it/events.rs"]
mod events;
#[path = "../../../store/tests/it/events_trimmed.rs"]
mod events_trimmed;
#[path = "../../../store/tests/it/everything.rs"]
mod everything;
#[path = "../../../store/tests/it/expiring.rs"]
mod expiring;
#[path = "../../../store/tests/it/held_snapshots.rs"]
mod held_snapshots;
#[path = "../../../store/tests/it/indexes.rs"]
mod indexes;
#[path = "../../../store/tests/it/isolation.rs"]
mod isolation;
#[path = "../../../store/tests/it/json_documents.rs"]
mod json_documents;
#[path = "../../../store/tests/it/keeping.rs"]
mod keeping;
#[path = "../../../store/tests/it/keys.rs"]
mod keys;
#[path = "../../../store/tests/it/killed.rs"]
mod killed;
#[path = "../../../store/tests/it/merging_rules.rs"]
mod merging_rules;
#[path = "../../../store/tests/it/model.rs"]
mod model;
#[path = "../../../store/tests/it/spaces.rs"]
mod spaces;
#[path = "../../../store/tests/it/vectors.rs"]
mod vectors;
#[path = "../../../store/tests/it/watching.rs"]
mod watching;
