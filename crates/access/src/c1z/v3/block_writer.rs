//! Writing blocks of rows: each key without what it shares with the one before, and at the end where keys stand whole.
//!
//! ```text
//! block = (shared varint | rest varint | value varint | rest of key | value)* | restart u32 * n | n u32
//! ```

use crate::c1z::wire::put_varint;

/// How many rows of a data block come from one whole key to the next.
pub(crate) const DATA_INTERVAL: u32 = 16;
/// Keys of an index are searched, so each stands whole.
pub(crate) const INDEX_INTERVAL: u32 = 1;
/// Properties are read from front to back.
pub(crate) const PROPERTIES_INTERVAL: u32 = u32::MAX;

/// Writes one block after another at the end of a buffer.
#[derive(Debug, Default)]
pub(crate) struct BlockWriter {
    interval: u32,
    /// How many rows come before the next whole key.
    left: u32,
    start: usize,
    restarts: Vec<u32>,
    last: Vec<u8>,
}

impl BlockWriter {
    /// Blocks in which a whole key stands every `interval` rows.
    pub(crate) fn new(interval: u32) -> BlockWriter {
        BlockWriter { interval, ..BlockWriter::default() }
    }

    /// Adds a row: its key is `key` and then `trailer`. The first one of a block begins it at the end of `out`.
    #[inline]
    pub(crate) fn add(&mut self, out: &mut Vec<u8>, key: &[u8], trailer: &[u8], value: &[u8]) {
        if self.restarts.is_empty() {
            self.start = out.len();
        }
        let mut shared = 0;
        if self.left == 0 {
            self.left = self.interval;
            self.restarts.push((out.len() - self.start) as u32);
        } else {
            shared = shared_prefix(&self.last, key);
        }
        self.left -= 1;
        let rest = &key[shared..];
        put_varint(out, shared as u64);
        put_varint(out, (rest.len() + trailer.len()) as u64);
        put_varint(out, value.len() as u64);
        out.extend_from_slice(rest);
        out.extend_from_slice(trailer);
        out.extend_from_slice(value);
        self.last.truncate(shared);
        self.last.extend_from_slice(rest);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.restarts.is_empty()
    }

    /// How long the rows of the block are, when `out` is what they are in.
    pub(crate) fn len(&self, out: &[u8]) -> usize {
        if self.is_empty() {
            0
        } else {
            out.len() - self.start
        }
    }

    /// The key that was added last, without its trailer.
    pub(crate) fn last(&self) -> &[u8] {
        &self.last
    }

    /// Ends the block, which has rows.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) {
        for restart in &self.restarts {
            out.extend_from_slice(&restart.to_le_bytes());
        }
        out.extend_from_slice(&(self.restarts.len() as u32).to_le_bytes());
        self.restarts.clear();
        self.last.clear();
        self.left = 0;
    }
}

/// How many bytes two keys begin with in common.
#[inline]
fn shared_prefix(a: &[u8], b: &[u8]) -> usize {
    let mut shared = 0;
    for (a, b) in a.chunks_exact(8).zip(b.chunks_exact(8)) {
        let number = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
        let different = number(a) ^ number(b);
        if different != 0 {
            return shared + different.trailing_zeros() as usize / 8;
        }
        shared += 8;
    }
    shared + a[shared..].iter().zip(&b[shared..]).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
#[path = "block_writer/tests.rs"]
mod tests;
