//! The bytes of a segment's header, of a record's, and nothing else: pure functions, fit for a fuzzer.
//!
//! The pictures are in `docs/design/node-segments.md`.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The length of the header of a segment, in bytes.
pub(super) const HEADER_BYTES: usize = 64;
/// The length of the header of a record, in bytes.
pub(super) const RECORD_BYTES: usize = 24;
/// Records begin at multiples of this.
const ALIGNMENT: u64 = 8;
/// The format that is written, and the last that is read.
const FORMAT: u32 = 1;

const MAGIC: [u8; 8] = *b"DRMNNODE";
/// Where the checksum of a segment's header stands: after all that it covers.
const HEADER_SUM: usize = 56;

/// What the header of a segment says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    pub(super) number: u32,
    /// The seed of the checksums in the segment.
    pub(super) salt: u64,
}

/// Why the header of a segment was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeaderError {
    /// It is not a header, or a changed one.
    Invalid,
    /// It has a later format than this program knows.
    FromTheFuture(u32),
}

impl SegmentHeader {
    pub(super) fn encode(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT.to_le_bytes());
        bytes[16..24].copy_from_slice(&u64::from(self.number).to_le_bytes());
        bytes[24..32].copy_from_slice(&self.salt.to_le_bytes());
        let sum = xxh3_64_with_seed(&bytes[..HEADER_SUM], 0);
        bytes[HEADER_SUM..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, HeaderError> {
        let field = |at| u64_at(bytes, at).ok_or(HeaderError::Invalid);
        if bytes.get(..8) != Some(&MAGIC) {
            return Err(HeaderError::Invalid);
        }
        // Before the checksum, because a later format may well sum up otherwise.
        match bytes.get(8..12).and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes) {
            Some(FORMAT) => {}
            Some(later) if later > FORMAT => return Err(HeaderError::FromTheFuture(later)),
            _ => return Err(HeaderError::Invalid),
        }
        let covered = bytes.get(..HEADER_SUM).ok_or(HeaderError::Invalid)?;
        if xxh3_64_with_seed(covered, 0) != field(HEADER_SUM)? {
            return Err(HeaderError::Invalid);
        }
        let number = u32::try_from(field(16)?).map_err(|_| HeaderError::Invalid)?;
        Ok(Self { number, salt: field(24)? })
    }
}

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Node,
    Commit,
}

/// What the header of a record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordHeader {
    pub(super) kind: Kind,
    /// The length of the body, in bytes.
    pub(super) len: u32,
    /// That of the node, or the number of the commit.
    pub(super) id: u64,
}

impl RecordHeader {
    /// The header, whose checksum covers `body` as well: that of a commit, nothing for a node.
    pub(super) fn encode(self, salt: u64, body: &[u8]) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        let kind: u32 = match self.kind {
            Kind::Node => 1,
            Kind::Commit => 2,
        };
        bytes[..4].copy_from_slice(&kind.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.len.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.id.to_le_bytes());
        let sum = check(&bytes, body, salt);
        bytes[16..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// The header at the start of `bytes`. That of a commit is checked by [`holds`](Self::holds) only.
    pub(super) fn decode(bytes: &[u8; RECORD_BYTES], salt: u64) -> Option<Self> {
        let kind = match u32_at(bytes, 0)? {
            1 => Kind::Node,
            2 => Kind::Commit,
            _ => return None,
        };
        let header = Self { kind, len: u32_at(bytes, 4)?, id: u64_at(bytes, 8)? };
        (kind == Kind::Commit || Self::holds(bytes, &[], salt)).then_some(header)
    }

    /// Whether the checksum in a header is the one of it and of `body`.
    pub(super) fn holds(bytes: &[u8; RECORD_BYTES], body: &[u8], salt: u64) -> bool {
        u64_at(bytes, 16) == Some(check(bytes, body, salt))
    }

    /// The length of the whole record, in bytes.
    pub(super) fn size(self) -> u64 {
        let end = match self.kind {
            Kind::Node => 0,
            // The length once more, to be found from behind.
            Kind::Commit => 8,
        };
        padded(RECORD_BYTES as u64 + u64::from(self.len)) + end
    }
}

fn check(header: &[u8; RECORD_BYTES], body: &[u8], salt: u64) -> u64 {
    let of_header = xxh3_64_with_seed(&header[..16], salt);
    if body.is_empty() {
        return of_header;
    }
    xxh3_64_with_seed(body, of_header)
}

/// The first place for a record at or behind `at`.
pub(super) fn padded(at: u64) -> u64 {
    at.next_multiple_of(ALIGNMENT)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}
