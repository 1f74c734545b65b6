//! Tables: sorted rows in blocks. Those in the row format are read; columnar ones are named for what they are.
//!
//! ```text
//! table  = block* footer
//! block  = content | kind of compression u8 | checksum u32     kinds: 0 none, 1 snappy, 7 zstd behind a varint length
//! footer = checksum kind u8 | metaindex handle | index handle | zeros, 41 bytes in all | version u32 | magic 8 bytes
//!          (the oldest form has no kind, no version, and 40 bytes before its magic)
//! rows   = (shared varint | rest varint | value varint | rest of key | value)* | restart u32 * n | n u32
//! key    = user key | (sequence << 8 | kind) u64
//! handle = offset varint | length varint
//! ```

use zstd::bulk::Decompressor;

use super::block;
use super::deletions::RangeDeletions;
use super::log::masked_crc;
use super::lsm::Change;
use crate::c1z::error::{Bad, EXPORT_ADVICE};
use crate::c1z::limits::BLOCK_BYTES_MAX;
use crate::c1z::wire;

const LEVELDB: [u8; 8] = [0x57, 0xfb, 0x80, 0x8b, 0x24, 0x75, 0x47, 0xdb];
const ROCKSDB: [u8; 8] = [0xf7, 0xcf, 0xf4, 0x85, 0xb7, 0x41, 0xe2, 0x88];
const PEBBLE: [u8; 8] = [0xf0, 0x9f, 0xaa, 0xb3, 0xf0, 0x9f, 0xaa, 0xb3];

/// In which form a table is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TableFormat {
    /// Rows, in the form of the oldest ancestor.
    LevelDb,
    /// Rows, with a kind of checksum.
    RocksDb,
    /// Rows, versions 1 to 4: with properties, then values with a prefix.
    PebbleRows(u32),
    /// Columns, versions 5 to 7.
    PebbleColumns(u32),
}

#[derive(Clone, Copy, Debug)]
struct Handle {
    offset: u64,
    length: u64,
}

impl Handle {
    /// Reads a handle at `*at`, and moves behind it.
    fn read(bytes: &[u8], at: &mut usize) -> Result<Handle, Bad> {
        Ok(Handle { offset: wire::varint(bytes, at)?, length: wire::varint(bytes, at)? })
    }
}

#[derive(Debug)]
struct Footer {
    checksum: u8,
    metaindex: Handle,
    index: Handle,
}

fn footer(bytes: &[u8]) -> Result<(TableFormat, Footer), Bad> {
    let end = bytes.len();
    let short = || Bad::new(end, "a table is shorter than its footer");
    let magic = bytes.last_chunk::<8>().ok_or_else(short)?;
    let version = |bytes: &[u8]| {
        let at = end.checked_sub(12)?;
        bytes.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes)
    };
    let version = version(bytes).ok_or_else(short)?;
    let (format, length, with_kind) = match (*magic, version) {
        (LEVELDB, _) => (TableFormat::LevelDb, 48, false),
        (ROCKSDB, 2) => (TableFormat::RocksDb, 53, true),
        (PEBBLE, 1..=4) => (TableFormat::PebbleRows(version), 53, true),
        (PEBBLE, 5) => (TableFormat::PebbleColumns(version), 53, true),
        (PEBBLE, 6) => (TableFormat::PebbleColumns(version), 57, true),
        (PEBBLE, 7) => (TableFormat::PebbleColumns(version), 61, true),
        (ROCKSDB | PEBBLE, _) => {
            return Err(Bad::new(end - 12, format!("there is no version {version} of tables")))
        }
        _ => return Err(Bad::new(end - 8, "a table without a known magic at its end")),
    };
    let start = end.checked_sub(length).ok_or_else(short)?;
    let footer = &bytes[start..];
    let mut at = usize::from(with_kind);
    let metaindex = Handle::read(footer, &mut at).map_err(|bad| bad.shifted(start))?;
    let index = Handle::read(footer, &mut at).map_err(|bad| bad.shifted(start))?;
    let checksum = if with_kind { footer[0] } else { 1 };
    Ok((format, Footer { checksum, metaindex, index }))
}

/// A table, all of whose blocks are known, and none of whose rows has been read.
pub(crate) struct Table {
    /// What errors call it.
    pub(crate) name: String,
    bytes: Vec<u8>,
    checksum: u8,
    /// Whether a byte before each value says where it lies.
    prefixed: bool,
    /// The number that all rows have, in place of their own.
    sequence: Option<u64>,
    blocks: Vec<DataBlock>,
    /// User keys that lie between blocks, behind each other.
    separators: Vec<u8>,
    values: ValueIndex,
}

/// A block of rows.
#[derive(Clone, Copy, Debug)]
struct DataBlock {
    handle: Handle,
    /// Where its separator lies: no key of the block is behind that, and every key of the next one is.
    separator: (usize, usize),
}

/// The blocks of values that lie apart from their keys.
#[derive(Default)]
struct ValueIndex {
    rows: Vec<u8>,
    /// How many bytes of a row are the number of a block, its offset, and its length.
    widths: [usize; 3],
}

/// What decompressing blocks needs, kept from block to block.
#[derive(Default)]
pub(crate) struct Unpack {
    zstd: Option<Decompressor<'static>>,
}

/// A block of values, kept for the next value.
#[derive(Default)]
pub(crate) struct ValueBlock {
    /// Its number in the table, and its content.
    current: Option<(u64, Vec<u8>)>,
}

/// Opens a table and finds its blocks; takes its range deletions.
///
/// `sequence` replaces the numbers that the rows of the table have.
pub(crate) fn open(
    name: String,
    bytes: Vec<u8>,
    sequence: Option<u64>,
    deletions: &mut RangeDeletions,
) -> Result<Table, Bad> {
    let (format, footer) = footer(&bytes)?;
    let prefixed = match format {
        TableFormat::PebbleColumns(version) => {
            let what = format!("its rows lie in columnar tables (Pebblev{version})");
            return Err(Bad::unsupported(bytes.len() - 8, what, EXPORT_ADVICE));
        }
        TableFormat::PebbleRows(version) => version >= 3,
        TableFormat::LevelDb | TableFormat::RocksDb => false,
    };
    let mut table = Table {
        name,
        bytes,
        checksum: footer.checksum,
        prefixed,
        sequence,
        blocks: Vec::new(),
        separators: Vec::new(),
        values: ValueIndex::default(),
    };
    let mut unpack = Unpack::default();
    let two_levels = table.read_meta(footer.metaindex, &mut unpack, deletions)?;
    table.read_index(footer.index, two_levels, &mut unpack)?;
    Ok(table)
}

impl Table {
    /// A block, verified and decompressed.
    fn unpack(&self, handle: Handle, unpack: &mut Unpack, out: &mut Vec<u8>) -> Result<(), Bad> {
        let at = usize::try_from(handle.offset).unwrap_or(usize::MAX);
        let range = usize::try_from(handle.length).ok().and_then(|length| {
            let end = at.checked_add(length)?;
            (end.checked_add(5)? <= self.bytes.len()).then_some((at..end, end))
        });
        let Some((range, end)) = range else {
            return Err(Bad::new(self.bytes.len(), "a block lies outside its table"));
        };
        let covered = &self.bytes[range.start..end + 1];
        let kind = self.bytes[end];
        let stored = self.bytes[end + 1..end + 5].try_into().map_or(0, u32::from_le_bytes);
        let computed = match self.checksum {
            1 => masked_crc(covered),
            3 => xxhash_rust::xxh64::xxh64(covered, 0) as u32,
            other => return Err(Bad::new(self.bytes.len(), format!("there is no kind {other} of checksum"))),
        };
        if stored != computed {
            return Err(Bad::new(at, "a block of a table does not match its checksum"));
        }
        let content = &self.bytes[range];
        let bounded = |length: u64| {
            if length > BLOCK_BYTES_MAX as u64 {
                return Err(Bad::too_large(at, "a block of a table", length, BLOCK_BYTES_MAX as u64));
            }
            Ok(length as usize)
        };
        let failed = |e: std::io::Error| Bad::new(at, format!("a block does not decompress: {e}"));
        match kind {
            0 => {
                out.clear();
                out.extend_from_slice(content);
            }
            1 => {
                let length = snap::raw::decompress_len(content).map_err(|e| Bad::new(at, e.to_string()))?;
                // What the buffer held before is written over: clearing it first would cost as much again.
                out.resize(bounded(length as u64)?, 0);
                snap::raw::Decoder::new()
                    .decompress(content, out)
                    .map_err(|e| Bad::new(at, e.to_string()))?;
            }
            7 => {
                let mut start = 0;
                let length = bounded(wire::varint(content, &mut start).map_err(|bad| bad.shifted(at))?)?;
                out.resize(length, 0);
                let zstd = match &mut unpack.zstd {
                    Some(zstd) => zstd,
                    None => unpack.zstd.insert(Decompressor::new().map_err(failed)?),
                };
                let decoded =
                    zstd.decompress_to_buffer(&content[start..], out.as_mut_slice()).map_err(failed)?;
                if decoded != length {
                    return Err(Bad::new(at, format!("a block of {length} bytes decompresses to {decoded}")));
                }
            }
            other => {
                return Err(Bad::new(
                    end,
                    format!("there is no kind {other} of compression for tables of rows"),
                ))
            }
        }
        Ok(())
    }

    /// Takes what lies beside the rows, and says whether the index has two levels.
    fn read_meta(
        &mut self,
        metaindex: Handle,
        unpack: &mut Unpack,
        deletions: &mut RangeDeletions,
    ) -> Result<bool, Bad> {
        let mut content = Vec::new();
        self.unpack(metaindex, unpack, &mut content)?;
        let (mut ranges, mut properties, mut values) = (None, None, None);
        block::each(&content, |name, value| {
            let entry = &content[value.clone()];
            let mut at = 0;
            let mut handle = || Handle::read(entry, &mut at).map_err(|bad| bad.shifted(value.start));
            match name {
                b"rocksdb.range_del" | b"rocksdb.range_del2" => ranges = Some(handle()?),
                b"rocksdb.properties" => properties = Some(handle()?),
                b"pebble.value_index" => values = Some((handle()?, entry[at..].to_vec())),
                b"pebble.range_key" => {
                    return Err(Bad::unsupported(0, "keys that stand for ranges", EXPORT_ADVICE));
                }
                // Filters, and what only writers need.
                _ => {}
            }
            Ok(())
        })
        .map_err(|bad| bad.of_block(metaindex))?;
        if let Some((handle, widths)) = values {
            let Ok(widths) = <[u8; 3]>::try_from(widths.as_slice()) else {
                return Err(Bad::new(0, "the handle of the index of values has another length"));
            };
            self.values.widths = widths.map(usize::from);
            if self.values.widths.iter().any(|width| *width > 8) {
                return Err(Bad::new(0, "numbers of more than eight bytes in the index of values"));
            }
            let mut rows = Vec::new();
            self.unpack(handle, unpack, &mut rows)?;
            self.values.rows = rows;
        }
        let mut two_levels = false;
        if let Some(handle) = properties {
            self.unpack(handle, unpack, &mut content)?;
            block::each(&content, |key, value| {
                if key == b"rocksdb.block.based.table.index.type" {
                    two_levels = content[value].first() == Some(&2);
                }
                Ok(())
            })
            .map_err(|bad| bad.of_block(handle))?;
        }
        if let Some(handle) = ranges {
            self.unpack(handle, unpack, &mut content)?;
            block::each(&content, |key, value| {
                let (start, kind, number) = self.parts_of(key, value.start)?;
                if Change::of_kind(kind, value.start)? != Some(Change::DeleteRange) {
                    return Err(Bad::new(value.start, "a row among the range deletions of a table"));
                }
                deletions.push(value.start, start, &content[value], number)
            })
            .map_err(|bad| bad.of_block(handle))?;
        }
        Ok(two_levels)
    }

    fn read_index(&mut self, index: Handle, two_levels: bool, unpack: &mut Unpack) -> Result<(), Bad> {
        let mut content = Vec::new();
        let mut lower = vec![index];
        if two_levels {
            self.unpack(index, unpack, &mut content)?;
            lower.clear();
            block::each(&content, |_, value| {
                lower.push(Handle::read(&content[value.clone()], &mut 0)?);
                Ok(())
            })
            .map_err(|bad| bad.of_block(index))?;
        }
        for index in lower {
            self.unpack(index, unpack, &mut content)?;
            let (separators, blocks) = (&mut self.separators, &mut self.blocks);
            block::each(&content, |key, value| {
                // What follows a handle are properties.
                let handle = Handle::read(&content[value.clone()], &mut 0)?;
                let Some((key, _)) = key.split_last_chunk::<8>() else {
                    return Err(Bad::new(value.start, "a key of an index is shorter than its trailer"));
                };
                let start = separators.len();
                let before = blocks
                    .last()
                    .and_then(|block: &DataBlock| separators.get(block.separator.0..block.separator.1));
                if before.is_some_and(|before| before > key) {
                    return Err(Bad::new(value.start, "the keys of an index are out of order"));
                }
                separators.extend_from_slice(key);
                blocks.push(DataBlock { handle, separator: (start, separators.len()) });
                Ok(())
            })
            .map_err(|bad| bad.of_block(index))?;
        }
        Ok(())
    }

    /// How many blocks of rows there are.
    pub(crate) fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// Where a block of rows begins in the table, in bytes.
    pub(crate) fn offset(&self, number: usize) -> u64 {
        self.blocks.get(number).map_or(0, |block| block.handle.offset)
    }

    /// A key that no key of the block with a number is behind, and that every key of the next one is.
    pub(crate) fn separator(&self, number: usize) -> &[u8] {
        let found = self.blocks.get(number).and_then(|block| {
            let (start, end) = block.separator;
            self.separators.get(start..end)
        });
        found.unwrap_or_default()
    }

    /// The number of the first block that can hold `key` or one behind it.
    pub(crate) fn seek(&self, key: &[u8]) -> usize {
        self.blocks.partition_point(|block| &self.separators[block.separator.0..block.separator.1] < key)
    }

    /// A block of rows, verified and decompressed into `out`.
    pub(crate) fn read(&self, number: usize, unpack: &mut Unpack, out: &mut Vec<u8>) -> Result<(), Bad> {
        match self.blocks.get(number) {
            Some(block) => self.unpack(block.handle, unpack, out),
            None => Err(Bad::new(self.bytes.len(), "a block lies outside its table")),
        }
    }

    /// The user key, the kind and the number of a change, all of which its key holds.
    #[inline]
    pub(crate) fn parts_of<'a>(&self, key: &'a [u8], at: usize) -> Result<(&'a [u8], u8, u64), Bad> {
        let Some((user_key, trailer)) = key.split_last_chunk::<8>() else {
            return Err(Bad::new(at, "a key of a table is shorter than its trailer"));
        };
        let trailer = u64::from_le_bytes(*trailer);
        // One bit says that a newer row of the same table hides this one: its number says so too.
        Ok((user_key, trailer as u8 & !0x40, self.sequence.unwrap_or(trailer >> 8)))
    }

    /// Where a value lies that is stored as `stored` at `at` with a key of the kind `kind`.
    #[inline]
    pub(crate) fn place_of(&self, kind: u8, stored: &[u8], at: usize) -> Result<Place, Bad> {
        // Only plain sets have a prefix.
        if !self.prefixed || kind != 1 {
            return Ok(Place::Here { skip: 0 });
        }
        match stored.first() {
            Some(prefix) => match prefix >> 6 {
                0 => Ok(Place::Here { skip: 1 }),
                2 => Ok(Place::Apart),
                _ => Err(Bad::unsupported(at, "values in files of their own", EXPORT_ADVICE)),
            },
            None => Err(Bad::new(at, "a value without the byte that says where it lies")),
        }
    }

    /// Puts a value that lies in a block of values into `out`. `handle` stands behind the prefix in its place.
    pub(crate) fn value_apart(
        &self,
        handle: &[u8],
        block: &mut ValueBlock,
        unpack: &mut Unpack,
        out: &mut Vec<u8>,
    ) -> Result<(), Bad> {
        let mut at = 0;
        let length = wire::varint(handle, &mut at)?;
        let number = wire::varint(handle, &mut at)?;
        let offset = wire::varint(handle, &mut at)?;
        if block.current.as_ref().is_none_or(|(current, _)| *current != number) {
            let width: usize = self.values.widths.iter().sum();
            let row = usize::try_from(number).ok().and_then(|number| number.checked_mul(width));
            let row = row.and_then(|start| self.values.rows.get(start..start.checked_add(width)?));
            let Some(row) = row.filter(|_| width > 0) else {
                return Err(Bad::new(0, "a value lies in a block that is not there"));
            };
            let integer =
                |bytes: &[u8]| bytes.iter().rev().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
            let [numbers, offsets, lengths] = self.values.widths;
            let handle = Handle {
                offset: integer(&row[numbers..numbers + offsets]),
                length: integer(&row[numbers + offsets..numbers + offsets + lengths]),
            };
            let mut content = block.current.take().map(|(_, content)| content).unwrap_or_default();
            self.unpack(handle, unpack, &mut content)?;
            block.current = Some((number, content));
        }
        let content = block.current.as_ref().map(|(_, content)| content.as_slice()).unwrap_or_default();
        let range = usize::try_from(offset).ok().and_then(|start| {
            let end = start.checked_add(usize::try_from(length).ok()?)?;
            content.get(start..end)
        });
        let Some(value) = range else { return Err(Bad::new(0, "a value lies outside its block")) };
        out.clear();
        out.extend_from_slice(value);
        Ok(())
    }
}

/// Where a value lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// With its key, behind a prefix of so many bytes.
    Here { skip: usize },
    /// In a block of values.
    Apart,
}

impl Bad {
    /// The same, found in the decompressed block that lies at `handle`: the offset is that of the block.
    fn of_block(self, handle: Handle) -> Bad {
        Bad { at: handle.offset, ..self }
    }
}
