//! The interpreter against its invariants: one file a behaviour, and random graphs against a second, simpler evaluator.
#![allow(clippy::unwrap_used, reason = "tests")]

mod branches;
mod build;
mod calls;
mod chance;
mod events;
mod failures;
mod graphs;
mod kept;
mod limits;
mod maps;
mod model;
mod observed;
mod repeat;
mod revive;
mod steps;
mod twins;
mod undo;
mod world;
