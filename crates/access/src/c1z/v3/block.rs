//! The rows of one block of a table: each key is stored as what it has in common with the key before, and the rest.

use crate::c1z::error::Bad;
use crate::c1z::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use crate::c1z::wire;

/// A walk over the rows of a block. The block itself is handed in at each step, so that one buffer serves many blocks.
#[derive(Default)]
pub(crate) struct BlockRows {
    at: usize,
    end: usize,
    /// The key of the row that the walk stands on, with its trailer.
    pub(crate) key: Vec<u8>,
    /// Where its value lies in the block.
    pub(crate) value: std::ops::Range<usize>,
}

impl BlockRows {
    /// Stands before the first row of `block`.
    pub(crate) fn begin(&mut self, block: &[u8]) -> Result<(), Bad> {
        let restarts = block.last_chunk::<4>().map(|bytes| u32::from_le_bytes(*bytes) as usize);
        let end = restarts.and_then(|count| block.len().checked_sub(count.checked_mul(4)?.checked_add(4)?));
        let Some(end) = end else {
            return Err(Bad::new(block.len(), "a block ends within its restart points"));
        };
        self.key.clear();
        (self.at, self.end, self.value) = (0, end, 0..0);
        Ok(())
    }

    /// Goes to the next row; false behind the last one.
    #[inline]
    pub(crate) fn next(&mut self, block: &[u8]) -> Result<bool, Bad> {
        let start = self.at;
        if start >= self.end {
            return Ok(false);
        }
        let rows = &block[..self.end];
        let mut at = start;
        let shared = wire::varint(rows, &mut at)?;
        let rest = wire::varint(rows, &mut at)?;
        let value = wire::varint(rows, &mut at)?;
        let limit = KEY_BYTES_MAX as u64 + 8;
        if shared > self.key.len() as u64
            || rest > limit - shared.min(limit)
            || value > VALUE_BYTES_MAX as u64
        {
            return Err(Bad::new(start, "a row of a table has impossible lengths"));
        }
        let value_at = at + rest as usize;
        let value_end = value_at + value as usize;
        if value_end > self.end {
            return Err(Bad::new(start, "a row of a table is longer than its block"));
        }
        self.key.truncate(shared as usize);
        self.key.extend_from_slice(&rows[at..value_at]);
        self.value = value_at..value_end;
        self.at = value_end;
        Ok(true)
    }
}

/// Calls `visit` with the key of each row of a block, and where its value lies.
pub(crate) fn each(
    block: &[u8],
    mut visit: impl FnMut(&[u8], std::ops::Range<usize>) -> Result<(), Bad>,
) -> Result<(), Bad> {
    let mut rows = BlockRows::default();
    rows.begin(block)?;
    while rows.next(block)? {
        visit(&rows.key, rows.value.clone())?;
    }
    Ok(())
}
