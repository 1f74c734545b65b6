//! The block index of a section: for each block its first key, its size in both forms, and its digest.

use std::ops::Range;

use crate::container::bytes::{put_varint, Reader, Wrong};
use crate::container::compress::Codec;
use crate::container::format::{Digest16, Placed};
use crate::limits::{BLOCK_BYTES_MAX, KEY_BYTES_MAX};

/// Bytes of the shortest entry: an empty key, four numbers, a codec, a digest.
const ENTRY_BYTES_MIN: u64 = 21;

/// A block, as the index has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockEntry {
    /// Where the first key lies in the bytes of the index.
    key_at: usize,
    key_len: u32,
    pub(crate) records: u32,
    pub(crate) codec: Codec,
    pub(crate) raw_len: u32,
    pub(crate) stored_len: u32,
    /// Where the stored bytes lie in the file.
    pub(crate) offset: u64,
    pub(crate) digest: Digest16,
}

impl BlockEntry {
    /// Where the stored bytes lie in the file.
    pub(crate) fn range(&self) -> Range<u64> {
        self.offset..self.offset + u64::from(self.stored_len)
    }
}

/// Appends the entry of a block.
pub(crate) fn put_entry(
    out: &mut Vec<u8>,
    first_key: &[u8],
    records: u32,
    codec: Codec,
    stored_len: u32,
    raw_len: u32,
    digest: &Digest16,
) {
    put_varint(out, first_key.len() as u64);
    out.extend_from_slice(first_key);
    put_varint(out, u64::from(records));
    out.push(codec as u8);
    put_varint(out, u64::from(stored_len));
    put_varint(out, u64::from(raw_len));
    out.extend_from_slice(digest);
}

/// An index in memory. Keys stay where they are in its bytes.
#[derive(Debug, Default)]
pub(crate) struct Index {
    bytes: Vec<u8>,
    entries: Vec<BlockEntry>,
}

impl Index {
    /// Takes an index apart, and holds it against what the section table says.
    pub(crate) fn decode(bytes: Vec<u8>, placed: &Placed) -> Result<Self, Wrong> {
        let table = &placed.entry;
        if table.blocks > bytes.len() as u64 / ENTRY_BYTES_MIN {
            return Err("is too short for its blocks");
        }
        let mut entries: Vec<BlockEntry> = Vec::with_capacity(table.blocks as usize);
        let mut reader = Reader::new(&bytes);
        let mut previous: &[u8] = &[];
        let mut offset = placed.blocks.start;
        let (mut records, mut raw_bytes) = (0_u64, 0_u64);
        for number in 0..table.blocks {
            let key_len = reader.bounded(KEY_BYTES_MAX as u64, "holds a key that is too long")? as u32;
            let key_at = reader.at();
            let key = reader.take(key_len as usize)?;
            if number > 0 && key <= previous {
                return Err("holds keys that are not in order");
            }
            previous = key;
            let block_records =
                reader.bounded(u64::from(u32::MAX), "holds a block of too many records")? as u32;
            let codec = Codec::from_byte(reader.byte()?).ok_or("holds a block of an unknown codec")?;
            let too_long = "holds a block that is too long";
            let stored_len = reader.bounded(u64::from(BLOCK_BYTES_MAX), too_long)? as u32;
            let raw_len = reader.bounded(u64::from(BLOCK_BYTES_MAX), too_long)? as u32;
            if stored_len > raw_len || (codec == Codec::Raw && stored_len != raw_len) {
                return Err("holds a block that is longer stored than it is");
            }
            let digest = reader.array()?;
            entries.push(BlockEntry {
                key_at,
                key_len,
                records: block_records,
                codec,
                raw_len,
                stored_len,
                offset,
                digest,
            });
            offset += u64::from(stored_len);
            records += u64::from(block_records);
            raw_bytes += u64::from(raw_len);
        }
        if !reader.is_empty() {
            return Err("is followed by something else");
        }
        if offset != placed.blocks.end || records != table.records || raw_bytes != table.raw_bytes {
            return Err("does not agree with the section table");
        }
        Ok(Self { bytes, entries })
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn get(&self, block: usize) -> Option<&BlockEntry> {
        self.entries.get(block)
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, BlockEntry> {
        self.entries.iter()
    }

    fn key_of(&self, entry: &BlockEntry) -> &[u8] {
        &self.bytes[entry.key_at..entry.key_at + entry.key_len as usize]
    }

    /// The first key of a block, which is in the index.
    pub(crate) fn key(&self, block: usize) -> &[u8] {
        self.key_of(&self.entries[block])
    }

    /// The last block whose first key is not above `key`.
    pub(crate) fn find(&self, key: &[u8]) -> Option<usize> {
        self.entries.partition_point(|entry| self.key_of(entry) <= key).checked_sub(1)
    }
}
