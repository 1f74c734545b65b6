//! Reading one segment: its records in order, and what its end means.

use std::io;
use std::sync::Arc;

use super::directory::LogFile;
use super::format::{decode_record, Record, RecordHeader, RECORD_HEADER_BYTES};

/// How much is read at a time at least, in bytes.
const CHUNK: u64 = 64 << 10;
/// How much is passed over at once where there are only zeros, in bytes.
const ZERO_BLOCK: usize = 512;
/// How many bytes a search hashes per byte that it searches, at most, before it gives up. Only bytes that were made
/// to look like thousands of records get there.
const SEARCH_COST_MAX: u64 = 64;

/// A walk over the records of a segment.
pub(crate) struct Walk {
    file: Arc<dyn LogFile>,
    size: u64,
    salt: u64,
    offset: u64,
    /// The bytes of the file from `base` on, as far as they have been read.
    window: Vec<u8>,
    base: u64,
}

impl Walk {
    pub(crate) fn new(file: Arc<dyn LogFile>, salt: u64, offset: u64) -> io::Result<Self> {
        Ok(Self { size: file.size()?, file, salt, offset, window: Vec::new(), base: offset })
    }

    /// Where the next record is looked for: after the last one that was found.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// The next record, or none where no valid one stands. The mark of a clean end is given, and not passed over.
    pub(crate) fn next(&mut self) -> io::Result<Option<Record<'_>>> {
        let left = self.size.saturating_sub(self.offset);
        let at = self.fill(RECORD_HEADER_BYTES as u64)?;
        let Some(header) = self.window.get(at..).and_then(|bytes| RecordHeader::decode(bytes, self.salt))
        else {
            return Ok(None);
        };
        if header.size as u64 > left {
            return Ok(None);
        }
        let at = self.fill(header.size as u64)?;
        let record = self.window.get(at..).and_then(|bytes| decode_record(bytes, self.salt));
        if let Some(record) = record.filter(|record| !record.is_end()) {
            self.offset += record.size() as u64;
        }
        Ok(record)
    }

    /// Has `len` bytes from the offset on in the window, or all that are left, and returns where in it they begin.
    fn fill(&mut self, len: u64) -> io::Result<usize> {
        let left = self.size.saturating_sub(self.offset);
        let at = (self.offset - self.base) as usize;
        if (self.window.len() - at.min(self.window.len())) as u64 >= len.min(left) {
            return Ok(at);
        }
        self.base = self.offset;
        self.window.resize(len.max(CHUNK).min(left) as usize, 0);
        let got = self.file.read_at(self.offset, &mut self.window)?;
        self.window.truncate(got);
        Ok(0)
    }

    /// All bytes from the offset to the end of the file.
    pub(crate) fn rest(&self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; self.size.saturating_sub(self.offset) as usize];
        let got = self.file.read_at(self.offset, &mut bytes)?;
        bytes.truncate(got);
        Ok(bytes)
    }
}

/// What a search behind the last valid record found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Later {
    /// No later record says that what is missing had been durable.
    Nothing,
    /// A record at this place in the bytes says so of this version.
    Durable { at: usize, version: u64 },
    /// The bytes look like too many records to decide in reasonable time.
    TooMany,
}

/// Looks in `bytes` for a record written after `version` was durable. Every place is tried, because where a record is
/// broken nothing says where the next one begins.
pub(crate) fn later_claim(bytes: &[u8], salt: u64, version: u64) -> Later {
    let mut budget = SEARCH_COST_MAX.saturating_mul(bytes.len() as u64);
    // What so many bytes can hold of records that take as many versions as one can.
    let versions_max = (bytes.len() / RECORD_HEADER_BYTES) as u64 * u64::from(u32::MAX);
    let mut at = 0;
    while at < bytes.len() {
        // Most of a segment is zeros.
        if bytes[at] == 0 && bytes[at..].len() >= ZERO_BLOCK && is_zero(&bytes[at..at + ZERO_BLOCK]) {
            // The last bytes of the block may begin the length of a record.
            at += ZERO_BLOCK - 3;
            continue;
        }
        // Only what would claim something is worth a look at its checksum.
        let claims = |header: &RecordHeader| {
            header.durable().is_some_and(|durable| durable >= version)
                && header.first - version <= versions_max
                && header.size <= bytes.len() - at
        };
        if let Some(header) = RecordHeader::decode(&bytes[at..], salt).filter(claims) {
            let Some(left) = budget.checked_sub(header.size as u64) else { return Later::TooMany };
            budget = left;
            let durable = decode_record(&bytes[at..], salt).and_then(|record| record.durable());
            if let Some(version) = durable {
                return Later::Durable { at, version };
            }
        }
        at += 1;
    }
    Later::Nothing
}

/// Writes zeros over all of `bytes`, which stand at `offset` of the file, where they are not zero already.
pub(crate) fn wipe(file: &dyn LogFile, offset: u64, bytes: &[u8]) -> io::Result<()> {
    static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
    for (index, block) in bytes.chunks(ZEROS.len()).enumerate() {
        if !is_zero(block) {
            file.write_at(offset + (index * ZEROS.len()) as u64, &ZEROS[..block.len()])?;
        }
    }
    Ok(())
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().fold(0, |all, byte| all | byte) == 0
}
