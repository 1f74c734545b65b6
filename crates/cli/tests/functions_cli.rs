//! `duramen fn ...`, through the real program and a real server: what it prints, what it refuses, and with which exit
//! status.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "helpers of tests fail the test by panicking")]

#[path = "../../functions/tests/common/mod.rs"]
mod common;
#[path = "functions_cli/instances.rs"]
mod instances;
#[path = "functions_cli/lists.rs"]
mod lists;
#[path = "functions_cli/readme.rs"]
mod readme;
#[path = "functions_cli/refusals.rs"]
mod refusals;
#[path = "functions_cli/shell.rs"]
mod shell;
#[path = "functions_cli/workers.rs"]
mod workers;
