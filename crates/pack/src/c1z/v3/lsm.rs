//! The rows that logs and tables make up together: for each key the change with the highest number counts.
//!
//! Rows of indexes are left out as they come: they repeat what the rows say.

use hashbrown::HashTable;
use xxhash_rust::xxh3::xxh3_64;

use super::key::{self, family};
use crate::c1z::error::{Bad, EXPORT_ADVICE};
use crate::c1z::limits::RANGE_DELETIONS_MAX;

/// What happens to a key, or to the keys from one to before another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Change {
    Delete = 0,
    Set = 1,
    DeleteRange = 15,
}

impl Change {
    /// The kind of a deletion that says how much it deletes: the only one with a value.
    pub(crate) const DELETE_SIZED: u8 = 23;

    /// The change with a number; none for notes, which change nothing.
    pub(crate) fn of_kind(kind: u8, at: usize) -> Result<Option<Change>, Bad> {
        match kind {
            0 | 7 | Change::DELETE_SIZED => Ok(Some(Change::Delete)),
            1 | 18 => Ok(Some(Change::Set)),
            3 => Ok(None),
            15 => Ok(Some(Change::DeleteRange)),
            2 => Err(Bad::unsupported(at, "merged values", EXPORT_ADVICE)),
            19..=21 | 24 => Err(Bad::unsupported(at, "keys that stand for ranges", EXPORT_ADVICE)),
            22 => Err(Bad::unsupported(at, "tables that a log takes in", EXPORT_ADVICE)),
            other => Err(Bad::new(at, format!("there is no kind {other} of change"))),
        }
    }
}

/// Where a row lies.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// The number of the change in the upper 63 bits, whether it is a deletion in the lowest.
    order: u64,
    part: u32,
    key_at: u32,
    key_len: u32,
    value_at: u32,
    value_len: u32,
}

impl Slot {
    fn key<'a>(&self, parts: &'a [Vec<u8>]) -> &'a [u8] {
        let start = self.key_at as usize;
        parts
            .get(self.part as usize)
            .and_then(|part| part.get(start..start + self.key_len as usize))
            .unwrap_or_default()
    }
}

/// The rows of a directory.
#[derive(Default)]
pub(crate) struct Rows {
    /// What keys and values point into.
    parts: Vec<Vec<u8>>,
    slots: Vec<Slot>,
    by_key: HashTable<u32>,
    ranges: Vec<(Vec<u8>, Vec<u8>, u64)>,
}

impl Rows {
    /// Begins a part: what the ranges of [`change`](Self::change) are in, until the next part.
    pub(crate) fn part(&mut self, bytes: Vec<u8>) {
        self.parts.push(bytes);
    }

    /// The part that was begun last.
    pub(crate) fn current(&mut self) -> &mut Vec<u8> {
        if self.parts.is_empty() {
            self.parts.push(Vec::new());
        }
        let last = self.parts.len() - 1;
        &mut self.parts[last]
    }

    /// Takes a change. Key and value are ranges of the current part.
    #[inline]
    pub(crate) fn change(
        &mut self,
        change: Change,
        key: std::ops::Range<usize>,
        value: std::ops::Range<usize>,
        sequence: u64,
    ) -> Result<(), Bad> {
        let part = self.parts.len() - 1;
        let bytes = &self.parts[part];
        if change == Change::DeleteRange {
            if self.ranges.len() == RANGE_DELETIONS_MAX {
                let limit = RANGE_DELETIONS_MAX as u64;
                return Err(Bad::too_large(key.start, "the number of range deletions", limit + 1, limit));
            }
            self.ranges.push((bytes[key].to_vec(), bytes[value].to_vec(), sequence));
            return Ok(());
        }
        let text = &bytes[key.clone()];
        if let [key::VERSION, family::INDEX | family::DIGEST, ..] = text {
            return Ok(());
        }
        let short = |number: usize| {
            u32::try_from(number)
                .map_err(|_| Bad::too_large(key.start, "a file", number as u64, u64::from(u32::MAX)))
        };
        let slot = Slot {
            order: sequence << 1 | u64::from(change == Change::Delete),
            part: short(part)?,
            key_at: short(key.start)?,
            key_len: short(key.len())?,
            value_at: short(value.start)?,
            value_len: short(value.len())?,
        };
        let (parts, slots) = (&self.parts, &mut self.slots);
        let hash = xxh3_64(text);
        if let Some(at) = self.by_key.find(hash, |at| slots[*at as usize].key(parts) == text) {
            let known = &mut slots[*at as usize];
            if known.order < slot.order {
                *known = slot;
            }
            return Ok(());
        }
        let number = short(slots.len())?;
        slots.push(slot);
        self.by_key.insert_unique(hash, number, |at| xxh3_64(slots[*at as usize].key(parts)));
        Ok(())
    }

    /// Ends the collection: what was deleted goes, and the table of keys with it.
    pub(crate) fn settle(&mut self) {
        let (parts, ranges) = (&self.parts, &self.ranges);
        self.slots.retain(|slot| {
            let (key, sequence) = (slot.key(parts), slot.order >> 1);
            slot.order & 1 == 0
                && !ranges.iter().any(|(start, end, deleted)| {
                    sequence < *deleted && start.as_slice() <= key && key < end.as_slice()
                })
        });
        self.by_key = HashTable::new();
    }

    /// The rows of one family: keys and values, and where the value begins in its part.
    pub(crate) fn of_family(&self, family: u8) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.slots.iter().filter_map(move |slot| {
            let key = slot.key(&self.parts);
            let start = slot.value_at as usize;
            let value = self.parts.get(slot.part as usize)?.get(start..start + slot.value_len as usize)?;
            (key.get(1) == Some(&family) && key.first() == Some(&key::VERSION)).then_some((key, value))
        })
    }

    /// Each row's key.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.slots.iter().map(|slot| slot.key(&self.parts))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }
}
