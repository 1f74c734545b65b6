//! Segments of a write-ahead log: their names, and what their first page says of them.

pub(crate) mod chain;

use std::{fmt, str::FromStr};

/// The least and the greatest size of a segment, in bytes.
const SIZES: std::ops::RangeInclusive<u64> = (1 << 20)..=(1 << 30);
/// How many bytes of a segment say what it is.
pub(crate) const HEADER_BYTES: usize = 40;
/// In the flags of a page: it has the longer header, as the first one of each segment does.
const LONG: u16 = 0x0002;
/// The size of the header of a page that is not the first one of its segment.
const PAGE_HEADER_BYTES: u64 = 24;

/// A position in a log, which is written `0/1A2B3C8`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position(pub(crate) u64);

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:X}/{:X}", self.0 >> 32, self.0 & 0xFFFF_FFFF)
    }
}

impl FromStr for Position {
    type Err = ();

    fn from_str(text: &str) -> Result<Position, ()> {
        let (high, low) = text.split_once('/').ok_or(())?;
        let part = |text: &str| {
            let is_hex = (1..=8).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
            is_hex.then(|| u64::from_str_radix(text, 16).ok()).flatten().ok_or(())
        };
        Ok(Position(part(high)? << 32 | part(low)?))
    }
}

impl Position {
    /// Where what was inserted ends. A server tells the place of the next record instead, which is behind the header of a page that
    /// nothing is written to yet.
    pub(crate) fn end_of_inserted(self, segment_size: u64, page_size: u64) -> Position {
        let of_segment = self.0 % segment_size;
        let of_page = self.0 % page_size;
        if of_segment <= HEADER_BYTES as u64 {
            Position(self.0 - of_segment)
        } else if of_page <= PAGE_HEADER_BYTES {
            Position(self.0 - of_page)
        } else {
            self
        }
    }
}

/// The name of a segment, by the timeline and its number: it begins at the position `number * size`.
pub(crate) fn segment_name(timeline: u32, number: u64, size: u64) -> String {
    let of_each = (1_u64 << 32) / size;
    format!("{timeline:08X}{:08X}{:08X}", number / of_each, number % of_each)
}

/// The timeline and the number of a segment.
pub(crate) fn parse_segment_name(name: &str, size: u64) -> Option<(u32, u64)> {
    let is_one = name.len() == 24 && name.bytes().all(|b| b.is_ascii_digit() || (b'A'..=b'F').contains(&b));
    let part = |at: usize| u32::from_str_radix(name.get(at..at + 8)?, 16).ok();
    let (timeline, high, low) = is_one.then(|| Some((part(0)?, part(8)?, part(16)?))).flatten()?;
    let of_each = (1_u64 << 32) / size;
    (timeline > 0 && u64::from(low) < of_each)
        .then_some((timeline, u64::from(high) * of_each + u64::from(low)))
}

/// The timeline that a history file (`00000002.history`) is of.
pub(crate) fn parse_history_name(name: &str) -> Option<u32> {
    let timeline = name.strip_suffix(".history").filter(|it| it.len() == 8)?;
    u32::from_str_radix(timeline, 16).ok().filter(|it| *it > 1 && history_name(*it) == name)
}

/// The name of the file that says which timelines a timeline came from.
pub(crate) fn history_name(timeline: u32) -> String {
    format!("{timeline:08X}.history")
}

/// What the first page of a segment says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    /// That of its first page: of an earlier one in the segment in which its own begins.
    pub(crate) timeline: u32,
    /// Of the first byte.
    pub(crate) position: u64,
    pub(crate) system: u64,
    pub(crate) segment_size: u64,
}

impl Header {
    /// Reads it; `None` if it is not one.
    pub(crate) fn read(bytes: &[u8; HEADER_BYTES]) -> Option<Header> {
        let two = |at: usize| u16::from_ne_bytes(bytes[at..at + 2].try_into().expect("two bytes"));
        let four = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let eight = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let header = Header {
            timeline: four(4),
            position: eight(8),
            system: eight(24),
            segment_size: u64::from(four(32)),
        };
        let size = header.segment_size;
        let is_one = two(0) != 0
            && two(2) & LONG != 0
            && SIZES.contains(&size)
            && size.is_power_of_two()
            && header.position.is_multiple_of(size)
            && header.timeline > 0;
        is_one.then_some(header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_read_as_postgresql_writes_them() {
        for (text, value) in [("0/0", 0), ("0/1A2B3C8", 0x01A2_B3C8), ("16/B374D848", 0x16_B374_D848)] {
            assert_eq!(text.parse::<Position>().unwrap(), Position(value));
            assert_eq!(Position(value).to_string(), text);
        }
        for text in ["", "0", "/", "0/", "0/123456789", "0x1/0", "-1/0", "0/1 ", "+1/0", "g/0"] {
            assert_eq!(text.parse::<Position>(), Err(()), "{text}");
        }
        let end = |at: u64| Position(at).end_of_inserted(16 << 20, 8192).0;
        assert_eq!(end(0x0300_0028), 0x0300_0000);
        assert_eq!(end(0x0300_2018), 0x0300_2000);
        assert_eq!(end(0x0300_2020), 0x0300_2020);
    }

    #[test]
    fn segments_are_named_as_postgresql_names_them() {
        for (size, number, name) in [
            (16 << 20, 0x0103, "000000020000000100000003"),
            (1 << 30, 0x0103, "000000020000004000000003"),
            (1 << 20, 0x0103, "000000020000000000000103"),
        ] {
            assert_eq!(segment_name(2, number, size), name);
            assert_eq!(parse_segment_name(name, size), Some((2, number)));
        }
        for name in [
            "00000002000000010000010a",
            "000000000000000100000001",
            "000000020000000100000100",
            "0000000200000001000000",
            "../../../../../etc/passwd",
            "000000020000000100000003.partial",
        ] {
            assert_eq!(parse_segment_name(name, 16 << 20), None, "{name}");
        }
        assert_eq!(parse_history_name("0000000A.history"), Some(10));
        for name in ["00000001.history", "0000000a.history", "000000002.history", "+000000A.history"] {
            assert_eq!(parse_history_name(name), None, "{name}");
        }
    }

    #[test]
    fn a_page_that_is_not_the_first_one_of_a_segment_is_refused() {
        let mut bytes = [0_u8; HEADER_BYTES];
        assert_eq!(Header::read(&bytes), None);
        bytes[..2].copy_from_slice(&0xD110_u16.to_ne_bytes());
        bytes[2..4].copy_from_slice(&LONG.to_ne_bytes());
        bytes[4..8].copy_from_slice(&1_u32.to_ne_bytes());
        bytes[8..16].copy_from_slice(&0x0300_0000_u64.to_ne_bytes());
        bytes[24..32].copy_from_slice(&7_u64.to_ne_bytes());
        bytes[32..36].copy_from_slice(&(16_u32 << 20).to_ne_bytes());
        let header = Header { timeline: 1, position: 0x0300_0000, system: 7, segment_size: 16 << 20 };
        assert_eq!(Header::read(&bytes), Some(header));
        for (at, value) in [(2, 0), (4, 0), (9, 1), (33, 3), (32, 1)] {
            let mut other = bytes;
            other[at] = value;
            assert_eq!(Header::read(&other), None, "{at}");
        }
    }
}
