//! Version 1: an SQLite database in one zstd frame.

mod read;
mod remains;
mod schema;
mod scratch;
mod time;
mod write;

pub use read::C1z1;
pub use write::C1z1Writer;

/// What a version 1 file begins with.
pub(crate) const MAGIC: [u8; 5] = *b"C1ZF\0";
