//! Deletions of whole ranges of keys.

use super::key::{self, family};
use crate::c1z::error::Bad;
use crate::c1z::limits::RANGE_DELETIONS_MAX;

/// What the range deletions of a file hide.
#[derive(Debug, Default)]
pub(crate) struct RangeDeletions {
    /// First key, key behind the last, and the number of the deletion.
    ranges: Vec<(Vec<u8>, Vec<u8>, u64)>,
    /// The keys at which another set of deletions begins to cover keys, and the highest number among them.
    steps: Vec<(Vec<u8>, u64)>,
}

/// Whether a range holds only rows of indexes and digests, which nobody asks for.
pub(crate) fn is_beside_rows(start: &[u8], end: &[u8]) -> bool {
    [family::INDEX, family::DIGEST].iter().any(|family| {
        start >= [key::VERSION, *family].as_slice() && end <= [key::VERSION, *family + 1].as_slice()
    })
}

impl RangeDeletions {
    /// Takes the deletion of the keys from `start` to before `end`, which was said at `at`.
    pub(crate) fn push(&mut self, at: usize, start: &[u8], end: &[u8], sequence: u64) -> Result<(), Bad> {
        if start >= end || is_beside_rows(start, end) {
            return Ok(());
        }
        if self.ranges.len() == RANGE_DELETIONS_MAX {
            let limit = RANGE_DELETIONS_MAX as u64;
            return Err(Bad::too_large(at, "the number of range deletions", limit + 1, limit));
        }
        self.ranges.push((start.to_vec(), end.to_vec(), sequence));
        Ok(())
    }

    /// Ends the collection: from now on keys are asked for.
    pub(crate) fn finish(&mut self) {
        let bounds = self.ranges.iter().flat_map(|(start, end, _)| [start, end]);
        let mut steps: Vec<(Vec<u8>, u64)> = bounds.map(|bound| (bound.clone(), 0)).collect();
        steps.sort_unstable();
        steps.dedup();
        for (start, end, sequence) in &self.ranges {
            let first = steps.partition_point(|(bound, _)| bound < start);
            for (_, highest) in steps[first..].iter_mut().take_while(|(bound, _)| bound < end) {
                *highest = (*highest).max(*sequence);
            }
        }
        self.steps = steps;
    }

    /// Whether the change of `key` with the number `sequence` came before a deletion that covers the key.
    #[inline]
    pub(crate) fn hide(&self, key: &[u8], sequence: u64) -> bool {
        if self.steps.is_empty() {
            return false;
        }
        let next = self.steps.partition_point(|(bound, _)| bound.as_slice() <= key);
        next.checked_sub(1).and_then(|at| self.steps.get(at)).is_some_and(|(_, highest)| sequence < *highest)
    }
}
