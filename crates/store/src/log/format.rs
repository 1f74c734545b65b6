//! The bytes of a segment header and of a record, and nothing else: pure functions, fit for a fuzzer.

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// The length of the header of a segment, in bytes.
pub const SEGMENT_HEADER_BYTES: usize = 64;
/// The length of the header of a record, in bytes.
pub const RECORD_HEADER_BYTES: usize = 24;
/// The longest body of a record, in bytes (64 MiB).
pub const BODY_BYTES_MAX: usize = 64 << 20;
/// The format version that this program writes, and the last that it reads.
pub const FORMAT_VERSION: u32 = 1;

const MAGIC: [u8; 8] = *b"DRMNLOG\n";
/// Where the checksum of a segment header stands: after all that it covers.
const HEADER_SUM: usize = 56;
/// A gap that says nothing, because the true one may be larger than can be written.
const GAP_UNKNOWN: u32 = u32::MAX;

/// What the header of a segment says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentHeader {
    /// The number of the segment: each is one more than that of the segment before.
    pub number: u64,
    /// The seed of the checksums of the records in it. A recycled segment gets another.
    pub salt: u64,
    /// The version with which its first record begins.
    pub first: u64,
}

/// Why the header of a segment was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeaderError {
    /// It is not a header, or a changed one.
    Invalid,
    /// It has a later format version than [`FORMAT_VERSION`].
    FromTheFuture(u32),
}

/// A record, as it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// The first version of the record.
    pub first: u64,
    /// How many versions it takes. Zero only in the mark of an end, which is not a commit.
    pub count: u32,
    /// How many versions before `first` the last one stood that was known to be durable when this was written.
    pub durable_gap: u32,
    /// What was committed.
    pub body: &'a [u8],
}

impl Record<'_> {
    /// The length of the whole record, in bytes.
    pub fn size(&self) -> usize {
        RECORD_HEADER_BYTES + self.body.len()
    }

    /// The last version that the record says was durable before it was written, if it says one.
    pub fn durable(&self) -> Option<u64> {
        durable(self.first, self.durable_gap)
    }

    /// Whether this is the mark of an end rather than a commit: `first` is then the next version.
    pub fn is_end(&self) -> bool {
        self.count == 0
    }

    /// Whether this is the mark of an end that says that another segment follows.
    pub fn goes_on(&self) -> bool {
        self.is_end() && self.durable_gap == GAP_UNKNOWN
    }
}

/// What the first eight bytes and the version of a record say, without a look at the checksum.
#[derive(Clone, Copy)]
pub(crate) struct RecordHeader {
    /// The length of the whole record, in bytes: at least that of the header, at most that of the largest record.
    pub(crate) size: usize,
    checksum: u32,
    pub(crate) first: u64,
    pub(crate) count: u32,
    pub(crate) durable_gap: u32,
}

fn durable(first: u64, gap: u32) -> Option<u64> {
    (gap != GAP_UNKNOWN).then(|| first.saturating_sub(u64::from(gap)))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

impl RecordHeader {
    /// The header at the start of `bytes`, if its numbers could be those of a record of a segment with this salt.
    #[inline]
    pub(crate) fn decode(bytes: &[u8], salt: u64) -> Option<Self> {
        let size = (u32_at(bytes, 0)? ^ salt as u32) as usize;
        if !(RECORD_HEADER_BYTES..=RECORD_HEADER_BYTES + BODY_BYTES_MAX).contains(&size) {
            return None;
        }
        let header = Self {
            size,
            checksum: u32_at(bytes, 4)?,
            first: u64_at(bytes, 8)? ^ salt,
            count: u32_at(bytes, 16)?,
            durable_gap: u32_at(bytes, 20)?,
        };
        let sane = header.first > 0 && header.first.checked_add(u64::from(header.count)).is_some();
        (sane && (header.count > 0 || size == RECORD_HEADER_BYTES)).then_some(header)
    }

    /// What [`Record::durable`] says, if the header is one.
    pub(crate) fn durable(&self) -> Option<u64> {
        durable(self.first, self.durable_gap)
    }
}

/// The record at the start of `bytes`, if there is a whole one whose checksum is right for `salt`.
///
/// Bytes after the record do not matter, and no bytes make it panic.
///
/// ```
/// # use duramen_store::log::{decode_record, encode_record};
/// let mut bytes = Vec::new();
/// encode_record(&mut bytes, 77, 5, 2, 4, b"two changes");
/// let record = decode_record(&bytes, 77).expect("it was just written");
/// assert_eq!((record.first, record.count, record.durable()), (5, 2, Some(4)));
/// assert_eq!(record.body, b"two changes");
/// assert!(decode_record(&bytes, 78).is_none());
/// ```
pub fn decode_record(bytes: &[u8], salt: u64) -> Option<Record<'_>> {
    let RecordHeader { size, checksum, first, count, durable_gap } = RecordHeader::decode(bytes, salt)?;
    let covered = bytes.get(8..size)?;
    if xxh3_64_with_seed(covered, salt) as u32 != checksum {
        return None;
    }
    Some(Record { first, count, durable_gap, body: bytes.get(RECORD_HEADER_BYTES..size)? })
}

/// Adds a record to `bytes`. `durable` is the last version that is known to be durable.
///
/// The body must be at most [`BODY_BYTES_MAX`] long. A `count` of zero with an empty body is the mark of a clean end.
#[inline]
pub fn encode_record(bytes: &mut Vec<u8>, salt: u64, first: u64, count: u32, durable: u64, body: &[u8]) {
    let gap = u32::try_from(first.saturating_sub(durable)).unwrap_or(GAP_UNKNOWN);
    encode(bytes, salt, first, count, gap, body);
}

/// Adds to `bytes` the mark that a segment goes on with version `first` in the next one.
pub(crate) fn encode_goes_on(bytes: &mut Vec<u8>, salt: u64, first: u64) {
    encode(bytes, salt, first, 0, GAP_UNKNOWN, &[]);
}

#[inline]
fn encode(bytes: &mut Vec<u8>, salt: u64, first: u64, count: u32, gap: u32, body: &[u8]) {
    let start = bytes.len();
    let size = RECORD_HEADER_BYTES + body.len();
    let mut header = [0; RECORD_HEADER_BYTES];
    // Under the salt, which nobody knows, no value that a program stores looks like a header.
    header[..4].copy_from_slice(&(size as u32 ^ salt as u32).to_le_bytes());
    header[8..16].copy_from_slice(&(first ^ salt).to_le_bytes());
    header[16..20].copy_from_slice(&count.to_le_bytes());
    header[20..24].copy_from_slice(&gap.to_le_bytes());
    bytes.reserve(size);
    bytes.extend_from_slice(&header);
    bytes.extend_from_slice(body);
    let checksum = xxh3_64_with_seed(&bytes[start + 8..], salt) as u32;
    bytes[start + 4..start + 8].copy_from_slice(&checksum.to_le_bytes());
}

impl SegmentHeader {
    /// The bytes of the header.
    pub fn encode(&self) -> [u8; SEGMENT_HEADER_BYTES] {
        let mut bytes = [0; SEGMENT_HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.number.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.salt.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.first.to_le_bytes());
        let sum = xxh3_64(&bytes[..HEADER_SUM]);
        bytes[HEADER_SUM..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads the header at the start of `bytes`.
    ///
    /// # Errors
    /// The bytes are not a header of a segment, a changed one, or one of a later format version.
    pub fn decode(bytes: &[u8]) -> Result<Self, HeaderError> {
        let field = |at| u64_at(bytes, at).ok_or(HeaderError::Invalid);
        if bytes.get(..8) != Some(&MAGIC) {
            return Err(HeaderError::Invalid);
        }
        // Before the checksum, because a later version may well sum up otherwise.
        match u32_at(bytes, 8) {
            Some(FORMAT_VERSION) => {}
            Some(later) if later > FORMAT_VERSION => return Err(HeaderError::FromTheFuture(later)),
            _ => return Err(HeaderError::Invalid),
        }
        let covered = bytes.get(..HEADER_SUM).ok_or(HeaderError::Invalid)?;
        let header = Self { number: field(16)?, salt: field(24)?, first: field(32)? };
        if xxh3_64(covered) != field(HEADER_SUM)? || header.first == 0 || header.number == 0 {
            return Err(HeaderError::Invalid);
        }
        Ok(header)
    }
}
