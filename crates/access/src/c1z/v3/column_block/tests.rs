use std::path::Path;
use std::time::Duration;

use super::*;
use crate::c1z::v3::directory::Directory;
use crate::c1z::v3::envelope::Envelope;
use crate::c1z::v3::{edit, table, tar};
use crate::c1z::ReadOptions;

/// How many bytes the rows of a block have.
fn rows(block: &[u8]) -> Result<usize, Bad> {
    let (mut walk, mut found) = (ColumnRows::default(), 0);
    walk.begin(block)?;
    while walk.next(block)? {
        // A value that does not lie in its block would panic here.
        found += walk.key.len() + block[walk.value.clone()].len();
    }
    Ok(found)
}

/// Everything that reads blocks of columns.
fn read_all(block: &[u8]) -> bool {
    let read = [
        rows(block).is_ok(),
        each_handle(block, |_, _| Ok(())).is_ok(),
        each_name(block, |_, value| block.get(value).map(|_| ()).ok_or_else(|| Bad::new(0, ""))).is_ok(),
        each_span(block, |_, _, _| Ok(())).is_ok(),
    ];
    read.contains(&true)
}

/// Changes a few bytes, or cuts the end off.
fn damage(bytes: &mut Vec<u8>, random: &mut fastrand::Rng) {
    for _ in 0..random.usize(1..4) {
        if bytes.is_empty() {
            return;
        }
        // Half of the changes are where the columns are described.
        let head = if random.bool() { bytes.len().min(64) } else { bytes.len() };
        let at = random.usize(..head);
        match random.u8(..8) {
            0 => bytes.truncate(at),
            1 => bytes[at] = 0xff,
            2 => bytes[at] = 0,
            3 => bytes[at] = random.u8(..),
            4 => bytes.insert(at, random.u8(..)),
            _ => bytes[at] ^= 1 << random.u8(..8),
        }
    }
}

/// Blocks, tables, manifests and archives of the files that the SDK wrote, changed at random: each is read or refused.
#[test]
fn damaged_parts_of_files_are_read_or_refused() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/c1z/sdk/files");
    let seconds = std::env::var("DURAMEN_SOAK_SECONDS").ok().and_then(|it| it.parse().ok()).unwrap_or(5);
    let (mut blocks, mut tables, mut manifests) = (Vec::new(), Vec::new(), Vec::new());
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|it| it != "c1z") {
            continue;
        }
        let envelope = Envelope::open(&path, &ReadOptions::default()).unwrap();
        for entry in &envelope.entries {
            let bytes = envelope.read(entry, false).unwrap();
            if entry.name.ends_with(".sst") {
                blocks.extend(table::open(bytes.clone()).unwrap().all_blocks());
                tables.push(bytes);
            } else if entry.name.starts_with("MANIFEST") {
                manifests.push(bytes);
            }
        }
    }
    let archive = std::fs::read(folder.join("tar.c1z")).unwrap();
    // Behind the manifest, whose length stands behind the magic.
    let payload = 9 + archive[5..9].iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
    let dir = tempfile::tempdir().unwrap();
    let changed = dir.path().join("changed.c1z");
    assert!(blocks.iter().all(|block| read_all(block)) && blocks.len() > 100, "{} blocks", blocks.len());
    let mut random = fastrand::Rng::with_seed(11);
    let began = duramen_base::clock::now();
    let (mut rounds, mut refused) = (0u64, 0u64);
    while began.elapsed() < Duration::from_secs(seconds) {
        for _ in 0..50 {
            let mut block = random.choice(&blocks).unwrap().clone();
            damage(&mut block, &mut random);
            refused += u64::from(!read_all(&block));
        }
        let mut bytes = random.choice(&tables).unwrap().clone();
        damage(&mut bytes, &mut random);
        refused += u64::from(table::open(bytes).is_err());
        let mut bytes = random.choice(&manifests).unwrap().clone();
        damage(&mut bytes, &mut random);
        refused += u64::from(edit::read(&bytes).is_err());
        let mut bytes = archive.clone();
        let at = random.usize(payload..bytes.len());
        bytes[at] ^= 1 << random.u8(..8);
        std::fs::write(&changed, &bytes).unwrap();
        if let Ok(envelope) = Envelope::open(&changed, &ReadOptions::default()) {
            let envelope = std::sync::Arc::new(envelope);
            let directory = Directory { envelope: &envelope, check_sha256: false, keep_indexes: true };
            // Tables are read when their rows are asked for.
            let tree = directory.tree();
            let walked =
                tree.map(|tree| tree.each(&[], None, &mut |_, _| Ok(std::ops::ControlFlow::Continue(()))));
            refused += u64::from(!matches!(walked, Ok(Ok(()))));
        }
        let file = std::fs::File::open(&changed).unwrap();
        let start = random.u64(..bytes.len() as u64);
        let _ = tar::entries(&file, start, bytes.len() as u64, &changed);
        rounds += 1;
    }
    assert!(rounds > 20 && refused > rounds, "{refused} refused in {rounds} rounds");
}

/// A block of columns, each of a kind and with the bytes that `put` appends at their place.
struct Maker {
    out: Vec<u8>,
    list: usize,
}

impl Maker {
    fn new(header: &[u8], columns: u16, rows: u32) -> Maker {
        let mut out = header.to_vec();
        out.push(1);
        out.extend_from_slice(&columns.to_le_bytes());
        out.extend_from_slice(&rows.to_le_bytes());
        let list = out.len();
        out.resize(list + 5 * usize::from(columns), 0);
        Maker { out, list }
    }

    fn column(&mut self, kind: u8) {
        let at = (self.out.len() as u32).to_le_bytes();
        self.out[self.list] = kind;
        self.out[self.list + 1..self.list + 5].copy_from_slice(&at);
        self.list += 5;
    }

    fn bytes(&mut self, numbers: &[u8]) {
        self.out.push(1);
        self.out.extend_from_slice(numbers);
    }

    fn texts(&mut self, texts: &[&[u8]]) {
        self.column(3);
        let mut ends = vec![0];
        ends.extend(texts.iter().scan(0, |end, text| {
            *end += text.len() as u8;
            Some(*end)
        }));
        self.bytes(&ends);
        self.out.extend_from_slice(&texts.concat());
    }

    fn bits(&mut self, rows: &[bool]) {
        self.column(1);
        if rows.iter().all(|bit| !bit) {
            return self.out.push(1);
        }
        self.out.push(0);
        self.out.resize(self.out.len().next_multiple_of(8), 0);
        let word = rows.iter().rev().fold(0u64, |word, bit| word << 1 | u64::from(*bit));
        self.out.extend_from_slice(&word.to_le_bytes());
        self.out.extend_from_slice(&1u64.to_le_bytes());
    }
}

/// Fifteen keys of which several are the one before, with suffixes; and values of which one lies apart. No file of the
/// SDK has suffixes, or values that lie apart.
#[test]
fn keys_lean_on_their_bundle_and_repeat_and_have_suffixes() {
    let slices = [
        "aa", "abbbc", "", "c", "de", "e", "abbb", "dee", "", "", "eff", "ab", "be", "beef", "", "c",
        "bcceef", "", "", "",
    ];
    let mut maker = Maker::new(&[16, 0, 0, 0], 7, 15);
    maker.column(4);
    maker.out.push(2);
    let ends: Vec<u8> = slices
        .iter()
        .scan(0, |end, text| {
            *end += text.len() as u8;
            Some(*end)
        })
        .collect();
    maker.bytes(&ends);
    maker.out.extend_from_slice(slices.concat().as_bytes());
    let suffixes =
        [&b""[..], b"", b"", b"", b"@3", b"@2", b"@1", b"", b"", b"@2", b"@1", b"", b"", b"@", b"@@"];
    maker.texts(&suffixes);
    maker.column(2);
    maker.bytes(&(0..15).collect::<Vec<u8>>());
    maker.bits(&[true; 15]);
    let values = [&b"one"[..], b"", b"\x80handle"];
    maker.texts(&std::array::from_fn::<_, 15, _>(|row| values[row % 3]));
    maker.bits(&std::array::from_fn::<_, 15, _>(|row| row % 3 == 2));
    maker.bits(&[false; 15]);
    maker.out.push(0);
    let block = maker.out;
    let keys = [
        "aaabbbc",
        "aaabbbcc",
        "aaabbbcde",
        "aaabbbce",
        "aaabbbdee@3",
        "aaabbbdee@2",
        "aaabbbdee@1",
        "aaabbbeff",
        "aaabbe",
        "aaabbeef@2",
        "aaabbeef@1",
        "aaabc",
        "aabcceef",
        "aabcceef@",
        "aabcceef@@",
    ];
    let mut walk = ColumnRows::default();
    walk.begin(&block).unwrap();
    for (row, key) in keys.iter().enumerate() {
        assert!(walk.next(&block).unwrap());
        assert_eq!(String::from_utf8_lossy(&walk.key), *key);
        assert_eq!(walk.stem, key.find('@').unwrap_or(key.len()));
        assert_eq!((walk.trailer, walk.is_apart), (row as u64, row % 3 == 2));
        assert_eq!(&block[walk.value.clone()], values[row % 3]);
    }
    assert!(!walk.next(&block).unwrap());
    // Each byte of it, changed or cut off.
    for at in 0..block.len() {
        for change in [1, 0x80, 0xff] {
            let mut changed = block.clone();
            changed[at] ^= change;
            let _ = rows(&changed);
        }
        // The last byte is none of a column's.
        assert_eq!(rows(&block[..at]).is_ok(), at + 1 == block.len(), "{at}");
    }
}

#[test]
fn spans_are_the_deletions_between_each_bound_and_the_next() {
    let mut maker = Maker::new(&[4, 0, 0, 0], 5, 3);
    maker.texts(&[b"a", b"c", b"e", b"g"]);
    maker.column(2);
    maker.bytes(&[0, 2, 2, 3]);
    maker.column(2);
    maker.bytes(&[15, 14, 13]);
    maker.texts(&[b"", b"", b""]);
    maker.texts(&[b"", b"", b""]);
    maker.out.push(0);
    let mut found = Vec::new();
    each_span(&maker.out, |start, end, trailer| {
        found.push((start.to_vec(), end.to_vec(), trailer));
        Ok(())
    })
    .unwrap();
    let span = |start: &[u8], end: &[u8], trailer: u64| (start.to_vec(), end.to_vec(), trailer);
    assert_eq!(found, [span(b"a", b"c", 15), span(b"a", b"c", 14), span(b"e", b"g", 13)]);
}
