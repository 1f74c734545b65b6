//! Backups that are made while somebody writes.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use duramen_base::lock::FileLock;
use duramen_store::{Backup, Branch, Keep, Moment, Options, Scope, Store, StoreError};

fn options() -> Options {
    Options { segment_bytes: 1 << 16, checkpoint_log_bytes: 1 << 19, ..Options::default() }
}

fn backup(from: &Path, to: &Path, since: Option<&Path>) -> Backup {
    Store::backup(from, to, since, &mut |done, all| assert!(done <= all)).unwrap()
}

fn numbers(branch: &Branch) -> BTreeMap<String, i64> {
    let mut found = BTreeMap::new();
    let row = |key: &[u8], value: duramen_store::value::ValueRef<'_>| {
        let value = value.to_value().unwrap().as_i64().unwrap();
        found.insert(String::from_utf8(key.to_vec()).unwrap(), value);
        ControlFlow::Continue(())
    };
    branch.kv().scan(.., row).unwrap();
    found
}

#[test]
fn a_backup_beside_a_writer_is_a_moment_with_all_that_was_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let store = Store::open(&data, options()).unwrap();
    let main = store.branch("main").unwrap();
    store.keep_history("main", Some(Keep::each_commit().versions(50))).unwrap();
    main.kv().put("n", 0).unwrap();
    let (acknowledged, over) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 1..i64::MAX {
                // Both or none: `n`, and a key of its own among others that change.
                main.transact(|transaction| {
                    transaction.kv().put("n", number)?;
                    transaction.kv().put(format!("{:05}", number % 3000), number)
                })
                .unwrap();
                acknowledged.store(number.unsigned_abs(), Ordering::SeqCst);
                if over.load(Ordering::SeqCst) {
                    break;
                }
            }
        });
        let mut since = None;
        for round in 0..12 {
            std::thread::sleep(std::time::Duration::from_millis(100));
            let to = folder.path().join(format!("backup-{round}"));
            let before = acknowledged.load(Ordering::SeqCst);
            let made = backup(&data, &to, since.as_deref());
            let copy = Store::open(&to, options()).unwrap();
            let branch = copy.branch("main").unwrap();
            assert_eq!(copy.info().version, made.version);
            let found = numbers(&branch);
            let last = found["n"];
            assert!(last.unsigned_abs() >= before, "round {round}: {last} after {before}");
            // It is one moment: each key has the last number up to it that is its own.
            for (key, value) in found.iter().filter(|(key, _)| *key != "n") {
                let own: i64 = key.parse().unwrap();
                assert_eq!(*value, last - (last - own).rem_euclid(3000), "round {round}: {key} of {last}");
            }
            let states = branch.history().unwrap().states;
            let then = branch.at(&Moment::Version(states[0].version)).unwrap();
            assert!(then.kv().get("n").unwrap().unwrap().as_i64().unwrap() <= last);
            assert!(copy.verify(&mut |_| ()).unwrap().is_whole());
            // Whoever writes to a copy changes no other one.
            branch.kv().put("n", -1).unwrap();
            copy.compact().unwrap();
            copy.close().unwrap();
            since = Some(to);
        }
        over.store(true, Ordering::SeqCst);
    });
    for round in 0..12 {
        let copy = Store::open(folder.path().join(format!("backup-{round}")), options()).unwrap();
        assert!(copy.verify(&mut |_| ()).unwrap().is_whole(), "round {round}");
        assert_eq!(copy.branch("main").unwrap().kv().get("n").unwrap(), Some((-1).into()));
    }
}

#[test]
fn what_an_earlier_backup_has_is_linked() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    let store = Store::open(place("data"), options()).unwrap();
    let main = store.branch("main").unwrap();
    main.bulk_load("default", (0..200_000).map(|number| (format!("{number:08}"), "x".repeat(100)))).unwrap();
    let first = backup(&place("data"), &place("1"), None);
    assert_eq!((first.copied, first.linked), (first.bytes, 0));
    main.kv().put("changed", 1).unwrap();
    store.checkpoint().unwrap();
    let second = backup(&place("data"), &place("2"), Some(&place("1")));
    assert!(second.linked > second.bytes / 2, "{second:?}");
    assert_eq!(second.linked + second.copied, second.bytes);
    let links = |name: &str| -> usize {
        let files = std::fs::read_dir(place(name).join("nodes")).unwrap();
        files.filter(|file| file.as_ref().unwrap().metadata().unwrap().nlink() > 1).count()
    };
    assert!(links("2") > 0 && links("1") == links("2"));
    // Each stands for itself.
    std::fs::remove_dir_all(place("1")).unwrap();
    let copy = Store::open(place("2"), options()).unwrap();
    assert!(copy.verify(&mut |_| ()).unwrap().is_whole());
    assert_eq!(copy.branch("main").unwrap().kv().count("").unwrap(), 200_001);
}

#[test]
fn nothing_is_overwritten_and_nothing_stays_of_what_failed() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    let fails = |from: &Path, to: &Path, since: Option<&Path>| {
        Store::backup(from, to, since, &mut |_, _| ()).unwrap_err()
    };
    assert!(matches!(fails(&place("none"), &place("to"), None), StoreError::StoreNotFound { .. }));
    let store = Store::open(place("data"), options()).unwrap();
    store.branch("main").unwrap().kv().put("k", 1).unwrap();
    assert!(matches!(fails(&place("data"), &place("data"), None), StoreError::NotEmpty { .. }));
    std::fs::create_dir_all(place("other/deep")).unwrap();
    assert!(matches!(fails(&place("data"), &place("other"), None), StoreError::NotEmpty { .. }));
    assert!(matches!(
        fails(&place("data"), &place("to"), Some(&place("none"))),
        StoreError::StoreNotFound { .. }
    ));
    // Somebody's folder of that name.
    std::fs::create_dir_all(place("to.part/theirs")).unwrap();
    assert!(matches!(fails(&place("data"), &place("to"), None), StoreError::NotEmpty { .. }));
    assert!(place("to.part/theirs").is_dir());
    std::fs::remove_dir_all(place("to.part")).unwrap();
    // What a killed backup left is ours.
    std::fs::create_dir_all(place("to.part/nodes")).unwrap();
    std::fs::write(place("to.part/duramen-backup"), "").unwrap();
    assert!(matches!(Store::open(place("to.part"), options()), Err(StoreError::Foreign { .. })));
    // One that is being made is waited for by nobody, and not removed.
    let marker = std::fs::File::open(place("to.part/duramen-backup")).unwrap();
    let lock = FileLock::exclusive(marker).unwrap();
    assert!(matches!(fails(&place("data"), &place("to"), None), StoreError::Locked { .. }));
    assert!(place("to.part/nodes").is_dir());
    drop(lock);
    // Places to which nothing can be renamed are refused before anything is copied.
    std::os::unix::fs::symlink(place("other"), place("link")).unwrap();
    for bad in [place("link"), place("data/.."), "/".into()] {
        assert!(
            matches!(fails(&place("data"), &bad, None), StoreError::InvalidInput { .. }),
            "{}",
            bad.display()
        );
    }
    std::fs::write(place("to.part/nodes/segment-0000000000000001"), "cut off").unwrap();
    std::fs::create_dir(place("to")).unwrap();
    backup(&place("data"), &place("to"), None);
    assert!(!place("to.part").exists() && !place("to/duramen-backup").exists());
    assert_eq!(
        Store::open(place("to"), options()).unwrap().branch("main").unwrap().kv().get("k").unwrap(),
        Some(1.into())
    );
    // A store whose log is lost is not taken for one that is whole.
    store.close().unwrap();
    drop(store);
    std::fs::remove_dir_all(place("data/log")).unwrap();
    fails(&place("data"), &place("lost"), None);
    assert!(!place("lost").exists() && !place("lost.part").exists());
}
