//! Which syncs go is what the rules say of each; those that stay keep all their rows.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::c1z_support::*;
use duramen_access::c1z::{C1z1Writer, ReadOptions, WriteOptions};
use duramen_access::file::GraphFile;
use duramen_access::graph::*;
use duramen_access::prune::*;
use duramen_base::entropy;

fn time(seconds: i64) -> Timestamp {
    Timestamp { seconds, nanos: 0 }
}

#[test]
fn a_sync_goes_exactly_if_a_rule_says_so() {
    let mut random = fastrand::Rng::with_seed(7);
    let (mut gone, mut stayed) = (0, 0);
    for case in 0..2_000 {
        let count = random.usize(..10);
        let mut syncs: Vec<Sync> = (0..count)
            .map(|number| {
                let started = random.i64(0..50);
                Sync {
                    id: format!("s{number}"),
                    kind: SyncKind::ALL[random.usize(..5)],
                    started_at: time(started),
                    ended_at: (random.u8(..5) > 0).then(|| time(started + random.i64(0..20))),
                    ..Sync::default()
                }
            })
            .collect();
        for sync in &mut syncs {
            sync.linked = random.bool().then(|| format!("s{}", random.usize(..count)));
        }
        let (keep, since) = (random.usize(..4), random.bool().then(|| random.i64(0..60)));
        let goes = outdated(&syncs, keep, since);
        let begun = |sync: &&Sync| (sync.started_at, sync.id.clone());
        let of = |kinds: &[SyncKind]| {
            let mut all: Vec<&Sync> =
                syncs.iter().filter(|sync| sync.ended_at.is_some() && kinds.contains(&sync.kind)).collect();
            all.sort_by_key(begun);
            all
        };
        let full = of(&[SyncKind::Full]);
        let differences = of(&[SyncKind::PartialUpserts, SyncKind::PartialDeletions]);
        let kept = &full[full.len() - full.len().min(keep.max(1))..];
        let any: Vec<&Sync> = of(&SyncKind::ALL);
        let last = full
            .iter()
            .chain(any.iter().filter(|_| full.is_empty()))
            .max_by_key(|sync| (sync.ended_at, begun(sync)));
        for sync in &syncs {
            let is_old = since.is_some_and(|since| sync.ended_at.is_some_and(|ended| ended.seconds < since));
            let by_kind = match sync.kind {
                SyncKind::Full => kept.iter().all(|kept| kept.id != sync.id),
                SyncKind::Partial | SyncKind::ResourcesOnly => {
                    full.len() > kept.len()
                        && kept.first().is_some_and(|first| sync.ended_at < Some(first.started_at))
                }
                _ => differences.last().is_some_and(|latest| {
                    differences.len() > 2 && latest.id != sync.id && latest.linked.as_ref() != Some(&sync.id)
                }),
            };
            let is_last = last.is_some_and(|last| last.id == sync.id);
            let expected = sync.ended_at.is_some() && !is_last && (is_old || by_kind);
            assert_eq!(
                goes.contains(&sync.id),
                expected,
                "case {case}: {sync:?} of {syncs:?}, {keep}, {since:?}"
            );
            *(if expected { &mut gone } else { &mut stayed }) += 1;
        }
    }
    assert!(gone > 1_000 && stayed > 1_000, "{gone} {stayed}");
}

#[test]
fn what_stays_keeps_its_rows_and_a_file_from_which_nothing_goes_is_not_written() {
    let dir = tempfile::tempdir().unwrap();
    let graphs: Vec<Graph> = (0..4)
        .map(|number| {
            let mut graph = Graph::random(80 + number, 40);
            graph.sync.id = new_id(number);
            graph.sync.kind = if number == 2 { SyncKind::Partial } else { SyncKind::Full };
            graph.sync.started_at = time(1_700_000_000 + number as i64 * 100);
            graph.sync.ended_at = (number < 3).then(|| time(1_700_000_050 + number as i64 * 100));
            (graph.sync.parent, graph.sync.linked) = (None, None);
            graph
        })
        .collect();
    let pack = dir.path().join("a.dpack");
    let mut store = GraphStore::open(&pack).unwrap();
    graphs.iter().for_each(|graph| graph.put(&mut store).unwrap());
    store.close().unwrap();
    let old = dir.path().join("1.c1z");
    let mut writer = C1z1Writer::create(&old, &WriteOptions::default()).unwrap();
    graphs.iter().for_each(|graph| graph.put(&mut writer).unwrap());
    writer.finish().unwrap();
    for file in [pack, old] {
        let read = |id: &str| {
            let file = GraphFile::open(&file, &ReadOptions::default()).unwrap();
            let mut rows = Vec::new();
            file.for_each_grant(id, &mut |row| {
                rows.push(row);
                std::ops::ControlFlow::Continue(())
            })
            .map(|()| rows)
        };
        let before: Vec<_> = graphs.iter().map(|graph| read(&graph.sync.id).unwrap()).collect();
        let pruning =
            Pruning { file: file.clone(), keep: 1, older_than_s: None, read: ReadOptions::default() };
        let done = pruning.run().unwrap();
        let ids = |syncs: &[Sync]| syncs.iter().map(|sync| sync.id.clone()).collect::<Vec<_>>();
        // The second full one stays, the partial one after it, and the one that has not ended.
        assert_eq!((ids(&done.removed), ids(&done.kept).len()), (vec![new_id(0)], 3), "{}", file.display());
        assert!(read(&new_id(0)).is_err());
        for (graph, rows) in graphs.iter().zip(&before).skip(1) {
            assert_eq!(&read(&graph.sync.id).unwrap(), rows);
        }
        let bytes = std::fs::read(&file).unwrap();
        assert!(pruning.run().unwrap().removed.is_empty());
        assert_eq!(std::fs::read(&file).unwrap(), bytes);
        // Everything is older than a second: the last complete one stays, and what goes on.
        let done = Pruning { older_than_s: Some(1), ..pruning }.run().unwrap();
        assert_eq!(ids(&done.removed), [new_id(2)]);
        assert_eq!(ids(&done.kept), [new_id(1), new_id(3)]);
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
}

/// Names a file to a child, and makes it one.
const FILE_VARIABLE: &str = "DURAMEN_TEST_PRUNE";

fn pruning(file: &Path) -> Pruning {
    Pruning { file: file.to_owned(), keep: 1, older_than_s: None, read: ReadOptions::default() }
}

/// The child's part: puts the whole file back and prunes it, until it is killed. It does nothing when the test is run by itself.
#[test]
fn child_that_is_killed() {
    let Some(file) = std::env::var_os(FILE_VARIABLE).map(PathBuf::from) else { return };
    for _ in 0..100_000 {
        let again = file.with_extension("again");
        std::fs::copy(file.with_extension("whole"), &again).unwrap();
        std::fs::rename(&again, &file).unwrap();
        pruning(&file).run().unwrap();
    }
}

/// What is replaced in its place (here and by expansion) is the old file or the new one, and can be replaced again.
#[test]
fn a_file_whose_pruning_is_killed_is_the_old_one_or_the_new_one() {
    let seed = entropy::seed();
    println!("DURAMEN_SEED={seed}");
    let mut random = entropy::rng(seed);
    let dir = tempfile::tempdir().unwrap();
    let graphs: Vec<Graph> = (0..2)
        .map(|number| {
            let mut graph = Graph::random(90 + number, 400);
            (graph.sync.id, graph.sync.kind) = (new_id(number), SyncKind::Full);
            graph.sync.started_at = time(1_700_000_000 + number as i64 * 100);
            graph.sync.ended_at = Some(time(1_700_000_050 + number as i64 * 100));
            (graph.sync.parent, graph.sync.linked) = (None, None);
            graph
        })
        .collect();
    let (pack, old) = (dir.path().join("a.dpack"), dir.path().join("1.c1z"));
    let mut store = GraphStore::open(&pack).unwrap();
    graphs.iter().for_each(|graph| graph.put(&mut store).unwrap());
    store.close().unwrap();
    let mut writer = C1z1Writer::create(&old, &WriteOptions::default()).unwrap();
    graphs.iter().for_each(|graph| graph.put(&mut writer).unwrap());
    writer.finish().unwrap();
    for file in [pack, old] {
        std::fs::copy(&file, file.with_extension("whole")).unwrap();
        let begun = duramen_base::clock::now();
        pruning(&file).run().unwrap();
        let once = begun.elapsed().as_micros() as u64;
        let (mut whole, mut pruned) = (0, 0);
        for round in 0..12 {
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "prune::child_that_is_killed", "--nocapture"])
                .env(FILE_VARIABLE, &file)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            std::thread::sleep(Duration::from_micros(random.u64(once / 4..3 * once + 20_000)));
            child.kill().unwrap();
            assert_eq!(child.wait().unwrap().code(), None, "round {round}: to be killed, not to fail");
            let opened = GraphFile::open(&file, &ReadOptions::default()).unwrap();
            let ids: Vec<String> = opened.syncs().unwrap().into_iter().map(|sync| sync.id).collect();
            for id in &ids {
                let mut rows = 0;
                opened
                    .for_each_grant(id, &mut |_| {
                        rows += 1;
                        std::ops::ControlFlow::Continue(())
                    })
                    .unwrap();
                let graph = graphs.iter().find(|graph| graph.sync.id == *id).expect("one of the two");
                assert_eq!(rows, graph.grants.len(), "seed {seed}, round {round}");
            }
            match ids.as_slice() {
                [_, _] => whole += 1,
                [only] if *only == new_id(1) => pruned += 1,
                other => panic!("seed {seed}, round {round}: {other:?}"),
            }
        }
        println!("{}: {whole} whole, {pruned} pruned", file.display());
        pruning(&file).run().unwrap();
        let opened = GraphFile::open(&file, &ReadOptions::default()).unwrap();
        assert_eq!(opened.syncs().unwrap().len(), 1, "what was left behind keeps nobody from going on");
    }
}

fn new_id(number: u64) -> String {
    format!("{}{number}", &SYNC[..26])
}

/// In any order and in any batches, with all rows in memory or in runs: what is there in the end is the newest, of the same time the first.
#[test]
fn rows_that_are_put_if_newer_take_the_place_of_older_ones_only() {
    let dir = tempfile::tempdir().unwrap();
    let mut random = fastrand::Rng::with_seed(3);
    let path = dir.path().join("a.dpack");
    let mut store = GraphStore::open(&path).unwrap();
    store.start_sync(SyncKind::Partial, None).unwrap();
    let mut expected: std::collections::BTreeMap<String, Grant> = Default::default();
    let mut types: std::collections::BTreeMap<String, ResourceType> = Default::default();
    let (mut taken, mut refused) = (0, 0);
    for round in 0..60 {
        let time = |random: &mut fastrand::Rng| (random.u8(..8) > 0).then(|| time(random.i64(0..100)));
        let batch: Vec<Grant> = (0..random.usize(..30))
            .map(|_| {
                let mut grant = Grant { id: format!("g{}", random.u8(..40)), ..Grant::default() };
                grant.entitlement.id = format!("e{}", random.u8(..3));
                grant.entitlement.resource = ResourceId::new("app", "x");
                grant.principal.id = ResourceId::new("user", format!("u{}", random.u8(..5)));
                grant.discovered_at = time(&mut random);
                grant
            })
            .collect();
        let mut count = 0;
        for row in &batch {
            let is_newer = match (row.discovered_at, expected.get(&row.id)) {
                (None, _) | (_, None) => true,
                (Some(time), Some(known)) => known.discovered_at.is_none_or(|known| time > known),
            };
            if is_newer {
                expected.insert(row.id.clone(), row.clone());
                count += 1;
            }
        }
        assert_eq!(store.put_grants_if_newer(&batch).unwrap(), count);
        taken += count;
        refused += batch.len() as u64 - count;
        let row = ResourceType {
            id: format!("t{}", random.u8(..3)),
            description: format!("round {round}"),
            discovered_at: time(&mut random),
            ..ResourceType::default()
        };
        let known = types.get(&row.id).map(|known| known.discovered_at);
        let is_newer = row.discovered_at.is_none() || known.is_none_or(|known| row.discovered_at > known);
        assert_eq!(store.put_resource_types_if_newer([&row]).unwrap(), u64::from(is_newer));
        if is_newer {
            types.insert(row.id.clone(), row);
        }
        if round % 20 == 9 {
            // What is in the file is looked at as what is not there yet.
            let id = store.current_sync().unwrap().id.clone();
            store.end_sync().unwrap();
            store.open_sync(&id).unwrap();
        }
    }
    store.end_sync().unwrap();
    store.close().unwrap();
    let graph = Graph::read(&GraphPack::open(&path).unwrap()).unwrap();
    assert_eq!(graph.grants, expected.into_values().collect::<Vec<_>>());
    assert_eq!(graph.resource_types, types.into_values().collect::<Vec<_>>());
    assert!(taken > 100 && refused > 100, "{taken} {refused}");
}
