//! Reading a pack where it lies.

use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::container::compress::{Codec, Decompressor};
use crate::container::format::{
    decode_table, digest, digest16, Footer, Header, Kind, Placed, FOOTER_BYTES, HEADER_BYTES,
};
use crate::container::index::{BlockEntry, Index};
use crate::container::source::{self, RangeRead};
use crate::error::PackError;

/// Decompressors that are kept for each section.
const DECOMPRESSORS_MAX: usize = 8;

/// A pack that is open for reading, by any number of threads. Clones are the same one.
///
/// Opening reads header, footer and section table. The block index of a section is read when the section is asked for,
/// and stays in memory; blocks are read when they are asked for, and do not.
#[derive(Clone)]
pub struct Pack {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) name: String,
    pub(crate) source: Arc<dyn RangeRead>,
    pub(crate) header: Header,
    pub(crate) footer: Footer,
    root: [u8; 32],
    pub(crate) placed: Vec<Placed>,
    infos: Vec<SectionInfo>,
    manifest: OnceLock<Arc<[u8]>>,
    sections: Vec<OnceLock<Arc<Loaded>>>,
}

/// What is known of a section without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SectionInfo {
    /// Its name.
    pub name: String,
    /// Records in it.
    pub records: u64,
    /// Blocks in it.
    pub blocks: u64,
    /// Bytes of its blocks before compression.
    pub raw_bytes: u64,
    /// Bytes that it takes in the file: dictionary, blocks and index.
    pub stored_bytes: u64,
    /// Bytes of its block index, which are a part of the stored ones.
    pub index_bytes: u64,
    /// Where its blocks lie in the file, in bytes from its beginning.
    pub range: Range<u64>,
}

/// The parts of a section that stay in memory.
struct Loaded {
    index: Index,
    dictionary: Vec<u8>,
    idle: Mutex<Vec<Scratch>>,
}

/// What reading a block needs, kept for the next.
struct Scratch {
    decompressor: Decompressor,
    stored: Vec<u8>,
}

impl Inner {
    /// Reads a range. Its length was bounded by the caller.
    pub(crate) fn range(&self, range: Range<u64>, out: &mut Vec<u8>) -> Result<(), PackError> {
        out.resize((range.end - range.start) as usize, 0);
        let read = self.source.read_exact_at(range.start, out);
        read.map_err(PackError::io("read", &self.name))
    }

    pub(crate) fn damaged(&self, range: Range<u64>, what: impl Into<String>) -> PackError {
        PackError::damaged(&self.name, range, what)
    }

    pub(crate) fn read_manifest(&self) -> Result<Vec<u8>, PackError> {
        let (at, len) = self.footer.manifest;
        let mut bytes = Vec::new();
        self.range(at..at + len, &mut bytes)?;
        if digest(&bytes) != self.footer.manifest_digest {
            return Err(self.damaged(at..at + len, "its manifest has a wrong digest"));
        }
        Ok(bytes)
    }

    pub(crate) fn read_dictionary(&self, placed: &Placed) -> Result<Vec<u8>, PackError> {
        let mut bytes = Vec::new();
        if let Some((_, expected)) = placed.entry.dictionary {
            self.range(placed.dictionary.clone(), &mut bytes)?;
            if digest16(&bytes) != expected {
                let what = format!("the dictionary of section {:?} has a wrong digest", placed.entry.name);
                return Err(self.damaged(placed.dictionary.clone(), what));
            }
        }
        Ok(bytes)
    }

    pub(crate) fn read_index(&self, placed: &Placed) -> Result<Index, PackError> {
        let damaged = |wrong: &str| {
            let what = format!("the block index of section {:?} {wrong}", placed.entry.name);
            self.damaged(placed.index.clone(), what)
        };
        let mut bytes = Vec::new();
        self.range(placed.index.clone(), &mut bytes)?;
        if digest(&bytes) != placed.entry.index_digest {
            return Err(damaged("has a wrong digest"));
        }
        Index::decode(bytes, placed).map_err(damaged)
    }

    /// Reads a block, checks it and decompresses it.
    pub(crate) fn read_block(
        &self,
        section: &str,
        block: usize,
        entry: &BlockEntry,
        decompressor: &mut Decompressor,
        stored: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<(), PackError> {
        let damaged = |wrong: &str| {
            self.damaged(entry.range(), format!("block {block} of section {section:?}: {wrong}"))
        };
        let target = if entry.codec == Codec::Raw { &mut *out } else { &mut *stored };
        self.range(entry.range(), target)?;
        if digest16(target) != entry.digest {
            return Err(damaged("it has a wrong digest"));
        }
        match entry.codec {
            Codec::Raw => Ok(()),
            Codec::Zstd => {
                let run = decompressor.run(stored, entry.raw_len as usize, out);
                run.map_err(|error| damaged(&format!("it cannot be decompressed: {error}")))
            }
        }
    }
}

impl Pack {
    /// Opens a pack file, or with the feature `remote` the pack at a URL: `s3://bucket/key`, `gs:`, `az:`, `abfss:`, `https:`.
    /// Credentials come from the environment, by the names that the tools of the store use. Opening an object costs two
    /// requests; every wait has an end.
    ///
    /// # Errors
    /// When it cannot be read, is not a pack, is newer than this version, is cut off, goes on after its end, or is damaged
    /// where opening looks.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, PackError> {
        let (source, name) = source::open(path.as_ref())?;
        Self::open_source(source, &name)
    }

    /// Opens a pack that lies anywhere. `name` is what messages call it.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_source(source: Arc<dyn RangeRead>, name: &str) -> Result<Self, PackError> {
        let io = |error| PackError::io("read", name)(error);
        let size = source.size();
        let mut begin = vec![0; size.min(HEADER_BYTES as u64) as usize];
        source.read_exact_at(0, &mut begin).map_err(io)?;
        // A header is believed only if it states the very size of the file, so there is room for a footer.
        let header = Header::decode(&begin, size, name)?;
        let mut footer = [0; FOOTER_BYTES];
        source.read_exact_at(size - FOOTER_BYTES as u64, &mut footer).map_err(io)?;
        let (footer, root) = Footer::decode(&footer, header, name)?;
        let mut table = vec![0; footer.table.1 as usize];
        source.read_exact_at(footer.table.0, &mut table).map_err(io)?;
        let damaged = |wrong: &str| {
            let range = footer.table.0..footer.table.0 + footer.table.1;
            PackError::damaged(name, range, format!("its section table {wrong}"))
        };
        if digest(&table) != footer.table_digest {
            return Err(damaged("has a wrong digest"));
        }
        let placed = decode_table(&table, footer.manifest.0).map_err(damaged)?;
        let infos = placed.iter().map(SectionInfo::new).collect();
        let sections = placed.iter().map(|_| OnceLock::new()).collect();
        let (name, manifest) = (name.to_owned(), OnceLock::new());
        let inner = Inner { name, source, header, footer, root, placed, infos, manifest, sections };
        Ok(Self { inner: Arc::new(inner) })
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.inner
    }

    /// What messages call it: its path, if it is a file.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// What it is about.
    pub fn kind(&self) -> Kind {
        self.inner.header.kind
    }

    /// The pack, if it is about `kind`.
    ///
    /// # Errors
    /// [`PackError::WrongKind`] if it is not.
    pub fn expect_kind(self, kind: Kind) -> Result<Self, PackError> {
        if self.kind() == kind {
            return Ok(self);
        }
        let (found, wanted) = (self.kind().name(), kind.name());
        Err(PackError::WrongKind { file: self.inner.name.clone(), found, wanted })
    }

    /// Bytes of the file.
    pub fn size(&self) -> u64 {
        self.inner.header.size
    }

    /// The digest that proves the whole file: whoever knows it and verifies the file against it knows all of it.
    pub fn root_digest(&self) -> [u8; 32] {
        self.inner.root
    }

    /// The manifest. It is read at the first call.
    ///
    /// # Errors
    /// When it cannot be read or is damaged.
    pub fn manifest(&self) -> Result<Arc<[u8]>, PackError> {
        if let Some(manifest) = self.inner.manifest.get() {
            return Ok(manifest.clone());
        }
        let bytes = self.inner.read_manifest()?;
        Ok(self.inner.manifest.get_or_init(|| bytes.into()).clone())
    }

    /// Where the manifest lies in the file, in bytes from its beginning.
    pub fn manifest_range(&self) -> Range<u64> {
        let (at, len) = self.inner.footer.manifest;
        at..at + len
    }

    /// The error of a range of the file that makes no sense although its digests are right: only who knows what the
    /// blocks mean can say so.
    pub fn damaged(&self, range: Range<u64>, what: impl Into<String>) -> PackError {
        self.inner.damaged(range, what)
    }

    /// What is known of the sections, in the order in which they lie in the file. Nothing is read or decompressed.
    pub fn sections(&self) -> &[SectionInfo] {
        &self.inner.infos
    }

    /// A section by its name, if there is one. Its block index is read at the first call.
    ///
    /// # Errors
    /// When the index cannot be read or is damaged.
    pub fn section(&self, name: &str) -> Result<Option<Section>, PackError> {
        let found = self.inner.placed.iter().position(|placed| placed.entry.name == name);
        let Some(number) = found else { return Ok(None) };
        let (Some(placed), Some(slot)) = (self.inner.placed.get(number), self.inner.sections.get(number))
        else {
            return Ok(None);
        };
        let loaded = match slot.get() {
            Some(loaded) => loaded.clone(),
            None => {
                let index = self.inner.read_index(placed)?;
                let dictionary = self.inner.read_dictionary(placed)?;
                let loaded = Arc::new(Loaded { index, dictionary, idle: Mutex::new(Vec::new()) });
                // Two threads may have read the same; one of them is kept.
                slot.get_or_init(|| loaded).clone()
            }
        };
        Ok(Some(Section { pack: self.inner.clone(), number, loaded }))
    }
}

impl std::fmt::Debug for Pack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pack").field("name", &self.inner.name).field("header", &self.inner.header).finish()
    }
}

impl SectionInfo {
    fn new(placed: &Placed) -> Self {
        let entry = &placed.entry;
        Self {
            name: entry.name.clone(),
            records: entry.records,
            blocks: entry.blocks,
            raw_bytes: entry.raw_bytes,
            stored_bytes: placed.index.end - placed.dictionary.start,
            index_bytes: entry.index_bytes,
            range: placed.blocks.clone(),
        }
    }
}

/// A section of a pack. Clones are the same one.
#[derive(Clone)]
pub struct Section {
    pack: Arc<Inner>,
    number: usize,
    loaded: Arc<Loaded>,
}

impl Section {
    /// Blocks in it.
    pub fn blocks(&self) -> usize {
        self.loaded.index.len()
    }

    /// What is known of it.
    pub fn info(&self) -> &SectionInfo {
        &self.pack.infos[self.number]
    }

    /// The smallest key of a block.
    ///
    /// # Panics
    /// When there is no such block.
    pub fn first_key(&self, block: usize) -> &[u8] {
        self.loaded.index.key(block)
    }

    /// The number of records in a block; 0 if there is no such block.
    pub fn records(&self, block: usize) -> u32 {
        self.loaded.index.get(block).map_or(0, |entry| entry.records)
    }

    /// Bytes of a block before compression; 0 if there is no such block.
    pub fn raw_len(&self, block: usize) -> u32 {
        self.loaded.index.get(block).map_or(0, |entry| entry.raw_len)
    }

    /// Where the stored bytes of a block lie in the file; nowhere if there is no such block.
    pub fn range(&self, block: usize) -> Range<u64> {
        self.loaded.index.get(block).map_or(0..0, BlockEntry::range)
    }

    /// The block that holds a key, if any does: the last whose first key is not above it.
    pub fn find(&self, key: &[u8]) -> Option<usize> {
        self.loaded.index.find(key)
    }

    /// Puts the content of a block into `out`, whatever that holds: read, held against its digest, decompressed.
    ///
    /// # Errors
    /// When there is no such block, it cannot be read, or it is damaged.
    pub fn read(&self, block: usize, out: &mut Vec<u8>) -> Result<(), PackError> {
        let Some(entry) = self.loaded.index.get(block) else {
            let reason = format!("there are {} blocks", self.blocks());
            let file = self.pack.name.clone();
            return Err(PackError::InvalidInput {
                file,
                what: "a read of a block that is not there",
                reason,
            });
        };
        let idle = self.loaded.idle.lock().pop();
        let mut scratch = match idle {
            Some(scratch) => scratch,
            None => Scratch {
                decompressor: Decompressor::new(&self.loaded.dictionary, &self.pack.name)?,
                stored: Vec::new(),
            },
        };
        let Scratch { decompressor, stored } = &mut scratch;
        let read = self.pack.read_block(&self.info().name, block, entry, decompressor, stored, out);
        let mut idle = self.loaded.idle.lock();
        if idle.len() < DECOMPRESSORS_MAX {
            idle.push(scratch);
        }
        read
    }
}

impl std::fmt::Debug for Section {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Section").field("pack", &self.pack.name).field("info", self.info()).finish()
    }
}
