//! What one branch does to the disk: its log stays small, the volume store has its blocks, and writes that are lost
//! all the same make branches `failed` instead of lying.

use crate::small_disk::SmallDisk;
use crate::support::{lease, pool, query, rows, settle, until, Home};
use duramen_api::model::Policy;
use serde_json::json;
use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::Command,
};

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().expect("it runs");
    assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
}

fn log_of_only_branch(home: &Home) -> PathBuf {
    let logs = fs::read_dir(home.path().join("logs")).expect("the logs").flatten();
    let mut logs = logs.map(|entry| entry.path());
    let log = logs.next().expect("a log");
    assert_eq!(logs.next(), None);
    log
}

/// Invariant B25. `RAISE LOG` in a loop filled the host's disk at 17 MB/s, through a log without a limit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_stays_small() {
    let home = Home::new();
    let engine = home.open().await;
    home.add_script(&engine, "create table t (x int);", pool(&[(Policy::ReadWrite, 1)])).await;
    settle(&engine).await;
    engine
        .change_settings(
            "app",
            serde_json::from_value(json!({ "hot": { "read-write": 0 } })).expect("a change of settings"),
        )
        .await
        .expect("an empty pool");
    settle(&engine).await;
    let view = lease(&engine, "b", Policy::ReadWrite).await;
    let log = log_of_only_branch(&home);
    let (client, connection) =
        tokio_postgres::connect(&view.url, tokio_postgres::NoTls).await.expect("a connection");
    let connection = tokio::spawn(connection);
    // Everything that a holder can set so that the server writes more.
    for name in
        ["debug_print_parse", "debug_print_plan", "debug_print_rewritten", "client_min_messages = debug5 --"]
    {
        let set = if name.contains('=') { format!("set {name}") } else { format!("set {name} = on") };
        client.batch_execute(&set).await.expect(name);
    }
    for lift in [
        "set log_min_messages = log",
        "set log_statement = 'all'",
        "alter role duramen_write reset log_min_messages",
    ] {
        let _ = client.batch_execute(lift).await;
    }
    let flood = "do $$ begin for i in 1..20000 loop raise log '%', repeat('x', 1000); end loop; end $$";
    client.batch_execute(flood).await.expect("a flood");
    query(&engine, "b", flood).await.expect("a flood through the resident session");
    let length = fs::metadata(&log).expect("the log").len();
    assert!(length < 1 << 20, "{length} bytes of log");
    // Whatever else writes to it: the daemon cuts it.
    let large = vec![b'y'; 20 << 20];
    let mut file = fs::OpenOptions::new().append(true).open(&log).expect("the log");
    std::io::Write::write_all(&mut file, &large).expect("a large log");
    until("the log is cut", async || fs::metadata(&log).expect("the log").len() < 1 << 20).await;
    assert_eq!(rows(&engine, "b", "select 1").await, json!([[1]]));
    drop(client);
    let _ = connection.await;
    engine.close().await.expect("close");
}

/// Gives back every block that holds nothing, but for those at the beginning, where the file system keeps its trees.
fn punch_out_zeros(file: &Path) {
    use rustix::fs::{fallocate, FallocateFlags};
    use std::os::unix::fs::FileExt;
    const STEP: u64 = 64 << 10;
    const TREES: u64 = 250 << 20;
    let file = fs::OpenOptions::new().read(true).write(true).open(file).expect("the volume file");
    let length = file.metadata().expect("its length").len();
    let mut block = vec![0; usize::try_from(STEP).expect("it fits")];
    for at in (TREES..length).step_by(block.len()) {
        file.read_exact_at(&mut block, at).expect("a block");
        if block.iter().all(|byte| *byte == 0) {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            fallocate(&file, flags, at, STEP).expect("a hole");
        }
    }
}

fn allocated(file: &Path) -> (u64, u64) {
    let found = fs::metadata(file).expect("the volume file");
    (found.blocks() * 512, found.len())
}

/// Invariants B26 and B27. The file was sparse, the disk below it filled up, and branches lost acknowledged rows while
/// they were `ready`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_below_the_store_loses_nothing_unnoticed() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let disk = SmallDisk::new(1200);
    let mut home = Home::new();
    home.options.home = disk.path().join("home");
    home.options.volume_size = Some(800 << 20);
    let engine = home.open().await;
    home.add_script(&engine, "create table t (x text);", pool(&[(Policy::ReadWrite, 1)])).await;
    for name in ["b", "neighbour"] {
        lease(&engine, name, Policy::ReadWrite).await;
    }
    let file = home.path().join("volumes.btrfs");
    assert_eq!(allocated(&file).0, allocated(&file).1, "all of it is allocated");
    // What would punch holes: deleting, and trimming as a timer of the system does.
    engine.reset("b").await.expect("a reset");
    settle(&engine).await;
    let volumes = home.path().join("volumes").display().to_string();
    run("sync", &["-f", &volumes]);
    let _ = Command::new("fstrim").arg(&volumes).output();
    assert_eq!(allocated(&file).0, allocated(&file).1, "nothing gave blocks back");

    // The rest of the disk is full, and a branch goes on writing: nothing is lost.
    let filler = disk.path().join("filler");
    let _ = Command::new("dd").args(["if=/dev/zero", "bs=1M", &format!("of={}", filler.display())]).output();
    let fill = "insert into t select repeat(md5(i::text), 100) from generate_series(1, 20000) i";
    query(&engine, "b", fill).await.expect("rows");
    run("sync", &["-f", &volumes]);
    assert_eq!(engine.branch("b").expect("it").state, "ready");
    assert_eq!(rows(&engine, "b", "select count(*) from t").await, json!([[20000]]));

    // As with a file that version 0.1 made: blocks that nothing was written to yet are missing.
    fs::remove_file(&filler).expect("the filler");
    punch_out_zeros(&file);
    let (blocks, length) = allocated(&file);
    assert!(blocks < length / 4 * 3, "{blocks} of {length}");
    assert!(engine.status().warnings.iter().any(|warning| warning.contains("not allocated")));
    let _ = Command::new("dd").args(["if=/dev/zero", "bs=1M", &format!("of={}", filler.display())]).output();
    let incompressible = "insert into t select string_agg(md5(random()::text), '') from generate_series(1, 400000) i group by i % 4000";
    for _ in 0..12 {
        if query(&engine, "b", incompressible).await.is_err() {
            break;
        }
    }
    let _ = Command::new("sync").args(["-f", &volumes]).output();
    until("the loss is noticed", async || engine.branch("neighbour").expect("it").state == "failed").await;
    for name in ["b", "neighbour"] {
        assert_eq!(engine.branch(name).expect("it").state, "failed");
        let error = query(&engine, name, "select 1").await.expect_err("it is not used any more");
        assert!(error.message.contains("make room"), "{error}");
    }
    assert!(engine.status().warnings.iter().any(|warning| warning.contains("2 branches may lack")));
    // There is room again, and the store is mounted anew: nothing is forgotten, and whoever resets goes on.
    fs::remove_file(&filler).expect("the filler");
    engine.close().await.expect("close");
    let engine = home.open().await;
    for name in ["b", "neighbour"] {
        assert_eq!(engine.branch(name).expect("it").state, "failed");
    }
    engine.reset("neighbour").await.expect("a reset");
    query(&engine, "neighbour", "insert into t values ('after')").await.expect("an insert");
    assert_eq!(engine.branch("b").expect("it").state, "failed", "until it is reset itself");
    engine.destroy("b").expect("destroy");
    engine.close().await.expect("close");
    // What was missing is allocated again at the next opening, and the branch is there.
    let engine = home.open().await;
    assert_eq!(allocated(&file).0, allocated(&file).1);
    assert_eq!(engine.status().warnings, Vec::<String>::new());
    assert_eq!(rows(&engine, "neighbour", "select x from t").await, json!([["after"]]));
    engine.close().await.expect("close");
}

/// A store as large as its disk leaves no room for journals and logs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_would_fill_the_disk_is_not_made() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let disk = SmallDisk::new(700);
    let mut home = Home::with_volumes(duramen_postgres::volume::Choice::Btrfs);
    home.options.home = disk.path().join("home");
    home.options.volume_size = Some(600 << 20);
    let error = duramen_branches::Engine::open(home.options.clone()).await.expect_err("no room");
    assert!(error.message.contains("would fill the disk"), "{error}");
    assert!(!home.path().join("volumes.btrfs").exists());
}
