//! Where the nodes of a store lie when it has a disk below it.

mod segments;

pub use self::segments::SegmentNodeStore;
pub(crate) use self::segments::{segment_number, SegmentFile};
