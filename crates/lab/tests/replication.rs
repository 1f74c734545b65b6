//! The suite "replication": what its parts make of what they are given, and its pair of servers.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test by panicking")]

#[path = "replication/catalog.rs"]
mod catalog;
#[path = "replication/expect.rs"]
mod expect;
#[path = "replication/figures.rs"]
mod figures;
#[path = "replication/pair.rs"]
mod pair;
#[path = "replication/passes.rs"]
mod passes;
#[path = "replication/plan.rs"]
mod plan;
#[path = "replication/preconditions.rs"]
mod preconditions;
#[path = "replication/proxy.rs"]
mod proxy;
#[path = "replication/report.rs"]
mod report;
#[path = "replication/run.rs"]
mod run;
#[path = "replication/stall.rs"]
mod stall;
#[path = "replication/synthetic.rs"]
mod synthetic;
#[path = "replication/table.rs"]
mod table;
#[path = "replication/user.rs"]
mod user;
