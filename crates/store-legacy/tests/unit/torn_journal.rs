//! Journals of the engine that a power cut tore, and journals that are damaged, are distinguished.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail loudly")]

use std::path::{Path, PathBuf};

use duramen_base::entropy;

use super::{content, cut, whole};

/// A folder of the engine with a journal of some batches, and where each of them ends.
fn journal(batches: usize) -> (tempfile::TempDir, PathBuf, Vec<usize>) {
    let dir = tempfile::tempdir().unwrap();
    {
        let db = fjall::Database::builder(dir.path()).open().unwrap();
        let keys = db.keyspace("keys", fjall::KeyspaceCreateOptions::default).unwrap();
        for batch in 0..batches {
            let mut writes = db.batch().durability(Some(fjall::PersistMode::SyncAll));
            for key in 0..3_u8 {
                writes.insert(&keys, [batch as u8, key], vec![key + 1; 3000 * batch]);
            }
            writes.remove(&keys, [batch as u8, 9]);
            writes.commit().unwrap();
        }
    }
    let path = dir.path().join("0.jnl");
    let bytes = content(&path).unwrap();
    let mut ends = vec![0];
    while let super::Walked::Whole { len, .. } = super::walk(&bytes[ends[ends.len() - 1]..]) {
        ends.push(ends[ends.len() - 1] + len);
    }
    (dir, path, ends)
}

fn is_damaged(path: &Path) -> bool {
    cut(path).unwrap().is_err()
}

fn put(path: &Path, bytes: &[u8]) {
    std::fs::write(path, bytes).unwrap();
}

fn opens_with(path: &Path, batches: usize) {
    let db = fjall::Database::builder(path).open().unwrap();
    let keys = db.keyspace("keys", fjall::KeyspaceCreateOptions::default).unwrap();
    assert_eq!(keys.iter().count(), 3 * batches);
}

/// The format is the engine's own: a batch of it that was not understood would be cut off as torn.
#[test]
fn every_batch_that_the_engine_writes_is_understood() {
    let (dir, path, ends) = journal(12);
    assert_eq!(ends.len(), 13);
    let bytes = content(&path).unwrap();
    assert!(bytes[ends[12]..].iter().all(|byte| *byte == 0));
    assert_eq!(whole(&bytes).0, ends[12]);
    assert_eq!(cut(dir.path()).unwrap().ok(), Some(0));
    opens_with(dir.path(), 12);
}

#[test]
fn a_last_batch_of_which_pages_are_missing_is_cut_off() {
    let (dir, path, ends) = journal(6);
    let bytes = content(&path).unwrap();
    let mut rng = entropy::rng(entropy::seed());
    let (begin, end) = (ends[5], ends[6]);
    for _ in 0..40 {
        let mut torn = bytes[..end].to_vec();
        let pages = begin / 4096..=(end - 1) / 4096;
        for page in pages.filter(|_| rng.bool()) {
            // Where the page held whole batches before, it was on the disk: only what came after is missing.
            let from = (page * 4096).max(begin);
            torn[from..((page + 1) * 4096).min(end)].fill(0);
        }
        put(&path, &torn);
        let lost = cut(dir.path()).unwrap().ok().unwrap();
        let is_whole = torn == bytes[..end];
        let left = std::fs::read(&path).unwrap();
        assert_eq!(whole(&left).0, if is_whole { end } else { begin });
        assert!(lost == 0 || left.len() == begin);
        if lost > 0 {
            opens_with(dir.path(), 5);
        }
    }
    for at in (begin..end).step_by(997) {
        put(&path, &bytes[..at]);
        cut(dir.path()).unwrap().ok().unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().len(), begin as u64, "cut at {at}");
    }
}

#[test]
fn a_broken_batch_before_a_whole_one_is_damage_and_stays() {
    let (dir, path, ends) = journal(5);
    let bytes = content(&path).unwrap();
    // The engine sums up items, but not the number of a batch.
    let is_number = |at: usize| ends.iter().any(|end| (end + 5..end + 13).contains(&at));
    for at in (0..ends[4]).step_by(97).filter(|at| !is_number(*at)) {
        let mut bad = bytes.clone();
        bad[at] ^= 0x55;
        put(&path, &bad);
        assert!(is_damaged(dir.path()), "byte {at}");
        assert_eq!(std::fs::read(&path).unwrap(), bad);
    }
    // Where all of it is in the last, it is cut off; the store sees what became of the rest.
    let mut bad = bytes[..ends[5]].to_vec();
    bad[ends[4] + 20] ^= 1;
    put(&path, &bad);
    assert!(!is_damaged(dir.path()));
}

#[test]
fn a_journal_with_later_ones_is_never_cut() {
    let (dir, path, ends) = journal(4);
    let mut bytes = content(&path).unwrap();
    put(&dir.path().join("1.jnl"), &[0; 100]);
    assert!(!is_damaged(dir.path()));
    bytes[ends[3] + 30] ^= 1;
    put(&path, &bytes);
    assert!(is_damaged(dir.path()));
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
}

/// A folder that cannot be looked into is not one without a torn batch.
#[test]
fn a_lock_that_cannot_be_opened_is_an_error() {
    let (dir, ..) = journal(1);
    let lock = dir.path().join("lock");
    std::fs::remove_file(&lock).unwrap();
    std::fs::create_dir(&lock).unwrap();
    assert!(cut(dir.path()).is_err());
}
