//! What a branch takes of the machine is its own: its quota of disk, its memory, its processes. Whoever takes all of it is
//! refused, or loses his own server for a moment; neighbours notice nothing.

use crate::support::{lease, pool, query, rows, settle, until, Home};
use duramen_api::model::{
    AddSource, BranchView, ChangeSettings, CreateBranch, Limits, Origin, Policy, RefillSettings,
    SourceSettings,
};
use duramen_branches::Engine;
use duramen_postgres::{Cluster, ControlGroups, Installation, ServerUser, Settings, StopMode};
use serde_json::json;
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

const MIB: u64 = 1 << 20;
/// Rows that no compression makes small: 6.4 MB.
const FILL: &str = "insert into t select string_agg(md5(random()::text), '') from generate_series(1, 200000) i group by i % 800";

/// Two ready branches of a source, which are leased.
fn limited(limits: Limits) -> SourceSettings {
    SourceSettings { limits, ..pool(&[(Policy::ReadWrite, 2)]) }
}

async fn leased(engine: &Arc<Engine>, names: &[&str]) {
    settle(engine).await;
    for name in names {
        lease(engine, name, Policy::ReadWrite).await;
    }
    let none =
        ChangeSettings { hot: [(Policy::ReadWrite, 0)].into(), cold: Some(0), ..ChangeSettings::default() };
    engine.change_settings("app", none).await.expect("an empty pool");
    settle(engine).await;
}

/// A source of one major version with an empty table `t`.
async fn add_of(home: &Home, engine: &Arc<Engine>, installation: &Installation, settings: SourceSettings) {
    let major = installation.version.major;
    let user = ServerUser::current().expect("a server user");
    let cluster = Cluster::new(installation.clone(), home.beside(&format!("origin-{major}")), user);
    cluster.init("owner_of_it", false).expect("initdb");
    cluster.write_file("pg_hba.conf", "local all all trust\n").expect("hba");
    let (socket, limit) = (home.beside("s-origin"), Duration::from_secs(60));
    let mut server = cluster.start(&socket, &Settings::minimal(major), limit).expect("the server starts");
    let mut config = tokio_postgres::Config::new();
    config.host_path(&socket).port(5432).user("owner_of_it").dbname("postgres");
    let (client, connection) = config.connect(tokio_postgres::NoTls).await.expect("it answers");
    let connection = tokio::spawn(connection);
    client.batch_execute("create table t (x text)").await.expect("a table");
    drop(client);
    let _ = connection.await;
    server.stop(StopMode::Fast, limit).expect("it stops");
    let origin = Origin::DataDirectory { path: cluster.data_dir().display().to_string() };
    let request = AddSource { name: "app".to_owned(), origin, database: None, settings };
    engine.add_source(request, |_, _| {}).await.expect("the import");
}

async fn connect(view: &BranchView) -> Result<tokio_postgres::Client, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(&view.url, tokio_postgres::NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// The quota groups of volumes in the file system of a home, without those of the file system itself and of snapshots.
fn quota_groups(home: &Home) -> BTreeSet<String> {
    let point = home.path().join("volumes").display().to_string();
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mounts");
    let line = mounts.lines().find(|line| line.contains(&format!(" {point} "))).expect("the store's mount");
    let device = line.split(" /dev/").nth(1).and_then(|rest| rest.split(' ').next()).expect("its device");
    let file_systems = fs::read_dir("/sys/fs/btrfs").expect("file systems").flatten();
    let ours = file_systems.map(|entry| entry.path()).find(|path| path.join("devices").join(device).exists());
    let groups = fs::read_dir(ours.expect("the file system").join("qgroups")).expect("groups").flatten();
    let names = groups.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with("0_")).collect()
}

fn has_quotas(engine: &Engine) -> bool {
    let holds = engine.status().limits.disk.holds;
    if !holds {
        assert!(
            !rustix::process::geteuid().is_root(),
            "as root there are quotas: {:?}",
            engine.status().limits
        );
    }
    holds
}

/// Fills a branch until it is refused.
async fn fill(engine: &Arc<Engine>, name: &str) -> duramen_branches::EngineError {
    for _ in 0..400 {
        if let Err(error) = query(engine, name, FILL).await {
            return error;
        }
    }
    panic!("{name} was never refused");
}

/// Invariants B31 and B33, under every server that is installed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_branch_is_refused_alone_and_comes_back() {
    let home = Home::new();
    let installed = Installation::discover(home.path()).expect("installations");
    let mut majors: Vec<Installation> = installed;
    majors.dedup_by_key(|found| found.version.major);
    for installation in majors {
        let home = Home::new();
        let engine = home.open().await;
        let settings = limited(Limits { disk: Some(160 * MIB), ..Limits::default() });
        add_of(&home, &engine, &installation, settings).await;
        if !has_quotas(&engine) {
            return engine.close().await.expect("close");
        }
        leased(&engine, &["full", "neighbour"]).await;
        let before = engine.branch("neighbour").expect("it").disk.expect("its use");
        assert_eq!(before.quota, 160 * MIB);
        assert!(before.used < 16 * MIB, "what is shared with the snapshot does not count: {before:?}");

        let mut refusals = BTreeSet::new();
        for round in 0..6 {
            let error = fill(&engine, "full").await;
            // Whether it is the statement that finds no room or the server's log is a matter of chance.
            assert!(error.message.contains("used up its quota of disk"), "{error}");
            refusals.insert((error.code, error.sqlstate.clone()));
            let use_of_it = engine.branch("full").expect("it").disk.expect("its use");
            assert!(use_of_it.used <= (160 + 256) * MIB, "round {round}: {use_of_it:?}");
            // The neighbour goes on writing.
            query(&engine, "neighbour", "insert into t values ('after')")
                .await
                .expect("the neighbour writes");
            // Whatever the refusal did to its server, it comes back by itself, with what was acknowledged.
            let mut answer = Err(error);
            for _ in 0..300 {
                answer = query(&engine, "full", "select count(*) > 0 from t").await;
                if answer.is_ok() {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            answer.expect("it answers again");
        }
        println!("{}: {refusals:?}", installation.version);
        for (code, state) in &refusals {
            let of_the_statement = *code == "sql_error" && state.as_deref() == Some("53100");
            assert!(of_the_statement || *code == "session_lost", "{refusals:?}");
        }
        // Its holder can clean up, and goes on.
        let mut cleaned = false;
        for _ in 0..100 {
            cleaned = query(&engine, "full", "truncate t").await.is_ok();
            if cleaned {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        if cleaned {
            query(&engine, "full", FILL).await.expect("there is room again");
        }
        let view = engine.reset("full").await.expect("a reset");
        assert_eq!(view.state, "ready");
        query(&engine, "full", FILL).await.expect("an empty quota");
        assert_eq!(rows(&engine, "neighbour", "select count(*) from t").await, json!([[6]]));

        // Nothing of a quota is left of what is gone.
        for name in ["full", "neighbour"] {
            engine.destroy(name).expect("destroy");
        }
        settle(&engine).await;
        // The file system's own, and the snapshot's; the kernel removes the others with the last block of their volumes.
        until("nothing is left of their quotas", async || quota_groups(&home).len() == 2).await;
        engine.close().await.expect("close");
    }
}

/// Invariant B31. A change of the quota holds for branches that are leased already, and a silly one is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quota_can_be_raised_while_its_branch_is_held() {
    let home = Home::new();
    let engine = home.open().await;
    let settings = limited(Limits { disk: Some(96 * MIB), ..Limits::default() });
    home.add_script(&engine, "create table t (x text);", settings).await;
    if !has_quotas(&engine) {
        return engine.close().await.expect("close");
    }
    let change =
        |limits| engine.change_settings("app", ChangeSettings { limits, ..ChangeSettings::default() });
    let error = change(Limits { disk: Some(MIB), ..Limits::default() }).await.expect_err("too little");
    assert_eq!(error.code, "bad_limit");
    for refill in [
        RefillSettings { clones: Some(65), ..RefillSettings::default() },
        RefillSettings { starts: Some(u32::MAX), ..RefillSettings::default() },
        RefillSettings { connects: Some(65), ..RefillSettings::default() },
    ] {
        let settings = ChangeSettings { refill, ..ChangeSettings::default() };
        let error = engine.change_settings("app", settings).await.expect_err("too many threads");
        assert_eq!(error.code, "bad_limit", "{refill:?}");
    }
    assert_eq!(engine.source("app").expect("it").settings.refill, RefillSettings::default());
    leased(&engine, &["b"]).await;
    fill(&engine, "b").await;
    until("it answers", async || engine.branch("b").is_ok_and(|view| view.state == "ready")).await;
    change(Limits { disk: Some(400 * MIB), ..Limits::default() }).await.expect("more");
    assert_eq!(engine.branch("b").expect("it").disk.expect("its use").quota, 400 * MIB);
    let mut written = false;
    for _ in 0..100 {
        written = query(&engine, "b", FILL).await.is_ok();
        if written {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(written, "it may write more");
    let view = change(Limits { disk: Some(0), ..Limits::default() }).await.expect("as usual");
    assert_eq!(view.settings.limits, Limits::default());
    engine.close().await.expect("close");
    // The next daemon gives the same quota.
    let engine = home.open().await;
    let quota = home.options.volume_size.expect("a size") / 4;
    assert_eq!(engine.branch("b").expect("it").disk.expect("its use").quota, quota);
    engine.close().await.expect("close");
}

/// Invariant B32. Every branch together cannot take the room that resets and deletions need.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_full_store_branches_can_still_be_reset_and_destroyed() {
    let mut home = Home::new();
    home.options.volume_size = Some(800 * MIB);
    let engine = home.open().await;
    let settings = limited(Limits { disk: Some(2 << 30), ..Limits::default() });
    home.add_script(&engine, "create table t (x text);", settings).await;
    if !has_quotas(&engine) {
        return engine.close().await.expect("close");
    }
    leased(&engine, &["greedy", "other"]).await;
    for _ in 0..3 {
        fill(&engine, "greedy").await;
        for _ in 0..100 {
            if query(&engine, "greedy", "select 1").await.is_ok() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    let error = engine.create(CreateBranch::default()).await.expect_err("there is no room for another one");
    assert_eq!(error.code, "too_many_leases", "{error}");
    assert!(error.message.contains("destroy branches"), "{error}");
    // Of a neighbour that holds next to nothing, so that its end gives no room.
    let view = engine.reset("other").await.expect("a reset on a full store");
    assert_eq!(view.state, "ready");
    assert_eq!(rows(&engine, "other", "select count(*) from t").await, json!([[0]]));
    engine.destroy("greedy").expect("destroy");
    settle(&engine).await;
    query(&engine, "other", FILL).await.expect("there is room again");
    engine.close().await.expect("close");
}

/// The groups of a home's branches, by controller.
fn control_groups(home: &Home) -> Vec<PathBuf> {
    let hash = blake3_of(home.path());
    let roots = ["/sys/fs/cgroup/memory", "/sys/fs/cgroup/pids", "/sys/fs/cgroup/cpu"].map(PathBuf::from);
    // Version 2: below the group that this program was started in. It has moved to one below it by now.
    let own = fs::read_to_string("/proc/self/cgroup").expect("its groups");
    let own = own
        .lines()
        .find_map(|line| line.strip_prefix("0::/"))
        .map(|own| Path::new("/sys/fs/cgroup").join(own));
    let own = own.into_iter().flat_map(|own| own.ancestors().map(Path::to_owned).take(2).collect::<Vec<_>>());
    let roots: Vec<PathBuf> =
        roots.into_iter().chain(own).map(|root| root.join("duramen").join(&hash)).collect();
    let children = roots.iter().flat_map(|root| fs::read_dir(root).into_iter().flatten().flatten());
    children.filter(|entry| entry.path().is_dir()).map(|entry| entry.path()).collect()
}

fn blake3_of(home: &Path) -> String {
    let home = fs::canonicalize(home).expect("the home");
    blake3::hash(home.as_os_str().as_encoded_bytes()).to_hex()[..16].to_owned()
}

fn processes_in(group: &Path) -> Vec<u32> {
    let text = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

fn has_groups(engine: &Engine) -> bool {
    let holds = engine.status().limits.groups.holds;
    assert_eq!(holds, ControlGroups::probe().is_ok() && rustix::process::geteuid().is_root());
    holds
}

/// Invariant B34.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_branch_has_a_group_for_as_long_as_it_lives() {
    let home = Home::new();
    let engine = home.open().await;
    home.add_script(&engine, "create table t (x text);", limited(Limits::default())).await;
    if !has_groups(&engine) {
        return engine.close().await.expect("close");
    }
    leased(&engine, &["a", "b"]).await;
    let view = engine.branch("a").expect("it");
    let client = connect(&view).await.expect("a session");
    let one = client.query_one("select pg_backend_pid()", &[]).await.expect("its process");
    let backend: i32 = one.get(0);
    let groups = control_groups(&home);
    let with_memory: Vec<&PathBuf> = groups.iter().filter(|dir| !processes_in(dir).is_empty()).collect();
    assert_eq!(with_memory.len(), groups.len(), "no group without a server: {groups:?}");
    let of_backend: Vec<_> = groups
        .iter()
        .filter(|dir| processes_in(dir).contains(&u32::try_from(backend).expect("an id")))
        .collect();
    assert!(
        of_backend.len() * 2 == groups.len(),
        "one of the two, under each controller: {of_backend:?} of {groups:?}"
    );
    // Under version 1 all of them together weigh more than one process of the machine, which they lie beside.
    let processors = std::thread::available_parallelism().expect("a count").get();
    for home_group in groups.iter().filter_map(|dir| dir.parent()) {
        if let Ok(shares) = fs::read_to_string(home_group.join("cpu.shares")) {
            assert_eq!(shares.trim(), (2048 * processors).to_string(), "{}", home_group.display());
        }
    }
    // All that a server started is in its group, from the first process on.
    for pid in duramen_postgres::processes_below(&home.path().join("volumes/branches")) {
        assert!(groups.iter().any(|dir| processes_in(dir).contains(&pid)), "{pid} is in no group");
    }
    let limit = of_backend.iter().find_map(|dir| fs::read_to_string(dir.join("memory.limit_in_bytes")).ok());
    let limit =
        limit.or_else(|| of_backend.iter().find_map(|dir| fs::read_to_string(dir.join("memory.max")).ok()));
    assert_eq!(limit.expect("a limit").trim(), Limits::MEMORY.to_string());
    let more =
        Limits { memory: Some(512 * MIB), processes: Some(64), cpu_weight: Some(50), ..Limits::default() };
    engine
        .change_settings("app", ChangeSettings { limits: more, ..ChangeSettings::default() })
        .await
        .expect("less");
    let read = |name: &str| of_backend.iter().find_map(|dir| fs::read_to_string(dir.join(name)).ok());
    assert_eq!(read("pids.max").expect("a limit").trim(), "64");
    drop(client);

    engine.reset("a").await.expect("a reset");
    engine.destroy("b").expect("destroy");
    settle(&engine).await;
    let left = control_groups(&home);
    assert_eq!(left.len() * 2, groups.len(), "{left:?}");
    engine.close().await.expect("close");
    assert_eq!(control_groups(&home), Vec::<PathBuf>::new());
    let engine = home.open().await;
    assert_eq!(rows(&engine, "a", "select 1").await, json!([[1]]));
    assert_eq!(control_groups(&home).len(), left.len());
    engine.close().await.expect("close");
}

/// Invariant B35. A session that takes all memory of its branch ends, with the others of this branch; the server is back
/// at once, and no neighbour notices.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_branch_that_takes_all_its_memory_harms_itself() {
    let home = Home::new();
    let engine = home.open().await;
    let settings = limited(Limits { memory: Some(200 * MIB), ..Limits::default() });
    home.add_script(&engine, "create table t (x text);", settings).await;
    if !has_groups(&engine) {
        return engine.close().await.expect("close");
    }
    leased(&engine, &["greedy", "neighbour"]).await;
    query(&engine, "greedy", "insert into t values ('kept')").await.expect("a row");
    let neighbour = connect(&engine.branch("neighbour").expect("it")).await.expect("a session");
    let greedy = connect(&engine.branch("greedy").expect("it")).await.expect("a session");
    let hoard = "do $$ declare a text[] := '{}'; begin for i in 1..2000 loop a := a || repeat(md5(i::text), 32768); end loop; end $$";
    let error = greedy.batch_execute(hoard).await.expect_err("more than it may have");
    println!("{error}");
    let error = query(&engine, "greedy", hoard).await.expect_err("more than it may have");
    println!("{error}");
    neighbour.batch_execute("insert into t values ('undisturbed')").await.expect("the same session goes on");
    let mut answer = json!(null);
    for _ in 0..300 {
        if let Ok(reply) = query(&engine, "greedy", "select x from t").await {
            answer = serde_json::from_str(reply.results[0].rows.get()).expect("rows");
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(answer, json!([["kept"]]));
    assert_eq!(engine.branch("greedy").expect("it").state, "ready");
    drop((neighbour, greedy));
    engine.close().await.expect("close");
}

/// Invariant B35. However many connections are asked for, their processes are counted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_branch_that_takes_all_its_processes_harms_itself() {
    let home = Home::new();
    let engine = home.open().await;
    let mut settings = limited(Limits { processes: Some(24), ..Limits::default() });
    settings.server.insert("max_connections".to_owned(), "200".to_owned());
    home.add_script(&engine, "create table t (x text);", settings).await;
    if !has_groups(&engine) {
        return engine.close().await.expect("close");
    }
    leased(&engine, &["greedy", "neighbour"]).await;
    let view = engine.branch("greedy").expect("it");
    let mut clients = Vec::new();
    let mut refused = 0;
    for _ in 0..60 {
        match tokio::time::timeout(Duration::from_secs(10), connect(&view)).await.expect("an answer") {
            Ok(client) => clients.push(client),
            Err(_) => refused += 1,
        }
    }
    assert!(clients.len() < 24 && refused > 30, "{} sessions, {refused} refused", clients.len());
    let neighbour = connect(&engine.branch("neighbour").expect("it")).await.expect("the neighbour lets in");
    neighbour.batch_execute("insert into t values ('undisturbed')").await.expect("and writes");
    drop(clients);
    let mut enters = false;
    for _ in 0..100 {
        enters = connect(&view).await.is_ok();
        if enters {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(enters, "whoever lets go lets others in");
    engine.close().await.expect("close");
}

/// Invariant B33. A server that is killed is back for clients that know nothing of the daemon.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_ended_is_started_again_without_being_asked() {
    let home = Home::new();
    let engine = home.open().await;
    home.add_script(&engine, "create table t (x text);", limited(Limits::default())).await;
    leased(&engine, &["b"]).await;
    query(&engine, "b", "insert into t values ('kept')").await.expect("a row");
    let view = engine.branch("b").expect("it");
    for pid in duramen_postgres::processes_below(&home.path().join("volumes/branches")) {
        let _ = std::process::Command::new("kill").args(["-9", &pid.to_string()]).status();
    }
    let mut found = None;
    for _ in 0..300 {
        if let Ok(client) = connect(&view).await {
            if let Ok(row) = client.query_one("select x from t", &[]).await {
                found = Some(row.get::<_, String>(0));
                break;
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(found.as_deref(), Some("kept"));
    assert_eq!(engine.branch("b").expect("it").state, "ready");
    engine.close().await.expect("close");
}

/// Invariant B36.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_are_limited_by_what_the_machine_has() {
    let home = Home::new();
    let engine = home.open().await;
    let memory = duramen_postgres::memory_total().expect("the machine's memory");
    let limit = u64::from(engine.status().limits.leases);
    assert_eq!(limit, (memory / (8 * MIB)).min(5000));
    engine.close().await.expect("close");
}
