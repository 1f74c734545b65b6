//! Log files: records cut into chunks that never cross a block of 32 KiB.
//!
//! ```text
//! chunk = masked CRC-32C u32 | length u16 | kind u8 | [log number u32 | [synced offset u64]] | payload
//! kind  = 1 + 4 * form + position     form: 0 plain, 1 with log number, 2 with offset too
//!                                     position: 0 whole, 1 first, 2 middle, 3 last
//! ```
//! All numbers are little-endian; the checksum covers everything behind the length. The manifest is written in the plain
//! form; logs are not written.

use crate::c1z::error::Bad;

/// The length of a block, in bytes.
const BLOCK: usize = 32 << 10;
/// The length of a plain chunk's header, in bytes.
const HEADER: usize = 7;

/// How a checksum is stored: turned, and with a constant added, so that a checksum of checksums is not weak.
pub(crate) fn masked_crc(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// Appends a record as plain chunks. `out` holds the log from its beginning.
pub(crate) fn append(out: &mut Vec<u8>, record: &[u8]) {
    let mut rest = record;
    let mut first = true;
    loop {
        let mut room = BLOCK - out.len() % BLOCK;
        if room < HEADER {
            out.resize(out.len() + room, 0);
            room = BLOCK;
        }
        let (chunk, after) = rest.split_at((room - HEADER).min(rest.len()));
        let kind = match (first, after.is_empty()) {
            (true, true) => 1,
            (true, false) => 2,
            (false, false) => 3,
            (false, true) => 4,
        };
        let start = out.len();
        out.extend_from_slice(&[0, 0, 0, 0]);
        // A chunk is shorter than a block, whose length fits.
        out.extend_from_slice(&(chunk.len() as u16).to_le_bytes());
        out.push(kind);
        out.extend_from_slice(chunk);
        let crc = masked_crc(&out[start + 6..]);
        out[start..start + 4].copy_from_slice(&crc.to_le_bytes());
        if after.is_empty() {
            return;
        }
        rest = after;
        first = false;
    }
}

/// The records of a log, one after another.
pub(crate) struct Records<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The number of the log, where chunks name it; a chunk of another log is what a reused file still holds.
    number: Option<u32>,
}

impl<'a> Records<'a> {
    /// The records of the log `bytes`, whose number is `number`; a manifest has none.
    pub(crate) fn new(bytes: &'a [u8], number: Option<u64>) -> Records<'a> {
        Records { bytes, at: 0, number: number.map(|number| number as u32) }
    }

    /// Puts the next record into `record`, and says where it began; none at the end of the log.
    pub(crate) fn next(&mut self, record: &mut Vec<u8>) -> Result<Option<usize>, Bad> {
        record.clear();
        let mut began = None;
        loop {
            let at = self.at;
            let Some((position, payload)) = self.chunk()? else {
                return match began {
                    None => Ok(None),
                    Some(start) => Err(Bad::new(start, "a record of a log has no end")),
                };
            };
            let is_first = position == 0 || position == 1;
            if is_first != began.is_none() {
                return Err(Bad::new(at, "the chunks of a log are out of order"));
            }
            began.get_or_insert(at);
            record.extend_from_slice(payload);
            if position == 0 || position == 3 {
                return Ok(began);
            }
        }
    }

    fn chunk(&mut self) -> Result<Option<(u8, &'a [u8])>, Bad> {
        let bytes = self.bytes;
        loop {
            let room = (BLOCK - self.at % BLOCK).min(bytes.len() - self.at);
            if room == 0 {
                return Ok(None);
            }
            let block = &bytes[self.at..self.at + room];
            if room < HEADER || block[..HEADER] == [0; HEADER] {
                // The rest of a block in which no header fits, or of a file that was made longer in advance.
                if block.iter().any(|byte| *byte != 0) {
                    return Err(Bad::new(self.at, "bytes between the chunks of a log"));
                }
                self.at += room;
                continue;
            }
            let [c0, c1, c2, c3, l0, l1, kind, ..] = *block else {
                return Err(Bad::new(self.at, "the log ends within a chunk"));
            };
            let (form, position) = match kind {
                1..=12 => ((kind - 1) / 4, (kind - 1) % 4),
                _ => return Err(Bad::new(self.at + 6, format!("there is no kind {kind} of chunk"))),
            };
            let header = HEADER + [0, 4, 12][usize::from(form)];
            let end = header + usize::from(u16::from_le_bytes([l0, l1]));
            if end > room {
                return Err(Bad::new(self.at + 4, "a chunk of a log is longer than its block"));
            }
            // An empty chunk of another log, without a checksum: the mark by which a log is closed.
            let is_mark = form > 0 && block[..6] == [0; 6];
            if !is_mark && masked_crc(&block[6..end]) != u32::from_le_bytes([c0, c1, c2, c3]) {
                return Err(Bad::new(self.at, "a chunk of a log does not match its checksum"));
            }
            if form > 0 {
                let named = u32::from_le_bytes([block[7], block[8], block[9], block[10]]);
                if self.number.is_some_and(|number| number != named) {
                    // The mark, or what an older log of the same file left there: this log ended before.
                    return Ok(None);
                }
                if is_mark {
                    return Err(Bad::new(self.at, "a chunk of a log has no checksum"));
                }
            }
            self.at += end;
            return Ok(Some((position, &block[header..end])));
        }
    }
}

#[cfg(test)]
#[path = "log/tests.rs"]
mod tests;
