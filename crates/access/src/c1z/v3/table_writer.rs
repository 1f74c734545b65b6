//! Writes tables in the row format: sorted rows in compressed blocks, an index of the blocks, properties, a footer.
//!
//! The rows of a table are laid out in blocks first ([`RawTable`]); compressing them and what follows needs nothing but
//! that, so that another thread can do it. The bytes are described in [`super::table`], which reads them.

use zstd::bulk::Compressor;

use super::block_writer::{self, BlockWriter};
use super::edit::COMPARER;
use super::log::masked_crc;
use crate::c1z::wire::put_varint;

/// How long a block of rows grows, in bytes, before compression: long enough that rows compress well, and short enough
/// that reading one row does not cost reading hundreds.
pub(crate) const BLOCK_BYTES: usize = 32 << 10;

/// What follows each key: the sequence number 0, which rows have that are older than all that may be written later, and
/// the kind of change, a set.
const TRAILER: [u8; 8] = [1, 0, 0, 0, 0, 0, 0, 0];

/// The oldest version of tables that readers of the ecosystem take: it has no properties of blocks, no values apart.
const VERSION: u32 = 1;
const MAGIC: [u8; 8] = [0xf0, 0x9f, 0xaa, 0xb3, 0xf0, 0x9f, 0xaa, 0xb3];
const FOOTER: usize = 53;

/// The kinds of checksum and compression that are written.
const CRC32C: u8 = 1;
const PLAIN: u8 = 0;
const ZSTD: u8 = 7;

/// Rows of a table, in blocks that are not compressed yet.
#[derive(Debug, Default)]
pub(crate) struct RawTable {
    pub(crate) number: u64,
    blocks: Vec<u8>,
    /// Where each block ends, and where its last key does in `keys`.
    ends: Vec<(usize, usize)>,
    keys: Vec<u8>,
    smallest: Vec<u8>,
    rows: u64,
    key_bytes: u64,
    value_bytes: u64,
}

impl RawTable {
    /// The table with the number that its file has.
    pub(crate) fn numbered(self, number: u64) -> RawTable {
        RawTable { number, ..self }
    }

    /// Forgets all rows, and keeps the room they took.
    pub(crate) fn clear(&mut self) {
        let RawTable { mut blocks, mut ends, mut keys, mut smallest, .. } = std::mem::take(self);
        blocks.clear();
        ends.clear();
        keys.clear();
        smallest.clear();
        *self = RawTable { blocks, ends, keys, smallest, ..RawTable::default() };
    }

    /// How long all its blocks are.
    pub(crate) fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Adds a row, whose key comes after all others.
    #[inline]
    pub(crate) fn add(&mut self, block: &mut BlockWriter, key: &[u8], value: &[u8]) {
        if self.rows == 0 {
            self.smallest.extend_from_slice(key);
            self.smallest.extend_from_slice(&TRAILER);
        }
        block.add(&mut self.blocks, key, &TRAILER, value);
        self.rows += 1;
        self.key_bytes += (key.len() + TRAILER.len()) as u64;
        self.value_bytes += value.len() as u64;
        if block.len(&self.blocks) >= BLOCK_BYTES {
            self.end_block(block);
        }
    }

    /// Ends the block that is being filled, if there is one.
    pub(crate) fn end_block(&mut self, block: &mut BlockWriter) {
        if block.is_empty() {
            return;
        }
        self.keys.extend_from_slice(block.last());
        self.keys.extend_from_slice(&TRAILER);
        block.finish(&mut self.blocks);
        self.ends.push((self.blocks.len(), self.keys.len()));
    }

    /// The first key and the last one, with their trailers.
    pub(crate) fn bounds(&self) -> (&[u8], &[u8]) {
        let last = self.ends.len().checked_sub(2).map_or(0, |before| self.ends[before].1);
        (&self.smallest, &self.keys[last..])
    }
}

/// Compresses blocks, and has room to do it in.
pub(crate) struct TableWriter {
    compressor: Compressor<'static>,
    room: Vec<u8>,
}

impl TableWriter {
    pub(crate) fn new(level: i32) -> std::io::Result<TableWriter> {
        Ok(TableWriter { compressor: Compressor::new(level)?, room: Vec::new() })
    }

    /// Writes a table at the beginning of `out`, which is empty.
    pub(crate) fn write(&mut self, table: &RawTable, out: &mut Vec<u8>) -> std::io::Result<()> {
        let (mut index, mut entries) = (BlockWriter::new(block_writer::INDEX_INTERVAL), Vec::new());
        let (mut start, mut key) = (0, 0);
        for (end, key_end) in &table.ends {
            let handle = self.block(&table.blocks[start..*end], out)?;
            index.add(&mut entries, &table.keys[key..*key_end], &[], &handle);
            (start, key) = (*end, *key_end);
        }
        let data_bytes = out.len() as u64;
        index.finish(&mut entries);
        let index = self.block(&entries, out)?;
        let properties = properties(table, data_bytes, out.len() as u64 - data_bytes);
        let properties = self.block(&properties, out)?;
        let (mut meta, mut entries) = (BlockWriter::new(block_writer::INDEX_INTERVAL), Vec::new());
        meta.add(&mut entries, b"rocksdb.properties", &[], &properties);
        meta.finish(&mut entries);
        let meta = self.block(&entries, out)?;

        let footer = out.len();
        out.push(CRC32C);
        out.extend_from_slice(&meta);
        out.extend_from_slice(&index);
        out.resize(footer + FOOTER - MAGIC.len() - 4, 0);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&MAGIC);
        Ok(())
    }

    /// Appends a block, compressed if that makes it shorter by an eighth, and gives its handle.
    fn block(&mut self, content: &[u8], out: &mut Vec<u8>) -> std::io::Result<Vec<u8>> {
        let bound = zstd::zstd_safe::compress_bound(content.len());
        if self.room.len() < bound {
            self.room.resize(bound, 0);
        }
        let length = self.compressor.compress_to_buffer(content, self.room.as_mut_slice())?;
        let start = out.len();
        if length < content.len() - content.len() / 8 {
            put_varint(out, content.len() as u64);
            out.extend_from_slice(&self.room[..length]);
            out.push(ZSTD);
        } else {
            out.extend_from_slice(content);
            out.push(PLAIN);
        }
        let mut handle = Vec::with_capacity(20);
        put_varint(&mut handle, start as u64);
        put_varint(&mut handle, (out.len() - start - 1) as u64);
        let checksum = masked_crc(&out[start..]);
        out.extend_from_slice(&checksum.to_le_bytes());
        Ok(handle)
    }
}

/// What readers want to know of a table before they read its rows.
fn properties(table: &RawTable, data_bytes: u64, index_bytes: u64) -> Vec<u8> {
    let number = |value: u64| {
        let mut out = Vec::with_capacity(10);
        put_varint(&mut out, value);
        out
    };
    // In the order of their names.
    let all = [
        ("rocksdb.block.based.table.index.type", 0_u32.to_le_bytes().to_vec()),
        ("rocksdb.comparator", COMPARER.as_bytes().to_vec()),
        ("rocksdb.compression", b"ZSTD".to_vec()),
        ("rocksdb.data.size", number(data_bytes)),
        ("rocksdb.deleted.keys", number(0)),
        ("rocksdb.filter.size", number(0)),
        ("rocksdb.index.size", number(index_bytes)),
        ("rocksdb.merge.operands", number(0)),
        ("rocksdb.num.data.blocks", number(table.ends.len() as u64)),
        ("rocksdb.num.entries", number(table.rows)),
        ("rocksdb.num.range-deletions", number(0)),
        ("rocksdb.raw.key.size", number(table.key_bytes)),
        ("rocksdb.raw.value.size", number(table.value_bytes)),
    ];
    let (mut block, mut out) = (BlockWriter::new(block_writer::PROPERTIES_INTERVAL), Vec::new());
    for (name, value) in all {
        block.add(&mut out, name.as_bytes(), &[], &value);
    }
    block.finish(&mut out);
    out
}

#[cfg(test)]
#[path = "table_writer/tests.rs"]
mod tests;
