//! The suite "replication": what its parts make of what they are given, and its pair of servers.

#[path = "replication/expect.rs"]
mod expect;
#[path = "replication/pair.rs"]
mod pair;
#[path = "replication/passes.rs"]
mod passes;
#[path = "replication/plan.rs"]
mod plan;
#[path = "replication/proxy.rs"]
mod proxy;
#[path = "replication/stall.rs"]
mod stall;
