//! Writing a graph: the life of a sync, its journal, sorted runs, and merges of them.

pub(crate) mod build;
pub(crate) mod diff;
pub(crate) mod journal;
pub(crate) mod merge;
pub(crate) mod spill;
pub(crate) mod store;
