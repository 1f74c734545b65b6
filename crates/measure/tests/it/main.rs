//! The integration tests of this crate, in one program: linking is most of what a test program costs.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail the test by panicking")]

mod evidence_keeps_its_format;
mod histograms_keep_latencies;
mod loads_show_stalls;
mod processes_are_metered;
mod runs;
mod statistics;
mod the_machine_is_described;
