//! A store that is copied file by file, or opened for reading by others, while it is written: what they have is a moment of
//! the store.

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

/// The number of the last commit that is there, with all before and none after.
fn moment(dir: &Path, read_only: bool) -> Result<i64, StoreError> {
    let store = Store::open(dir, Options { read_only, ..options() })?;
    let last = last_of(&store)?;
    store.close()?;
    Ok(last)
}

fn last_of(store: &Store) -> Result<i64, StoreError> {
    let main = store.branch("main")?;
    let last = main.kv().get("last")?.map_or(0, |last| last.as_i64().unwrap());
    for number in (last - KEYS + 1).max(1)..=last {
        let found = main.kv().get(key(number))?.map(|value| value.as_i64().unwrap());
        assert_eq!(found, Some(number), "of {last} commits");
    }
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
                    tx.kv().put(key(number), number)?;
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
            match moment(&to, false) {
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

/// Names the store to the child, and makes it a writer.
const WRITER_VARIABLE: &str = "DURAMEN_TEST_WRITTEN_BESIDE";
const LEVEL_VARIABLE: &str = "DURAMEN_TEST_WRITTEN_BESIDE_LEVEL";

/// The child's part: writes until its standard input ends. It does nothing when the test is run by itself.
#[test]
fn writer() {
    let Some(path) = std::env::var_os(WRITER_VARIABLE) else { return };
    let durability = std::env::var(LEVEL_VARIABLE).unwrap().parse().unwrap();
    let store = Store::open(&path, Options { durability, ..options() }).unwrap();
    let main = store.branch("main").unwrap();
    let ended = std::sync::Arc::new(AtomicBool::new(false));
    let is_over = ended.clone();
    std::thread::spawn(move || {
        std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).unwrap();
        is_over.store(true, Ordering::SeqCst);
    });
    let told = std::fs::File::create(path.to_string_lossy().into_owned() + ".told").unwrap();
    let begin = last_of(&store).unwrap() + 1;
    for number in begin.. {
        main.transact(|tx| {
            tx.kv().put(key(number), number)?;
            tx.kv().put("last", number)
        })
        .unwrap();
        std::os::unix::fs::FileExt::write_all_at(&told, &number.to_le_bytes(), 0).unwrap();
        if number % 5000 == 0 {
            store.compact().unwrap();
        }
        if ended.load(Ordering::SeqCst) {
            break;
        }
    }
}

/// Another process writes, makes checkpoints and compacts all the time, and is killed now and then. Each opening has every
/// commit that was acknowledged before it, and stays as it was.
#[test]
fn readers_beside_a_writer_see_moments_and_keep_them() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    drop(Store::open(&path, options()).unwrap());
    let told = || -> i64 {
        let bytes = std::fs::read(dir.path().join("store.told")).unwrap_or_default();
        bytes.first_chunk().map_or(0, |bytes| i64::from_le_bytes(*bytes))
    };
    let mut kept: Vec<(Store, i64)> = Vec::new();
    for round in 0..4 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "moments::writer", "--nocapture", "--test-threads", "1"])
            .env(WRITER_VARIABLE, &path)
            .env(LEVEL_VARIABLE, if round < 2 { "buffered" } else { "strict" })
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let mut openings = 0;
        let begin = duramen_base::clock::now();
        let first = told();
        while begin.elapsed() < std::time::Duration::from_secs(20)
            && (openings < 200 || told() < first + 3000)
        {
            let before = told();
            let reader = Store::open(&path, Options { read_only: true, ..options() }).unwrap();
            let last = last_of(&reader).unwrap();
            assert!(last >= before, "round {round}, opening {openings}: {last} commits of {before}");
            openings += 1;
            if openings % 50 == 0 {
                kept.push((reader, last));
            }
        }
        assert!(openings >= 200, "{openings} openings, {} commits", told());
        if round % 2 == 0 {
            child.kill().unwrap();
        } else {
            drop(child.stdin.take());
        }
        child.wait().unwrap();
    }
    for (reader, last) in kept {
        assert_eq!(last_of(&reader).unwrap(), last, "it is the moment that it was");
    }
    assert!(moment(&path, false).unwrap() >= told());
}
