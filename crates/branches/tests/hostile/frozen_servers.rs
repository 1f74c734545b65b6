//! Servers that are there and do nothing, because a signal holds them (SIGSTOP), or part of them: no lease is given one, and
//! who holds one can be rid of it.

use crate::support::{lease, pool, query, rows, settle, Home};
use duramen_api::model::{ChangeSettings, CreateBranch, Policy};
use duramen_base::clock;
use duramen_branches::Engine;
use duramen_postgres::{is_stopped, processes_below, Postmaster};
use rustix::process::{kill_process, test_kill_process, Pid, Signal};
use serde_json::json;
use std::{fs, path::PathBuf, sync::Arc, time::Duration};

/// Within this, whatever is asked for happens, on a busy machine too. Ended one after the other in the way of a server that
/// listens, the servers of a test would take longer.
const SOON: Duration = Duration::from_secs(20);

/// Which processes of a server are held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Held {
    All,
    /// Nobody new gets in, and sessions go on.
    Postmaster,
    /// The sessions that are there.
    Others,
}

fn volumes(home: &Home) -> Vec<PathBuf> {
    let entries = fs::read_dir(home.path().join("volumes/branches")).expect("volumes").flatten();
    // Not the snapshots that are kept of branches that were reset.
    let clones = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("v-"));
    clones.map(|entry| entry.path()).collect()
}

/// Holds processes of every server of a home; gives those of its servers.
fn freeze(home: &Home, held: Held) -> Vec<u32> {
    let mut all = Vec::new();
    for volume in volumes(home) {
        let postmaster = Postmaster::adopt(&volume).expect("a server").pid();
        let pids = processes_below(&volume);
        for pid in pids.iter().copied() {
            if held == Held::All || (pid == postmaster) == (held == Held::Postmaster) {
                let raw = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a process id");
                // A process of the server may just have ended by itself.
                let _ = kill_process(raw, Signal::STOP);
                for _ in 0..1000 {
                    if is_stopped(pid) || test_kill_process(raw).is_err() {
                        break;
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        }
        all.extend(pids);
    }
    assert!(!all.is_empty(), "there are servers");
    all
}

fn wanted(name: &str, wait: Duration) -> CreateBranch {
    CreateBranch {
        name: Some(name.to_owned()),
        wait_ms: Some(u64::try_from(wait.as_millis()).expect("a short time")),
        ..CreateBranch::default()
    }
}

/// Whoever comes by the URL gets in and writes.
async fn enters(engine: &Engine, name: &str) {
    let url = engine.branch(name).expect("the branch").url;
    let enter = async {
        let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await?;
        tokio::spawn(connection);
        client.batch_execute("insert into t values (1)").await
    };
    tokio::time::timeout(SOON, enter).await.expect("it answers").expect("it lets in");
}

async fn gone(home: &Home, pids: &[u32], volumes: &[PathBuf]) {
    let begin = clock::now();
    loop {
        let mut there = processes_below(&home.path().join("volumes/branches"));
        there.retain(|pid| pids.contains(pid));
        let left: Vec<&PathBuf> = volumes.iter().filter(|volume| volume.exists()).collect();
        if there.is_empty() && left.is_empty() {
            return;
        }
        assert!(begin.elapsed() < SOON, "of what was held there are left: {there:?}, {left:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Invariant B33. A lease was given a server that held still, and its first query hung.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ready_branch_that_is_frozen_is_not_leased() {
    let home = Home::new();
    let engine = home.open().await;
    home.add_script(&engine, "create table t (x int);", pool(&[(Policy::ReadWrite, 2)])).await;
    for held in [Held::All, Held::Postmaster, Held::Others] {
        settle(&engine).await;
        let frozen = volumes(&home);
        let pids = freeze(&home, held);
        let begin = clock::now();
        let view = engine.create(wanted("b", SOON)).await.unwrap_or_else(|error| panic!("{held:?}: {error}"));
        assert!(begin.elapsed() < SOON, "{held:?}: {:?}", begin.elapsed());
        assert_eq!(view.state, "ready");
        enters(&engine, "b").await;
        assert_eq!(rows(&engine, "b", "select x from t").await, json!([[1]]), "{held:?}");
        // The other one is taken for what it is by the next lease, or before.
        engine.create(wanted("c", SOON)).await.unwrap_or_else(|error| panic!("{held:?}: {error}"));
        enters(&engine, "c").await;
        gone(&home, &pids, &frozen).await;
        for name in ["b", "c"] {
            engine.destroy(name).expect("destroy");
        }
    }
    engine.close().await.expect("close");
}

/// Who does not want to wait for another branch is refused soon, and told why.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_may_not_wait_is_refused_when_what_is_ready_is_frozen() {
    let home = Home::new();
    let engine = home.open().await;
    home.add_script(&engine, "create table t (x int);", pool(&[(Policy::ReadWrite, 1)])).await;
    for held in [Held::All, Held::Others] {
        settle(&engine).await;
        let pids = freeze(&home, held);
        let begin = clock::now();
        let error = engine.create(wanted("b", Duration::ZERO)).await.map(drop).expect_err("it is frozen");
        assert!(begin.elapsed() < Duration::from_secs(5), "{held:?}: {:?}", begin.elapsed());
        assert!(["no_branch_answers", "no_branch_ready"].contains(&error.code), "{held:?}: {error}");
        gone(&home, &pids, &[]).await;
        engine.create(wanted("b", SOON)).await.expect("the next one");
        enters(&engine, "b").await;
        engine.destroy("b").expect("destroy");
    }
    engine.close().await.expect("close");
}

async fn without_pool(engine: &Arc<Engine>) {
    settle(engine).await;
    let none = ChangeSettings { hot: [(Policy::ReadWrite, 0)].into(), ..ChangeSettings::default() };
    engine.change_settings("app", none).await.expect("an empty pool");
    settle(engine).await;
}

/// Who holds a branch that is frozen can put it back, and give it up; nothing of it is left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leased_branch_that_is_frozen_is_reset_and_destroyed() {
    let home = Home::new();
    let engine = home.open().await;
    home.add_script(&engine, "create table t (x int);", pool(&[(Policy::ReadWrite, 1)])).await;
    lease(&engine, "b", Policy::ReadWrite).await;
    without_pool(&engine).await;
    for held in [Held::All, Held::Postmaster, Held::Others] {
        query(&engine, "b", "insert into t values (7)").await.expect("a row");
        let frozen = volumes(&home);
        let pids = freeze(&home, held);
        let begin = clock::now();
        let view = engine.reset("b").await.unwrap_or_else(|error| panic!("{held:?}: {error}"));
        assert!(begin.elapsed() < SOON, "{held:?}: {:?}", begin.elapsed());
        assert_eq!(view.state, "ready");
        assert_eq!(rows(&engine, "b", "select count(*) from t").await, json!([[0]]), "{held:?}");
        enters(&engine, "b").await;
        gone(&home, &pids, &frozen).await;

        let frozen = volumes(&home);
        let pids = freeze(&home, held);
        engine.destroy("b").expect("destroy");
        gone(&home, &pids, &frozen).await;
        lease(&engine, "b", Policy::ReadWrite).await;
    }
    // A daemon that stops does not wait for it.
    let pids = freeze(&home, Held::All);
    let begin = clock::now();
    engine.close().await.expect("close");
    assert!(begin.elapsed() < SOON, "{:?}", begin.elapsed());
    let left = processes_below(home.path());
    assert!(!pids.iter().any(|pid| left.contains(pid)), "{left:?}");
}
