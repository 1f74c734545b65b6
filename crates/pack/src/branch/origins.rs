//! Which node of the store became which node of the pack: sorted by the store's number, so that a later pack against
//! this one knows what it need not hold.
//!
//! The rows come in the order in which nodes are written, and are sorted in runs that are kept in a file without a
//! name, so that memory does not grow with the branch.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use duramen_tree::{Checksum, NodeRef};

use crate::container::{PackWriter, Section, SectionOptions};
use crate::error::PackError;

/// The section of the rows.
pub(crate) const ORIGINS: &str = "origins";

/// The store's number and checksum of a node, then its number and checksum in the pack.
const ROW_BYTES: usize = 48;
const ORIGIN_BYTES: usize = 24;
type Row = [u8; ROW_BYTES];

/// Rows that are sorted in memory at a time: 12 MiB.
const RUN_ROWS: usize = 1 << 18;

/// Rows of a block.
const BLOCK_ROWS: usize = 1365;

/// Rows of a run that are read at a time.
const READ_ROWS: usize = 512;

/// Blocks that are kept decompressed while a pack is written against this one.
const KEPT_BLOCKS: usize = 64;

fn origin_key(origin: NodeRef) -> [u8; ORIGIN_BYTES] {
    let mut key = [0; ORIGIN_BYTES];
    key[..8].copy_from_slice(&origin.0.to_be_bytes());
    key[8..].copy_from_slice(&origin.1 .0);
    key
}

fn row(origin: NodeRef, copy: NodeRef) -> Row {
    let mut row = [0; ROW_BYTES];
    row[..24].copy_from_slice(&origin_key(origin));
    row[24..].copy_from_slice(&origin_key(copy));
    row
}

fn copy_of(row: &[u8]) -> Option<NodeRef> {
    let (id, sum) = row.get(ORIGIN_BYTES..)?.split_first_chunk::<8>()?;
    Some((u64::from_be_bytes(*id), Checksum(*sum.first_chunk::<16>()?)))
}

/// Rows on their way into a pack.
pub(crate) struct OriginSorter {
    folder: PathBuf,
    rows: Vec<Row>,
    run_rows: usize,
    runs: Option<File>,
    /// Where each run begins and ends in the file, in rows.
    ends: Vec<(u64, u64)>,
}

impl OriginSorter {
    /// What does not fit into memory goes into a file in `folder`.
    pub(crate) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), rows: Vec::new(), run_rows: RUN_ROWS, runs: None, ends: Vec::new() }
    }

    #[cfg(test)]
    pub(crate) fn with_run_rows(mut self, rows: usize) -> Self {
        self.run_rows = rows;
        self
    }

    pub(crate) fn push(&mut self, origin: NodeRef, copy: NodeRef) -> Result<(), PackError> {
        self.rows.push(row(origin, copy));
        if self.rows.len() == self.run_rows {
            self.spill()?;
        }
        Ok(())
    }

    fn spill(&mut self) -> Result<(), PackError> {
        self.rows.sort_unstable();
        let io = || PackError::io("write a temporary file in", &self.folder);
        if self.runs.is_none() {
            self.runs = Some(tempfile::tempfile_in(&self.folder).map_err(io())?);
        }
        let begin = self.ends.last().map_or(0, |(_, end)| *end);
        if let Some(file) = &self.runs {
            file.write_all_at(self.rows.as_flattened(), begin * ROW_BYTES as u64).map_err(io())?;
        }
        self.ends.push((begin, begin + self.rows.len() as u64));
        self.rows.clear();
        Ok(())
    }

    /// Writes the section of all rows.
    pub(crate) fn finish(
        mut self,
        writer: &mut PackWriter,
        options: SectionOptions,
    ) -> Result<(), PackError> {
        writer.begin_section(ORIGINS, options)?;
        let mut block = Vec::with_capacity(BLOCK_ROWS * ROW_BYTES);
        let mut add = |row: &Row| {
            block.extend_from_slice(row);
            if block.len() == BLOCK_ROWS * ROW_BYTES {
                write_block(writer, &mut block)?;
            }
            Ok(())
        };
        self.rows.sort_unstable();
        match self.runs.take() {
            None => self.rows.iter().try_for_each(add)?,
            Some(file) => {
                let folder = &self.folder;
                let mut runs: Vec<_> =
                    self.ends.iter().map(|(at, end)| Run::stored(&file, folder, *at, *end)).collect();
                runs.push(Run { stored: None, rows: std::mem::take(&mut self.rows), next: 0 });
                let mut heap = BinaryHeap::new();
                for (number, run) in runs.iter_mut().enumerate() {
                    heap.extend(run.take()?.map(|row| Reverse((row, number))));
                }
                while let Some(Reverse((row, number))) = heap.pop() {
                    add(&row)?;
                    if let Some(run) = runs.get_mut(number) {
                        heap.extend(run.take()?.map(|row| Reverse((row, number))));
                    }
                }
            }
        }
        write_block(writer, &mut block)
    }
}

fn write_block(writer: &mut PackWriter, block: &mut Vec<u8>) -> Result<(), PackError> {
    if let Some(key) = block.get(..ORIGIN_BYTES) {
        writer.block(key, (block.len() / ROW_BYTES) as u32, block)?;
        block.clear();
    }
    Ok(())
}

/// A sorted run, read a piece at a time.
struct Run<'f> {
    stored: Option<(&'f File, &'f Path, u64, u64)>,
    rows: Vec<Row>,
    next: usize,
}

impl<'f> Run<'f> {
    fn stored(file: &'f File, folder: &'f Path, at: u64, end: u64) -> Self {
        Self { stored: Some((file, folder, at, end)), rows: Vec::new(), next: 0 }
    }

    fn take(&mut self) -> Result<Option<Row>, PackError> {
        if self.next == self.rows.len() {
            let Some((file, folder, at, end)) = &mut self.stored else { return Ok(None) };
            let count = (*end - *at).min(READ_ROWS as u64);
            self.rows.resize(count as usize, [0; ROW_BYTES]);
            let read = file.read_exact_at(self.rows.as_flattened_mut(), *at * ROW_BYTES as u64);
            read.map_err(PackError::io("read a temporary file in", *folder))?;
            *at += count;
            self.next = 0;
        }
        let row = self.rows.get(self.next).copied();
        self.next += 1;
        Ok(row)
    }
}

/// The rows of a pack that is a base.
pub(crate) struct Origins {
    section: Section,
    /// Blocks, the one that was used last at the end.
    kept: Vec<(usize, Vec<u8>)>,
}

impl Origins {
    pub(crate) fn new(section: Section) -> Self {
        Self { section, kept: Vec::new() }
    }

    /// The copy of a node of the store, if it is in the pack.
    pub(crate) fn find(&mut self, origin: NodeRef) -> Result<Option<NodeRef>, PackError> {
        let key = origin_key(origin);
        let Some(block) = self.section.find(&key) else { return Ok(None) };
        let at = match self.kept.iter().position(|(kept, _)| *kept == block) {
            Some(at) => self.kept.remove(at).1,
            None => {
                let full = self.kept.len() == KEPT_BLOCKS;
                let mut bytes = if full { self.kept.remove(0).1 } else { Vec::new() };
                self.section.read(block, &mut bytes)?;
                bytes
            }
        };
        let rows = at.as_chunks::<ROW_BYTES>().0;
        let found = rows.binary_search_by(|row| row[..ORIGIN_BYTES].cmp(&key));
        let copy = found.ok().and_then(|found| copy_of(&rows[found]));
        self.kept.push((block, at));
        Ok(copy)
    }
}
