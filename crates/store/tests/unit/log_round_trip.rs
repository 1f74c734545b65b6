//! What is appended is read again; segments come and go; one sync serves many.

use std::sync::Arc;
use std::time::Duration;

use super::core::BUFFER_BYTES;
use super::memory_directory::MemoryDirectory;
use super::*;

/// Small, so that a test fills many.
pub(super) const SMALL: u64 = 4096;

pub(super) type Found = Vec<(u64, u32, Vec<u8>)>;

pub(super) fn options() -> LogOptions {
    // So rarely that no test meets it unless it asks for it.
    LogOptions { segment_bytes: SMALL, sync_every: Duration::from_secs(3600) }
}

pub(super) fn open(dir: &MemoryDirectory, after: u64) -> Result<(Log, Found), LogError> {
    let mut found = Vec::new();
    let log = Log::open(Arc::new(dir.clone()), options(), after, &mut |first, count, body| {
        found.push((first, count, body.to_vec()));
        Ok(())
    })?;
    Ok((log, found))
}

pub(super) fn read(dir: &MemoryDirectory, after: u64) -> Result<(u64, Found), LogError> {
    let mut found = Vec::new();
    let last = Log::read(dir, after, &mut |first, count, body| {
        found.push((first, count, body.to_vec()));
        Ok(())
    })?;
    Ok((last, found))
}

/// The body of the record of a version: its length and bytes tell the version.
pub(super) fn body(version: u64) -> Vec<u8> {
    (0..version % 97 + 8).map(|at| (version as u8).wrapping_mul(31).wrapping_add(at as u8)).collect()
}

/// Asserts that the records are those of [`body`] from `first` on, without a gap. L1.
pub(super) fn assert_bodies(found: &Found, first: u64) {
    for (index, (version, count, bytes)) in found.iter().enumerate() {
        assert_eq!((*version, *count), (first + index as u64, 1), "L1: no gap and no overlap");
        assert_eq!(*bytes, body(*version), "L1: version {version} keeps its body");
    }
}

#[test]
fn records_come_back_in_order_over_many_segments() {
    let dir = MemoryDirectory::default();
    let (log, found) = open(&dir, 0).unwrap();
    assert!(found.is_empty());
    let mut expected = Vec::new();
    for index in 0..500_u64 {
        let count = (index % 3 + 1) as u32;
        let first = log.append(count, &body(index)).unwrap();
        expected.push((first, count, body(index)));
        assert!(log.durable() <= log.written() && log.written() <= log.last(), "L1");
        if index % 50 == 0 {
            log.wait(log.last(), Durability::Buffered).unwrap();
            assert_eq!(log.written(), log.last());
        }
    }
    let last = log.last();
    log.sync().unwrap();
    assert_eq!((log.durable(), log.written()), (last, last));
    let counters = log.counters();
    assert_eq!(counters.appends, 500);
    let bytes: usize = expected.iter().map(|(_, _, body)| body.len() + RECORD_HEADER_BYTES).sum();
    assert_eq!(counters.bytes, bytes as u64);
    assert_eq!(log.bytes_since_release(), bytes as u64);
    drop(log);
    assert!(dir.names("log-").len() > 5);

    let calls = dir.calls();
    let (read_last, read_found) = read(&dir, 0).unwrap();
    assert_eq!(dir.calls(), calls, "L12: reading writes nothing");
    assert_eq!((read_last, &read_found), (last, &expected));
    let (log, found) = open(&dir, 0).unwrap();
    assert_eq!(found, expected);
    assert_eq!(log.append(1, b"next").unwrap(), last + 1);
    drop(log);
    let middle = expected[250].0 - 1;
    assert_eq!(read(&dir, middle).unwrap().1[..250], expected[250..]);
}

#[test]
fn a_record_may_be_larger_than_a_segment_but_not_than_the_limit() {
    let dir = MemoryDirectory::default();
    let (log, _) = open(&dir, 0).unwrap();
    log.append(1, b"small").unwrap();
    let large = vec![7; 10 * SMALL as usize];
    log.append(1, &large).unwrap();
    log.append(1, b"").unwrap();
    let error = log.append(1, &vec![0; BODY_BYTES_MAX + 1]).unwrap_err();
    assert!(matches!(error, LogError::TooLarge { .. }), "{error}");
    let error = log.append(0, b"none").unwrap_err();
    assert!(matches!(error, LogError::Versions { count: 0, last: 3 }), "{error}");
    assert!(log.poisoned().is_none());
    log.append(u32::MAX, b"many").unwrap();
    log.sync().unwrap();
    drop(log);
    let found = open(&dir, 0).unwrap().1;
    let sizes: Vec<_> = found.iter().map(|(first, count, body)| (*first, *count, body.len())).collect();
    assert_eq!(sizes, [(1, 1, 5), (2, 1, large.len()), (3, 1, 0), (4, u32::MAX, 4)]);
}

#[test]
fn a_log_of_a_checkpoint_begins_after_it() {
    let dir = MemoryDirectory::default();
    let (log, _) = open(&dir, 41).unwrap();
    assert_eq!((log.last(), log.durable()), (41, 41));
    assert_eq!(log.append(1, &body(42)).unwrap(), 42);
    drop(log);
    // The checkpoint may hold more than the log, where commits were not durable when it was made.
    let (log, found) = open(&dir, 100).unwrap();
    assert!(found.is_empty());
    assert_eq!(log.append(1, &body(101)).unwrap(), 101);
    drop(log);
    let (last, found) = read(&dir, 100).unwrap();
    assert_eq!((last, found.len()), (101, 1));
    let error = read(&dir, 50).unwrap_err();
    assert!(matches!(error, LogError::Damaged { .. }), "L5: 51 to 100 are nowhere: {error}");
    let (log, _) = open(&dir, 101).unwrap();
    log.rotate().unwrap();
    log.release(101).unwrap();
    assert_eq!(dir.names("log-").len(), 1);
}

#[test]
fn released_segments_are_recycled_and_never_replay_what_they_held() {
    let dir = MemoryDirectory::default();
    let (log, _) = open(&dir, 0).unwrap();
    let mut released = 0;
    for round in 0..20 {
        for _ in 0..200 {
            log.append(1, &body(log.last() + 1)).unwrap();
        }
        log.rotate().unwrap();
        assert_eq!(log.durable(), log.last(), "L7: a closed segment is durable");
        let version = log.last();
        for _ in 0..3 {
            log.append(1, &body(log.last() + 1)).unwrap();
        }
        assert!(log.bytes_since_release() > 200 * 32);
        log.release(version).unwrap();
        released = version;
        assert!(log.bytes_since_release() < 3 * 200, "L11: what is left is {}", log.bytes_since_release());
        log.wait(log.last(), Durability::Buffered).unwrap();
        assert_eq!(dir.names("log-").len(), 1, "L11");
        assert!(log.core.pool().len() <= 2, "L11");
        let (last, found) = read(&dir.after_kill(), version).unwrap();
        assert_eq!((last, found.len()), (version + 3, 3), "L6 in round {round}");
        assert_bodies(&found, version + 1);
    }
    assert!(dir.removed() > 0, "L11: more than two spare files are not kept");
    // A version too early frees nothing.
    log.rotate().unwrap();
    log.release(released).unwrap();
    assert_eq!(dir.names("log-").len(), 2, "L11");
    drop(log);
    let (log, found) = open(&dir, released).unwrap();
    assert_eq!(found.len(), 3);
    assert_bodies(&found, released + 1);
    assert!(log.core.pool().len() <= 2);
}

#[test]
fn each_level_does_what_it_promises_and_no_more() {
    let dir = MemoryDirectory::default();
    let (log, _) = open(&dir, 0).unwrap();
    let before = log.counters();
    let version = log.append(1, b"memory").unwrap();
    log.wait(version, Durability::Memory).unwrap();
    assert_eq!((log.written(), log.durable()), (0, 0));
    assert_eq!(log.counters().writes, before.writes);
    let version = log.append(1, b"buffered").unwrap();
    log.wait(version, Durability::Buffered).unwrap();
    assert_eq!((log.written(), log.durable()), (2, 0));
    assert_eq!((log.counters().writes, log.counters().syncs), (before.writes + 1, before.syncs));
    let version = log.append(1, b"strict").unwrap();
    log.wait(version, Durability::Strict).unwrap();
    assert_eq!((log.written(), log.durable()), (3, 3));
    assert_eq!((log.counters().writes, log.counters().syncs), (before.writes + 2, before.syncs + 1));
    log.sync().unwrap();
    log.wait(version, Durability::Strict).unwrap();
    assert_eq!(log.counters().syncs, before.syncs + 1, "what is durable needs no sync");
}

#[test]
fn a_commit_that_promises_nothing_hands_over_a_large_buffer() {
    let dir = MemoryDirectory::default();
    let options = LogOptions { segment_bytes: 16 << 20, ..options() };
    let log = Log::open(Arc::new(dir), options, 0, &mut |_, _, _| Ok(())).unwrap();
    let body = vec![1; 1000];
    while log.written() == 0 {
        let version = log.append(1, &body).unwrap();
        log.wait(version, Durability::Memory).unwrap();
        assert!(log.last() * 1000 < 2 * BUFFER_BYTES as u64);
    }
    assert!(log.last() * 1024 > BUFFER_BYTES as u64);
    assert_eq!(log.durable(), 0);
}

#[test]
fn what_nobody_waits_for_is_durable_after_the_window() {
    let dir = MemoryDirectory::default();
    let options = LogOptions { sync_every: Duration::from_millis(100), ..options() };
    let log = Log::open(Arc::new(dir.clone()), options, 0, &mut |_, _, _| Ok(())).unwrap();
    let syncs = dir.syncs();
    for durability in [Durability::Memory, Durability::Buffered] {
        let version = log.append(1, b"soon").unwrap();
        log.wait(version, durability).unwrap();
        let begin = duramen_base::clock::now();
        while log.durable() < version {
            // Far more than the window, because the machine may be busy.
            assert!(begin.elapsed() < Duration::from_secs(20), "L9: not durable after {:?}", begin.elapsed());
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(read(&dir.after_power_cut(&mut duramen_base::entropy::rng(1)), 0).unwrap().0 >= version);
    }
    assert_eq!(dir.syncs(), syncs + 2);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(dir.syncs(), syncs + 2, "an idle log syncs nothing");
}

#[test]
fn many_threads_share_syncs_of_a_real_file() {
    let folder = tempfile::tempdir().unwrap();
    let dir = Arc::new(FileDirectory::open(folder.path()).unwrap());
    let options = LogOptions { segment_bytes: 64 << 10, ..options() };
    let log = Log::open(dir.clone(), options, 0, &mut |_, _, _| Ok(())).unwrap();
    let before = log.counters();
    std::thread::scope(|scope| {
        for thread in 0..8_u64 {
            let log = &log;
            scope.spawn(move || {
                for index in 0..250_u64 {
                    let version =
                        log.append(1, &[thread.to_le_bytes(), index.to_le_bytes()].concat()).unwrap();
                    log.wait(version, Durability::Strict).unwrap();
                    assert!(log.durable() >= version, "L2");
                }
            });
        }
    });
    let counters = log.counters();
    assert_eq!(counters.appends - before.appends, 2000);
    assert!(counters.syncs - before.syncs < 1500, "{counters:?}");
    log.close().unwrap();
    drop(log);
    let mut next = [0; 8];
    let read_only = FileDirectory::open_read_only(folder.path()).unwrap();
    let last = Log::read(&read_only, 0, &mut |_, _, body| {
        let thread = u64::from_le_bytes(body[..8].try_into().unwrap()) as usize;
        assert_eq!(body[8..], u64::to_le_bytes(next[thread]), "L1: each thread's records are in its order");
        next[thread] += 1;
        Ok(())
    })
    .unwrap();
    assert_eq!((last, next), (2000, [250; 8]));
}

#[test]
fn a_closed_log_is_opened_without_a_search_and_goes_on() {
    let dir = MemoryDirectory::default();
    let mut version = 0;
    for _ in 0..30 {
        let (log, found) = open(&dir, 0).unwrap();
        assert_eq!(found.len() as u64, version);
        assert_bodies(&found, 1);
        for _ in 0..7 {
            version = log.append(1, &body(log.last() + 1)).unwrap();
        }
        log.close().unwrap();
        assert_eq!(log.durable(), version);
        let error = log.append(1, b"late").unwrap_err();
        assert!(matches!(error, LogError::Poisoned { .. }), "{error}");
    }
    assert_eq!(read(&dir.after_power_cut(&mut duramen_base::entropy::rng(2)), 0).unwrap().0, version, "L2");
}
