use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::*;
use crate::c1z::error::C1zError;
use crate::c1z::v3::directory::Directory;
use crate::c1z::v3::envelope::{self, Envelope};
use crate::c1z::v3::output::Output;
use crate::c1z::v3::C1z3;
use crate::c1z::{ReadOptions, WriteOptions};

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

fn rows_of(path: &Path) -> Rows {
    let envelope = Arc::new(Envelope::open(path, &ReadOptions::default()).unwrap());
    let tree = Directory { envelope: &envelope, check_sha256: false, keep_indexes: true }.tree().unwrap();
    let mut rows = Rows::new();
    let walked = tree.each(&[], None, &mut |key, value| {
        rows.insert(key.to_vec(), value.to_vec());
        Ok(ControlFlow::Continue(()))
    });
    assert!(walked.is_ok());
    rows
}

/// Writes rows as they are, under right checksums.
fn write(path: &Path, rows: &Rows) {
    let mut output = Output::create(path, &WriteOptions::default()).unwrap();
    output.begin(envelope::manifest_of(|_| {})).unwrap();
    rows.iter().try_for_each(|(key, value)| output.add(key, value)).unwrap();
    output.end_rows().unwrap();
    output.finish().unwrap();
}

fn open(path: &Path) -> Result<C1z3, C1zError> {
    C1z3::open(path, &ReadOptions { check_rows: true, ..ReadOptions::default() })
}

fn sdk_files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/c1z/sdk/files");
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|it| it == "c1z")).collect();
    paths.sort();
    paths
}

fn any<'a>(random: &mut fastrand::Rng, rows: &'a Rows, starts: &[&[u8]]) -> Option<&'a Vec<u8>> {
    let start = starts[random.usize(..starts.len())];
    let keys: Vec<&Vec<u8>> = rows.keys().filter(|key| key.starts_with(start)).collect();
    random.choice(keys)
}

/// Changes rows so that they disagree with an index or a digest, whichever way: what it did; none if there was no such row.
fn forge(rows: &mut Rows, random: &mut fastrand::Rng) -> Option<String> {
    let graph: [&[u8]; 4] = [&[3, 1], &[3, 2], &[3, 3], &[3, 4]];
    let indexes: [&[u8]; 3] = [&key::BY_PARENT, &key::BY_PRINCIPAL, &key::NEEDS_EXPANSION];
    match random.u8(..7) {
        0 => {
            let key = any(random, rows, &[&[3, 4]])?.clone();
            rows.remove(&key);
            Some(format!("a grant less: {}", key.escape_ascii()))
        }
        1 => {
            let key = any(random, rows, &indexes)?.clone();
            rows.remove(&key);
            Some(format!("an entry of an index less: {}", key.escape_ascii()))
        }
        2 => {
            let mut key = any(random, rows, &indexes)?.clone();
            key.push(b'x');
            let is_new = rows.insert(key.clone(), Vec::new()).is_none();
            is_new.then(|| format!("an entry of an index more: {}", key.escape_ascii()))
        }
        // A row under another key than its own, instead of its own or beside it.
        3 | 4 => {
            let old = any(random, rows, &graph)?.clone();
            let value = rows.get(&old)?.clone();
            let mut key = old.clone();
            key.push(b'x');
            if random.bool() {
                rows.remove(&old);
            }
            rows.insert(key, value).is_none().then(|| format!("another key: {}", old.escape_ascii()))
        }
        // Under a key, what belongs under another.
        5 => {
            let kind = graph[random.usize(..4)];
            let (from, to) = (any(random, rows, &[kind])?.clone(), any(random, rows, &[kind])?.clone());
            let value = rows.get(&from)?.clone();
            (from != to).then(|| rows.insert(to, value))?;
            Some(format!("the row of {}", from.escape_ascii()))
        }
        // A digest or a hash with another bit.
        _ => {
            let kinds: [&[u8]; 2] = [&key::DIGEST_OF_GRANTS, &key::HASHES];
            let key = any(random, rows, &kinds)?.clone();
            let value = rows.get_mut(&key)?;
            // Of a root, the first byte says only how many leaves there are.
            let at = random.usize(value.len().checked_sub(8)?..value.len());
            value[at] ^= 1 << random.u8(..8);
            Some(format!("a bit of {}", key.escape_ascii()))
        }
    }
}

/// Z-11: whatever is forged under right checksums, rows and indexes no longer say the same.
#[test]
fn a_forged_file_with_right_checksums_is_refused_when_it_is_read_whole() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("forged.c1z");
    let (mut forged, mut kinds) = (0, [0; 5]);
    for (number, file) in sdk_files().into_iter().enumerate() {
        let rows = rows_of(&file);
        let owes = |name: &str| {
            let mut mark = Vec::new();
            key::meta(&mut mark, name);
            rows.contains_key(&mark)
        };
        write(&path, &rows);
        if let Err(error) = open(&path) {
            panic!("{}: {error}", file.display());
        }
        if owes(key::OWES_INDEX) || owes(key::OWES_DIGESTS) {
            continue;
        }
        let mut random = fastrand::Rng::with_seed(number as u64);
        for _ in 0..20 {
            let mut changed = rows.clone();
            let Some(what) = forge(&mut changed, &mut random) else { continue };
            // A hash counts where there is a digest.
            let has_digests = rows.keys().any(|key| key.starts_with(&key::DIGEST_OF_GRANTS));
            if what.starts_with("a bit") && !has_digests {
                continue;
            }
            write(&path, &changed);
            assert!(open(&path).is_err(), "{}: {what} was taken", file.display());
            forged += 1;
            kinds[usize::from(what.as_bytes()[2]) % 5] += 1;
        }
    }
    assert!(forged > 300, "{forged} forged: {kinds:?}");
}
