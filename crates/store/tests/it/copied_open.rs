//! The folder of a store that is copied file by file while it is written: what the copy opens with is a moment of the store.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use duramen_store::{Options, Scope, Store, StoreError};

/// Pairs of which each commit writes one, in turn, with the number of the commit.
const KEYS: i64 = 400;

fn options() -> Options {
    // Small, so that checkpoints and new segments are always under way.
    Options {
        checkpoint_log_bytes: 1 << 15,
        segment_bytes: 8192,
        memory_bytes: 1 << 18,
        ..Options::default()
    }
}

fn key(number: i64) -> String {
    format!("key {:04}", number % KEYS)
}

/// The number of the last commit that a copy has, of which it has all before and none after.
fn moment(dir: &Path) -> Result<i64, StoreError> {
    let store = Store::open(dir, options())?;
    let main = store.branch("main")?;
    let last = main.kv().get("last")?.map_or(0, |last| last.as_i64().unwrap());
    for number in (last - KEYS + 1).max(1)..=last {
        let found = main.kv().get(&key(number))?.map(|value| value.as_i64().unwrap());
        assert_eq!(found, Some(number), "of {last} commits");
    }
    store.close()?;
    Ok(last)
}

#[test]
fn a_copy_of_an_open_store_is_a_moment_of_it_or_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (from, ended, acknowledged) = (dir.path().join("open"), AtomicBool::new(false), AtomicI64::new(0));
    let store = Store::open(&from, options()).unwrap();
    let main = store.branch("main").unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 1.. {
                main.transact(|tx| {
                    tx.kv().put(&key(number), number)?;
                    tx.kv().put("last", number)
                })
                .unwrap();
                acknowledged.store(number, Ordering::SeqCst);
                if ended.load(Ordering::SeqCst) {
                    break;
                }
            }
        });
        let mut opened = 0;
        for round in 0..60 {
            let to = dir.path().join(format!("copy {round}"));
            let before = acknowledged.load(Ordering::SeqCst);
            let copied = Command::new("cp").arg("-r").arg(&from).arg(&to).output().unwrap();
            // A file that goes while it is copied is no error of the copy's reader.
            let _ = copied;
            match moment(&to) {
                Ok(last) => {
                    assert!(last >= before, "round {round}: {last} commits of {before}");
                    opened += 1;
                }
                Err(error) => println!("round {round}: {error}"),
            }
            std::fs::remove_dir_all(&to).unwrap();
        }
        assert!(opened >= 30, "{opened} of 60 copies opened");
        ended.store(true, Ordering::SeqCst);
    });
}
