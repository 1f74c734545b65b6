//! Exporting, reading and importing a branch take memory for blocks, whatever the branch holds.
//!
//! Each is done by a process of its own, which prints the most memory that it ever had.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail loudly")]

use std::ops::ControlFlow;
use std::path::Path;
use std::process::Command;

use duramen_pack::branch::{export, BranchPack, ExportOptions};
use duramen_store::{Options, Part, Store, Value};

/// Names the folder to the child, and what to do there.
const FOLDER_VARIABLE: &str = "DURAMEN_TEST_PACK_FOLDER";
const WORK_VARIABLE: &str = "DURAMEN_TEST_PACK_WORK";

fn options() -> Options {
    Options { memory_bytes: 4 << 20, ..Options::default() }
}

fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

/// Values that do not compress, so that the file is as large as the data.
fn fill(path: &Path, bytes: usize) {
    let store = Store::open(path.join("store"), options()).unwrap();
    let mut rng = fastrand::Rng::with_seed(1);
    let pairs = (0..bytes / 1000).map(|number| {
        let value: Vec<u8> = (0..125).flat_map(|_| rng.u64(..).to_le_bytes()).collect();
        (format!("key {number:08}"), Value::Bytes(value))
    });
    store.branch("main").unwrap().bulk_load("default", pairs).unwrap();
    store.close().unwrap();
}

/// The child's part. It does nothing when the test is run by itself.
#[test]
fn child() {
    let Some(folder) = std::env::var_os(FOLDER_VARIABLE) else { return };
    let folder = Path::new(&folder);
    let pack = folder.join("main.dpack");
    match std::env::var(WORK_VARIABLE).unwrap().as_str() {
        "export" => {
            let store = Store::open(folder.join("store"), Options { read_only: true, ..options() }).unwrap();
            let main = store.branch("main").unwrap();
            export(&main, &pack, ExportOptions::default(), &mut |_, _| {}).unwrap();
        }
        "read" => {
            let snapshot = BranchPack::open(&pack).unwrap().snapshot().unwrap();
            let nothing = Store::memory().branch("main").unwrap().snapshot().unwrap();
            let mut rows = 0;
            let count = |_: duramen_store::RawChange<'_>| {
                rows += 1;
                ControlFlow::Continue(())
            };
            nothing.diff_with(&snapshot, &Part::default(), count).unwrap();
            assert_eq!(rows, snapshot.entries());
        }
        _ => {
            BranchPack::open(&pack).unwrap().verify(&mut |_, _| {}).unwrap();
        }
    }
    println!("\npeak {}", peak_bytes());
}

fn peak(folder: &Path, work: &str) -> u64 {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture", "--test-threads", "1"])
        .env(FOLDER_VARIABLE, folder)
        .env(WORK_VARIABLE, work)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{work}: {text}");
    text.lines().find_map(|line| line.strip_prefix("peak ")).unwrap().parse().unwrap()
}

/// P-8: ten times the data, and no more memory than a cache takes to fill.
#[test]
fn memory_does_not_grow_with_the_branch() {
    let (small, large) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fill(small.path(), 8 << 20);
    fill(large.path(), 80 << 20);
    for work in ["export", "read", "verify"] {
        let (less, more) = (peak(small.path(), work), peak(large.path(), work));
        println!("{work}: {} MiB for 8 MiB, {} MiB for 80 MiB", less >> 20, more >> 20);
        assert!(more < less + (24 << 20), "{work}: {less} bytes for 8 MiB, {more} for 80 MiB");
    }
}
