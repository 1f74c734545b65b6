//! A file that is not exactly what was written is refused, with the place and the reason.

use crate::support::{verify, write_sample};
use duramen_pack::container::Pack;
use duramen_pack::PackError;

fn sample() -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.dpack");
    write_sample(&path, 2, 8, 5).unwrap();
    std::fs::read(path).unwrap()
}

/// P-2: without it, half a download would be taken for a smaller pack.
#[test]
fn a_file_cut_at_any_byte_is_refused_with_the_place() {
    let whole = sample();
    verify(&whole).unwrap();
    for len in 0..whole.len() {
        match verify(&whole[..len]) {
            Err(PackError::NotAPack { found, .. }) if len == 0 => assert_eq!(found, "it is empty"),
            Err(PackError::Truncated { at, expected, .. }) => {
                assert_eq!(at, len as u64);
                let end = if len < 32 { 32 } else { whole.len() as u64 };
                assert_eq!(expected, end, "cut at {len}");
            }
            other => panic!("cut at {len}: {other:?}"),
        }
    }
}

/// P-3: every byte of the file is covered by a digest, and the range that is reported holds the byte.
#[test]
fn a_flip_of_any_byte_is_found_and_its_range_is_told() {
    let whole = sample();
    for at in 0..whole.len() {
        for mask in [0x01, 0x80, 0xff] {
            let mut bytes = whole.clone();
            bytes[at] ^= mask;
            match verify(&bytes) {
                Err(PackError::NotAPack { .. }) if at < 8 => {}
                Err(PackError::Damaged { from, to, what, .. }) => {
                    assert!((from..to).contains(&(at as u64)), "byte {at}: reported {from}..{to}, {what}");
                    assert!(to <= whole.len() as u64);
                }
                other => panic!("byte {at} ^ {mask}: {other:?}"),
            }
        }
    }
}

/// P-4: of several damages the first in the file is reported.
#[test]
fn the_first_of_several_damages_is_told() {
    let whole = sample();
    // The first two blocks begin right behind the header, and the manifest lies near the end.
    let mut bytes = whole.clone();
    bytes[40] ^= 1;
    bytes[120] ^= 1;
    let manifest = whole.windows(10).position(|window| window == b"manifest 5").unwrap();
    bytes[manifest] ^= 1;
    let Err(PackError::Damaged { from, what, .. }) = verify(&bytes) else { panic!("not refused") };
    assert_eq!(from, 32);
    assert!(what.contains("block 0 of section \"s0\""), "{what}");
}

#[test]
fn bytes_after_the_end_are_refused() {
    let whole = sample();
    for count in [1, 4, 1000] {
        let mut bytes = whole.clone();
        bytes.extend(vec![0; count]);
        match verify(&bytes) {
            Err(PackError::TrailingBytes { from, count: reported, .. }) => {
                assert_eq!((from, reported), (whole.len() as u64, count as u64));
            }
            other => panic!("{count} bytes more: {other:?}"),
        }
    }
    // Not even a second pack.
    let twice = [whole.clone(), whole].concat();
    assert!(matches!(verify(&twice), Err(PackError::TrailingBytes { .. })));
}

/// Parts of two packs do not make one: the root digest binds header, footer and table.
#[test]
fn parts_of_different_packs_do_not_mix() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.dpack");
    write_sample(&path, 2, 8, 6).unwrap();
    let (one, other) = (sample(), std::fs::read(&path).unwrap());
    if one.len() == other.len() {
        for cut in [32, 200, one.len() - 144, one.len() - 200] {
            let mixed = [&one[..cut], &other[cut..]].concat();
            if mixed != one && mixed != other {
                assert!(matches!(verify(&mixed), Err(PackError::Damaged { .. })), "cut at {cut}");
            }
        }
    }
    // A header of another length and kind does not fit either.
    write_sample(&path, 1, 8, 6).unwrap();
    let mut mixed = sample();
    mixed[..32].copy_from_slice(&std::fs::read(&path).unwrap()[..32]);
    assert!(verify(&mixed).is_err());
}

#[test]
fn a_file_of_another_format_is_refused_by_its_content_whatever_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("renamed.dpack");
    let cases: [(&[u8], &str); 5] = [
        (b"C1ZF\0 and more than thirty-two bytes of it", "first format (.c1z)"),
        (b"C1Z3\0 and more than thirty-two bytes of it", "third format (.c1z)"),
        (b"SQLite format 3\0 and more than thirty-two bytes", "SQLite"),
        (b"hello, this is a text of more than 32 bytes", "does not begin as one"),
        (&[0; 500], "never finished"),
    ];
    for (bytes, expected) in cases {
        std::fs::write(&path, bytes).unwrap();
        let Err(PackError::NotAPack { file, found }) = Pack::open(&path) else { panic!("{expected}") };
        assert!(found.contains(expected), "{found}");
        assert!(file.ends_with("renamed.dpack"));
    }
    // And a pack opens under any name.
    std::fs::write(dir.path().join("notes.txt"), sample()).unwrap();
    Pack::open(dir.path().join("notes.txt")).unwrap();
    assert!(matches!(Pack::open(dir.path()), Err(PackError::Io { .. })));
    assert!(matches!(Pack::open(dir.path().join("nowhere")), Err(PackError::Io { .. })));
}
