//! The node store on disk: the contract that it shares with memory, and what it promises beyond. The invariants N1 to N9 are
//! in `docs/design/node-segments.md`; the images of power cuts are in `power_cuts`.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::crash_nodes::{CrashNodeStore, CrashScript};
use duramen_base::entropy;
use duramen_store::nodes::SegmentNodeStore;
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
    std::fs::create_dir(&path).unwrap();
    (folder, path)
}

fn open(path: &Path) -> SegmentNodeStore {
    SegmentNodeStore::open(path, false).unwrap()
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
    // Many in a segment, and one in a segment.
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
        let store = SegmentNodeStore::open(&path, read_only).unwrap();
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
fn read_only_makes_nothing_and_writes_nothing() {
    let (_folder, path) = folder();
    assert_eq!(SegmentNodeStore::open(&path, true).unwrap().manifest().unwrap(), None);
    assert_eq!(files(&path), Vec::<PathBuf>::new());
    let error = SegmentNodeStore::open(&path.join("elsewhere"), true).err().unwrap();
    assert_eq!(io_kind(&error), Some(ErrorKind::NotFound), "{error}");

    let store = open(&path);
    store.put(&nodes(1..300, 8 * KIB)).unwrap();
    store.commit(b"kept", &[]).unwrap();
    drop(store);
    drop(SegmentNodeStore::open(&path, true).unwrap());
    let before = contents(&path);
    let store = SegmentNodeStore::open(&path, true).unwrap();
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

/// N7: what is overwritten again and again takes little more than what lives.
#[test]
fn space_stays_bounded_when_the_same_data_is_overwritten() {
    let seed = entropy::seed();
    println!("seed {seed}");
    for part in [1, 3, 20] {
        let mut rng = entropy::rng(seed);
        let (_folder, path) = folder();
        let store = open(&path);
        let (count, bytes) = (2000, 8 * KIB);
        let mut live: Vec<NodeId> = (1..=count).collect();
        store.put(&nodes(1..count + 1, bytes)).unwrap();
        store.commit(b"", &[]).unwrap();
        let mut next = count + 1;
        let living = count * (bytes as u64 + 24);
        // One segment is written to, and another may be on its way out.
        let bound = living * 3 / 2 + (living / 8) * 2;
        for round in 0..40 {
            // All of it, or a random part.
            rng.shuffle(&mut live);
            let changed = count / part;
            let dead: Vec<NodeId> = live.drain(..changed as usize).collect();
            store.put(&nodes(next..next + changed, bytes)).unwrap();
            store.commit(&[round], &dead).unwrap();
            live.extend(next..next + changed);
            next += changed;
            let held = store.stats().bytes;
            assert!(held <= bound, "seed {seed}, part {part}, round {round}: {held} bytes, at most {bound}");
            assert_eq!(held, on_disk(&path), "seed {seed}: the files are what is counted");
        }
        drop(store);
        let store = open(&path);
        for id in &live {
            assert_eq!(store.get(*id).unwrap(), Some(node(*id, bytes).1), "seed {seed}");
        }
        store.compact().unwrap();
        let held = store.stats().bytes as f64 / living as f64;
        assert!(held < 1.06, "seed {seed}: {held} times the bytes of the nodes after compaction");
        drop(store);
        let store = open(&path);
        for id in &live {
            assert_eq!(store.get(*id).unwrap(), Some(node(*id, bytes).1), "seed {seed}: after compaction");
        }
        assert_eq!(store.delete_from(0).unwrap(), count, "seed {seed}: what is there is what lives");
    }
}

fn on_disk(path: &Path) -> u64 {
    files(path).iter().map(|file| std::fs::metadata(file).unwrap().len()).sum()
}

#[test]
fn disk_holds_little_more_than_the_nodes() {
    let (_folder, path) = folder();
    let store = open(&path);
    let (count, bytes) = (4000, 16 * KIB);
    store.put(&nodes(1..count + 1, bytes)).unwrap();
    store.commit(b"m", &[]).unwrap();
    drop(store);
    let held = on_disk(&path) as f64 / (count as f64 * bytes as f64);
    assert!((1.0..=1.003).contains(&held), "{held} times the bytes of the nodes");
}

/// Openings that follow crashes leave short segments, which are put together by and by.
#[test]
fn many_crashes_leave_few_files() {
    let (_folder, path) = folder();
    let mut next = 1;
    for round in 0..200_u64 {
        let store = open(&path);
        assert_eq!(store.get(next.max(2) - 1).unwrap().is_some(), round > 0);
        store.put(&nodes(next..next + 20, KIB)).unwrap();
        store.commit(&round.to_le_bytes(), &[]).unwrap();
        next += 20;
        store.put(&nodes(next..next + 1, 4 * KIB)).unwrap();
        // As if the process had been killed.
        std::mem::forget(store);
    }
    let store = open(&path);
    for id in 1..next {
        assert_eq!(store.get(id).unwrap(), Some(node(id, KIB).1));
    }
    assert!(files(&path).len() < 140, "{} files", files(&path).len());
}

/// Small commits one after the other: an opening reads few of them.
#[test]
fn many_small_commits_are_read_quickly() {
    let (_folder, path) = folder();
    let store = open(&path);
    for id in 1..3000_u64 {
        store.put(&[node(id, 20)]).unwrap();
        let dead: &[NodeId] = if id > 100 { &[id - 100] } else { &[] };
        store.commit(&id.to_le_bytes(), dead).unwrap();
    }
    drop(store);
    let store = open(&path);
    assert_eq!(store.manifest().unwrap(), Some(2999_u64.to_le_bytes().to_vec()));
    for id in 1..3000 {
        assert_eq!(store.get(id).unwrap().is_some(), id >= 2900, "node {id}");
    }
    assert!(on_disk(&path) < 2 << 20, "{} bytes of files", on_disk(&path));
}

/// N1, N5: whatever byte is changed or wherever a file ends, what is read is a commit that was made, or an error.
#[test]
fn damage_is_told_or_leads_to_an_earlier_commit() {
    let (_folder, path) = folder();
    let store = open(&path);
    for number in 1..6_u64 {
        store.put(&nodes(number * 10..number * 10 + 3, 60)).unwrap();
        store.commit(&number.to_le_bytes(), &[number * 10 - 9]).unwrap();
    }
    drop(store);
    let file = files(&path).pop().unwrap();
    let whole = std::fs::read(&file).unwrap();
    let commits = |path: &Path| -> Option<u64> {
        let manifest = SegmentNodeStore::open(path, true).ok()?.manifest().unwrap()?;
        Some(u64::from_le_bytes(manifest.try_into().unwrap()))
    };
    assert_eq!(commits(&path), Some(5));
    let mut seen = std::collections::BTreeSet::new();
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x41;
        std::fs::write(&file, &bytes).unwrap();
        seen.insert(commits(&path));
        // Cut off, as a file system may leave it.
        std::fs::write(&file, &whole[..at]).unwrap();
        seen.insert(commits(&path));
    }
    assert!(seen.iter().flatten().all(|number| (1..=5).contains(number)), "{seen:?}");
    assert!(seen.len() >= 6, "{seen:?}");
}

/// N5: a segment that nodes lie in is missed.
/// Whoever opens a folder whose last commit is gone finds an earlier one, and takes nothing away before there is another.
#[test]
fn an_opening_removes_nothing() {
    let (_folder, path) = folder();
    let store = open(&path);
    store.put(&nodes(1..20, 4 * KIB)).unwrap();
    store.commit(b"first", &[]).unwrap();
    drop(store);
    let first = files(&path);
    // Enough for a segment of its own.
    let store = open(&path);
    store.put(&nodes(20..400, 4 * KIB)).unwrap();
    store.put(&nodes(400..500, 4 * KIB)).unwrap();
    store.commit(b"second", &[]).unwrap();
    drop(store);
    let later: Vec<_> = files(&path).into_iter().filter(|file| !first.contains(file)).collect();
    assert!(!later.is_empty());
    // Of its commit something is lost.
    let last = later.last().unwrap();
    let bytes = std::fs::read(last).unwrap();
    std::fs::write(last, &bytes[..bytes.len() / 2]).unwrap();
    let before = contents(&path);
    let store = open(&path);
    assert_eq!(store.manifest().unwrap().as_deref(), Some(&b"first"[..]));
    drop(store);
    assert_eq!(contents(&path), before);
    let store = open(&path);
    store.commit(b"third", &[]).unwrap();
    assert!(later.iter().all(|file| !file.exists()), "they go with the next commit");
    drop(store);
    assert_eq!(open(&path).manifest().unwrap().as_deref(), Some(&b"third"[..]));
}

#[test]
fn a_segment_that_is_missing_or_shorter_is_told() {
    let (_folder, path) = folder();
    let store = open(&path);
    store.put(&nodes(1..400, 8 * KIB)).unwrap();
    store.commit(b"m", &[]).unwrap();
    drop(store);
    let mut all = files(&path);
    all.sort();
    assert!(all.len() > 2, "{all:?}");
    let bytes = std::fs::read(&all[0]).unwrap();
    for broken in [Some(&bytes[..bytes.len() - 1000]), Some(&bytes[..10]), Some(&[]), None] {
        match broken {
            Some(broken) => std::fs::write(&all[0], broken).unwrap(),
            None => std::fs::remove_file(&all[0]).unwrap(),
        }
        for read_only in [true, false] {
            let error = SegmentNodeStore::open(&path, read_only).err().unwrap();
            let NodeStoreError::Damaged(text) = &error else { panic!("{error}") };
            assert!(text.contains("segment-0000000000000001"), "{text}");
        }
    }
    // One of a later format is not taken for a damaged one.
    let mut later = bytes;
    later[8] = 2;
    std::fs::write(&all[0], later).unwrap();
    let error = SegmentNodeStore::open(&path, false).err().unwrap().to_string();
    assert!(error.contains("a later version wrote"), "{error}");
}

/// Whoever gives somebody a folder to open makes him neither wait at a pipe nor read what lies elsewhere.
#[test]
fn what_is_no_file_is_not_opened_as_a_segment() {
    let (_folder, path) = folder();
    let store = open(&path);
    store.put(&nodes(1..4, 100)).unwrap();
    store.commit(b"m", &[]).unwrap();
    drop(store);
    let file = files(&path).pop().unwrap();
    let aside = path.with_file_name("aside");
    std::fs::rename(&file, &aside).unwrap();
    let put: [&dyn Fn(); 3] = [
        &|| std::os::unix::fs::symlink(&aside, &file).unwrap(),
        &|| assert!(Command::new("mkfifo").arg(&file).status().unwrap().success()),
        &|| std::fs::create_dir(&file).unwrap(),
    ];
    for put in put {
        put();
        for read_only in [true, false] {
            let error = SegmentNodeStore::open(&path, read_only).err().unwrap().to_string();
            assert!(error.contains("segment-0000000000000001"), "{error}");
        }
        std::fs::remove_file(&file).or_else(|_| std::fs::remove_dir(&file)).unwrap();
    }
}

/// The store against the one in memory, with clean ends and crashes at any step.
#[test]
fn it_does_what_the_one_in_memory_does() {
    let seed = entropy::seed();
    println!("seed {seed}");
    for run in 0..12 {
        let mut rng = entropy::rng(seed ^ run);
        let (_folder, path) = folder();
        let mut store = open(&path);
        let (mut now, mut committed) = (BTreeMap::new(), (BTreeMap::new(), None));
        let (mut next, mut number) = (1_u64, 0_u64);
        for step in 0..300 {
            let context = || format!("seed {seed}, run {run}, step {step}");
            match rng.u32(..100) {
                0..40 => {
                    let count = rng.u64(1..40);
                    let bytes = rng.usize(..6000);
                    let new: Vec<_> = (next..next + count).map(|id| node(id, bytes)).collect();
                    next += count + rng.u64(..3);
                    store.put(&new).unwrap();
                    now.extend(new);
                }
                40..75 => {
                    let part = rng.u32(2..20);
                    let dead: Vec<NodeId> = now.keys().copied().filter(|_| rng.u32(..part) == 0).collect();
                    number += 1;
                    store.commit(&number.to_le_bytes(), &dead).unwrap();
                    now.retain(|id, _| !dead.contains(id));
                    committed = (now.clone(), Some(number.to_le_bytes().to_vec()));
                }
                75..80 => {
                    let first = rng.u64(next.saturating_sub(30)..=next);
                    let gone = now.split_off(&first);
                    assert_eq!(store.delete_from(first).unwrap(), gone.len() as u64, "{}", context());
                }
                80..84 if committed.1.is_some() && now == committed.0 => store.compact().unwrap(),
                84..92 => {
                    if rng.bool() {
                        drop(store);
                    } else {
                        std::mem::forget(store);
                    }
                    if rng.u32(..4) == 0 {
                        // The last segment ends within what was not made durable.
                        cut_a_little(&path, &mut rng, &committed.1);
                    }
                    store = open(&path);
                    now = committed.0.clone();
                    next = now.last_key_value().map_or(1, |(id, _)| id + 1);
                    let manifest = store.manifest().unwrap();
                    assert_eq!(manifest, committed.1, "{}", context());
                }
                _ => {
                    let id = rng.u64(..next + 2);
                    assert_eq!(store.get(id).unwrap(), now.get(&id).cloned(), "{}: node {id}", context());
                }
            }
        }
        for id in 0..next + 2 {
            assert_eq!(store.get(id).unwrap(), now.get(&id).cloned(), "seed {seed}, run {run}: node {id}");
        }
    }
}

/// Takes bytes off the end of the newest segment, as far as the manifest stays.
fn cut_a_little(path: &Path, rng: &mut fastrand::Rng, manifest: &Option<Vec<u8>>) {
    let Some(last) = files(path).into_iter().max() else { return };
    let bytes = std::fs::read(&last).unwrap();
    std::fs::write(&last, &bytes[..bytes.len() - rng.usize(..=bytes.len().min(3000))]).unwrap();
    let found = SegmentNodeStore::open(path, true).map(|store| store.manifest().unwrap());
    if !found.is_ok_and(|found| found == *manifest) {
        std::fs::write(&last, bytes).unwrap();
    }
}

// A child process commits without end, and is killed.

const CHILD: &str = "DURAMEN_TEST_NODE_STORE";

/// First id and nodes of an epoch: alternately a small commit and one that fills segments.
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
            .args(["--exact", "node_segments::commits_until_it_is_killed", "--nocapture", "--test-threads=1"])
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
