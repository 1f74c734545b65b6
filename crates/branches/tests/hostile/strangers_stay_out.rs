//! Other users of the machine: they read nothing of a home, and enter no branch, whatever they find in the kernel's
//! lists; and a damaged journal gives away nobody's data either.

use crate::support::{lease, pool, query, rows, settle, Home};
use duramen_api::model::{CreateBranch, Origin, Policy, ProtectBranch};
use duramen_branches::{exposed, Engine};
use duramen_postgres::{processes_below, volume::Choice};
use serde_json::json;
use std::{
    fs,
    os::unix::{fs::MetadataExt, fs::PermissionsExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::Arc,
    time::Duration,
};
use tokio_postgres::{Config, NoTls};

/// Salt and keys of a verifier, of the lengths that a server takes.
const ENDLESS_KEYS: &str = "AAAAAAAAAAAAAAAAAAAAAA==$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
/// A user of the machine with whom nothing is shared.
const NOBODY: u32 = 65534;

fn as_nobody(program: &str, arguments: &[&str]) -> Output {
    Command::new(program).args(arguments).uid(NOBODY).gid(NOBODY).current_dir("/").output().expect("it runs")
}

/// What below a folder others may use, but for sockets (their directories decide) and what was already public.
fn open_to_others(dir: &Path) -> Vec<PathBuf> {
    let entries = walkdir::WalkDir::new(dir).into_iter().flatten();
    let exposed = entries.filter(|entry| {
        let mode = entry.metadata().map_or(0, |it| it.mode());
        !entry.path_is_symlink() && mode & 0o170_000 != 0o140_000 && mode & 0o007 != 0
    });
    exposed.map(walkdir::DirEntry::into_path).collect()
}

async fn connects(config: &Config) -> Result<String, String> {
    let (client, connection) = config.connect(NoTls).await.map_err(|error| {
        error.as_db_error().map_or_else(|| error.to_string(), |error| error.code().code().to_owned())
    })?;
    tokio::spawn(connection);
    Ok(client.query_one("select current_user::text", &[]).await.expect("a row").get(0))
}

/// Invariant B23. The volume file was 0644 in a home that others could enter: every user could read password verifiers
/// and all data off it, and server logs too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn others_read_and_list_nothing_of_a_home() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let home = Home::new();
    // As version 0.1 left it.
    for (path, mode) in [("", 0o755), ("logs", 0o711), ("sources", 0o711), ("audit", 0o711), ("run", 0o711)] {
        let path = home.path().join(path);
        fs::create_dir_all(&path).expect("a folder");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("its mode");
    }
    for name in ["leases.jsonl", "logs/v-old.log"] {
        fs::write(home.path().join(name), "").expect("a file");
        fs::set_permissions(home.path().join(name), fs::Permissions::from_mode(0o644)).expect("its mode");
    }
    assert!(!exposed(home.path()).is_empty(), "doctor tells");
    let engine = home.open().await;
    home.add_script(&engine, "create table t as select 1 as x;", pool(&[(Policy::ReadWrite, 1)])).await;
    lease(&engine, "b", Policy::ReadWrite).await;
    query(&engine, "b", "insert into t values (2)").await.expect("an insert");
    engine.reset("b").await.expect("a reset");
    settle(&engine).await;
    assert_eq!(open_to_others(home.path()), Vec::<PathBuf>::new());
    assert_eq!(exposed(home.path()), Vec::<PathBuf>::new());
    let file = home.path().join("volumes.btrfs");
    if file.exists() {
        let read = as_nobody("head", &["-c", "1", &file.display().to_string()]);
        assert!(!read.status.success() && read.stdout.is_empty(), "{read:?}");
    }
    for dir in ["", "run", "logs", "volumes", "volumes/branches"] {
        let listed = as_nobody("ls", &[&home.path().join(dir).display().to_string()]);
        assert!(!listed.status.success() && listed.stdout.is_empty(), "{dir}: {listed:?}");
    }
    engine.close().await.expect("close");
    assert_eq!(open_to_others(home.path()), Vec::<PathBuf>::new());
}

/// Invariant B24. Anyone could enter any branch through a socket that the kernel lists, and the servers' user, which is
/// an administrator of other things too, was superuser in all of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_branch_is_entered_with_its_secret_or_not_at_all() {
    let home = Home::new();
    let engine = home.open().await;
    let both = pool(&[(Policy::ReadWrite, 2), (Policy::ReadOnly, 1)]);
    home.add_script(&engine, "create table t as select 1 as x;", both).await;
    settle(&engine).await;
    let [one, other] =
        [lease(&engine, "one", Policy::ReadWrite).await, lease(&engine, "other", Policy::ReadWrite).await];
    let config = |url: &str| url.parse::<Config>().expect("a URL");
    let secret = |url: &str| config(url).get_password().expect("a secret").to_vec();
    assert_ne!(secret(&one.url), secret(&other.url));
    assert_eq!(connects(&config(&one.url)).await.as_deref(), Ok("duramen_write"));

    // Without it, with that of another branch, as anybody else: refused, and not even root's name helps.
    let mut without = Config::new();
    without.host_path(socket_dir(&one.url)).port(5432).dbname("app").user("duramen_write");
    assert!(connects(&without).await.is_err(), "no secret");
    for user in ["duramen_write", "duramen_admin", "duramen_read", "duramen_ddl", "postgres", "root"] {
        let mut wrong = without.clone();
        wrong.user(user).password(secret(&other.url));
        assert!(connects(&wrong).await.is_err(), "{user} enters with another branch's secret");
    }
    let admin = engine.administrator_url("one").await.expect("the branch").url;
    assert_eq!(connects(&config(&admin)).await.as_deref(), Ok("duramen_admin"));
    assert_ne!(secret(&admin), secret(&one.url));
    let mut by_secret_of_holder = config(&admin);
    by_secret_of_holder.password(secret(&one.url));
    assert_eq!(connects(&by_secret_of_holder).await, Err("28P01".to_owned()));
    if rustix::process::geteuid().is_root() {
        for url in [&one.url, &admin] {
            let dir = socket_dir(url);
            let found = as_nobody("ls", &[&dir.display().to_string()]);
            assert!(!found.status.success(), "{found:?}");
            let entered = as_nobody(
                "python3",
                &[
                    "-c",
                    "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])",
                    &dir.join(".s.PGSQL.5432").display().to_string(),
                ],
            );
            let said = String::from_utf8_lossy(&entered.stderr).into_owned();
            assert!(said.contains("PermissionError"), "a stranger reaches the socket: {entered:?}");
        }
        let dir = socket_dir(&admin);
        assert_eq!(fs::metadata(&dir).expect("the folder").mode() & 0o777, 0o700);
    }

    // A holder's role can change its own password: the daemon goes on all the same, and the URL works again.
    query(&engine, "one", "alter role duramen_write password 'mine'").await.expect("its own password");
    let end = query(&engine, "one", "select pg_terminate_backend(pg_backend_pid())").await;
    assert!(end.is_err(), "the resident session ends");
    assert_eq!(rows(&engine, "one", "select x from t").await, json!([[1]]));
    assert_eq!(connects(&config(&one.url)).await.as_deref(), Ok("duramen_write"));

    // Nor does it keep the daemon busy with a verifier of four million rounds, half a minute for a client that obeys.
    let endless = format!("alter role duramen_write password 'SCRAM-SHA-256$4000000:{}'", ENDLESS_KEYS);
    query(&engine, "one", &endless).await.expect("its own password");
    let end = query(&engine, "one", "select pg_terminate_backend(pg_backend_pid())").await;
    assert!(end.is_err(), "the resident session ends");
    let answer = tokio::time::timeout(Duration::from_secs(10), rows(&engine, "one", "select x from t"));
    assert_eq!(answer.await.expect("an answer in time"), json!([[1]]));

    // Another secret after a reset, the same after a restart, none after the end.
    let fresh = engine.reset("one").await.expect("a reset");
    assert_ne!(secret(&fresh.url), secret(&one.url));
    assert_eq!(connects(&config(&one.url)).await, Err("28P01".to_owned()));
    assert_eq!(connects(&config(&fresh.url)).await.as_deref(), Ok("duramen_write"));
    engine.close().await.expect("close");
    let engine = home.open().await;
    assert_eq!(engine.branch("one").expect("the branch").url, fresh.url);
    assert_eq!(connects(&config(&fresh.url)).await.as_deref(), Ok("duramen_write"));
    engine.destroy("one").expect("destroy");
    assert!(connects(&config(&fresh.url)).await.is_err(), "a destroyed branch is entered");
    let next = lease(&engine, "one", Policy::ReadWrite).await;
    assert_ne!(secret(&next.url), secret(&fresh.url));
    engine.close().await.expect("close");
}

/// Invariant B24: each branch has a secret of its own, too, if the snapshot's first verifier is not where its manifest
/// says, or if it does not say.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_verifier_that_cannot_be_replaced_is_given_by_a_session() {
    let home = Home::new();
    let engine = home.open().await;
    home.add_script(&engine, "create table t as select 1 as x;", pool(&[(Policy::ReadWrite, 1)])).await;
    engine.close().await.expect("close");
    let path = home.path().join("sources/app/000001.json");
    let mut manifest: serde_json::Value =
        serde_json::from_slice(&fs::read(&path).expect("the manifest")).expect("JSON");
    let place = manifest["first_verifiers"]["read-write"].clone();
    let offset = place["offsets"][0].as_u64().expect("the snapshot's first verifier was found");
    for wrong in [
        json!({"read-write": {"offsets": [offset + 1], "file": place["file"], "text": place["text"],
            "checksums": place["checksums"]}}),
        json!({}),
    ] {
        manifest["first_verifiers"] = wrong;
        fs::write(&path, manifest.to_string()).expect("the manifest");
        let engine = home.open().await;
        let lost = lease(&engine, "b", Policy::ReadWrite).await;
        engine.destroy("b").expect("destroy");
        let kept = lease(&engine, "b", Policy::ReadWrite).await;
        let config: Config = kept.url.parse().expect("a URL");
        assert_eq!(connects(&config).await.as_deref(), Ok("duramen_write"));
        let other: Config = lost.url.parse().expect("a URL");
        assert_ne!(config.get_password(), other.get_password());
        let mut another = config.clone();
        another.password(other.get_password().expect("a secret"));
        assert_eq!(connects(&another).await, Err("28P01".to_owned()));
        engine.destroy("b").expect("destroy");
        engine.close().await.expect("close");
    }
}

/// The socket directory of a branch, out of its URL.
fn socket_dir(url: &str) -> PathBuf {
    url.split("host=").nth(1).and_then(|rest| rest.split('&').next()).expect("a host").into()
}

/// Invariant B24: a branch that version 0.1 leased, whose server trusts everybody, keeps its data and asks for a secret
/// from the first opening on; no branch is made of its snapshot any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_branch_of_version_0_1_is_secured_and_keeps_its_data() {
    let home = Home::new();
    let engine = home.open().await;
    home.add_script(&engine, "create table t as select 1 as x;", pool(&[(Policy::ReadWrite, 1)])).await;
    let before = lease(&engine, "b", Policy::ReadWrite).await;
    query(&engine, "b", "insert into t values (2)").await.expect("an insert");
    let admin = engine.administrator_url("b").await.expect("the branch").url;
    let (client, connection) = tokio_postgres::connect(&admin, NoTls).await.expect("the administrator");
    tokio::spawn(connection);
    client
        .batch_execute("alter role duramen_admin password null; alter role duramen_write password null")
        .await
        .expect("as 0.1 left it");
    let data: String = client.query_one("show data_directory", &[]).await.expect("a row").get(0);
    drop(client);
    engine.close().await.expect("close");
    // The volumes are mounted by the next opening only: what 0.1 wrote is put there by an opening that is then killed.
    let manifest = home.path().join("sources/app/000001.json");
    let mut text: serde_json::Value =
        serde_json::from_slice(&fs::read(&manifest).expect("it")).expect("JSON");
    text.as_object_mut().expect("an object").remove("format").expect("the format");
    fs::write(&manifest, text.to_string()).expect("the manifest");
    let store = duramen_postgres::volume::open(home.path(), Choice::Auto, 0).expect("the volumes");
    let rules = "local all duramen_admin peer map=owners\nlocal all duramen_write trust\n";
    fs::write(Path::new(&data).join("pg_hba.read-write.conf"), rules).expect("the rules of 0.1");
    store.close().expect("unmounted");

    let engine = home.open().await;
    let view = engine.branch("b").expect("the lease");
    assert_eq!((view.state.as_str(), &view.url), ("ready", &before.url));
    let mut without = view.url.parse::<Config>().expect("a URL");
    without.password("none");
    assert_eq!(connects(&without).await, Err("28P01".to_owned()));
    assert_eq!(connects(&view.url.parse().expect("a URL")).await.as_deref(), Ok("duramen_write"));
    assert_eq!(rows(&engine, "b", "select x from t order by 1").await, json!([[1], [2]]));
    // It cannot be reset, since no branch is made of its snapshot; that does not make it a failed one.
    assert_eq!(engine.reset("b").await.expect_err("no snapshot").code, "snapshot_outdated");
    assert_eq!(rows(&engine, "b", "select x from t order by 1").await, json!([[1], [2]]));
    let problem = engine.status().pool_error.expect("its source is not branched any more");
    assert!(problem.contains("duramen source refresh app"), "{problem}");
    engine.refresh_source("app", |_, _| {}).await.expect("a refresh");
    lease(&engine, "c", Policy::ReadWrite).await;
    engine.close().await.expect("close");
}

/// Invariant B22. One damaged line of the journal destroyed a branch, protected or not, and a byte that is not UTF-8
/// kept the daemon from starting.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_damaged_journal_may_own_is_kept() {
    let home = Home::new();
    let engine = home.open().await;
    home.add_script(&engine, "create table t (x int);", pool(&[(Policy::ReadWrite, 2)])).await;
    for name in ["whole", "damaged"] {
        lease(&engine, name, Policy::ReadWrite).await;
        query(&engine, name, "insert into t values (7)").await.expect("an insert");
    }
    let soon = CreateBranch { name: Some("guarded".to_owned()), ttl_s: Some(1), ..CreateBranch::default() };
    engine.create(soon).await.expect("a lease");
    engine.protect("guarded", ProtectBranch { protected: true }).expect("protect");
    engine.close().await.expect("close");
    let journal = home.path().join("leases.jsonl");
    let mut bytes = fs::read(&journal).expect("the journal");
    // Every line that names it, as a bad sector would leave them.
    for at in positions(&bytes, b"\"damaged\"") {
        bytes[at + 1] = 0xff;
    }
    // Of the protected one only what protects it, and by a bit that leaves the line readable.
    for at in positions(&bytes, b"\"protected\":true") {
        let line = bytes[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let volume = line + positions(&bytes[line..at], b"\"volume\":\"v-")[0] + 12;
        bytes[volume] ^= 1;
    }
    fs::write(&journal, &bytes).expect("the journal");

    let engine = home.open().await;
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    assert_eq!(
        rows(&engine, "guarded", "select count(*) from t").await,
        json!([[0]]),
        "its time is over, but not it"
    );
    assert_eq!(rows(&engine, "whole", "select x from t").await, json!([[7]]));
    assert!(engine.branch("damaged").is_err());
    let said = engine.status().warnings.join("\n");
    let quarantine = home.path().join("volumes/quarantine");
    assert!(said.contains(&quarantine.display().to_string()) && said.contains("leases.damaged-"), "{said}");
    let kept: Vec<PathBuf> =
        fs::read_dir(&quarantine).expect("it").flatten().map(|entry| entry.path()).collect();
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert!(processes_below(&quarantine).is_empty());
    assert_eq!(fs::read(home.path().join("leases.damaged-1.jsonl")).expect("a copy"), bytes);
    settle(&engine).await;
    engine.close().await.expect("close");
    // It stays, and is told of, until somebody has looked; its data are whole.
    let engine = home.open().await;
    assert_eq!(engine.status().warnings.len(), 1);
    assert_eq!(data_of(&home, &kept[0]).await, 7);
    engine.close().await.expect("close");
}

fn positions(bytes: &[u8], needle: &[u8]) -> Vec<usize> {
    (0..bytes.len().saturating_sub(needle.len())).filter(|at| bytes[*at..].starts_with(needle)).collect()
}

/// What an operator would do with a quarantined directory: start a server on it.
async fn data_of(home: &Home, data: &Path) -> i32 {
    use duramen_postgres::{Cluster, Installation, ServerUser, Settings};
    let user = ServerUser::owner_of(data).expect("its source's user");
    let cluster = Cluster::new(Installation::choose(home.path(), None).expect("programs"), data, user)
        .with_log(home.beside("by-hand.log"));
    let printed = cluster
        .single_user("app", "select 'x is ' || x from public.t;\n", &Settings::new())
        .expect("single-user mode");
    printed
        .split("x is ")
        .nth(1)
        .and_then(|rest| rest.split('"').next())
        .expect(&printed)
        .parse()
        .expect("a number")
}

/// The sample's server of version 0.1 let its system users in as superuser; it asks for a secret now.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_samples_server_asks_for_a_secret() {
    let home = Home::new();
    let engine: Arc<Engine> = home.open().await;
    let request = duramen_api::model::AddSource {
        name: "flights".to_owned(),
        origin: Origin::Flights { rows: Some(1000) },
        database: None,
        settings: pool(&[]),
    };
    engine.add_source(request, |_, _| {}).await.expect("the import");
    let rules = home.path().join("origins/flights/pg_hba.conf");
    assert!(!fs::read_to_string(&rules).expect("the rules").contains("peer"));
    fs::write(&rules, "local all all peer map=owners\nlocal replication all peer map=owners\n")
        .expect("as 0.1");
    engine.fingerprint_source("flights").await.expect("the source is read");
    assert!(!fs::read_to_string(&rules).expect("the rules").contains("peer"));
    engine.close().await.expect("close");
}
