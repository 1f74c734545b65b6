//! The integration tests of this crate, in one program: linking is most of what a test program costs.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail the test by panicking")]

mod access_changes;
mod documents_are_collected;
mod history_is_kept;
mod markdown_for_pull_requests;
mod one_page_over_everything;
mod page_of_benchmarks;
mod pages_have_parts;
mod reports_open_anywhere;
mod support;
mod trends_are_told_with_care;
mod variants_are_compared;
