//! A daemon that dies at any moment takes no promise along and leaves no litter: what was acknowledged holds
//! after the next start, what was half-made is gone.

use crate::support;
use crate::support::{connect, create, entries, query, settle, shared_memory, until, wire, Home};
use duramen_api::model::{SourceView, Status};
use duramen_base::{clock, entropy};
use duramen_client::{Client, ClientError, Connection};
use duramen_postgres::processes_below;
use duramen_server::process::Daemon;
use rustix::process::{kill_process, Pid, Signal};
use serde_json::json;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::{fs::MetadataExt, process::CommandExt},
    path::{Path, PathBuf},
    sync::{
        atomic::{AtomicBool, Ordering},
        Arc, Mutex,
    },
    time::Duration,
};

/// Rounds of kills, unless `DURAMEN_SOAK_KILLS` says otherwise.
const KILLS: u32 = 20;
const HOT: u32 = 4;
const COLD: u32 = 1;
/// Branches beyond the kept ones that outlive a round at most.
const HELD_MAX: usize = 5;

/// What is known of a branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// A create was sent and not answered.
    Asked,
    /// Acknowledged.
    There,
    /// A destroy was sent and not answered.
    Going,
    /// Acknowledged as destroyed.
    Gone,
}

/// What is known of a branch and of the rows in it.
#[derive(Debug, Clone, Copy)]
struct Known {
    fate: Fate,
    /// Rows that were acknowledged, and may not have been taken back by a reset.
    at_least: i64,
    /// The same with those that were asked for and not answered.
    at_most: i64,
}

type Ledger = Arc<Mutex<BTreeMap<String, Known>>>;

fn note(ledger: &Ledger, name: &str, fate: Fate) {
    let new = Known { fate, at_least: 0, at_most: 0 };
    ledger.lock().unwrap().entry(name.to_owned()).or_insert(new).fate = fate;
}

fn note_rows(ledger: &Ledger, name: &str, change: impl FnOnce(&mut Known)) {
    change(ledger.lock().unwrap().get_mut(name).expect("a known branch"));
}

fn names(ledger: &Ledger, fate: Fate) -> Vec<String> {
    let ledger = ledger.lock().unwrap();
    ledger.iter().filter(|(_, known)| known.fate == fate).map(|(name, _)| name.clone()).collect()
}

/// What a round kills.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victims {
    Daemon,
    /// Postmasters and their children, some of those of leased, ready and half-made branches; the daemon lives.
    Servers,
    Both,
}

/// Asks for one thing after another until the daemon is gone, or `enough`. Only the branches of `prefix` are touched. When
/// servers are killed, what is refused may have happened or not, like what is not answered.
async fn keep_busy(
    client: Client,
    ledger: Ledger,
    prefix: String,
    seed: u64,
    victims: Victims,
    enough: Arc<AtomicBool>,
) {
    let mut rng = entropy::rng(seed);
    let Ok(mut connection) = client.connect().await else { return };
    for number in 0.. {
        if enough.load(Ordering::Acquire) {
            return;
        }
        let mut mine: Vec<String> = names(&ledger, Fate::There);
        mine.retain(|name| name.starts_with(&prefix));
        let outcome = match (rng.u32(0..10), mine.is_empty()) {
            (0..4, _) | (_, true) => {
                let name = format!("{prefix}-{number}");
                note(&ledger, &name, Fate::Asked);
                create(&mut connection, &name).await.map(|_| note(&ledger, &name, Fate::There))
            }
            (4..6, _) => {
                let name = &mine[rng.usize(0..mine.len())];
                note(&ledger, name, Fate::Going);
                connection.destroy_branch(name).await.map(|_| note(&ledger, name, Fate::Gone))
            }
            (6..9, _) => {
                let name = &mine[rng.usize(0..mine.len())];
                note_rows(&ledger, name, |known| known.at_most += 1);
                let sql = "insert into t values ('noise') returning v";
                query(&mut connection, name, sql)
                    .await
                    .map(|_| note_rows(&ledger, name, |known| known.at_least += 1))
            }
            _ => {
                let name = &mine[rng.usize(0..mine.len())];
                note_rows(&ledger, name, |known| known.at_least = 0);
                let reset = connection.reset_branch(name).await;
                reset.map(|_| note_rows(&ledger, name, |known| known.at_most = 0))
            }
        };
        match outcome {
            Ok(()) => {}
            Err(
                ClientError::Broken { .. } | ClientError::NotRunning { .. } | ClientError::Connect { .. },
            ) => return,
            Err(ClientError::Refused { .. }) if victims != Victims::Daemon => {}
            Err(error) => panic!("{prefix}: {error}"),
        }
    }
}

/// Imports the source anew; the kill comes in the middle of most of them.
async fn refresh(client: Client, victims: Victims) {
    let Ok(mut connection) = client.connect().await else { return };
    match connection.refresh_source("app", |_, _| {}).await {
        Ok(SourceView { .. }) => {}
        Err(ClientError::Refused { body, .. }) if victims == Victims::Daemon => {
            panic!("the refresh was refused: {}", body.message)
        }
        Err(_) => {}
    }
}

/// A branch that is held through all the kills, with a row that only it has.
struct Kept {
    name: String,
    url: String,
    value: String,
}

async fn check_kept(connection: &mut Connection, kept: &[Kept]) {
    for Kept { name, url, value } in kept {
        let view = connection.branch(name).await.expect("a kept branch");
        assert_eq!((&view.url, view.state.as_str()), (url, "ready"));
        let rows = patiently(connection, name, "select v from t").await;
        assert_eq!(rows, json!([[value]]));
        let row = wire(url).await.query_one("select v from t", &[]).await.expect("its row on the wire");
        assert_eq!(&row.get::<_, String>(0), value);
    }
}

/// Every acknowledged branch is there, every destroyed one is not; what was not answered may be either.
async fn check_promises(connection: &mut Connection, ledger: &Ledger, kept: &[Kept]) {
    // A server of which a part was killed comes back by itself (B33).
    let mut waiting = Vec::new();
    let all_ready = async {
        loop {
            let listed = connection.branches().await.expect("the branches");
            waiting = listed.into_iter().filter(|view| view.state != "ready").collect();
            if waiting.is_empty() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let in_time = tokio::time::timeout(support::SOON, all_ready).await;
    assert!(in_time.is_ok(), "these never became ready: {waiting:#?}");
    let listed = connection.branches().await.expect("the branches");
    let mut there: BTreeSet<String> = listed
        .into_iter()
        .map(|view| {
            assert_eq!(view.state, "ready", "{view:?}");
            view.name
        })
        .collect();
    for Kept { name, .. } in kept {
        assert!(there.remove(name), "{name} is lost");
    }
    for (name, known) in ledger.lock().unwrap().iter_mut() {
        let is_there = there.remove(name);
        match known.fate {
            Fate::There => assert!(is_there, "{name} was acknowledged and is lost"),
            Fate::Gone => assert!(!is_there, "{name} was destroyed and is back"),
            Fate::Asked | Fate::Going => known.fate = if is_there { Fate::There } else { Fate::Gone },
        }
    }
    assert!(there.is_empty(), "nobody asked for {there:?}");
    for name in names(ledger, Fate::There) {
        let rows = patiently(connection, &name, "select count(*) from t").await;
        let rows = rows[0][0].as_i64().expect("a number");
        note_rows(ledger, &name, |known| {
            assert!((known.at_least..=known.at_most).contains(&rows), "{name} has {rows} rows: {known:?}");
            (known.at_least, known.at_most) = (rows, rows);
        });
    }
}

/// A query whose server may have been killed a moment ago: what is said of it then is that the next query starts it anew.
async fn patiently(connection: &mut Connection, name: &str, sql: &str) -> serde_json::Value {
    for _ in 0..3 {
        match query(connection, name, sql).await {
            Err(ClientError::Refused { .. }) => tokio::time::sleep(Duration::from_millis(100)).await,
            answered => return answered.expect("an answer"),
        }
    }
    query(connection, name, sql).await.expect("its rows")
}

/// A pool whose servers were killed while they started is tried again after a minute, or when somebody wants a branch.
async fn fill_again(connection: &mut Connection) {
    for _ in 0..5 {
        if connection.status().await.expect("its status").pool_error.is_none() {
            return;
        }
        if create(connection, "wanted").await.is_ok() {
            connection.destroy_branch("wanted").await.expect("destroyed");
        }
    }
}

async fn seen(busy: Vec<tokio::task::JoinHandle<()>>) {
    for task in busy {
        task.await.expect("a client saw only what it may see");
    }
}

/// Kills processes of branches with SIGKILL: half of those that are there just now, whatever they are.
fn kill_servers(home: &Home, seed: u64) -> usize {
    let mut pids = processes_below(&home.path().join("volumes/branches"));
    entropy::rng(seed).shuffle(&mut pids);
    pids.truncate(pids.len().div_ceil(2));
    for pid in &pids {
        let pid = i32::try_from(*pid).ok().and_then(Pid::from_raw).expect("a process id");
        // One that has ended meanwhile is as good.
        let _ = kill_process(pid, Signal::KILL);
    }
    pids.len()
}

/// Volumes, processes and sockets of the leases and the pool, and no others. A ready branch whose server was killed is
/// replaced when that is seen (B33).
async fn check_litter(home: &Home, connection: &mut Connection) {
    let mut found = String::new();
    let all_gone = async {
        loop {
            let status = settle(connection).await;
            match litter(home, &status) {
                None => return,
                Some(litter) => found = litter,
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let in_time = tokio::time::timeout(support::SOON, all_gone).await;
    assert!(in_time.is_ok(), "this is not what the leases and the pool need: {found}");
}

fn litter(home: &Home, status: &Status) -> Option<String> {
    let running = usize::try_from(status.leases + HOT).unwrap();
    let volumes = home.path().join("volumes");
    // Beside the snapshots that are kept of branches that were reset.
    let mut branches = entries(&volumes.join("branches"));
    branches.retain(|name| name.starts_with("v-"));
    let imports = entries(&volumes.join("imports"));
    let sockets = entries(&home.path().join("run"));
    let at_work: BTreeSet<String> = processes_below(&home.path())
        .into_iter()
        .filter_map(|pid| {
            let place = fs::read_link(format!("/proc/{pid}/cwd")).ok()?;
            Some(place.strip_prefix(home.path()).unwrap_or(&place).display().to_string())
        })
        .collect();
    let known =
        |place: &String| place.strip_prefix("volumes/branches/").is_some_and(|name| branches.contains(name));
    let is_clean = branches.len() == running + usize::try_from(COLD).unwrap()
        && imports.is_empty()
        && sockets.len() == running
        && at_work.len() == running
        && at_work.iter().all(known);
    (!is_clean).then(|| {
        format!("{status:#?}: volumes {branches:?}, imports {imports:?}, sockets {sockets:?}, processes in {at_work:?}")
    })
}

/// The process id of the server of a branch's volume.
fn server_of(home: &Home, volume: &str) -> u32 {
    let file = home.path().join("volumes/branches").join(volume).join("postmaster.pid");
    let text = fs::read_to_string(&file).expect("a server's pid file");
    text.lines().next().and_then(|line| line.parse().ok()).expect("a process id")
}

/// The daemon and its servers are killed together, in the middle of a statement, and the daemon starts at once. What the
/// servers leave names processes that are gone, hang, or are others by now.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_are_killed_with_their_daemon_come_back() {
    let home = Home::new();
    let mut daemon = home.serve().await;
    let mut connection = connect(&daemon).await;
    support::add_script(&home, &mut connection, "create table t (v text);", 2, 0).await;
    let mut kept = Vec::new();
    for number in 0..2 {
        let (name, value) = (format!("kept-{number}"), entropy::token(12));
        let url = create(&mut connection, &name).await.expect("a branch").url;
        let sql = format!("insert into t values ('{value}') returning v");
        query(&mut connection, &name, &sql).await.expect("its row");
        kept.push(Kept { name, url, value });
    }
    for round in 0..6 {
        settle(&mut connection).await;
        let busy = wire(&kept[0].url).await;
        let busy = tokio::spawn(async move { busy.batch_execute("select pg_sleep(600)").await });
        let volumes: Vec<u32> = entries(&home.path().join("volumes/branches"))
            .iter()
            .map(|volume| server_of(&home, volume))
            .collect();
        let sockets: Vec<_> = kept.iter().map(|kept| socket_dir(&kept.url)).collect();
        daemon.kill();
        for pid in volumes {
            let _ = std::process::Command::new("kill").args(["-9", &pid.to_string()]).status();
        }
        if round % 2 == 1 {
            // The number of the server is that of another process of its user by now.
            let mut other = std::process::Command::new("sleep");
            let user = fs::metadata(home.path().join("volumes/branches")).expect("the volumes");
            other.arg("60").uid(user.uid()).gid(user.gid());
            let mut other = other.spawn().expect("another process");
            for dir in &sockets {
                for dir in [dir.clone(), dir.join("admin")] {
                    let lock = dir.join(".s.PGSQL.5432.lock");
                    if let Ok(text) = fs::read_to_string(&lock) {
                        let rest = text.split_once('\n').map_or("", |(_, rest)| rest);
                        fs::write(&lock, format!("{}\n{rest}", other.id())).expect("a lock");
                    }
                }
            }
            daemon = home.serve().await;
            connection = connect(&daemon).await;
            check_kept(&mut connection, &kept).await;
            other.kill().and_then(|()| other.wait()).expect("the other process ends");
        } else {
            daemon = home.serve().await;
            connection = connect(&daemon).await;
            check_kept(&mut connection, &kept).await;
        }
        busy.await.expect("it ended").expect_err("its server was killed");
    }
    Daemon::stop(daemon).await.expect("it stops in order");
    assert_eq!(home.left_overs(), Vec::<String>::new());
}

/// Where the kernel tells of the volume store of a home, if that is a file system of ours.
fn kernel_of(home: &Home) -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mounts");
    let store = format!(" {} ", home.path().join("volumes").display());
    let line = mounts.lines().find(|line| line.contains(&store))?;
    let device = line.split_once(" - btrfs /dev/")?.1.split(' ').next()?;
    let listed = fs::read_dir("/sys/fs/btrfs").expect("file systems");
    listed.flatten().map(|entry| entry.path()).find(|dir| dir.join("devices").join(device).exists())
}

/// Leaves all of the store to data, and a chunk of it with little: many small pieces, which take the kernel a while to move
/// into what is free of the others. Branches have nothing in that one: what they wrote lies in front by then.
fn leave_pieces(dir: &Path) {
    const SMALL: std::ops::Range<usize> = 150..3350;
    fs::create_dir(dir).expect("a directory");
    let file = |number: usize| dir.join(number.to_string());
    let flush = || rustix::fs::syncfs(fs::File::open(dir).expect("the directory")).expect("flushed");
    flush();
    let piece = |number: usize| vec![1; if SMALL.contains(&number) { 64 << 10 } else { 2 << 20 }];
    let write = |number: &usize| {
        if number.is_multiple_of(50) {
            // They lie in the order in which they are flushed; and metadata is given more of the store for what is not.
            flush();
        }
        fs::write(file(*number), piece(*number)).is_ok()
    };
    let count = (0..).take_while(write).count();
    flush();
    let goes =
        |at: &usize| if SMALL.contains(at) { at % 10 < 7 } else { at.is_multiple_of(8) || *at == count };
    (0..=count).filter(goes).for_each(|at| fs::remove_file(file(at)).expect("it goes"));
    flush();
}

/// Invariants B16 and B56. The kernel ends a balance that its daemon was killed in some time later, and the daemon's hold of
/// its home with it. The next one, started at once, waits for that, and goes on where it ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_that_was_killed_in_the_middle_of_a_balance_is_followed_at_once() {
    let home = Home::new();
    let daemon = home.serve_within("1G").await;
    let mut connection = connect(&daemon).await;
    support::add_script(&home, &mut connection, "create table t as select 1 as v;", 0, 0).await;
    create(&mut connection, "kept").await.expect("a branch");
    query(&mut connection, "kept", "insert into t values (2)").await.expect("a row");
    settle(&mut connection).await;
    let Some(kernel) = kernel_of(&home) else { return daemon.stop().await.expect("it stops in order") };
    let read = |name: &str| fs::read_to_string(kernel.join(name)).expect("what the kernel tells");
    let pid = i32::try_from(daemon.pid()).ok().and_then(Pid::from_raw).expect("a process id");
    // It is to find all of it at once.
    kill_process(pid, Signal::STOP).expect("held");
    leave_pieces(&home.path().join("volumes/filling"));
    kill_process(pid, Signal::CONT).expect("let go");
    let begin = clock::now();
    while !read("exclusive_operation").starts_with("balance") {
        assert!(begin.elapsed() < support::SOON, "nothing was balanced");
        std::thread::sleep(Duration::from_micros(200));
    }
    kill_process(pid, Signal::KILL).expect("killed");
    let set_aside = read("allocation/data/disk_total");
    let next = home.serve_within("1G").await;
    // It is collected only now.
    daemon.kill();
    let mut connection = connect(&next).await;
    until("the rest is balanced", async || read("allocation/data/disk_total") != set_aside).await;
    assert_eq!(query(&mut connection, "kept", "select sum(v) from t").await.expect("its rows"), json!([[3]]));
    assert!(connection.verify_source("app").await.expect("verify").intact, "a snapshot is what it was");
    query(&mut connection, "kept", "insert into t values (4)").await.expect("a row");
    next.stop().await.expect("it stops in order");
    assert_eq!(home.left_overs(), Vec::<String>::new());
}

/// The socket directory that a URL names.
fn socket_dir(url: &str) -> PathBuf {
    let (_, rest) = url.split_once("host=").expect("a host");
    PathBuf::from(rest.split('&').next().expect("its end"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_at_random_moments_lose_and_leave_nothing() {
    let seed = entropy::seed();
    println!("DURAMEN_SEED={seed}");
    let mut rng = entropy::rng(seed);
    let segments = shared_memory();
    let home = Home::new();
    let mut daemon = home.serve().await;
    let mut connection = connect(&daemon).await;
    support::add_script(&home, &mut connection, "create table t (v text);", HOT, COLD).await;

    let mut kept = Vec::new();
    for number in 0..3 {
        let (name, value) = (format!("kept-{number}"), entropy::token(12));
        let url = create(&mut connection, &name).await.expect("a branch").url;
        let sql = format!("insert into t values ('{value}') returning v");
        query(&mut connection, &name, &sql).await.expect("its row");
        kept.push(Kept { name, url, value });
    }

    let ledger = Ledger::default();
    let soak = std::env::var("DURAMEN_SOAK_KILLS");
    let kills = soak.map_or(KILLS, |text| text.parse().expect("a number"));
    for round in 0..kills {
        let victims = match round % 4 {
            0 | 2 => Victims::Daemon,
            1 => Victims::Servers,
            _ => Victims::Both,
        };
        let enough = Arc::new(AtomicBool::new(false));
        let mut busy = Vec::new();
        for worker in 0..2 {
            let (prefix, seed) = (format!("r{round}-{worker}"), rng.u64(..));
            let (ledger, enough) = (ledger.clone(), Arc::clone(&enough));
            busy.push(tokio::spawn(keep_busy(daemon.client(), ledger, prefix, seed, victims, enough)));
        }
        // Now and then the kill falls into an import.
        let refreshing = rng.u32(0..4) == 0;
        if refreshing {
            busy.push(tokio::spawn(refresh(daemon.client(), victims)));
        }
        let moment = Duration::from_millis(rng.u64(0..if refreshing { 3000 } else { 900 }));
        tokio::time::sleep(moment).await;
        let killed = if victims == Victims::Daemon { 0 } else { kill_servers(&home, rng.u64(..)) };
        println!(
            "kill {round} of {victims:?} after {moment:?}, {killed} processes, refreshing: {refreshing}"
        );
        if victims == Victims::Servers {
            tokio::time::sleep(Duration::from_millis(rng.u64(0..300))).await;
            enough.store(true, Ordering::Release);
            seen(busy).await;
        } else {
            daemon.kill();
            seen(busy).await;
            daemon = home.serve().await;
        }
        connection = connect(&daemon).await;
        check_promises(&mut connection, &ledger, &kept).await;
        check_kept(&mut connection, &kept).await;
        fill_again(&mut connection).await;
        check_litter(&home, &mut connection).await;
        let audit = connection.verify_audit().await.expect("the audit log");
        assert!(audit.intact, "{audit:?}");

        let held = names(&ledger, Fate::There);
        for name in held.iter().skip(HELD_MAX) {
            connection.destroy_branch(name).await.expect("destroyed");
            note(&ledger, name, Fate::Gone);
        }
    }

    Daemon::stop(daemon).await.expect("it stops in order");
    assert_eq!(home.left_overs(), Vec::<String>::new());
    // Others' servers come and go too; ours must be among those that went.
    until("no shared memory is left", async || shared_memory().is_subset(&segments)).await;

    let daemon = home.serve().await;
    check_kept(&mut connect(&daemon).await, &kept).await;
    daemon.stop().await.expect("it stops in order");
    assert_eq!(home.left_overs(), Vec::<String>::new());
}
