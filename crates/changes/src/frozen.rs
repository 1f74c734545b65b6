//! Which blocks hold rows alone that everybody sees, whatever became of the transactions that wrote them: those that the
//! visibility map says are frozen. Invariant X12 of `docs/design/changes.md`.

use crate::blocks::{open, read, Layout};
use std::{fs::File, io, path::Path};

/// What a page of the map has in front of its bits.
const PAGE_HEAD: u64 = 24;
/// Bits of the map for a block, and the one of them that says that all of its rows are frozen.
const BITS: u64 = 2;
const ALL_FROZEN: u8 = 0b10;

/// The visibility map of a relation.
#[derive(Debug)]
pub(crate) struct Frozen {
    file: Option<File>,
    block: u64,
    /// The page that was read last, and its number.
    page: Vec<u8>,
    number: Option<u64>,
}

impl Frozen {
    /// That of the relation whose rows lie in `file`. Nothing is frozen if it has none.
    ///
    /// # Errors
    /// The operating system's answer.
    pub(crate) fn of(dir: &Path, file: &str, layout: Layout) -> io::Result<Frozen> {
        let map = open(dir, &format!("{file}_vm"))?;
        let block = u64::from(layout.block);
        Ok(Frozen { file: map, block, page: Vec::new(), number: None })
    }

    /// Whether all rows of a block are frozen.
    ///
    /// # Errors
    /// The operating system's answer.
    pub(crate) fn has(&mut self, block: u32) -> io::Result<bool> {
        let Some(file) = &self.file else { return Ok(false) };
        let a_byte = 8 / BITS;
        let a_page = self.block.saturating_sub(PAGE_HEAD).max(1) * a_byte;
        let (number, place) = (u64::from(block) / a_page, u64::from(block) % a_page);
        if self.number != Some(number) {
            self.number = None;
            self.page.resize(usize::try_from(self.block).unwrap_or_default(), 0);
            // Behind its end nothing was ever frozen.
            if !read(file, &mut self.page, number * self.block)? {
                return Ok(false);
            }
            self.number = Some(number);
        }
        let byte = usize::try_from(PAGE_HEAD + place / a_byte).unwrap_or(usize::MAX);
        let bits = self.page.get(byte).map_or(0, |byte| byte >> (place % a_byte * BITS));
        Ok(bits & ALL_FROZEN != 0)
    }
}

#[cfg(test)]
#[path = "../tests/unit/frozen.rs"]
mod tests;
