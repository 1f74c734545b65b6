//! A `.c1z` file appears whole or not at all, whenever its writer is killed and wherever the disk is full.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::c1z_support::SYNC;
use duramen_access::c1z::*;
use duramen_access::graph::*;
use duramen_base::entropy;
use rustix::process::{getrlimit, setrlimit, Resource as Limit, Rlimit};

/// Names the file to a child, and makes it one.
const FILE_VARIABLE: &str = "DURAMEN_TEST_C1Z";
/// Tells the child which version it writes.
const VERSION_VARIABLE: &str = "DURAMEN_TEST_C1Z_VERSION";

const VERSIONS: [Version; 2] = [Version::V1, Version::V3];
const GRANTS: i32 = 500;

fn version_of_child() -> Version {
    match std::env::var(VERSION_VARIABLE).unwrap().as_str() {
        "V1" => Version::V1,
        _ => Version::V3,
    }
}

fn files(dir: &Path) -> Vec<String> {
    let names = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

/// Puts a graph whose every row bears `mark`, so that rows of two files cannot be taken for each other.
fn put<T: GraphSink>(sink: &mut T, mark: i32) -> Result<(), T::Error> {
    let mut random = entropy::rng(u64::from(mark.unsigned_abs()));
    let time = Timestamp { seconds: 1_700_000_000, nanos: mark };
    sink.begin_sync(&Sync {
        id: SYNC.to_owned(),
        started_at: time,
        ended_at: Some(time),
        ..Sync::default()
    })?;
    for number in 0..GRANTS {
        let mut grant =
            Grant { id: format!("grant {number}"), discovered_at: Some(time), ..Grant::default() };
        grant.entitlement.id = format!("entitlement {:016x}", random.u64(..));
        grant.entitlement.resource = ResourceId::new("app", format!("app {}", number % 10));
        grant.principal.id = ResourceId::new("user", format!("user {number}"));
        sink.put_grant(&GrantRef::from(&grant))?;
    }
    let data = (0..100 << 10).map(|_| random.u8(..)).collect();
    let asset = Asset { id: "noise".to_owned(), data, discovered_at: Some(time), ..Asset::default() };
    sink.put_asset(&asset)?;
    sink.end_sync()
}

fn write(version: Version, path: &Path, mark: i32) -> Result<u64, C1zError> {
    match version {
        Version::V1 => {
            let mut writer = C1z1Writer::create(path, &WriteOptions::default())?;
            put(&mut writer, mark)?;
            writer.finish()
        }
        Version::V3 => {
            let mut writer = C1z3Writer::create(path, &WriteOptions::default())?;
            put(&mut writer, mark)?;
            writer.finish()
        }
    }
}

/// The mark of a file: all its rows are there and bear it.
fn mark_of(version: Version, path: &Path) -> i32 {
    fn mark<S: GraphSource>(source: &S) -> i32 {
        let sync = source.syncs().unwrap().remove(0);
        let (mut rows, mut noise) = (0, 0);
        source
            .for_each_grant(SYNC, &mut |row| {
                assert_eq!(row.discovered_at, Some(sync.started_at));
                rows += 1;
                std::ops::ControlFlow::Continue(())
            })
            .unwrap();
        source
            .for_each_asset(SYNC, &mut |row| {
                assert_eq!(row.discovered_at, Some(sync.started_at));
                noise += row.data.len();
                std::ops::ControlFlow::Continue(())
            })
            .unwrap();
        assert_eq!((rows, noise), (GRANTS, 100 << 10));
        sync.started_at.nanos
    }
    let options = ReadOptions { check_sha256: true, ..ReadOptions::default() };
    match version {
        Version::V1 => mark(&C1z1::open(path, &options).unwrap()),
        Version::V3 => mark(&C1z3::open(path, &options).unwrap()),
    }
}

/// This program again, as the child `name` that works on `path`; its temporary files go to `temporary`.
fn child(name: &str, version: Version, path: &Path, temporary: &Path) -> Command {
    // Beyond a limit there is an error instead of a signal, which children ignore.
    let mut command = Command::new("sh");
    command
        .args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture", "--test-threads", "1"])
        .env(FILE_VARIABLE, path)
        .env(VERSION_VARIABLE, format!("{version:?}"))
        .env("TMPDIR", temporary);
    command
}

/// The child's part: writes files and reads them until it is killed. It does nothing when the test is run by itself.
#[test]
fn child_that_is_killed() {
    let Some(path) = std::env::var_os(FILE_VARIABLE) else { return };
    let (path, version) = (Path::new(&path), version_of_child());
    // Marks of the test itself are odd.
    for mark in (0..1_000_000).step_by(2) {
        write(version, path, mark).unwrap();
        assert_eq!(mark_of(version, path), mark);
    }
}

/// Z-8: whatever the moment of a SIGKILL, the name has the old file, the new one, or nothing if there was nothing.
#[test]
fn a_killed_writer_leaves_the_old_file_or_the_new_one_and_keeps_nobody_out() {
    let seed = entropy::seed();
    println!("DURAMEN_SEED={seed}");
    let mut random = entropy::rng(seed);
    for version in VERSIONS {
        let (dir, temporary) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let path = dir.path().join("sync.c1z");
        let (mut written, mut torn, mut missing) = (0, 0, 0);
        let begun = duramen_base::clock::now();
        write(version, &path, 1).unwrap();
        let once = begun.elapsed().as_micros() as u64;
        for round in 0..24 {
            let said = format!("seed {seed}, {version:?}, round {round}");
            let before = random.bool().then_some(2 * round + 1);
            match before {
                // Whatever the last one left is taken over.
                Some(mark) => {
                    write(version, &path, mark).unwrap_or_else(|error| panic!("{said}: {error}"));
                    assert_eq!(files(dir.path()), ["sync.c1z"], "{said}");
                }
                None => drop(std::fs::remove_file(&path)),
            }
            let mut child = child("c1z_writers::child_that_is_killed", version, &path, temporary.path())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            std::thread::sleep(Duration::from_micros(random.u64(once / 4..3 * once + 20_000)));
            child.kill().unwrap();
            assert_eq!(child.wait().unwrap().code(), None, "{said}: the child was to be killed, not to fail");
            match path.exists().then(|| mark_of(version, &path)) {
                Some(mark) if Some(mark) == before => {}
                Some(mark) => {
                    assert!(mark % 2 == 0, "{said}: {mark}");
                    written += 1;
                }
                None => {
                    assert_eq!(before, None, "{said}: the old file is gone");
                    missing += 1;
                }
            }
            let left = files(dir.path());
            assert!(
                left.iter().all(|name| name == "sync.c1z" || name == ".sync.c1z.part"),
                "{said}: {left:?}"
            );
            torn += u32::from(left.iter().any(|name| name == ".sync.c1z.part"));
            // A name at most: between making a temporary file and taking its name away nothing is written to it.
            let sizes = std::fs::read_dir(temporary.path()).unwrap();
            let left: u64 = sizes.map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
            assert_eq!(left, 0, "{said}: {:?} are left", files(temporary.path()));
        }
        println!("{version:?}: {written} written, {missing} missing, {torn} killed while writing");
        assert!(written > 0 && torn > 0, "seed {seed}, {version:?}: {written} written, {torn} torn");
        write(version, &path, 1).unwrap();
        assert_eq!((files(dir.path()), mark_of(version, &path)), (vec!["sync.c1z".to_owned()], 1));
    }
}

/// What a writer does when it may write `limit` bytes: the error, and at which call it came. None if it completed.
fn fails_at<T: GraphSink<Error = C1zError>>(
    create: impl Fn() -> Result<T, C1zError>,
    finish: impl Fn(T) -> Result<u64, C1zError>,
    limit: u64,
) -> Option<(&'static str, C1zError)> {
    let whole = getrlimit(Limit::Fsize);
    let limited = |limit| setrlimit(Limit::Fsize, Rlimit { current: limit, ..whole }).unwrap();
    limited(Some(limit));
    let failed = match create() {
        Err(error) => Some(("create", error)),
        Ok(mut writer) => match put(&mut writer, 2) {
            Err(error) => {
                // Even if there is room again, nobody knows what is in the file.
                limited(None);
                let row = ResourceType { id: "user".to_owned(), ..ResourceType::default() };
                for _ in 0..2 {
                    let refused = writer.put_resource_type(&row);
                    assert!(matches!(refused, Err(C1zError::Order { .. })), "{limit}: {refused:?}");
                }
                assert!(matches!(writer.end_sync(), Err(C1zError::Order { .. })), "{limit}");
                assert!(
                    matches!(writer.begin_sync(&Sync::default()), Err(C1zError::Order { .. })),
                    "{limit}"
                );
                assert!(matches!(finish(writer), Err(C1zError::Order { .. })), "{limit}");
                Some(("put", error))
            }
            Ok(()) => finish(writer).err().map(|error| ("finish", error)),
        },
    };
    limited(None);
    failed
}

/// The child's part: the system lets it write less and less. It does nothing when the test is run by itself.
#[test]
fn child_without_room() {
    let Some(path) = std::env::var_os(FILE_VARIABLE) else { return };
    let (path, version) = (Path::new(&path), version_of_child());
    let dir = path.parent().unwrap();
    // The last bytes of a file are written when it is finished.
    let almost = write(version, path, 2).unwrap() - 10;
    write(version, path, 1).unwrap();
    let before = std::fs::read(path).unwrap();
    let options = WriteOptions::default();
    let mut stages = std::collections::BTreeSet::new();
    for limit in [almost].into_iter().chain((0..).map(|step| step * 7 * 1024 + step % 5)) {
        let failed = match version {
            Version::V1 => fails_at(|| C1z1Writer::create(path, &options), C1z1Writer::finish, limit),
            Version::V3 => fails_at(|| C1z3Writer::create(path, &options), C1z3Writer::finish, limit),
        };
        assert_eq!(files(dir), ["sync.c1z"], "{limit}");
        assert_eq!(files(&std::env::temp_dir()), [""; 0], "{limit}");
        let Some((stage, error)) = failed else { break };
        assert!(matches!(error, C1zError::Io { .. } | C1zError::Sqlite { .. }), "{limit}: {error}");
        assert!(error.to_string().contains("sync.c1z"), "{limit}: {error}");
        assert_eq!(std::fs::read(path).unwrap(), before, "{limit}: the old file was touched");
        stages.insert(stage);
    }
    assert_eq!(mark_of(version, path), 2);
    println!("\nrefused at {stages:?}");
}

/// Z-8, Z-10: a disk that is full, at whatever byte, spoils nothing but the new file.
#[test]
fn a_writer_without_room_gives_up_and_leaves_the_old_file() {
    for (version, stages) in VERSIONS.into_iter().zip([&["create", "put", "finish"][..], &["put", "finish"]])
    {
        let (dir, temporary) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let path = dir.path().join("sync.c1z");
        let output =
            child("c1z_writers::child_without_room", version, &path, temporary.path()).output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{version:?}: {printed}{errors}");
        let refused = printed.lines().find_map(|line| line.strip_prefix("refused at ")).unwrap();
        for stage in stages {
            assert!(refused.contains(stage), "{version:?}: not at {stage}, but at {refused}");
        }
        assert_eq!((files(dir.path()), files(temporary.path())), (vec!["sync.c1z".to_owned()], vec![]));
    }
}
