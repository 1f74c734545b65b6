//! Snapshots that vanish or change, disks that fill up, and file systems that can only copy: a clear error
//! with the next step, nothing left behind, and the source untouched.

use crate::support::{lease, pool, query, rows, settle, until, Home};
use duramen_api::model::{AddSource, CreateBranch, Origin, Policy};
use duramen_branches::{Engine, EngineError, OpenOptions};
use duramen_postgres::{
    processes_below,
    volume::{self, Choice},
};
use serde_json::json;
use std::{
    fs,
    io::Write,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

#[track_caller]
fn assert_says(error: &EngineError, code: &str, parts: &[&str]) {
    assert_eq!(error.code, code, "{error}");
    for part in parts {
        assert!(error.message.contains(part), "{part:?} is missing in: {error}");
    }
}

async fn close(engine: &Engine, home: &Home) {
    engine.close().await.expect("close");
    assert!(processes_below(home.path()).is_empty(), "no process is left");
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).expect("the directory").flatten().map(|entry| entry.path()).collect()
}

fn make_writable(snapshot: &Path) {
    let mut command = Command::new("btrfs");
    command.args(["property", "set", "-t", "subvol"]).arg(snapshot).args(["ro", "false"]);
    assert!(command.status().expect("btrfs runs").success(), "the snapshot becomes writable");
}

/// A snapshot that changed or vanished is never branched again; a refresh fixes the source.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_that_changed_or_vanished_is_not_branched() {
    let home = Home::new();
    let engine = home.open().await;
    home.add_script(&engine, "create table t as select 1 as x;", pool(&[(Policy::ReadWrite, 1)])).await;
    lease(&engine, "b", Policy::ReadWrite).await;
    settle(&engine).await;
    if engine.status().degraded || !home.path().join("volumes.btrfs").exists() {
        // Only subvolumes have an identity that tells at once.
        return close(&engine, &home).await;
    }
    for (generation, code, word) in
        [(1, "snapshot_damaged", "was changed"), (2, "snapshot_missing", "is missing")]
    {
        let snapshot = home.path().join(format!("volumes/snapshots/app.{generation:06}"));
        assert!(engine.verify_source("app").await.expect("verify").intact);
        make_writable(&snapshot);
        if code == "snapshot_missing" {
            fs::remove_dir_all(&snapshot).expect("removed");
        } else {
            let mut file =
                fs::File::options().append(true).open(snapshot.join("postgresql.conf")).expect("open");
            file.write_all(b"# changed\n").expect("written");
            assert!(!engine.verify_source("app").await.expect("verify").intact);
        }
        // What is hot is good; what would be cloned now is not.
        let name = format!("hot-{generation}");
        lease(&engine, &name, Policy::ReadWrite).await;
        let error = engine.create(CreateBranch::default()).await.expect_err("nothing is cloned");
        assert_says(&error, "pool_broken", &[word, "duramen source refresh app"]);
        let current = engine.reset(&name).await.expect_err("nothing is cloned");
        assert_says(&current, code, &[word, "duramen source refresh app"]);
        let problem = engine.status().pool_error.expect("a problem");
        assert!(problem.contains(word), "{problem}");
        assert_eq!(rows(&engine, "b", "select x from t").await, json!([[1]]), "what is leased goes on");

        engine.refresh_source("app", |_, _| {}).await.expect("the refresh");
        settle(&engine).await;
        let name = format!("fixed-{generation}");
        lease(&engine, &name, Policy::ReadWrite).await;
        assert_eq!(rows(&engine, &name, "select x from t").await, json!([[1]]));
        settle(&engine).await;
        assert_eq!(engine.status().pool_error, None);
    }
    close(&engine, &home).await;
    // The next engine opens as well, whatever the snapshots of its leases have become.
    let engine = home.open().await;
    assert_eq!(rows(&engine, "b", "select x from t").await, json!([[1]]));
    close(&engine, &home).await;
}

/// A volume store that is too small for an import: the import is taken back whole, and a smaller one works.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_import_that_does_not_fit_leaves_nothing() {
    let mut home = Home::new();
    home.options = OpenOptions { volume_size: Some(600 << 20), ..home.options.clone() };
    let engine = home.open().await;
    if !home.path().join("volumes.btrfs").exists() {
        return close(&engine, &home).await;
    }
    let script = home.beside("large.sql");
    let sql = "create table t as select repeat(md5(g::text), 30) as x from generate_series(1, 1000000) g;";
    fs::write(&script, sql).expect("the script");
    let directory = home.beside("large");
    fs::create_dir(&directory).expect("a directory");
    let major = engine_major(&home);
    fs::write(directory.join("PG_VERSION"), format!("{major}\n")).expect("a file");
    fs::create_dir(directory.join("global")).expect("a directory");
    fs::write(directory.join("global/pg_control"), "").expect("a file");
    fs::write(directory.join("large"), vec![7; 900 << 20]).expect("a large file");
    let before = fs::read(&script).expect("the script");
    for origin in [
        Origin::DataDirectory { path: directory.display().to_string() },
        Origin::Script { path: script.display().to_string() },
    ] {
        let request = AddSource {
            name: "app".to_owned(),
            origin,
            database: None,
            settings: pool(&[(Policy::ReadWrite, 1)]),
        };
        let error = engine.add_source(request, |_, _| {}).await.expect_err("it does not fit");
        assert_says(&error, "disk_full", &["--volume-size"]);
        for place in ["volumes/imports", "volumes/snapshots", "volumes/branches", "sources", "logs", "run"] {
            assert_eq!(entries(&home.path().join(place)), Vec::<PathBuf>::new(), "{place}");
        }
        assert!(processes_below(home.path()).is_empty());
    }
    assert_eq!(fs::read(&script).expect("the script"), before, "the origin is as it was");
    home.add_script(&engine, "create table t as select 2 as x;", pool(&[(Policy::ReadWrite, 1)])).await;
    lease(&engine, "b", Policy::ReadWrite).await;
    assert_eq!(rows(&engine, "b", "select x from t").await, json!([[2]]));
    settle(&engine).await;
    close(&engine, &home).await;
}

/// The major version of the servers that this home's branches run.
fn engine_major(home: &Home) -> u32 {
    duramen_postgres::Installation::choose(home.path(), None).expect("servers").version.major
}

/// A small file system in memory.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(path: PathBuf, size: &str) -> Option<SmallDisk> {
        fs::create_dir(&path).expect("the mount point");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size},mode=755"), "tmpfs"]).arg(&path);
        mount.output().is_ok_and(|output| output.status.success()).then(|| SmallDisk(path))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        for pid in processes_below(&self.0) {
            let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
        }
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).output();
    }
}

/// Plain copies on a disk that fills up: degraded is said, branches work to the last that fits, the one that
/// does not fit leaves nothing, and the room of a destroyed one is used again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plain_copies_work_until_the_disk_is_full() {
    let mut home = Home::with_volumes(Choice::Copy);
    // Only root may mount.
    let Some(disk) = SmallDisk::mount(home.beside("disk"), "500m") else { return };
    home.options.home = disk.0.join("home");
    let engine = home.open().await;
    let status = engine.status();
    assert!(status.degraded && status.volumes_reason.contains("plain copies"), "{status:?}");
    home.add_script(&engine, "create table t as select 3 as x;", pool(&[(Policy::ReadWrite, 0)])).await;

    let mut held = Vec::new();
    let full = loop {
        let name = format!("b{}", held.len());
        let request = CreateBranch { name: Some(name.clone()), ..CreateBranch::default() };
        match engine.create(request).await {
            Ok(_) => held.push(name),
            Err(error) => break error,
        }
        assert!(held.len() < 40, "the disk does not fill");
    };
    assert!(held.len() > 2, "only {held:?} fit: {full}");
    println!("{} branches, then: {full}", held.len());
    assert_says(&full, "pool_broken", &["no space left", "destroy branches"]);
    assert_eq!(entries(&home.path().join("volumes/branches")).len(), held.len(), "half a copy is left");
    assert_eq!(rows(&engine, "b0", "select x from t").await, json!([[3]]), "a branch that is there goes on");

    for name in held.drain(1..3) {
        engine.destroy(&name).expect("destroy");
    }
    while engine.status().to_delete > 0 {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    lease(&engine, "again", Policy::ReadWrite).await;
    query(&engine, "again", "update t set x = 4").await.expect("a write");
    engine.reset("again").await.expect("reset");
    assert_eq!(rows(&engine, "again", "select x from t").await, json!([[3]]));

    // Plain copies have no identity, so a changed snapshot is found by its digest.
    assert!(engine.verify_source("app").await.expect("verify").intact);
    let conf = home.path().join("volumes/snapshots/app.000001/postgresql.conf");
    fs::set_permissions(&conf, fs::Permissions::from_mode(0o600)).expect("its mode");
    fs::File::options().append(true).open(&conf).expect("open").write_all(b"# changed\n").expect("written");
    assert!(!engine.verify_source("app").await.expect("verify").intact);
    close(&engine, &home).await;
    drop(disk);
}

/// The output of a program, where it is installed and works.
fn output(program: &str, arguments: &[&str], file: &Path) -> Option<String> {
    let output = Command::new(program).args(arguments).arg(file).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The number that follows a word.
fn number_after(text: &str, word: &str) -> Option<u64> {
    let mut words = text.split_whitespace().skip_while(|found| *found != word);
    words.nth(1)?.parse().ok()
}

/// A store whose last trees were lost with a crash of the machine did not mount again, and with it nothing in the home
/// was served. Mounted as it was before, it serves; what is in it lacks writes, and says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_whose_last_trees_were_lost_is_mounted_as_it_was_before() {
    let home = Home::new();
    let engine = home.open().await;
    home.add_script(&engine, "create table t as select 1 as x;", pool(&[(Policy::ReadWrite, 1)])).await;
    lease(&engine, "b", Policy::ReadWrite).await;
    settle(&engine).await;
    close(&engine, &home).await;
    let store = home.path().join("volumes.btrfs");
    if !store.exists() {
        // Only a store of our own is mounted by us.
        return;
    }
    // The device lets go of the file, and writes its last blocks, some time after it was unmounted.
    for _ in 0..200 {
        if output("losetup", &["--noheadings", "-j"], &store).is_none_or(|devices| devices.trim().is_empty())
        {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    fs::File::open(&store).and_then(|file| file.sync_all()).expect("a flush");
    let root = output("btrfs", &["inspect-internal", "dump-super"], &store)
        .and_then(|text| number_after(&text, "root"))
        .expect("the root of its trees");
    let Some(place) = output("btrfs-map-logical", &["-l", &root.to_string()], &store) else { return };
    let place = number_after(&place, "physical").expect("its place in the file");
    let file = fs::File::options().write(true).open(&store).expect("the store");
    std::os::unix::fs::FileExt::write_all_at(&file, &[0; 4096], place).expect("a lost block");
    drop(file);

    // Whoever mounts it and dies before the loss is written down leaves that to the next one.
    for _ in 0..2 {
        let store = volume::open(home.path(), Choice::Auto, 1 << 30).expect("the store");
        assert!(store.lost_writes().is_some(), "the loss was forgotten");
        store.close().expect("unmounted");
    }
    let engine = home.open().await;
    assert!(engine.branches().iter().all(|branch| branch.state == "failed"), "{:?}", engine.branches());
    engine.refresh_source("app", |_, _| {}).await.expect("the refresh");
    lease(&engine, "after", Policy::ReadWrite).await;
    assert_eq!(rows(&engine, "after", "select x from t").await, json!([[1]]));
    close(&engine, &home).await;
    // The next one finds it whole, and nothing of the loss.
    assert!(!home.path().join("volumes.set-back").exists());
    let engine = home.open().await;
    assert_eq!(rows(&engine, "after", "select x from t").await, json!([[1]]));
    close(&engine, &home).await;
}

fn flush(dir: &Path) {
    rustix::fs::syncfs(fs::File::open(dir).expect("the directory")).expect("flushed");
}

/// What an import does that needs nearly all of the store for a while: of many files all but a few go again, and those are
/// everywhere. Then small files, which lie in the metadata, until the file system counts as full for want of that, unless
/// the daemon is faster.
fn fill_for_a_while(dir: &Path) {
    fs::create_dir(dir).expect("a directory");
    let file = |number: u32| dir.join(number.to_string());
    let count = (0..).take_while(|number| fs::write(file(*number), vec![1; 2 << 20]).is_ok()).count();
    flush(dir);
    let count = u32::try_from(count).expect("it fits");
    (0..=count)
        .filter(|number| number % 16 != 1)
        .for_each(|number| fs::remove_file(file(number)).expect("it goes"));
    for number in 0..3000 {
        if number % 100 == 0 {
            flush(dir);
            if volume::free_bytes(dir).expect("what is free") == 0 {
                return;
            }
        }
        fs::write(dir.join(format!("small {number}")), [b'x'; 1500]).expect("a small file");
    }
}

/// Invariant B56. After an import that had needed nearly all of the store, all of it was set aside for data, and every lease
/// was refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_go_on_after_data_filled_the_store_once() {
    let mut home = Home::new();
    home.options.volume_size = Some(1 << 30);
    let engine = home.open().await;
    home.add_script(&engine, "create table t as select 1 as x;", pool(&[])).await;
    settle(&engine).await;
    if !home.path().join("volumes.btrfs").exists() {
        return close(&engine, &home).await;
    }
    lease(&engine, "before", Policy::ReadWrite).await;
    fill_for_a_while(&home.path().join("volumes/filling"));
    let volumes = home.path().join("volumes");
    until("what is free can be used", async || {
        volume::free_bytes(&volumes).expect("what is free") > 512 << 20
    })
    .await;
    until("leases are given again", async || engine.create(CreateBranch::default()).await.is_ok()).await;
    until("what is leased is written again", async || {
        query(&engine, "before", "insert into t values (2)").await.is_ok()
    })
    .await;
    assert_eq!(rows(&engine, "before", "select sum(x) from t").await, json!([[3]]));
    assert!(engine.verify_source("app").await.expect("verify").intact, "a snapshot is what it was");
    close(&engine, &home).await;
}
