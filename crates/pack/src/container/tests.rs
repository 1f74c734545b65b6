//! Files that no writer would write, with digests that are right: lengths and counts must be bounded all the same.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use crate::container::bytes::put_varint;
use crate::container::compress::Codec;
use crate::container::format::{
    digest, digest16, encode_table, Footer, Header, Kind, TableEntry, FOOTER_BYTES, HEADER_BYTES,
};
use crate::container::index::put_entry;
use crate::container::{Pack, RangeRead};
use crate::error::PackError;

/// Bytes in memory that note the largest read.
struct Watched {
    bytes: Vec<u8>,
    largest: AtomicU64,
}

impl RangeRead for Watched {
    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.largest.fetch_max(buffer.len() as u64, Ordering::Relaxed);
        let found = self.bytes.get(offset as usize..).and_then(|rest| rest.get(..buffer.len()));
        buffer.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// Opens and verifies; asserts that nothing longer than the file was ever asked for.
fn verify(bytes: Vec<u8>) -> Result<(), PackError> {
    let size = bytes.len() as u64;
    let source = Arc::new(Watched { bytes, largest: AtomicU64::new(0) });
    let verified = Pack::open_source(source.clone(), "forged").and_then(|pack| pack.verify(&mut |_, _| {}));
    assert!(source.largest.load(Ordering::Relaxed) <= size);
    verified.map(|_| ())
}

/// A file of parts that are given, closed with the right digests.
fn close(body: &[u8], manifest: &[u8], table: &[u8], kind: u32) -> Vec<u8> {
    let size = (HEADER_BYTES + body.len() + manifest.len() + table.len() + FOOTER_BYTES) as u64;
    let header = Header { kind: Kind::Graph, size };
    let manifest_at = (HEADER_BYTES + body.len()) as u64;
    let footer = Footer {
        manifest: (manifest_at, manifest.len() as u64),
        table: (manifest_at + manifest.len() as u64, table.len() as u64),
        manifest_digest: digest(manifest),
        table_digest: digest(table),
    };
    let mut head = header.encode();
    head[12..16].copy_from_slice(&kind.to_le_bytes());
    let check = digest(&head[..24]);
    head[24..].copy_from_slice(&check[..8]);
    [&head[..], body, manifest, table, &footer.encode(header)].concat()
}

fn entry(blocks: &[u8], index: &[u8]) -> TableEntry {
    TableEntry {
        name: "s".to_owned(),
        dictionary: None,
        blocks: 1,
        records: 1,
        raw_bytes: 5,
        block_bytes: blocks.len() as u64,
        index_bytes: index.len() as u64,
        index_digest: digest(index),
    }
}

/// A file of one section, as its table entry, its blocks and its index say.
fn with_section(blocks: &[u8], index: &[u8], change: impl FnOnce(&mut TableEntry)) -> Vec<u8> {
    let mut entry = entry(blocks, index);
    change(&mut entry);
    close(&[blocks, index].concat(), b"m", &encode_table(&[entry]), 2)
}

fn index(key: &[u8], records: u32, codec: u8, stored: u64, raw: u64, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, key.len() as u64);
    out.extend_from_slice(key);
    put_varint(&mut out, u64::from(records));
    out.push(codec);
    put_varint(&mut out, stored);
    put_varint(&mut out, raw);
    out.extend_from_slice(&digest16(content));
    out
}

#[track_caller]
fn refused(bytes: Vec<u8>, expected: &str) {
    match verify(bytes) {
        Err(PackError::Damaged { what, from, to, .. }) => {
            assert!(what.contains(expected), "{what}");
            assert!(from <= to);
        }
        other => panic!("{expected}: {other:?}"),
    }
}

#[test]
fn a_forged_file_that_is_right_is_read() {
    let index = index(b"a", 1, 0, 5, 5, b"birch");
    verify(with_section(b"birch", &index, |_| {})).unwrap();
    let mut same = Vec::new();
    put_entry(&mut same, b"a", 1, Codec::Raw, 5, 5, &digest16(b"birch"));
    assert_eq!(index, same);
}

#[test]
fn the_table_is_bounded_by_the_file() {
    let right = index(b"a", 1, 0, 5, 5, b"birch");
    let long = u64::MAX / 2;
    let beyond = "holds a section beyond the manifest";
    refused(with_section(b"birch", &right, |entry| entry.block_bytes = long), beyond);
    refused(with_section(b"birch", &right, |entry| entry.block_bytes = u64::MAX), beyond);
    refused(with_section(b"birch", &right, |entry| entry.index_bytes += 1), beyond);
    refused(with_section(b"birch", &right, |entry| entry.index_bytes = long), "an index that is too long");
    refused(with_section(b"birch", &right, |entry| entry.block_bytes -= 1), "leaves a gap");
    refused(with_section(b"birch", &right, |entry| entry.blocks = long), "too many blocks");
    refused(with_section(b"birch", &right, |entry| entry.blocks = 1 << 26), "too short for its blocks");
    refused(with_section(b"birch", &right, |entry| entry.dictionary = Some((1 << 20, [0; 16]))), beyond);
    let too_long = "a dictionary that is too long";
    refused(with_section(b"birch", &right, |entry| entry.dictionary = Some((u32::MAX, [0; 16]))), too_long);
    for change in
        [|entry: &mut TableEntry| entry.records += 1, |entry: &mut TableEntry| entry.raw_bytes = u64::MAX]
    {
        refused(with_section(b"birch", &right, change), "does not agree with the section table");
    }
    refused(with_section(b"birch", &right, |entry| entry.name = "n".repeat(65)), "a name that is too long");
    let twice = [entry(b"", b""), entry(b"", b"")];
    refused(close(b"", b"m", &encode_table(&twice), 2), "the same name twice");
    let mut many = Vec::new();
    put_varint(&mut many, 1 << 40);
    refused(close(b"", b"m", &many, 2), "too many sections");
    refused(close(b"", b"m", &[0xff; 11], 2), "a number that is too");
    refused(close(b"", b"m", b"", 2), "ends too early");
    refused(close(b"", b"m", &[0, 0], 2), "followed by something else");
}

#[test]
fn the_index_is_bounded_by_the_limits() {
    let cases: [(Vec<u8>, &str); 8] = [
        (index(b"a", 1, 0, 5, 1 << 25, b"birch"), "a block that is too long"),
        (index(b"a", 1, 0, u64::MAX, 5, b"birch"), "a block that is too long"),
        (index(b"a", 1, 7, 5, 5, b"birch"), "an unknown codec"),
        (index(b"a", 1, 0, 5, 6, b"birch"), "longer stored than it is"),
        (index(b"a", 1, 1, 5, 4, b"birch"), "longer stored than it is"),
        (index(b"a", 1, 0, 4, 4, b"birc"), "does not agree with the section table"),
        ([index(b"a", 1, 0, 5, 5, b"birch"), vec![0]].concat(), "followed by something else"),
        (index(b"a", 1, 0, 5, 5, b"birch")[..21].to_vec(), "ends too early"),
    ];
    for (index, expected) in cases {
        refused(with_section(b"birch", &index, |_| {}), expected);
    }
    let mut huge = Vec::new();
    put_varint(&mut huge, 1 << 50);
    huge.resize(40, 0);
    refused(with_section(b"birch", &huge, |_| {}), "a key that is too long");
    let disordered = [index(b"b", 1, 0, 5, 5, b"birch"), index(b"a", 0, 0, 0, 0, b"")].concat();
    refused(with_section(b"birch", &disordered, |entry| entry.blocks = 2), "keys that are not in order");
}

/// A frame that would grow beyond what its index says is stopped at that length.
#[test]
fn a_block_that_swells_is_refused() {
    let swelling = zstd::bulk::compress(&vec![0; 8 << 20], 3).unwrap();
    let len = swelling.len() as u64;
    for raw in [len, 1 << 20, (8 << 20) - 1, (8 << 20) + 1] {
        let index = index(b"a", 1, 1, len, raw, &swelling);
        refused(with_section(&swelling, &index, |entry| entry.raw_bytes = raw), "cannot be decompressed");
    }
    let index = index(b"a", 1, 1, len, 8 << 20, &swelling);
    verify(with_section(&swelling, &index, |entry| entry.raw_bytes = 8 << 20)).unwrap();
}

#[test]
fn what_a_later_version_writes_is_told_from_damage() {
    let error = verify(close(b"", b"m", &[0], 77)).unwrap_err();
    assert!(matches!(error, PackError::Newer { what: "the kind", found: 77, .. }), "{error}");
    let mut bytes = close(b"", b"m", &[0], 2);
    bytes[8] = 9;
    let check = digest(&bytes[..24]);
    bytes[24..32].copy_from_slice(&check[..8]);
    let error = verify(bytes).unwrap_err();
    assert!(matches!(error, PackError::Newer { what: "the format", found: 9, known: 1, .. }), "{error}");
}
