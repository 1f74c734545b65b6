//! The chain of records in a write-ahead log: whether a segment goes on where the one before it ended, and is whole.
//!
//! Every record has a checksum and the position of the one before it, and every page its own position, so that a log that was cut
//! off, filled with zeros, changed, or put together from two servers' is told from one that PostgreSQL will replay to its end.

use super::{Header, HEADER_BYTES};
use std::{fs::File, io, os::unix::fs::FileExt};

/// In the flags of a page: it begins with the rest of a record of the page before it.
const CONTINUES: u16 = 0x0001;
/// In the flags of a page: it has the longer header.
const LONG: u16 = 0x0002;
/// In the flags of a page: the record that the page before it began was given up.
const OVERWRITTEN: u16 = 0x0008;
/// All flags that a page can have.
const FLAGS: u16 = 0x000F;
/// The size of the header of a page that is not the first one of its segment.
const PAGE_HEADER: usize = super::PAGE_HEADER_BYTES as usize;
/// The size of the header of a record, whose last four bytes are the checksum of all else.
const RECORD_HEADER: usize = 24;
const CHECKED_HEADER: usize = 20;
/// The longest record.
const RECORD_MAX: u32 = 1020 << 20;
/// How much is read at a time, in bytes; pages are a part of it.
const READ: usize = 1 << 20;
/// Sizes of pages.
const PAGES: std::ops::RangeInclusive<u64> = (1 << 10)..=(1 << 16);
/// How much of what follows a record's header is kept while it is read: where a commit tells its time.
const HEAD: usize = 48;
/// Kinds of records, and what they tell.
const KIND_LOG: u8 = 0;
const KIND_TRANSACTION: u8 = 1;
const SWITCH: u8 = 0x40;
const COMMIT: u8 = 0x00;
const COMMIT_PREPARED: u8 = 0x30;
/// What stands before the parts of a record.
const PART_SHORT: u8 = 255;
const PART_LONG: u8 = 254;
const PART_ORIGIN: u8 = 253;
const PART_TRANSACTION: u8 = 252;

/// Why a segment does not go on with a chain.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Broken {
    #[error(transparent)]
    Unreadable(#[from] io::Error),
    /// It can be another one's, and will not become the right one by itself.
    #[error("{0}")]
    Foreign(&'static str),
    /// It ends too early: it may be a copy that is not finished, or be damaged.
    #[error("{why} at {}", super::Position(*at))]
    Cut { at: u64, why: &'static str },
}

/// A record that is being read.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Record {
    start: u64,
    total: u32,
    got: u32,
    header: [u8; RECORD_HEADER],
    head: [u8; HEAD],
    crc: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Pending {
    Nothing,
    /// Of a record whose beginning was not read, so many bytes are to come.
    Unknown(u32),
    Record(Box<Record>),
    /// What follows in this segment says nothing.
    Switched,
}

/// A chain up to the end of a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chain {
    system: u64,
    segment_size: u64,
    page_size: u64,
    magic: Option<u16>,
    timeline: u32,
    pending: Pending,
    last: Option<u64>,
    end: u64,
    committed: Option<i64>,
}

impl Chain {
    /// One that begins with any segment of a system; `None` if no server has such sizes.
    pub(crate) fn begin(system: u64, segment_size: u64, page_size: u64) -> Option<Chain> {
        let is_one = PAGES.contains(&page_size)
            && page_size.is_power_of_two()
            && super::SIZES.contains(&segment_size)
            && segment_size.is_power_of_two();
        is_one.then_some(Chain {
            system,
            segment_size,
            page_size,
            magic: None,
            timeline: 0,
            pending: Pending::Nothing,
            last: None,
            end: 0,
            committed: None,
        })
    }

    /// Behind its last whole record.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// When the latest of its commits was, by the clock of its server, in microseconds since 1970.
    pub(crate) fn committed(&self) -> Option<i64> {
        /// From 1970 to 2000.
        const EPOCH: i64 = 946_684_800_000_000;
        self.committed.and_then(|at| at.checked_add(EPOCH))
    }

    /// The chain with a segment more: the one of this number, of no later timeline than this.
    pub(crate) fn with(&self, segment: &File, number: u64, timeline: u32) -> Result<Chain, Broken> {
        let mut chain = self.clone();
        if segment.metadata()?.len() != self.segment_size {
            return Err(Broken::Cut {
                at: number * self.segment_size,
                why: "it has not the size of a segment",
            });
        }
        let mut first = [0; HEADER_BYTES];
        segment.read_exact_at(&mut first, 0)?;
        let begin = number * self.segment_size;
        let header = Header::read(&first)
            .ok_or(Broken::Cut { at: begin, why: "it does not begin as a segment does" })?;
        let page_size = u32::from_ne_bytes(first[36..40].try_into().expect("four bytes"));
        if header.system != self.system {
            return Err(Broken::Foreign("it is of another server: its system identifier differs"));
        }
        if header.segment_size != self.segment_size || u64::from(page_size) != self.page_size {
            return Err(Broken::Foreign("it has other sizes than the server's log"));
        }
        if header.position != begin {
            return Err(Broken::Foreign("it is another segment than its name says"));
        }
        let mut bytes = vec![0; READ.min(usize::try_from(self.segment_size).unwrap_or(READ))];
        let mut offset = 0;
        while offset < self.segment_size && chain.pending != Pending::Switched {
            segment.read_exact_at(&mut bytes, offset)?;
            for (index, page) in
                bytes.chunks_exact(usize::try_from(self.page_size).unwrap_or(READ)).enumerate()
            {
                let at = begin + offset + index as u64 * self.page_size;
                chain.page(page, at, at == begin, timeline)?;
                if chain.pending == Pending::Switched {
                    break;
                }
            }
            offset += bytes.len() as u64;
        }
        if chain.pending == Pending::Switched {
            chain.pending = Pending::Nothing;
            chain.end = begin + self.segment_size;
        }
        Ok(chain)
    }

    fn page(&mut self, page: &[u8], at: u64, is_first: bool, timeline: u32) -> Result<(), Broken> {
        let cut = |why| Err(Broken::Cut { at, why });
        let two = |from: usize| u16::from_ne_bytes(page[from..from + 2].try_into().expect("two bytes"));
        let four = |from: usize| u32::from_ne_bytes(page[from..from + 4].try_into().expect("four bytes"));
        let (magic, flags, of, left) = (two(0), two(2), four(4), four(16));
        let position = u64::from_ne_bytes(page[8..16].try_into().expect("eight bytes"));
        if magic == 0
            || flags & !FLAGS != 0
            || *self.magic.get_or_insert(magic) != magic
            || (flags & LONG != 0) != is_first
        {
            return cut("there is no page of this log");
        }
        if position != at {
            return cut("there is a page of another place");
        }
        if of < self.timeline.max(1) || of > timeline {
            return cut("there is a page of another timeline");
        }
        self.timeline = of;
        let continues = flags & CONTINUES != 0;
        match &self.pending {
            Pending::Nothing | Pending::Switched if !continues => {}
            // The chain begins here.
            Pending::Nothing if self.last.is_none() && self.end == 0 => self.pending = Pending::Unknown(left),
            Pending::Unknown(to_come) if continues && left == *to_come => {}
            Pending::Record(record) if continues && left == record.total - record.got => {}
            Pending::Unknown(_) | Pending::Record(_) if flags & OVERWRITTEN != 0 && !continues => {
                self.pending = Pending::Nothing;
            }
            _ => return cut("what the page before began does not go on"),
        }
        let from = if is_first { HEADER_BYTES } else { PAGE_HEADER };
        self.records(&page[from..], at + from as u64)
    }

    /// Reads what a page holds behind its header.
    fn records(&mut self, mut rest: &[u8], mut at: u64) -> Result<(), Broken> {
        while !rest.is_empty() {
            let step = match &mut self.pending {
                Pending::Switched => return Ok(()),
                Pending::Nothing => {
                    let total = u32::from_ne_bytes(rest[..4].try_into().expect("four bytes"));
                    if total < RECORD_HEADER as u32 || total > RECORD_MAX {
                        return Err(Broken::Cut { at, why: "there is no record" });
                    }
                    self.pending = Pending::Record(Box::new(Record {
                        start: at,
                        total,
                        got: 0,
                        header: [0; RECORD_HEADER],
                        head: [0; HEAD],
                        crc: 0,
                    }));
                    continue;
                }
                Pending::Unknown(left) => {
                    let step = (*left as usize).min(rest.len());
                    *left -= step as u32;
                    if *left == 0 {
                        self.pending = Pending::Nothing;
                        self.end = aligned(at + step as u64);
                    }
                    step
                }
                Pending::Record(record) => {
                    let step = ((record.total - record.got) as usize).min(rest.len());
                    record.take(&rest[..step]);
                    if record.got == record.total {
                        self.take_record(at + step as u64)?;
                    }
                    step
                }
            };
            // Records begin at multiples of eight bytes, as pages do and their headers end.
            let step = match &self.pending {
                Pending::Nothing => (aligned(at + step as u64) - at) as usize,
                _ => step,
            };
            at += step as u64;
            rest = &rest[step.min(rest.len())..];
        }
        Ok(())
    }

    fn take_record(&mut self, end: u64) -> Result<(), Broken> {
        let Pending::Record(record) = std::mem::replace(&mut self.pending, Pending::Nothing) else {
            return Ok(());
        };
        let cut = |why| Err(Broken::Cut { at: record.start, why });
        let header = &record.header;
        let before = u64::from_ne_bytes(header[8..16].try_into().expect("eight bytes"));
        let crc = u32::from_ne_bytes(header[CHECKED_HEADER..].try_into().expect("four bytes"));
        if crc32c::crc32c_append(record.crc, &header[..CHECKED_HEADER]) != crc {
            return cut("the checksum of a record is wrong");
        }
        if self.last.is_some_and(|last| last != before) || before >= record.start {
            return cut("there is a record that does not follow the one before it");
        }
        self.last = Some(record.start);
        self.end = aligned(end);
        match (header[17], header[16] & 0xF0) {
            (KIND_LOG, SWITCH) => self.pending = Pending::Switched,
            (KIND_TRANSACTION, info) if [COMMIT, COMMIT_PREPARED].contains(&(info & 0x70)) => {
                let told = record.main().map(i64::from_ne_bytes);
                self.committed = self.committed.max(told);
            }
            _ => {}
        }
        Ok(())
    }
}

impl Record {
    fn take(&mut self, bytes: &[u8]) {
        let got = self.got as usize;
        let of_header = RECORD_HEADER.saturating_sub(got).min(bytes.len());
        let (header, body) = bytes.split_at(of_header);
        self.header[got.min(RECORD_HEADER)..][..of_header].copy_from_slice(header);
        let in_body = got.saturating_sub(RECORD_HEADER);
        let of_head = HEAD.saturating_sub(in_body).min(body.len());
        self.head[in_body.min(HEAD)..][..of_head].copy_from_slice(&body[..of_head]);
        self.crc = crc32c::crc32c_append(self.crc, body);
        self.got += bytes.len() as u32;
    }

    /// The first eight bytes of its main part, if nothing but an origin and a transaction is before it.
    fn main(&self) -> Option<[u8; 8]> {
        let body = &self.head[..HEAD.min(self.total as usize - RECORD_HEADER)];
        let mut at = 0;
        loop {
            let length = match *body.get(at)? {
                PART_ORIGIN => 2,
                PART_TRANSACTION => 4,
                PART_SHORT => return body.get(at + 2..at + 10)?.try_into().ok(),
                PART_LONG => return body.get(at + 5..at + 13)?.try_into().ok(),
                _ => return None,
            };
            at += 1 + length;
        }
    }
}

fn aligned(at: u64) -> u64 {
    at.next_multiple_of(8)
}

#[cfg(test)]
#[path = "../../../tests/unit/wal_chain.rs"]
mod tests;
