//! The rows that logs hold: for each key the change with the highest number counts.
//!
//! Rows of indexes are left out as they come: they repeat what the rows say.

use hashbrown::HashTable;
use xxhash_rust::xxh3::xxh3_64;

use super::lsm::Change;
use crate::c1z::error::Bad;

/// Where a change lies: the key, and behind it the value.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// The number of the change, and whether it is a deletion: see [`Change::order`].
    order: u64,
    part: u32,
    at: u32,
    key_len: u32,
    value_len: u32,
}

impl Slot {
    fn bytes<'a>(&self, parts: &'a [Vec<u8>], start: u32, length: u32) -> &'a [u8] {
        let start = self.at as usize + start as usize;
        parts
            .get(self.part as usize)
            .and_then(|part| part.get(start..start + length as usize))
            .unwrap_or_default()
    }

    fn key<'a>(&self, parts: &'a [Vec<u8>]) -> &'a [u8] {
        self.bytes(parts, 0, self.key_len)
    }
}

/// A key in the table of keys. The hash is kept, because a table that grows asks for it again.
#[derive(Clone, Copy, Debug)]
struct Known {
    hash: u32,
    slot: u32,
}

/// The table wants 64 bits, of which it uses the highest and the lowest.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// One row, or the deletion of one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
    pub(crate) order: u64,
}

/// The rows of all logs.
#[derive(Default)]
pub(crate) struct Memory {
    /// Keys and values of one log each.
    parts: Vec<Vec<u8>>,
    slots: Vec<Slot>,
    by_key: HashTable<Known>,
}

impl Memory {
    /// Begins a log of at most `bytes` bytes, whose changes follow.
    pub(crate) fn begin(&mut self, bytes: usize) {
        // What is not filled is never touched, and costs no memory.
        self.parts.push(Vec::with_capacity(bytes));
    }

    /// Takes a change of the log that was begun last. `at` is where it was said.
    #[inline]
    pub(crate) fn change(
        &mut self,
        at: usize,
        change: Change,
        key: &[u8],
        value: &[u8],
        sequence: u64,
    ) -> Result<(), Bad> {
        let too_large =
            |number: usize| move |_| Bad::too_large(at, "a file", number as u64, u64::from(u32::MAX));
        let number = self.parts.len() - 1;
        let part = &mut self.parts[number];
        let end = part.len() + key.len() + value.len();
        u32::try_from(end).map_err(too_large(end))?;
        let slot = Slot {
            order: change.order(sequence),
            part: number as u32,
            at: part.len() as u32,
            key_len: key.len() as u32,
            value_len: value.len() as u32,
        };
        part.extend_from_slice(key);
        part.extend_from_slice(value);
        let next = self.slots.len();
        let next = u32::try_from(next).map_err(too_large(next))?;
        let (parts, slots) = (&self.parts, &mut self.slots);
        let hash = xxh3_64(key) as u32;
        let same = |known: &Known| known.hash == hash && slots[known.slot as usize].key(parts) == key;
        match self.by_key.find(spread(hash), same) {
            Some(known) => {
                let known = &mut slots[known.slot as usize];
                if known.order < slot.order {
                    *known = slot;
                }
            }
            None => {
                slots.push(slot);
                let known = Known { hash, slot: next };
                self.by_key.insert_unique(spread(hash), known, |known| spread(known.hash));
            }
        }
        Ok(())
    }

    /// Ends the collection. With `sorted`, rows come in the order of their keys from now on.
    pub(crate) fn finish(&mut self, sorted: bool) {
        self.by_key = HashTable::new();
        if sorted {
            let parts = &self.parts;
            self.slots.sort_unstable_by(|a, b| a.key(parts).cmp(b.key(parts)));
        }
    }

    /// How many keys there are, deleted ones among them.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// The row of the key with a number.
    #[inline]
    pub(crate) fn row(&self, number: usize) -> Option<Row<'_>> {
        let slot = self.slots.get(number)?;
        let key = slot.key(&self.parts);
        Some(Row { key, value: slot.bytes(&self.parts, slot.key_len, slot.value_len), order: slot.order })
    }

    /// The number of the first key that is not before `key`, when keys are sorted.
    pub(crate) fn seek(&self, key: &[u8]) -> usize {
        self.slots.partition_point(|slot| slot.key(&self.parts) < key)
    }
}
