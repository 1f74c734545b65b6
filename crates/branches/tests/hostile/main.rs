//! The worst that hostile or unlucky users of sources, holders of branches, and other users of the machine can do, with one
//! file for each wall. It is a program of its own, so that it can be run and read as the proof of most of docs/security.md.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail the test by panicking")]

mod branches_have_limits;
mod each_source_has_its_own_user;
mod frozen_servers;
mod hostile_sources;
mod imports_are_shut_in;
mod leases_keep_what_is_theirs;
mod masked_dumps;
mod masked_values_are_nowhere;
mod masking_fails_closed;
mod masking_rules;
mod masking_subsets;
mod neighbours_are_not_harmed;
mod no_branch_reaches_out;
#[path = "../it/origin.rs"]
#[allow(dead_code, reason = "what only the other program needs")]
mod origin;
mod personal_data_is_found;
mod policies_hold;
mod scratch_is_destroyed;
mod small_disk;
mod strangers_stay_out;
#[path = "../it/support.rs"]
#[allow(dead_code, reason = "what only the other program needs")]
mod support;
