//! The suite "packs".

#[path = "packs/bars.rs"]
mod bars;
#[path = "packs/workload.rs"]
mod workload;
