//! The suite "failover": what a cluster under Patroni does when its leader is gone, and what its clients see of it.

mod document;
mod given;
mod options;
mod repetition;
mod run;
mod stages;

pub use document::{repetitions, Failover, RepetitionView, SUITE};
pub use given::Given;
pub use options::{Drill, Options};
