//! The envelope of a version 3 file: a manifest, then the files of a directory, each a zstd frame, then their index.
//!
//! ```text
//! "C1Z3\0" | u32 length | manifest | frame* | index | u64 offset of index | u32 length | u64 xxh64 of index | "C1ZIDX1\0"
//! ```
//! Numbers outside of protobuf messages are big-endian. In place of frames and index there can be a tar archive of the
//! files up to the end, as it is or in one zstd frame.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh64::xxh64;

use super::tar;
use crate::c1z::error::{Bad, C1zError, DECODED_ADVICE};
use crate::c1z::limits::{FILES_MAX, INDEX_BYTES_MAX, MANIFEST_BYTES_MAX, NAME_BYTES_MAX};
use crate::c1z::wire::{self, Fields};
use crate::c1z::{decompress, ReadOptions};

/// What a version 3 file begins with.
pub(crate) const MAGIC: [u8; 5] = *b"C1Z3\0";
const END_MAGIC: [u8; 8] = *b"C1ZIDX1\0";
const FOOTER: u64 = 28;

/// The engines whose directories are read.
const ENGINES: [&str; 3] = ["pebble", "pebble2", "pebble3"];
/// The engine that is named in what is written.
pub(crate) const ENGINE: &str = "pebble3";
/// The version of the engine's schema that is named in what is written.
pub(crate) const SCHEMA_VERSION: u64 = 24;
/// Keys made of the parts of a row, and not of its id.
pub(crate) const STRUCTURED_KEYS: u64 = 2;

mod encoding {
    pub(super) const ZSTD_TAR: u64 = 1;
    pub(super) const TAR: u64 = 2;
    pub(super) const INDEXED_ZSTD: u64 = 5;
}

/// What the manifest says.
#[derive(Debug, Default)]
pub(crate) struct Manifest {
    pub(crate) engine: String,
    encoding: u64,
    dead_bytes: u64,
    pub(crate) key_layout: u64,
    pub(crate) syncs: u64,
}

/// One file of the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) offset: u64,
    pub(crate) stored: u64,
    pub(crate) raw: u64,
    pub(crate) xxh64: u64,
    pub(crate) sha256: [u8; 32],
}

/// An envelope whose manifest and index have been read and verified.
#[derive(Debug)]
pub(crate) struct Envelope {
    pub(crate) path: PathBuf,
    /// Where the files lie: in frames, or as they are in an archive, which can have been unpacked into a file of its own.
    file: File,
    is_archive: bool,
    pub(crate) manifest: Manifest,
    pub(crate) entries: Vec<Entry>,
    pub(crate) len: u64,
}

impl Envelope {
    pub(crate) fn open(path: &Path, options: &ReadOptions) -> Result<Envelope, C1zError> {
        let file = File::open(path).map_err(C1zError::io("opening", path))?;
        let len = file.metadata().map_err(C1zError::io("asking for the length of", path))?.len();
        let truncated =
            |reason: &str| C1zError::Truncated { file: path.to_owned(), at: len, reason: reason.to_owned() };
        let read = |at: u64, length: u64| -> Result<Vec<u8>, C1zError> {
            let mut bytes = vec![0; length as usize];
            file.read_exact_at(&mut bytes, at).map_err(C1zError::io("reading", path))?;
            Ok(bytes)
        };
        let of_file = |bad: Bad| bad.located(path, "the file");
        let head_len = MAGIC.len() as u64 + 4;
        if len < head_len {
            return Err(truncated("the length of the manifest is missing"));
        }
        let head = read(0, head_len)?;
        let manifest_len = head.last_chunk::<4>().map_or(0, |bytes| u32::from_be_bytes(*bytes));
        if manifest_len > MANIFEST_BYTES_MAX {
            let limit = u64::from(MANIFEST_BYTES_MAX);
            return Err(of_file(Bad::too_large(
                5,
                "the length of the manifest",
                u64::from(manifest_len),
                limit,
            )));
        }
        let payload = head_len + u64::from(manifest_len);
        if len < payload {
            return Err(truncated("the manifest is not all there"));
        }
        let bytes = read(head_len, u64::from(manifest_len))?;
        let manifest = manifest(&bytes).map_err(|bad| of_file(bad.shifted(head_len as usize)))?;
        let manifest_hash = xxh64(&bytes, 0);

        if manifest.encoding != encoding::INDEXED_ZSTD {
            return Envelope::open_archive(path, file, manifest, payload..len, options);
        }
        if len < payload + FOOTER {
            return Err(truncated("the footer is missing"));
        }
        let footer = read(len - FOOTER, FOOTER)?;
        if footer.last_chunk::<8>() != Some(&END_MAGIC) {
            return Err(truncated(
                "the footer is not where it has to be, at the end: bytes are missing, or were added",
            ));
        }
        let number = |at: usize| {
            footer.get(at..at + 8).and_then(|it| it.try_into().ok()).map_or(0, u64::from_be_bytes)
        };
        let index_at = number(0);
        let index_len = footer.get(8..12).and_then(|it| it.try_into().ok()).map_or(0, u32::from_be_bytes);
        let footer_at = (len - FOOTER) as usize;
        if index_len > INDEX_BYTES_MAX {
            let limit = u64::from(INDEX_BYTES_MAX);
            return Err(of_file(Bad::too_large(
                footer_at + 8,
                "the length of the index",
                u64::from(index_len),
                limit,
            )));
        }
        if index_at < payload || index_at.checked_add(u64::from(index_len)) != Some(len - FOOTER) {
            return Err(of_file(Bad::new(
                footer_at,
                "the index does not lie between the frames and the footer",
            )));
        }
        let bytes = read(index_at, u64::from(index_len))?;
        if xxh64(&bytes, 0) != number(12) {
            return Err(of_file(Bad::new(index_at as usize, "the index does not match its checksum")));
        }
        let index = index(&bytes).map_err(|bad| of_file(bad.shifted(index_at as usize)))?;
        if index.manifest_hash != 0 && index.manifest_hash != manifest_hash {
            return Err(of_file(Bad::new(head_len as usize, "the manifest does not match its checksum")));
        }
        index
            .check(payload, index_at, manifest.dead_bytes)
            .map_err(|bad| of_file(bad.shifted(index_at as usize)))?;
        let limit = options.decompressed_limit(len);
        if index.total_raw > limit {
            let what = "what the files hold after decompression".to_owned();
            let (file, value) = (path.to_owned(), index.total_raw);
            return Err(C1zError::TooLarge { file, what, value, limit, advice: DECODED_ADVICE });
        }
        let path = path.to_owned();
        Ok(Envelope { path, file, is_archive: false, manifest, entries: index.entries, len })
    }

    /// Opens a file with an archive, which lies in `payload`.
    fn open_archive(
        path: &Path,
        mut file: File,
        manifest: Manifest,
        payload: Range<u64>,
        options: &ReadOptions,
    ) -> Result<Envelope, C1zError> {
        let len = payload.end;
        let mut archive = payload;
        if manifest.encoding == encoding::ZSTD_TAR {
            let into = tempfile::tempfile();
            file = into.map_err(C1zError::io("making a temporary file for", path))?;
            let what = "the archive of its files";
            archive = 0..decompress::frame(path, archive.start, what, &mut file, options)?;
        }
        let entries = tar::entries(&file, archive.start, archive.end, path)?;
        Ok(Envelope { path: path.to_owned(), file, is_archive: true, manifest, entries, len })
    }

    /// A file of the directory, decompressed and verified.
    pub(crate) fn read(&self, entry: &Entry, check_sha256: bool) -> Result<Vec<u8>, C1zError> {
        self.read_into(entry, check_sha256, Vec::new())
    }

    /// The same, in the place of what a used buffer held.
    pub(crate) fn read_into(
        &self,
        entry: &Entry,
        check_sha256: bool,
        mut raw: Vec<u8>,
    ) -> Result<Vec<u8>, C1zError> {
        if self.is_archive {
            // What lies in an archive has no checksums but its own.
            raw.resize(entry.raw as usize, 0);
            let read = self.file.read_exact_at(&mut raw, entry.offset);
            return read.map(|()| raw).map_err(C1zError::io("reading", &self.path));
        }
        let bad = |reason: String| Bad::new(entry.offset as usize, reason).located(&self.path, "the file");
        let mut stored = vec![0; entry.stored as usize];
        self.file.read_exact_at(&mut stored, entry.offset).map_err(C1zError::io("reading", &self.path))?;
        // The bit is meant for later; whoever sets it means something that is not known here.
        if stored.get(4).is_some_and(|descriptor| descriptor & 0x10 != 0) {
            return Err(bad(format!("the frame of {} is of a later form", entry.name)));
        }
        match zstd::zstd_safe::get_frame_content_size(&stored) {
            Ok(Some(size)) if size != entry.raw => {
                return Err(bad(format!(
                    "the frame of {} says {size} bytes, the index {}",
                    entry.name, entry.raw
                )));
            }
            Ok(_) => {}
            Err(_) => return Err(bad(format!("{} is not a zstd frame", entry.name))),
        }
        raw.clear();
        raw.reserve_exact(entry.raw as usize);
        zstd::bulk::Decompressor::new()
            .and_then(|mut zstd| zstd.decompress_to_buffer(&stored, &mut raw))
            .map_err(|e| bad(format!("the frame of {} does not decompress: {e}", entry.name)))?;
        if raw.len() as u64 != entry.raw {
            return Err(bad(format!(
                "{} has {} bytes, and {} in the index",
                entry.name,
                raw.len(),
                entry.raw
            )));
        }
        if xxh64(&raw, 0) != entry.xxh64 {
            return Err(bad(format!("{} does not match its checksum", entry.name)));
        }
        if check_sha256 && ring::digest::digest(&ring::digest::SHA256, &raw).as_ref() != entry.sha256 {
            return Err(bad(format!("{} does not match its SHA-256", entry.name)));
        }
        Ok(raw)
    }

    /// The file of the directory with a name.
    pub(crate) fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name == name)
    }
}

fn manifest(bytes: &[u8]) -> Result<Manifest, Bad> {
    let mut manifest = Manifest::default();
    let (mut engine_at, mut encoding_at) = (0, 0);
    let mut fields = Fields::new(bytes);
    while let Some(field) = fields.next()? {
        match field.number {
            1 => {
                engine_at = field.at;
                manifest.engine = field.text()?.to_owned();
            }
            4 => {
                encoding_at = field.at;
                manifest.encoding = field.varint()?;
            }
            40 => manifest.syncs += 1,
            41 => manifest.dead_bytes = field.varint()?,
            42 => manifest.key_layout = field.varint()?,
            // Descriptions of the messages, and statistics.
            _ => {}
        }
    }
    if !ENGINES.contains(&manifest.engine.as_str()) {
        let what = format!("it was written by the engine {:?}", manifest.engine);
        return Err(Bad::unsupported(
            engine_at,
            what,
            "known are pebble, pebble2 and pebble3: use a newer duramen",
        ));
    }
    match manifest.encoding {
        encoding::INDEXED_ZSTD | encoding::ZSTD_TAR | encoding::TAR => Ok(manifest),
        other => {
            let what = format!("its files lie in it in the way {other}");
            Err(Bad::unsupported(encoding_at, what, "known are 1, 2 and 5: use a newer duramen"))
        }
    }
}

#[derive(Debug, Default)]
struct Index {
    entries: Vec<Entry>,
    total_raw: u64,
    total_stored: u64,
    manifest_hash: u64,
}

fn index(bytes: &[u8]) -> Result<Index, Bad> {
    let mut index = Index::default();
    let mut fields = Fields::new(bytes);
    while let Some(field) = fields.next()? {
        match field.number {
            1 => {
                if index.entries.len() == FILES_MAX {
                    let limit = FILES_MAX as u64;
                    return Err(Bad::too_large(field.at, "the number of files", limit + 1, limit));
                }
                let base = field.content_at();
                index.entries.push(entry(field.bytes()?).map_err(|bad| bad.shifted(base))?);
            }
            2 => index.total_raw = field.varint()?,
            3 => index.total_stored = field.varint()?,
            4 => index.manifest_hash = field.fixed64()?,
            _ => return Err(field.unknown_in("IndexedFrameIndex")),
        }
    }
    Ok(index)
}

fn entry(bytes: &[u8]) -> Result<Entry, Bad> {
    let mut found = Entry { name: String::new(), offset: 0, stored: 0, raw: 0, xxh64: 0, sha256: [0; 32] };
    let mut sha256 = None;
    let mut fields = Fields::new(bytes);
    while let Some(field) = fields.next()? {
        match field.number {
            1 => found.name = field.text()?.to_owned(),
            2 => found.offset = field.varint()?,
            3 => found.stored = field.varint()?,
            4 => found.raw = field.varint()?,
            5 => found.xxh64 = field.fixed64()?,
            6 => sha256 = field.bytes()?.try_into().ok(),
            _ => return Err(field.unknown_in("IndexedFrameEntry")),
        }
    }
    found.sha256 = sha256.ok_or_else(|| Bad::new(0, "a file without a SHA-256 of 32 bytes"))?;
    check_name(&found.name)?;
    Ok(found)
}

/// Names become paths when a tool unpacks the directory, so none may lead out of it.
pub(crate) fn check_name(name: &str) -> Result<(), Bad> {
    if name.len() > NAME_BYTES_MAX {
        return Err(Bad::too_large(0, "the length of a name", name.len() as u64, NAME_BYTES_MAX as u64));
    }
    let bad_part = |part: &str| part.is_empty() || part == "." || part == "..";
    if name.contains(['\0', '\\']) || name.split('/').any(bad_part) {
        return Err(Bad::new(0, format!("the name {name:?} leads out of the directory")));
    }
    Ok(())
}

impl Index {
    /// Frames lie between `start` and `end`, one behind the other, and their sums are right.
    fn check(&self, start: u64, end: u64, dead_bytes: u64) -> Result<(), Bad> {
        let mut names: Vec<&str> = self.entries.iter().map(|entry| entry.name.as_str()).collect();
        names.sort_unstable();
        if let Some((name, _)) = names.iter().zip(names.iter().skip(1)).find(|(a, b)| a == b) {
            return Err(Bad::new(0, format!("two files have the name {name:?}")));
        }
        let mut by_offset: Vec<&Entry> = self.entries.iter().collect();
        by_offset.sort_unstable_by_key(|entry| entry.offset);
        let (mut at, mut raw, mut stored) = (start, 0u64, 0u64);
        for entry in by_offset {
            let name = &entry.name;
            if entry.offset < at || entry.stored == 0 {
                return Err(Bad::new(0, format!("the frame of {name} overlaps another or is empty")));
            }
            if entry.offset > at && dead_bytes == 0 {
                return Err(Bad::new(
                    0,
                    format!("there are bytes before the frame of {name} that belong to nothing"),
                ));
            }
            let next = entry.offset.checked_add(entry.stored).filter(|next| *next <= end);
            at = next.ok_or_else(|| Bad::new(0, format!("the frame of {name} runs into the index")))?;
            let sum = raw.checked_add(entry.raw);
            raw = sum.ok_or_else(|| Bad::new(0, "the lengths of the files overflow"))?;
            stored += entry.stored;
        }
        if at != end && dead_bytes == 0 {
            return Err(Bad::new(0, "there are bytes behind the frames that belong to nothing"));
        }
        if raw != self.total_raw || stored != self.total_stored {
            return Err(Bad::new(0, "the lengths of the files do not add up"));
        }
        Ok(())
    }
}

/// The head of a file: magic, length and manifest.
pub(crate) fn head(manifest: &[u8]) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&(manifest.len() as u32).to_be_bytes());
    out.extend_from_slice(manifest);
    out
}

/// The manifest of what is written; `summary` writes the line of the sync.
pub(crate) fn manifest_of(summary: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    wire::put_bytes(&mut out, 1, ENGINE.as_bytes());
    wire::put_number(&mut out, 2, SCHEMA_VERSION);
    wire::put_number(&mut out, 4, encoding::INDEXED_ZSTD);
    wire::put_message(&mut out, 40, summary);
    wire::put_number(&mut out, 42, STRUCTURED_KEYS);
    out
}

/// The end of a file: index and footer. The index begins at `offset`.
pub(crate) fn tail(entries: &[Entry], manifest: &[u8], offset: u64) -> Vec<u8> {
    let mut out = Vec::new();
    for entry in entries {
        wire::put_message(&mut out, 1, |out| {
            wire::put_bytes(out, 1, entry.name.as_bytes());
            wire::put_number(out, 2, entry.offset);
            wire::put_number(out, 3, entry.stored);
            wire::put_number(out, 4, entry.raw);
            wire::put_fixed64(out, 5, entry.xxh64);
            wire::put_bytes(out, 6, &entry.sha256);
        });
    }
    wire::put_number(&mut out, 2, entries.iter().map(|entry| entry.raw).sum());
    wire::put_number(&mut out, 3, entries.iter().map(|entry| entry.stored).sum());
    wire::put_fixed64(&mut out, 4, xxh64(manifest, 0));
    let (length, hash) = (out.len() as u32, xxh64(&out, 0));
    out.extend_from_slice(&offset.to_be_bytes());
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(&hash.to_be_bytes());
    out.extend_from_slice(&END_MAGIC);
    out
}
