//! Deletions of whole ranges of keys.

use std::collections::BTreeMap;

use crate::c1z::error::Bad;
use crate::c1z::limits::RANGE_DELETIONS_MAX;

/// What the range deletions of a file hide.
#[derive(Clone, Debug, Default)]
pub(crate) struct RangeDeletions {
    /// First key, key behind the last, and the number of the deletion.
    ranges: Vec<(Vec<u8>, Vec<u8>, u64)>,
    /// The keys at which another set of deletions begins to cover keys, and the highest number among them.
    steps: Vec<(Vec<u8>, u64)>,
}

impl RangeDeletions {
    /// Takes the deletion of the keys from `start` to before `end`, which was said at `at`.
    pub(crate) fn push(&mut self, at: usize, start: &[u8], end: &[u8], sequence: u64) -> Result<(), Bad> {
        if start >= end {
            return Ok(());
        }
        if self.ranges.len() == RANGE_DELETIONS_MAX {
            let limit = RANGE_DELETIONS_MAX as u64;
            return Err(Bad::too_large(at, "the number of range deletions", limit + 1, limit));
        }
        self.ranges.push((start.to_vec(), end.to_vec(), sequence));
        Ok(())
    }

    /// Those that can hide a key from `from` to before `to`.
    pub(crate) fn within(&self, from: &[u8], to: Option<&[u8]>) -> RangeDeletions {
        let meets = |(start, end, _): &&(Vec<u8>, Vec<u8>, u64)| {
            from < end.as_slice() && to.is_none_or(|to| start.as_slice() < to)
        };
        RangeDeletions { ranges: self.ranges.iter().filter(meets).cloned().collect(), steps: Vec::new() }
    }

    /// Ends the collection: from now on keys are asked for.
    pub(crate) fn finish(&mut self) {
        // Each end of a range, in the order of keys; what is deleted there by how many.
        let mut ends: Vec<(&[u8], u64, bool)> = Vec::with_capacity(2 * self.ranges.len());
        for (start, end, sequence) in &self.ranges {
            ends.push((start, *sequence, true));
            ends.push((end, *sequence, false));
        }
        ends.sort_unstable_by_key(|(key, _, _)| *key);
        let (mut steps, mut open) = (Vec::new(), BTreeMap::new());
        for at in ends.chunk_by(|a, b| a.0 == b.0) {
            for (_, sequence, begins) in at {
                let count: &mut i64 = open.entry(*sequence).or_default();
                *count += if *begins { 1 } else { -1 };
                if *count == 0 {
                    open.remove(sequence);
                }
            }
            let highest = open.last_key_value().map_or(0, |(sequence, _)| *sequence);
            steps.extend(at.first().map(|(key, _, _)| (key.to_vec(), highest)));
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
