//! The integration tests of this crate, in one program: linking is most of what a test program costs.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail the test by panicking")]

mod a_series_decides;
mod a_series_refuses;
mod a_series_runs_by_itself;
mod attacks_are_found;
mod autoresearch_logs_are_imported;
mod bad_figures_never_win;
mod bench;
mod blocks_are_drawn_from_the_seed;
mod builds_in_cages;
mod claims_are_held_against_time;
mod disturbed_blocks_are_retaken;
mod figures_are_read;
mod git;
mod invariants_are_checked;
mod kills_lose_nothing;
mod log_on_disk;
mod logs_are_judged_again;
mod nothing_hides_a_change;
mod project;
mod proposers_see_no_more;
mod reports_of_a_series;
mod run;
mod scopes_hold;
mod segments_of_equals_keep_nothing;
mod state_from_events;
mod support;
mod templates_parse;
mod tries_end_early;
mod verdicts_follow_from_samples;
mod walls;
mod what_is_held_out_must_agree;
mod what_was_kept_is_reexamined;
mod what_was_kept_stays;
mod wrong_specs_name_their_place;
