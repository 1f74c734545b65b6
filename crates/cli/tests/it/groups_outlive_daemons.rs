//! B34: what limits a branch outlives the daemon that set it, however that ended, and goes with the branch.

use crate::support::{connect, create, query, settle, until, wire, Home, EXE};
use duramen_api::model::{AddSource, Limits, Origin, Policy, PoolSize, SourceSettings};
use duramen_client::Connection;
use duramen_postgres::{processes_below, ControlGroups, Postmaster};
use duramen_server::process::Daemon;
use rustix::process::{geteuid, kill_process, Pid, Signal};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

const MEMORY: u64 = 200 << 20;
const PROCESSES: u32 = 24;
const CPU_WEIGHT: u32 = 50;

/// How a daemon ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    HandsOver,
    Killed,
}

/// Whether there are groups here: for root, where their controllers can be had.
fn have_groups() -> bool {
    geteuid().is_root() && ControlGroups::probe().is_ok()
}

/// The groups of ours that a process is in, one under each controller.
pub(crate) fn groups_of(pid: u32) -> BTreeSet<PathBuf> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    let lines = text.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
    let ours = lines.filter(|(_, path)| path.contains("/duramen/"));
    ours.map(|(controllers, path)| {
        // `cpu,cpuacct` is mounted under both names.
        let controller = controllers.split(',').next().unwrap_or_default();
        Path::new("/sys/fs/cgroup").join(controller).join(path.trim_start_matches('/'))
    })
    .collect()
}

/// What is written in a file that one of the groups has.
fn read(groups: &BTreeSet<PathBuf>, names: &[&str]) -> String {
    let files = groups.iter().flat_map(|group| names.iter().map(|name| group.join(name)));
    let text = files.filter_map(|file| fs::read_to_string(file).ok()).next();
    text.unwrap_or_else(|| panic!("none of {groups:?} has one of {names:?}")).trim().to_owned()
}

pub(crate) async fn limited_source(home: &Home, connection: &mut Connection) {
    let path = home.beside("app.sql");
    fs::write(&path, "create table t (x text);").expect("the script");
    let limits = Limits {
        memory: Some(MEMORY),
        processes: Some(PROCESSES),
        cpu_weight: Some(CPU_WEIGHT),
        ..Limits::default()
    };
    let mut settings = SourceSettings {
        pool: PoolSize { hot: [(Policy::ReadWrite, 1)].into(), cold: 0 },
        limits,
        ..SourceSettings::default()
    };
    settings.server.insert("max_connections".to_owned(), "100".to_owned());
    let request = AddSource {
        name: "app".to_owned(),
        origin: Origin::Script { path: path.display().to_string() },
        database: None,
        settings,
    };
    connection.add_source(&request, |_, _| {}).await.expect("the import");
    settle(connection).await;
}

/// The postmaster of the branch with this URL, which is in no other directory than its own.
pub(crate) async fn postmaster(home: &Home, url: &str) -> u32 {
    let client = wire(url).await;
    let row = client.query_one("select pg_backend_pid()", &[]).await.expect("its process");
    let backend = u32::try_from(row.get::<_, i32>(0)).expect("a process id");
    let volumes = fs::read_dir(home.path().join("volumes/branches")).expect("volumes").flatten();
    let of_it = volumes.map(|entry| entry.path()).find(|dir| processes_below(dir).contains(&backend));
    Postmaster::adopt(&of_it.expect("its volume")).expect("its server").pid()
}

/// Every process of the server is in its groups, whose limits are those of the source and hold.
pub(crate) async fn limits_hold(url: &str, postmaster: u32, when: &str) -> BTreeSet<PathBuf> {
    let groups = groups_of(postmaster);
    assert!(!groups.is_empty(), "{when}: the server is in no group");
    let memory = read(&groups, &["memory.limit_in_bytes", "memory.max"]);
    assert_eq!(memory, MEMORY.to_string(), "{when}");
    assert_eq!(read(&groups, &["pids.max"]), PROCESSES.to_string(), "{when}");
    let weight = read(&groups, &["cpu.shares", "cpu.weight"]);
    assert!(["512", "50"].contains(&weight.as_str()), "{when}: {weight}");

    let (mut clients, mut refused) = (Vec::new(), false);
    for _ in 0..=PROCESSES {
        match tokio_postgres::connect(url, tokio_postgres::NoTls).await {
            Ok((client, connection)) => {
                tokio::spawn(connection);
                let row = client.query_one("select pg_backend_pid()", &[]).await.expect("its process");
                let backend = u32::try_from(row.get::<_, i32>(0)).expect("a process id");
                assert_eq!(groups_of(backend), groups, "{when}: a session elsewhere");
                clients.push(client);
            }
            Err(_) => refused = true,
        }
    }
    assert!(refused, "{when}: {} sessions", clients.len());
    drop(clients);
    until("they have ended", async || {
        read(&groups, &["pids.current"]).parse::<u32>().is_ok_and(|count| count < PROCESSES / 2)
    })
    .await;
    // One that takes too much memory ends with its server, which comes back in its group.
    let killed = |groups: &BTreeSet<PathBuf>| -> u64 {
        let text = read(groups, &["memory.oom_control", "memory.events"]);
        let line = text.lines().find_map(|line| line.strip_prefix("oom_kill ")).expect("a count");
        line.trim().parse().expect("a number")
    };
    let before = killed(&groups);
    let hoard = "do $$ declare a text[] := '{}'; begin for i in 1..2000 loop \
                 a := a || repeat(md5(i::text), 32768); end loop; end $$";
    wire(url).await.batch_execute(hoard).await.expect_err("more than it may have");
    assert!(killed(&groups) > before, "{when}: its memory is not limited");
    until("it lets in again", async || tokio_postgres::connect(url, tokio_postgres::NoTls).await.is_ok())
        .await;
    groups
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_limits_a_branch_outlives_its_daemon() {
    if !have_groups() {
        return;
    }
    for end in [End::HandsOver, End::Killed] {
        let home = Home::new();
        let daemon = home.serve().await;
        let mut connection = connect(&daemon).await;
        limited_source(&home, &mut connection).await;
        let url = create(&mut connection, "try").await.expect("a branch").url;
        let first = postmaster(&home, &url).await;
        let groups = groups_of(first);
        assert!(!groups.is_empty(), "the server is in groups");

        let daemon = match end {
            End::HandsOver => {
                let args = ["--handover", "--volume-size", "8G"].map(str::to_owned);
                let log = home.beside("new-log");
                let new =
                    Daemon::spawn(EXE.as_ref(), &home.path(), &args, &log).await.expect("it takes over");
                daemon.kill();
                new
            }
            End::Killed => {
                daemon.kill();
                home.serve().await
            }
        };
        let mut connection = connect(&daemon).await;
        settle(&mut connection).await;
        assert_eq!(postmaster(&home, &url).await, first, "{end:?}: the same server goes on");
        let now = limits_hold(&url, first, &format!("{end:?}")).await;
        assert_eq!(now, groups, "{end:?}");

        // A server that the new daemon starts in its place is limited too.
        let running = postmaster(&home, &url).await;
        let raw = i32::try_from(running).ok().and_then(Pid::from_raw).expect("a process id");
        kill_process(raw, Signal::KILL).expect("the kill");
        until("another one runs", async || {
            query(&mut connection, "try", "select 1").await.is_ok()
                && postmaster(&home, &url).await != running
        })
        .await;
        let another = postmaster(&home, &url).await;
        assert_eq!(limits_hold(&url, another, &format!("{end:?}, started anew")).await, groups);

        connection.destroy_branch("try").await.expect("destroyed");
        settle(&mut connection).await;
        let left: Vec<_> = groups.iter().filter(|group| group.exists()).collect();
        assert!(left.is_empty(), "{end:?}: {left:?} outlive their branch");
        daemon.stop().await.expect("it stops in order");
        let left: Vec<_> =
            groups.iter().filter_map(|group| group.parent()).filter(|it| it.exists()).collect();
        assert!(left.is_empty(), "{end:?}: {left:?} outlive their daemon");
        assert_eq!(home.left_overs(), Vec::<String>::new());
    }
}

/// The groups of a home whose daemon was killed stayed for as long as the machine ran.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_purge_leaves_no_groups() {
    if !have_groups() {
        return;
    }
    for killed in [false, true] {
        let home = Home::new();
        let daemon = home.serve().await;
        let mut connection = connect(&daemon).await;
        limited_source(&home, &mut connection).await;
        let url = create(&mut connection, "try").await.expect("a branch").url;
        let groups = groups_of(postmaster(&home, &url).await);
        assert!(!groups.is_empty() && groups.iter().all(|group| group.exists()));
        if killed {
            daemon.kill();
        }
        let purged = home.run(&["purge", "--yes"]);
        assert!(purged.status.success(), "{purged:?}");
        let left: Vec<_> =
            groups.iter().filter_map(|group| group.parent()).filter(|it| it.exists()).collect();
        assert!(left.is_empty(), "killed: {killed}: {left:?}");
        assert_eq!(home.left_overs(), Vec::<String>::new());
    }
}
