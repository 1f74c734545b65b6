//! Deletions of whole ranges of keys.

use crate::c1z::error::Bad;
use crate::c1z::limits::RANGE_DELETIONS_MAX;

/// What the range deletions of a file hide.
#[derive(Debug, Default)]
pub(crate) struct RangeDeletions {
    /// First key, key behind the last, and the number of the deletion.
    ranges: Vec<(Vec<u8>, Vec<u8>, u64)>,
}

impl RangeDeletions {
    /// Takes the deletion of the keys from `start` to before `end`, which was said at `at`.
    pub(crate) fn push(&mut self, at: usize, start: &[u8], end: &[u8], sequence: u64) -> Result<(), Bad> {
        if self.ranges.len() == RANGE_DELETIONS_MAX {
            let limit = RANGE_DELETIONS_MAX as u64;
            return Err(Bad::too_large(at, "the number of range deletions", limit + 1, limit));
        }
        self.ranges.push((start.to_vec(), end.to_vec(), sequence));
        Ok(())
    }

    /// Whether the change of `key` with the number `sequence` came before a deletion that covers the key.
    #[inline]
    pub(crate) fn hide(&self, key: &[u8], sequence: u64) -> bool {
        self.ranges.iter().any(|(start, end, deleted)| {
            sequence < *deleted && start.as_slice() <= key && key < end.as_slice()
        })
    }
}
