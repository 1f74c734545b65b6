//! Opening and listing what is inside costs the same for any size, and reads no block.

use crate::support::{write_sample, Counting};
use duramen_pack::container::{Kind, Pack, PackWriter, SectionOptions};

fn opened(blocks: usize) -> (std::sync::Arc<Counting>, Pack, u64) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.dpack");
    let size = write_sample(&path, 2, blocks, 1).unwrap().bytes;
    let source = Counting::new(std::fs::read(path).unwrap());
    let pack = Pack::open_source(source.clone(), "a.dpack").unwrap();
    (source, pack, size)
}

/// P-5: header, footer, section table: three reads, and not a byte more for a larger file.
#[test]
fn opening_reads_the_same_few_bytes_of_any_file() {
    let (small, _pack, small_size) = opened(10);
    let (large, _pack, large_size) = opened(20_000);
    assert!(large_size > 1000 * small_size);
    let (reads, bytes) = large.counts();
    assert_eq!(reads, 3);
    // The table holds larger numbers, in a few bytes more.
    assert!(bytes <= small.counts().1 + 20, "{bytes} bytes against {}", small.counts().1);
    assert!(bytes < 400, "{bytes} bytes");
}

/// P-6: `info` answers from what opening has read.
#[test]
fn what_is_known_of_sections_is_known_without_reading_them() {
    let (source, pack, _) = opened(1000);
    let before = source.counts();
    let sections = pack.sections();
    assert_eq!((sections[0].records, sections[0].blocks, sections[0].raw_bytes), (2000, 1000, 80_000));
    assert!(sections[1].stored_bytes > sections[1].index_bytes);
    assert_eq!(pack.root_digest().len(), 32);
    assert_eq!(source.counts(), before);
    // The manifest is one read more, and the second time none.
    assert_eq!(*pack.manifest().unwrap(), *b"manifest 1");
    assert_eq!(source.counts(), (before.0 + 1, before.1 + 10));
    pack.manifest().unwrap();
    assert_eq!(source.counts().0, before.0 + 1);
}

/// P-7: one block costs one read of its stored bytes, once the index is there.
#[test]
fn reading_a_block_reads_that_block() {
    let (source, pack, _) = opened(1000);
    let section = pack.section("s0").unwrap().unwrap();
    let after_index = source.counts();
    pack.section("s0").unwrap().unwrap();
    assert_eq!(source.counts(), after_index, "the index is read once");
    let mut bytes = Vec::new();
    section.read(section.find(b"k00500x").unwrap(), &mut bytes).unwrap();
    let (reads, read_bytes) = source.counts();
    assert_eq!(reads, after_index.0 + 1);
    assert!(read_bytes - after_index.1 <= 80);
}

/// P-8: verifying holds one block, however many there are.
#[test]
fn verifying_reads_every_byte_once() {
    let (source, pack, size) = opened(1000);
    let opening = source.counts().1;
    let mut progress = Vec::new();
    pack.verify(&mut |done, all| progress.push((done, all))).unwrap();
    // Header, footer and table were read by opening.
    assert_eq!(source.counts().1, size);
    assert!(opening < 400);
    assert!(progress.windows(2).all(|pair| pair[0].0 <= pair[1].0));
    assert_eq!(progress.last(), Some(&(size, size)));
}

#[test]
fn memory_of_a_read_is_that_of_the_block() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.dpack");
    let mut writer = PackWriter::create(&path, Kind::Graph).unwrap();
    writer.begin_section("s", SectionOptions::default()).unwrap();
    for number in 0..64_u32 {
        writer.block(&number.to_be_bytes(), 1, &vec![number as u8; 1 << 20]).unwrap();
    }
    writer.finish(b"").unwrap();
    let section = Pack::open(&path).unwrap().section("s").unwrap().unwrap();
    let mut bytes = Vec::new();
    for block in 0..64 {
        section.read(block, &mut bytes).unwrap();
        assert_eq!(bytes.len(), 1 << 20);
    }
    assert!(bytes.capacity() <= 2 << 20, "{} bytes of room for blocks of 1 MiB", bytes.capacity());
}
