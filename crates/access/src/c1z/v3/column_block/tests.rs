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
            let _ = Directory { envelope: &envelope, check_sha256: false, skip_indexes: false }.tree();
        }
        let file = std::fs::File::open(&changed).unwrap();
        let start = random.u64(..bytes.len() as u64);
        let _ = tar::entries(&file, start, bytes.len() as u64, &changed);
        rounds += 1;
    }
    assert!(rounds > 20 && refused > rounds, "{refused} refused in {rounds} rounds");
}
