//! Writing a pack, front to back.

use std::io::{BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::container::compress::{compress, Codec, Compressor, SectionOptions};
use crate::container::format::{
    check_limit, digest, digest16, encode_table, Footer, Header, Kind, TableEntry, HEADER_BYTES,
};
use crate::container::index::put_entry;
use crate::container::temporary::Temporary;
use crate::error::PackError;
use crate::limits::{
    BLOCKS_MAX, BLOCK_BYTES_MAX, DICTIONARY_BYTES_MAX, INDEX_BYTES_MAX, KEY_BYTES_MAX, MANIFEST_BYTES_MAX,
    SECTIONS_MAX, SECTION_NAME_BYTES_MAX, TABLE_BYTES_MAX,
};

/// Bytes that are collected before they are handed to the operating system.
const BUFFER_BYTES: usize = 1 << 20;

/// The number of a section in its pack, from 0.
pub type SectionId = usize;

/// A pack that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackSummary {
    /// Bytes of the file.
    pub bytes: u64,
    /// The digest that proves the whole file.
    pub root_digest: [u8; 32],
    /// Records in all sections.
    pub records: u64,
    /// Bytes of all blocks before compression.
    pub raw_bytes: u64,
}

/// Writes a pack. It appears under its name only by [`finish`](Self::finish); dropped before, it leaves nothing
/// behind. One process at a time writes a file of that name.
///
/// Memory: one block and the block index of the section that is being written.
#[derive(Debug)]
pub struct PackWriter {
    target: PathBuf,
    name: String,
    kind: Kind,
    out: BufWriter<Output>,
    at: u64,
    sections: Vec<TableEntry>,
    open: Option<OpenSection>,
    compressor: Compressor,
    stored: Vec<u8>,
    failed: Option<String>,
}

#[derive(Debug)]
struct OpenSection {
    entry: TableEntry,
    options: SectionOptions,
    index: Vec<u8>,
    last_key: Vec<u8>,
}

/// The temporary file as something to write to.
#[derive(Debug)]
struct Output(Temporary);

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.file().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl PackWriter {
    /// Begins a pack that will appear at `path`, in the place of a file that is there.
    ///
    /// # Errors
    /// [`PackError::Locked`] when somebody is writing it already; when the folder cannot be written.
    pub fn create(path: impl AsRef<Path>, kind: Kind) -> Result<Self, PackError> {
        let target = path.as_ref().to_owned();
        let temporary = Temporary::create(&target)?;
        let mut writer = Self {
            name: target.display().to_string(),
            target,
            kind,
            out: BufWriter::with_capacity(BUFFER_BYTES, Output(temporary)),
            at: 0,
            sections: Vec::new(),
            open: None,
            compressor: Compressor::new(),
            stored: Vec::new(),
            failed: None,
        };
        // The header states the length, which is known at the end.
        writer.write(&[0; HEADER_BYTES])?;
        Ok(writer)
    }

    fn invalid(&self, what: &'static str, reason: impl Into<String>) -> PackError {
        PackError::InvalidInput { file: self.name.clone(), what, reason: reason.into() }
    }

    fn check(&self) -> Result<(), PackError> {
        match &self.failed {
            Some(first) => Err(PackError::Poisoned { file: self.name.clone(), first: first.clone() }),
            None => Ok(()),
        }
    }

    /// After an error of the operating system nobody knows what is in the file: it is never written again.
    fn poison(&mut self, error: PackError) -> PackError {
        self.failed.get_or_insert_with(|| error.to_string());
        error
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), PackError> {
        if let Err(error) = self.out.write_all(bytes) {
            let error = PackError::io("write", self.out.get_ref().0.path())(error);
            return Err(self.poison(error));
        }
        self.at += bytes.len() as u64;
        Ok(())
    }

    /// Begins a section, and ends the one before it. Names differ by their bytes, and each is used once.
    ///
    /// # Errors
    /// When the name is empty, too long or taken, or nothing can be written.
    pub fn begin_section(&mut self, name: &str, options: SectionOptions) -> Result<SectionId, PackError> {
        self.check()?;
        self.end_section()?;
        if name.is_empty() || name.len() > SECTION_NAME_BYTES_MAX {
            let reason = format!("a name has 1 to {SECTION_NAME_BYTES_MAX} bytes");
            return Err(self.invalid("a section", reason));
        }
        if self.sections.iter().any(|section| section.name == name) {
            return Err(self.invalid("a section", format!("there is one named {name:?} already")));
        }
        check_limit(
            &self.name,
            "the number of sections",
            self.sections.len() as u64 + 1,
            SECTIONS_MAX as u64,
        )?;
        let mut dictionary = None;
        if let Some(bytes) = options.dictionary.clone().filter(|bytes| !bytes.is_empty()) {
            let limit = u64::from(DICTIONARY_BYTES_MAX);
            check_limit(&self.name, "a dictionary", bytes.len() as u64, limit)?;
            dictionary = Some((bytes.len() as u32, digest16(&bytes)));
            self.write(&bytes)?;
        }
        let entry = TableEntry {
            name: name.to_owned(),
            dictionary,
            blocks: 0,
            records: 0,
            raw_bytes: 0,
            block_bytes: 0,
            index_bytes: 0,
            index_digest: [0; 32],
        };
        self.open = Some(OpenSection { entry, options, index: Vec::new(), last_key: Vec::new() });
        Ok(self.sections.len())
    }

    fn end_section(&mut self) -> Result<(), PackError> {
        let Some(OpenSection { mut entry, index, .. }) = self.open.take() else { return Ok(()) };
        check_limit(&self.name, "a block index", index.len() as u64, INDEX_BYTES_MAX)?;
        entry.index_bytes = index.len() as u64;
        entry.index_digest = digest(&index);
        self.write(&index)?;
        self.sections.push(entry);
        Ok(())
    }

    /// Adds a block to the section: its smallest key, which is above that of the block before; its number of records;
    /// its content, which is compressed here.
    ///
    /// # Errors
    /// When there is no section, the key is not above, something is too large, or nothing can be written.
    pub fn block(&mut self, first_key: &[u8], records: u32, raw: &[u8]) -> Result<(), PackError> {
        self.check()?;
        check_limit(&self.name, "a block", raw.len() as u64, u64::from(BLOCK_BYTES_MAX))?;
        let Some(open) = &self.open else {
            return Err(self.invalid("a block", "begin a section first"));
        };
        let mut stored = std::mem::take(&mut self.stored);
        let codec = compress(&open.options, raw, &mut stored, &mut self.compressor);
        let added = self.compressed_block(first_key, records, &stored, raw.len() as u32, codec);
        self.stored = stored;
        added
    }

    /// Adds a block that [`compress`] compressed, with the options of the section: for callers who compress on several
    /// threads.
    ///
    /// # Errors
    /// As [`block`](Self::block).
    pub fn compressed_block(
        &mut self,
        first_key: &[u8],
        records: u32,
        stored: &[u8],
        raw_len: u32,
        codec: Codec,
    ) -> Result<(), PackError> {
        self.check()?;
        check_limit(&self.name, "a block", u64::from(raw_len), u64::from(BLOCK_BYTES_MAX))?;
        check_limit(&self.name, "a key", first_key.len() as u64, KEY_BYTES_MAX as u64)?;
        let Some(open) = &self.open else {
            return Err(self.invalid("a block", "begin a section first"));
        };
        check_limit(&self.name, "the number of blocks of a section", open.entry.blocks + 1, BLOCKS_MAX)?;
        if open.entry.blocks > 0 && first_key <= open.last_key.as_slice() {
            return Err(self.invalid("a block", "its first key is not above that of the block before it"));
        }
        let fits = match codec {
            Codec::Raw => stored.len() == raw_len as usize,
            Codec::Zstd => stored.len() <= raw_len as usize,
        };
        if !fits {
            return Err(self.invalid("a block", "it is longer stored than it is"));
        }
        self.write(stored)?;
        let digest = digest16(stored);
        if let Some(open) = &mut self.open {
            put_entry(&mut open.index, first_key, records, codec, stored.len() as u32, raw_len, &digest);
            open.last_key.clear();
            open.last_key.extend_from_slice(first_key);
            open.entry.blocks += 1;
            open.entry.records += u64::from(records);
            open.entry.raw_bytes += u64::from(raw_len);
            open.entry.block_bytes += stored.len() as u64;
        }
        Ok(())
    }

    /// Bytes that were written so far.
    pub fn bytes(&self) -> u64 {
        self.at
    }

    /// Ends the pack with its manifest: what the kind needs to know before it reads a section. The file is durable, and
    /// has its name, when this returns.
    ///
    /// # Errors
    /// When something is too large, or nothing can be written; the file that had the name before is then as it was,
    /// unless only its folder could not be made durable.
    pub fn finish(mut self, manifest: &[u8]) -> Result<PackSummary, PackError> {
        self.check()?;
        self.end_section()?;
        check_limit(&self.name, "the manifest", manifest.len() as u64, MANIFEST_BYTES_MAX)?;
        let manifest_at = self.at;
        self.write(manifest)?;
        let table = encode_table(&self.sections);
        check_limit(&self.name, "the section table", table.len() as u64, TABLE_BYTES_MAX)?;
        let table_at = self.at;
        self.write(&table)?;
        let size = self.at + crate::container::format::FOOTER_BYTES as u64;
        let header = Header { kind: self.kind, size };
        let footer = Footer {
            table: (table_at, table.len() as u64),
            manifest: (manifest_at, manifest.len() as u64),
            table_digest: digest(&table),
            manifest_digest: digest(manifest),
        };
        self.write(&footer.encode(header))?;
        let Self { out, sections, target, .. } = self;
        let Output(temporary) =
            out.into_inner().map_err(|error| PackError::io("write", &target)(error.into_error()))?;
        let headed = temporary.file().write_all_at(&header.encode(), 0);
        headed.map_err(PackError::io("write", temporary.path()))?;
        temporary.place()?;
        Ok(PackSummary {
            bytes: size,
            root_digest: footer.root(header),
            records: sections.iter().map(|section| section.records).sum(),
            raw_bytes: sections.iter().map(|section| section.raw_bytes).sum(),
        })
    }
}
