//! All rows but grants, which are few and of every shape: kept by key until they are written in order.

use super::values::{Place, Values};
use crate::c1z::error::C1zError;

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Where its key lies, and behind that the key of an index if it has one.
    at: usize,
    key_length: u32,
    index_length: u32,
    value: Place,
}

/// Rows by key; of several with one key the last one counts.
#[derive(Debug, Default)]
pub(crate) struct Records {
    keys: Vec<u8>,
    entries: Vec<Entry>,
}

impl Records {
    /// Adds a row. By `index` readers find it too, unless that is empty.
    pub(crate) fn push(&mut self, key: &[u8], index: &[u8], value: Place) {
        let at = self.keys.len();
        self.keys.extend_from_slice(key);
        self.keys.extend_from_slice(index);
        // Keys are made of a few ids, which are short.
        let (key_length, index_length) = (key.len() as u32, index.len() as u32);
        self.entries.push(Entry { at, key_length, index_length, value });
    }

    fn key(&self, entry: &Entry) -> &[u8] {
        &self.keys[entry.at..entry.at + entry.key_length as usize]
    }

    fn index(&self, entry: &Entry) -> &[u8] {
        let at = entry.at + entry.key_length as usize;
        &self.keys[at..at + entry.index_length as usize]
    }

    /// Puts the rows in the order of their keys, of each key the last one.
    pub(crate) fn sort(&mut self) {
        let mut entries = std::mem::take(&mut self.entries);
        entries.sort_by(|a, b| self.key(a).cmp(self.key(b)));
        entries.reverse();
        entries.dedup_by(|earlier, last| self.key(earlier) == self.key(last));
        entries.reverse();
        self.entries = entries;
    }

    /// Calls `visit` with key and value of the rows whose keys lie from `from` to before `to`, once they are sorted.
    pub(crate) fn each(
        &self,
        values: &Values,
        (from, to): (&[u8], &[u8]),
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<(), C1zError>,
    ) -> Result<(), C1zError> {
        let start = self.entries.partition_point(|entry| self.key(entry) < from);
        let mut value = Vec::new();
        for entry in self.entries[start..].iter().take_while(|entry| self.key(entry) < to) {
            value.clear();
            values.read(entry.value, &mut value)?;
            visit(self.key(entry), &value)?;
        }
        Ok(())
    }

    /// The keys of indexes that the rows have, in order.
    pub(crate) fn indexes(&self) -> Vec<&[u8]> {
        let mut keys: Vec<&[u8]> =
            self.entries.iter().map(|entry| self.index(entry)).filter(|key| !key.is_empty()).collect();
        keys.sort_unstable();
        keys
    }
}
