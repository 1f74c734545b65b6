//! A compaction makes of several files what the ecosystem's own compactor makes of them, whole or not at all.
//!
//! `sdk/compactions.go` made files and let the SDK compact them; `make peers-c1z` makes hundreds of new ones.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use base64::engine::general_purpose::STANDARD;
use base64::Engine as _;
use serde_json::Value;

use crate::c1z_support::*;
use duramen_access::c1z::ReadOptions;
use duramen_access::compact::*;
use duramen_access::convert::Format;
use duramen_access::file::GraphFile;
use duramen_access::graph::*;
use duramen_base::entropy;

fn read(path: &Path) -> Graph {
    Graph::read(&GraphFile::open(path, &ReadOptions::default()).unwrap()).unwrap()
}

fn compact(inputs: &[PathBuf], to: &Path, format: Option<Format>) -> Result<Compacted, CompactError> {
    let (inputs, to) = (inputs.to_vec(), to.to_owned());
    Compaction { inputs, to, format, read: ReadOptions::default() }.run()
}

/// The lines of `make peers-c1z`, or those that are kept.
fn made_by_the_sdk() -> String {
    match std::env::var_os("DURAMEN_COMPACTIONS") {
        Some(path) => std::fs::read_to_string(path).unwrap(),
        None => {
            let packed = std::fs::File::open(fixture("sdk/compactions.jsonl.zst")).unwrap();
            let mut decoder = zstd::Decoder::new(packed).unwrap();
            decoder.window_log_max(27).unwrap();
            std::io::read_to_string(decoder).unwrap()
        }
    }
}

#[test]
fn what_is_compacted_is_what_the_sdk_compacts() {
    let (mut seen, mut kinds, mut replaced) = (0, std::collections::BTreeSet::new(), 0);
    for line in made_by_the_sdk().lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let name = line["name"].as_str().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let write = |file: String, bytes: &Value| {
            let path = dir.path().join(file);
            std::fs::write(&path, STANDARD.decode(bytes.as_str().unwrap()).unwrap()).unwrap();
            path
        };
        let files = line["files"].as_array().unwrap().iter().enumerate();
        let inputs: Vec<_> = files.map(|(number, bytes)| write(format!("{number}.c1z"), bytes)).collect();
        let expected = read(&write("sdk.c1z".to_owned(), &line["out"]));
        let to = dir.path().join("ours.c1z");
        let compacted = compact(&inputs, &to, None).unwrap_or_else(|error| panic!("{name}: {error}"));
        let found = read(&to);
        assert_eq!(found.resource_types, expected.resource_types, "{name}");
        assert_eq!(found.resources, expected.resources, "{name}");
        assert_eq!(found.entitlements, expected.entitlements, "{name}");
        assert_eq!(found.grants, expected.grants, "{name}");
        assert_eq!(found.sync.kind, expected.sync.kind, "{name}");
        if name.ends_with("sqlite") {
            // There the moment of the compaction counts too.
            let last = inputs.iter().map(|path| read(path).sync.ended_at).max().unwrap();
            assert!(found.sync.ended_at > last && expected.sync.ended_at > last, "{name}");
        } else {
            assert_eq!(found.sync.ended_at, expected.sync.ended_at, "{name}");
        }
        assert_eq!((&found.sync.parent, &found.sync.linked), (&expected.sync.parent, &expected.sync.linked));
        assert_eq!(found.sync.id, compacted.sync.id);
        assert_eq!(compacted.of.len(), inputs.len());
        let is_of = |version: &str| compacted.format.name() == version;
        assert!(if name.ends_with("sqlite") { is_of("c1z1") } else { is_of("c1z3") }, "{name}");
        // Its other strategies begin with an empty file, and forget the assets of the base.
        if name.ends_with("fold") {
            assert_eq!(found.assets, expected.assets, "{name}");
        }
        let section = |sync: &Sync| serde_json::from_str::<Value>(&sync.token).unwrap()["compaction"].clone();
        if name.ends_with("overlay") {
            let (ours, theirs) = (section(&found.sync), section(&expected.sync));
            for field in ["mode", "base_sync_id", "stats_sync_id", "partial_count"] {
                assert_eq!(ours[field], theirs[field], "{name}: {field}");
            }
        }
        kinds.insert(name.split(' ').nth(1).unwrap().to_owned());
        let rows: usize = inputs.iter().map(|path| read(path).resources.len()).sum();
        replaced += rows - found.resources.len();
        seen += 1;
    }
    assert!(seen >= 15 && kinds.len() == 5 && replaced > 100, "{seen} {kinds:?} {replaced}");
}

/// A sync with one user, in a file of a format; and its id.
fn user(path: &Path, format: Format, sync: &Sync, name: &str, seconds: Option<i64>) {
    let mut graph = Graph { sync: sync.clone(), ..Graph::default() };
    graph.resources.push(Resource {
        id: ResourceId::new("user", "ada"),
        display_name: name.to_owned(),
        discovered_at: seconds.map(|seconds| Timestamp { seconds, nanos: 0 }),
        ..Resource::default()
    });
    match format {
        Format::C1z1 => drop(write_v1(&graph, path)),
        Format::C1z3 => drop(write_v3(&graph, path)),
        Format::Pack => {
            let mut store = GraphStore::open(path).unwrap();
            graph.put(&mut store).unwrap();
            store.close().unwrap();
        }
    }
}

fn sync(number: i64, kind: SyncKind) -> Sync {
    let started_at = Timestamp { seconds: 1_700_000_000 + number, nanos: 0 };
    let ended_at = Some(Timestamp { seconds: started_at.seconds + 10, nanos: 7 });
    Sync { id: format!("2aGyRUbxAdE4MTzLqMxgsT1H{number:03}"), kind, started_at, ended_at, ..Sync::default() }
}

#[test]
fn the_row_that_was_discovered_last_stays_and_of_one_moment_that_of_the_last_file() {
    for format in [Format::Pack, Format::C1z1, Format::C1z3] {
        for (times, expected) in [
            ([Some(5), Some(9), Some(7)], "b"),
            ([Some(9), Some(5), Some(7)], "a"),
            ([Some(5), Some(5), Some(5)], "c"),
            ([Some(9), Some(9), Some(5)], "b"),
            ([None, Some(5), None], "b"),
        ] {
            // Version 1 holds no row without a time.
            if format == Format::C1z1 && times.contains(&None) {
                continue;
            }
            let dir = tempfile::tempdir().unwrap();
            let inputs: Vec<PathBuf> = ["a", "b", "c"].iter().map(|name| dir.path().join(name)).collect();
            for (number, (path, time)) in inputs.iter().zip(times).enumerate() {
                let kind = if number == 0 { SyncKind::Full } else { SyncKind::Partial };
                let name = path.file_name().unwrap().to_str().unwrap();
                user(path, format, &sync(number as i64, kind), name, time);
            }
            let to = dir.path().join("out");
            let compacted = compact(&inputs, &to, None).unwrap();
            assert_eq!(compacted.format, format);
            let graph = read(&to);
            assert_eq!(graph.resources.len(), 1);
            assert_eq!(graph.resources[0].display_name, expected, "{format:?} {times:?}");
        }
    }
}

#[test]
fn the_result_is_as_wide_as_the_widest_and_what_is_no_snapshot_takes_no_part() {
    use SyncKind::{Full, Partial, PartialDeletions, PartialUpserts, ResourcesOnly};
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    for (number, (left, right, expected)) in [
        (Full, Partial, Full),
        (Partial, Full, Full),
        (Partial, ResourcesOnly, ResourcesOnly),
        (Partial, Partial, Partial),
    ]
    .into_iter()
    .enumerate()
    {
        let inputs = [path(&format!("{number}a")), path(&format!("{number}b"))];
        user(&inputs[0], Format::C1z3, &sync(1, left), "a", Some(1));
        user(&inputs[1], Format::C1z3, &sync(2, right), "b", Some(2));
        let compacted = compact(&inputs, &path("out.dpack"), Some(Format::Pack)).unwrap();
        assert_eq!(compacted.sync.kind, expected);
        assert_eq!(compacted.sync.ended_at, sync(2, right).ended_at);
        std::fs::remove_file(path("out.dpack")).unwrap();
    }
    let good = path("0a");
    let bad = path("bad");
    let unfinished = Sync { ended_at: None, ..sync(3, Full) };
    for wrong in [sync(3, PartialUpserts), sync(3, PartialDeletions), unfinished] {
        user(&bad, Format::C1z3, &wrong, "c", Some(3));
        let refused = compact(&[good.clone(), bad.clone()], &path("out"), None);
        let said = refused.as_ref().unwrap_err().to_string();
        assert!(
            matches!(refused, Err(CompactError::NothingToCompact { .. })) && said.contains(&wrong.id),
            "{said}"
        );
        assert!(!path("out").exists());
    }
    assert!(matches!(
        compact(std::slice::from_ref(&good), &path("out"), None),
        Err(CompactError::TooFew { got: 1 })
    ));
    let same = compact(&[good.clone(), path("0b")], &good, None);
    assert!(matches!(same, Err(CompactError::SameFile { .. })), "{same:?}");
}

#[test]
fn assets_of_the_base_go_along_and_those_of_others_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let inputs = [dir.path().join("a"), dir.path().join("b")];
    for (number, path) in inputs.iter().enumerate() {
        let mut graph = Graph { sync: sync(number as i64, SyncKind::Full), ..Graph::default() };
        graph.assets.push(Asset { id: format!("asset-{number}"), data: vec![1], ..Asset::default() });
        write_v3(&graph, path);
    }
    let to = dir.path().join("out");
    let compacted = compact(&inputs, &to, None).unwrap();
    let assets: Vec<_> = read(&to).assets.into_iter().map(|asset| asset.id).collect();
    assert_eq!(assets, ["asset-0"]);
    let told = |loss: &Loss| loss.row == "asset" && loss.example == "asset-1" && loss.rows == 1;
    assert!(compacted.losses.iter().any(told), "{:?}", compacted.losses);
}

/// Names a folder with two files to a child, and makes it one.
const FOLDER_VARIABLE: &str = "DURAMEN_TEST_COMPACT";

/// The child's part: compacts until it is killed. It does nothing when the test is run by itself.
#[test]
fn child_that_is_killed() {
    let Some(folder) = std::env::var_os(FOLDER_VARIABLE) else { return };
    let folder = Path::new(&folder);
    for _ in 0..100_000 {
        compact(&[folder.join("a.c1z"), folder.join("b.c1z")], &folder.join("out.c1z"), None).unwrap();
    }
}

#[test]
fn a_compaction_that_is_killed_leaves_a_whole_file_or_none() {
    let seed = entropy::seed();
    println!("DURAMEN_SEED={seed}");
    let mut random = entropy::rng(seed);
    let dir = tempfile::tempdir().unwrap();
    let (a, b, out) = (dir.path().join("a.c1z"), dir.path().join("b.c1z"), dir.path().join("out.c1z"));
    write_v3(&Graph { sync: sync(1, SyncKind::Full), ..Graph::random(1, 400) }, &a);
    write_v3(&Graph { sync: sync(2, SyncKind::Partial), ..Graph::random(1, 200) }, &b);
    let begun = duramen_base::clock::now();
    let whole = compact(&[a, b], &out, None).unwrap().copied;
    let once = begun.elapsed().as_micros() as u64;
    let (mut written, mut torn) = (0, 0);
    for round in 0..16 {
        std::fs::remove_file(&out).ok();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "compact::child_that_is_killed", "--nocapture"])
            .env(FOLDER_VARIABLE, dir.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_micros(random.u64(once / 4..3 * once + 20_000)));
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().code(), None, "round {round}: to be killed, not to fail");
        if out.exists() {
            assert_eq!(read(&out).grants.len() as u64, whole.grants, "seed {seed}, round {round}");
            written += 1;
        }
        torn += u32::from(dir.path().join(".out.c1z.part").exists());
    }
    println!("{written} written, {torn} killed while writing");
    assert!(written > 0, "seed {seed}");
}
