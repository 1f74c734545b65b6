//! Access graphs for other languages: the C interface to packs and `.c1z` files, whose header is `include/duramen.h`.
//!
//! The header says what each call takes and gives, and who owns which memory. In short: what a caller gives is read during the
//! call and not kept; what a call gives is freed by [`duramen_bytes_free`]. Graphs are numbers, which are checked. A panic
//! does not cross the boundary; it is an error, and its graph can only be closed.

mod error;
mod ffi;
mod flat;
mod grants;
mod graph;
mod handles;
mod list;
mod query;
mod records;
mod spare;

pub use error::Status;
pub use ffi::{
    duramen_bytes_free, duramen_checkpoint, duramen_close, duramen_count, duramen_delete, duramen_end,
    duramen_list, duramen_live, duramen_open, duramen_put, duramen_save, duramen_start,
    duramen_supports_diff, duramen_sync, duramen_version, DuramenBytes,
};
