//! B55: a daemon gives way to another, perhaps a newer one, and nobody who works in a branch notices.

use crate::support::{self, connect, create, entries, query, settle, until, wire, Home, EXE};
use duramen_client::{Client, ClientError};
use duramen_server::process::Daemon;
use rustix::process::{kill_process, Pid, Signal};
use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::Path,
    process::{Command, Stdio},
    sync::{
        atomic::{AtomicBool, Ordering},
        Arc,
    },
};

const SIZE: [&str; 2] = ["--volume-size", "3G"];

/// The other program of an upgrade: another file, and so another inode.
fn newer_program(home: &Home) -> std::path::PathBuf {
    let newer = home.beside("duramen-newer");
    fs::copy(EXE, &newer).expect("a copy of the program");
    newer
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_daemon_takes_over_and_open_transactions_go_on() {
    let home = Home::new();
    let old = home.serve().await;
    let mut connection = connect(&old).await;
    support::add_script(&home, &mut connection, "create table t (v text);", 2, 1).await;
    let url = create(&mut connection, "try").await.expect("a branch").url;
    let holder = wire(&url).await;
    holder
        .batch_execute("create temporary table mine (v text); begin; insert into t values ('before')")
        .await
        .expect("an open transaction");

    let args = ["--handover", SIZE[0], SIZE[1]].map(str::to_owned);
    let new = Daemon::spawn(&newer_program(&home), &home.path(), &args, &home.beside("new-log"))
        .await
        .expect("it takes over");
    assert_ne!(new.pid(), old.pid());
    let mut connection = connect(&new).await;
    settle(&mut connection).await;

    holder
        .batch_execute("insert into t values ('after'); commit; insert into mine values ('still here')")
        .await
        .expect("the same session and transaction");
    let view = connection.branch("try").await.expect("the branch");
    assert_eq!((view.url.as_str(), view.state.as_str()), (url.as_str(), "ready"));
    let rows = query(&mut connection, "try", "select v from t order by v").await.expect("its rows");
    assert_eq!(rows, serde_json::json!([["after"], ["before"]]));
    // The pool is the new daemon's own, and nothing of the old one's is left.
    assert_eq!(entries(&home.path().join("volumes/branches")).len(), 4, "one leased, two hot, one cold");
    assert!(connection.verify_audit().await.expect("the audit log").intact);
    // The old one has ended by itself; this collects it.
    old.kill();

    drop(holder);
    connection.destroy_branch("try").await.expect("destroyed");
    settle(&mut connection).await;
    new.stop().await.expect("it stops in order");
    assert_eq!(home.left_overs(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_serves_a_home_and_one_takes_over_all_the_same() {
    let home = Home::new();
    let args = ["--handover", SIZE[0], SIZE[1]].map(str::to_owned);
    let daemon =
        Daemon::spawn(EXE.as_ref(), &home.path(), &args, &home.beside("log")).await.expect("it serves");
    daemon.stop().await.expect("it stops in order");
    assert_eq!(home.left_overs(), Vec::<String>::new());
}

/// Asks again and again, on a new connection each time; counts what was refused.
async fn ask(client: Client, until: Arc<AtomicBool>) -> (u32, Vec<ClientError>) {
    let (mut answered, mut refused) = (0, Vec::new());
    while !until.load(Ordering::Acquire) {
        let asked = async { client.connect().await?.branches().await };
        match asked.await {
            Ok(branches) => {
                assert_eq!(branches.len(), 1);
                answered += 1;
            }
            Err(error) => refused.push(error),
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    (answered, refused)
}

/// Inode of the program that a process runs.
fn runs(pid: u32) -> Option<u64> {
    fs::metadata(format!("/proc/{pid}/exe")).ok().map(|program| program.ino())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newer_program_runs_in_the_same_process_and_who_connects_waits() {
    let home = Home::new();
    let program = home.beside("duramen");
    fs::copy(EXE, &program).expect("a copy of the program");
    let log = fs::File::create(home.beside("log")).expect("a log");
    let mut daemon = Command::new(&program)
        .args(["--home".as_ref(), home.path().as_os_str(), "serve".as_ref(), "--handover".as_ref()])
        .args(SIZE)
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("its log"))
        .stderr(log)
        .spawn()
        .expect("the daemon");
    let pid = daemon.id();
    let client = Client::new(&home.path());
    until("it serves", async || client.connect().await.is_ok()).await;
    let mut connection = client.connect().await.expect("a connection");
    support::add_script(&home, &mut connection, "create table t (v text);", 3, 0).await;
    let url = create(&mut connection, "try").await.expect("a branch").url;
    let holder = wire(&url).await;
    holder.batch_execute("begin; insert into t values ('before')").await.expect("a transaction");

    for round in 0..3 {
        upgrade(&program, &newer_program(&home), pid);
        let old = runs(pid);
        let done = Arc::new(AtomicBool::new(false));
        let asking = tokio::spawn(ask(client.clone(), Arc::clone(&done)));
        kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), Signal::USR2).expect("the signal");
        until("the newer program runs", async || runs(pid).is_some() && runs(pid) != old).await;
        let mut connection = client.connect().await.expect("the socket is open all the time");
        settle(&mut connection).await;
        done.store(true, Ordering::Release);
        let (answered, refused) = asking.await.expect("answers");
        assert!(answered > 0);
        // A request that is sent on a connection that the old one is just closing may be lost; no connection is refused.
        for error in &refused {
            assert!(matches!(error, ClientError::Broken { .. }), "round {round}: {error}");
        }
        assert_eq!(connection.status().await.expect("its status").pid, pid);
        assert_eq!(zombies_of(pid), Vec::<String>::new());
        assert!(!servers_hold_its_socket(&home), "a server would keep the daemon's socket open after it");
    }
    holder.batch_execute("commit").await.expect("the same session");
    let mut connection = client.connect().await.expect("a connection");
    let rows = query(&mut connection, "try", "select v from t").await.expect("its row");
    assert_eq!(rows, serde_json::json!([["before"]]));

    drop(holder);
    connection.destroy_branch("try").await.expect("destroyed");
    settle(&mut connection).await;
    assert_eq!(zombies_of(pid), Vec::<String>::new());
    connection.shutdown().await.expect("it stops");
    assert!(daemon.wait().expect("it ends").success());
    assert_eq!(home.left_overs(), Vec::<String>::new());
}

/// Replaces a program that runs, as a package manager does.
fn upgrade(program: &Path, newer: &Path, pid: u32) {
    let before = runs(pid);
    fs::rename(newer, program).expect("the newer program in its place");
    assert_eq!(runs(pid), before, "the old one still runs");
}

/// Whether a server has the socket on which its daemon listens.
fn servers_hold_its_socket(home: &Home) -> bool {
    let path = format!(" {}", home.path().join("daemon.sock").display());
    let sockets = fs::read_to_string("/proc/net/unix").expect("sockets");
    let ours: Vec<String> = sockets
        .lines()
        .filter(|line| line.ends_with(&path))
        .filter_map(|line| line.split_whitespace().nth(6).map(|inode| format!("socket:[{inode}]")))
        .collect();
    assert!(!ours.is_empty(), "the daemon listens");
    duramen_postgres::processes_below(&home.path()).into_iter().any(|pid| {
        let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        open.filter_map(|fd| fs::read_link(fd.path()).ok())
            .any(|what| ours.iter().any(|socket| what.as_os_str() == socket.as_str()))
    })
}

/// Children of a process that have ended and were not collected.
fn zombies_of(pid: u32) -> Vec<String> {
    let children = fs::read_dir("/proc").expect("processes").flatten();
    let stats = children.filter_map(|process| fs::read_to_string(process.path().join("stat")).ok());
    stats
        .filter(|stat| {
            let rest: Vec<&str> =
                stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
            rest.first() == Some(&"Z") && rest.get(1) == Some(&pid.to_string().as_str())
        })
        .collect()
}

/// Runs a program with a descriptor 3 of some kind, and says that it was passed one as systemd does.
const PASS: &str = r#"
import os, socket, sys
kind, path, program = sys.argv[1], sys.argv[2], sys.argv[3:]
if kind == "file":
    fd = os.open("/dev/null", os.O_RDWR)
elif kind == "tcp":
    passed = socket.create_server(("127.0.0.1", 0))
    fd = passed.fileno()
elif kind == "datagram":
    passed = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    passed.bind(path)
    fd = passed.fileno()
elif kind == "elsewhere":
    passed = socket.socket(socket.AF_UNIX)
    passed.bind(path)
    passed.listen()
    fd = passed.fileno()
else:
    fd = None
if fd is not None:
    os.dup2(fd, 3)
    os.set_inheritable(3, True)
os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()))
os.execv(program[0], program)
"#;

/// A daemon that is passed something else than its own socket serves at its own or not at all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_passed_in_the_place_of_its_socket_is_not_served() {
    for (kind, serves) in
        [("file", false), ("nothing", false), ("tcp", false), ("datagram", false), ("elsewhere", true)]
    {
        let home = Home::new();
        let socket = home.beside("passed");
        let mut daemon = Command::new("python3")
            .args(["-c", PASS, kind])
            .arg(&socket)
            .args([EXE, "--home"])
            .arg(home.path())
            .args(["serve", "--until-stdin-ends", "--volumes", "copy"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("python3");
        if serves {
            let client = Client::new(&home.path());
            until("it answers at its own socket", async || client.connect().await.is_ok()).await;
            drop(daemon.stdin.take());
        }
        let output = daemon.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.success(), serves, "{kind}: {said}");
        if !serves {
            assert!(said.contains("LISTEN_FDS"), "{kind}: it says what to do: {said}");
        }
        assert_eq!(home.left_overs(), Vec::<String>::new(), "{kind}");
    }
}
