//! Many writers of one key: every one of them comes to its end.

use duramen_store::{Options, Scope, Store, StoreError};
use std::{sync::Barrier, thread, time::Duration};

#[test]
fn writers_that_meet_all_commit() {
    const WRITERS: u64 = 8;
    const EACH: u64 = 20;
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    main.kv().put("sum", 0).unwrap();
    let together = Barrier::new(WRITERS as usize);
    thread::scope(|scope| {
        for _ in 0..WRITERS {
            scope.spawn(|| {
                together.wait();
                for _ in 0..EACH {
                    let added = main.transact(|tx| {
                        let sum = tx.kv().get("sum")?.and_then(|sum| sum.as_i64()).unwrap_or_default();
                        // Long enough for all the others to read the same.
                        thread::sleep(Duration::from_millis(1));
                        tx.kv().put("sum", sum + 1)
                    });
                    added.expect("it comes to its turn");
                }
            });
        }
    });
    assert_eq!(main.kv().get("sum").unwrap(), Some(((WRITERS * EACH) as i64).into()));
}

#[test]
fn a_store_that_is_open_here_is_not_said_to_be_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let _first = Store::open(folder.path(), Options::default()).unwrap();
    let Err(error) = Store::open(folder.path(), Options::default()) else { panic!("it is open twice") };
    assert!(matches!(error, StoreError::Locked { pid: Some(pid), .. } if pid == std::process::id()));
    let said = error.to_string();
    assert!(said.contains("open in this process already") && !said.contains("another process"), "{said}");
}

/// A writer has a store alone, and whoever may wait gets it in its turn. Who only reads waits for nobody, and nobody for him.
#[test]
fn a_store_that_another_writes_is_waited_for_and_read() {
    let folder = tempfile::tempdir().unwrap();
    let open = |read_only, wait_ms| {
        let lock_wait = Duration::from_millis(wait_ms);
        Store::open(folder.path(), Options { read_only, lock_wait, ..Options::default() })
    };
    let value = |store: &Store| store.branch("main").unwrap().kv().get("k").unwrap();
    let is_locked = |opened: Result<Store, StoreError>| matches!(opened, Err(StoreError::Locked { .. }));
    let writer = open(false, 0).unwrap();
    writer.branch("main").unwrap().kv().put("k", "v").unwrap();
    let begin = duramen_base::clock::now();
    assert!(is_locked(open(false, 60)));
    assert!(begin.elapsed() >= Duration::from_millis(60), "it waited");
    let reader = open(true, 0).unwrap();
    assert_eq!(value(&reader), Some("v".into()));
    thread::scope(|scope| {
        let waiting = scope.spawn(|| open(false, 60_000).unwrap());
        thread::sleep(Duration::from_millis(50));
        assert!(!waiting.is_finished());
        drop(writer);
        let writer = waiting.join().unwrap();
        writer.branch("main").unwrap().kv().put("k", "w").unwrap();
        assert_eq!(value(&open(true, 0).unwrap()), Some("w".into()));
        writer.compact().unwrap();
        writer.close().unwrap();
    });
    assert_eq!(value(&reader), Some("v".into()), "it is a moment");
    assert_eq!(value(&open(true, 0).unwrap()), Some("w".into()));
}
