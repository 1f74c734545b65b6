//! Which blocks of a relation's file differ from those of the snapshot. Why a row in any other block is what it was stands
//! in `docs/design/changes.md`.

use crate::frozen::Frozen;
use duramen_postgres::{
    open_file,
    volume::{extents, shares_extents, Extent, Place},
};
use std::{fs::File, io, ops::Range, os::unix::fs::FileExt, path::Path};

/// What a page's header has in front of its checksum: where its last change stands in the write-ahead log.
const LSN: usize = 8;
/// How often the places of a snapshot's extents are looked at until they stand still; they move while a file system is
/// balanced.
const TRIES: usize = 3;

/// How a server divides its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Bytes of a block.
    pub block: u32,
    /// Blocks of a segment: a larger relation has several files.
    pub segment: u32,
}

/// Which blocks of a relation may hold other rows than in the snapshot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChangedBlocks {
    /// In their order, apart from each other.
    pub ranges: Vec<Range<u32>>,
    /// Blocks of the larger of the two files.
    pub of: u32,
}

impl ChangedBlocks {
    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.ranges.iter().map(|range| u64::from(range.end - range.start)).sum()
    }

    /// Joins what touches.
    fn add(&mut self, blocks: Range<u32>) {
        match self.ranges.last_mut() {
            Some(last) if blocks.start <= last.end => last.end = last.end.max(blocks.end),
            _ => self.ranges.push(blocks),
        }
    }
}

/// Compares the file of a relation, such as `base/5/16384`, in two data directories, of which the first is a clone of the
/// second that was written to since. What the server of the first has in memory must have been written to its files; nobody may
/// write to the second. Blocks.
///
/// # Errors
/// The operating system's answer.
pub fn changed_blocks(
    branch: &Path,
    snapshot: &Path,
    file: &str,
    layout: Layout,
) -> io::Result<ChangedBlocks> {
    find(branch, snapshot, file, layout, None)
}

/// The same for two data directories that were made apart, to neither of which anybody writes: only what both have at one
/// address, and hold frozen, has not changed (X12). Blocks.
///
/// # Errors
/// The operating system's answer.
pub(crate) fn unshared_blocks(
    new: &Path,
    old: &Path,
    file: &str,
    layout: Layout,
) -> io::Result<ChangedBlocks> {
    let frozen = [Frozen::of(new, file, layout)?, Frozen::of(old, file, layout)?];
    find(new, old, file, layout, Some(frozen))
}

/// `frozen` are the maps of both, if what they share is to be trusted only where they say so.
fn find(
    branch: &Path,
    snapshot: &Path,
    file: &str,
    layout: Layout,
    mut frozen: Option<[Frozen; 2]>,
) -> io::Result<ChangedBlocks> {
    let mut changed = ChangedBlocks::default();
    for number in 0.. {
        let name = if number == 0 { file.to_owned() } else { format!("{file}.{number}") };
        let (new, old) = (open(branch, &name)?, open(snapshot, &name)?);
        let (new_length, old_length) = (length(new.as_ref())?, length(old.as_ref())?);
        let block = u64::from(layout.block);
        let first = layout.segment.saturating_mul(number);
        let at = |bytes: u64| first.saturating_add(u32::try_from(bytes / block).unwrap_or(u32::MAX));
        // A block that is not there in whole in both is one that differs.
        let common = new_length.min(old_length) / block * block;
        let end = at(new_length.max(old_length).div_ceil(block) * block);
        if let (Some(new), Some(old)) = (&new, &old) {
            for (bytes, state) in compare(new, old, common)? {
                let blocks = bytes.start / block * block..bytes.end.div_ceil(block) * block;
                match (state, &mut frozen) {
                    (State::Same, None) => {}
                    (State::Same, Some([new, old])) => {
                        for block in at(blocks.start)..at(blocks.end) {
                            if !new.has(block)? || !old.has(block)? {
                                changed.add(block..block + 1);
                            }
                        }
                    }
                    // Of two logs, positions say nothing of each other.
                    (State::Differs, _) | (State::Unknown, Some(_)) => {
                        changed.add(at(blocks.start)..at(blocks.end))
                    }
                    (State::Unknown, None) => {
                        for start in (blocks.start..blocks.end).step_by(layout.block as usize) {
                            if !same_page(new, old, start, layout.block as usize)? {
                                changed.add(at(start)..at(start) + 1);
                            }
                        }
                    }
                }
            }
        }
        if at(common) < end {
            changed.add(at(common)..end);
        }
        changed.of = changed.of.max(end);
        // The file after one that is not full in either is not there.
        if new_length.max(old_length) < block * u64::from(layout.segment) {
            break;
        }
    }
    Ok(changed)
}

/// Has the operating system read what will be asked for next, in the order and at the pace of its choice.
pub(crate) fn read_ahead(dir: &Path, file: &str, layout: Layout, ranges: &[Range<u32>]) -> io::Result<()> {
    let mut opened: Option<(u32, Option<File>)> = None;
    for range in ranges {
        let number = range.start / layout.segment;
        if opened.as_ref().is_none_or(|(last, _)| *last != number) {
            let name = if number == 0 { file.to_owned() } else { format!("{file}.{number}") };
            opened = Some((number, open(dir, &name)?));
        }
        let Some((_, Some(file))) = &opened else { continue };
        let offset = u64::from(range.start % layout.segment) * u64::from(layout.block);
        let length = u64::from(range.end - range.start) * u64::from(layout.block);
        rustix::fs::fadvise(file, offset, std::num::NonZeroU64::new(length), rustix::fs::Advice::WillNeed)?;
    }
    Ok(())
}

pub(crate) fn open(dir: &Path, file: &str) -> io::Result<Option<File>> {
    match open_file(dir, file) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io::Error::new(error.kind(), format!("{}: {error}", dir.join(file).display()))),
    }
}

/// Zero for a file that is not there.
fn length(file: Option<&File>) -> io::Result<u64> {
    file.map_or(Ok(0), |file| Ok(file.metadata()?.len()))
}

/// What is known of a stretch of two files without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// It is the same bytes.
    Same,
    Differs,
    /// Somebody has to look.
    Unknown,
}

/// The first `length` bytes of two files, in stretches.
fn compare(new: &File, old: &File, length: u64) -> io::Result<Vec<(Range<u64>, State)>> {
    let unknown = || Ok(vec![(0..length, State::Unknown)]);
    if length == 0 || !shares_extents(new)? || !shares_extents(old)? {
        return unknown();
    }
    let mut before = match extents(old) {
        Ok(extents) => extents,
        // A file system in between may have none to tell of.
        Err(error) if error.kind() == io::ErrorKind::Unsupported => return unknown(),
        Err(error) => return Err(error),
    };
    for _ in 0..TRIES {
        let branch = extents(new)?;
        // What the snapshot holds stays where it is, unless the file system is balanced: an address that it gave up in
        // between could be the branch's by now.
        let after = extents(old)?;
        if before == after {
            return Ok(stretches(&branch, &after, length));
        }
        before = after;
    }
    unknown()
}

/// Walks two lists of extents side by side.
fn stretches(new: &[Extent], old: &[Extent], length: u64) -> Vec<(Range<u64>, State)> {
    let (mut new, mut old) = (Walk::along(new), Walk::along(old));
    let mut found: Vec<(Range<u64>, State)> = Vec::new();
    let mut at = 0;
    while at < length {
        let ((one, one_ends), (two, two_ends)) = (new.at(at), old.at(at));
        let end = one_ends.min(two_ends).min(length);
        let state = match (one, two) {
            (Place::At(one), Place::At(two)) if one == two => State::Same,
            (Place::Zeros, Place::Zeros) => State::Same,
            (Place::Unknown, _) | (_, Place::Unknown) => State::Unknown,
            _ => State::Differs,
        };
        match found.last_mut() {
            Some((range, last)) if *last == state => range.end = end,
            _ => found.push((at..end, state)),
        }
        at = end;
    }
    found
}

/// A place in a list of extents that only moves on.
struct Walk<'a>(&'a [Extent]);

impl<'a> Walk<'a> {
    fn along(extents: &'a [Extent]) -> Walk<'a> {
        Walk(extents)
    }

    /// What is at an offset of the file, and up to where that holds.
    fn at(&mut self, offset: u64) -> (Place, u64) {
        while let [first, rest @ ..] = self.0 {
            let end = first.start.saturating_add(first.length);
            if end <= offset {
                self.0 = rest;
                continue;
            }
            if offset < first.start {
                return (Place::Zeros, first.start);
            }
            let place = match first.place {
                Place::At(address) => Place::At(address.wrapping_add(offset - first.start)),
                other => other,
            };
            return (place, end);
        }
        (Place::Zeros, u64::MAX)
    }
}

/// Whether two pages hold the same rows: their last changes stand at the same place of the log, or, where neither was ever
/// logged, they are the same bytes.
fn same_page(new: &File, old: &File, start: u64, length: usize) -> io::Result<bool> {
    let (mut one, mut two) = ([0; LSN], [0; LSN]);
    if !read(new, &mut one, start)? || !read(old, &mut two, start)? || one != two {
        return Ok(false);
    }
    if one != [0; LSN] {
        return Ok(true);
    }
    let (mut one, mut two) = (vec![0; length], vec![0; length]);
    Ok(read(new, &mut one, start)? && read(old, &mut two, start)? && one == two)
}

/// `false` if the file has become shorter.
pub(crate) fn read(file: &File, buffer: &mut [u8], at: u64) -> io::Result<bool> {
    match file.read_exact_at(buffer, at) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
#[path = "../tests/unit/blocks.rs"]
mod tests;
