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
