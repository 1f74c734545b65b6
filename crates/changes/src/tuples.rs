//! Which rows of changed blocks may differ: those whose tuples are not the same bytes at the same line pointer on both
//! sides. A block of a hundred rows in which one was changed has two such tuples.
//!
//! Source: the PostgreSQL documentation, "Database Page Layout".

use crate::blocks::{open, read, Layout};
use std::{collections::BTreeSet, fs::File, io, ops::Range, path::Path};

/// Bytes of a page's header.
const HEADER: usize = 24;
/// Version 4 of the layout, which all supported servers write.
const VERSION: u16 = 4;
/// `LP_NORMAL`: the line pointer has a tuple.
const NORMAL: u32 = 1;

/// A place of a tuple: block, and line pointer from 1 on.
pub(crate) type Place = (u32, u16);

/// Where rows that may differ are.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Places {
    /// In the snapshot.
    pub(crate) old: Vec<Place>,
    /// In the branch.
    pub(crate) new: Vec<Place>,
    /// Blocks of which all rows have to be read on both sides.
    pub(crate) whole: Vec<Range<u32>>,
}

/// Compares the tuples of changed blocks. What the branch's log had up to `lsn` was written to its files by now; a page that was
/// changed later may be written this very moment, so all of its rows are read. Blocks.
pub(crate) fn places(
    branch: &Path,
    snapshot: &Path,
    file: &str,
    layout: Layout,
    ranges: &[Range<u32>],
    lsn: u64,
) -> io::Result<Places> {
    let mut found = Places::default();
    let (mut new, mut old) = (Pages::of(branch, file, layout), Pages::of(snapshot, file, layout));
    for block in ranges.iter().flat_map(Clone::clone) {
        match (new.tuples(block, Some(lsn))?, old.tuples(block, None)?) {
            (Some(after), Some(before)) => {
                found.new.extend(after.difference(&before).map(|(number, _)| (block, *number)));
                found.old.extend(before.difference(&after).map(|(number, _)| (block, *number)));
            }
            _ => match found.whole.last_mut() {
                Some(last) if last.end == block => last.end += 1,
                _ => found.whole.push(block..block + 1),
            },
        }
    }
    Ok(found)
}

type Tuples = BTreeSet<(u16, Vec<u8>)>;

/// The pages of a relation's file.
struct Pages<'a> {
    dir: &'a Path,
    file: &'a str,
    layout: Layout,
    /// The segment that is open.
    open: Option<(u32, Option<File>)>,
}

impl<'a> Pages<'a> {
    fn of(dir: &'a Path, file: &'a str, layout: Layout) -> Pages<'a> {
        Pages { dir, file, layout, open: None }
    }

    /// The tuples of a block that is not written any more, by their line pointers; none of a block that is not there. `None`: it
    /// cannot be said. `up_to` is the place of the log up to which pages lie still, if any page does not.
    fn tuples(&mut self, block: u32, up_to: Option<u64>) -> io::Result<Option<Tuples>> {
        let number = block / self.layout.segment;
        if self.open.as_ref().is_none_or(|(last, _)| *last != number) {
            let name = if number == 0 { self.file.to_owned() } else { format!("{}.{number}", self.file) };
            self.open = Some((number, open(self.dir, &name)?));
        }
        // In the branch somebody may be writing what is not there yet.
        let Some((_, Some(file))) = &self.open else { return Ok(up_to.is_none().then(Tuples::new)) };
        let start = u64::from(block % self.layout.segment) * u64::from(self.layout.block);
        let mut page = vec![0; self.layout.block as usize];
        if !read(file, &mut page, start)? {
            // Behind the end, or cut off by it.
            let is_behind = file.metadata()?.len() <= start;
            return Ok((is_behind && up_to.is_none()).then(Tuples::new));
        }
        if let Some(up_to) = up_to {
            if lsn(&page).is_none_or(|lsn| lsn == 0 || lsn > up_to) {
                return Ok(None);
            }
            // Its second half could be newer than its first. Then the first one has become newer by now.
            let mut again = vec![0; page.len()];
            if !read(file, &mut again, start)? || again != page {
                return Ok(None);
            }
        }
        Ok(tuples(&page))
    }
}

fn word(page: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*page.get(at..)?.first_chunk()?))
}

fn lsn(page: &[u8]) -> Option<u64> {
    let half = |at: usize| Some(u64::from(u32::from_le_bytes(*page.get(at..)?.first_chunk()?)));
    Some(half(0)? << 32 | half(4)?)
}

/// The tuples of a page, each with its line pointer; `None` if it is not laid out as usual.
fn tuples(page: &[u8]) -> Option<Tuples> {
    if cfg!(target_endian = "big") {
        return None;
    }
    if page.iter().all(|byte| *byte == 0) {
        return Some(Tuples::new());
    }
    let (lower, upper) = (usize::from(word(page, 12)?), usize::from(word(page, 14)?));
    let is_usual = usize::from(word(page, 18)?) == page.len() | usize::from(VERSION)
        && usize::from(word(page, 16)?) == page.len()
        && (HEADER..=upper).contains(&lower)
        && upper <= page.len();
    if !is_usual {
        return None;
    }
    let mut found = Tuples::new();
    for (index, pointer) in page.get(HEADER..lower)?.chunks_exact(4).enumerate() {
        let pointer = u32::from_le_bytes(*pointer.first_chunk()?);
        if pointer >> 15 & 3 != NORMAL {
            continue;
        }
        let (begin, length) = ((pointer & 0x7FFF) as usize, (pointer >> 17) as usize);
        let bytes = page.get(begin..begin + length).filter(|_| begin >= upper)?;
        found.insert((u16::try_from(index + 1).ok()?, bytes.to_vec()));
    }
    Some(found)
}

#[cfg(test)]
#[path = "../tests/unit/tuples.rs"]
mod tests;
