//! The suite "replication": what its parts make of what they are given, and its pair of servers.

#[path = "replication/pair.rs"]
mod pair;
#[path = "replication/proxy.rs"]
mod proxy;
#[path = "replication/stall.rs"]
mod stall;
