//! Stores of whose log something is missing or broken: what a repair keeps is a moment of the store, and no version comes
//! again.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use duramen_base::entropy;
use duramen_store::{Durability, Options, Scope, Store, StoreError};

fn options() -> Options {
    Options { durability: Durability::Strict, segment_bytes: 4096, ..Options::default() }
}

/// Two hundred commits, of which a checkpoint holds the first `stored`; as a killed process leaves it.
fn killed(path: &Path, stored: i64) {
    let store = Store::open(path, options()).unwrap();
    let main = store.branch("main").unwrap();
    for number in 1..=200_i64 {
        main.transact(|tx| {
            tx.kv().put(format!("key {:02}", number % 40), number)?;
            tx.kv().put("last", number)
        })
        .unwrap();
        if number % 50 == 0 {
            store.fork("main", &format!("at-{number}")).unwrap();
        }
        if number == stored {
            store.checkpoint().unwrap();
        }
    }
    main.state().set("cell", 1).unwrap();
    drop(main);
    // Neither closed nor dropped: a process that is killed does neither.
    let copy = path.with_extension("copy");
    assert!(Command::new("cp").arg("-r").arg(path).arg(&copy).status().unwrap().success());
    drop(store);
    fs::remove_dir_all(path).unwrap();
    fs::rename(copy, path).unwrap();
}

/// The number of the last commit, of which all before are there and none after.
fn moment(store: &Store) -> i64 {
    let main = store.branch("main").unwrap();
    let last = main.kv().get("last").unwrap().map_or(0, |last| last.as_i64().unwrap());
    for number in (last - 39).max(1)..=last {
        let found = main.kv().get(format!("key {:02}", number % 40)).unwrap();
        assert_eq!(found.and_then(|value| value.as_i64()), Some(number), "of {last}");
    }
    for info in store.branches(true).unwrap().iter().filter(|info| info.name != "main") {
        let at: i64 = info.name.strip_prefix("at-").unwrap().parse().unwrap();
        assert!(at <= last);
        let found = store.branch(&info.name).unwrap().kv().get("last").unwrap();
        assert_eq!(found.and_then(|value| value.as_i64()), Some(at));
    }
    last
}

fn segments(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path.join("log")).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> =
        entries.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("log-")).collect();
    found.sort();
    found
}

fn flip(file: &Path, at: u64) {
    let file = fs::File::options().read(true).write(true).open(file).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 0x40], at).unwrap();
}

type Harm = fn(&Path);

const HARMS: [(&str, Harm); 7] = [
    ("the folder of the log", |path| fs::remove_dir_all(path.join("log")).unwrap()),
    ("all segments", |path| segments(path).iter().for_each(|segment| fs::remove_file(segment).unwrap())),
    ("the oldest segment", |path| fs::remove_file(&segments(path)[0]).unwrap()),
    ("a segment in the middle", |path| {
        let segments = segments(path);
        fs::remove_file(&segments[segments.len() / 2]).unwrap();
    }),
    ("a header", |path| {
        let segments = segments(path);
        flip(&segments[segments.len() / 2], 20);
    }),
    ("a record", |path| {
        let segments = segments(path);
        flip(&segments[segments.len() / 2], 700);
    }),
    ("a record of the oldest segment", |path| flip(&segments(path)[0], 100)),
];

#[test]
fn what_is_kept_is_a_moment_and_versions_do_not_come_again() {
    for (name, harm) in HARMS {
        for stored in [0, 120] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("store");
            killed(&path, stored);
            let version = {
                let whole = Store::open(&path, Options { read_only: true, ..options() }).unwrap();
                assert_eq!(moment(&whole), 200);
                whole.info().version
            };
            assert_eq!(Store::repair(&path, Duration::ZERO).unwrap(), None, "nothing is wrong");
            harm(&path);
            let error = Store::open(&path, options()).expect_err(name);
            assert!(matches!(error, StoreError::Log(_)), "{name}: {error}");
            assert!(error.to_string().contains("duramen store repair"), "{name}: {error}");
            let repaired = Store::repair(&path, Duration::ZERO)
                .unwrap_or_else(|error| panic!("{name}: {error}"))
                .expect(name);
            println!("{name}, {stored} stored: {repaired:?}");
            assert!(repaired.known.is_none_or(|known| known > repaired.kept && known <= version));
            assert_eq!(repaired.old_log.is_some(), name != "the folder of the log");
            assert!(repaired.old_log.is_none_or(|old| old.is_dir()));
            let store = Store::open(&path, options()).unwrap();
            let last = moment(&store);
            assert!((stored..200).contains(&last), "{name}: {last}");
            if ["a segment in the middle", "a header", "a record"].contains(&name) {
                assert!(last > stored, "{name}: what is before it is kept");
            }
            let main = store.branch("main").unwrap();
            assert!(main.kv().put("last", last).unwrap() > version, "{name}: a version comes again");
            store.close().unwrap();
            drop((main, store));
            assert_eq!(Store::repair(&path, Duration::ZERO).unwrap(), None, "{name}: once is enough");
            assert_eq!(moment(&Store::open(&path, options()).unwrap()), last);
        }
    }
}

#[test]
fn what_cannot_be_repaired_is_refused_and_left() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    assert!(matches!(Store::repair(&path, Duration::ZERO), Err(StoreError::StoreNotFound { .. })));
    fs::create_dir(&path).unwrap();
    fs::write(path.join("letter"), "mine").unwrap();
    assert!(matches!(Store::repair(&path, Duration::ZERO), Err(StoreError::Foreign { .. })));
    fs::remove_dir_all(&path).unwrap();
    let store = Store::open(&path, options()).unwrap();
    assert!(matches!(Store::repair(&path, Duration::ZERO), Err(StoreError::Locked { .. })));
    drop(store);
    fs::remove_dir_all(path.join("nodes")).unwrap();
    assert!(matches!(Store::repair(&path, Duration::ZERO), Err(StoreError::Damaged(_))));
}

/// What a checkpoint holds is not asked of the log: segments before the one that it needs may be broken, or gone.
#[test]
fn what_the_checkpoint_holds_is_not_missed() {
    for (name, harm) in [
        ("none", (|_| {}) as fn(&Path)),
        ("one is missing", |path| fs::remove_file(&segments(path)[1]).unwrap()),
        ("a header", |path| flip(&segments(path)[1], 20)),
        ("a record", |path| flip(&segments(path)[0], 100)),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let (path, early) = (dir.path().join("store"), dir.path().join("early"));
        // All segments as they were before the checkpoint, which releases some.
        killed(&early, 0);
        assert!(Command::new("cp").arg("-r").arg(&early).arg(&path).status().unwrap().success());
        let store = Store::open(&path, options()).unwrap();
        store.checkpoint().unwrap();
        store.branch("main").unwrap().kv().put("later", 1).unwrap();
        let copy = dir.path().join("copy");
        assert!(Command::new("cp").arg("-r").arg(&path).arg(&copy).status().unwrap().success());
        drop(store);
        let mut put_back = 0;
        for segment in segments(&early) {
            let to = copy.join("log").join(segment.file_name().unwrap());
            if !to.exists() {
                fs::copy(&segment, &to).unwrap();
                put_back += 1;
            }
        }
        assert!(put_back >= 2, "{put_back}");
        harm(&copy);
        for read_only in [true, false] {
            let store = Store::open(&copy, Options { read_only, ..options() }).expect(name);
            assert_eq!(moment(&store), 200, "{name}");
            assert!(store.branch("main").unwrap().kv().exists("later").unwrap(), "{name}");
            if read_only {
                assert_eq!(Store::repair(&copy, Duration::ZERO).unwrap(), None, "{name}");
                continue;
            }
            // They go with the next checkpoint.
            store.branch("main").unwrap().kv().put("last", 200).unwrap();
            store.checkpoint().unwrap();
            assert!(!segments(&copy)
                .iter()
                .any(|at| early.join("log").join(at.file_name().unwrap()).exists()));
            store.close().unwrap();
        }
        assert_eq!(moment(&Store::open(&copy, options()).unwrap()), 200, "{name}");
    }
}

/// Between the checkpoint of a repair and the new name of its log, the store is refused as before.
#[test]
fn a_repair_is_not_half_done() {
    for (name, harm) in HARMS {
        let dir = tempfile::tempdir().unwrap();
        let (path, between) = (dir.path().join("store"), dir.path().join("between"));
        killed(&path, 0);
        harm(&path);
        assert!(Command::new("cp").arg("-r").arg(&path).arg(&between).status().unwrap().success());
        Store::repair(&path, Duration::ZERO).unwrap().expect(name);
        let right = moment(&Store::open(&path, options()).unwrap());
        fs::remove_dir_all(between.join("nodes")).unwrap();
        let nodes = Command::new("cp").arg("-r").arg(path.join("nodes")).arg(&between).status().unwrap();
        assert!(nodes.success());
        let error = Store::open(&between, options()).expect_err(name);
        assert!(matches!(error, StoreError::Log(_)), "{name}: {error}");
        let again = Store::repair(&between, Duration::ZERO).unwrap().expect(name);
        assert_eq!(again.old_log.is_some(), name != "the folder of the log");
        assert_eq!(moment(&Store::open(&between, options()).unwrap()), right, "{name}");
    }
}

/// Names the store to the child, and makes it one.
const CHILD_VARIABLE: &str = "DURAMEN_TEST_REPAIRED_STORE";

/// The child's part: one repair. It does nothing when the test is run by itself.
#[test]
fn child() {
    let Some(path) = std::env::var_os(CHILD_VARIABLE) else { return };
    Store::repair(path, Duration::ZERO).unwrap();
}

#[test]
fn a_repair_that_is_cut_off_loses_nothing_more() {
    let seed = entropy::seed();
    println!("DURAMEN_SEED={seed}");
    let mut rng = entropy::rng(seed);
    let dir = tempfile::tempdir().unwrap();
    let broken = dir.path().join("broken");
    killed(&broken, 60);
    HARMS[5].1(&broken);
    let copy = |to: &Path| {
        assert!(Command::new("cp").arg("-r").arg(&broken).arg(to).status().unwrap().success());
    };
    let right = {
        let path = dir.path().join("right");
        copy(&path);
        Store::repair(&path, Duration::ZERO).unwrap().unwrap();
        moment(&Store::open(&path, options()).unwrap())
    };
    for round in 0..60 {
        let path = dir.path().join(format!("store {round}"));
        copy(&path);
        for _ in 0..3 {
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "repair::child", "--nocapture", "--test-threads", "1"])
                .env(CHILD_VARIABLE, &path)
                .stdout(Stdio::null())
                .spawn()
                .unwrap();
            std::thread::sleep(std::time::Duration::from_micros(rng.u64(0..20_000)));
            child.kill().unwrap();
            child.wait().unwrap();
        }
        Store::repair(&path, Duration::ZERO).unwrap();
        assert_eq!(moment(&Store::open(&path, options()).unwrap()), right, "round {round}");
        fs::remove_dir_all(&path).unwrap();
    }
}
