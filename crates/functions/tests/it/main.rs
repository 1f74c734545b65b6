//! The integration tests of this crate, in one program: linking is most of what a test program costs.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail the test by panicking")]

mod clusters;
mod common;
mod connection_strings;
mod copies;
mod dsl;
mod executor_text;
mod http;
mod inspect;
mod listing;
mod metrics;
mod plans;
mod proxy;
mod queues;
mod rehearsals;
mod results;
mod revive;
mod sagas;
mod same_rules;
mod schedules;
mod search;
mod security_rows;
mod session_user;
mod surface;
mod tasks;
#[cfg(feature = "otlp")]
mod traces;
mod trusted_owners;
mod uninstall;
mod upgrade;
mod upgrade_killed;
mod worker;
mod worker_confinement;
mod worker_faults;
mod worker_flow;
mod worker_hygiene;
