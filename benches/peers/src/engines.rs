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

use crate::engine::Kind;

/// The column that the others are compared with.
pub(crate) const OURS: &str = "duramen";

/// What every engine may keep of its files in memory, in bytes: more than all rows of the default run.
const CACHE_BYTES: usize = 1 << 29;

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
