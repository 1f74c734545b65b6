//! B37, B40: nothing is served, and nothing is left on the scratch, when the disk below it fills up in the middle of an
//! import, when somebody keeps it in use, or when the file system of the home writes elsewhere what is overwritten.

use crate::{
    masked_values_are_nowhere::{add, marked, piped, rules, Secretive},
    small_disk::SmallDisk,
    support::{majors, rows, settle, Home},
};
use duramen_api::model::{CreateBranch, SourceView};
use duramen_branches::{Engine, EngineError};
use serde_json::json;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        atomic::{AtomicBool, Ordering},
        Arc,
    },
    time::Duration,
};

const SCHEMA: &str =
    "create table t (a text);; insert into t select 'MARK' || n from generate_series(1, 5000) n;;";
const RULES: &str = r#"{"columns": {"public.t": {"a": "hash"}}}"#;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// An engine, and a server with values that are to be masked.
async fn open(home: &Home) -> (Arc<Engine>, Secretive) {
    let engine = home.open().await;
    let origin = Secretive::start(home, majors()[0]).await;
    origin.run("shop", SCHEMA).await;
    (engine, origin)
}

/// A file of the copy on a scratch, once there is one.
fn file_of_copy(scratch: &Path) -> Option<PathBuf> {
    let mut places = vec![scratch.to_owned()];
    for _ in 0..3 {
        let entries = places.iter().flat_map(|dir| fs::read_dir(dir).into_iter().flatten().flatten());
        places = entries.map(|entry| entry.path()).collect();
        if let Some(found) = places.iter().find(|path| path.ends_with("PG_VERSION")) {
            return Some(found.clone());
        }
    }
    None
}

/// Imports a source with rules, and does something in the middle, when a part of the copy lies on the scratch.
fn import_disturbed<T: Send>(
    home: &Home,
    engine: &Arc<Engine>,
    origin: &Secretive,
    disturb: impl FnOnce(&Path) -> T + Send,
) -> (Result<SourceView, EngineError>, T) {
    let scratch = home.path().join("scratch");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watching = scope.spawn(|| loop {
            if let Some(file) = file_of_copy(&scratch) {
                return disturb(&file);
            }
            assert!(!done.load(Ordering::Acquire), "the scratch was never seen");
            std::thread::sleep(Duration::from_millis(2));
        });
        let outcome = tokio::task::block_in_place(|| {
            tokio::runtime::Handle::current().block_on(add(engine, "app", origin.origin(), rules(RULES)))
        });
        done.store(true, Ordering::Release);
        (outcome, watching.join().expect("it is disturbed"))
    })
}

fn assert_nothing_is_left(home: &Home) {
    for name in ["scratch.btrfs", "scratch", "sources/app"] {
        assert!(!home.path().join(name).exists(), "{name} is left");
    }
    assert_eq!(marked(home.path()), Vec::<String>::new());
}

async fn serves_masked_rows(engine: &Arc<Engine>) {
    settle(engine).await;
    let request = CreateBranch { name: Some("b".to_owned()), ..CreateBranch::default() };
    assert_eq!(engine.create(request).await.expect("a lease").data, "masked");
    let masked = "select count(*) from t where a ~ '^[0-9a-f]{32}$'";
    assert_eq!(rows(engine, "b", masked).await, json!([[5000]]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_fills_up_in_the_middle_fails_the_import() {
    if !is_root() {
        return;
    }
    let disk = SmallDisk::new(1900);
    let mut home = Home::new();
    home.options.home = disk.path().join("home");
    home.options.volume_size = Some(700 << 20);
    let (engine, origin) = open(&home).await;

    let (outcome, ()) = import_disturbed(&home, &engine, &origin, |_| disk.fill());
    let error = outcome.expect_err("the copy does not fit");
    assert!(!error.message.contains("zqorig1nalqz"), "{error}");
    assert!(engine.sources().is_empty(), "{error}");
    assert_nothing_is_left(&home);

    disk.free();
    add(&engine, "app", origin.origin(), rules(RULES)).await.expect("there is room again");
    serves_masked_rows(&engine).await;
    engine.close().await.expect("close");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scratch_that_stays_in_use_is_told_and_destroyed_later() {
    if !is_root() {
        return;
    }
    let home = Home::new();
    let (engine, origin) = open(&home).await;

    let hold = |file: &Path| fs::File::open(file).expect("a file of the copy");
    let (outcome, held) = import_disturbed(&home, &engine, &origin, hold);
    let error = outcome.expect_err("original values lie on a scratch that cannot be unmounted");
    assert_eq!(error.code, "scratch_in_use", "{error}");
    assert!(engine.sources().is_empty());
    // Neither by another import, nor by the next daemon, as long as it is in use; but that says so.
    let error = add(&engine, "app", origin.origin(), rules(RULES)).await.expect_err("it is still in use");
    assert_eq!(error.code, "scratch_in_use", "{error}");
    engine.close().await.expect("close");
    let engine = home.open().await;
    let warnings = engine.status().warnings;
    assert!(warnings.iter().any(|it| it.contains("original values")), "{warnings:?}");
    drop(held);
    engine.close().await.expect("close");
    let engine = home.open().await;
    assert_nothing_is_left(&home);
    add(&engine, "app", origin.origin(), rules(RULES)).await.expect("an import");
    serves_masked_rows(&engine).await;
    engine.close().await.expect("close");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scratch_that_another_namespace_keeps_is_overwritten() {
    if !is_root() {
        return;
    }
    let home = Home::new();
    let (engine, origin) = open(&home).await;
    let file = home.path().join("scratch.btrfs");
    let link = home.beside("link");
    let (outcome, mut keeper) = import_disturbed(&home, &engine, &origin, |_| {
        fs::hard_link(&file, &link).expect("a second name");
        Command::new("unshare").args(["--mount", "sleep", "600"]).spawn().expect("another namespace")
    });
    outcome.expect("the import");
    assert_nothing_but_the_source(&home);
    assert_eq!(piped(&link, "tr -d '\\0' | wc -c"), "0", "the scratch was overwritten");
    serves_masked_rows(&engine).await;
    keeper.kill().and_then(|()| keeper.wait()).expect("it ends");
    // What that file system writes back at its end are no values.
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(piped(&link, "LC_ALL=C grep -a -c -i zqorig1nalqz"), "0");
    engine.close().await.expect("close");
}

fn assert_nothing_but_the_source(home: &Home) {
    assert!(!home.path().join("scratch.btrfs").exists() && !home.path().join("scratch").exists());
    assert_eq!(marked(home.path()), Vec::<String>::new());
}

/// A btrfs in a file, mounted where a home is to be.
struct OnBtrfs {
    image: PathBuf,
    point: PathBuf,
}

impl OnBtrfs {
    fn new(home: &Home) -> OnBtrfs {
        let made = OnBtrfs { image: home.beside("disk.btrfs"), point: home.beside("disk") };
        fs::File::create(&made.image).expect("a file").set_len(3 << 30).expect("its length");
        fs::create_dir(&made.point).expect("a directory");
        let run = |command: &mut Command| {
            let output = command.output().expect("it runs");
            assert!(output.status.success(), "{command:?}: {output:?}");
        };
        run(Command::new("mkfs.btrfs").arg("--quiet").arg(&made.image));
        // What is freed is not given back: it would hide what had been written there.
        run(Command::new("mount").args(["-o", "loop,nodiscard"]).args([&made.image, &made.point]));
        made
    }
}

impl Drop for OnBtrfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.point).output();
    }
}

/// btrfs writes changed blocks to another place, and keeps the old ones until something else is written there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scratch_on_btrfs_is_overwritten_in_place() {
    if !is_root() {
        return;
    }
    let mut home = Home::new();
    let disk = OnBtrfs::new(&home);
    home.options.home = disk.point.join("home");
    let (engine, origin) = open(&home).await;
    let sync = || {
        let synced = Command::new("sync").arg("-f").arg(&disk.point).status();
        assert!(synced.expect("sync").success());
    };
    // So that the values are on the disk, and not just about to be.
    let (outcome, ()) = import_disturbed(&home, &engine, &origin, |_| {
        for _ in 0..20 {
            sync();
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    outcome.expect("the import");
    serves_masked_rows(&engine).await;
    sync();
    let search = "LC_ALL=C grep --text --null-data --ignore-case --fixed-strings --count zqorig1nalqz";
    assert_eq!(piped(&disk.image, search), "0", "a value is left in a block of the disk");
    engine.close().await.expect("close");
}
