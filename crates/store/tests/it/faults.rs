//! Bad input and faults: each is an error of its own kind, and the store is as it was.

use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use duramen_base::clock;
use duramen_store::kv::Pair;
use duramen_store::limits::KEY_BYTES_MAX;
use duramen_store::log::LogError;
use duramen_store::{Branch, Durability, Options, Scope, Severity, Store, StoreError, Value};

use crate::crash_log::CrashLog;
use crate::crash_nodes::{CrashNodeStore, CrashScript};
use crate::faulty::{Fault, FaultyLog, FaultyNodes};

const CHILD_VARIABLE: &str = "DURAMEN_TEST_FAULTS_STORE";

fn options() -> Options {
    Options { segment_bytes: 4096, ..Options::default() }
}

fn strict() -> Options {
    Options { durability: Durability::Strict, ..options() }
}

/// Key by key, what a branch holds.
fn pairs(branch: &Branch) -> Vec<Pair> {
    branch.kv().range(.., usize::MAX).unwrap()
}

#[test]
fn bad_names_and_keys_and_values_are_refused() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    main.kv().put("good", 1).unwrap();
    let before = (pairs(&main), store.info().version);

    let invalid = |result: Result<u64, StoreError>| {
        let error = result.unwrap_err();
        assert!(matches!(error, StoreError::InvalidName { .. }), "{error}");
        assert_eq!(error.severity(), Severity::Request);
    };
    invalid(main.kv().put("", 1));
    invalid(main.state().set("", 1));
    invalid(main.state().set("\0", 1));
    for text in ["", "Upper", "1first", "dot.", "sp ace", "nul\0", "\u{e9}", &"x".repeat(65)] {
        assert!(matches!(main.space(text), Err(StoreError::InvalidName { what: "space", .. })), "{text:?}");
    }
    for text in ["", "-first", "/first", "sp ace", "nul\0", "\u{e9}", &"x".repeat(129)] {
        let refused = [store.create_branch(text), store.fork("main", text), main.fork(text)];
        for result in refused {
            assert!(matches!(result, Err(StoreError::InvalidName { what: "branch", .. })), "{text:?}");
        }
    }

    let key = "k".repeat(KEY_BYTES_MAX + 1);
    for result in
        [main.kv().put(&key, 1), main.state().set(&key, 1), main.kv().put_many([("a", 1), (&key, 2)])]
    {
        assert!(
            matches!(result, Err(StoreError::TooLarge { what: "key", len: 8193, max: 8192 })),
            "{result:?}"
        );
    }
    main.kv().put(&key[..KEY_BYTES_MAX], 1).unwrap();
    assert!(main.kv().delete(&key[..KEY_BYTES_MAX]).unwrap());

    let mut deep = Value::Null;
    for _ in 0..200 {
        deep = Value::Array(vec![deep]);
    }
    let values = [Value::Bytes(vec![0; (16 << 20) + 1]), Value::Array(vec![Value::Null; 1_000_001]), deep];
    for value in values {
        let kind = value.kind();
        let result = main.kv().put("large", value);
        assert!(matches!(result, Err(StoreError::Value(_))), "{kind}: {result:?}");
    }
    let many: Vec<_> = (0..3).map(|_| Value::Bytes(vec![0; 15 << 20])).collect();
    assert!(matches!(main.kv().put("large", Value::Array(many)), Err(StoreError::Value(_))));
    assert_eq!(pairs(&main), before.0);
    assert_eq!(store.info().version, before.1 + 2, "only the two that were allowed count");
}

#[test]
fn wrong_requests_for_branches_are_refused() {
    let store = Store::memory();
    store.fork("main", "feature").unwrap();
    store.create_branch("orphan").unwrap();

    let error = store.branch("featrue").unwrap_err();
    assert!(matches!(error, StoreError::BranchNotFound { .. }));
    assert_eq!(error.hint(), Some("feature"), "{error}");
    assert!(error.to_string().contains("did you mean"), "{error}");
    assert_eq!(store.delete_branch("featrue").unwrap_err().hint(), Some("feature"));
    assert_eq!(store.fork("featrue", "x").unwrap_err().hint(), Some("feature"));
    assert_eq!(store.branch("zzz").unwrap_err().hint(), None);

    for result in
        [store.create_branch("feature"), store.fork("main", "feature"), store.fork("nowhere", "main")]
    {
        assert!(matches!(result, Err(StoreError::BranchExists { .. })), "{result:?}");
    }
    for result in [store.delete_branch("main"), store.reset_branch("main")] {
        assert!(matches!(result, Err(StoreError::BranchProtected { .. })), "{result:?}");
    }
    store.protect_branch("feature", true).unwrap();
    for result in [store.delete_branch("feature"), store.reset_branch("feature")] {
        assert!(matches!(result, Err(StoreError::BranchProtected { .. })), "{result:?}");
    }
    store.protect_branch("feature", false).unwrap();
    assert!(matches!(store.reset_branch("orphan"), Err(StoreError::NoParent { .. })));

    // Handles on a branch that is gone say so, even when another has its name.
    let gone = store.branch("feature").unwrap();
    store.delete_branch("feature").unwrap();
    store.fork("main", "feature").unwrap();
    assert!(matches!(gone.kv().put("a", 1), Err(StoreError::BranchNotFound { .. })));
    assert!(matches!(gone.kv().get("a"), Err(StoreError::BranchNotFound { .. })));
    assert!(matches!(gone.fork("other"), Err(StoreError::BranchNotFound { .. })));
    assert!(matches!(gone.snapshot(), Err(StoreError::BranchNotFound { .. })));
    assert_eq!(store.info().branches, 3);
}

#[test]
fn snapshots_refuse_writes_and_transactions_that_fail_leave_nothing() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    main.kv().put("a", 1).unwrap();
    let snapshot = main.snapshot().unwrap();
    assert!(matches!(snapshot.kv().put("a", 2), Err(StoreError::ReadOnly)));
    let result: Result<(), _> = main.transact(|tx| {
        tx.kv().put("a", 2)?;
        tx.kv().put("", 3)
    });
    assert!(matches!(result, Err(StoreError::InvalidName { .. })));
    assert_eq!(main.kv().get("a").unwrap(), Some(1.into()));
    let mut attempts = 0;
    let result = main.transact(|tx| {
        attempts += 1;
        main.kv().put("a", attempts)?;
        tx.kv().put("a", 100)
    });
    assert!(matches!(result, Err(StoreError::RetriesExhausted { attempts: 100 })), "{result:?}");
    assert_eq!((attempts, main.kv().get("a").unwrap()), (100, Some(100.into())));
}

/// A store on doubles with a fault that can be switched.
struct Bench {
    nodes: Arc<CrashNodeStore>,
    log: CrashLog,
    fault: Fault,
}

impl Bench {
    fn new() -> Self {
        let script = CrashScript::new(1);
        let nodes = Arc::new(CrashNodeStore::new(script.clone()));
        Self { nodes, log: CrashLog::new(script), fault: Fault::default() }
    }

    fn open(&self, options: Options) -> Result<Store, StoreError> {
        let nodes = FaultyNodes { inner: self.nodes.clone(), fault: self.fault.clone() };
        let log = FaultyLog { inner: self.log.clone(), fault: self.fault.clone() };
        Store::open_parts(Arc::new(nodes), Arc::new(log), options)
    }
}

#[test]
fn a_full_disk_stops_writes_and_not_reads() {
    for level in Durability::ALL {
        let bench = Bench::new();
        let store = bench.open(Options { durability: level, ..options() }).unwrap();
        let main = store.branch("main").unwrap();
        main.kv().put_many((0..100).map(|n| (format!("key {n}"), n))).unwrap();
        store.fork("main", "side").unwrap();
        store.sync().unwrap();
        let before = pairs(&main);
        bench.fault.set_full(true);
        // At the weakest level nobody waits for the disk, until somebody asks.
        let first = main.kv().put("one more", 1).map(drop).and_then(|()| store.sync()).unwrap_err();
        assert_eq!(first.severity(), Severity::System, "{level}: {first}");
        let refused = [
            main.kv().put("another", 1).map(drop),
            store.fork("main", "third").map(drop),
            store.delete_branch("side"),
            store.checkpoint(),
            store.close(),
        ];
        for result in refused {
            let error = result.unwrap_err();
            assert!(matches!(error, StoreError::Poisoned { .. }), "{level}: {error}");
            assert!(error.to_string().contains("cannot"), "{level}: the first error is named: {error}");
        }
        // Reads go on, and see what was acknowledged.
        for (key, value) in &before {
            assert_eq!(main.kv().get(key).unwrap().as_ref(), Some(value));
        }
        assert!(store.branch("side").unwrap().kv().exists("key 7").unwrap());
        // Room again is not enough: what failed may be half there, and only opening finds out.
        bench.fault.set_full(false);
        assert!(matches!(main.kv().put("another", 1), Err(StoreError::Poisoned { .. })));
        drop((main, store));
        let store = bench.open(options()).unwrap();
        let main = store.branch("main").unwrap();
        let found: Vec<_> = pairs(&main).into_iter().filter(|(key, _)| key != "one more").collect();
        assert_eq!(found, before, "{level}");
        main.kv().put("another", 1).unwrap();
        store.close().unwrap();
    }
}

/// A killed process loses what the operating system does not have: that waits for no sync.
#[test]
fn what_is_in_memory_goes_to_the_operating_system_while_a_sync_is_stuck() {
    let bench = Bench::new();
    let store = bench.open(Options { durability: Durability::Memory, ..options() }).unwrap();
    let main = store.branch("main").unwrap();
    bench.fault.set_stuck(true);
    let handed_over = |name: &str| {
        let before = bench.fault.writes();
        main.kv().put(name, 1).unwrap();
        let begin = clock::now();
        while bench.fault.writes() == before {
            assert!(begin.elapsed() < Duration::from_secs(20), "{name} is in this process alone");
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    // The first brings the sync about that does not return.
    for name in ["first", "second", "third", "fourth"] {
        handed_over(name);
        std::thread::sleep(Options::default().sync_every * 2);
    }
    bench.fault.set_stuck(false);
    store.close().unwrap();
}

#[test]
fn a_disk_that_is_full_at_a_checkpoint_loses_nothing() {
    let bench = Bench::new();
    let store = bench.open(strict()).unwrap();
    let main = store.branch("main").unwrap();
    main.kv().put_many((0..50).map(|n| (format!("key {n}"), n))).unwrap();
    let before = pairs(&main);
    bench.fault.set_full(true);
    assert_eq!(store.checkpoint().unwrap_err().severity(), Severity::System);
    drop((main, store));
    assert!(bench.open(options()).is_err(), "opening needs room for the log");
    bench.fault.set_full(false);
    let store = bench.open(options()).unwrap();
    assert_eq!(pairs(&store.branch("main").unwrap()), before);
}

#[test]
fn a_disk_that_is_full_during_a_bulk_load_stops_the_store() {
    let bench = Bench::new();
    let store = bench.open(Options { memory_bytes: 1 << 16, ..strict() }).unwrap();
    let main = store.branch("main").unwrap();
    main.kv().put("before", 1).unwrap();
    let pairs = (0..3000).map(|n| {
        bench.fault.set_full(n > 10);
        (format!("load {n:05}"), "x".repeat(1000))
    });
    assert_eq!(main.bulk_load("default", pairs).unwrap_err().severity(), Severity::System);
    bench.fault.set_full(false);
    assert!(matches!(main.kv().put("after", 1), Err(StoreError::Poisoned { .. })));
    drop((main, store));
    let store = bench.open(options()).unwrap();
    assert_eq!(pairs_of(&store), ["before"]);
}

fn pairs_of(store: &Store) -> Vec<String> {
    pairs(&store.branch("main").unwrap()).into_iter().map(|(key, _)| key.to_string()).collect()
}

#[test]
fn a_damaged_node_spoils_only_what_is_in_it() {
    let bench = Bench::new();
    let store = bench.open(options()).unwrap();
    let main = store.branch("main").unwrap();
    for n in 0..40 {
        main.kv().put_many((0..50).map(|m| (format!("key {:05}", n * 50 + m), vec![n as u8; 100]))).unwrap();
    }
    store.fork("main", "side").unwrap().kv().put("other", 1).unwrap();
    store.close().unwrap();
    drop((main, store));
    let ids = bench.nodes.ids();
    assert!(ids.len() > 20, "{ids:?}");
    let (mut good, mut bad) = (0, 0);
    for id in ids {
        bench.fault.spoil(&[id]);
        let store = bench.open(options()).unwrap();
        for n in (0..2000).step_by(97) {
            let read = store.branch("main").and_then(|main| main.kv().get(format!("key {n:05}")));
            match read {
                Ok(value) => {
                    assert_eq!(value, Some(Value::Bytes(vec![(n / 50) as u8; 100])), "node {id}, key {n}");
                    good += 1;
                }
                Err(error) => {
                    assert!(matches!(error, StoreError::Tree(_)), "node {id}: {error}");
                    assert_eq!(error.severity(), Severity::System);
                    bad += 1;
                }
            }
        }
        // The store is not the worse for it: what it cannot read it does not write.
        drop(store);
        bench.fault.spoil(&[]);
    }
    assert!(good > bad && bad > 0, "{good} reads were good, {bad} were bad");
    let store = bench.open(options()).unwrap();
    assert_eq!(store.branch("main").unwrap().kv().count("key ").unwrap(), 2000);
    assert_eq!(store.branch("side").unwrap().kv().count("").unwrap(), 2001);
}

/// A store in a folder with a log of several segments that no checkpoint holds.
fn store_with_log(path: &Path) -> Vec<Pair> {
    let template = path.with_extension("template");
    let store = Store::open(&template, strict()).unwrap();
    let main = store.branch("main").unwrap();
    for n in 0..60 {
        main.kv().put(format!("key {n:02}"), Value::Bytes(vec![n; 200])).unwrap();
    }
    let found = pairs(&main);
    // Without its last checkpoint, as a process that is killed leaves it.
    copy(&template, path);
    found
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn segments(path: &Path) -> Vec<PathBuf> {
    let names = std::fs::read_dir(path.join("log")).unwrap().map(|entry| entry.unwrap().path());
    let is_segment = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with("log-");
    let mut names: Vec<_> = names.filter(is_segment).collect();
    names.sort_unstable();
    names
}

fn flip(file: &Path, at: u64) {
    let file = std::fs::File::options().read(true).write(true).open(file).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 1], at).unwrap();
}

#[test]
fn a_damaged_log_is_refused_and_left_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let before = store_with_log(&path);
    let files = segments(&path);
    assert!(files.len() > 2, "{files:?}");
    // In the middle: later records say that what is broken was durable.
    for at in [64 + 30, 64 + 300] {
        flip(&files[1], at);
        for read_only in [false, true] {
            let result = Store::open(&path, Options { read_only, ..options() });
            let Err(StoreError::Log(error)) = result else { panic!("{result:?}") };
            assert!(matches!(*error, LogError::Damaged { .. }), "{error}");
        }
        flip(&files[1], at);
    }
    // Mended, it is as it was: nothing was repaired away.
    let store = Store::open(&path, options()).unwrap();
    assert_eq!(pairs(&store.branch("main").unwrap()), before);
}

#[test]
fn a_torn_tail_is_cut() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let before = store_with_log(&path);
    let last = segments(&path).pop().unwrap();
    let bytes = std::fs::read(&last).unwrap();
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    std::fs::File::options()
        .write(true)
        .open(&last)
        .unwrap()
        .write_all_at(&[0; 20], end as u64 - 20)
        .unwrap();
    let store = Store::open(&path, options()).unwrap();
    let main = store.branch("main").unwrap();
    assert_eq!(pairs(&main), before[..before.len() - 1]);
    main.kv().put("again", 1).unwrap();
    store.close().unwrap();
    drop((main, store));
    let store = Store::open(&path, options()).unwrap();
    assert_eq!(store.branch("main").unwrap().kv().get("again").unwrap(), Some(1.into()));
}

#[test]
fn a_log_from_the_future_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    store_with_log(&path);
    let file = std::fs::File::options().write(true).open(segments(&path).pop().unwrap()).unwrap();
    file.write_all_at(&7_u32.to_le_bytes(), 8).unwrap();
    let result = Store::open(&path, options());
    let Err(StoreError::Log(error)) = result else { panic!("{result:?}") };
    assert!(matches!(*error, LogError::FromTheFuture { version: 7, .. }), "{error}");
    assert!(error.to_string().contains("later"), "{error}");
}

#[test]
fn a_manifest_from_the_future_or_with_damage_is_refused() {
    use duramen_tree::NodeStore as _;
    let bench = Bench::new();
    bench.open(options()).unwrap().close().unwrap();
    let good = bench.nodes.manifest().unwrap().unwrap();
    let mut later = good.clone();
    later[8..12].copy_from_slice(&9_u32.to_le_bytes());
    bench.nodes.commit(&later, &[]).unwrap();
    let result = bench.open(options());
    assert!(matches!(result, Err(StoreError::FromTheFuture { found: 9, .. })), "{result:?}");
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1;
        bench.nodes.commit(&bad, &[]).unwrap();
        let error = bench.open(options()).expect_err("the manifest is damaged");
        let is_right = matches!(error, StoreError::Damaged(_) | StoreError::FromTheFuture { .. });
        assert!(is_right, "byte {at}: {error}");
        bench.nodes.commit(&good[..at], &[]).unwrap();
        assert!(matches!(bench.open(options()), Err(StoreError::Damaged(_))), "cut to {at}");
    }
    bench.nodes.commit(&good, &[]).unwrap();
    bench.open(options()).unwrap();
}

/// The child's part in the test after: holds the store until its input ends. Nothing when it is run by itself.
#[test]
fn child() {
    let Some(path) = std::env::var_os(CHILD_VARIABLE) else { return };
    let store = Store::open(path, options()).unwrap();
    std::io::stderr().write_all(b"open\n").unwrap();
    std::io::stdin().read_line(&mut String::new()).unwrap();
    store.close().unwrap();
}

#[test]
fn a_second_process_is_told_who_has_the_store() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "faults::child", "--nocapture", "--test-threads", "1"])
        .env(CHILD_VARIABLE, dir.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stderr.as_mut().unwrap()), &mut line)
        .unwrap();
    assert_eq!(line, "open\n");
    let error = Store::open(dir.path(), options()).unwrap_err();
    let StoreError::Locked { pid, .. } = &error else { panic!("{error}") };
    assert_eq!(*pid, Some(child.id()), "{error}");
    assert_eq!(error.severity(), Severity::Retry);
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    // In one process it is the same.
    let store = Store::open(dir.path(), options()).unwrap();
    let error = Store::open(dir.path(), options()).unwrap_err();
    assert!(
        matches!(error, StoreError::Locked { pid: Some(pid), .. } if pid == std::process::id()),
        "{error}"
    );
    drop(store);
    Store::open(dir.path(), options()).unwrap();
}

/// A link, a pipe or a folder under the name of a segment or of the lock: nobody waits for it, reads it or writes through it.
#[test]
fn what_is_no_file_is_not_opened_as_the_log_or_the_lock() {
    let dir = tempfile::tempdir().unwrap();
    let elsewhere = dir.path().join("elsewhere");
    type Make<'m> = &'m dyn Fn(&Path);
    let kinds: [(&str, Make<'_>); 3] = [
        ("a link", &|at| std::os::unix::fs::symlink(&elsewhere, at).unwrap()),
        ("a pipe", &|at| assert!(Command::new("mkfifo").arg(at).status().unwrap().success())),
        ("a folder", &|at| std::fs::create_dir(at).unwrap()),
    ];
    for (kind, make) in kinds {
        for in_log in [true, false] {
            let path = dir.path().join(format!("{kind} {in_log}"));
            store_with_log(&path);
            let log = std::fs::read_dir(path.join("log")).unwrap().map(|entry| entry.unwrap().path());
            let segment = log.filter(|at| at.to_string_lossy().contains("log-")).max().unwrap();
            // What a link leads to is a whole segment.
            std::fs::copy(&segment, &elsewhere).unwrap();
            let before = std::fs::read(&elsewhere).unwrap();
            let at = if in_log { segment } else { path.join("lock") };
            std::fs::remove_file(&at).unwrap();
            make(&at);
            let begin = clock::now();
            let written = Store::open(&path, options()).map(drop);
            assert!(written.is_err(), "{kind}, log {in_log}");
            let read = Store::open(&path, Options { read_only: true, ..options() }).map(drop);
            // Who only reads needs no lock.
            assert_eq!(read.is_err(), in_log, "{kind}, log {in_log}: {read:?}");
            Store::repair(&path, Duration::ZERO).unwrap_err();
            assert!(begin.elapsed() < Duration::from_secs(10), "{kind}: it waited");
            assert_eq!(std::fs::read(&elsewhere).unwrap(), before, "{kind}: it was written through");
        }
    }
}

/// Names, lengths and bytes of the log, and the names of all else.
fn listing(path: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path.join("log")).unwrap() {
        let path = entry.unwrap().path();
        files.push((path.clone(), std::fs::read(path).unwrap()));
    }
    files.sort_unstable();
    files
}

#[test]
fn reading_only_writes_nothing_and_makes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let read_only = Options { read_only: true, ..options() };
    let nowhere = dir.path().join("nowhere");
    let result = Store::open(&nowhere, read_only.clone());
    assert!(matches!(result, Err(StoreError::StoreNotFound { .. })), "{result:?}");
    assert!(!nowhere.exists());
    let empty = dir.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    assert!(matches!(Store::open(&empty, read_only.clone()), Err(StoreError::StoreNotFound { .. })));
    assert_eq!(std::fs::read_dir(&empty).unwrap().count(), 0);

    let path = dir.path().join("store");
    let before = store_with_log(&path);
    let files = listing(&path);
    for _ in 0..2 {
        let store = Store::open(&path, read_only.clone()).unwrap();
        let main = store.branch("main").unwrap();
        assert_eq!(pairs(&main), before, "what is only in the log can be read, too");
        let refused = [
            main.kv().put("a", 1).map(drop),
            main.kv().delete("key 00").map(drop),
            main.transact(|tx| tx.kv().put("a", 1)),
            store.fork("main", "side").map(drop),
            store.delete_branch("side"),
            store.checkpoint(),
            store.compact(),
        ];
        for result in refused {
            assert!(
                matches!(result, Err(StoreError::ReadOnly | StoreError::BranchNotFound { .. })),
                "{result:?}"
            );
        }
        store.close().unwrap();
        drop((main, store));
        assert_eq!(listing(&path), files);
    }
}

#[test]
fn handles_outlive_a_close_and_a_drop() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), options()).unwrap();
    let main = store.branch("main").unwrap();
    main.kv().put("a", 1).unwrap();
    let snapshot = main.snapshot().unwrap();
    let transaction = main.begin().unwrap();
    transaction.kv().put("a", 2).unwrap();
    store.close().unwrap();
    assert_eq!(main.kv().get("a").unwrap(), Some(1.into()));
    assert_eq!(snapshot.kv().get("a").unwrap(), Some(1.into()));
    let closed =
        |error: StoreError| matches!(error, StoreError::Closed) && !error.to_string().contains("error");
    assert!(main.kv().put("a", 3).is_err_and(closed));
    assert!(transaction.commit().is_err_and(closed));
    // A store that was closed is not one that failed.
    store.close().unwrap();
    drop(store);
    assert_eq!(snapshot.kv().get("a").unwrap(), Some(1.into()));
    assert!(matches!(Store::open(dir.path(), options()), Err(StoreError::Locked { .. })), "handles hold it");
    drop((main, snapshot));
    let store = Store::open(dir.path(), options()).unwrap();
    let main = store.branch("main").unwrap();
    assert_eq!(main.kv().get("a").unwrap(), Some(1.into()));
    // Dropped with a handle alive: what the handle still reads is right, and nothing acknowledged is lost.
    main.kv().put("a", 4).unwrap();
    drop(store);
    assert_eq!(main.kv().get("a").unwrap(), Some(4.into()));
    drop(main);
    let store = Store::open(dir.path(), options()).unwrap();
    assert_eq!(store.branch("main").unwrap().kv().get("a").unwrap(), Some(4.into()));
}

/// A process that is just being started holds a copy of every open file until it runs its own program.
#[test]
fn a_store_can_be_opened_again_at_once_beside_processes_that_start() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let dir = tempfile::tempdir().unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                assert!(Command::new("/bin/true").status().unwrap().success());
            }
        });
        let mut refused = Vec::new();
        for number in 0..200 {
            match Store::open(dir.path(), options()) {
                Ok(store) => drop(store.branch("main").unwrap().kv().put("n", number).unwrap()),
                Err(error) => refused.push(error.to_string()),
            }
        }
        done.store(true, Ordering::Relaxed);
        assert!(refused.is_empty(), "{} of 200: {}", refused.len(), refused[0]);
    });
}

/// Everything in a folder, by its name.
fn everything(path: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(std::iter::once((path.clone(), Vec::new())).chain(everything(&path))),
            false => found.push((path.clone(), std::fs::read(path).unwrap())),
        }
    }
    found.sort_unstable();
    found
}

#[test]
fn a_folder_with_something_else_is_refused_and_not_touched() {
    let folders: [&[(&str, &str)]; 8] = [
        &[("lock", "of another program")],
        &[("lock", "1234\n")],
        &[("lock", ""), ("notes", "mine")],
        &[("notes", "mine")],
        &[("nodes.new/a", "mine")],
        &[("nodes.new/a", "mine"), ("lock", "1234")],
        &[("log/a", "mine")],
        &[("nodes/version", "1.2"), ("lock", "")],
    ];
    for files in folders {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let file = dir.path().join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        let before = everything(dir.path());
        for read_only in [true, false] {
            let error = Store::open(dir.path(), Options { read_only, ..options() }).unwrap_err();
            assert!(matches!(error, StoreError::Foreign { .. }), "{files:?}: {error}");
            assert!(error.to_string().contains("name an empty folder"), "{error}");
            assert_eq!(everything(dir.path()), before);
        }
        assert!(matches!(Store::is_in(dir.path()), Err(StoreError::Foreign { .. })));
    }
    // What was left when the making of a store was cut off is not an obstacle.
    for (lock, nodes) in [("", false), ("77 duramen store\n", true), ("\0\0\0\0", true)] {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("lock"), lock).unwrap();
        if nodes {
            std::fs::create_dir_all(dir.path().join("nodes.new/keyspaces")).unwrap();
        }
        Store::open(dir.path(), options()).unwrap().close().unwrap();
        assert!(Store::is_in(dir.path()).unwrap());
    }
}

#[test]
fn a_log_of_which_files_are_missing_is_refused_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let before = store_with_log(&path);
    let files = segments(&path);
    assert!(files.len() > 2, "{files:?}");
    let aside = dir.path().join("aside");
    let refused = |what: &str, files: &[PathBuf]| {
        let there = everything(&path.join("nodes"));
        for read_only in [false, true] {
            let error = Store::open(&path, Options { read_only, ..options() }).unwrap_err();
            let text = error.to_string();
            match files.is_empty() {
                true => assert!(text.contains("is missing") && text.contains(what), "{what}: {text}"),
                false => assert!(matches!(error, StoreError::Log(_)), "{what}: {text}"),
            }
        }
        assert_eq!(everything(&path.join("nodes")).len(), there.len());
        // What the checkpoint has can be read.
        let saved = Options { checkpoint_only: true, ..options() };
        let store = Store::open(&path, saved).unwrap();
        assert_eq!(pairs(&store.branch("main").unwrap()), []);
        assert!(matches!(store.branch("main").unwrap().kv().put("a", 1), Err(StoreError::ReadOnly)));
    };
    // The whole folder, then all that is in it, then single files: the first, one in the middle, the newest.
    std::fs::rename(path.join("log"), &aside).unwrap();
    refused("the folder", &[]);
    std::fs::create_dir(path.join("log")).unwrap();
    refused(files[0].file_name().unwrap().to_str().unwrap(), &[]);
    std::fs::remove_dir(path.join("log")).unwrap();
    std::fs::rename(&aside, path.join("log")).unwrap();
    for (index, file) in files.iter().enumerate() {
        std::fs::rename(file, &aside).unwrap();
        let name = file.file_name().unwrap().to_str().unwrap();
        let is_named = index == 0 || index + 1 == files.len();
        refused(name, if is_named { &[] } else { &files });
        std::fs::rename(&aside, file).unwrap();
    }
    let store = Store::open(&path, options()).unwrap();
    assert_eq!(pairs(&store.branch("main").unwrap()), before);
}

/// N6: a store whose nodes are gone is not taken for a new one, whether its log has commits or was closed.
#[test]
fn a_store_whose_nodes_are_missing_is_refused_and_says_so() {
    for is_closed in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store");
        let store = Store::open(&path, options()).unwrap();
        for n in 0..40 {
            store.branch("main").unwrap().kv().put(format!("{n}"), n).unwrap();
        }
        match is_closed {
            true => store.close().unwrap(),
            false => store.sync().unwrap(),
        }
        std::mem::forget(store);
        let nodes = path.join("nodes");
        let aside = dir.path().join("aside");
        std::fs::rename(&nodes, &aside).unwrap();
        let copy = dir.path().join("copy");
        let status = std::process::Command::new("cp").args(["-r"]).args([&path, &copy]).status().unwrap();
        assert!(status.success());
        for read_only in [true, false] {
            let error = Store::open(&copy, Options { read_only, ..options() }).unwrap_err();
            assert_eq!(error.severity(), Severity::System, "{is_closed}, {read_only}: {error}");
        }
        // The folder is there, and empty.
        let error = Store::open(&copy, options()).unwrap_err();
        assert_eq!(error.severity(), Severity::System, "{is_closed}: {error}");
    }
}
