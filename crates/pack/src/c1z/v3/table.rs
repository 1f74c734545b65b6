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

use super::log::masked_crc;
use super::lsm::{Change, Rows};
use crate::c1z::error::{Bad, EXPORT_ADVICE};
use crate::c1z::limits::{BLOCK_BYTES_MAX, KEY_BYTES_MAX, VALUE_BYTES_MAX};
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

/// A reader of one form of tables. A reader of columnar ones would be a second implementation.
pub(crate) trait ReadTable {
    /// Puts all changes of the table into `rows`. `sequence` replaces the numbers that the table has.
    fn read(&self, sequence: Option<u64>, rows: &mut Rows) -> Result<(), Bad>;
}

/// Finds out in which form a table is, and the reader for it.
pub(crate) fn open(bytes: &[u8]) -> Result<Box<dyn ReadTable + '_>, Bad> {
    let (format, footer) = footer(bytes)?;
    match format {
        TableFormat::PebbleColumns(version) => {
            let what = format!("its rows lie in columnar tables (Pebblev{version})");
            Err(Bad::unsupported(bytes.len() - 8, what, EXPORT_ADVICE))
        }
        TableFormat::PebbleRows(version) if version >= 3 => {
            Ok(Box::new(RowTable { bytes, footer, prefixed: true }))
        }
        _ => Ok(Box::new(RowTable { bytes, footer, prefixed: false })),
    }
}

#[derive(Clone, Copy, Debug)]
struct Handle {
    offset: u64,
    length: u64,
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
    let mut handle = || -> Result<Handle, Bad> {
        let (offset, length) = (wire::varint(footer, &mut at)?, wire::varint(footer, &mut at)?);
        Ok(Handle { offset, length })
    };
    let metaindex = handle().map_err(|bad| bad.shifted(start))?;
    let index = handle().map_err(|bad| bad.shifted(start))?;
    let checksum = if with_kind { footer[0] } else { 1 };
    Ok((format, Footer { checksum, metaindex, index }))
}

struct RowTable<'a> {
    bytes: &'a [u8],
    footer: Footer,
    /// Whether a byte before each value says where it lies.
    prefixed: bool,
}

/// Blocks of values that lie apart from their keys.
#[derive(Default)]
struct Values {
    index: Vec<u8>,
    widths: [usize; 3],
    /// The block that was read last.
    current: Option<(u64, Vec<u8>)>,
}

impl RowTable<'_> {
    /// A block, verified and decompressed.
    fn block(&self, handle: Handle, out: &mut Vec<u8>) -> Result<(), Bad> {
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
        let computed = match self.footer.checksum {
            1 => masked_crc(covered),
            3 => xxhash_rust::xxh64::xxh64(covered, 0) as u32,
            other => return Err(Bad::new(self.bytes.len(), format!("there is no kind {other} of checksum"))),
        };
        if stored != computed {
            return Err(Bad::new(at, "a block of a table does not match its checksum"));
        }
        let content = &self.bytes[range];
        out.clear();
        let bounded = |length: u64| {
            if length > BLOCK_BYTES_MAX as u64 {
                return Err(Bad::too_large(at, "a block of a table", length, BLOCK_BYTES_MAX as u64));
            }
            Ok(length as usize)
        };
        match kind {
            0 => out.extend_from_slice(content),
            1 => {
                let length = snap::raw::decompress_len(content).map_err(|e| Bad::new(at, e.to_string()))?;
                out.resize(bounded(length as u64)?, 0);
                snap::raw::Decoder::new()
                    .decompress(content, out)
                    .map_err(|e| Bad::new(at, e.to_string()))?;
            }
            7 => {
                let mut start = 0;
                let length = bounded(wire::varint(content, &mut start).map_err(|bad| bad.shifted(at))?)?;
                out.resize(length, 0);
                let decoded = zstd::bulk::decompress_to_buffer(&content[start..], out.as_mut_slice());
                let decoded =
                    decoded.map_err(|e| Bad::new(at, format!("a block does not decompress: {e}")))?;
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

    /// Calls `visit` with key and value of each row of a block, and where the row begins.
    fn rows(
        block: &[u8],
        mut visit: impl FnMut(&[u8], std::ops::Range<usize>) -> Result<(), Bad>,
    ) -> Result<(), Bad> {
        let restarts = block.last_chunk::<4>().map(|bytes| u32::from_le_bytes(*bytes) as usize);
        let end = restarts.and_then(|count| block.len().checked_sub(count.checked_mul(4)?.checked_add(4)?));
        let Some(end) = end else {
            return Err(Bad::new(block.len(), "a block ends within its restart points"));
        };
        let rows = &block[..end];
        let (mut at, mut key) = (0, Vec::new());
        while at < end {
            let start = at;
            let shared = wire::varint(rows, &mut at)?;
            let rest = wire::varint(rows, &mut at)?;
            let value = wire::varint(rows, &mut at)?;
            if shared > key.len() as u64
                || shared + rest > KEY_BYTES_MAX as u64 + 8
                || value > VALUE_BYTES_MAX as u64
            {
                return Err(Bad::new(start, "a row of a table has impossible lengths"));
            }
            key.truncate(shared as usize);
            let value_at = at + rest as usize;
            let value_end = value_at + value as usize;
            if value_end > end {
                return Err(Bad::new(start, "a row of a table is longer than its block"));
            }
            key.extend_from_slice(&rows[at..value_at]);
            visit(&key, value_at..value_end)?;
            at = value_end;
        }
        Ok(())
    }

    /// The handles in an index block. What follows a handle are properties.
    fn handles(&self, handle: Handle) -> Result<Vec<Handle>, Bad> {
        let (mut block, mut found) = (Vec::new(), Vec::new());
        self.block(handle, &mut block)?;
        Self::rows(&block, |_, value| {
            let mut at = value.start;
            let (offset, length) = (wire::varint(&block, &mut at)?, wire::varint(&block, &mut at)?);
            found.push(Handle { offset, length });
            Ok(())
        })?;
        Ok(found)
    }

    /// Takes the rows of a block of data or of range deletions.
    fn take(
        &self,
        block: &[u8],
        sequence: Option<u64>,
        values: Option<&mut Values>,
        rows: &mut Rows,
    ) -> Result<(), Bad> {
        let mut values = values;
        Self::rows(block, |key, value| {
            let Some((user_key, trailer)) = key.split_last_chunk::<8>() else {
                return Err(Bad::new(value.start, "a key of a table is shorter than its trailer"));
            };
            let trailer = u64::from_le_bytes(*trailer);
            // One bit says that a newer row of the same table hides this one: its number says so too.
            let kind = trailer as u8 & !0x40;
            let Some(change) = Change::of_kind(kind, value.start)? else { return Ok(()) };
            let number = sequence.unwrap_or(trailer >> 8);
            let part = rows.current();
            let start = part.len();
            part.extend_from_slice(user_key);
            let key_range = start..part.len();
            let stored = &block[value];
            // Only plain sets have a prefix.
            match (stored.split_first(), &mut values) {
                (Some((prefix, rest)), Some(values)) if self.prefixed && kind == 1 => match prefix >> 6 {
                    0 => part.extend_from_slice(rest),
                    2 => self.value_apart(rest, values, part)?,
                    _ => {
                        return Err(Bad::unsupported(0, "values in files of their own", EXPORT_ADVICE));
                    }
                },
                (None, Some(_)) if self.prefixed && kind == 1 => {
                    return Err(Bad::new(0, "a value without the byte that says where it lies"));
                }
                _ => part.extend_from_slice(stored),
            }
            let value_range = key_range.end..part.len();
            rows.change(change, key_range, value_range, number)
        })
    }

    /// Appends a value that lies in a block of values.
    fn value_apart(&self, handle: &[u8], values: &mut Values, out: &mut Vec<u8>) -> Result<(), Bad> {
        let mut at = 0;
        let length = wire::varint(handle, &mut at)?;
        let number = wire::varint(handle, &mut at)?;
        let offset = wire::varint(handle, &mut at)?;
        if values.current.as_ref().is_none_or(|(current, _)| *current != number) {
            let width: usize = values.widths.iter().sum();
            let row = usize::try_from(number).ok().and_then(|number| number.checked_mul(width));
            let row = row.and_then(|start| values.index.get(start..start + width));
            let Some(row) = row.filter(|_| width > 0) else {
                return Err(Bad::new(0, "a value lies in a block that is not there"));
            };
            let integer =
                |bytes: &[u8]| bytes.iter().rev().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
            let [numbers, offsets, lengths] = values.widths;
            let block = Handle {
                offset: integer(&row[numbers..numbers + offsets]),
                length: integer(&row[numbers + offsets..numbers + offsets + lengths]),
            };
            let mut content = values.current.take().map(|(_, content)| content).unwrap_or_default();
            self.block(block, &mut content)?;
            values.current = Some((number, content));
        }
        let content = values.current.as_ref().map(|(_, content)| content.as_slice()).unwrap_or_default();
        let range = usize::try_from(offset).ok().and_then(|start| {
            let end = start.checked_add(usize::try_from(length).ok()?)?;
            content.get(start..end)
        });
        let Some(value) = range else { return Err(Bad::new(0, "a value lies outside its block")) };
        out.extend_from_slice(value);
        Ok(())
    }

    fn values(&self, entry: &[u8]) -> Result<Values, Bad> {
        let mut at = 0;
        let handle = Handle { offset: wire::varint(entry, &mut at)?, length: wire::varint(entry, &mut at)? };
        let Some([numbers, offsets, lengths]) =
            entry.get(at..).and_then(|rest| <[u8; 3]>::try_from(rest).ok())
        else {
            return Err(Bad::new(0, "the handle of the index of values has another length"));
        };
        let widths = [numbers, offsets, lengths].map(usize::from);
        if widths.iter().any(|width| *width > 8) {
            return Err(Bad::new(0, "numbers of more than eight bytes in the index of values"));
        }
        let mut values = Values { widths, ..Values::default() };
        self.block(handle, &mut values.index)?;
        Ok(values)
    }
}

impl ReadTable for RowTable<'_> {
    fn read(&self, sequence: Option<u64>, rows: &mut Rows) -> Result<(), Bad> {
        let mut block = Vec::new();
        self.block(self.footer.metaindex, &mut block)?;
        let (mut values, mut deletions, mut two_levels) = (Values::default(), None, false);
        let mut properties = None;
        let mut metas = Vec::new();
        Self::rows(&block, |key, value| {
            metas.push((key.to_vec(), value));
            Ok(())
        })?;
        for (name, value) in metas {
            let entry = &block[value];
            let mut at = 0;
            let mut handle = || -> Result<Handle, Bad> {
                Ok(Handle { offset: wire::varint(entry, &mut at)?, length: wire::varint(entry, &mut at)? })
            };
            match name.as_slice() {
                b"rocksdb.range_del" | b"rocksdb.range_del2" => deletions = Some(handle()?),
                b"rocksdb.properties" => properties = Some(handle()?),
                b"pebble.value_index" => values = self.values(entry)?,
                b"pebble.range_key" => {
                    return Err(Bad::unsupported(0, "keys that stand for ranges", EXPORT_ADVICE));
                }
                // Filters, and what only writers need.
                _ => {}
            }
        }
        if let Some(handle) = properties {
            self.block(handle, &mut block)?;
            Self::rows(&block, |key, value| {
                if key == b"rocksdb.block.based.table.index.type" {
                    two_levels = block[value].first() == Some(&2);
                }
                Ok(())
            })?;
        }
        if let Some(handle) = deletions {
            self.block(handle, &mut block)?;
            let block = block.as_slice();
            self.take(block, sequence, None, rows)?;
        }
        let mut handles = self.handles(self.footer.index)?;
        if two_levels {
            let lower = std::mem::take(&mut handles);
            for handle in lower {
                handles.extend(self.handles(handle)?);
            }
        }
        for handle in handles {
            self.block(handle, &mut block)?;
            self.take(&block, sequence, Some(&mut values), rows)
                .map_err(|bad| Bad { at: handle.offset, ..bad })?;
        }
        Ok(())
    }
}
