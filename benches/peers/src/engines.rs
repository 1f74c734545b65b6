//! The engines that are compared, each in the fastest setting that its manual allows for a level.
//!
//! To add one, write a module with a `KIND` and name it in [`all`].

mod duramen;
mod fjall;
mod lmdb;
mod redb;
#[cfg(feature = "rocksdb")]
mod rocks;
mod sqlite;

use std::sync::OnceLock;

use crate::engine::Kind;

/// What RocksDB and fjall gather usually.
const WRITE_BUFFER_BYTES: usize = 64 << 20;

/// The column that the others are compared with.
pub(crate) const OURS: &str = "duramen";

/// What every engine may keep of its files in memory, in bytes: more than all rows of the default run.
const CACHE_BYTES: usize = 1 << 29;

/// The same for a process whose memory is limited.
static LIMITED: OnceLock<usize> = OnceLock::new();

/// What an engine may keep of its files in memory, in bytes.
fn cache_bytes() -> usize {
    LIMITED.get().copied().unwrap_or(CACHE_BYTES)
}

/// Whether there is more data than memory.
fn is_limited() -> bool {
    LIMITED.get().is_some()
}

/// How much an engine may gather before it writes a table, in bytes: its usual amount, but no more than a quarter of the memory
/// for files where that is limited.
fn write_buffer_bytes() -> Option<usize> {
    LIMITED.get().map(|bytes| (bytes / 4).min(WRITE_BUFFER_BYTES))
}

/// Limits what engines keep in memory, once and for all.
pub(crate) fn limit(bytes: usize) {
    LIMITED.get_or_init(|| bytes);
}

/// Every engine of this build.
pub(crate) fn all() -> Vec<Kind> {
    vec![
        duramen::KIND,
        lmdb::KIND,
        fjall::KIND,
        redb::KIND,
        sqlite::KIND,
        #[cfg(feature = "rocksdb")]
        rocks::KIND,
    ]
}
