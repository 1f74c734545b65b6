//! One writer: whoever opens last has the store, and nothing that the one before acknowledges is missing.

use std::io::{BufRead, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use duramen_store_s3::{open, open_on, RemoteError, RemoteOptions};
use real::{Durability, Options, Scope as _, Store, StoreError};

use crate::client::client;
use crate::places::fresh;
use crate::server::Server;

const URL_VARIABLE: &str = "DURAMEN_TEST_FENCED";

fn options() -> Options {
    Options { durability: Durability::Strict, checkpoint_log_bytes: 1 << 14, ..Options::default() }
}

fn put(store: &Store, number: i64) -> Result<u64, StoreError> {
    store.branch("main")?.kv().put(format!("{number:08}"), number)
}

/// All that is there is 1 to a number, which is returned.
fn last(store: &Store) -> i64 {
    try_last(store).unwrap()
}

fn try_last(store: &Store) -> Result<i64, StoreError> {
    let found = store.branch("main")?.kv().range(.., usize::MAX)?;
    let numbers: Vec<i64> = found.iter().map(|(_, value)| value.as_i64().unwrap()).collect();
    assert!(numbers.iter().copied().eq(1..=numbers.len() as i64), "{numbers:?}");
    Ok(numbers.len() as i64)
}

#[test]
fn whoever_was_taken_over_is_refused_and_says_so() {
    let url = fresh("fenced");
    let old = open(&url, options(), RemoteOptions::default()).unwrap();
    put(&old, 1).unwrap();
    let new = open(&url, options(), RemoteOptions::default()).unwrap();
    assert_eq!(last(&new), 1);
    let error = put(&old, 2).unwrap_err();
    assert!(matches!(error, StoreError::Fenced { .. }), "{error}");
    // From then on, whatever it tries, at whatever level.
    for level in Durability::ALL {
        let main = old.branch("main").unwrap().with_durability(level);
        let error = main.kv().put("x", 1).unwrap_err();
        assert!(matches!(error, StoreError::Fenced { .. }), "{level}: {error}");
    }
    let error = old.checkpoint().unwrap_err();
    assert!(matches!(error, StoreError::Fenced { .. }), "{error}");
    assert!(error.to_string().contains(&format!("process {}", std::process::id())), "{error}");
    put(&new, 2).unwrap();
    drop(old);
    put(&new, 3).unwrap();
    new.checkpoint().unwrap();
    drop(new);
    assert_eq!(last(&open(&url, options(), RemoteOptions::default()).unwrap()), 3);
}

#[test]
fn reads_of_whoever_was_taken_over_are_right_or_refused() {
    let url = fresh("fenced-reads");
    let store = open(&url, options(), RemoteOptions::default()).unwrap();
    let pairs: Vec<_> =
        (1..=2000_i64).map(|number| (format!("{number:08}"), real::Value::from(number))).collect();
    store.branch("main").unwrap().kv().put_many(pairs).unwrap();
    store.close().unwrap();
    drop(store);
    // No node stays in memory, and it looks often who writes.
    let cold = Options { memory_bytes: 1, ..options() };
    let remote = RemoteOptions { look_every: Duration::from_millis(100), ..RemoteOptions::default() };
    let old = open(&url, cold, remote).unwrap();
    assert_eq!(last(&old), 2000);
    let new = open(&url, options(), RemoteOptions::default()).unwrap();
    let begin = duramen_base::clock::now();
    let error = loop {
        match try_last(&old) {
            Ok(found) => assert_eq!(found, 2000),
            Err(error) => break error,
        }
        assert!(begin.elapsed() < Duration::from_secs(30), "it reads on and on");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(matches!(error, StoreError::Fenced { .. }), "{error}");
    assert!(error.to_string().contains("another writer has taken the store over"), "{error}");
    assert_eq!(last(&new), 2000);
}

#[test]
fn a_checkpoint_of_whoever_was_taken_over_changes_nothing() {
    let url = fresh("fenced-checkpoint");
    let old = open(&url, options(), RemoteOptions::default()).unwrap();
    for number in 1..=50 {
        put(&old, number).unwrap();
    }
    let new = open(&url, options(), RemoteOptions::default()).unwrap();
    let error = old.checkpoint().unwrap_err();
    assert!(matches!(error, StoreError::Fenced { .. }), "{error}");
    put(&new, 51).unwrap();
    drop((old, new));
    assert_eq!(last(&open(&url, options(), RemoteOptions::default()).unwrap()), 51);
}

#[test]
fn all_who_wait_for_a_commit_are_refused() {
    let url = fresh("fenced-waiting");
    let old = open(&url, options(), RemoteOptions::default()).unwrap();
    let acknowledged: Vec<AtomicI64> = (0..8).map(|_| AtomicI64::new(0)).collect();
    let fenced = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (thread, acknowledged) in acknowledged.iter().enumerate() {
            let (old, fenced) = (&old, &fenced);
            scope.spawn(move || {
                let main = old.branch("main").unwrap();
                for number in 1_i64.. {
                    match main.kv().put(format!("{thread} {number:06}"), number) {
                        Ok(_) => acknowledged.store(number, Ordering::SeqCst),
                        Err(error) => {
                            assert!(matches!(error, StoreError::Fenced { .. }), "{error}");
                            assert!(fenced.load(Ordering::SeqCst), "refused before anybody else opened");
                            return;
                        }
                    }
                }
            });
        }
        std::thread::sleep(Duration::from_millis(100));
        fenced.store(true, Ordering::SeqCst);
        let new = open(&url, options(), RemoteOptions::default()).unwrap();
        let main = new.branch("main").unwrap();
        std::thread::sleep(Duration::from_millis(50));
        for (thread, acknowledged) in acknowledged.iter().enumerate() {
            let acknowledged = acknowledged.load(Ordering::SeqCst);
            for number in 1..=acknowledged {
                let found = main.kv().get(format!("{thread} {number:06}")).unwrap();
                assert_eq!(found, Some(number.into()), "thread {thread}: {acknowledged} were acknowledged");
            }
        }
    });
}

#[test]
fn of_many_that_open_at_once_one_goes_on_and_nothing_is_lost() {
    let url = fresh("race");
    drop(open(&url, options(), RemoteOptions::default()).unwrap());
    let acknowledged: std::sync::Mutex<Vec<String>> = std::sync::Mutex::default();
    for round in 0..5 {
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (url, acknowledged) = (&url, &acknowledged);
                scope.spawn(move || {
                    let Ok(store) = open(url, options(), RemoteOptions::default()) else { return };
                    for number in 0..20 {
                        let key = format!("{round} {thread} {number}");
                        if store.branch("main").unwrap().kv().put(key.as_str(), 1).is_err() {
                            return;
                        }
                        acknowledged.lock().unwrap().push(key);
                    }
                });
            }
        });
        let store = open(&url, options(), RemoteOptions::default()).unwrap();
        let main = store.branch("main").unwrap();
        for key in acknowledged.lock().unwrap().iter() {
            assert_eq!(main.kv().get(key.as_str()).unwrap(), Some(1.into()), "{key}");
        }
    }
    assert!(!acknowledged.lock().unwrap().is_empty());
}

/// The child's part: commits until it is refused. It does nothing when the test is run by itself.
#[test]
fn child() {
    let Ok(address) = std::env::var(URL_VARIABLE) else { return };
    let mut out = std::io::stderr();
    let store = match open_on(client(&address), true, "fenced", options(), RemoteOptions::default()) {
        Ok(store) => store,
        // It slept before it had the store.
        Err(RemoteError::Fenced { by } | RemoteError::Store(StoreError::Fenced { by })) => {
            return out.write_all(format!("fenced by {by}\n").as_bytes()).unwrap();
        }
        Err(error) => panic!("{error}"),
    };
    // Reads of what is not in memory are refused, too.
    let begin = match try_last(&store) {
        Ok(last) => last + 1,
        Err(StoreError::Fenced { by }) => {
            return out.write_all(format!("fenced by {by}\n").as_bytes()).unwrap();
        }
        Err(error) => panic!("{error}"),
    };
    for number in begin.. {
        let text = match put(&store, number) {
            Ok(_) => format!("acknowledged {number}\n"),
            Err(StoreError::Fenced { by }) => format!("fenced by {by}\n"),
            Err(error) => format!("failed: {error}\n"),
        };
        out.write_all(text.as_bytes()).unwrap();
        if !text.starts_with("acknowledged") {
            return;
        }
    }
}

fn signal(child: &std::process::Child, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, signal).unwrap();
}

#[test]
fn a_process_that_slept_acknowledges_nothing_when_it_wakes() {
    let Some(server) = Server::start() else { return };
    let bucket = server.client();
    for round in 0..10 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "fencing::child", "--nocapture", "--test-threads", "1"])
            .env(URL_VARIABLE, server.address())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let pipe = BufReader::new(child.stderr.take().unwrap());
        let lines = std::thread::spawn(move || pipe.lines().map_while(Result::ok).collect::<Vec<_>>());
        std::thread::sleep(Duration::from_millis(300 + 37 * round));
        signal(&child, rustix::process::Signal::STOP);
        std::thread::sleep(Duration::from_millis(20));
        let new = open_on(bucket.clone(), true, "fenced", options(), RemoteOptions::default()).unwrap();
        let found = last(&new);
        for number in found + 1..=found + 100 {
            put(&new, number).unwrap();
        }
        // All objects that are not needed any more go, and their numbers are free.
        new.checkpoint().unwrap();
        new.compact().unwrap();
        if round % 2 == 0 {
            new.close().unwrap();
            drop(new);
        } else {
            std::mem::forget(new);
        }
        signal(&child, rustix::process::Signal::CONT);
        let lines = lines.join().unwrap();
        assert!(child.wait().unwrap().success(), "{lines:?}");
        let told = lines.iter().rev().find_map(|line| line.strip_prefix("acknowledged "));
        let told: i64 = told.map_or(0, |number| number.parse().unwrap());
        assert!(told <= found, "{told} was acknowledged, and the new writer found {found}");
        let end = lines.last().unwrap();
        assert!(end.starts_with("fenced by process") || end.starts_with("fenced by one"), "{end}");
    }
}
