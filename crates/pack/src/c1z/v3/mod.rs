//! Version 3: the files of a log-structured merge tree, each a zstd frame, under one manifest.

mod batch;
mod block;
mod cursor;
mod deletions;
mod directory;
mod edit;
pub(crate) mod envelope;
mod frames;
mod key;
mod log;
mod lsm;
mod memory;
mod read;
mod table;
mod write;

pub use read::C1z3;
pub use write::C1z3Writer;
