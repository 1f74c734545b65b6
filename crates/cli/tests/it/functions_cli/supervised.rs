//! A worker under a supervisor such as systemd: what it tells it, and how it ends when it is told to.

use super::{
    common::{self, one, Server},
    shell::{until, Shell, Worker, SOON},
};
use duramen_base::clock;
use rustix::process::Signal;
use std::{os::unix::net::UnixDatagram, path::Path, time::Duration};

const UNIT: &str = include_str!("../../../../../deploy/systemd/duramen-fn-worker@.service");

/// The supervisor's end.
struct Supervisor {
    socket: UnixDatagram,
    folder: tempfile::TempDir,
}

impl Supervisor {
    fn new() -> Supervisor {
        let folder = tempfile::tempdir().unwrap();
        let socket = UnixDatagram::bind(folder.path().join("notify")).unwrap();
        Supervisor { socket, folder }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The next message that has such a line; others are passed over.
    fn hears(&self, line: &str, limit: Duration) -> Option<String> {
        let (began, mut buffer) = (clock::now(), [0; 4096]);
        while let Some(left) = limit.checked_sub(began.elapsed()).filter(|left| !left.is_zero()) {
            self.socket.set_read_timeout(Some(left)).unwrap();
            let Ok(length) = self.socket.recv(&mut buffer) else { break };
            let message = String::from_utf8(buffer[..length].to_vec()).unwrap();
            if message.lines().any(|found| found == line) {
                return Some(message);
            }
        }
        None
    }

    /// Takes away what has come.
    fn forget(&self) {
        self.socket.set_nonblocking(true).unwrap();
        while self.socket.recv(&mut [0; 4096]).is_ok() {}
        self.socket.set_nonblocking(false).unwrap();
    }
}

/// A worker under a watchdog of so long.
fn supervised(shell: &Shell, supervisor: &Supervisor, watchdog: Duration) -> Worker {
    shell.worker_with(&["--allow-superuser"], |command| {
        command.env("NOTIFY_SOCKET", supervisor.path().join("notify"));
        command.env("WATCHDOG_USEC", watchdog.as_micros().to_string());
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_supervisor_hears_when_a_worker_is_ready_lives_and_stops() {
    let database = common::database().await;
    let supervisor = Supervisor::new();
    let mut worker = supervised(&Shell::new(&database.url()), &supervisor, Duration::from_millis(400));
    let ready = supervisor.hears("READY=1", SOON).expect("it is ready");
    assert!(ready.contains("STATUS=works on ") && ready.contains(database.name()), "{ready}");
    let owner = database.owner().await;
    assert_eq!(one(&owner, "SELECT count(*) FROM df._worker_epoch").await.as_deref(), Some("1"), "it works");
    let began = clock::now();
    for beat in 0..10 {
        supervisor.hears("WATCHDOG=1", SOON).unwrap_or_else(|| panic!("no beat {beat}"));
    }
    let took = began.elapsed();
    assert!(took > Duration::from_millis(1500) && took < Duration::from_secs(4), "ten beats in {took:?}");

    // One that hangs says nothing.
    worker.signal(Signal::STOP);
    std::thread::sleep(Duration::from_millis(300));
    supervisor.forget();
    assert_eq!(supervisor.hears("WATCHDOG=1", Duration::from_secs(1)), None);
    worker.signal(Signal::CONT);
    supervisor.hears("WATCHDOG=1", SOON).expect("it goes on");

    worker.signal(Signal::TERM);
    let stopping = supervisor.hears("STOPPING=1", SOON).expect("it stops");
    assert!(stopping.contains("EXTEND_TIMEOUT_USEC=45000000\n"), "{stopping}");
    assert_eq!(worker.end().code(), Some(0), "{}", worker.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_is_not_restarted_because_its_database_is() {
    let server = tokio::task::spawn_blocking(Server::start).await.unwrap();
    let database = server.database().await;
    let supervisor = Supervisor::new();
    let mut worker = supervised(&Shell::new(&database.url()), &supervisor, Duration::from_millis(400));
    let beats = tokio::task::block_in_place(|| {
        server.while_stopped(|| {
            supervisor.forget();
            (0..10).filter(|_| supervisor.hears("WATCHDOG=1", Duration::from_secs(5)).is_some()).count()
        })
    });
    assert_eq!(beats, 10);
    worker.signal(Signal::TERM);
    assert_eq!(worker.end().code(), Some(0), "{}", worker.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_supervisor_that_is_gone_keeps_nobody_from_working() {
    let database = common::database().await;
    let alice = database.role("alice").await;
    let supervisor = Supervisor::new();
    std::fs::remove_file(supervisor.path().join("notify")).unwrap();
    let mut worker = supervised(&Shell::new(&database.url()), &supervisor, Duration::from_millis(100));
    Shell::new(&database.url_as(&alice)).ok(&["start", "SELECT 1", "--wait"]);
    worker.signal(Signal::TERM);
    assert_eq!(worker.end().code(), Some(0));
    assert!(worker.log().contains("NOTIFY_SOCKET"), "it says so");
}

/// A step that counts its attempts, which no rollback takes back.
const COUNTED: &str =
    "CREATE SEQUENCE attempts; GRANT ALL ON SEQUENCE attempts TO PUBLIC; CREATE TABLE t (v bigint);
    GRANT ALL ON t TO PUBLIC";

fn counted(seconds: u32) -> String {
    let begins = "SELECT nextval('attempts') AS v OFFSET 0";
    let sleeps = format!("SELECT v, pg_sleep({seconds}) FROM ({begins}) b OFFSET 0");
    format!("INSERT INTO t SELECT v FROM ({sleeps}) s RETURNING v")
}

#[tokio::test(flavor = "multi_thread")]
async fn what_takes_longer_than_the_limit_is_given_back_at_once() {
    let database = common::database().await;
    let alice = database.role("alice").await;
    let owner = database.owner().await;
    owner.batch_execute(COUNTED).await.unwrap();
    let (operator, shell) = (Shell::new(&database.url()), Shell::new(&database.url_as(&alice)));
    let mut worker = operator.worker(&["--drain-limit", "1s"]);
    let id = shell.start(&counted(12));
    until("it runs", || operator.json(&["top", "--count", "1"])["activities_running"] == 1);
    let began = clock::now();
    worker.signal(Signal::TERM);
    assert_eq!(worker.end().code(), Some(0), "{}", worker.log());
    let took = began.elapsed();
    assert!(took >= Duration::from_secs(1) && took < Duration::from_secs(8), "{took:?}");
    // Nobody has to find out that the worker is dead.
    let free = "SELECT count(*) FROM df._activity WHERE owner IS NULL";
    assert_eq!(one(&owner, free).await.as_deref(), Some("1"));
    assert_eq!(one(&owner, "SELECT count(*) FROM df._worker_epoch").await.as_deref(), Some("0"));
    let _next = operator.worker(&[]);
    shell.ok(&["await", &id, "--timeout", "60s"]);
    assert_eq!(one(&owner, "SELECT count(*) FROM t").await.as_deref(), Some("1"), "it had an effect once");
}

/// Others bury a worker that they have not heard of for 20 s, with what it runs.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_drains_for_long_is_not_taken_for_dead() {
    let database = common::database().await;
    let alice = database.role("alice").await;
    let owner = database.owner().await;
    owner.batch_execute(COUNTED).await.unwrap();
    let (operator, shell) = (Shell::new(&database.url()), Shell::new(&database.url_as(&alice)));
    let mut worker = operator.worker(&["--drain-limit", "2m"]);
    let id = shell.start(&counted(32));
    until("it runs", || operator.json(&["top", "--count", "1"])["activities_running"] == 1);
    let _other = operator.worker(&[]);
    worker.signal(Signal::TERM);
    assert_eq!(worker.end().code(), Some(0));
    let log = worker.log();
    assert!(!log.contains("believed dead"), "{log}");
    shell.ok(&["await", &id, "--timeout", "60s"]);
    // It began once, or in a turn first, which found that it takes too long.
    let begun = one(&owner, "SELECT last_value FROM attempts").await.unwrap();
    assert!(begun == "1" || begun == "2", "somebody ran it once more: {begun}");
}

#[test]
fn the_unit_says_what_the_program_takes() {
    let options = UNIT.lines().find_map(|line| line.strip_prefix("#   OPTIONS=")).expect("an example");
    let start =
        UNIT.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/bin/duramen fn ")).expect("a start");
    let start = start.replace("$OPTIONS", options);
    let arguments: Vec<&str> = start.split(' ').chain(["--help"]).collect();
    Shell::nowhere().ok(&arguments);
    for line in ["Type=notify", "WatchdogSec=120", "TimeoutStopSec=60", "DynamicUser=yes"] {
        assert!(UNIT.lines().any(|found| found == line), "{line}");
    }
}
