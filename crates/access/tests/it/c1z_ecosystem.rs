//! What other programs write is read, and what is written is read by other programs: Pebble, SQLite, libzstd.
//!
//! The fixtures were written by the programs beside them. Where Go, or Python with zstandard, is installed, the same
//! programs run too; without them those tests say so and prove nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::c1z_support::*;
use duramen_access::c1z::*;
use duramen_access::graph::*;

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap()).collect()
}

/// Keys and values that Pebble gives for a file.
fn rows_of(lines: &str) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let row = |line: &str| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        (unhex(line["key"].as_str().unwrap()), unhex(line["value"].as_str().unwrap()))
    };
    lines.lines().map(row).collect()
}

/// The fields of length-delimited kind of a flat message.
fn field(message: &[u8], number: u8) -> String {
    let mut rest = message;
    while let [tag, length, after @ ..] = rest {
        let (value, next) = after.split_at(usize::from(*length));
        if *tag == number << 3 | 2 {
            return String::from_utf8(value.to_vec()).unwrap();
        }
        rest = next;
    }
    String::new()
}

/// The resource types of a file are those that Pebble found in it.
fn assert_same(path: &Path, lines: &str) {
    let file = C1z3::open(path, &ReadOptions { check_sha256: true, ..ReadOptions::default() }).unwrap();
    assert_eq!(file.syncs().unwrap()[0].id, SYNC);
    let mut found = Vec::new();
    file.for_each_resource_type(SYNC, &mut |row| {
        found.push((row.id, row.display_name));
        std::ops::ControlFlow::Continue(())
    })
    .unwrap();
    found.sort();
    let types = rows_of(lines).into_iter().filter(|(key, _)| key.starts_with(&[3, 1]));
    let mut expected: Vec<_> = types.map(|(_, value)| (field(&value, 2), field(&value, 3))).collect();
    expected.sort();
    assert_eq!(found, expected);
    assert!(found.len() > 200);
}

#[test]
fn files_that_pebble_wrote_as_logs_and_as_tables_are_read() {
    for form in ["log", "rows", "values", "columns"] {
        let lines = std::fs::read_to_string(fixture(&format!("{form}.jsonl"))).unwrap();
        assert_same(&fixture(&format!("{form}.c1z")), &lines);
    }
}

#[test]
fn tables_with_a_flipped_bit_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("flipped.c1z");
    for (form, step) in [("rows", 3), ("values", 3), ("columns", 17)] {
        let bytes = std::fs::read(fixture(&format!("{form}.c1z"))).unwrap();
        let whole =
            Graph::read(&C1z3::open(&fixture(&format!("{form}.c1z")), &ReadOptions::default()).unwrap())
                .unwrap();
        for at in (0..bytes.len()).step_by(step) {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << (at % 8);
            std::fs::write(&path, &flipped).unwrap();
            // Tables are verified when they are read.
            if let Ok(read) = C1z3::open(&path, &ReadOptions::default()).and_then(|file| Graph::read(&file)) {
                assert_eq!(read, whole, "{form}: byte {at}");
            }
        }
    }
}

/// Output of a program that has to succeed.
fn output(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    assert!(status.success(), "{command:?}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).unwrap()
}

/// The program beside the fixtures, built; none without Go, or without its modules and a network.
fn pebble(dir: &Path) -> Option<PathBuf> {
    let program = dir.join("pebble");
    let go = ["go", "/usr/local/go/bin/go"]
        .into_iter()
        .find(|go| Command::new(go).arg("version").output().is_ok())?;
    let built = Command::new(go)
        .args(["build", "-o"])
        .arg(&program)
        .arg(".")
        .current_dir(fixture("pebble"))
        .env("GOFLAGS", "-mod=readonly")
        .output()
        .unwrap();
    if !built.status.success() {
        eprintln!("Pebble is not there: {}", String::from_utf8_lossy(&built.stderr));
        return None;
    }
    Some(program)
}

#[test]
fn pebble_reads_what_is_written_and_its_own_files_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let Some(pebble) = pebble(dir.path()) else {
        eprintln!("skipped: the live comparison with Pebble needs Go and its modules");
        return;
    };
    for form in ["log", "rows", "values", "columns"] {
        let path = dir.path().join("theirs.c1z");
        output(Command::new(&pebble).arg("make").arg(&path).arg(form));
        assert_same(&path, &output(Command::new(&pebble).arg("dump").arg(&path)));
    }
    // What was written with logs, and what is written with tables, is the same to Pebble.
    let kept = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/v1").join(name);
    let dump = |path: &Path| rows_of(&output(Command::new(&pebble).arg("dump").arg(path)));
    let (logs, tables) = (dump(&kept("graph.3.c1z")), dump(&kept("graph.3t.c1z")));
    assert!(logs == tables && logs.len() > 900, "{} and {} rows", logs.len(), tables.len());
    let path = dir.path().join("tables.c1z");
    let grants = write_many(&path);
    let rows = dump(&path);
    assert_eq!(rows.keys().filter(|key| key.starts_with(&[3, 4])).count(), grants);
    assert_eq!(rows.keys().filter(|key| key.starts_with(&[3, 7, 4])).count(), grants);
    for seed in 20..24 {
        let (path, graph) = (dir.path().join("ours.c1z"), Graph::random(seed, 400));
        assert_eq!(write_v3(&graph, &path), []);
        let rows = dump(&path);
        let count = |prefix: &[u8]| rows.keys().filter(|key| key.starts_with(prefix)).count();
        assert_eq!(count(&[3, 1]), graph.resource_types.len());
        assert_eq!(count(&[3, 2]), graph.resources.len());
        assert_eq!(count(&[3, 3]), graph.entitlements.len());
        assert_eq!(count(&[3, 4]), graph.grants.len());
        assert_eq!(count(&[3, 5]), graph.assets.len());
        assert_eq!(count(&[3, 6]), 1);
        assert_eq!(count(&[3, 7, 1]), graph.resources.iter().filter(|row| row.parent.is_some()).count());
        assert_eq!(count(&[3, 7, 4]), graph.grants.len());
        assert_eq!(count(&[3, 7, 5]), graph.grants.iter().filter(|row| row.needs_expansion).count());
        assert_eq!(count(&[3, 0xff]), 2);
    }
}

/// A Python with zstandard, installed into `dir` if it has to be; none without Python, or without a network.
fn python(dir: &Path) -> Option<PathBuf> {
    let has = |python: &Path| {
        let run = Command::new(python).args(["-c", "import sqlite3, zstandard"]).output();
        run.is_ok_and(|run| run.status.success())
    };
    let system = PathBuf::from("python3");
    if has(&system) {
        return Some(system);
    }
    let made = Command::new(&system).args(["-m", "venv"]).arg(dir.join("venv")).output().ok()?;
    let own = dir.join("venv/bin/python");
    let install = ["-m", "pip", "install", "--quiet", "--only-binary", ":all:", "zstandard==0.25.0"];
    let installed = made.status.success() && Command::new(&own).args(install).output().ok()?.status.success();
    (installed && has(&own)).then_some(own)
}

#[test]
fn python_reads_the_version_1_that_is_written_and_its_own_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let Some(python) = python(dir.path()) else {
        eprintln!("skipped: the live comparison with SQLite needs Python with zstandard");
        return;
    };
    let path = dir.path().join("theirs.c1z");
    output(Command::new(&python).arg(fixture("v1.py")).arg("write").arg(&path));
    check_old_file(&path);

    let (path, graph) = (dir.path().join("ours.c1z"), Graph::random(30, 200));
    assert_eq!(write_v1(&graph, &path), []);
    let lines = output(Command::new(&python).arg(fixture("v1.py")).arg("dump").arg(&path));
    let lines: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ids = |table: &str| {
        let rows = lines.iter().filter(|line| line["table"] == table);
        let mut ids: Vec<String> =
            rows.map(|line| line["external_id"].as_str().unwrap().to_owned()).collect();
        ids.sort();
        ids
    };
    let sorted = |mut ids: Vec<String>| {
        ids.sort();
        ids
    };
    assert_eq!(ids("v1_grants"), sorted(graph.grants.iter().map(|row| row.id.clone()).collect()));
    assert_eq!(ids("v1_entitlements"), sorted(graph.entitlements.iter().map(|row| row.id.clone()).collect()));
    let of_resource = |row: &Resource| format!("{}:{}", row.id.resource_type, row.id.resource);
    assert_eq!(ids("v1_resources"), sorted(graph.resources.iter().map(of_resource).collect()));
    assert_eq!(lines.iter().filter(|line| line["sync_id"] == SYNC).count(), lines.len());
}

/// What `v1.py write` puts into a file.
fn check_old_file(path: &Path) {
    let graph = read_v1(path).unwrap();
    let time = Some(Timestamp { seconds: 1_767_323_045, nanos: 6 });
    assert_eq!((graph.sync.token.as_str(), graph.sync.ended_at), ("token", time));
    assert_eq!(graph.resource_types[0].traits, [Trait::User, Trait::Group]);
    assert_eq!(graph.resource_types[0].extra.connector, b"\x72\x07unknown");
    let grant = &graph.grants[0];
    assert_eq!(
        grant.entitlement,
        EntitlementRef { resource: ResourceId::new("app", "a"), id: "app:a:e".to_owned() }
    );
    assert_eq!(grant.principal.id, ResourceId::new("user", "u"));
    assert_eq!(grant.expansion.as_ref().unwrap().entitlement_ids, ["app:a:e"]);
    assert!(grant.needs_expansion && grant.annotations.is_empty() && grant.discovered_at == time);
}

#[test]
fn a_version_1_file_of_an_old_writer_is_read() {
    check_old_file(&fixture("old_v1.c1z"));
}
