//! A log that goes on is taken to its end, and one that was changed anywhere is not.

use super::{Broken, Chain};
use std::{fs::File, io::Write};

const SEGMENT: u64 = 1 << 20;
const PAGE: u64 = 8192;
const SYSTEM: u64 = 0x6711_2233_4455_6677;
const MAGIC: u16 = 0xD110;

/// Writes a log as PostgreSQL does: records one after the other, over pages and segments.
struct Log {
    bytes: Vec<u8>,
    begin: u64,
    last: u64,
    timeline: u32,
    state: u64,
}

impl Log {
    fn new(begin: u64) -> Log {
        Log { bytes: Vec::new(), begin, last: 0, timeline: 1, state: 7 }
    }

    fn at(&self) -> u64 {
        self.begin + self.bytes.len() as u64
    }

    fn header(&mut self, flags: u16, left: u32) {
        let at = self.at();
        let is_first = at.is_multiple_of(SEGMENT);
        self.bytes.extend(MAGIC.to_ne_bytes());
        self.bytes.extend((flags | if is_first { 2 } else { 0 }).to_ne_bytes());
        self.bytes.extend(self.timeline.to_ne_bytes());
        self.bytes.extend(at.to_ne_bytes());
        self.bytes.extend(left.to_ne_bytes());
        self.bytes.extend([0; 4]);
        if is_first {
            self.bytes.extend(SYSTEM.to_ne_bytes());
            self.bytes.extend((SEGMENT as u32).to_ne_bytes());
            self.bytes.extend((PAGE as u32).to_ne_bytes());
        }
    }

    fn put(&mut self, record: &[u8]) {
        for (index, byte) in record.iter().enumerate() {
            if self.at().is_multiple_of(PAGE) {
                let (flags, left) = if index == 0 { (0, 0) } else { (1, record.len() - index) };
                self.header(flags, left as u32);
            }
            self.bytes.push(*byte);
        }
        while !self.at().is_multiple_of(8) {
            self.bytes.push(0);
        }
    }

    fn record(&mut self, kind: u8, info: u8, body: &[u8]) {
        if self.at().is_multiple_of(PAGE) {
            self.header(0, 0);
        }
        let start = self.at();
        let mut record = Vec::new();
        record.extend((24 + body.len() as u32).to_ne_bytes());
        record.extend(9_u32.to_ne_bytes());
        record.extend(self.last.to_ne_bytes());
        record.extend([info, kind, 0, 0]);
        let crc = crc32c::crc32c_append(crc32c::crc32c(body), &record);
        record.extend(crc.to_ne_bytes());
        record.extend(body);
        self.put(&record);
        self.last = start;
    }

    /// Of some length.
    fn any(&mut self) {
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let length = 2 + (self.state >> 33) as usize % 5000;
        let body: Vec<u8> = (0..length).map(|index| (index as u64 ^ self.state >> 20) as u8).collect();
        self.record(10, 0x20, &body);
    }

    fn commit(&mut self, at: i64) {
        let mut body = vec![253, 1, 0, 255, 8];
        body.extend(at.to_ne_bytes());
        self.record(1, 0x80, &body);
    }

    fn fill(&mut self, until: u64) {
        while self.at() < until {
            self.any();
        }
    }

    fn segment(&self, number: u64) -> Vec<u8> {
        let from = (number * SEGMENT - self.begin) as usize;
        let mut bytes = self.bytes[from..].to_vec();
        bytes.resize(SEGMENT as usize, 0);
        bytes
    }
}

fn file(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file
}

fn begun() -> Chain {
    Chain::begin(SYSTEM, SEGMENT, PAGE).unwrap()
}

fn log() -> Log {
    let mut log = Log::new(3 * SEGMENT);
    log.fill(4 * SEGMENT - 100_000);
    log.commit(1_000_000);
    log.commit(900_000);
    log.fill(5 * SEGMENT + 20_000);
    log.commit(2_000_000);
    log
}

#[test]
fn a_log_is_followed_over_segments() {
    let mut log = log();
    let three = begun().with(&file(&log.segment(3)), 3, 1).unwrap();
    assert!(three.end() > 4 * SEGMENT - 8192 && three.end() <= 4 * SEGMENT, "{:X}", three.end());
    assert_eq!(three.committed(), Some(946_684_800_000_000 + 1_000_000));
    let four = three.with(&file(&log.segment(4)), 4, 1).unwrap();
    // What is not written to its end is not whole, unless the server says that nothing more comes.
    let part = log.segment(5);
    assert!(matches!(four.with(&file(&part), 5, 1), Err(Broken::Cut { .. })));
    log.record(0, 0x40, &[]);
    let five = four.with(&file(&log.segment(5)), 5, 1).unwrap();
    assert_eq!((five.end(), five.committed()), (6 * SEGMENT, Some(946_684_800_000_000 + 2_000_000)));
    // The next one begins anew; one may be read without those before it.
    log.bytes.resize((3 * SEGMENT) as usize, 0);
    log.fill(7 * SEGMENT);
    assert!(five.with(&file(&log.segment(6)), 6, 1).is_ok());
    assert!(begun().with(&file(&log.segment(4)), 4, 1).is_ok());
    // It is the next one, or none.
    for wrong in [3, 5, 6] {
        assert!(three.with(&file(&log.segment(wrong)), wrong, 1).is_err(), "{wrong}");
        assert!(three.with(&file(&log.segment(wrong)), 4, 1).is_err(), "{wrong}");
    }
}

#[test]
fn a_log_that_was_changed_is_not_followed() {
    let log = log();
    let three = begun().with(&file(&log.segment(3)), 3, 1).unwrap();
    let right = log.segment(4);
    assert!(three.with(&file(&right), 4, 1).is_ok());
    let mut padding = 0;
    for step in 0..400_u64 {
        let at = (step.wrapping_mul(0x9E37_79B9_7F4A_7C15) % SEGMENT) as usize;
        let mut wrong = right.clone();
        wrong[at] ^= 1 << (step % 8);
        // Of what lies between two records nothing is read; here it is zeros.
        let is_padding = right[at] == 0 && three.with(&file(&wrong), 4, 1).is_ok();
        padding += u32::from(is_padding);
        assert!(is_padding || three.with(&file(&wrong), 4, 1).is_err(), "{at:X}");
    }
    assert!(padding < 20, "{padding}");
    for at in [0, 2, 4, 8, 16, 24, 32, 36, 40, 8192, 8194, 8196, 8200, 8208] {
        let mut wrong = right.clone();
        wrong[at] ^= 0x10;
        assert!(three.with(&file(&wrong), 4, 1).is_err(), "{at}");
    }
    for length in [0, 39, 8192, SEGMENT / 2, SEGMENT - 1, SEGMENT + 1] {
        let mut wrong = right.clone();
        wrong.resize(length as usize, 0);
        assert!(matches!(three.with(&file(&wrong), 4, 1), Err(Broken::Cut { .. })), "{length}");
        wrong.resize(SEGMENT as usize, 0);
        assert!(length >= SEGMENT - 1 || three.with(&file(&wrong), 4, 1).is_err(), "zeros from {length}");
    }
    // Two halves, each of a right log.
    let mut other = Log::new(3 * SEGMENT);
    other.state = 99;
    other.fill(6 * SEGMENT);
    let mut wrong = right.clone();
    wrong[(SEGMENT / 2) as usize..].copy_from_slice(&other.segment(4)[(SEGMENT / 2) as usize..]);
    assert!(three.with(&file(&wrong), 4, 1).is_err());
    assert!(three.with(&file(&other.segment(4)), 4, 1).is_err());
}

#[test]
fn a_record_that_a_crash_cut_off_is_passed_where_the_server_says_so() {
    let mut log = Log::new(3 * SEGMENT);
    log.fill(3 * SEGMENT + 8192 * 3 - 50);
    let whole = log.bytes.len();
    while log.at() < 3 * SEGMENT + 8192 * 4 {
        log.any();
    }
    let page = (log.bytes.len().min(whole.next_multiple_of(8192))).max(8192 * 3);
    log.bytes.truncate(page);
    let before = log.bytes.clone();
    for (flags, is_whole) in [(8, true), (0, false)] {
        log.bytes.clone_from(&before);
        // The record that was cut off is not the last one.
        let chain = begun();
        log.header(flags, 0);
        log.last = last_whole(&before);
        log.fill(4 * SEGMENT);
        assert_eq!(chain.with(&file(&log.segment(3)[..SEGMENT as usize]), 3, 1).is_ok(), is_whole, "{flags}");
    }
}

/// Where the last record begins that lies wholly in these pages.
fn last_whole(bytes: &[u8]) -> u64 {
    let mut log = Log::new(3 * SEGMENT);
    let mut last = 0;
    while log.bytes.len() <= bytes.len() {
        last = log.last;
        log.any();
    }
    last
}

#[test]
fn another_timeline_goes_on_where_it_was_left() {
    let mut log = Log::new(3 * SEGMENT);
    log.fill(4 * SEGMENT + 300_000);
    let old = log.segment(4);
    let three = begun().with(&file(&log.segment(3)), 3, 1).unwrap();
    log.timeline = 2;
    log.fill(6 * SEGMENT);
    let new = log.segment(4);
    assert!(old[..300_000] == new[..300_000]);
    assert!(
        three.with(&file(&new[..SEGMENT as usize]), 4, 1).is_err(),
        "it is of a later timeline than is wanted"
    );
    let four = three.with(&file(&new[..SEGMENT as usize]), 4, 2).unwrap();
    assert!(four.with(&file(&log.segment(5)[..SEGMENT as usize]), 5, 2).is_ok());
    // And not back.
    let mut back = log.segment(5)[..SEGMENT as usize].to_vec();
    back[4] = 1;
    assert!(four.with(&file(&back), 5, 2).is_err());
}

#[test]
fn sizes_that_no_server_has_are_refused() {
    for (segment, page) in
        [(0, 8192), (1 << 20, 0), (1 << 20, 8191), (3 << 20, 8192), (1 << 31, 8192), (1 << 20, 1 << 20)]
    {
        assert_eq!(Chain::begin(1, segment, page), None, "{segment} {page}");
    }
}
