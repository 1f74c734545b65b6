//! The integration tests of this crate, in one program: linking is most of what a test program costs.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail the test by panicking")]

mod agents;
mod branch_diffs;
#[allow(dead_code, reason = "what only the tests of change sets need")]
#[path = "../../../carry/tests/it/support.rs"]
mod carried;
mod change_sets;
mod cli_usage;
#[path = "../../../functions/tests/it/common.rs"]
mod common;
mod configured;
mod daemon_faults;
mod daemon_hands_over;
mod daemon_is_killed;
mod dashboards;
mod dumps_survive_kills;
mod durable_changes;
mod every_file_has_its_mode;
mod exports;
mod functions_cli;
mod functions_in_a_branch;
mod groups_outlive_daemons;
mod history_survives_kills;
mod holders_have_limits;
mod http_door;
mod lab_compare;
mod lab_diagnose;
mod lab_experiment;
mod lab_list;
mod lab_pairs;
mod lab_replication;
mod lab_report;
mod lab_restore;
mod lab_runners;
mod lab_store;
mod lab_watch;
mod logins;
mod machine_is_short;
mod masking_survives_kills;
mod merges;
mod promotion;
mod rehearsals;
mod router;
mod running_origin;
mod schema_diff;
mod store_cli;
mod support;
#[cfg(feature = "otlp")]
mod traces;
mod unit_of_systemd;
#[path = "../../../replication/tests/it/user.rs"]
mod user;
