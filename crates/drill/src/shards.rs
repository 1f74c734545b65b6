//! The suite "shards": durable functions over four databases, two of which are pairs under Patroni, while leaders and workers are killed.

mod account;
mod document;
mod ground;
mod load;
mod options;
mod run;

pub use account::Account;
pub use document::{Shards, SUITE};
pub use options::Options;
