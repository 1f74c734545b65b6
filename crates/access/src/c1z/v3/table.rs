//! Tables: sorted rows in blocks, which are rows that lean on each other, or columns.
//!
//! ```text
//! table  = block* footer
//! rows   = (shared varint | rest varint | value varint | rest of key | value)* | restart u32 * n | n u32
//! key    = user key | (sequence << 8 | kind) u64
//! ```
//! A file of rows stands for a table, or for several: each of these shows the rows between two bounds, with a prefix before
//! each key perhaps.

use std::sync::Arc;

use super::deletions::RangeDeletions;
use super::footer::{self, Handle, TableFormat};
use super::lsm::Change;
use super::unpack::Unpack;
use super::{block, column_block};
use crate::c1z::error::{Bad, EXPORT_ADVICE};
use crate::c1z::limits::RANGE_DELETIONS_MAX;
use crate::c1z::wire;

/// A file of rows, all of whose blocks are known, and none of whose rows has been read.
pub(crate) struct Backing {
    bytes: Vec<u8>,
    checksum: u8,
    format: TableFormat,
    blocks: Vec<DataBlock>,
    /// User keys that lie between blocks, behind each other.
    separators: Vec<u8>,
    values: ValueIndex,
    /// First key, key behind the last, and number of each range deletion.
    deletions: Vec<(Vec<u8>, Vec<u8>, u64)>,
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

/// A block of values, kept for the next value.
#[derive(Default)]
pub(crate) struct ValueBlock {
    /// Its number in the table, and its content.
    current: Option<(u64, Vec<u8>)>,
}

/// The rows of a file that a table shows, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct View {
    /// The number that all rows have, in place of their own.
    pub(crate) sequence: Option<u64>,
    /// The first key and the last one that are shown, where they are not those of the file.
    pub(crate) bounds: Option<Bounds>,
    /// What stands before each key, and in the place of its suffix.
    pub(crate) prefix: Vec<u8>,
    pub(crate) suffix: Vec<u8>,
}

/// Keys from one to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) first: Vec<u8>,
    pub(crate) last: Vec<u8>,
    /// Whether `last` is not shown itself.
    pub(crate) is_open: bool,
}

impl Bounds {
    /// Whether `key` lies behind the last key.
    pub(crate) fn end_before(&self, key: &[u8]) -> bool {
        if self.is_open {
            key >= self.last.as_slice()
        } else {
            key > self.last.as_slice()
        }
    }
}

/// A table: what is shown of a file of rows.
#[derive(Clone)]
pub(crate) struct Table {
    /// What errors call it.
    pub(crate) name: String,
    backing: Arc<Backing>,
    pub(crate) view: View,
    /// Between which keys those of the table lie, as the MANIFEST says. None: nobody says.
    pub(crate) keys: Option<Bounds>,
}

/// Opens a file of rows, and finds its blocks.
pub(crate) fn open(bytes: Vec<u8>) -> Result<Backing, Bad> {
    let footer = footer::read(&bytes)?;
    let mut backing = Backing {
        bytes,
        checksum: footer.checksum,
        format: footer.format,
        blocks: Vec::new(),
        separators: Vec::new(),
        values: ValueIndex::default(),
        deletions: Vec::new(),
    };
    let mut unpack = Unpack::default();
    let two_levels = backing.read_meta(footer.metaindex, &mut unpack)? || footer.two_levels;
    backing.read_index(footer.index, two_levels, &mut unpack)?;
    Ok(backing)
}

impl Backing {
    fn unpack(&self, handle: Handle, unpack: &mut Unpack, out: &mut Vec<u8>) -> Result<(), Bad> {
        unpack.block(&self.bytes, self.checksum, handle, out)
    }

    /// Takes what lies beside the rows, and says whether the index has two levels.
    fn read_meta(&mut self, metaindex: Handle, unpack: &mut Unpack) -> Result<bool, Bad> {
        let mut content = Vec::new();
        self.unpack(metaindex, unpack, &mut content)?;
        let (mut ranges, mut properties, mut values) = (None, None, None);
        each_name(&content, self.format.has_columnar_names(), |name, value| {
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
            each_name(&content, self.format.has_columnar_properties(), |key, value| {
                if key == b"rocksdb.block.based.table.index.type" {
                    two_levels = content[value].first() == Some(&2);
                }
                Ok(())
            })
            .map_err(|bad| bad.of_block(handle))?;
        }
        if let Some(handle) = ranges {
            self.unpack(handle, unpack, &mut content)?;
            self.read_deletions(&content).map_err(|bad| bad.of_block(handle))?;
        }
        Ok(two_levels)
    }

    fn read_deletions(&mut self, content: &[u8]) -> Result<(), Bad> {
        let deletions = &mut self.deletions;
        let mut push = |at: usize, start: &[u8], end: &[u8], trailer: u64| {
            if Change::of_kind(trailer as u8, at)? != Some(Change::DeleteRange) {
                return Err(Bad::new(at, "a row among the range deletions of a table"));
            }
            if deletions.len() == RANGE_DELETIONS_MAX {
                let limit = RANGE_DELETIONS_MAX as u64;
                return Err(Bad::too_large(at, "the number of range deletions", limit + 1, limit));
            }
            deletions.push((start.to_vec(), end.to_vec(), trailer >> 8));
            Ok(())
        };
        if self.format.is_columnar() {
            return column_block::each_span(content, |start, end, trailer| push(0, start, end, trailer));
        }
        block::each(content, |key, value| {
            let (start, trailer) = split(key, value.start)?;
            push(value.start, start, &content[value], trailer)
        })
    }

    fn read_index(&mut self, index: Handle, two_levels: bool, unpack: &mut Unpack) -> Result<(), Bad> {
        let columnar = self.format.is_columnar();
        let mut content = Vec::new();
        let mut lower = vec![index];
        if two_levels {
            self.unpack(index, unpack, &mut content)?;
            lower.clear();
            each_handle(&content, columnar, |_, handle| {
                lower.push(handle);
                Ok(())
            })
            .map_err(|bad| bad.of_block(index))?;
        }
        for index in lower {
            self.unpack(index, unpack, &mut content)?;
            let (separators, blocks) = (&mut self.separators, &mut self.blocks);
            // Every block has a kind and a checksum.
            let room = self.bytes.len() / 5;
            each_handle(&content, columnar, |key, handle| {
                let start = separators.len();
                let before = blocks
                    .last()
                    .and_then(|block: &DataBlock| separators.get(block.separator.0..block.separator.1));
                if before.is_some_and(|before| before > key) {
                    return Err(Bad::new(0, "the keys of an index are out of order"));
                }
                if blocks.len() == room {
                    return Err(Bad::new(0, "an index lists more blocks than its table can have"));
                }
                separators.extend_from_slice(key);
                blocks.push(DataBlock { handle, separator: (start, separators.len()) });
                Ok(())
            })
            .map_err(|bad| bad.of_block(index))?;
        }
        Ok(())
    }

    /// The number of the first block that can hold `key`, as it is stored, or one behind it.
    fn seek(&self, key: &[u8]) -> usize {
        self.blocks.partition_point(|block| &self.separators[block.separator.0..block.separator.1] < key)
    }
}

#[cfg(test)]
impl Backing {
    /// All blocks that are columns, decompressed.
    pub(crate) fn all_blocks(&self) -> Vec<Vec<u8>> {
        let (mut unpack, mut found) = (Unpack::default(), Vec::new());
        let footer = footer::read(&self.bytes).unwrap();
        if !footer.format.has_columnar_properties() {
            return found;
        }
        let handles = self.blocks.iter().map(|block| block.handle);
        for handle in handles.chain([footer.index, footer.metaindex]) {
            let mut block = Vec::new();
            self.unpack(handle, &mut unpack, &mut block).unwrap();
            found.push(block);
        }
        let mut named = Vec::new();
        let names = found.last().cloned().unwrap();
        column_block::each_name(&names, |name, value| {
            if name != b"pebble.value_index" {
                named.push(Handle::read(&names[value], &mut 0)?);
            }
            Ok(())
        })
        .unwrap();
        for handle in named {
            let mut block = Vec::new();
            self.unpack(handle, &mut unpack, &mut block).unwrap();
            found.push(block);
        }
        found
    }
}

/// Calls `visit` with each name of a list of blocks or properties, and where its content lies.
fn each_name(
    content: &[u8],
    columnar: bool,
    visit: impl FnMut(&[u8], std::ops::Range<usize>) -> Result<(), Bad>,
) -> Result<(), Bad> {
    if columnar {
        column_block::each_name(content, visit)
    } else {
        block::each(content, visit)
    }
}

/// Calls `visit` with the separator and the handle of each block that an index lists.
fn each_handle(
    content: &[u8],
    columnar: bool,
    mut visit: impl FnMut(&[u8], Handle) -> Result<(), Bad>,
) -> Result<(), Bad> {
    if columnar {
        return column_block::each_handle(content, visit);
    }
    block::each(content, |key, value| {
        // What follows a handle are properties.
        let handle = Handle::read(&content[value.clone()], &mut 0)?;
        visit(split(key, value.start)?.0, handle)
    })
}

/// The user key and the trailer of a key of a block of rows.
#[inline]
pub(crate) fn split(key: &[u8], at: usize) -> Result<(&[u8], u64), Bad> {
    match key.split_last_chunk::<8>() {
        Some((user_key, trailer)) => Ok((user_key, u64::from_le_bytes(*trailer))),
        None => Err(Bad::new(at, "a key of a table is shorter than its trailer")),
    }
}

impl Table {
    /// What `view` shows of a file. Range deletions are taken, as far as they are shown.
    pub(crate) fn new(
        name: String,
        backing: Arc<Backing>,
        view: View,
        deletions: &mut RangeDeletions,
    ) -> Result<Table, Bad> {
        let table = Table { name, backing, view, keys: None };
        table.push_deletions(deletions)?;
        Ok(table)
    }

    /// What `view` shows of a file, all of which lies between the `keys`.
    pub(crate) fn listed(name: String, backing: Arc<Backing>, view: View, keys: Option<Bounds>) -> Table {
        Table { name, backing, view, keys }
    }

    /// Adds the range deletions of the table, as far as they are shown. No table deletes keys outside of those between
    /// which it lies: tools cut a deletion there when it goes on in the next table.
    pub(crate) fn push_deletions(&self, deletions: &mut RangeDeletions) -> Result<(), Bad> {
        let view = &self.view;
        for (start, end, number) in &self.backing.deletions {
            if !view.suffix.is_empty() {
                return Err(Bad::new(0, "range deletions in a table whose keys are given a suffix"));
            }
            let mut start = [view.prefix.as_slice(), start].concat();
            let mut end = [view.prefix.as_slice(), end].concat();
            if let Some(bounds) = view.bounds.as_ref().or(self.keys.as_ref()) {
                start = start.max(bounds.first.clone());
                let mut last = bounds.last.clone();
                if !bounds.is_open {
                    last.push(0);
                }
                end = end.min(last);
            }
            deletions.push(0, &start, &end, view.sequence.unwrap_or(*number))?;
        }
        Ok(())
    }

    /// Whether blocks of rows are columns.
    pub(crate) fn is_columnar(&self) -> bool {
        self.backing.format.is_columnar()
    }

    /// Whether keys are given a prefix or a suffix.
    pub(crate) fn changes_keys(&self) -> bool {
        !self.view.prefix.is_empty() || !self.view.suffix.is_empty()
    }

    /// How many blocks of rows there are.
    pub(crate) fn blocks(&self) -> usize {
        self.backing.blocks.len()
    }

    /// Where a block of rows begins in the file, in bytes.
    pub(crate) fn offset(&self, number: usize) -> u64 {
        self.backing.blocks.get(number).map_or(0, |block| block.handle.offset)
    }

    /// A key that no key of the block with a number is behind, as keys are stored, and that every key of the next one is.
    pub(crate) fn separator(&self, number: usize) -> &[u8] {
        let found = self.backing.blocks.get(number).and_then(|block| {
            let (start, end) = block.separator;
            self.backing.separators.get(start..end)
        });
        found.unwrap_or_default()
    }

    /// The number of the first block that can hold `key`, or a key behind it, that is shown.
    pub(crate) fn seek(&self, key: &[u8]) -> usize {
        let Some(bounds) = &self.view.bounds else { return self.seek_shown(key) };
        if bounds.end_before(key) {
            return self.blocks();
        }
        self.seek_shown(key.max(bounds.first.as_slice()))
    }

    fn seek_shown(&self, key: &[u8]) -> usize {
        let View { prefix, suffix, .. } = &self.view;
        match key.strip_prefix(prefix.as_slice()) {
            // With a suffix, keys that begin `key` can lie behind it.
            Some(_) if !suffix.is_empty() => 0,
            Some(stored) => self.backing.seek(stored),
            None if key < prefix.as_slice() => 0,
            None => self.blocks(),
        }
    }

    /// A block of rows, verified and decompressed into `out`.
    pub(crate) fn read(&self, number: usize, unpack: &mut Unpack, out: &mut Vec<u8>) -> Result<(), Bad> {
        match self.backing.blocks.get(number) {
            Some(block) => self.backing.unpack(block.handle, unpack, out),
            None => Err(Bad::new(self.backing.bytes.len(), "a block lies outside its table")),
        }
    }

    /// The kind and the number of a change, both of which its trailer holds.
    #[inline]
    pub(crate) fn kind_and_number(&self, trailer: u64) -> (u8, u64) {
        // One bit says that a newer row of the same table hides this one: its number says so too.
        (trailer as u8 & !0x40, self.view.sequence.unwrap_or(trailer >> 8))
    }

    /// Where a value lies that is stored as `stored` at `at` with a key of the kind `kind`.
    #[inline]
    pub(crate) fn place_of(&self, kind: u8, stored: &[u8], at: usize) -> Result<Place, Bad> {
        // Only plain sets have a prefix.
        if !self.backing.format.has_prefixed_values() || kind != 1 {
            return Ok(Place::Here { skip: 0 });
        }
        Place::of_prefix(stored, at)
    }

    /// Puts a value that lies in a block of values into `out`. `handle` stands behind the prefix in its place.
    pub(crate) fn value_apart(
        &self,
        handle: &[u8],
        block: &mut ValueBlock,
        unpack: &mut Unpack,
        out: &mut Vec<u8>,
    ) -> Result<(), Bad> {
        let values = &self.backing.values;
        let mut at = 0;
        let length = wire::varint(handle, &mut at)?;
        let number = wire::varint(handle, &mut at)?;
        let offset = wire::varint(handle, &mut at)?;
        if block.current.as_ref().is_none_or(|(current, _)| *current != number) {
            let width: usize = values.widths.iter().sum();
            let row = usize::try_from(number).ok().and_then(|number| number.checked_mul(width));
            let row = row.and_then(|start| values.rows.get(start..start.checked_add(width)?));
            let Some(row) = row.filter(|_| width > 0) else {
                return Err(Bad::new(0, "a value lies in a block that is not there"));
            };
            let integer =
                |bytes: &[u8]| bytes.iter().rev().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
            let [numbers, offsets, lengths] = values.widths;
            let handle = Handle {
                offset: integer(&row[numbers..numbers + offsets]),
                length: integer(&row[numbers + offsets..numbers + offsets + lengths]),
            };
            let mut content = block.current.take().map(|(_, content)| content).unwrap_or_default();
            self.backing.unpack(handle, unpack, &mut content)?;
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

impl Place {
    /// What the byte before a value or a handle says.
    pub(crate) fn of_prefix(stored: &[u8], at: usize) -> Result<Place, Bad> {
        match stored.first() {
            Some(prefix) => match prefix >> 6 {
                0 => Ok(Place::Here { skip: 1 }),
                2 => Ok(Place::Apart),
                _ => Err(Bad::unsupported(at, "values in files of their own", EXPORT_ADVICE)),
            },
            None => Err(Bad::new(at, "a value without the byte that says where it lies")),
        }
    }
}

impl Bad {
    /// The same, found in the decompressed block that lies at `handle`: the offset is that of the block.
    fn of_block(self, handle: Handle) -> Bad {
        Bad { at: handle.offset, ..self }
    }
}
