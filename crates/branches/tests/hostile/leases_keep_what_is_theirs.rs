//! Operations that meet on one name, and servers that die badly: no lease loses what it acknowledged, and nothing is
//! left that belongs to nobody.

use crate::support::{lease, pool, query, rows, settle, until, Home};
use duramen_api::model::{CreateBranch, Policy, ProtectBranch};
use duramen_branches::Engine;
use duramen_postgres::{processes_below, Cluster, Installation, ServerUser, Settings, StartError};
use serde_json::json;
use std::{
    fs,
    path::Path,
    sync::{
        atomic::{AtomicBool, Ordering},
        Arc,
    },
    time::Duration,
};

const TABLE: &str = "create table t (x int);";

fn entries(dir: &Path) -> Vec<String> {
    let listed = fs::read_dir(dir).expect("the folder").flatten();
    listed.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// A lease that is destroyed in the middle of its reset, and whose name is leased again: the reset took the new lease
/// for its own, threw away what had been acknowledged in it, and its volume and server were nobody's from then on.
/// B19.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reset_acts_on_its_lease_and_not_on_its_name() {
    let home = Home::new();
    let engine = home.open().await;
    home.add_script(&engine, TABLE, pool(&[(Policy::ReadWrite, 3)])).await;
    settle(&engine).await;
    for round in 0..24_u64 {
        lease(&engine, "b", Policy::ReadWrite).await;
        let first = engine.branch("b").expect("the lease").id;
        let mut reset = std::pin::pin!(engine.reset("b"));
        // A reset takes about 60 ms: every part of it is hit.
        let early = tokio::time::timeout(Duration::from_millis(round * 4), &mut reset).await;
        engine.destroy("b").expect("destroy");
        let second = lease(&engine, "b", Policy::ReadWrite).await;
        assert_ne!(second.id, first);
        query(&engine, "b", "insert into t values (1)").await.expect("an acknowledged insert");
        let outcome = match early {
            Ok(outcome) => outcome,
            Err(_) => reset.await,
        };
        if let Ok(view) = &outcome {
            assert_eq!(view.id, first, "round {round}: a reset answered for a lease that is not its own");
        }
        assert_eq!(rows(&engine, "b", "select x from t").await, json!([[1]]), "round {round}: {outcome:?}");
        let view = engine.branch("b").expect("the second lease");
        assert_eq!((view.id, view.state.as_str()), (second.id, "ready"), "round {round}: {outcome:?}");
        engine.destroy("b").expect("destroy");
    }
    settle(&engine).await;
    let volumes = home.path().join("volumes/branches");
    assert_eq!(entries(&volumes).len(), 3, "the pool's, and no other: {:?}", entries(&volumes));
    assert_eq!(postmasters(&home).len(), 3, "the pool's, and no other");
    engine.close().await.expect("close");
    assert!(processes_below(home.path()).is_empty());
}

/// Kills every process that serves a session of a volume's server, until `enough`.
fn kill_backends(volume: &Path, enough: &AtomicBool) {
    while !enough.load(Ordering::Acquire) {
        let file = fs::read_to_string(volume.join("postmaster.pid")).unwrap_or_default();
        let postmaster = file.lines().next().unwrap_or_default();
        let children =
            fs::read_to_string(format!("/proc/{postmaster}/task/{postmaster}/children")).unwrap_or_default();
        for child in children.split_whitespace() {
            let title = fs::read_to_string(format!("/proc/{child}/cmdline")).unwrap_or_default();
            if title.contains("[local]") {
                kill(&[child.parse().expect("a process id")]);
            }
        }
    }
}

/// A reset that loses its session gives up, and its holder would be refused for ever; the daemon ends it when the
/// server can be entered. B33.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reset_that_could_not_enter_is_ended_later() {
    let home = Home::new();
    let engine = home.open().await;
    home.add_script(&engine, TABLE, pool(&[(Policy::ReadWrite, 0)])).await;
    lease(&engine, "b", Policy::ReadWrite).await;
    settle(&engine).await;
    let volumes = home.path().join("volumes/branches");
    let mut failed = 0;
    for _ in 0..24 {
        let before = entries(&volumes);
        let enough = AtomicBool::new(false);
        let outcome = std::thread::scope(|scope| {
            scope.spawn(|| {
                let fresh = loop {
                    if let Some(name) = entries(&volumes).into_iter().find(|name| !before.contains(name)) {
                        break volumes.join(name);
                    }
                };
                kill_backends(&fresh, &enough);
            });
            let outcome =
                tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(engine.reset("b")));
            enough.store(true, Ordering::Release);
            outcome
        });
        failed += usize::from(outcome.is_err());
        until("the reset is ended", async || engine.branch("b").expect("the lease").state == "ready").await;
        // Its session may have been among what was killed; the next query opens another one.
        let insert = "insert into t values (1)";
        until("its holder goes on", async || query(&engine, "b", insert).await.is_ok()).await;
        if failed == 2 {
            break;
        }
    }
    assert!(failed > 0, "no reset was ever disturbed");
    engine.close().await.expect("close");
}

/// The servers of a home's branches, by their process ids.
fn postmasters(home: &Home) -> Vec<u32> {
    let is_postmaster = |pid: &u32| {
        let cwd = fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
        fs::read_to_string(cwd.join("postmaster.pid"))
            .is_ok_and(|text| text.lines().next() == Some(&pid.to_string()))
    };
    processes_below(&home.path().join("volumes/branches")).into_iter().filter(is_postmaster).collect()
}

fn kill(pids: &[u32]) {
    use rustix::process::{kill_process, Pid, Signal};
    for pid in pids {
        let pid = i32::try_from(*pid).ok().and_then(Pid::from_raw).expect("a process id");
        // One that has ended meanwhile is as good.
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// B33: a ready branch whose server was killed, for lack of memory perhaps, stayed in the pool and was lent: its URL was
/// refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ready_branch_whose_server_died_is_not_lent() {
    let home = Home::new();
    let engine = home.open().await;
    home.add_script(&engine, TABLE, pool(&[(Policy::ReadWrite, 2)])).await;
    for round in 0..4 {
        settle(&engine).await;
        let servers = postmasters(&home);
        assert_eq!(servers.len(), 2);
        kill(&servers);
        // A server that was killed is seen to be when its processes are gone, which takes the kernel a moment.
        tokio::time::sleep(Duration::from_millis(20)).await;
        for name in ["one", "two"] {
            let view = lease(&engine, name, Policy::ReadWrite).await;
            let entered = tokio_postgres::connect(&view.url, tokio_postgres::NoTls).await;
            assert!(entered.is_ok(), "round {round}: {:?}", entered.err());
        }
        engine.destroy("one").expect("destroy");
        engine.destroy("two").expect("destroy");
    }
    // Nobody asks for one: the pool is filled again all the same.
    settle(&engine).await;
    let servers = postmasters(&home);
    kill(&servers);
    let is_new = |pid: &u32| !servers.contains(pid);
    until("the pool is filled again", async || {
        postmasters(&home).iter().filter(|pid| is_new(pid)).count() == 2
    })
    .await;
    settle(&engine).await;
    let volumes = entries(&home.path().join("volumes/branches"));
    assert_eq!(volumes.len(), 2, "the dead ones are deleted: {volumes:?}");
    engine.close().await.expect("close");
}

/// `protect` answered between a destroy's look and its act, and the branch went all the same; expiry did the same.
/// B20.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_was_protected_is_not_destroyed() {
    let home = Home::new();
    let engine = home.open().await;
    home.add_script(&engine, TABLE, pool(&[(Policy::ReadWrite, 2)])).await;
    settle(&engine).await;
    let protect = |engine: &Engine, on| engine.protect("b", ProtectBranch { protected: on });
    let mut held = 0;
    for round in 0..300 {
        let request = CreateBranch { name: Some("b".to_owned()), ..CreateBranch::default() };
        let id = engine.create(request).await.expect("a lease").id;
        let go = Arc::new(std::sync::Barrier::new(2));
        let other = std::thread::spawn({
            let (engine, go) = (Arc::clone(&engine), Arc::clone(&go));
            move || {
                go.wait();
                engine.destroy("b")
            }
        });
        go.wait();
        let protected = protect(&engine, true);
        let destroyed = other.join().expect("the thread");
        if protected.is_ok() {
            held += 1;
            assert!(destroyed.is_err(), "round {round}: acknowledged as protected, and destroyed");
            assert_eq!(engine.branch("b").expect("it is there").id, id);
            protect(&engine, false).expect("unprotect");
        }
        if engine.branch("b").is_ok() && round % 8 == 0 {
            engine.destroy("b").expect("destroy");
        }
    }
    assert!(held > 0, "no protect was ever in time");
    engine.close().await.expect("close");
}

/// A postmaster that is killed leaves a busy backend. The next start deleted `postmaster.pid` and, in an IPC namespace
/// of its own, could not see the old segment: two servers wrote to one directory. B21.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_server_starts_beside_a_process_of_its_directory() {
    let home = Home::new();
    let engine = home.open().await;
    home.add_script(&engine, TABLE, pool(&[(Policy::ReadWrite, 1)])).await;
    let view = lease(&engine, "b", Policy::ReadWrite).await;
    query(&engine, "b", "insert into t values (1)").await.expect("an insert");
    let resident = rows(&engine, "b", "select pg_backend_pid()").await[0][0].clone();
    let (client, connection) =
        tokio_postgres::connect(&view.url, tokio_postgres::NoTls).await.expect("a connection");
    let connection = tokio::spawn(connection);
    let backend: i32 = client.query_one("select pg_backend_pid()", &[]).await.expect("its process").get(0);
    // It never looks whether its postmaster lives: it does not wait for anything.
    let busy =
        tokio::spawn(
            async move { client.batch_execute("do $$ begin loop perform 1; end loop; end $$").await },
        );
    let dir = fs::read_link(format!("/proc/{backend}/cwd")).expect("its data directory");
    let pid_file = fs::read_to_string(dir.join("postmaster.pid")).expect("the pid file");
    let postmaster = pid_file.lines().next().expect("a pid").to_owned();
    let until_busy = async {
        while !fs::read_to_string(format!("/proc/{backend}/stat")).is_ok_and(|stat| stat.contains(") R ")) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), until_busy).await.expect("the backend works");
    let killed = std::process::Command::new("kill").args(["-9", &postmaster]).status().expect("kill");
    assert!(killed.success());
    // An idle one notices; the busy one does not.
    let until_gone = async {
        while Path::new(&format!("/proc/{resident}/cwd")).read_link().is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), until_gone).await.expect("the idle backend ends");
    assert!(Path::new(&format!("/proc/{backend}")).exists(), "the backend outlives its postmaster");

    let lost = query(&engine, "b", "select x from t").await.expect_err("the session broke");
    assert_eq!(lost.code, "session_lost");
    assert_eq!(rows(&engine, "b", "select x from t").await, json!([[1]]), "the branch comes back");
    assert!(
        !Path::new(&format!("/proc/{backend}/cwd")).read_link().is_ok_and(|cwd| cwd == dir),
        "a process of the earlier server still works in the directory of the new one"
    );
    let _ = busy.await;
    let _ = connection.await;
    engine.close().await.expect("close");
}

/// A directory whose server runs is not started a second time, whoever asks. B21.
#[test]
fn a_running_server_is_not_started_again() {
    let home = Home::new();
    fs::create_dir_all(home.path()).expect("the home");
    let user = ServerUser::current().expect("a user for servers");
    let installation = Installation::choose(home.path(), None).expect("server programs");
    let cluster = Cluster::new(installation, home.path().join("data"), user);
    cluster.init("owner", false).expect("initdb");
    let settings = Settings::minimal(cluster.installation().version.major);
    let limit = Duration::from_secs(60);
    let mut server = cluster.start(&home.path().join("s"), &settings, limit).expect("a server");
    let again = cluster.start(&home.path().join("s2"), &settings, limit);
    assert!(matches!(again, Err(StartError::Occupied { .. })), "{again:?}");
    assert!(server.is_running());
    server.kill();
    let mut server =
        cluster.start(&home.path().join("s"), &settings, limit).expect("it starts when it is free");
    server.kill();
}
