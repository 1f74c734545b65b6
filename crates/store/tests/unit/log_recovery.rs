//! Torn tails are cut, damage is told, and no bytes do harm.

use duramen_base::entropy;

use super::memory_directory::MemoryDirectory;
use super::round_trip_tests::{assert_bodies, body, open, read, SMALL};
use super::scan::{later_claim, Later};
use super::*;

/// A log with `strict` durable records, then `rest` written ones, as a killed process leaves it.
fn killed(strict: u64, rest: u64) -> MemoryDirectory {
    let dir = MemoryDirectory::default();
    let (log, _) = open(&dir, 0).unwrap();
    for version in 1..=strict + rest {
        assert_eq!(log.append(1, &body(version)).unwrap(), version);
        let level = if version <= strict { Durability::Strict } else { Durability::Buffered };
        log.wait(version, level).unwrap();
    }
    let killed = dir.after_kill();
    drop(log);
    killed
}

/// Where the record of each version begins in the only segment, and where the last one ends.
fn offsets(dir: &MemoryDirectory) -> Vec<usize> {
    let mut at = SEGMENT_HEADER_BYTES;
    let mut offsets = vec![at];
    for (_, _, body) in read(dir, 0).unwrap().1 {
        at += RECORD_HEADER_BYTES + body.len();
        offsets.push(at);
    }
    offsets
}

fn segment(dir: &MemoryDirectory) -> String {
    let mut names = dir.names("log-");
    assert_eq!(names.len(), 1);
    names.remove(0)
}

#[test]
fn a_tail_torn_at_any_byte_is_cut_and_the_log_goes_on() {
    let whole = killed(4, 3);
    let offsets = offsets(&whole);
    let name = segment(&whole);
    for cut in offsets[6]..offsets[7] {
        let dir = whole.after_kill();
        // The last byte of the record may be a zero anyway.
        let changed = dir.with(&name, |bytes| {
            let changed = bytes[cut..].iter().any(|byte| *byte != 0);
            bytes[cut..].fill(0);
            changed
        });
        let expected = if changed { 6 } else { 7 };
        assert_eq!(read(&dir, 0).unwrap().0, expected, "L4: cut at {cut}");
        let (log, found) = open(&dir, 0).unwrap();
        assert_eq!(found.len() as u64, expected, "L4: cut at {cut}");
        assert_bodies(&found, 1);
        assert!(
            dir.with(&name, |bytes| bytes[offsets[expected as usize]..].iter().all(|byte| *byte == 0)),
            "L4"
        );
        assert_eq!(log.append(1, &body(expected + 1)).unwrap(), expected + 1);
        drop(log);
        assert_bodies(&read(&dir, 0).unwrap().1, 1);
    }
}

#[test]
fn a_torn_record_before_whole_ones_is_cut_with_them_and_they_do_not_come_back() {
    // A power cut may keep the later of two pages. The records 5 to 8 were never promised to survive one.
    let dir = killed(4, 4);
    let offsets = offsets(&dir);
    let name = segment(&dir);
    dir.with(&name, |bytes| bytes[offsets[4]] ^= 1);
    let (log, found) = open(&dir, 0).unwrap();
    assert_eq!(found.len(), 4, "L4");
    // The same lengths: had 6 to 8 stayed, they would follow on the new 5.
    assert_eq!(log.append(1, &body(5)).unwrap(), 5);
    drop(log);
    let (last, found) = read(&dir, 0).unwrap();
    assert_eq!((last, found.len()), (5, 5), "L4: the old records 6 to 8 are gone");
}

#[test]
fn a_flipped_bit_of_a_durable_record_is_damage() {
    let whole = killed(6, 1);
    let offsets = offsets(&whole);
    let name = segment(&whole);
    // Each record says that the one before was durable, so 1 to 6 cannot be cut.
    for at in offsets[0]..offsets[6] {
        let dir = whole.after_kill();
        dir.with(&name, |bytes| bytes[at] ^= 1 << (at % 8));
        let before = dir.calls();
        let broken = offsets.iter().rposition(|offset| *offset <= at).unwrap();
        for error in [open(&dir, 0).map(drop).unwrap_err(), read(&dir, 0).map(drop).unwrap_err()] {
            match error {
                LogError::Damaged { segment: 1, offset, .. } => {
                    assert_eq!(offset, offsets[broken] as u64, "L5")
                }
                other => panic!("L5: byte {at}: {other}"),
            }
        }
        assert_eq!(dir.calls(), before, "L5: nothing is changed");
        if broken < 5 {
            // What a checkpoint holds is not missed.
            let found = read(&dir, 7).unwrap();
            assert_eq!(found.0, 7, "L5: byte {at}");
        }
    }
}

#[test]
fn a_flipped_bit_before_a_clean_end_is_damage() {
    let dir = MemoryDirectory::default();
    let (log, _) = open(&dir, 0).unwrap();
    for version in 1..=3 {
        log.append(1, &body(version)).unwrap();
    }
    log.close().unwrap();
    drop(log);
    let offsets = offsets(&dir);
    dir.with(&segment(&dir), |bytes| bytes[offsets[3] - 1] ^= 64);
    assert!(matches!(read(&dir, 0), Err(LogError::Damaged { .. })), "L5: even the last record is missed");
}

#[test]
fn a_closed_segment_is_never_cut() {
    let dir = MemoryDirectory::default();
    let (log, _) = open(&dir, 0).unwrap();
    while dir.names("log-").len() < 3 {
        let version = log.append(1, &body(log.last() + 1)).unwrap();
        log.wait(version, Durability::Buffered).unwrap();
    }
    drop(log);
    let names = dir.names("log-");
    let spoil = |change: &dyn Fn(&MemoryDirectory)| {
        let copy = dir.after_kill();
        change(&copy);
        read(&copy, 0).map(|(last, _)| last)
    };
    // The last record of the first segment, before the mark that another follows, which ends where the zeros begin.
    let flipped = spoil(&|copy| {
        copy.with(&names[0], |bytes| {
            let end = bytes.iter().rposition(|byte| *byte != 0).unwrap();
            bytes[end - RECORD_HEADER_BYTES] ^= 1;
        });
    });
    assert!(matches!(flipped, Err(LogError::Damaged { segment: 1, .. })), "L5: {flipped:?}");
    // The mark alone may be torn: it was never waited for.
    let unmarked = spoil(&|copy| {
        copy.with(&names[0], |bytes| {
            let end = bytes.iter().rposition(|byte| *byte != 0).unwrap();
            bytes[end] ^= 1;
        });
    });
    assert!(unmarked.is_ok(), "{unmarked:?}");
    let newest = spoil(&|copy| copy.remove(&names[2]).unwrap());
    assert!(matches!(&newest, Err(LogError::Missing { file, .. }) if *file == names[2]), "L13: {newest:?}");
    let missing = spoil(&|copy| copy.remove(&names[1]).unwrap());
    assert!(matches!(missing, Err(LogError::Damaged { segment: 2, .. })), "L5: {missing:?}");
    let oldest = spoil(&|copy| copy.remove(&names[0]).unwrap());
    assert!(matches!(oldest, Err(LogError::Damaged { segment: 2, .. })), "L5: {oldest:?}");
    for at in (0..SEGMENT_HEADER_BYTES).filter(|at| !(8..12).contains(at)) {
        let header = spoil(&|copy| copy.with(&names[2], |bytes| bytes[at] ^= 1));
        assert!(
            matches!(header, Err(LogError::Damaged { segment: 3, offset: 0, .. })),
            "L5: {at}: {header:?}"
        );
    }
    let renamed = spoil(&|copy| copy.rename(&names[2], "log-0000000000000004").unwrap());
    assert!(matches!(renamed, Err(LogError::Damaged { .. })), "L5: {renamed:?}");
    let other = spoil(&|copy| drop(copy.create("notes.txt", 10).unwrap()));
    assert!(other.is_ok(), "a file of another name is none of the log's: {other:?}");
}

/// A segment that a checkpoint named, and that a large record left empty, is released without being missed (L13).
#[test]
fn an_empty_segment_that_was_released_is_not_missed() {
    let dir = MemoryDirectory::default();
    let (log, _) = open(&dir, 0).unwrap();
    let first = log.append(1, b"before").unwrap();
    log.wait(first, Durability::Strict).unwrap();
    log.rotate().unwrap();
    let segment = log.segment();
    let large = log.append(1, &[7; 100_000]).unwrap();
    log.wait(large, Durability::Strict).unwrap();
    log.release(first).unwrap();
    assert!(!dir.names("log-").contains(&super::recover::segment_name(segment)));
    let copy = dir.after_kill();
    let read = |needed| {
        let position = Position { after: first, needed };
        Log::read_at(&copy, position, &mut |_, _, _| Ok(()))
    };
    assert_eq!(read(Needed::Segment(segment)).unwrap(), large);
    assert!(matches!(read(Needed::Segment(segment + 2)), Err(LogError::Missing { .. })));
}

#[test]
fn no_bytes_make_the_reader_panic() {
    let seed = entropy::seed();
    println!("DURAMEN_SEED={seed}");
    let mut rng = entropy::rng(seed);
    let whole = killed(5, 5);
    let name = segment(&whole);
    let end = *offsets(&whole).last().unwrap();
    for _ in 0..3000 {
        let dir = whole.after_kill();
        dir.with(&name, |bytes| {
            for _ in 0..rng.usize(1..6) {
                bytes[rng.usize(..end)] = rng.u8(..);
            }
            match rng.u8(..8) {
                0 => bytes.truncate(rng.usize(..end)),
                1 => bytes[rng.usize(..end)..].fill_with(|| rng.u8(..)),
                _ => {}
            }
        });
        if let Ok((last, found)) = read(&dir, 0) {
            // A shorter log is what a torn tail leaves; a changed one is not.
            assert_eq!(last, found.len() as u64, "L10");
            assert_bodies(&found, 1);
        }
        let mut bytes = [0; 80];
        bytes.fill_with(|| rng.u8(..));
        bytes[..4].copy_from_slice(&rng.u32(..100).to_le_bytes());
        assert!(decode_record(&bytes, rng.u64(..)).is_none(), "L10");
        SegmentHeader::decode(&bytes).unwrap_err();
    }
}

#[test]
fn records_keep_their_bytes() {
    // A change here breaks every log that was ever written: it needs a new format version.
    let mut bytes = Vec::new();
    encode_record(&mut bytes, 7, 300, 2, 298, b"abc");
    assert_eq!(bytes.len(), 27);
    // Length and first version stand under the salt.
    assert_eq!(bytes[..4], [27 ^ 7, 0, 0, 0]);
    assert_eq!(bytes[8..24], [44 ^ 7, 1, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0]);
    assert_eq!(bytes[24..], *b"abc");
    assert_eq!(
        u32::from_le_bytes(bytes[4..8].try_into().unwrap()),
        xxhash_rust::xxh3::xxh3_64_with_seed(&bytes[8..], 7) as u32
    );
    let header = SegmentHeader { number: 1, salt: 2, first: 3 };
    let bytes = header.encode();
    assert_eq!(bytes[..16], *b"DRMNLOG\n\x01\0\0\0\0\0\0\0");
    assert_eq!(SegmentHeader::decode(&bytes), Ok(header));
}

#[test]
fn a_gap_too_large_to_write_claims_nothing() {
    let mut bytes = Vec::new();
    encode_record(&mut bytes, 7, u64::from(u32::MAX) + 10, 1, 2, b"");
    assert_eq!(decode_record(&bytes, 7).unwrap().durable(), None);
    assert_eq!(later_claim(&bytes, 7, 2), Later::Nothing);
}

#[test]
fn a_later_record_is_found_at_any_place_and_a_flood_of_false_ones_is_given_up() {
    let mut record = Vec::new();
    encode_record(&mut record, 7, 900, 1, 899, &[0; 1007]);
    // The low byte of this length is zero under the salt, so the record begins like the zeros before it.
    assert_eq!(record.len() ^ 7, 1024);
    // Around the ends of the blocks of zeros that are passed over at once.
    for at in (0..8).chain(500..520).chain(1010..1030) {
        let mut bytes = vec![0; at];
        bytes.extend_from_slice(&record);
        assert_eq!(later_claim(&bytes, 7, 500), Later::Durable { at, version: 899 });
        assert_eq!(later_claim(&bytes, 7, 900), Later::Nothing, "version 900 was not durable");
        assert_eq!(later_claim(&bytes, 8, 500), Later::Nothing, "L6: another salt is another life");
    }
    let mut flood = Vec::new();
    for _ in 0..10_000 {
        let mut false_one = record[..RECORD_HEADER_BYTES].to_vec();
        false_one[..4].copy_from_slice(&(100_000_u32 ^ 7).to_le_bytes());
        flood.extend_from_slice(&false_one);
    }
    assert_eq!(later_claim(&flood, 7, 500), Later::TooMany);
    assert_eq!(
        later_claim(&flood, 0x9e37_79b9_7f4a_7c15, 500),
        Later::Nothing,
        "it takes the salt to make one"
    );
}

#[test]
fn a_checkpoint_ends_between_records() {
    let dir = MemoryDirectory::default();
    let (log, _) = open(&dir, 0).unwrap();
    log.append(10, b"ten").unwrap();
    drop(log);
    assert!(matches!(read(&dir, 5), Err(LogError::Damaged { .. })));
    assert_eq!(read(&dir, 10).unwrap(), (10, vec![]));
    assert!(dir.with(&segment(&dir), |bytes| bytes.len() as u64) == SMALL);
}
