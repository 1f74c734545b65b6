//! A process that commits is killed, again and again, and what it was told to be safe is there.
//!
//! The child is this test's own program. It tells each acknowledged commit through a pipe, so the parent knows less
//! than was acknowledged, never more.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use duramen_base::entropy;
use duramen_store::kv::Key;
use duramen_store::{Durability, Options, Scope, Store, StoreError, Value};

/// Names the store to the child, and makes it one.
const STORE_VARIABLE: &str = "DURAMEN_TEST_KILLED_STORE";
const LEVEL_VARIABLE: &str = "DURAMEN_TEST_KILLED_LEVEL";

fn options(level: Durability) -> Options {
    Options {
        durability: level,
        // Small, so that checkpoints and new segments are always under way.
        checkpoint_log_bytes: 1 << 14,
        segment_bytes: 4096,
        memory_bytes: 1 << 16,
        ..Options::default()
    }
}

/// A commit, by its number: a pair and a counter that must agree; and now and then a branch.
fn commit(store: &Store, number: i64) -> Result<(), StoreError> {
    let main = store.branch("main")?;
    main.transact(|tx| {
        tx.kv()
            .put(format!("commit {number:08}"), Value::Bytes(vec![number as u8; number as usize % 700]))?;
        tx.kv().put("last", number)
    })?;
    if number % 10 == 0 {
        store.fork("main", &format!("at-{number}"))?;
    }
    if number % 10 == 5 && number > 20 {
        store.delete_branch(&format!("at-{}", number - 15))?;
    }
    Ok(())
}

/// The child's part: commits until it is killed. It does nothing when the test is run by itself.
#[test]
fn child() {
    let Some(path) = std::env::var_os(STORE_VARIABLE) else { return };
    let level: Durability = std::env::var(LEVEL_VARIABLE).unwrap().parse().unwrap();
    let store = Store::open(path, options(level)).unwrap();
    let mut number = last(&store);
    let mut out = std::io::stderr();
    loop {
        number += 1;
        commit(&store, number).unwrap();
        // One write, so that the parent never sees half a line that was not meant to be seen.
        if out.write_all(format!("acknowledged {number}\n").as_bytes()).is_err() {
            return;
        }
    }
}

fn last(store: &Store) -> i64 {
    store.branch("main").unwrap().kv().get("last").unwrap().map_or(0, |value| value.as_i64().unwrap())
}

fn spawn(path: &Path, level: Durability) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "killed::child", "--nocapture", "--test-threads", "1"])
        .env(STORE_VARIABLE, path)
        .env(LEVEL_VARIABLE, level.name())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Starts the child, kills it after a while, and returns the last commit that it told of.
fn live_and_die(path: &Path, level: Durability, wait: Duration) -> i64 {
    let mut child = spawn(path, level);
    let pipe = BufReader::new(child.stderr.take().unwrap());
    let reader = std::thread::spawn(move || {
        let mut told = 0;
        let mut other = Vec::new();
        for line in pipe.lines().map_while(Result::ok) {
            match line.strip_prefix("acknowledged ").and_then(|number| number.parse().ok()) {
                Some(number) => told = number,
                None => other.push(line),
            }
        }
        (told, other)
    });
    std::thread::sleep(wait);
    let died = child.try_wait().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let (told, other) = reader.join().unwrap();
    assert!(died.is_none(), "the child ended by itself: {other:?}");
    told
}

/// Asserts that exactly the commits up to some number are there, and returns it.
fn check(store: &Store) -> i64 {
    let last = last(store);
    let main = store.branch("main").unwrap();
    let mut expected: BTreeMap<String, Value> = (1..=last)
        .map(|n| (format!("commit {n:08}"), Value::Bytes(vec![n as u8; n as usize % 700])))
        .collect();
    if last > 0 {
        expected.insert("last".to_owned(), Value::Int(last));
    }
    let found = main.kv().range(.., usize::MAX).unwrap();
    assert!(found.iter().map(|(key, _)| key).eq(expected.keys()), "commits are missing before {last}");
    assert!(
        found.into_iter().eq(expected.into_iter().map(|(key, value)| (Key::new(key), value))),
        "a commit was changed"
    );
    for info in store.branches(false).unwrap() {
        let Some(number) = info.name.strip_prefix("at-").and_then(|number| number.parse::<i64>().ok()) else {
            continue;
        };
        let branch = store.branch(&info.name).unwrap();
        assert_eq!(branch.kv().get("last").unwrap(), Some(Value::Int(number)), "branch {}", info.name);
        assert_eq!(branch.kv().count("commit ").unwrap(), number as u64, "branch {}", info.name);
    }
    last
}

/// Rounds of committing and being killed. Returns how many commits the parent was told of.
fn rounds(level: Durability, rounds: u32) -> i64 {
    let seed = entropy::seed();
    println!("DURAMEN_SEED={seed}");
    let mut rng = entropy::rng(seed);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let (mut kept, mut all_told) = (0, 0);
    for round in 0..rounds {
        let told = live_and_die(&path, level, Duration::from_millis(rng.u64(150..450)));
        let store =
            Store::open(&path, options(level)).unwrap_or_else(|e| panic!("seed {seed}, {round}: {e}"));
        let found = check(&store);
        assert!(found >= kept, "seed {seed}, round {round}: what an opening found is lost");
        if level >= Durability::Buffered {
            assert!(found >= told, "seed {seed}, round {round}: {found} was found, {told} acknowledged");
        }
        all_told += (told - kept).max(0);
        // The kill may have come between the commit and what follows on it.
        finish(&store, found).unwrap();
        kept = found;
        if rng.bool() {
            store.close().unwrap();
        }
    }
    println!("{level}: {all_told} commits were told of, {kept} are there");
    all_told
}

/// Does what the commit of a number does to branches, if the kill came between.
fn finish(store: &Store, number: i64) -> Result<(), StoreError> {
    let is_there = |name: &str| store.branch(name).is_ok();
    let (new, old) = (format!("at-{number}"), format!("at-{}", number - 15));
    if number % 10 == 0 && number > 0 && last(store) == number && !is_there(&new) {
        store.fork("main", &new)?;
    }
    if number % 10 == 5 && number > 20 && last(store) == number && is_there(&old) {
        store.delete_branch(&old)?;
    }
    Ok(())
}

#[test]
fn a_killed_process_loses_nothing_that_the_operating_system_has() {
    assert!(rounds(Durability::Buffered, 8) > 0);
}

#[test]
fn a_killed_process_loses_nothing_that_the_disk_has() {
    assert!(rounds(Durability::Strict, 6) > 0);
}

#[test]
fn a_killed_process_loses_only_the_last_of_what_it_had_in_memory() {
    assert!(rounds(Durability::Memory, 6) > 0);
}
