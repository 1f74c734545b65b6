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
mod client;
mod faults;
mod fencing;
mod full_cache;
mod places;
mod proxy;
mod server;

/// The suites of the store, as they stand. Those that look into the files of a folder are not among them.
#[path = "../../../store/tests/it"]
#[allow(dead_code, reason = "some of it is for suites that are not here")]
mod suites {
    pub(crate) mod bases_and_garbage;
    pub(crate) mod blobs;
    pub(crate) mod crash_log;
    pub(crate) mod crash_nodes;
    pub(crate) mod events;
    pub(crate) mod events_trimmed;
    pub(crate) mod everything;
    pub(crate) mod expiring;
    pub(crate) mod held_snapshots;
    pub(crate) mod indexes;
    pub(crate) mod isolation;
    pub(crate) mod json_documents;
    pub(crate) mod keeping;
    pub(crate) mod keys;
    pub(crate) mod merging_rules;
    pub(crate) mod model;
    pub(crate) mod spaces;
    pub(crate) mod vectors;
    pub(crate) mod watching;
}

// By the names that they have for each other, and for the processes that they start.
use suites::{crash_log, crash_nodes};
#[path = "../../../store/tests/it/killed.rs"]
mod killed;
