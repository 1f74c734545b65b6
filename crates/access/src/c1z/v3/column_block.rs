//! The kinds of blocks that are columns: rows, indexes, lists by name, and range deletions.
//!
//! ```text
//! rows    header: longest key u32; columns: keys (prefixed), suffixes of keys (texts), trailers (numbers), whether the key
//!         is another one than before (bits), values (texts), whether a value lies apart (bits), whether a newer row of the
//!         table hides this one (bits)
//! index   columns: separators (texts), offsets (numbers), lengths (numbers), properties (texts)
//! list    columns: names (texts), contents (texts)
//! spans   header: bounds u32; columns: bounds (texts), the first deletion from each bound on (numbers), and of each deletion
//!         its trailer (numbers), a suffix and a value (texts), which are empty
//! trailer = sequence << 8 | kind
//! ```

use std::ops::Range;

use super::columns::{Bits, Columns, Numbers, Prefixed, Texts};
use super::footer::Handle;
use crate::c1z::error::Bad;
use crate::c1z::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};

/// A walk over the rows of a block. The block itself is handed in at each step, so that one buffer serves many blocks.
#[derive(Default)]
pub(crate) struct ColumnRows {
    rows: usize,
    next: usize,
    keys: Prefixed,
    suffixes: Texts,
    trailers: Numbers,
    values: Texts,
    external: Bits,
    /// How much of the key all rows have in common, and how much the rows of the bundle.
    common: usize,
    bundle: usize,
    /// Where the rest of the key ends in the block.
    rest_end: usize,
    /// The key of the row that the walk stands on, without its trailer; and how much of it is no suffix.
    pub(crate) key: Vec<u8>,
    pub(crate) stem: usize,
    pub(crate) trailer: u64,
    /// Where its value lies in the block, and whether that is a byte that says where the value lies, and a handle.
    pub(crate) value: Range<usize>,
    pub(crate) is_apart: bool,
}

impl ColumnRows {
    /// Stands before the first row of `block`.
    pub(crate) fn begin(&mut self, block: &[u8]) -> Result<(), Bad> {
        let mut columns = Columns::read(block, 4, 7)?;
        self.rows = columns.rows;
        self.keys = columns.prefixed()?;
        self.suffixes = columns.texts(self.rows)?;
        self.trailers = columns.numbers(self.rows)?;
        columns.bits()?;
        self.values = columns.texts(self.rows)?;
        self.external = columns.bits()?;
        columns.bits()?;
        let common = self.keys.common(block)?;
        self.rest_end = common.end;
        self.key.clear();
        self.key.extend_from_slice(&block[common]);
        (self.common, self.bundle, self.stem) = (self.key.len(), self.key.len(), self.key.len());
        let start = self.values.start_of(block, 0);
        (self.next, self.value) = (0, start..start);
        Ok(())
    }

    /// Goes to the next row; false behind the last one.
    #[inline]
    pub(crate) fn next(&mut self, block: &[u8]) -> Result<bool, Bad> {
        let row = self.next;
        if row == self.rows {
            return Ok(false);
        }
        let (rest, begins) = self.keys.rest_of(row);
        let texts = self.keys.texts();
        if begins {
            let prefix = texts.up_to(block, self.rest_end, rest - 1)?;
            self.rest_end = prefix.end;
            self.key.truncate(self.common);
            self.key.extend_from_slice(&block[prefix]);
            self.bundle = self.key.len();
        }
        let range = texts.up_to(block, self.rest_end, rest)?;
        self.rest_end = range.end;
        // Without a rest, a row has the key of the one before.
        if begins || !range.is_empty() {
            self.key.truncate(self.bundle);
            self.key.extend_from_slice(&block[range]);
            self.stem = self.key.len();
        } else {
            self.key.truncate(self.stem);
        }
        if !self.suffixes.are_empty() {
            self.key.extend_from_slice(self.suffixes.get(block, row)?);
        }
        self.value = self.values.up_to(block, self.value.end, row)?;
        if self.key.len() > KEY_BYTES_MAX || self.value.len() > VALUE_BYTES_MAX {
            return Err(Bad::new(row, "a row of a table has impossible lengths"));
        }
        self.trailer = self.trailers.get(block, row);
        self.is_apart = self.external.get(block, row);
        self.next += 1;
        Ok(true)
    }
}

/// Calls `visit` with the separator and the handle of each block that an index lists.
pub(crate) fn each_handle(
    block: &[u8],
    mut visit: impl FnMut(&[u8], Handle) -> Result<(), Bad>,
) -> Result<(), Bad> {
    let mut columns = Columns::read(block, 0, 4)?;
    let rows = columns.rows;
    let separators = columns.texts(rows)?;
    let (offsets, lengths) = (columns.numbers(rows)?, columns.numbers(rows)?);
    columns.texts(rows)?;
    for row in 0..rows {
        let handle = Handle { offset: offsets.get(block, row), length: lengths.get(block, row) };
        visit(separators.get(block, row)?, handle)?;
    }
    Ok(())
}

/// Calls `visit` with each name of a list, and where its content lies.
pub(crate) fn each_name(
    block: &[u8],
    mut visit: impl FnMut(&[u8], Range<usize>) -> Result<(), Bad>,
) -> Result<(), Bad> {
    let mut columns = Columns::read(block, 0, 2)?;
    let rows = columns.rows;
    let (names, contents) = (columns.texts(rows)?, columns.texts(rows)?);
    for row in 0..rows {
        visit(names.get(block, row)?, contents.range(block, row)?)?;
    }
    Ok(())
}

/// Calls `visit` with each deletion: its first key, the key behind its last, and its trailer.
pub(crate) fn each_span(
    block: &[u8],
    mut visit: impl FnMut(&[u8], &[u8], u64) -> Result<(), Bad>,
) -> Result<(), Bad> {
    let bounds = block.first_chunk::<4>().map_or(0, |bytes| u32::from_le_bytes(*bytes) as usize);
    if bounds > block.len() {
        return Err(Bad::new(0, format!("{bounds} bounds in a block of {} bytes", block.len())));
    }
    let mut columns = Columns::read(block, 4, 5)?;
    let rows = columns.rows;
    let keys = columns.texts(bounds)?;
    let firsts = columns.numbers(bounds)?;
    let trailers = columns.numbers(rows)?;
    columns.texts(rows)?;
    columns.texts(rows)?;
    for bound in 1..bounds {
        let (first, end) = (firsts.get(block, bound - 1), firsts.get(block, bound));
        if first > end || end > rows as u64 {
            return Err(Bad::new(0, "bounds of deletions that are not there"));
        }
        for row in first..end {
            visit(keys.get(block, bound - 1)?, keys.get(block, bound)?, trailers.get(block, row as usize))?;
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "column_block/tests.rs"]
mod tests;
