//! What was written is read back, and found by its key.

use crate::support;
use std::sync::Arc;

use duramen_pack::container::{
    compress, train_dictionary, Codec, Compressor, Kind, Pack, PackWriter, SectionOptions,
};
use duramen_pack::PackError;

#[test]
fn blocks_sections_and_the_manifest_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.dpack");
    let summary = support::write_sample(&path, 3, 50, 1).unwrap();
    assert_eq!(summary.bytes, std::fs::metadata(&path).unwrap().len());
    assert_eq!((summary.records, summary.raw_bytes), (300, 150 * 80));

    let pack = Pack::open(&path).unwrap();
    assert_eq!(pack.kind(), Kind::Graph);
    assert_eq!(pack.root_digest(), summary.root_digest);
    assert_eq!(*pack.manifest().unwrap(), *b"manifest 1");
    assert!(pack.section("nowhere").unwrap().is_none());
    let mut bytes = Vec::new();
    for number in 0..3 {
        let section = pack.section(&format!("s{number}")).unwrap().unwrap();
        assert_eq!(section.blocks(), 50);
        for at in (0..50).rev() {
            section.read(at, &mut bytes).unwrap();
            assert_eq!(bytes[1..], support::block(number, at)[1..], "section {number}, block {at}");
            assert_eq!((section.records(at), section.raw_len(at)), (2, 80));
        }
        assert!(matches!(section.read(50, &mut bytes), Err(PackError::InvalidInput { .. })));
    }
    let verified = pack.verify(&mut |_, _| {}).unwrap();
    assert_eq!((verified.sections, verified.blocks, verified.records), (3, 150, 300));
    assert_eq!(verified.bytes, summary.bytes);
}

#[test]
fn a_key_is_found_in_the_last_block_that_does_not_begin_after_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.dpack");
    support::write_sample(&path, 1, 3, 0).unwrap();
    let section = Pack::open(&path).unwrap().section("s0").unwrap().unwrap();
    let cases: [(&[u8], Option<usize>); 6] = [
        (b"", None),
        (b"k", None),
        (b"k00000", Some(0)),
        (b"k000001", Some(0)),
        (b"k00001", Some(1)),
        (b"zzz", Some(2)),
    ];
    for (key, expected) in cases {
        assert_eq!(section.find(key), expected, "{}", key.escape_ascii());
    }
    assert_eq!(section.first_key(2), b"k00002");
}

#[test]
fn the_same_input_makes_the_same_file() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (dir.path().join("a.dpack"), dir.path().join("b.dpack"));
    let first = support::write_sample(&a, 2, 20, 3).unwrap();
    assert_eq!(support::write_sample(&b, 2, 20, 3).unwrap(), first);
    assert_eq!(std::fs::read(a).unwrap(), std::fs::read(b).unwrap());
    let other = support::write_sample(&dir.path().join("c.dpack"), 2, 20, 4).unwrap();
    assert_ne!(other.root_digest, first.root_digest);
}

#[test]
fn a_pack_of_nothing_and_sections_of_nothing_are_packs() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.dpack");
    PackWriter::create(&path, Kind::Branch).unwrap().finish(b"").unwrap();
    let pack = Pack::open(&path).unwrap();
    assert!(pack.sections().is_empty());
    pack.verify(&mut |_, _| {}).unwrap();
    support::write_sample(&path, 2, 0, 0).unwrap();
    let pack = Pack::open(&path).unwrap();
    assert_eq!(pack.section("s0").unwrap().unwrap().find(b"x"), None);
    pack.verify(&mut |_, _| {}).unwrap();
}

#[test]
fn blocks_compressed_elsewhere_are_as_those_compressed_here() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (dir.path().join("a.dpack"), dir.path().join("b.dpack"));
    let raw = [b"all alike ".repeat(100), (0..=255).collect()];
    let options = SectionOptions::default();
    let mut here = PackWriter::create(&a, Kind::Graph).unwrap();
    let mut elsewhere = PackWriter::create(&b, Kind::Graph).unwrap();
    here.begin_section("s", options.clone()).unwrap();
    elsewhere.begin_section("s", options.clone()).unwrap();
    let (mut stored, mut compressor) = (Vec::new(), Compressor::new());
    let mut codecs = Vec::new();
    for (number, raw) in raw.iter().enumerate() {
        here.block(&[number as u8], 1, raw).unwrap();
        let codec = compress(&options, raw, &mut stored, &mut compressor);
        codecs.push(codec);
        elsewhere.compressed_block(&[number as u8], 1, &stored, raw.len() as u32, codec).unwrap();
    }
    assert_eq!(codecs, [Codec::Zstd, Codec::Raw]);
    assert_eq!(here.finish(b"").unwrap(), elsewhere.finish(b"").unwrap());
}

#[test]
fn a_dictionary_makes_small_blocks_smaller() {
    let dir = tempfile::tempdir().unwrap();
    let rows: Vec<Vec<u8>> = (0..2000)
        .map(|n| format!("{{\"kind\":\"member\",\"user\":\"user-{n:05}\",\"team\":{}}}", n % 7).into_bytes())
        .collect();
    let write = |name: &str, dictionary| {
        let mut writer = PackWriter::create(dir.path().join(name), Kind::Graph).unwrap();
        writer.begin_section("rows", SectionOptions { dictionary, ..Default::default() }).unwrap();
        for (number, row) in rows.iter().enumerate() {
            writer.block(&(number as u32).to_be_bytes(), 1, row).unwrap();
        }
        writer.finish(b"").unwrap().bytes
    };
    let dictionary: Arc<[u8]> = train_dictionary(&rows, 4096).unwrap();
    let (without, with) = (write("a", None), write("b", Some(dictionary)));
    assert!(with < without - without / 5, "{with} bytes with a dictionary, {without} without");
    let pack = Pack::open(dir.path().join("b")).unwrap();
    let section = pack.section("rows").unwrap().unwrap();
    let mut bytes = Vec::new();
    section.read(1234, &mut bytes).unwrap();
    assert_eq!(bytes, rows[1234]);
    pack.verify(&mut |_, _| {}).unwrap();
}

#[test]
fn what_cannot_be_written_is_refused_and_the_rest_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.dpack");
    let mut writer = PackWriter::create(&path, Kind::Graph).unwrap();
    let invalid = |error: PackError| assert!(matches!(error, PackError::InvalidInput { .. }), "{error}");
    let large = |error: PackError| assert!(matches!(error, PackError::TooLarge { .. }), "{error}");
    invalid(writer.block(b"a", 1, b"x").unwrap_err());
    invalid(writer.begin_section("", SectionOptions::default()).unwrap_err());
    invalid(writer.begin_section(&"n".repeat(65), SectionOptions::default()).unwrap_err());
    writer.begin_section("s", SectionOptions::default()).unwrap();
    writer.block(b"b", 1, b"x").unwrap();
    invalid(writer.block(b"b", 1, b"x").unwrap_err());
    invalid(writer.block(b"a", 1, b"x").unwrap_err());
    invalid(writer.compressed_block(b"c", 1, b"xy", 1, Codec::Zstd).unwrap_err());
    large(writer.block(b"c", 1, &vec![0; (16 << 20) + 1]).unwrap_err());
    large(writer.block(&vec![b'c'; (64 << 10) + 1], 1, b"x").unwrap_err());
    writer.block(b"c", 1, &vec![0; 16 << 20]).unwrap();
    invalid(writer.begin_section("s", SectionOptions::default()).unwrap_err());
    writer.finish(b"").unwrap();
    let pack = Pack::open(&path).unwrap();
    assert_eq!(pack.sections()[0].blocks, 2);
    pack.verify(&mut |_, _| {}).unwrap();
    let error = pack.expect_kind(Kind::Branch).unwrap_err();
    assert!(matches!(error, PackError::WrongKind { found: "graph", wanted: "branch", .. }), "{error}");
}

#[test]
fn many_threads_read_one_pack() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.dpack");
    support::write_sample(&path, 2, 200, 9).unwrap();
    let pack = Pack::open(&path).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let pack = &pack;
            scope.spawn(move || {
                let section = pack.section(&format!("s{}", thread % 2)).unwrap().unwrap();
                let mut bytes = Vec::new();
                for step in 0..200 {
                    let at = (step * 7 + thread * 13) % 200;
                    section.read(at, &mut bytes).unwrap();
                    assert_eq!(bytes[1..], support::block(thread % 2, at)[1..]);
                }
            });
        }
    });
}
