//! The bytes of an object of the log, and nothing else: pure functions.
//!
//! ```text
//! 0   "DRMNPIEC"
//! 8   format u32, kind u32
//! 16  number of the object u64
//! 24  which writer, 16 random bytes
//! 40  segment u64, its planned size u64, where in it the bytes go u64
//! 64  length of the bytes u32, of the text u32
//! 72  XXH3-64 of all but this
//! 80  the bytes, then a text that says who the writer is
//! ```

use xxhash_rust::xxh3::Xxh3Default;

const MAGIC: &[u8; 8] = b"DRMNPIEC";
/// The format that is written, and the last that is read.
const FORMAT: u32 = 1;
/// The length of the header, in bytes.
pub(crate) const HEADER_BYTES: usize = 80;
const SUM_AT: usize = 72;
/// The longest text that says who a writer is, in bytes.
const WHO_BYTES_MAX: usize = 256;

/// What an object of the log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Bytes of a segment.
    Data,
    /// A writer begins here, and the one before may be alive: it never goes.
    Fence,
    /// A writer begins here, and the one before has ended.
    Begin,
    /// The writer is still the writer.
    Mark,
    /// The writer has ended, and writes no more.
    End,
}

impl Kind {
    const ALL: [(Self, u32); 5] =
        [(Self::Data, 1), (Self::Fence, 2), (Self::Begin, 3), (Self::Mark, 4), (Self::End, 5)];

    fn number(self) -> u32 {
        Self::ALL.iter().find(|(kind, _)| *kind == self).map_or(0, |(_, number)| *number)
    }
}

/// Which writer: a number that nobody else has.
pub(crate) type WriterId = [u8; 16];

/// An object of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) kind: Kind,
    pub(crate) number: u64,
    pub(crate) writer: WriterId,
    /// Who that is, for messages.
    pub(crate) who: String,
    /// Of data, whose bytes they are; of a claim, the epoch of the writer's nodes.
    pub(crate) segment: u64,
    pub(crate) size: u64,
    pub(crate) offset: u64,
    pub(crate) bytes: Vec<u8>,
}

/// The name of the object with this number.
pub(crate) fn name(number: u64) -> String {
    format!("{number:016x}")
}

/// The number in a name, if it is one of ours.
pub(crate) fn number(text: &str) -> Option<u64> {
    let number = u64::from_str_radix(text, 16).ok()?;
    (name(number) == text && number < u64::MAX).then_some(number)
}

fn sum(head: &[u8], rest: &[u8]) -> u64 {
    let mut sum = Xxh3Default::new();
    sum.update(head);
    sum.update(rest);
    sum.digest()
}

impl Piece {
    /// Whether a writer begins with it.
    pub(crate) fn is_claim(&self) -> bool {
        matches!(self.kind, Kind::Fence | Kind::Begin)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut cut = self.who.len().min(WHO_BYTES_MAX);
        while !self.who.is_char_boundary(cut) {
            cut -= 1;
        }
        let who = &self.who.as_bytes()[..cut];
        let mut out = Vec::with_capacity(HEADER_BYTES + self.bytes.len() + who.len());
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&FORMAT.to_le_bytes());
        out.extend_from_slice(&self.kind.number().to_le_bytes());
        out.extend_from_slice(&self.number.to_le_bytes());
        out.extend_from_slice(&self.writer);
        for number in [self.segment, self.size, self.offset] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&(self.bytes.len() as u32).to_le_bytes());
        out.extend_from_slice(&(who.len() as u32).to_le_bytes());
        out.extend_from_slice(&[0; 8]);
        out.extend_from_slice(&self.bytes);
        out.extend_from_slice(who);
        let sum = sum(&out[..SUM_AT], &out[HEADER_BYTES..]);
        out[SUM_AT..HEADER_BYTES].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// Reads an object that has this number in its name.
    pub(crate) fn decode(bytes: &[u8], number: u64) -> Result<Self, String> {
        let u32_at = |at: usize| {
            bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map(u32::from_le_bytes).unwrap_or(0)
        };
        let u64_at = |at: usize| {
            bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map(u64::from_le_bytes).unwrap_or(0)
        };
        if bytes.len() < HEADER_BYTES || bytes.get(..8) != Some(MAGIC) {
            return Err("it is no object of a log".to_owned());
        }
        if u32_at(8) != FORMAT {
            return Err(format!("it has format {}, and this version knows {FORMAT}", u32_at(8)));
        }
        if sum(&bytes[..SUM_AT], &bytes[HEADER_BYTES..]) != u64_at(SUM_AT) {
            return Err("its checksum is wrong".to_owned());
        }
        let kind = Kind::ALL.iter().find(|(_, number)| *number == u32_at(12)).map(|(kind, _)| *kind);
        let kind = kind.ok_or("its kind is unknown")?;
        if u64_at(16) != number {
            return Err(format!("it is that of number {}", u64_at(16)));
        }
        let (len, who_len) = (u32_at(64) as usize, u32_at(68) as usize);
        let body = &bytes[HEADER_BYTES..];
        if len.checked_add(who_len) != Some(body.len()) {
            return Err("its length is wrong".to_owned());
        }
        let (data, who) = body.split_at(len);
        let mut writer = WriterId::default();
        writer.copy_from_slice(&bytes[24..40]);
        Ok(Self {
            kind,
            number,
            writer,
            who: String::from_utf8_lossy(who).into_owned(),
            segment: u64_at(40),
            size: u64_at(48),
            offset: u64_at(56),
            bytes: data.to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece() -> Piece {
        Piece {
            kind: Kind::Data,
            number: 7,
            writer: [9; 16],
            who: "host h, process 3".to_owned(),
            segment: 2,
            size: 1 << 20,
            offset: 64,
            bytes: b"records".to_vec(),
        }
    }

    #[test]
    fn what_was_written_is_read() {
        for (kind, _) in Kind::ALL {
            let piece = Piece { kind, ..piece() };
            assert_eq!(Piece::decode(&piece.encode(), 7), Ok(piece));
        }
        let long = Piece { who: "\u{fc}".repeat(1000), ..piece() };
        let read = Piece::decode(&long.encode(), 7).unwrap();
        assert!(read.who.len() <= WHO_BYTES_MAX && read.who.chars().all(|c| c == '\u{fc}'));
    }

    #[test]
    fn every_changed_byte_and_every_cut_is_noticed() {
        let whole = piece().encode();
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 0x10;
            assert!(Piece::decode(&changed, 7).is_err(), "byte {at}");
            assert!(Piece::decode(&whole[..at], 7).is_err(), "cut at {at}");
        }
        assert!(Piece::decode(&whole, 8).is_err());
    }

    #[test]
    fn names_are_numbers_in_order() {
        assert!(name(9) < name(10) && name(0xfff) < name(0x1000));
        assert_eq!(number(&name(77)), Some(77));
        for wrong in ["", "77", "000000000000004D", "ffffffffffffffff", "00000000000000004d"] {
            assert_eq!(number(wrong), None, "{wrong}");
        }
    }
}
