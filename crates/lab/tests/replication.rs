//! The suite "replication".

#[path = "replication/stall.rs"]
mod stall;
