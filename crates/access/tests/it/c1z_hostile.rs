//! Files that somebody made to do harm: their checksums are right, and what they say is not.

mod database;
mod envelope;

use std::fs;
use std::path::{Path, PathBuf};

use crate::c1z_support::*;
use duramen_access::c1z::*;
use duramen_access::graph::*;
use duramen_pack::PackError;
use envelope::{File, Parts};

/// A small version 3 file, where it lies and its parts.
fn sample(dir: &Path) -> (PathBuf, Graph, Parts) {
    let path = dir.join("3.c1z");
    let graph = Graph::random(11, 5);
    write_v3(&graph, &path);
    let parts = Parts::read(&path);
    (path, graph, parts)
}

/// What opening says to the parts of a file.
fn refused(path: &Path, parts: &Parts) -> C1zError {
    parts.write(path);
    match read_v3(path) {
        Err(error) => error,
        Ok(_) => panic!("it was read: {parts:?}"),
    }
}

#[test]
fn a_file_that_was_taken_apart_and_put_together_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let (path, graph, mut parts) = sample(dir.path());
    parts.write(&path);
    assert_eq!(read_v3(&path).unwrap(), graph);
    // A wrong SHA-256 is found by who asks for it.
    parts.file("MANIFEST").sha256 = Some(vec![7; 32]);
    assert!(matches!(refused(&path, &parts), C1zError::Damaged { .. }));
    assert_eq!(Graph::read(&C1z3::open(&path, &ReadOptions::default()).unwrap()).unwrap(), graph);
    for length in [0, 31, 33] {
        parts.file("MANIFEST").sha256 = Some(vec![7; length]);
        parts.write(&path);
        assert!(matches!(C1z3::open(&path, &ReadOptions::default()), Err(C1zError::Damaged { .. })));
    }
}

#[test]
fn a_file_that_lies_about_its_lengths_is_refused_and_takes_no_memory_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let (path, _, parts) = sample(dir.path());
    let real = parts.clone().file("MANIFEST").raw.len() as u64;
    for lie in [0, 1, real - 1, real + 1, 1 << 20, 900 << 20] {
        let mut parts = parts.clone();
        parts.file("MANIFEST").raw_size = Some(lie);
        assert!(matches!(refused(&path, &parts), C1zError::Damaged { .. }), "{lie}");
        // The frame may leave its length out: then only decompressing finds it out.
        let mut frame = Vec::new();
        let mut encoder = zstd::stream::write::Encoder::new(&mut frame, 1).unwrap();
        std::io::Write::write_all(&mut encoder, &parts.file("MANIFEST").raw.clone()).unwrap();
        encoder.finish().unwrap();
        parts.file("MANIFEST").frame = Some(frame);
        assert!(matches!(refused(&path, &parts), C1zError::Damaged { .. }), "{lie}");
    }
    for lie in [2 << 30, 1 << 40, u64::MAX / 2] {
        let mut parts = parts.clone();
        parts.file("MANIFEST").raw_size = Some(lie);
        assert!(matches!(refused(&path, &parts), C1zError::TooLarge { .. }), "{lie}");
    }
    let mut more = parts.clone();
    more.file("MANIFEST").raw_size = Some(u64::MAX);
    assert!(matches!(refused(&path, &more), C1zError::Damaged { .. }), "the sum overflows");
    let mut more = parts.clone();
    more.total_raw = Some(1);
    assert!(matches!(refused(&path, &more), C1zError::Damaged { .. }), "the sum is wrong");
    // A bomb that says it is short: it is not decompressed beyond that.
    let mut bomb = parts.clone();
    bomb.file("MANIFEST").frame = Some(zstd::bulk::compress(&vec![0; 64 << 20], 1).unwrap());
    assert!(matches!(refused(&path, &bomb), C1zError::Damaged { .. }));
    // One that states the truth is held against the limit before anything is decompressed.
    let mut bomb = parts;
    bomb.file("MANIFEST").raw = vec![0; 64 << 20];
    bomb.write(&path);
    let options = ReadOptions { decompressed_bytes_max: Some(32 << 20), ..ReadOptions::default() };
    let error = C1z3::open(&path, &options).err().unwrap();
    assert!(matches!(error, C1zError::TooLarge { limit: 0x200_0000, .. }), "{error}");
}

#[test]
fn names_that_lead_elsewhere_and_too_many_files_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (path, _, parts) = sample(dir.path());
    let long = "n".repeat(4097);
    for name in ["", ".", "..", "../x", "a/../../x", "/etc/x", "a//b", "a/", "a\\b", "a\0b", &long] {
        let mut parts = parts.clone();
        parts.files.push(File { name: name.to_owned(), ..File::default() });
        let error = refused(&path, &parts);
        assert!(matches!(error, C1zError::Damaged { .. } | C1zError::TooLarge { .. }), "{name:?}: {error}");
    }
    let mut twice = parts.clone();
    twice.files.push(twice.files[0].clone());
    assert!(refused(&path, &twice).to_string().contains("two files have the name"));
    let mut many = parts;
    many.files.extend((0..65_537).map(|number| File {
        name: number.to_string(),
        frame: Some(vec![0]),
        sha256: Some(vec![0; 32]),
        ..File::default()
    }));
    assert!(matches!(refused(&path, &many), C1zError::TooLarge { limit: 65_536, .. }));
}

#[test]
fn frames_that_lie_where_they_cannot_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (path, _, parts) = sample(dir.path());
    for offset in [0, 5, 9, 1 << 20, u64::MAX] {
        let mut parts = parts.clone();
        parts.files.last_mut().unwrap().offset = Some(offset);
        assert!(matches!(refused(&path, &parts), C1zError::Damaged { .. }), "{offset}");
    }
    let mut empty = parts.clone();
    empty.files.last_mut().unwrap().frame = Some(Vec::new());
    assert!(matches!(refused(&path, &empty), C1zError::Damaged { .. }));
    let mut missing = parts.clone();
    missing.files.retain(|file| !file.name.starts_with("MANIFEST"));
    assert!(refused(&path, &missing).to_string().contains("is missing"));
    let mut headless = parts;
    headless.files.retain(|file| !file.name.starts_with("marker.manifest"));
    assert!(matches!(refused(&path, &headless), C1zError::Damaged { .. }));
}

#[test]
fn manifests_that_name_something_else_are_refused_with_what_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let (path, _, parts) = sample(dir.path());
    let manifest = |engine: &str, encoding: u64| {
        let mut out = Vec::new();
        envelope::put_bytes(&mut out, 1, engine.as_bytes());
        envelope::put_varint(&mut out, 4, encoding);
        out
    };
    // The least that a file has to say.
    let least = Parts { manifest: manifest("pebble3", 5), ..parts.clone() };
    least.write(&path);
    read_v3(&path).unwrap();
    for (engine, encoding, said) in [
        ("pebble9", 5, "pebble9"),
        ("", 5, "engine"),
        ("pebble3", 1, "bytes after its end"),
        ("pebble3", 2, "a header of the archive does not match its sum"),
        ("pebble3", 3, "its files lie in it in the way 3"),
        ("pebble3", u64::MAX, "use a newer duramen"),
    ] {
        let other = Parts { manifest: manifest(engine, encoding), ..parts.clone() };
        let error = refused(&path, &other).to_string();
        assert!(error.contains(said), "{error}");
    }
}

/// Each row of a file as text.
fn rows(path: &Path) -> Result<Vec<String>, C1zError> {
    rows_with(path, &ReadOptions::default())
}

fn rows_with(path: &Path, options: &ReadOptions) -> Result<Vec<String>, C1zError> {
    fn push<Row: std::fmt::Debug>(rows: &mut Vec<String>, row: Row) -> std::ops::ControlFlow<()> {
        rows.push(format!("{row:?}"));
        std::ops::ControlFlow::Continue(())
    }
    let file = C1z3::open(path, options)?;
    let mut rows = Vec::new();
    for sync in file.syncs()? {
        file.for_each_resource_type(&sync.id, &mut |row| push(&mut rows, row))?;
        file.for_each_resource(&sync.id, &mut |row| push(&mut rows, row))?;
        file.for_each_entitlement(&sync.id, &mut |row| push(&mut rows, row))?;
        file.for_each_grant(&sync.id, &mut |row| push(&mut rows, row))?;
    }
    Ok(rows)
}

/// What checksums cover is only as good as who made them: everything is read with care nevertheless. A log may end
/// early, as when a machine died while it was written; no row comes out of it that was not put.
#[test]
fn a_flipped_bit_under_right_checksums_makes_up_no_row() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("3.c1z");
    let mut graph = Graph::random(12, 2);
    graph.resource_types.truncate(1);
    graph.resources.truncate(1);
    graph.entitlements.truncate(1);
    graph.assets.clear();
    write_v3(&graph, &path);
    let whole = rows(&path).unwrap();
    let parts = Parts::read(&path);
    let (mut all, mut refused) = (0, 0);
    for number in 0..parts.files.len() {
        for at in 0..parts.files[number].raw.len() {
            let mut changed = parts.clone();
            match at % 4 {
                0 => changed.files[number].raw.truncate(at),
                _ => changed.files[number].raw[at] ^= 1 << (at % 8),
            }
            changed.write(&path);
            all += 1;
            let checked = rows_with(&path, &ReadOptions { check_rows: true, ..ReadOptions::default() });
            match rows(&path) {
                Ok(found) => {
                    assert!(checked.is_err() || checked.is_ok_and(|checked| checked == found), "byte {at}");
                    let made_up = found.iter().find(|row| !whole.contains(row));
                    assert_eq!(made_up, None, "{}: byte {at}", parts.files[number].name);
                }
                Err(_) => {
                    assert!(checked.is_err(), "{}: byte {at}", parts.files[number].name);
                    refused += 1;
                }
            }
        }
    }
    assert!(refused * 2 > all, "{refused} of {all} refused");
}

/// A zstd frame of `blocks` blocks of 128 KiB of zeros each, under a head of any kind.
fn zeros(head: &[u8], blocks: usize) -> Vec<u8> {
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd];
    frame.extend(head);
    for block in 1..=blocks {
        // One byte that is repeated: last or not, the kind of block, the length.
        let head = u32::from(block == blocks) | 1 << 1 | (128 << 10) << 3;
        frame.extend(&head.to_le_bytes()[..3]);
        frame.push(0);
    }
    frame
}

#[test]
fn a_version_1_frame_that_lies_about_its_length_or_wants_much_memory_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("1.c1z");
    let open = |frame: Vec<u8>, max: Option<u64>| {
        fs::write(&path, [b"C1ZF\0".as_slice(), &frame].concat()).unwrap();
        let options = ReadOptions { decompressed_bytes_max: max, ..ReadOptions::default() };
        C1z1::open(&path, &options).err().unwrap()
    };
    // Eight bytes of length, and a window of 1 MiB.
    let claims = |length: u64| [&[0xc0, 10 << 3], length.to_le_bytes().as_slice()].concat();
    let error = open(zeros(&claims(20 << 30), 1), None);
    assert!(matches!(error, C1zError::TooLarge { value: 0x5_0000_0000, .. }), "{error}");
    let error = open(zeros(&claims(1 << 20), 1000), None);
    assert!(matches!(error, C1zError::Damaged { .. }), "more than it claims: {error}");
    let error = open(zeros(&claims(200 << 20), 1), None);
    assert!(matches!(error, C1zError::Damaged { .. }), "less than it claims: {error}");
    // No length: only counting finds it out, and no more is written than the limit.
    let error = open(zeros(&[0x00, 10 << 3], 1000), Some(1 << 20));
    assert!(matches!(error, C1zError::TooLarge { limit: 0x10_0000, .. }), "{error}");
    // A window of 256 MiB, which a reader would have to keep, and one of 128 MiB, which is allowed.
    let error = open(zeros(&[0x00, 18 << 3], 1), None).to_string();
    assert!(error.contains("memory"), "{error}");
    let error = open(zeros(&[0x00, 17 << 3], 1), None);
    assert!(!error.to_string().contains("memory"), "{error}");
    // Zeros are not a database.
    assert!(matches!(error, C1zError::Sqlite { .. } | C1zError::Damaged { .. }), "{error}");
}

#[test]
fn a_pack_under_the_name_of_the_ecosystem_and_the_other_way_round_are_known_for_what_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let (path, _, _) = sample(dir.path());
    let renamed = dir.path().join("3.dpack");
    fs::rename(&path, &renamed).unwrap();
    match GraphPack::open(&renamed).unwrap_err() {
        GraphError::Pack(PackError::NotAPack { found, .. }) => assert!(found.contains(".c1z"), "{found}"),
        error => panic!("{error}"),
    }
    // Whoever would write into it is kept from it too.
    assert!(GraphStore::open(&renamed).is_err());
    assert_eq!(Version::detect(&renamed).unwrap(), Version::V3);
    let pack = dir.path().join("pack.c1z");
    let mut store = GraphStore::open(&pack).unwrap();
    store.start_sync(SyncKind::Full, None).unwrap();
    store.end_sync().unwrap();
    store.close().unwrap();
    assert!(matches!(Version::detect(&pack), Err(C1zError::NotC1z { .. })));
    assert!(matches!(C1z1::open(&pack, &ReadOptions::default()), Err(C1zError::NotC1z { .. })));
    assert!(matches!(C1z3::open(&pack, &ReadOptions::default()), Err(C1zError::NotC1z { .. })));
}
