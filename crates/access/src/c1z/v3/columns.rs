//! Blocks of columns: how numbers, texts and sorted keys lie in them.
//!
//! ```text
//! block    = header of the kind of block | version 1 u8 | columns u16 | rows u32 | (kind u8 | offset u32)* | column* | 0
//! kind     = 1 bits, 2 numbers, 3 texts, 4 prefixed texts
//! bits     = 1 | nothing: all are 0;  0 | zeros up to a multiple of 8 | u64 for each 64 rows | u64 for each 64 of those, a summary
//! numbers  = width u8 + 128 if there is a base | [base u64] | zeros up to a multiple of the width | number * rows
//! texts    = numbers: rows + 1 offsets, no base | bytes
//! prefixed = log2 of the size of a bundle u8 | texts: what all have in common, then of each bundle what its rows have in
//!            common, and the rest of each of them (nothing: the row is the one before)
//! ```
//! All numbers are little-endian, offsets count from the start of the block or of the bytes. No column without rows has
//! any bytes, but prefixed texts, which have a row.

use std::ops::Range;

use crate::c1z::error::Bad;

const BITS: u8 = 1;
const NUMBERS: u8 = 2;
const TEXTS: u8 = 3;
const PREFIXED: u8 = 4;

/// The bytes before the list of columns, and the bytes of a column in it.
const HEADER: usize = 7;
const COLUMN: usize = 5;

/// The columns of a block, read one after the other.
pub(crate) struct Columns<'a> {
    block: &'a [u8],
    /// Where the list of columns begins, and which is next.
    list: usize,
    next: usize,
    count: usize,
    /// Where the column that comes next has to begin.
    at: usize,
    pub(crate) rows: usize,
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk::<N>().copied()
}

impl<'a> Columns<'a> {
    /// The columns of `block`, whose kind has a header of `header` bytes, and `count` columns.
    pub(crate) fn read(block: &'a [u8], header: usize, count: usize) -> Result<Columns<'a>, Bad> {
        let early = || Bad::new(block.len(), "a block of columns ends within its header");
        let [version] = number(block, header).ok_or_else(early)?;
        if version != 1 {
            return Err(Bad::new(header, format!("there is no version {version} of blocks of columns")));
        }
        let columns = usize::from(u16::from_le_bytes(number(block, header + 1).ok_or_else(early)?));
        let rows = u32::from_le_bytes(number(block, header + 3).ok_or_else(early)?) as usize;
        if columns != count {
            return Err(Bad::new(header + 1, format!("a block of {columns} columns where {count} belong")));
        }
        // Every row takes a byte in some column at least, or rows would be equal.
        if rows > block.len() {
            return Err(Bad::new(header + 3, format!("{rows} rows in a block of {} bytes", block.len())));
        }
        let list = header + HEADER;
        Ok(Columns { block, list, next: 0, count, at: list + COLUMN * count, rows })
    }

    /// Begins the next column, which has to be of a kind; says where its bytes are.
    fn begin(&mut self, kind: u8) -> Result<(), Bad> {
        let entry = self.list + COLUMN * self.next;
        let found = number::<1>(self.block, entry).zip(number::<4>(self.block, entry + 1));
        let Some(([found], start)) = found.filter(|_| self.next < self.count) else {
            return Err(Bad::new(self.block.len(), "a block of columns ends within its header"));
        };
        if found != kind {
            return Err(Bad::new(
                entry,
                format!("a column of kind {found} where one of kind {kind} belongs"),
            ));
        }
        if u32::from_le_bytes(start) as usize != self.at {
            return Err(Bad::new(entry, "the columns of a block do not follow each other"));
        }
        self.next += 1;
        Ok(())
    }

    /// The next column, as bits.
    pub(crate) fn bits(&mut self) -> Result<Bits, Bad> {
        self.begin(BITS)?;
        Bits::read(self.block, &mut self.at, self.rows)
    }

    /// The next column, as `rows` numbers.
    pub(crate) fn numbers(&mut self, rows: usize) -> Result<Numbers, Bad> {
        self.begin(NUMBERS)?;
        Numbers::read(self.block, &mut self.at, rows)
    }

    /// The next column, as `rows` texts.
    pub(crate) fn texts(&mut self, rows: usize) -> Result<Texts, Bad> {
        self.begin(TEXTS)?;
        Texts::read(self.block, &mut self.at, rows)
    }

    /// The next column, as prefixed texts.
    pub(crate) fn prefixed(&mut self) -> Result<Prefixed, Bad> {
        self.begin(PREFIXED)?;
        Prefixed::read(self.block, &mut self.at, self.rows)
    }
}

/// A range of a block, if it lies in it.
fn within(block: &[u8], start: usize, length: Option<usize>) -> Result<Range<usize>, Bad> {
    let end = length.and_then(|length| start.checked_add(length)).filter(|end| *end <= block.len());
    end.map(|end| start..end).ok_or_else(|| Bad::new(start, "a column is longer than its block"))
}

/// Bits. What columns say is where they lie in their block, which is handed in for each row.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bits {
    /// None: all bits are 0.
    at: Option<usize>,
}

impl Bits {
    fn read(block: &[u8], at: &mut usize, rows: usize) -> Result<Bits, Bad> {
        if rows == 0 {
            return Ok(Bits::default());
        }
        let start = *at;
        *at += 1;
        match block.get(start) {
            Some(1) => return Ok(Bits::default()),
            Some(0) => {}
            _ => return Err(Bad::new(start, "bits in a form that is not known")),
        }
        let words = rows.div_ceil(64);
        let range = within(block, at.next_multiple_of(8), Some(8 * (words + words.div_ceil(64))))?;
        *at = range.end;
        Ok(Bits { at: Some(range.start) })
    }

    #[inline]
    pub(crate) fn get(&self, block: &[u8], row: usize) -> bool {
        let byte = self.at.and_then(|at| block.get(at + row / 8));
        byte.is_some_and(|byte| byte >> (row % 8) & 1 == 1)
    }
}

/// Numbers of up to eight bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Numbers {
    at: usize,
    width: u8,
    base: u64,
}

impl Numbers {
    fn read(block: &[u8], at: &mut usize, rows: usize) -> Result<Numbers, Bad> {
        if rows == 0 {
            return Ok(Numbers::default());
        }
        let start = *at;
        let Some([form]) = number(block, start) else {
            return Err(Bad::new(start, "a column is longer than its block"));
        };
        let (width, with_base) = (form & 0x7f, form & 0x80 != 0);
        if !matches!(width, 0 | 1 | 2 | 4 | 8) || with_base && width == 8 {
            return Err(Bad::new(start, "numbers in a form that is not known"));
        }
        *at += 1;
        let mut base = 0;
        if with_base {
            let range = within(block, *at, Some(8))?;
            base = number(block, range.start).map_or(0, u64::from_le_bytes);
            *at = range.end;
        }
        if width > 0 {
            *at = at.next_multiple_of(usize::from(width));
        }
        let range = within(block, *at, rows.checked_mul(usize::from(width)))?;
        *at = range.end;
        Ok(Numbers { at: range.start, width, base })
    }

    #[inline]
    pub(crate) fn get(&self, block: &[u8], row: usize) -> u64 {
        // That every row lies in the block was checked when the column was read.
        let at = self.at + row * usize::from(self.width);
        let offset = match self.width {
            1 => number::<1>(block, at).map_or(0, |bytes| u64::from(bytes[0])),
            2 => number(block, at).map_or(0, |bytes| u64::from(u16::from_le_bytes(bytes))),
            4 => number(block, at).map_or(0, |bytes| u64::from(u32::from_le_bytes(bytes))),
            8 => number(block, at).map_or(0, u64::from_le_bytes),
            _ => 0,
        };
        self.base.wrapping_add(offset)
    }
}

/// Texts, one behind the other.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Texts {
    offsets: Numbers,
    /// Where their bytes begin, and where they end.
    start: usize,
    end: usize,
}

impl Texts {
    fn read(block: &[u8], at: &mut usize, rows: usize) -> Result<Texts, Bad> {
        if rows == 0 {
            return Ok(Texts::default());
        }
        let start = *at;
        let offsets = Numbers::read(block, at, rows + 1)?;
        if offsets.base != 0 || offsets.width == 8 {
            return Err(Bad::new(start, "offsets in a form that is not known"));
        }
        let range = within(block, *at, Some(offsets.get(block, rows) as usize))?;
        *at = range.end;
        Ok(Texts { offsets, start: range.start, end: range.end })
    }

    /// Where the text of the row with a number begins in the block: that of the row before ends there.
    #[inline]
    pub(crate) fn start_of(&self, block: &[u8], row: usize) -> usize {
        self.start + self.offsets.get(block, row) as usize
    }

    /// The text from `start` to where that of the row `row` ends.
    #[inline]
    pub(crate) fn up_to(&self, block: &[u8], start: usize, row: usize) -> Result<Range<usize>, Bad> {
        let end = self.start_of(block, row + 1);
        if start > end || end > self.end {
            return Err(Bad::new(start, "the texts of a column overlap"));
        }
        Ok(start..end)
    }

    /// Where the text of a row lies in the block.
    pub(crate) fn range(&self, block: &[u8], row: usize) -> Result<Range<usize>, Bad> {
        self.up_to(block, self.start_of(block, row), row)
    }

    /// The text of a row.
    pub(crate) fn get<'a>(&self, block: &'a [u8], row: usize) -> Result<&'a [u8], Bad> {
        Ok(&block[self.range(block, row)?])
    }

    /// Whether no text has any bytes.
    pub(crate) fn are_empty(&self) -> bool {
        self.start == self.end
    }
}

/// Sorted texts, as what they have in common and their rests.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Prefixed {
    texts: Texts,
    shift: u8,
}

impl Prefixed {
    fn read(block: &[u8], at: &mut usize, rows: usize) -> Result<Prefixed, Bad> {
        let start = *at;
        let Some([shift]) = number(block, start).filter(|_| rows > 0) else {
            return Err(Bad::new(start, "a block without keys"));
        };
        if shift > 31 {
            return Err(Bad::new(start, "a bundle of more rows than a block can have"));
        }
        *at += 1;
        // The first offset ends what all rows have in common; it is one more than the texts are.
        let texts = Texts::read(block, at, rows + rows.div_ceil(1 << shift))?;
        Ok(Prefixed { texts, shift })
    }

    /// What all rows have in common.
    pub(crate) fn common(&self, block: &[u8]) -> Result<Range<usize>, Bad> {
        let start = self.texts.start;
        let end = self.texts.start_of(block, 0);
        if end > self.texts.end {
            return Err(Bad::new(start, "the texts of a column overlap"));
        }
        Ok(start..end)
    }

    /// The number of the text that holds the rest of a row, and whether the row begins a bundle: then the text before is
    /// what the bundle has in common.
    #[inline]
    pub(crate) fn rest_of(&self, row: usize) -> (usize, bool) {
        let bundle = row >> self.shift;
        (row + bundle + 1, row == bundle << self.shift)
    }

    pub(crate) fn texts(&self) -> &Texts {
        &self.texts
    }
}

#[cfg(test)]
#[path = "columns/tests.rs"]
mod tests;
