//! How primitives share the one tree of a branch: `primitive, space, 0, rest`.
//!
//! The default space is written as an empty name, so that most keys spend two bytes on where they belong. Names hold
//! no NUL, so no key of one space begins with that of another.

use smallvec::SmallVec;

use crate::names::{check_space, DEFAULT_SPACE};

/// The kinds of data. The numbers are part of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum Primitive {
    /// Key-value pairs.
    Kv = 0x10,
    /// Blobs. Their chunks lie behind all other data, and are shown to nobody.
    Blob = 0x18,
    /// State cells.
    State = 0x20,
    /// Event logs.
    Event = 0x30,
    /// JSON documents.
    Json = 0x40,
    /// Vector collections.
    Vector = 0x50,
    /// Indexes, as they were declared. Their entries lie behind all other data, and are shown to nobody.
    Index = 0x60,
}

/// What the keys of the entries of indexes begin with. They follow from the other data, so nobody is shown them, and they
/// come behind all of it.
const ENTRIES: u8 = 0x61;

impl Primitive {
    /// All of them, in the order in which they lie in a tree.
    pub const ALL: [Self; 7] =
        [Self::Kv, Self::Blob, Self::State, Self::Event, Self::Json, Self::Vector, Self::Index];

    /// Its name in messages and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kv => "kv",
            Self::Blob => "blob",
            Self::State => "state",
            Self::Event => "event",
            Self::Json => "json",
            Self::Vector => "vector",
            Self::Index => "index",
        }
    }

    /// Why [`Strategy::Keep`](crate::Strategy::Keep) does not keep conflicts of it; none if it does.
    pub(crate) fn why_not_kept(self) -> Option<&'static str> {
        match self {
            Self::Kv | Self::State | Self::Json | Self::Vector => None,
            Self::Blob => Some("blobs are not kept: their chunks belong to one row"),
            Self::Event => Some("event logs are not kept: each event follows from those before it"),
            Self::Index => Some("indexes are not kept: declare the one that is wanted"),
        }
    }

    fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|primitive| *primitive as u8 == byte)
    }
}

impl std::fmt::Display for Primitive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

impl std::str::FromStr for Primitive {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|primitive| primitive.name() == text).ok_or_else(|| {
            format!("{text:?} is not a kind of data: use kv, blob, state, event, json, vector or index")
        })
    }
}

/// A key of the tree. Most fit without an allocation.
pub(crate) type KeyBuf = SmallVec<[u8; 64]>;

/// The name of a space as it stands in keys.
fn space_bytes(space: &str) -> &[u8] {
    if space == DEFAULT_SPACE {
        &[]
    } else {
        space.as_bytes()
    }
}

/// What all keys of a primitive in a space begin with.
#[inline]
pub(crate) fn prefix(primitive: Primitive, space: &str) -> KeyBuf {
    let mut key = KeyBuf::new();
    key.push(primitive as u8);
    key.extend_from_slice(space_bytes(space));
    key.push(0);
    key
}

/// The key of the tree for `rest` in a space.
#[inline]
pub(crate) fn key(primitive: Primitive, space: &str, rest: &[u8]) -> KeyBuf {
    let mut key = prefix(primitive, space);
    key.extend_from_slice(rest);
    key
}

/// What the keys of the entries of an index begin with.
pub(crate) fn entries(space: &str, index: &[u8]) -> KeyBuf {
    let mut key = KeyBuf::new();
    key.push(ENTRIES);
    for name in [space_bytes(space), index] {
        key.extend_from_slice(name);
        key.push(0);
    }
    key
}

/// What the keys of the entries of pairs that end begin with: derived and hidden as entries of indexes are.
const EXPIRIES: u8 = 0x62;

/// Where the entries of all pairs that end are.
pub(crate) const ALL_EXPIRIES: ([u8; 1], [u8; 1]) = ([EXPIRIES], [EXPIRIES + 1]);

/// The key of the entry of a pair that ends, by the key of the pair in the tree; with none, what those of the time begin with.
pub(crate) fn expiry(end_ms: i64, row: &[u8]) -> KeyBuf {
    let mut key = KeyBuf::new();
    key.push(EXPIRIES);
    // No time is before 1970.
    key.extend_from_slice(&end_ms.to_be_bytes());
    key.extend_from_slice(row);
    key
}

/// Whether a key of the tree is that of an entry of a pair that ends.
pub(crate) fn is_expiry(key: &[u8]) -> bool {
    key.first() == Some(&EXPIRIES)
}

/// When the pair of an entry ends, and its key in the tree.
pub(crate) fn split_expiry(key: &[u8]) -> Option<(i64, &[u8])> {
    let (at, row) = key.strip_prefix(&[EXPIRIES])?.split_first_chunk::<8>()?;
    Some((i64::from_be_bytes(*at), row))
}

/// What the keys of the chunks of blobs begin with. They belong to their rows, and are hidden as entries are.
const CHUNKS: u8 = 0x63;

/// The key of a chunk of a blob.
pub(crate) fn chunk(id: &[u8; 16], number: u32) -> KeyBuf {
    let mut key = KeyBuf::new();
    key.push(CHUNKS);
    key.extend_from_slice(id);
    key.extend_from_slice(&number.to_be_bytes());
    key
}

/// What the keys of the marks of blobs begin with whose chunks belong to no row, or not yet.
const MARKS: u8 = 0x64;

/// Where all marks are.
pub(crate) const ALL_MARKS: ([u8; 1], [u8; 1]) = ([MARKS], [MARKS + 1]);

/// The key of the mark of a blob's chunks.
pub(crate) fn mark(id: &[u8; 16]) -> KeyBuf {
    let mut key = KeyBuf::new();
    key.push(MARKS);
    key.extend_from_slice(id);
    key
}

/// The number of a blob whose chunks are marked.
pub(crate) fn split_mark(key: &[u8]) -> Option<[u8; 16]> {
    key.strip_prefix(&[MARKS])?.try_into().ok()
}

/// What the keys of the records of conflicts begin with that a merge kept: they are data, and hidden as entries are.
const CONFLICTS: u8 = 0x65;

/// Where the records of all conflicts are.
pub(crate) const ALL_CONFLICTS: ([u8; 1], [u8; 1]) = ([CONFLICTS], [CONFLICTS + 1]);

/// The key of the record of a conflict, by the key of its row in the tree; with none, what those of all begin with.
pub(crate) fn conflict(row: &[u8]) -> KeyBuf {
    let mut key = KeyBuf::new();
    key.push(CONFLICTS);
    key.extend_from_slice(row);
    key
}

/// The key of the row in the tree of which a record of a conflict is; none if it is no such key, or one that nobody writes.
pub(crate) fn split_conflict(record: &[u8]) -> Option<&[u8]> {
    let row = record.strip_prefix(&[CONFLICTS])?;
    let (primitive, space, rest) = split(row)?;
    let is_canonical = key(primitive, space, rest)[..] == *row && check_space(space).is_ok();
    (is_canonical && primitive.why_not_kept().is_none() && !rest.is_empty()).then_some(row)
}

/// Whether a key that is hidden has the form of those that are written.
pub(crate) fn is_well_formed(key: &[u8], chunks_max: u64) -> bool {
    let is_chunk = |key: &[u8]| {
        let number = key.get(17..).and_then(|number| Some(u32::from_be_bytes(number.try_into().ok()?)));
        number.is_some_and(|number| u64::from(number) < chunks_max)
    };
    match key.first() {
        Some(&EXPIRIES) => {
            split_expiry(key).is_some_and(|(_, row)| row.first() == Some(&(Primitive::Kv as u8)))
        }
        Some(&CHUNKS) => is_chunk(key),
        Some(&MARKS) => split_mark(key).is_some(),
        Some(&CONFLICTS) => split_conflict(key).is_some(),
        // What belongs to an index is known by its declaration.
        _ => true,
    }
}

/// Where the entries of all indexes are.
pub(crate) const ALL_ENTRIES: ([u8; 1], [u8; 1]) = ([ENTRIES], [ENTRIES + 1]);

/// Whether a key of the tree is that of an entry of an index or of a pair that ends, of a chunk of a blob or its mark, or of the
/// record of a conflict.
pub(crate) fn is_derived(key: &[u8]) -> bool {
    matches!(key.first(), Some(&ENTRIES | &EXPIRIES | &CHUNKS | &MARKS | &CONFLICTS))
}

/// Takes a key of the tree apart; none for an entry of an index.
pub(crate) fn split(key: &[u8]) -> Option<(Primitive, &str, &[u8])> {
    let (first, rest) = key.split_first()?;
    let primitive = Primitive::from_byte(*first)?;
    let end = rest.iter().position(|byte| *byte == 0)?;
    let space = std::str::from_utf8(&rest[..end]).ok()?;
    let space = if space.is_empty() { DEFAULT_SPACE } else { space };
    Some((primitive, space, &rest[end + 1..]))
}

/// A key of the tree as messages show it: `kv default/user:1`.
pub(crate) fn display(key: &[u8]) -> String {
    match split(key) {
        Some((primitive, space, rest)) => format!("{primitive} {space}/{}", rest.escape_ascii()),
        None => key.escape_ascii().to_string(),
    }
}
