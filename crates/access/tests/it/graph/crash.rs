//! G-7: a writer that is killed at any moment leaves whole batches, and every earlier sync as it was.

use std::collections::HashSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use duramen_access::graph::{Grant, GrantScope, GraphPack, GraphStore, StoreOptions, SyncKind};

use super::{grant, paged};

const FOLDER: &str = "DURAMEN_TEST_CRASH_FOLDER";
/// Grants of one batch. They come and stay together.
const BATCH: usize = 7;

fn batch(number: usize) -> Vec<Grant> {
    (0..BATCH).map(|part| grant("app", "github", &format!("e{part}"), &format!("u{number:06}"))).collect()
}

/// What the child does: puts batches for ever, and says how many are done.
fn write_for_ever(folder: &Path) {
    let path = folder.join("graph.dpack");
    let mut store = GraphStore::open_with(&path, StoreOptions { memory_bytes: 64 << 10 }).unwrap();
    let first = store.start_sync(SyncKind::Full, None).unwrap();
    store.put_grants(&batch(0)).unwrap();
    store.end_sync().unwrap();
    println!("first {first}");
    store.start_sync(SyncKind::Full, None).unwrap();
    for number in 0.. {
        store.put_grants(&batch(number)).unwrap();
        println!("done {number}");
        if number % 100 == 99 {
            // The file is written anew under the eyes of the killer.
            let id = store.current_sync().unwrap().id.clone();
            store.suspend().unwrap();
            store.open_sync(&id).unwrap();
        }
    }
}

#[test]
fn a_killed_writer_leaves_whole_batches_in_all_indexes() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        write_for_ever(Path::new(&folder));
    }
    let seed = duramen_base::entropy::seed();
    println!("DURAMEN_SEED={seed}");
    let mut random = duramen_base::entropy::rng(seed);
    for _ in 0..12 {
        let dir = tempfile::tempdir().unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "graph::crash::a_killed_writer_leaves_whole_batches_in_all_indexes",
                "--nocapture",
            ])
            .env(FOLDER, dir.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut first = None;
        let mut done = None;
        let until = random.usize(0..350);
        for line in lines.by_ref() {
            let line = line.unwrap();
            first = first.or_else(|| line.split_once("first ").map(|(_, id)| id.to_owned()));
            if let Some(number) = line.strip_prefix("done ") {
                done = Some(number.parse::<usize>().unwrap());
            }
            if done >= Some(until) {
                break;
            }
        }
        std::thread::sleep(Duration::from_micros(random.u64(0..3000)));
        child.kill().unwrap();
        child.wait().unwrap();
        for line in lines {
            if let Some(number) = line.unwrap().strip_prefix("done ") {
                done = number.parse().ok().or(done);
            }
        }
        let path = dir.path().join("graph.dpack");
        let before = GraphPack::open(&path).unwrap();
        let first = first.expect("the child said its first sync");
        assert_eq!(paged(&before.view(Some(&first)).unwrap(), GrantScope::All, 0).len(), BATCH);

        let mut store = GraphStore::open(&path).unwrap();
        store.resume_sync(None, None).unwrap().expect("the second sync is there");
        let view = store.view(None).unwrap();
        let found = paged(&view, GrantScope::All, 0);
        assert_eq!(found.len() % BATCH, 0, "a batch is whole or not there");
        let done = done.expect("the child put something");
        assert!(found.len() >= (done + 1) * BATCH, "what was put is there: {} of {done}", found.len());
        let users: HashSet<_> = found.iter().map(|grant| grant.principal.id.clone()).collect();
        for user in &users {
            assert_eq!(paged(&view, GrantScope::Principal(user), 3).len(), BATCH);
        }
        store.put_grants(&batch(done + 2)).unwrap();
        store.end_sync().unwrap();
        store.close().unwrap();
        let left = std::fs::read_dir(dir.path()).unwrap().count();
        assert_eq!(left, 1, "only the file is left");
    }
}
