//! The file that is being written: sorted rows become tables, tables become frames, and the frames are listed.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use super::block_writer::{BlockWriter, DATA_INTERVAL};
use super::edit::{self, NewTable};
use super::envelope::{self, Entry};
use super::frames::{self, Frame, Frames};
use super::table_writer::RawTable;
use crate::c1z::error::C1zError;
use crate::c1z::WriteOptions;
use duramen_pack::container::Temporary;

/// How long the blocks of a table grow, in bytes, before compression: several tables are in memory at a time.
const TABLE_BYTES: usize = 8 << 20;

/// The number of the first table; the manifest has number 1.
const FIRST_TABLE: u64 = 2;

/// The last sequence number that is taken: lower ones mean something else to readers of the ecosystem.
const LAST_SEQUENCE: u64 = 10;

/// The version of the directory's form: the oldest that readers of the ecosystem take.
const FORMAT: &str = "marker.format-version.000001.013";
const MANIFEST: &str = "MANIFEST-000001";
const MANIFEST_MARKER: &str = "marker.manifest.000001.MANIFEST-000001";

/// A file that takes rows in the order of their keys, each key once.
pub(crate) struct Output {
    path: PathBuf,
    temporary: Temporary,
    level: i32,
    frames: Frames,
    manifest: Vec<u8>,
    entries: Vec<Entry>,
    /// How long the file is so far.
    offset: u64,
    table: RawTable,
    block: BlockWriter,
    tables: Vec<NewTable>,
}

impl Output {
    pub(crate) fn create(path: &Path, options: &WriteOptions) -> Result<Output, C1zError> {
        let temporary = Temporary::create(path).map_err(|error| C1zError::of_pack(error, path))?;
        let frames = Frames::start(options.level).map_err(C1zError::io("starting threads for", path))?;
        Ok(Output {
            path: path.to_owned(),
            temporary,
            level: options.level,
            frames,
            manifest: Vec::new(),
            entries: Vec::new(),
            offset: 0,
            table: RawTable::default().numbered(FIRST_TABLE),
            block: BlockWriter::new(DATA_INTERVAL),
            tables: Vec::new(),
        })
    }

    /// Writes the head of the file, with what its manifest says.
    pub(crate) fn begin(&mut self, manifest: Vec<u8>) -> Result<(), C1zError> {
        let head = envelope::head(&manifest);
        self.manifest = manifest;
        self.write(&head)
    }

    /// Adds a row.
    #[inline]
    pub(crate) fn add(&mut self, key: &[u8], value: &[u8]) -> Result<(), C1zError> {
        self.table.add(&mut self.block, key, value);
        if self.table.len() < TABLE_BYTES {
            return Ok(());
        }
        self.end_table()
    }

    fn end_table(&mut self) -> Result<(), C1zError> {
        self.table.end_block(&mut self.block);
        let (smallest, largest) = self.table.bounds();
        let number = self.table.number;
        // How long its file is will be known when it is compressed.
        self.tables.push(NewTable {
            number,
            bytes: 0,
            smallest: smallest.to_vec(),
            largest: largest.to_vec(),
        });
        let next = self.frames.table().numbered(number + 1);
        let full = std::mem::replace(&mut self.table, next);
        self.frames.send(full).map_err(C1zError::io("compressing", &self.path))?;
        self.write_frames(false)
    }

    /// Ends the last table, and waits until all tables are written.
    pub(crate) fn end_rows(&mut self) -> Result<(), C1zError> {
        if self.table.len() > 0 {
            self.end_table()?;
        }
        self.write_frames(true)
    }

    /// Writes what stands behind the tables, and gives the file its name. Gives its length in bytes.
    pub(crate) fn finish(mut self) -> Result<u64, C1zError> {
        for (table, entry) in self.tables.iter_mut().zip(&self.entries) {
            table.bytes = entry.raw;
        }
        let edits = edit::write(&self.tables, self.table.number, LAST_SEQUENCE);
        let mut compressor = None;
        for (name, raw) in [(MANIFEST, edits.as_slice()), (FORMAT, &[]), (MANIFEST_MARKER, &[])] {
            let frame = frames::frame(name.to_owned(), raw, self.level, &mut compressor);
            self.write_frame(frame.map_err(C1zError::io("compressing", &self.path))?)?;
        }
        let tail = envelope::tail(&self.entries, &self.manifest, self.offset);
        self.write(&tail)?;
        self.temporary.place().map_err(|error| C1zError::of_pack(error, &self.path))?;
        Ok(self.offset)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), C1zError> {
        self.temporary.file().write_all(bytes).map_err(C1zError::io("writing", &self.path))?;
        self.offset += bytes.len() as u64;
        Ok(())
    }

    fn write_frame(&mut self, frame: Frame) -> Result<(), C1zError> {
        self.entries.push(Entry { offset: self.offset, ..frame.entry });
        self.write(&frame.bytes)
    }

    /// Writes the frames that are ready; with `all`, waits for those that are not.
    fn write_frames(&mut self, all: bool) -> Result<(), C1zError> {
        while let Some(frame) = self.frames.next(all).map_err(C1zError::io("compressing", &self.path))? {
            self.write_frame(frame)?;
        }
        Ok(())
    }
}
