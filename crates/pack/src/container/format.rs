//! The two ends of the file and the section table, as bytes. The pictures are in `docs/design/packs.md`; a change of
//! them is a new format version.

use std::ops::Range;

use crate::container::bytes::{put_varint, Reader, Wrong};
use crate::error::PackError;
use crate::limits::{
    BLOCKS_MAX, DICTIONARY_BYTES_MAX, INDEX_BYTES_MAX, MANIFEST_BYTES_MAX, SECTIONS_MAX,
    SECTION_NAME_BYTES_MAX, TABLE_BYTES_MAX,
};

/// The format that is written. Later ones are refused, earlier ones are read for ever.
pub const FORMAT: u32 = 1;

pub(crate) const HEADER_BYTES: usize = 32;
pub(crate) const FOOTER_BYTES: usize = 144;

/// Bytes of a pack that holds nothing.
const SMALLEST: u64 = (HEADER_BYTES + FOOTER_BYTES + 1) as u64;

const MAGIC: &[u8; 8] = b"DuraPack";
const END_MAGIC: &[u8; 8] = b"PackEnds";

/// What a pack is about. The numbers are part of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Kind {
    /// A branch of a store.
    Branch = 1,
    /// An access graph.
    Graph = 2,
    /// A change set: what differs between a branch of PostgreSQL and what it was made of.
    Changes = 3,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Branch, Self::Graph, Self::Changes];

    /// Its name in messages and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Branch => "branch",
            Self::Graph => "graph",
            Self::Changes => "changes",
        }
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// A digest as people and manifests write it, in hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The first half of a digest, where a whole one would be a large part of what it stands for.
pub(crate) type Digest16 = [u8; 16];

pub(crate) fn digest(bytes: &[u8]) -> [u8; 32] {
    *blake3::hash(bytes).as_bytes()
}

pub(crate) fn digest16(bytes: &[u8]) -> Digest16 {
    first(&digest(bytes))
}

fn first<const N: usize>(digest: &[u8; 32]) -> [u8; N] {
    let mut part = [0; N];
    part.copy_from_slice(&digest[..N]);
    part
}

/// What the first bytes of a file that is not a pack seem to be.
fn guess(begin: &[u8]) -> &'static str {
    let known: [(&[u8], &str); 7] = [
        (
            b"C1ZF\0",
            "it is an access-graph file of the first format (.c1z), which `duramen pack convert` turns into a pack",
        ),
        (
            b"C1Z3\0",
            "it is an access-graph file of the third format (.c1z), which `duramen pack convert` turns into a pack",
        ),
        (b"SQLite format 3\0", "it is an SQLite database"),
        (b"PK\x03\x04", "it is a zip archive"),
        (b"\x28\xb5\x2f\xfd", "it is a Zstandard file"),
        (b"\x1f\x8b", "it is a gzip file"),
        (&[0; HEADER_BYTES], "writing it was never finished"),
    ];
    let found = known.into_iter().find(|(magic, _)| begin.starts_with(magic));
    found.map_or("it does not begin as one", |(_, name)| name)
}

/// How long the file is, and what it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    pub(crate) size: u64,
}

impl Header {
    pub(crate) fn encode(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT.to_le_bytes());
        bytes[12..16].copy_from_slice(&(self.kind as u32).to_le_bytes());
        bytes[16..24].copy_from_slice(&self.size.to_le_bytes());
        let check: [u8; 8] = first(&digest(&bytes[..24]));
        bytes[24..].copy_from_slice(&check);
        bytes
    }

    /// Takes the beginning of a file of `size` bytes apart: all of it that there is, up to the length of a header.
    pub(crate) fn decode(begin: &[u8], size: u64, file: &str) -> Result<Self, PackError> {
        let known = begin.len().min(MAGIC.len());
        if begin[..known] != MAGIC[..known] || begin.is_empty() {
            let found = if begin.is_empty() { "it is empty" } else { guess(begin) }.to_owned();
            return Err(PackError::NotAPack { file: file.to_owned(), found });
        }
        let truncated =
            |expected, what| PackError::Truncated { file: file.to_owned(), at: size, expected, what };
        let Ok(bytes) = <&[u8; HEADER_BYTES]>::try_from(begin) else {
            return Err(truncated(HEADER_BYTES as u64, "its header"));
        };
        let damaged =
            |range: Range<u64>, what: &str| PackError::damaged(file, range, format!("its header {what}"));
        let mut reader = Reader::new(&bytes[8..]);
        let fields = || -> Result<(u32, u32, u64, [u8; 8]), Wrong> {
            let format = u32::from_le_bytes(reader.array()?);
            let kind = u32::from_le_bytes(reader.array()?);
            Ok((format, kind, reader.u64()?, reader.array()?))
        };
        let whole = 0..HEADER_BYTES as u64;
        let (format, kind, stated, check) = { fields }().map_err(|wrong| damaged(whole.clone(), wrong))?;
        if first::<8>(&digest(&bytes[..24])) != check {
            return Err(damaged(whole, "has a wrong checksum"));
        }
        let newer = |what, found: u32, known| {
            let (file, found) = (file.to_owned(), u64::from(found));
            PackError::Newer { file, what, found, known }
        };
        if format > FORMAT {
            return Err(newer("the format", format, u64::from(FORMAT)));
        }
        if format == 0 {
            return Err(damaged(8..12, "states a format that never was"));
        }
        let Some(kind) = Kind::ALL.into_iter().find(|known| *known as u32 == kind) else {
            return Err(newer("the kind", kind, Kind::ALL.len() as u64));
        };
        if stated < SMALLEST {
            return Err(damaged(16..24, "states a length that no pack has"));
        }
        if size < stated {
            return Err(truncated(stated, "the pack"));
        }
        if size > stated {
            return Err(PackError::TrailingBytes {
                file: file.to_owned(),
                from: stated,
                count: size - stated,
            });
        }
        Ok(Self { kind, size })
    }
}

/// Where the section table and the manifest lie, and the digests that prove everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Footer {
    pub(crate) table: (u64, u64),
    pub(crate) manifest: (u64, u64),
    pub(crate) table_digest: [u8; 32],
    pub(crate) manifest_digest: [u8; 32],
}

/// The fields of the footer that the root digest covers.
const FOOTER_FIELDS: usize = 96;

impl Footer {
    fn fields(&self) -> [u8; FOOTER_FIELDS] {
        let mut bytes = [0; FOOTER_FIELDS];
        let numbers = [self.table.0, self.table.1, self.manifest.0, self.manifest.1];
        for (place, number) in bytes.chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        bytes[32..64].copy_from_slice(&self.table_digest);
        bytes[64..].copy_from_slice(&self.manifest_digest);
        bytes
    }

    /// The digest that proves the whole file.
    pub(crate) fn root(&self, header: Header) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_derive_key("duramen pack root digest, format 1");
        hasher.update(&header.encode());
        hasher.update(&self.fields());
        *hasher.finalize().as_bytes()
    }

    pub(crate) fn encode(&self, header: Header) -> [u8; FOOTER_BYTES] {
        let mut bytes = [0; FOOTER_BYTES];
        bytes[..96].copy_from_slice(&self.fields());
        bytes[96..128].copy_from_slice(&self.root(header));
        let check: [u8; 8] = first(&digest(&bytes[..128]));
        bytes[128..136].copy_from_slice(&check);
        bytes[136..].copy_from_slice(END_MAGIC);
        bytes
    }

    pub(crate) fn decode(
        bytes: &[u8; FOOTER_BYTES],
        header: Header,
        file: &str,
    ) -> Result<(Self, [u8; 32]), PackError> {
        let at = header.size - FOOTER_BYTES as u64;
        let damaged = |what: &str| PackError::damaged(file, at..header.size, format!("its footer {what}"));
        let mut reader = Reader::new(bytes);
        let fields = || -> Result<(Self, [u8; 32]), Wrong> {
            let footer = Self {
                table: (reader.u64()?, reader.u64()?),
                manifest: (reader.u64()?, reader.u64()?),
                table_digest: reader.array()?,
                manifest_digest: reader.array()?,
            };
            Ok((footer, reader.array()?))
        };
        let (footer, root) = { fields }().map_err(damaged)?;
        if bytes[136..] != *END_MAGIC {
            return Err(damaged("does not end as one"));
        }
        if first::<8>(&digest(&bytes[..128])) != bytes[128..136] {
            return Err(damaged("has a wrong checksum"));
        }
        if footer.root(header) != root {
            return Err(damaged("and its header do not belong together"));
        }
        // The parts follow each other without a gap, so that every byte belongs to one that has a digest.
        let (manifest, table) = (footer.manifest, footer.table);
        if manifest.0.checked_add(manifest.1) != Some(table.0) || table.0.checked_add(table.1) != Some(at) {
            return Err(damaged("leaves gaps in the file"));
        }
        check_limit(file, "the manifest", manifest.1, MANIFEST_BYTES_MAX)?;
        check_limit(file, "the section table", table.1, TABLE_BYTES_MAX)?;
        Ok((footer, root))
    }
}

/// Holds a number of bytes or things against a limit.
pub(crate) fn check_limit(file: &str, what: &'static str, found: u64, limit: u64) -> Result<(), PackError> {
    if found > limit {
        return Err(PackError::TooLarge { file: file.to_owned(), what, found, limit });
    }
    Ok(())
}

/// A section, as the table has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableEntry {
    pub(crate) name: String,
    pub(crate) dictionary: Option<(u32, Digest16)>,
    pub(crate) blocks: u64,
    pub(crate) records: u64,
    pub(crate) raw_bytes: u64,
    /// Stored bytes of all blocks.
    pub(crate) block_bytes: u64,
    pub(crate) index_bytes: u64,
    pub(crate) index_digest: [u8; 32],
}

impl TableEntry {
    fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.name.len() as u64);
        out.extend_from_slice(self.name.as_bytes());
        put_varint(out, self.dictionary.map_or(0, |(len, _)| u64::from(len)));
        if let Some((_, digest)) = &self.dictionary {
            out.extend_from_slice(digest);
        }
        for number in [self.blocks, self.records, self.raw_bytes, self.block_bytes, self.index_bytes] {
            put_varint(out, number);
        }
        out.extend_from_slice(&self.index_digest);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Wrong> {
        let name_len = reader.bounded(SECTION_NAME_BYTES_MAX as u64, "holds a name that is too long")?;
        let name = std::str::from_utf8(reader.take(name_len as usize)?);
        let name = name.map_err(|_| "holds a name that is not text")?.to_owned();
        let dictionary =
            match reader.bounded(u64::from(DICTIONARY_BYTES_MAX), "holds a dictionary that is too long")? {
                0 => None,
                len => Some((len as u32, reader.array()?)),
            };
        Ok(Self {
            name,
            dictionary,
            blocks: reader.bounded(BLOCKS_MAX, "holds a section of too many blocks")?,
            records: reader.varint()?,
            raw_bytes: reader.varint()?,
            block_bytes: reader.varint()?,
            index_bytes: reader.bounded(INDEX_BYTES_MAX, "holds an index that is too long")?,
            index_digest: reader.array()?,
        })
    }

    fn dictionary_bytes(&self) -> u64 {
        self.dictionary.map_or(0, |(len, _)| u64::from(len))
    }
}

pub(crate) fn encode_table(entries: &[TableEntry]) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, entries.len() as u64);
    for entry in entries {
        entry.encode(&mut out);
    }
    out
}

/// A section with the places of its parts, which follow each other: dictionary, blocks, index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) entry: TableEntry,
    pub(crate) dictionary: Range<u64>,
    pub(crate) blocks: Range<u64>,
    pub(crate) index: Range<u64>,
}

/// Takes the section table apart and finds the places of all sections, which fill the file up to the manifest at `end`.
pub(crate) fn decode_table(bytes: &[u8], end: u64) -> Result<Vec<Placed>, Wrong> {
    let mut reader = Reader::new(bytes);
    let count = reader.bounded(SECTIONS_MAX as u64, "holds too many sections")?;
    let mut placed: Vec<Placed> = Vec::new();
    let mut at = HEADER_BYTES as u64;
    for _ in 0..count {
        let entry = TableEntry::decode(&mut reader)?;
        if placed.iter().any(|before| before.entry.name == entry.name) {
            return Err("holds the same name twice");
        }
        let mut part = |len: u64| -> Result<Range<u64>, Wrong> {
            let to =
                at.checked_add(len).filter(|to| *to <= end).ok_or("holds a section beyond the manifest")?;
            Ok(std::mem::replace(&mut at, to)..to)
        };
        let dictionary = part(entry.dictionary_bytes())?;
        let blocks = part(entry.block_bytes)?;
        let index = part(entry.index_bytes)?;
        placed.push(Placed { entry, dictionary, blocks, index });
    }
    if !reader.is_empty() {
        return Err("is followed by something else");
    }
    if at != end {
        return Err("leaves a gap before the manifest");
    }
    Ok(placed)
}
