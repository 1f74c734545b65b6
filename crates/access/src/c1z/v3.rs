//! Version 3: the files of a log-structured merge tree, each a zstd frame, under one manifest.

pub(crate) mod batch;
pub(crate) mod block;
mod block_writer;
pub(crate) mod column_block;
mod columns;
pub(crate) mod cursor;
mod deletions;
mod directory;
pub(crate) mod edit;
pub(crate) mod envelope;
mod footer;
mod frames;
mod grants;
mod key;
mod listed;
pub(crate) mod log;
mod lookup;
pub(crate) mod lsm;
mod memory;
mod one_edge;
mod output;
mod read;
mod records;
pub(crate) mod table;
mod table_writer;
mod tar;
pub(crate) mod unpack;
mod values;
mod write;

pub use read::C1z3;
pub use write::C1z3Writer;
