//! The integration tests of this crate, in one program: linking is most of what a test program costs.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail the test by panicking")]

mod branches_have_limits;
mod each_source_has_its_own_user;
mod faults_of_the_engine;
mod faults_of_the_home;
mod faults_of_the_volumes;
mod hostile_sources;
mod imports_are_shut_in;
mod leases_keep_what_is_theirs;
mod life_of_a_branch;
mod masked_values_are_nowhere;
mod masking_fails_closed;
mod neighbours_are_not_harmed;
mod no_branch_reaches_out;
mod origin;
mod origins;
mod own_roles;
mod policies_hold;
mod real_sources;
mod strangers_stay_out;
mod support;
mod watched_tables;
