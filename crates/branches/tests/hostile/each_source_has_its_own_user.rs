//! The servers of each source run as a system user of its own: whoever gets out of one of them reaches nothing of another
//! source, nor of its import. The users are there as long as they are needed, and no longer.

use crate::support::{lease, pool, query, rows, settle, Home};
use duramen_api::model::{AddSource, Origin, Policy};
use duramen_branches::{remove_users, users_of, Engine};
use duramen_postgres::{account, processes_below, volume::Choice, ServerUser, SERVERS};
use serde_json::json;
use std::{
    fs,
    os::unix::{fs::MetadataExt, process::CommandExt},
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::Duration,
};

const NOBODY: u32 = 65534;
/// A number that no user of this machine has, as which servers ran before sources had users of their own.
const FORMER: u32 = 63_999;
/// Another one, and outside of those that Duramen gives: what a test takes from the machine, no other test may be given.
const FORGOTTEN: u32 = 63_998;

/// Tries everything that a process can do to others of the machine, and prints what worked. Arguments: process ids, then
/// paths after a dash.
const ATTACK: &str = r#"
import ctypes, os, signal, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
split = sys.argv.index("-")
pids, paths = [int(pid) for pid in sys.argv[1:split]], sys.argv[split + 1:]
def attempt(what, action):
    try:
        action()
    except (OSError, PermissionError):
        return
    print(what)
def check(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "refused")
class Vector(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]
for pid in pids:
    attempt(f"signal {pid}", lambda: os.kill(pid, 0))
    for name in ["mem", "maps", "environ", "stack"]:
        attempt(f"read {name} of {pid}", lambda: open(f"/proc/{pid}/{name}", "rb").read(0) or
                (name == "mem" or open(f"/proc/{pid}/{name}", "rb").read(1) or check(-1)))
    for name in ["cwd", "root", "exe", "fd"]:
        attempt(f"look at {name} of {pid}", lambda: os.listdir(f"/proc/{pid}/{name}") if name == "fd"
                else os.readlink(f"/proc/{pid}/{name}"))
    def peek():
        text = ctypes.create_string_buffer(8)
        near, far = Vector(ctypes.addressof(text), 8), Vector(0x400000, 8)
        result = libc.process_vm_readv(pid, ctypes.byref(near), 1, ctypes.byref(far), 1, 0)
        if result < 0 and ctypes.get_errno() in (1, 3):
            check(result)
    attempt(f"peek into {pid}", peek)
    def trace():
        check(libc.ptrace(0x4206, pid, None, None))
        libc.ptrace(17, pid, None, None)
    attempt(f"trace {pid}", trace)
for path in paths:
    if path.endswith("/.s.PGSQL.5432"):
        attempt(f"connect {path}", lambda: socket.socket(socket.AF_UNIX).connect(path))
    elif os.path.isdir(path):
        attempt(f"list {path}", lambda: os.listdir(path))
        attempt(f"write into {path}", lambda: os.rmdir(path + "/new") if os.mkdir(path + "/new") is None else None)
    else:
        attempt(f"read {path}", lambda: open(path, "rb"))
        attempt(f"write {path}", lambda: open(path, "r+b"))
"#;

/// What somebody can do to processes and paths.
fn attack(uid: u32, gid: u32, pids: &[u32], paths: &[PathBuf]) -> Vec<String> {
    let output = Command::new("python3")
        .args(["-c", ATTACK])
        .args(pids.iter().map(u32::to_string))
        .arg("-")
        .args(paths)
        .uid(uid)
        .gid(gid)
        .current_dir("/")
        .output()
        .expect("python3");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn uid_of(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Uid:"))?.split_whitespace().next()?.parse().ok()
}

/// The users that the servers of a branch run as.
fn users_of_servers(home: &Home, data: &str) -> Vec<u32> {
    let mut found: Vec<u32> = processes_below(&home.path().join("volumes/branches").join(data))
        .into_iter()
        .filter_map(uid_of)
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// The name of the user of a source, as the design gives it.
fn own_name(home: &Home, source: &str) -> String {
    let root = fs::canonicalize(home.path()).expect("the home");
    let digits = |bytes: &[u8]| blake3::hash(bytes).to_hex()[..8].to_owned();
    format!("{SERVERS}-{}-{}", digits(root.as_os_str().as_encoded_bytes()), digits(source.as_bytes()))
}

fn add_user(name: &str, uid: u32) {
    let made = Command::new("useradd")
        .args(["--system", "--no-create-home", "--gid", SERVERS, "--uid", &uid.to_string(), name])
        .output()
        .expect("useradd");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

async fn add(home: &Home, engine: &Arc<Engine>, name: &str, sql: &str, hot: u32) -> Result<(), String> {
    let path = home.beside(&format!("{name}.sql"));
    fs::write(&path, sql).expect("the script");
    let request = AddSource {
        name: name.to_owned(),
        origin: Origin::Script { path: path.display().to_string() },
        database: None,
        settings: pool(&[(Policy::ReadWrite, hot)]),
    };
    engine.add_source(request, |_, _| {}).await.map(drop).map_err(|error| error.to_string())
}

async fn lease_of(engine: &Arc<Engine>, source: &str, name: &str) -> (String, PathBuf) {
    let request = duramen_api::model::CreateBranch {
        name: Some(name.to_owned()),
        source: Some(source.to_owned()),
        ..Default::default()
    };
    let url = engine.create(request).await.expect("a lease").url;
    let socket = url.split("host=").nth(1).and_then(|rest| rest.split('&').next()).expect("a host");
    (volume_of(engine, name).await, PathBuf::from(socket))
}

async fn volume_of(engine: &Arc<Engine>, name: &str) -> String {
    let shown = rows(engine, name, "select pg_catalog.current_setting('duramen.identity')").await;
    shown[0][0].as_str().expect("the volume").to_owned()
}

/// Everything below a directory, but for what was fetched and is public.
fn everything_below(dir: &Path) -> Vec<PathBuf> {
    let entries = walkdir::WalkDir::new(dir).into_iter().flatten();
    entries.map(walkdir::DirEntry::into_path).filter(|path| !path.starts_with(dir.join("packages"))).collect()
}

/// Invariant B43. All servers ran as one user, Debian's `postgres` where there was one: a way out of one of them led into
/// all others, and into everything else that user owns.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_of_one_source_reach_nothing_of_another() {
    if !is_root() {
        return;
    }
    let home = Home::new();
    let engine = home.open().await;
    add(&home, &engine, "one", "create table t as select 1 as x;", 1).await.expect("an import");
    add(&home, &engine, "two", "create table t as select 2 as x;", 1).await.expect("an import");
    let (one, socket) = lease_of(&engine, "one", "of-one").await;
    let (two, _) = lease_of(&engine, "two", "of-two").await;
    settle(&engine).await;

    let (ones, twos) = (users_of_servers(&home, &one), users_of_servers(&home, &two));
    assert_eq!((ones.len(), twos.len()), (1, 1), "each source has one");
    assert_ne!(ones, twos);
    let names = users_of(home.path());
    assert_eq!(names.len(), 2, "{names:?}");
    let known: Vec<u32> =
        account::accounts().iter().filter(|it| names.contains(&it.name)).map(|it| it.uid).collect();
    assert!(known.contains(&ones[0]) && known.contains(&twos[0]), "{known:?} {ones:?} {twos:?}");

    let pids = processes_below(&home.path().join("volumes/branches").join(&one));
    assert!(pids.len() > 1, "a server and its processes");
    let mut paths = everything_below(home.path());
    // What is the attacker's own is no secret to it.
    paths.retain(|path| path.symlink_metadata().is_ok_and(|it| it.uid() != twos[0]));
    let sockets = [socket.join(".s.PGSQL.5432"), socket.join("admin/.s.PGSQL.5432")];
    assert!(sockets.iter().all(|socket| paths.contains(socket)), "{socket:?}");
    let group = ServerUser::current().expect("a user for servers").gid();
    let mut attackers = vec![("another source's servers", twos[0], group), ("nobody", NOBODY, NOBODY)];
    for (name, what) in [("postgres", "Debian's user"), (SERVERS, "servers of no source")] {
        if let Some(user) = nix::unistd::User::from_name(name).expect("the user database") {
            attackers.push((what, user.uid.as_raw(), user.gid.as_raw()));
        }
    }
    for (who, uid, gid) in attackers {
        assert_eq!(attack(uid, gid, &pids, &paths), Vec::<String>::new(), "{who}");
    }
    // The attempts themselves are sound: whom all of that belongs to succeeds.
    let own = attack(ones[0], group, &pids, &sockets);
    for what in ["signal", "trace", "read mem", "peek", "look at cwd", "connect"] {
        assert!(own.iter().any(|line| line.starts_with(what)), "{what}: {own:?}");
    }
    assert_eq!(rows(&engine, "of-one", "select x from t").await, json!([[1]]), "it was not harmed");
    engine.close().await.expect("close");
}

/// Invariant B43, while a source is imported: its servers hold data that nobody has made harmless yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_import_is_out_of_reach_for_other_sources() {
    if !is_root() {
        return;
    }
    let home = Home::new();
    let engine = home.open().await;
    add(&home, &engine, "one", "create table t as select 1 as x;", 1).await.expect("an import");
    let (one, _) = lease_of(&engine, "one", "of-one").await;
    let attacker = users_of_servers(&home, &one)[0];
    let group = ServerUser::current().expect("a user for servers").gid();
    let path = home.beside("slow.sql");
    fs::write(&path, "create table secret as select 1 as x; select pg_sleep(4);").expect("the script");
    let request = AddSource {
        name: "slow".to_owned(),
        origin: Origin::Script { path: path.display().to_string() },
        database: None,
        settings: pool(&[]),
    };
    let importing = tokio::spawn({
        let engine = Arc::clone(&engine);
        async move { engine.add_source(request, |_, _| {}).await.map(drop) }
    });
    let imports = home.path().join("volumes/imports");
    let mut runs = Vec::new();
    for _ in 0..400 {
        runs = processes_below(&imports);
        // The server of the script, and not only the program that makes its directory.
        if runs.len() > 4 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    assert!(runs.len() > 4, "no import was seen");
    let paths: Vec<PathBuf> = [imports, home.path().join("run"), home.path().join("logs")]
        .iter()
        .flat_map(|dir| everything_below(dir))
        .filter(|path| path.symlink_metadata().is_ok_and(|it| it.uid() != attacker))
        .collect();
    runs.retain(|pid| Path::new(&format!("/proc/{pid}")).exists());
    for pid in &runs {
        assert_ne!(uid_of(*pid), Some(attacker));
    }
    assert_eq!(attack(attacker, group, &runs, &paths), Vec::<String>::new());
    importing.await.expect("no panic").expect("the import");
    engine.close().await.expect("close");
}

/// Invariant B44: a user is there from the import of its source to the end of all that was its own, whatever happened in
/// between; two homes of one machine never share one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_are_there_as_long_as_their_source() {
    if !is_root() {
        return;
    }
    let (home, other) = (Home::new(), Home::new());
    let (engine, beside) = (home.open().await, other.open().await);
    let script = "create table t as select 1 as x;";
    let (a, b) = tokio::join!(add(&home, &engine, "app", script, 2), add(&other, &beside, "app", script, 1));
    a.expect("an import");
    b.expect("an import");
    let (here, there) = (users_of(home.path()), users_of(other.path()));
    assert_eq!((here.len(), there.len()), (1, 1));
    assert_ne!(here, there, "of the same source name in two homes");
    settle(&engine).await;
    settle(&beside).await;
    assert_eq!(remove_users(other.path()), 0, "its servers run");

    // One that fails leaves none.
    add(&home, &engine, "bad", "select 1/0;", 0).await.expect_err("division by zero");
    assert_eq!(users_of(home.path()), here);

    // With its branches.
    engine.remove_source("app").await.expect("removed");
    settle(&engine).await;
    for _ in 0..100 {
        if users_of(home.path()).is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(users_of(home.path()), Vec::<String>::new());
    assert_eq!(users_of(other.path()), there);

    // Of a source that went while no daemon was there to see it, or was never recorded.
    add(&home, &engine, "lost", script, 1).await.expect("an import");
    engine.close().await.expect("close");
    fs::remove_dir_all(home.path().join("sources/lost")).expect("its records");
    assert_eq!(users_of(home.path()).len(), 1);
    let engine = home.open().await;
    assert_eq!(users_of(home.path()), Vec::<String>::new());

    // What is kept in quarantine keeps its owner, whose number nobody else may have meanwhile.
    add(&home, &engine, "kept", script, 1).await.expect("an import");
    lease(&engine, "b", Policy::ReadWrite).await;
    engine.close().await.expect("close");
    let journal = home.path().join("leases.jsonl");
    let text = fs::read_to_string(&journal).expect("the journal");
    fs::write(&journal, text.replace("\"b\"", "\"c\"")).expect("the journal");
    let engine = home.open().await;
    engine.remove_source("kept").await.expect("removed");
    settle(&engine).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(users_of(home.path()).len(), 1, "its data are in quarantine");
    engine.close().await.expect("close");
    beside.close().await.expect("close");
    assert_eq!(remove_users(other.path()), 1);
}

/// Invariant B44, for homes of runs that were killed: nobody opens them again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_of_homes_that_are_gone_are_removed_by_the_next_daemon() {
    if !is_root() {
        return;
    }
    let gone = Home::new();
    let path = gone.path().to_owned();
    let engine = gone.open().await;
    add(&gone, &engine, "app", "create table t (x int);", 0).await.expect("an import");
    engine.close().await.expect("close");
    assert_eq!(users_of(&path).len(), 1);
    fs::remove_dir_all(&path).expect("the home");
    let home = Home::new();
    home.open().await.close().await.expect("close");
    assert_eq!(users_of(&path), Vec::<String>::new());
}

/// Invariant B45: what was imported while another user ran the servers goes on as it is, leases and resets too; from its
/// next import on the source has its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_generation_keeps_the_user_that_it_was_made_with() {
    if !is_root() {
        return;
    }
    let home = Home::with_volumes(Choice::Copy);
    let engine = home.open().await;
    home.add_script(&engine, "create table t as select 1 as x;", pool(&[(Policy::ReadWrite, 1)])).await;
    engine.close().await.expect("close");
    let own = account::accounts().into_iter().find(|it| users_of(home.path()).contains(&it.name));
    let own = own.expect("the source's user").uid;
    // As an earlier version left it.
    let manifest = home.path().join("sources/app/000001.json");
    let mut text: serde_json::Value =
        serde_json::from_slice(&fs::read(&manifest).expect("it")).expect("JSON");
    assert_eq!(text["user"]["uid"], json!(own));
    text.as_object_mut().expect("an object").remove("user");
    fs::write(&manifest, text.to_string()).expect("the manifest");
    for path in everything_below(&home.path().join("volumes/snapshots/app.000001")) {
        std::os::unix::fs::lchown(path, Some(FORMER), Some(FORMER)).expect("its owner");
    }

    let engine = home.open().await;
    lease(&engine, "old", Policy::ReadWrite).await;
    query(&engine, "old", "insert into t values (2)").await.expect("an insert");
    assert_eq!(users_of_servers(&home, &volume_of(&engine, "old").await), [FORMER]);
    settle(&engine).await;
    engine.refresh_source("app", |_, _| {}).await.expect("a refresh");
    settle(&engine).await;
    lease(&engine, "new", Policy::ReadWrite).await;
    assert_eq!(users_of_servers(&home, &volume_of(&engine, "new").await), [own]);
    assert_eq!(rows(&engine, "old", "select count(*) from t").await, json!([[2]]));
    engine.reset("old").await.expect("a reset");
    assert_eq!(users_of_servers(&home, &volume_of(&engine, "old").await), [FORMER]);
    engine.close().await.expect("close");
    let engine = home.open().await;
    assert_eq!(users_of_servers(&home, &volume_of(&engine, "old").await), [FORMER]);
    assert_eq!(rows(&engine, "old", "select count(*) from t").await, json!([[1]]));
    engine.close().await.expect("close");
}

/// Invariant B45 on a machine that has forgotten its users, such as a container that was made anew around its volume.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_that_the_machine_forgot_is_made_again() {
    if !is_root() {
        return;
    }
    let home = Home::new();
    let engine = home.open().await;
    add_user(&own_name(&home, "app"), FORGOTTEN);
    home.add_script(&engine, "create table t as select 1 as x;", pool(&[(Policy::ReadWrite, 1)])).await;
    lease(&engine, "b", Policy::ReadWrite).await;
    query(&engine, "b", "insert into t values (2)").await.expect("an insert");
    let volume = volume_of(&engine, "b").await;
    let before = users_of_servers(&home, &volume);
    assert_eq!(before, [FORGOTTEN]);
    engine.close().await.expect("close");
    let names = users_of(home.path());
    assert_eq!(remove_users(home.path()), 1);

    let engine = home.open().await;
    assert_eq!(users_of(home.path()), names);
    assert_eq!(users_of_servers(&home, &volume), before);
    assert_eq!(rows(&engine, "b", "select count(*) from t").await, json!([[2]]));
    settle(&engine).await;
    engine.close().await.expect("close");

    // Its number is somebody else's by now: nothing runs as them, and the data are kept.
    assert_eq!(remove_users(home.path()), 1);
    let stranger = format!("{SERVERS}-test-{}", std::process::id());
    add_user(&stranger, FORGOTTEN);
    let engine = home.open().await;
    let refused = query(&engine, "b", "select 1").await.expect_err("not as somebody else");
    let said = engine.status().pool_error.unwrap_or_default();
    let ran = users_of_servers(&home, &volume);
    engine.close().await.expect("close");
    assert!(Command::new("userdel").arg(&stranger).status().expect("userdel").success());
    assert!(
        ran.is_empty() && said.contains(&stranger) && said.contains("refresh"),
        "{ran:?} {said} {refused}"
    );
    let engine = home.open().await;
    assert_eq!(rows(&engine, "b", "select count(*) from t").await, json!([[2]]));
    engine.close().await.expect("close");
}
