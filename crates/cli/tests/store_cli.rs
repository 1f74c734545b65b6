//! The store's commands, through the real program: what they print, what they refuse, and with which exit status.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test by panicking")]

#[path = "store_cli/branches.rs"]
mod branches;
#[path = "store_cli/documents.rs"]
mod documents;
#[path = "store_cli/events.rs"]
mod events;
#[path = "store_cli/graphs.rs"]
mod graphs;
#[path = "store_cli/packs.rs"]
mod packs;
#[path = "store_cli/pairs.rs"]
mod pairs;
#[path = "store_cli/place.rs"]
mod place;
#[path = "store_cli/readme.rs"]
mod readme;
#[path = "store_cli/shell.rs"]
mod shell;
#[path = "store_cli/vectors.rs"]
mod vectors;
