//! Every reader is given bytes that are nearly right: it refuses them or reads them, and never panics, loops, or takes
//! memory by what a length says. The same readers are targets of the fuzzer under `fuzz/`.
//!
//! `DURAMEN_SOAK_SECONDS` says for how long each.

use std::path::Path;
use std::time::Duration;

use crate::c1z_support::*;
use duramen_access::graph::*;
use duramen_access::hostile;
use duramen_base::{clock, entropy};

/// Changes bytes as disks and attackers do.
fn damage(bytes: &mut Vec<u8>, random: &mut fastrand::Rng) {
    for _ in 0..random.usize(1..4) {
        let length = bytes.len();
        if length == 0 {
            return;
        }
        let at = random.usize(..length);
        match random.u8(..8) {
            0 => bytes.truncate(at),
            1 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][random.usize(..5)],
            2 => {
                let end = (at + 8).min(length);
                bytes[at..end].fill(0xff);
            }
            3 => {
                let copy = bytes[at..length.min(at + random.usize(1..64))].to_vec();
                bytes.splice(at..at, copy);
            }
            4 => drop(bytes.drain(at..length.min(at + 16))),
            _ => bytes[at] ^= 1 << random.u8(..8),
        }
    }
}

/// Gives a reader what is valid, and mutants of it for a while; some of them have to be refused.
fn attack(name: &str, valid: &[Vec<u8>], read: impl Fn(&[u8]) -> bool) {
    let refused = attacked(name, valid, read);
    assert!(refused > 0, "{name}: nothing was refused");
}

/// As [`attack`]; how many were refused.
fn attacked(name: &str, valid: &[Vec<u8>], read: impl Fn(&[u8]) -> bool) -> u64 {
    let soak = std::env::var("DURAMEN_SOAK_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    let time = soak.map_or(Duration::from_millis(800), Duration::from_secs);
    let seed = entropy::seed();
    println!("{name}: DURAMEN_SEED={seed}, {} to begin with", valid.len());
    let mut random = entropy::rng(seed);
    assert!(
        !valid.is_empty() && valid.iter().take(300).all(|bytes| read(bytes)),
        "{name}: what is valid is read"
    );
    let (mut rounds, mut refused) = (0_u64, 0_u64);
    let begun = clock::now();
    while begun.elapsed() < time {
        let mut bytes = valid[random.usize(..valid.len())].clone();
        damage(&mut bytes, &mut random);
        refused += u64::from(!read(&bytes));
        rounds += 1;
    }
    println!("{name}: {refused} of {rounds} refused");
    refused
}

fn ending(folder: &Path, ending: &str) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> = entries.filter(|path| path.extension().is_some_and(|it| it == ending)).collect();
    paths.sort();
    paths
}

/// What lies in the files that the ecosystem's SDK wrote, by the endings or beginnings of names.
fn parts(is_meant: impl Fn(&str) -> bool) -> Vec<Vec<u8>> {
    let folders = [fixture("sdk/files"), fixture("")];
    let paths = folders.iter().flat_map(|folder| ending(folder, "c1z"));
    let parts = paths.flat_map(|path| hostile::files_of(&path));
    parts.filter(|(name, bytes)| is_meant(name) && !bytes.is_empty()).map(|(_, bytes)| bytes).collect()
}

#[test]
fn tables_blocks_and_records_that_are_nearly_right_are_read_or_refused() {
    let tables = parts(|name| name.ends_with(".sst"));
    attack("table", &tables, hostile::table);
    let blocks: Vec<_> = tables.iter().flat_map(|table| hostile::blocks_of(table)).collect();
    attack("block", &blocks, hostile::block);
    let records: Vec<_> =
        tables.iter().flat_map(|table| hostile::records_of(table)).filter(|it| !it.is_empty()).collect();
    let records: Vec<_> = records.into_iter().filter(|record| hostile::record(record)).collect();
    attack("record", &records, hostile::record);
}

#[test]
fn manifests_and_logs_that_are_nearly_right_are_read_or_refused() {
    attack("manifest", &parts(|name| name.starts_with("MANIFEST")), hostile::manifest);
    // A log knows its number.
    let paths = [ending(&fixture("sdk/files"), "c1z"), ending(&fixture(""), "c1z")].concat();
    let files = paths.iter().flat_map(|path| hostile::files_of(path));
    let logs = files.filter_map(|(name, bytes)| {
        let number: u64 = name.strip_suffix(".log")?.parse().ok()?;
        (!bytes.is_empty()).then(|| [&number.to_le_bytes()[..], &bytes].concat())
    });
    attack("log", &logs.collect::<Vec<_>>(), hostile::log);
}

#[test]
fn files_packs_and_journals_that_are_nearly_right_are_read_or_refused() {
    let old = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/v1");
    let files =
        [ending(&old, "c1z"), ending(&fixture("sdk/files"), "c1z"), ending(&fixture(""), "c1z")].concat();
    // The tables of this one are right, and its keys are not those of a graph.
    let is_graph = |path: &&std::path::PathBuf| !path.ends_with("values.c1z");
    let files: Vec<Vec<u8>> =
        files.iter().filter(is_graph).map(|path| std::fs::read(path).unwrap()).collect();
    attack("file", &files, hostile::file);
    let packs: Vec<Vec<u8>> = ending(&old, "dpack").iter().map(|path| std::fs::read(path).unwrap()).collect();
    attack("pack", &packs, hostile::pack);

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("graph.dpack");
    let graph = Graph::random(31, 60);
    let mut store = GraphStore::open(&path).unwrap();
    store.begin(Sync { ended_at: None, ..graph.sync.clone() }).unwrap();
    store.put_resources(&graph.resources).unwrap();
    store.put_entitlements(&graph.entitlements).unwrap();
    store.put_grants(graph.grants.iter().map(GrantRef::from)).unwrap();
    store.delete_grants(&[&graph.grants[3].id]).unwrap();
    store.checkpoint("here").unwrap();
    store.close().unwrap();
    // What is damaged loses batches at its end.
    attacked("journal", &[std::fs::read(dir.path().join("graph.dpack.journal")).unwrap()], hostile::journal);
}
