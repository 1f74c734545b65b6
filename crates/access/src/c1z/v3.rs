//! Version 3: the files of a log-structured merge tree, each a zstd frame, under one manifest.

mod batch;
mod block;
mod block_writer;
mod column_block;
mod columns;
mod cursor;
mod deletions;
mod directory;
mod edit;
pub(crate) mod envelope;
mod footer;
mod frames;
mod grants;
mod key;
mod log;
mod lsm;
mod memory;
mod one_edge;
mod output;
mod read;
mod records;
mod table;
mod table_writer;
mod tar;
mod unpack;
mod values;
mod write;

pub use read::C1z3;
pub use write::C1z3Writer;
