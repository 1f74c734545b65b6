//! The node store on disk: the contract that it shares with memory, and what it promises beyond.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::crash_nodes::{CrashNodeStore, CrashScript};
use duramen_base::{clock, entropy};
use duramen_store::nodes::FjallNodeStore;
use duramen_tree::{MemoryNodeStore, NodeId, NodeStore, NodeStoreError};

const KIB: usize = 1024;

/// The bytes of a node: they follow from its id, so that they can be checked anywhere.
fn node(id: NodeId, bytes: usize) -> (NodeId, Vec<u8>) {
    let mut node = vec![(id % 251) as u8; bytes];
    let head = bytes.min(8);
    node[..head].copy_from_slice(&id.to_be_bytes()[8 - head..]);
    (id, node)
}

fn nodes(ids: std::ops::Range<NodeId>, bytes: usize) -> Vec<(NodeId, Vec<u8>)> {
    ids.map(|id| node(id, bytes)).collect()
}

fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nodes");
    (folder, path)
}

fn open(path: &Path) -> FjallNodeStore {
    FjallNodeStore::open(path, false).unwrap()
}

fn io_kind(error: &NodeStoreError) -> Option<ErrorKind> {
    match error {
        NodeStoreError::Io(error) => Some(error.kind()),
        _ => None,
    }
}

/// What every node store does. `bytes` is the size of its nodes.
fn contract(store: &dyn NodeStore, bytes: usize) {
    assert_eq!(store.manifest().unwrap(), None);
    assert_eq!(store.get(1).unwrap(), None);

    // Nodes can be read before the commit, and after it.
    store.put(&nodes(1..11, bytes)).unwrap();
    store.put(&[]).unwrap();
    store.put(&nodes(11..21, bytes)).unwrap();
    for id in 1..21 {
        assert_eq!(store.get(id).unwrap(), Some(node(id, bytes).1), "node {id} before the commit");
    }
    store.commit(b"first", &[]).unwrap();
    assert_eq!(store.manifest().unwrap().as_deref(), Some(&b"first"[..]));

    // A commit forgets nodes, old ones and those of its own; ids that are not there, or twice, do no harm.
    store.put(&nodes(30..40, bytes)).unwrap();
    store.commit(b"second", &[3, 7, 31, 7, 25, 99]).unwrap();
    for id in [3, 7, 31, 25, 99] {
        assert_eq!(store.get(id).unwrap(), None, "node {id} was deleted");
    }
    for id in [1, 2, 20, 30, 39] {
        assert_eq!(store.get(id).unwrap(), Some(node(id, bytes).1));
    }
    assert_eq!(store.manifest().unwrap().as_deref(), Some(&b"second"[..]));

    // Leftovers go, counted, whether they were committed or not; their ids may come again with other bytes.
    store.put(&nodes(40..45, bytes)).unwrap();
    store.commit(b"third", &[]).unwrap();
    store.put(&nodes(45..50, bytes)).unwrap();
    assert_eq!(store.delete_from(42).unwrap(), 8);
    assert_eq!(store.delete_from(42).unwrap(), 0);
    assert_eq!(store.get(42).unwrap(), None);
    assert_eq!(store.get(47).unwrap(), None);
    assert_eq!(store.get(41).unwrap(), Some(node(41, bytes).1));
    store.put(&[(42, b"again".to_vec()), (43, Vec::new())]).unwrap();
    store.commit(b"", &[]).unwrap();
    assert_eq!(store.get(42).unwrap(), Some(b"again".to_vec()));
    assert_eq!(store.get(43).unwrap(), Some(Vec::new()), "an empty node is a node");
    assert_eq!(store.get(44).unwrap(), None);
    assert_eq!(store.manifest().unwrap(), Some(Vec::new()));

    // Ids of the whole range.
    store.put(&[node(u64::MAX - 1, bytes), node(u64::MAX, bytes)]).unwrap();
    store.commit(b"last", &[42]).unwrap();
    assert_eq!(store.get(u64::MAX).unwrap(), Some(node(u64::MAX, bytes).1));
    assert_eq!(store.delete_from(u64::MAX).unwrap(), 1);
    assert!(store.stats().bytes > 0);
}

#[test]
fn memory_keeps_the_contract() {
    contract(&MemoryNodeStore::new(), 4 * KIB);
}

#[test]
fn a_machine_that_does_not_stop_keeps_the_contract() {
    contract(&CrashNodeStore::new(CrashScript::new(1)), 4 * KIB);
}

#[test]
fn disk_keeps_the_contract_with_small_and_large_nodes() {
    // Below and above what is ingested, by the commit and by the put.
    for bytes in [100, 4 * KIB, 200 * KIB, 2048 * KIB] {
        let (_folder, path) = folder();
        contract(&open(&path), bytes);
    }
}

#[test]
fn what_was_committed_is_there_after_a_restart() {
    let (_folder, path) = folder();
    let manifest = entropy::rng(9).alphanumeric_text(300 * KIB);
    let store = open(&path);
    store.put(&nodes(1..100, 8 * KIB)).unwrap();
    store.commit(b"old", &[]).unwrap();
    store.put(&nodes(100..600, 16 * KIB)).unwrap();
    store.put(&[node(600, 17 << 20)]).unwrap();
    store.commit(manifest.as_bytes(), &(1..50).collect::<Vec<_>>()).unwrap();
    store.put(&nodes(700..710, KIB)).unwrap();
    drop(store);

    for read_only in [false, true, false] {
        let store = FjallNodeStore::open(&path, read_only).unwrap();
        assert_eq!(store.manifest().unwrap().as_deref(), Some(manifest.as_bytes()));
        assert_eq!(store.get(49).unwrap(), None);
        assert_eq!(store.get(50).unwrap(), Some(node(50, 8 * KIB).1));
        assert_eq!(store.get(599).unwrap(), Some(node(599, 16 * KIB).1));
        assert_eq!(store.get(600).unwrap(), Some(node(600, 17 << 20).1));
    }
}

trait Text {
    fn alphanumeric_text(&mut self, len: usize) -> String;
}

impl Text for fastrand::Rng {
    fn alphanumeric_text(&mut self, len: usize) -> String {
        (0..len).map(|_| self.alphanumeric()).collect()
    }
}

#[test]
fn ids_that_do_not_grow_are_refused() {
    let (_folder, path) = folder();
    let store = open(&path);
    let error = store.put(&[node(5, 10), node(4, 10)]).unwrap_err();
    assert_eq!(io_kind(&error), Some(ErrorKind::InvalidInput), "{error}");
}

#[test]
fn a_write_that_failed_stops_all_writes_but_no_reads() {
    let (_folder, path) = folder();
    let store = open(&path);
    store.put(&[node(1, 10)]).unwrap();
    store.commit(b"good", &[]).unwrap();
    let first = store.put(&[node(3, 10), node(2, 10)]).unwrap_err().to_string();
    for error in [
        store.put(&[node(9, 10)]).unwrap_err(),
        store.commit(b"bad", &[1]).unwrap_err(),
        store.delete_from(1).unwrap_err(),
    ] {
        assert_eq!(error.to_string(), first);
    }
    assert_eq!(store.get(1).unwrap(), Some(node(1, 10).1));
    drop(store);
    assert_eq!(open(&path).manifest().unwrap().as_deref(), Some(&b"good"[..]));
}

#[test]
fn a_second_handle_is_refused_and_told_why() {
    let (_folder, path) = folder();
    let store = open(&path);
    for read_only in [false, true] {
        let error = FjallNodeStore::open(&path, read_only).err().unwrap();
        assert_eq!(io_kind(&error), Some(ErrorKind::WouldBlock), "{error}");
    }
    drop(store);
    open(&path);
}

#[test]
fn read_only_makes_nothing_and_writes_nothing() {
    let (_folder, path) = folder();
    let error = FjallNodeStore::open(&path, true).err().unwrap();
    assert_eq!(io_kind(&error), Some(ErrorKind::NotFound), "{error}");
    assert!(!path.exists());

    let store = open(&path);
    store.put(&nodes(1..300, 8 * KIB)).unwrap();
    store.commit(b"kept", &[]).unwrap();
    drop(store);
    drop(FjallNodeStore::open(&path, true).unwrap());
    let before = contents(&path);
    let store = FjallNodeStore::open(&path, true).unwrap();
    for error in [
        store.put(&[node(900, 10)]).unwrap_err(),
        store.commit(b"lost", &[1]).unwrap_err(),
        store.delete_from(1).unwrap_err(),
    ] {
        assert_eq!(io_kind(&error), Some(ErrorKind::ReadOnlyFilesystem), "{error}");
    }
    assert_eq!(store.get(299).unwrap(), Some(node(299, 8 * KIB).1));
    drop(store);
    assert_eq!(contents(&path), before, "a read-only opening changed a file");
}

fn files(path: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(path)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] })
        .collect()
}

fn contents(path: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    files(path).into_iter().map(|file| (file.clone(), std::fs::read(file).unwrap())).collect()
}

#[test]
fn a_folder_with_something_else_is_left_alone() {
    let (_folder, path) = folder();
    std::fs::create_dir(&path).unwrap();
    std::fs::write(path.join("letter"), b"dear").unwrap();
    assert!(matches!(FjallNodeStore::open(&path, false).err(), Some(NodeStoreError::Damaged(_))));
    assert_eq!(contents(&path).len(), 1);
    std::fs::remove_file(path.join("letter")).unwrap();
    open(&path).commit(b"an empty folder will do", &[]).unwrap();
}

#[test]
fn a_flipped_byte_is_damage_and_not_a_wrong_node() {
    let (_folder, path) = folder();
    let store = open(&path);
    store.put(&nodes(1..200, 16 * KIB)).unwrap();
    store.commit(b"m", &[]).unwrap();
    drop(store);
    let largest = files(&path).into_iter().filter(|file| file.extension().is_none());
    let largest = largest.max_by_key(|file| std::fs::metadata(file).unwrap().len()).unwrap();
    let mut bytes = std::fs::read(&largest).unwrap();
    let at = 100 * (16 * KIB + 46);
    bytes[at] ^= 1;
    std::fs::write(&largest, bytes).unwrap();

    let store = open(&path);
    let results: Vec<_> = (1..200).map(|id| (id, store.get(id))).collect();
    let damaged =
        results.iter().filter(|(_, result)| matches!(result, Err(NodeStoreError::Damaged(_)))).count();
    assert_eq!(damaged, 1, "one node of {largest:?} is damaged");
    for (id, result) in results {
        if let Ok(found) = result {
            assert_eq!(found, Some(node(id, 16 * KIB).1));
        }
    }
}

#[test]
fn space_stays_bounded_when_the_same_data_is_overwritten() {
    let seed = entropy::seed();
    println!("seed {seed}");
    for part in [1, 3] {
        let mut rng = entropy::rng(seed);
        let (_folder, path) = folder();
        let store = open(&path);
        let (count, bytes) = (1000, 8 * KIB);
        let mut live: Vec<NodeId> = (1..=count).collect();
        store.put(&nodes(1..count + 1, bytes)).unwrap();
        store.commit(b"", &[]).unwrap();
        let mut next = count + 1;
        let bound = count * bytes as u64 * 5 / 2;
        for round in 0..10 {
            // All of it, or a random third.
            rng.shuffle(&mut live);
            let changed = count / part;
            let dead: Vec<NodeId> = live.drain(..changed as usize).collect();
            store.put(&nodes(next..next + changed, bytes)).unwrap();
            store.commit(&[round], &dead).unwrap();
            live.extend(next..next + changed);
            next += changed;
            let held = within(Duration::from_secs(20), || store.stats().bytes, |held| *held <= bound);
            assert!(held <= bound, "seed {seed}, round {round}: {held} bytes held, at most {bound} allowed");
        }
        drop(store);
        let store = open(&path);
        assert!(store.stats().bytes <= bound, "seed {seed}: after a restart");
        for id in &live {
            assert_eq!(store.get(*id).unwrap(), Some(node(*id, bytes).1), "seed {seed}");
        }
        assert_eq!(store.delete_from(0).unwrap(), count, "seed {seed}: what is there is what lives");
    }
}

/// Looks until `good` or until time is up, and returns the last look.
fn within<T>(limit: Duration, look: impl Fn() -> T, good: impl Fn(&T) -> bool) -> T {
    let start = clock::now();
    loop {
        let seen = look();
        if good(&seen) || start.elapsed() > limit {
            return seen;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn disk_holds_little_more_than_the_nodes() {
    let (_folder, path) = folder();
    let store = open(&path);
    let (count, bytes) = (1000, 16 * KIB);
    store.put(&nodes(1..count + 1, bytes)).unwrap();
    store.commit(b"m", &[]).unwrap();
    drop(store);
    let held = open(&path).stats().bytes as f64 / (count as f64 * bytes as f64);
    assert!((1.0..=1.03).contains(&held), "{held} times the bytes of the nodes");
}

#[test]
fn many_small_commits_leave_no_long_journal() {
    let (_folder, path) = folder();
    let store = open(&path);
    let mut next = 1;
    for round in 0..40 {
        store.put(&nodes(next..next + 16, 16 * KIB)).unwrap();
        let dead: Vec<NodeId> = if round > 0 { (next - 16..next).collect() } else { Vec::new() };
        store.commit(&[round], &dead).unwrap();
        next += 16;
    }
    drop(store);
    let journals = files(&path).into_iter().filter(|file| file.extension().is_some_and(|it| it == "jnl"));
    let long: u64 = journals.map(|file| std::fs::metadata(file).unwrap().len()).sum();
    assert_eq!(long, 0, "each opening would read this many bytes of journal");
    let store = open(&path);
    assert_eq!(store.manifest().unwrap(), Some(vec![39]));
    for id in next - 16..next {
        assert_eq!(store.get(id).unwrap(), Some(node(id, 16 * KIB).1));
    }
    assert_eq!(store.get(next - 17).unwrap(), None);
    drop(store);
    // What is written after the journal was cut counts as newer than what was written before.
    for step in 1..4 {
        let store = open(&path);
        store.put(&[node(next, 10)]).unwrap();
        store.commit(&[100 + step], &[next - 1]).unwrap();
        drop(store);
        let store = open(&path);
        assert_eq!(store.manifest().unwrap(), Some(vec![100 + step]));
        assert_eq!(store.get(next).unwrap(), Some(node(next, 10).1));
        assert_eq!(store.get(next - 1).unwrap(), None);
        next += 1;
    }
}

// A child process commits without end, and is killed.

const CHILD: &str = "DURAMEN_TEST_NODE_STORE";

/// First id and nodes of an epoch: alternately a small commit and one that is ingested.
fn epoch(number: u64) -> (NodeId, Vec<(NodeId, Vec<u8>)>) {
    let first = number * 1000;
    let (count, bytes) = if number.is_multiple_of(2) { (200, 16 * KIB) } else { (20, 4 * KIB) };
    (first, nodes(first..first + count, bytes))
}

/// The body of the child; in an ordinary run of the tests it does nothing.
#[test]
fn commits_until_it_is_killed() {
    let Some(path) = std::env::var_os(CHILD) else { return };
    let store = open(Path::new(&path));
    let mut last = store.manifest().unwrap().map(|manifest| u64::from_le_bytes(manifest.try_into().unwrap()));
    store.delete_from((last.unwrap_or(0) + 1) * 1000).unwrap();
    let mut out = std::io::stdout();
    loop {
        let number = last.unwrap_or(0) + 1;
        let dead: Vec<NodeId> = epoch(number - 1).1.iter().map(|(id, _)| *id).collect();
        let (_, new) = epoch(number);
        let half = new.len() / 2;
        store.put(&new[..half]).unwrap();
        store.put(&new[half..]).unwrap();
        store.commit(&number.to_le_bytes(), &dead).unwrap();
        writeln!(out, "acknowledged {number}").unwrap();
        out.flush().unwrap();
        last = Some(number);
    }
}

#[test]
fn a_killed_process_leaves_whole_commits() {
    let seed = entropy::seed();
    println!("seed {seed}");
    let mut rng = entropy::rng(seed);
    let (_folder, path) = folder();
    let mut acknowledged = 0;
    for round in 0..8 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "node_store_fjall::commits_until_it_is_killed",
                "--nocapture",
                "--test-threads=1",
            ])
            .env(CHILD, &path)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut told = lines.filter_map(|line| line.split_once("acknowledged ")?.1.parse::<u64>().ok());
        // Early kills meet the making of the store and its opening, late ones the commits.
        if round >= 3 {
            let commits = rng.usize(1..8);
            acknowledged = told.by_ref().take(commits).last().unwrap_or(acknowledged);
        }
        std::thread::sleep(Duration::from_micros(rng.u64(0..40_000)));
        child.kill().unwrap();
        child.wait().unwrap();
        acknowledged = told.last().unwrap_or(acknowledged);

        let store = open(&path);
        let manifest = store.manifest().unwrap();
        let found = manifest.map_or(0, |manifest| u64::from_le_bytes(manifest.try_into().unwrap()));
        let context = format!("seed {seed}, round {round}: epoch {found}, acknowledged {acknowledged}");
        assert!(found == acknowledged || found == acknowledged + 1, "{context}");
        acknowledged = found;
        if found > 0 {
            for (id, node) in epoch(found).1 {
                assert_eq!(store.get(id).unwrap(), Some(node), "{context}: node {id}");
            }
            for (id, _) in epoch(found - 1).1 {
                assert_eq!(store.get(id).unwrap(), None, "{context}: node {id} was deleted by the commit");
            }
        }
        store.delete_from((found + 1) * 1000).unwrap();
        for (id, _) in epoch(found + 1).1 {
            assert_eq!(store.get(id).unwrap(), None, "{context}: node {id} is a leftover");
        }
    }
    assert!(acknowledged >= 5, "seed {seed}: the child came to {acknowledged} commits only");
}

#[test]
fn a_stopped_machine_keeps_what_was_committed() {
    for seed in 0..200 {
        let script = CrashScript::stopping_at(seed, 1 + seed % 12);
        let store = CrashNodeStore::new(script.clone());
        let mut acknowledged = None;
        for number in 0..10_u64 {
            let put = store.put(&nodes(number * 10..number * 10 + 5, 8));
            let commit = put.and_then(|()| store.commit(&[number as u8], &[number * 10]));
            if let Err(error) = commit {
                assert!(error.to_string().contains("the machine stopped"), "seed {seed}: {error}");
                break;
            }
            acknowledged = Some(number);
        }
        assert!(script.is_stopped() && store.get(1).is_err() && store.manifest().is_err(), "seed {seed}");
        let after = store.durable_image(CrashScript::new(seed));
        let found = after.manifest().unwrap().map(|manifest| u64::from(manifest[0]));
        let next = acknowledged.map_or(0, |number| number + 1);
        assert!(
            found == acknowledged || found == Some(next),
            "seed {seed}: {found:?} after {acknowledged:?}"
        );
        after.delete_from(found.map_or(0, |number| number * 10 + 5)).unwrap();
        let expected: Vec<NodeId> = found
            .map_or(0..0, |number| 0..number + 1)
            .flat_map(|number| number * 10 + 1..number * 10 + 5)
            .collect();
        assert_eq!(after.ids(), expected, "seed {seed}");
    }
}
