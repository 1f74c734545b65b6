//! The suite "packs".

mod targets;
mod workload;
