//! What a serialisable transaction read, and whether it is still so when it commits.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use duramen_base::clock;
use duramen_tree::{Forest, KeyRange, Tree};

use crate::error::StoreError;
use crate::keys::Primitive;

/// Keys and ranges that a serialisable transaction may read, each counted once.
pub const READS_MAX: usize = 65_536;

/// Bytes of those keys and of the ends of those ranges.
pub const READ_BYTES_MAX: usize = 16 << 20;

/// A range: its first key, and the first one behind it if there is an end.
type Span = (Vec<u8>, Option<Vec<u8>>);

/// The trees of a transaction's beginning and of its commit, each with its floor.
pub(super) struct Times<'t> {
    pub(super) forest: &'t Forest,
    pub(super) then: (&'t Tree, u64),
    pub(super) now: (&'t Tree, u64),
}

impl Times<'_> {
    /// Whether a key has another version than it had, or is there and was not, or was and is not.
    pub(super) fn has_changed(&self, key: &[u8]) -> Result<bool, StoreError> {
        // A reset gives cells other versions, and leaves other entries theirs.
        let is_cell = key.first() == Some(&(Primitive::State as u8));
        let version = |(tree, floor): (&Tree, u64)| {
            let floor = if is_cell { floor } else { 0 };
            tree.get(self.forest, key, |entry| entry.version.max(floor))
        };
        Ok(version(self.now)? != version(self.then)?)
    }

    /// A key of a range that has changed: one that came or went included.
    fn changed_in(&self, range: &KeyRange<'_>) -> Result<Option<Vec<u8>>, StoreError> {
        let cells = [Primitive::State as u8];
        let past = [Primitive::State as u8 + 1];
        let has_cells = range.start < &past[..] && range.end.is_none_or(|end| end > &cells[..]);
        if has_cells && self.then.1 != self.now.1 {
            return Ok(Some(range.start.to_vec()));
        }
        let mut found = None;
        self.then.0.diff(self.forest, self.now.0, range, |change| {
            found = Some(change.key.to_vec());
            ControlFlow::Break(())
        })?;
        Ok(found)
    }
}

/// What was read.
#[derive(Default)]
pub(super) struct Reads {
    keys: BTreeSet<Vec<u8>>,
    ranges: BTreeSet<Span>,
    bytes: usize,
    /// When the first of the pairs ends that were read and end.
    end_ms: Option<i64>,
}

impl Reads {
    pub(super) fn add_key(&mut self, key: &[u8]) -> Result<(), StoreError> {
        if self.keys.contains(key) {
            return Ok(());
        }
        self.grow(key.len())?;
        self.keys.insert(key.to_vec());
        Ok(())
    }

    /// Adds a range as far as it was read: to `last` if the reader stopped there.
    pub(super) fn add_range(&mut self, range: &KeyRange<'_>, last: Option<&[u8]>) -> Result<(), StoreError> {
        let (mut start, mut end) = (range.start.to_vec(), range.end.map(<[u8]>::to_vec));
        match last {
            Some(last) if range.backwards => start = last.to_vec(),
            // The key after it.
            Some(last) => end = Some([last, &[0]].concat()),
            None => {}
        }
        let bytes = start.len() + end.as_ref().map_or(0, Vec::len);
        let span = (start, end);
        if !self.ranges.contains(&span) {
            self.grow(bytes)?;
            self.ranges.insert(span);
        }
        Ok(())
    }

    /// Notes that a pair was read that ends.
    pub(super) fn add_end(&mut self, end_ms: i64) {
        self.end_ms = Some(self.end_ms.map_or(end_ms, |known| known.min(end_ms)));
    }

    /// Whether a pair that was read is over by now: others have seen that it is gone, and no version says so.
    pub(super) fn is_over(&self) -> bool {
        self.end_ms.is_some_and(|end_ms| end_ms <= clock::steady_unix_ms())
    }

    fn grow(&mut self, bytes: usize) -> Result<(), StoreError> {
        let is_full = self.keys.len() + self.ranges.len() >= READS_MAX;
        if is_full || self.bytes + bytes > READ_BYTES_MAX {
            return Err(StoreError::TooManyReads { reads: READS_MAX, bytes: READ_BYTES_MAX });
        }
        self.bytes += bytes;
        Ok(())
    }

    /// A key that was read, or that lies in a range that was, and is not what it was.
    pub(super) fn changed(&self, times: &Times<'_>) -> Result<Option<Vec<u8>>, StoreError> {
        for key in &self.keys {
            if times.has_changed(key)? {
                return Ok(Some(key.clone()));
            }
        }
        for (start, end) in &self.ranges {
            if let Some(key) = times.changed_in(&KeyRange::new(start, end.as_deref()))? {
                return Ok(Some(key));
            }
        }
        Ok(None)
    }
}
