//! A disk that refuses, a format from the future, a taker that refuses.

use std::sync::Arc;

use super::memory_directory::MemoryDirectory;
use super::round_trip_tests::{body, open, options, read};
use super::*;

fn assert_poisoned(log: &Log, first: &str) {
    let errors = [
        log.append(1, b"late").map(drop),
        log.wait(log.last(), Durability::Memory),
        log.wait(log.last(), Durability::Strict),
        log.sync(),
        log.rotate(),
        log.release(log.last()),
        log.close(),
    ];
    for (index, error) in errors.into_iter().enumerate() {
        match error {
            Err(LogError::Poisoned { first: text }) => assert!(text.contains(first), "L8: {index}: {text}"),
            other => panic!("L8: call {index} gives {other:?}"),
        }
    }
    assert!(matches!(log.poisoned(), Some(LogError::Poisoned { .. })));
}

#[test]
fn a_failing_write_poisons() {
    let dir = MemoryDirectory::default();
    let (log, _) = open(&dir, 0).unwrap();
    let version = log.append(1, &body(1)).unwrap();
    log.wait(version, Durability::Strict).unwrap();
    dir.fail_writes();
    let version = log.append(1, &body(2)).unwrap();
    let error = log.wait(version, Durability::Buffered).unwrap_err();
    assert!(matches!(error, LogError::Io { action: "write", .. }), "{error}");
    assert!(error.to_string().contains("this write fails"), "{error}");
    assert_poisoned(&log, "this write fails");
    log.poison(LogError::Poisoned { first: "another".to_owned() });
    assert_poisoned(&log, "this write fails");
    assert_eq!((log.written(), log.durable()), (1, 1));
    log.wait(1, Durability::Strict).expect("what is durable stays so");
}

#[test]
fn a_failing_sync_poisons_and_is_not_tried_again() {
    let dir = MemoryDirectory::default();
    let (log, _) = open(&dir, 0).unwrap();
    dir.fail_syncs(true);
    let version = log.append(1, &body(1)).unwrap();
    let error = log.wait(version, Durability::Strict).unwrap_err();
    assert!(matches!(error, LogError::Io { action: "sync", .. }), "{error}");
    let syncs = dir.syncs();
    // The disk would now say that all is well, although what was written may be gone.
    dir.fail_syncs(false);
    assert_poisoned(&log, "this sync fails");
    assert_eq!(log.durable(), 0);
    drop(log);
    assert_eq!(dir.syncs(), syncs, "L8: no sync after one that failed");
}

#[test]
fn a_failing_sync_reaches_all_who_wait() {
    let dir = MemoryDirectory::default();
    let (log, _) = open(&dir, 0).unwrap();
    dir.cut_after(100);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| loop {
                let done = log.append(1, b"one of many").and_then(|version| {
                    log.wait(version, Durability::Strict)?;
                    assert!(log.durable() >= version);
                    Ok(())
                });
                if done.is_err() {
                    break;
                }
            });
        }
    });
    assert!(log.poisoned().is_some(), "L8");
}

#[test]
fn the_store_can_poison_the_log() {
    let dir = MemoryDirectory::default();
    let (log, _) = open(&dir, 0).unwrap();
    log.append(1, &body(1)).unwrap();
    assert!(log.poisoned().is_none());
    log.poison(LogError::TooLarge { bytes: 2, max: 1 });
    assert_poisoned(&log, "2 bytes is too large");
}

#[test]
fn a_later_format_is_refused() {
    let dir = MemoryDirectory::default();
    let (log, _) = open(&dir, 0).unwrap();
    log.append(1, &body(1)).unwrap();
    drop(log);
    let name = dir.names("log-").remove(0);
    dir.with(&name, |bytes| bytes[8] = 2);
    let before = dir.calls();
    for error in [open(&dir, 0).map(drop).unwrap_err(), read(&dir, 0).map(drop).unwrap_err()] {
        assert!(
            matches!(error, LogError::FromTheFuture { segment: 1, version: 2, known: 1 }),
            "L10: {error}"
        );
        assert!(error.to_string().contains("from the future"), "{error}");
    }
    assert_eq!(dir.calls(), before, "L10: nothing was changed");
}

#[test]
fn a_taker_that_refuses_ends_the_replay() {
    let dir = MemoryDirectory::default();
    let (log, _) = open(&dir, 0).unwrap();
    for version in 1..=3 {
        log.append(1, &body(version)).unwrap();
    }
    drop(log);
    let error = Log::open(Arc::new(dir.clone()), options(), 0, &mut |first, _, _| match first {
        2 => Err(LogError::Replay { first, source: "no such branch".into() }),
        _ => Ok(()),
    })
    .map(drop)
    .unwrap_err();
    assert!(error.to_string().contains("version 2 cannot be replayed: no such branch"), "{error}");
    assert_eq!(read(&dir, 0).unwrap().0, 3);
}

#[test]
fn levels_have_names() {
    for level in Durability::ALL {
        assert_eq!(level.to_string().parse(), Ok(level));
        assert_eq!(serde_json::to_string(&level).unwrap(), format!("\"{level}\""));
    }
    assert!("careful"
        .parse::<Durability>()
        .unwrap_err()
        .to_string()
        .contains("use memory, buffered or strict"));
}
