//! How much memory a conversion takes: none that grows with the file where version 1 is read or written, and some bytes a
//! row where version 3 is.
//!
//! Each is done by a process of its own, which prints the most memory that it ever had.

#![allow(clippy::unwrap_used, reason = "steps of tests stand in functions of their own")]

use std::path::Path;
use std::process::Command;

use duramen_access::c1z::*;
use duramen_access::convert::copy;
use duramen_access::graph::*;

/// Names the folder to the child, and makes it one.
const FOLDER_VARIABLE: &str = "DURAMEN_TEST_C1Z_MEMORY";
/// Tells the child what to convert.
const WORK_VARIABLE: &str = "DURAMEN_TEST_C1Z_WORK";

const GRANTS: u64 = 200_000;
const MIB: u64 = 1 << 20;

/// What the design page says of version 1, and of a pack that takes as many rows.
const ANY: u64 = 64 * MIB;
/// What it says of version 3, whose memory grows with the rows.
const ROWS: u64 = ANY + 700 * GRANTS;

/// What is converted into what, and the most memory that it may take, in bytes. A process that does nothing has 4 MiB.
const WORK: [(&str, &str, u64); 4] = [
    ("sync.dpack", "1.c1z", ANY),
    ("1.c1z", "from1.dpack", ANY),
    ("sync.dpack", "3.c1z", ROWS),
    ("3.c1z", "from3.dpack", ROWS),
];

fn fill(path: &Path) {
    let mut store = GraphStore::open(path).unwrap();
    store.start_sync(SyncKind::Full, None).unwrap();
    for batch in 0..GRANTS / 10_000 {
        let grants = (batch * 10_000..(batch + 1) * 10_000).map(|number| {
            let mut grant = Grant::default();
            let (entitlement, user) = (number % 100, number / 100);
            grant.entitlement.resource = ResourceId::new("app", "github");
            grant.entitlement.id = format!("app:github:entitlement-{entitlement:04}");
            grant.principal.id = ResourceId::new("user", format!("user-{user:08}"));
            grant.id = format!("{}:user:user-{user:08}", grant.entitlement.id);
            grant
        });
        store.put_grants(&grants.collect::<Vec<_>>()).unwrap();
    }
    store.end_sync().unwrap();
    store.close().unwrap();
}

fn convert<S: GraphSource>(source: &S, to: &Path) -> u64 {
    let syncs = source.syncs().unwrap();
    let copied = match to.file_name().unwrap().to_str().unwrap() {
        "1.c1z" => {
            let mut sink = C1z1Writer::create(to, &WriteOptions::default()).unwrap();
            let copied = copy(source, &mut sink, &syncs).unwrap();
            sink.finish().unwrap();
            copied
        }
        "3.c1z" => {
            let mut sink = C1z3Writer::create(to, &WriteOptions::default()).unwrap();
            let copied = copy(source, &mut sink, &syncs).unwrap();
            sink.finish().unwrap();
            copied
        }
        _ => {
            let mut sink = GraphStore::open(to).unwrap();
            let copied = copy(source, &mut sink, &syncs).unwrap();
            sink.close().unwrap();
            copied
        }
    };
    copied.grants
}

fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

/// The child's part. It does nothing when the test is run by itself.
#[test]
fn child() {
    let Some(folder) = std::env::var_os(FOLDER_VARIABLE) else { return };
    let folder = Path::new(&folder);
    let work = std::env::var(WORK_VARIABLE).unwrap();
    let (from, to, _) = WORK.into_iter().find(|(from, to, _)| work == format!("{from} {to}")).unwrap();
    let (from, to) = (folder.join(from), folder.join(to));
    let options = ReadOptions::default();
    let grants = match from.file_name().unwrap().to_str().unwrap() {
        "1.c1z" => convert(&C1z1::open(&from, &options).unwrap(), &to),
        "3.c1z" => convert(&C1z3::open(&from, &options).unwrap(), &to),
        _ => convert(&GraphPack::open(&from).unwrap(), &to),
    };
    assert_eq!(grants, GRANTS);
    println!("\npeak {}", peak_bytes());
}

#[test]
fn a_conversion_takes_no_more_memory_than_the_design_page_says() {
    let dir = tempfile::tempdir().unwrap();
    fill(&dir.path().join("sync.dpack"));
    for (from, to, most) in WORK {
        let begun = duramen_base::clock::now();
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--nocapture", "--test-threads", "1"])
            .env(FOLDER_VARIABLE, dir.path())
            .env(WORK_VARIABLE, format!("{from} {to}"))
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{from} to {to}: {text}{}", String::from_utf8_lossy(&output.stderr));
        let peak: u64 = text.lines().find_map(|line| line.strip_prefix("peak ")).unwrap().parse().unwrap();
        println!("{from} to {to}: {} MiB, {:.1?}", peak / MIB, begun.elapsed());
        assert!(peak < most, "{from} to {to}: {peak} bytes, and {most} are promised");
    }
}
