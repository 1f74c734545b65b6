//! A `.c1z` file that is not as it was written is refused, with the place and the reason.

use std::fs;
use std::path::Path;

use crate::c1z_support::*;
use duramen_access::c1z::*;
use duramen_access::convert::{Conversion, Format};
use duramen_access::graph::*;

fn small(version: Version, path: &Path) -> Graph {
    let mut graph = Graph::random(5, 3);
    graph.resources.truncate(2);
    graph.resources.iter_mut().for_each(|row| row.parent = None);
    graph.entitlements.truncate(1);
    graph.assets.clear();
    match version {
        Version::V1 => write_v1(&graph, path),
        Version::V3 => write_v3(&graph, path),
    };
    graph
}

fn read(version: Version, path: &Path) -> Result<Graph, C1zError> {
    match version {
        Version::V1 => read_v1(path),
        Version::V3 => read_v3(path),
    }
}

#[test]
fn a_file_that_is_cut_anywhere_is_refused_with_its_length() {
    let dir = tempfile::tempdir().unwrap();
    for version in [Version::V1, Version::V3] {
        let path = dir.path().join("whole.c1z");
        small(version, &path);
        let bytes = fs::read(&path).unwrap();
        let cut_path = dir.path().join("cut.c1z");
        for cut in 0..bytes.len() {
            fs::write(&cut_path, &bytes[..cut]).unwrap();
            if cut < 5 {
                let error = Version::detect(&cut_path).unwrap_err();
                assert!(matches!(error, C1zError::Truncated { at, .. } if at == cut as u64), "{error}");
                continue;
            }
            let error = read(version, &cut_path).unwrap_err();
            assert!(
                matches!(error, C1zError::Truncated { at, .. } if at == cut as u64),
                "{version:?} {cut}: {error}"
            );
        }
    }
}

#[test]
fn a_version_1_file_that_ends_after_its_magic_is_not_taken_for_an_empty_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cut.c1z");
    fs::write(&path, b"C1ZF\0").unwrap();
    let error = read_v1(&path).unwrap_err();
    assert!(matches!(error, C1zError::Truncated { at: 5, .. }));
    assert!(error.to_string().contains("ends where the database has to begin"), "{error}");
}

#[test]
fn a_file_with_a_flipped_bit_anywhere_is_refused_or_says_the_same() {
    let dir = tempfile::tempdir().unwrap();
    for version in [Version::V1, Version::V3] {
        let path = dir.path().join("whole.c1z");
        let graph = small(version, &path);
        let bytes = fs::read(&path).unwrap();
        let flipped_path = dir.path().join("flipped.c1z");
        let mut harmless = Vec::new();
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << (at % 8);
            fs::write(&flipped_path, &flipped).unwrap();
            if at < 5 {
                assert!(matches!(Version::detect(&flipped_path), Err(C1zError::NotC1z { .. })));
                continue;
            }
            match read(version, &flipped_path) {
                Err(_) => {}
                Ok(found) => {
                    assert_eq!(found, graph, "{version:?}: a flipped bit of byte {at} changed what is read");
                    harmless.push(at);
                }
            }
        }
        // A match that is copied from another place with the same bytes gives the same content, whose checksum is right.
        assert!(harmless.len() * 50 < bytes.len(), "{version:?}: {harmless:?}");
    }
}

#[test]
fn a_file_with_bytes_behind_its_end_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    for version in [Version::V1, Version::V3] {
        let path = dir.path().join("padded.c1z");
        small(version, &path);
        let whole = fs::read(&path).unwrap();
        for padding in [vec![0], vec![0; 4096], b"junk".to_vec(), whole.clone()] {
            fs::write(&path, [whole.as_slice(), &padding].concat()).unwrap();
            match (version, read(version, &path).unwrap_err()) {
                (Version::V1, C1zError::TrailingBytes { at, .. }) => assert_eq!(at, whole.len() as u64),
                (Version::V3, C1zError::Truncated { .. } | C1zError::Damaged { .. }) => {}
                (_, error) => panic!("{version:?}: {error}"),
            }
        }
    }
}

#[test]
fn a_file_is_known_by_its_content_and_not_by_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sync.dpack");
    small(Version::V3, &path);
    assert_eq!(Version::detect(&path).unwrap(), Version::V3);
    let error = C1z1::open(&path, &ReadOptions::default()).err().unwrap();
    assert!(error.to_string().contains("it is a version 3 file"), "{error}");
    fs::write(&path, b"SQLite format 3\0").unwrap();
    let error = Version::detect(&path).unwrap_err().to_string();
    assert!(error.contains("begins with \"SQLit\""), "{error}");
}

#[test]
fn a_bomb_is_refused_before_it_is_unpacked() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bomb.c1z");
    // Without a size in its head, so that only counting finds it out.
    let mut frame = Vec::new();
    let mut encoder = zstd::stream::write::Encoder::new(&mut frame, 1).unwrap();
    std::io::copy(&mut std::io::Read::take(std::io::repeat(0), 64 << 20), &mut encoder).unwrap();
    encoder.finish().unwrap();
    fs::write(&path, [b"C1ZF\0".as_slice(), &frame].concat()).unwrap();
    let options = ReadOptions { decompressed_bytes_max: Some(1 << 20), ..ReadOptions::default() };
    assert!(matches!(C1z1::open(&path, &options), Err(C1zError::TooLarge { limit: 0x10_0000, .. })));
    // With one, nothing is decompressed at all.
    let frame = zstd::bulk::compress(&vec![0; 64 << 20], 1).unwrap();
    fs::write(&path, [b"C1ZF\0".as_slice(), &frame].concat()).unwrap();
    assert!(matches!(C1z1::open(&path, &options), Err(C1zError::TooLarge { value: 0x400_0000, .. })));
    let path = dir.path().join("3.c1z");
    small(Version::V3, &path);
    let options = ReadOptions { decompressed_bytes_max: Some(100), ..ReadOptions::default() };
    assert!(matches!(C1z3::open(&path, &options), Err(C1zError::TooLarge { limit: 100, .. })));
    let error = C1z3::open(&fixture("sdk/files/tar_zstd.c1z"), &options).err().unwrap();
    assert!(matches!(error, C1zError::TooLarge { limit: 100, .. }), "{error}");
    assert!(error.to_string().contains("--max-decoded-bytes"), "{error}");
}

#[test]
fn lengths_that_cannot_be_are_refused_before_anything_is_made_of_them() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("3.c1z");
    small(Version::V3, &path);
    let whole = fs::read(&path).unwrap();
    let mut long = whole.clone();
    long[5..9].copy_from_slice(&u32::MAX.to_be_bytes());
    fs::write(&path, &long).unwrap();
    assert!(matches!(read_v3(&path), Err(C1zError::TooLarge { limit: 0x100_0000, .. })));
    let mut long = whole;
    let at = long.len() - 20;
    long[at..at + 4].copy_from_slice(&u32::MAX.to_be_bytes());
    fs::write(&path, &long).unwrap();
    assert!(matches!(read_v3(&path), Err(C1zError::TooLarge { limit: 0x400_0000, .. })));
}

#[test]
fn a_writer_that_is_dropped_leaves_the_old_file_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sync.c1z");
    let graph = small(Version::V3, &path);
    let mut writer = C1z3Writer::create(&path, &WriteOptions::default()).unwrap();
    Graph::random(9, 50).put(&mut writer).unwrap();
    drop(writer);
    drop(C1z1Writer::create(&path, &WriteOptions::default()).unwrap());
    assert_eq!(read_v3(&path).unwrap(), graph);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn a_second_writer_of_one_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sync.c1z");
    let first = C1z3Writer::create(&path, &WriteOptions::default()).unwrap();
    assert!(matches!(C1z3Writer::create(&path, &WriteOptions::default()), Err(C1zError::Locked { .. })));
    assert!(matches!(C1z1Writer::create(&path, &WriteOptions::default()), Err(C1zError::Locked { .. })));
    drop(first);
    C1z1Writer::create(&path, &WriteOptions::default()).unwrap();
}

#[test]
fn calls_out_of_order_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = C1z3Writer::create(&dir.path().join("3.c1z"), &WriteOptions::default()).unwrap();
    assert!(matches!(writer.put_asset(&Asset::default()), Err(C1zError::Order { .. })));
    assert!(matches!(writer.end_sync(), Err(C1zError::Order { .. })));
    writer.begin_sync(&Sync { id: SYNC.to_owned(), ..Sync::default() }).unwrap();
    assert!(matches!(writer.put_asset(&Asset::default()), Err(C1zError::Row { .. })), "an empty id");
    assert!(matches!(writer.finish(), Err(C1zError::Order { .. })));
    let mut writer = C1z1Writer::create(&dir.path().join("1.c1z"), &WriteOptions::default()).unwrap();
    assert!(matches!(writer.put_asset(&Asset::default()), Err(C1zError::Order { .. })));
    writer.begin_sync(&Sync { id: SYNC.to_owned(), ..Sync::default() }).unwrap();
    assert!(matches!(writer.finish(), Err(C1zError::Order { .. })));
}

/// Opening a pipe blocks until somebody writes to it, which may be never.
#[test]
fn a_pipe_is_refused_and_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pipe.c1z");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    let (done, finished) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let (from, to) = (path.clone(), path.with_extension("dpack"));
        let conversion =
            Conversion { from, to, format: Format::Pack, sync: None, read: ReadOptions::default() };
        let errors = [
            Version::detect(&path).map(|_| ()).unwrap_err().to_string(),
            C1z3::open(&path, &ReadOptions::default()).map(|_| ()).unwrap_err().to_string(),
            GraphPack::open(&path).map(|_| ()).unwrap_err().to_string(),
            conversion.run().map(|_| ()).unwrap_err().to_string(),
        ];
        done.send(errors).unwrap();
    });
    let errors = finished.recv_timeout(std::time::Duration::from_secs(20)).expect("a pipe is not waited for");
    for error in errors {
        assert!(error.contains("pipe") || error.contains("regular file"), "{error}");
    }
}
