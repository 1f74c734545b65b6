//! The integration tests of this crate, in one program: linking is most of what a test program costs.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail the test by panicking")]

mod backups;
mod bases_and_garbage;
mod blobs;
mod clocks;
mod closing;
mod contention;

mod crash;
mod crash_log;
mod crash_nodes;
mod disk_faults;
mod events;
mod events_trimmed;
mod everything;
mod examples;
mod expiring;
mod faults;
mod faulty;
mod following;
mod formats;
mod held_snapshots;
mod history;
mod hostile_bytes;
mod imports;
mod indexes;
mod interleavings;
mod isolation;
mod json_documents;
mod keeping;
mod keeping_later;
mod keys;
mod killed;
mod merging;
mod merging_collections;
mod merging_rules;
mod model;
mod moments;
mod node_segments;
mod power_cuts;
mod public_api;
mod repair;
mod spaces;
/// What the files under test in `interleavings` take for `crate::sync`.
#[path = "interleavings/sync.rs"]
mod sync;
mod vectors;
mod watching;
