//! Every file and directory of a home has the owner, the group and the mode that it should have, after every operation in
//! its life; and there is nothing in it that nobody knows of.

use crate::support::{connect, create, query, settle, until, Home};
use duramen_api::model::{
    AddSource, ChangeSettings, CreateBranch, MakePair, Origin, PairLine, Policy, PoolSize, ProtectBranch,
    SourceSettings,
};
use duramen_client::Connection;
use duramen_postgres::{account, Cluster, Installation, ServerUser, Settings, StopMode};
use duramen_server::process::Daemon;
use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

/// Whom something belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// The daemon, which root runs.
    Daemon,
    /// The user of a source, which one does not matter here.
    Source,
}

/// What something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Dir,
    File,
    Socket,
}

/// As which group something has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Group {
    Root,
    /// Of all servers.
    Servers,
}

use {Group::Root, Group::Servers, Kind::Dir, Kind::File, Kind::Socket};

/// What may lie in a home, by its path: `*` stands for one name, `**` for anything below. The first line that matches
/// counts, and what no line matches should not be there.
const TABLE: &[(&str, Kind, Owner, Group, u32)] = &[
    ("", Dir, Owner::Daemon, Servers, 0o710),
    ("daemon.lock", File, Owner::Daemon, Root, 0o600),
    ("daemon.sock", Socket, Owner::Daemon, Root, 0o600),
    ("daemon.log", File, Owner::Daemon, Root, 0o600),
    // What leads a browser to the console, for some seconds.
    ("duramen-console-*.html", File, Owner::Daemon, Root, 0o600),
    ("attachments.json", File, Owner::Daemon, Root, 0o600),
    ("key", File, Owner::Daemon, Root, 0o600),
    ("lost-writes", File, Owner::Daemon, Root, 0o600),
    ("leases.jsonl", File, Owner::Daemon, Root, 0o600),
    ("leases.damaged-*.jsonl", File, Owner::Daemon, Root, 0o600),
    ("volumes.btrfs", File, Owner::Daemon, Root, 0o600),
    ("sources", Dir, Owner::Daemon, Root, 0o700),
    ("sources/*", Dir, Owner::Daemon, Root, 0o700),
    ("sources/*/*.json", File, Owner::Daemon, Root, 0o600),
    ("audit", Dir, Owner::Daemon, Root, 0o700),
    ("audit/*.jsonl", File, Owner::Daemon, Root, 0o600),
    ("doors", Dir, Owner::Daemon, Root, 0o700),
    ("doors/tokens.json", File, Owner::Daemon, Root, 0o600),
    ("doors/sessions.json", File, Owner::Daemon, Root, 0o600),
    ("doors/*.pem", File, Owner::Daemon, Root, 0o600),
    ("logs", Dir, Owner::Daemon, Root, 0o700),
    ("merges", Dir, Owner::Daemon, Root, 0o700),
    ("logs/*.log", File, Owner::Daemon, Root, 0o600),
    ("origins", Dir, Owner::Daemon, Servers, 0o710),
    ("origins/*.log", File, Owner::Daemon, Root, 0o600),
    ("origins/*", Dir, Owner::Source, Servers, 0o700),
    ("run", Dir, Owner::Daemon, Servers, 0o710),
    ("run/*", Dir, Owner::Source, Servers, 0o700),
    ("run/*/admin", Dir, Owner::Source, Servers, 0o700),
    ("run/**/.s.PGSQL.5432", Socket, Owner::Source, Servers, 0o777),
    ("run/**/.s.PGSQL.5432.lock", File, Owner::Source, Servers, 0o600),
    ("volumes", Dir, Owner::Daemon, Servers, 0o710),
    ("volumes/branches", Dir, Owner::Daemon, Servers, 0o710),
    ("volumes/branches/*", Dir, Owner::Source, Servers, 0o700),
    ("volumes/snapshots", Dir, Owner::Daemon, Servers, 0o710),
    ("volumes/snapshots/*", Dir, Owner::Source, Servers, 0o700),
    ("volumes/imports", Dir, Owner::Daemon, Servers, 0o710),
    ("volumes/imports/*", Dir, Owner::Source, Servers, 0o700),
    ("volumes/quarantine", Dir, Owner::Daemon, Servers, 0o710),
    ("volumes/quarantine/*", Dir, Owner::Source, Servers, 0o700),
    // What servers make in their data directories.
    ("origins/*/**", Dir, Owner::Source, Servers, 0o700),
    ("origins/*/**", File, Owner::Source, Servers, 0o600),
    ("volumes/*/*/**", Dir, Owner::Source, Servers, 0o700),
    ("volumes/*/*/**", File, Owner::Source, Servers, 0o600),
];

/// Whether a path matches a line of the table.
fn matches(pattern: &str, path: &str) -> bool {
    let (mut names, mut parts) = (path.split('/').peekable(), pattern.split('/').peekable());
    while let Some(part) = parts.next() {
        if part == "**" {
            // At least one name, and as many as leave one for each part that follows.
            let rest = parts.clone().count();
            let left = names.clone().count();
            if left <= rest {
                return false;
            }
            for _ in 0..left - rest {
                names.next();
            }
            continue;
        }
        let Some(name) = names.next() else { return false };
        let fits = match part.split_once('*') {
            Some((before, after)) => {
                name.len() >= part.len() - 1 && name.starts_with(before) && name.ends_with(after)
            }
            None => name == part,
        };
        if !fits {
            return false;
        }
    }
    names.peek().is_none()
}

/// Something that is not as the table says.
struct Deviation {
    said: String,
    /// Whether somebody may do more than the table says, and not less.
    lets_in: bool,
}

/// What is not as the table says.
fn deviations(home: &Path, sockets: &Path) -> Vec<Deviation> {
    let sources: Vec<u32> = account::accounts()
        .into_iter()
        .filter(|it| duramen_branches::users_of(home).contains(&it.name))
        .map(|it| it.uid)
        .collect();
    let servers = ServerUser::current().expect("a user for servers").gid();
    let mut found = Vec::new();
    let mut seen = 0;
    let outside = (sockets != home.join("run")).then_some(sockets);
    for root in [home].into_iter().chain(outside) {
        for entry in walkdir::WalkDir::new(root).into_iter().filter_entry(|entry| {
            // Fetched, and public.
            entry.path() != home.join("packages")
        }) {
            // Servers come and go meanwhile.
            let Ok(entry) = entry else { continue };
            let Ok(metadata) = entry.path().symlink_metadata() else { continue };
            let below = entry.path().strip_prefix(root).expect("below it").display().to_string();
            let name = match (root == home, below.is_empty()) {
                (true, _) => below,
                (false, true) => "run".to_owned(),
                (false, false) => format!("run/{below}"),
            };
            let kind = match metadata.file_type() {
                kind if kind.is_dir() => Some(Dir),
                kind if kind.is_file() => Some(File),
                kind if kind.is_socket() => Some(Socket),
                _ => None,
            };
            seen += 1;
            let line = TABLE.iter().find(|(pattern, of, ..)| Some(*of) == kind && matches(pattern, &name));
            let Some((_, _, owner, group, mode)) = line else {
                let said = format!("{name:?} is in no line ({:?})", metadata.file_type());
                found.push(Deviation { said, lets_in: false });
                continue;
            };
            let owned = match owner {
                Owner::Daemon => metadata.uid() == 0,
                Owner::Source => sources.contains(&metadata.uid()),
            };
            let grouped = metadata.gid()
                == match group {
                    Root => 0,
                    Servers => servers,
                };
            // A server that starts makes its socket for itself alone, and opens it then: who is let in, the directory says.
            let starting = kind == Some(Socket) && metadata.mode() & 0o7777 == 0o700;
            let is = if starting { *mode } else { metadata.mode() & 0o7777 };
            if !owned || !grouped || is != *mode {
                let (uid, gid) = (metadata.uid(), metadata.gid());
                let lets_in = is & !mode != 0 || !(uid == 0 || owned);
                let said = format!("{name:?}: {uid}:{gid} {is:04o}, not {owner:?}:{group:?} {mode:04o}");
                found.push(Deviation { said, lets_in });
            }
        }
    }
    assert!(seen > 10, "nothing was looked at");
    found
}

/// One home, looked at after every step.
struct Life {
    home: Home,
    /// The home's own directory, which may lie deeper than usual.
    root: PathBuf,
    sockets: PathBuf,
}

impl Drop for Life {
    fn drop(&mut self) {
        // Where a test failed half-way. The home's own drop looks for a mount where homes usually have it.
        for _ in 0..20 {
            for pid in duramen_postgres::processes_below(&self.root) {
                let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
            }
        }
        let _ = Command::new("umount").arg("--lazy").arg(self.root.join("volumes")).output();
        if self.sockets.starts_with("/tmp/") && !self.sockets.starts_with(&self.root) {
            let _ = fs::remove_dir_all(&self.sockets);
        }
        let _ = duramen_branches::remove_users(&self.root);
    }
}

impl Life {
    fn look(&self, after: &str) {
        let mut found = Vec::new();
        for _ in 0..30 {
            found = deviations(&self.root, &self.sockets);
            // Something that is being made is its maker's alone before it is given to whom it is for, or has another name.
            if found.is_empty() || found.iter().any(|deviation| deviation.lets_in) {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        let said: Vec<String> = found.into_iter().map(|deviation| deviation.said).collect();
        assert_eq!(said, Vec::<String>::new(), "after {after}");
    }

    async fn serve(&self) -> Daemon {
        let args = ["--volume-size", "3G"].map(str::to_owned);
        Daemon::spawn(crate::support::EXE.as_ref(), &self.root, &args, &self.home.beside("log"))
            .await
            .expect("the daemon serves")
    }

    async fn add(&self, connection: &mut Connection, name: &str, origin: Origin, hot: u32) {
        let settings = SourceSettings {
            pool: PoolSize { hot: Policy::ALL.map(|policy| (policy, hot)).into(), cold: hot },
            ..SourceSettings::default()
        };
        let request = AddSource { name: name.to_owned(), origin, database: None, settings };
        connection.add_source(&request, |_, _| {}).await.unwrap_or_else(|error| panic!("{name}: {error}"));
        self.look(&format!("the import of {name}"));
        settle(connection).await;
        self.look(&format!("the first refill of {name}"));
    }
}

/// Invariant B46, in the life of a home whose sockets lie in it and of one whose path is too long for that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_in_a_home_has_its_mode_after_every_operation() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let home = Home::new();
    let (root, sockets) = (home.path(), home.path().join("run"));
    live(Life { home, root, sockets }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_in_a_home_with_a_long_path_has_its_mode() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let home = Home::new();
    let root = home.path().join("a-directory-whose-name-leaves-no-room-for-the-path-of-a-socket");
    fs::create_dir_all(home.path()).unwrap();
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let hash = blake3::hash(root.as_os_str().as_encoded_bytes()).to_hex();
    let sockets = PathBuf::from(format!("/tmp/duramen-{}", &hash[..16]));
    live(Life { home, root: root.clone(), sockets: sockets.clone() }).await;
    assert_eq!(duramen_branches::remove_users(&root), 0, "none is left");
    assert!(!sockets.exists(), "{sockets:?}");
}

async fn live(life: Life) {
    let daemon = life.serve().await;
    let mut connection = connect(&daemon).await;
    life.look("the first opening");

    let script = life.home.beside("app.sql");
    fs::write(&script, "create table t as select 1 as x;").unwrap();
    life.add(&mut connection, "app", Origin::Script { path: script.display().to_string() }, 1).await;
    life.add(&mut connection, "flights", Origin::Flights { rows: Some(1000) }, 0).await;

    // A cluster of others, with the wider modes that `initdb --allow-group-access` gives.
    let installation = Installation::choose(&life.root, None).expect("a server");
    let user = ServerUser::current().expect("a user for servers");
    let cluster = Cluster::new(installation, life.home.beside("origin"), user);
    cluster.init("postgres", false).expect("initdb");
    cluster.write_file("pg_hba.conf", "local all all trust\nlocal replication all trust\n").unwrap();
    cluster.write_file("postgresql.auto.conf", "listen_addresses = ''\n").unwrap();
    for entry in walkdir::WalkDir::new(cluster.data_dir()).into_iter().flatten() {
        let mode = if entry.file_type().is_dir() { 0o750 } else { 0o640 };
        fs::set_permissions(entry.path(), fs::Permissions::from_mode(mode)).unwrap();
    }
    let directory = Origin::DataDirectory { path: cluster.data_dir().display().to_string() };
    life.add(&mut connection, "files", directory, 1).await;
    let socket = life.home.beside("s");
    let mut origin = cluster.start(&socket, &Settings::new(), Duration::from_secs(60)).expect("the origin");
    let url = format!("postgresql://postgres@/postgres?host={}&port=5432", socket.display());
    life.add(&mut connection, "server", Origin::Server { url }, 1).await;

    let lease = |source: &str, name: &str, policy: Policy| CreateBranch {
        source: Some(source.to_owned()),
        name: Some(name.to_owned()),
        policy: Some(policy),
        ..CreateBranch::default()
    };
    for policy in Policy::ALL {
        connection.create_branch(&lease("app", &format!("b-{policy}"), policy)).await.expect("a lease");
    }
    connection.create_branch(&lease("server", "of-server", Policy::Ddl)).await.expect("a lease");
    connection.create_branch(&lease("files", "of-files", Policy::Ddl)).await.expect("a lease");
    life.look("leases");
    query(&mut connection, "b-read-write", "insert into t values (2)").await.expect("an insert");
    query(&mut connection, "of-files", "create table own as select 1 as x").await.expect("DDL");
    query(&mut connection, "b-ddl", "create database more").await.err();
    life.look("queries");
    connection.administrator_url("b-ddl").await.expect("the way of administrators");
    connection.reset_branch("b-read-write").await.expect("a reset");
    life.look("a reset");
    let pair = MakePair { source: Some("app".to_owned()), generation: None, space_bytes: 512 << 20 };
    let mut lent = daemon.client().connect().await.expect("a connection");
    lent.pair(&pair, |line| {
        if matches!(line, PairLine::Ready(_)) {
            life.look("a pair");
        }
        !matches!(line, PairLine::Running { .. })
    })
    .await
    .expect("a pair");
    connection.protect_branch("b-ddl", &ProtectBranch { protected: true }).await.expect("protect");
    connection.evidence("b-ddl", None).await.expect("evidence");
    connection.verify_source("app").await.expect("verify");
    connection.fingerprint_source("flights").await.expect("a fingerprint");
    life.look("protect and evidence");
    connection.refresh_source("app", |_, _| {}).await.expect("a refresh");
    settle(&mut connection).await;
    life.look("a refresh");
    let change = ChangeSettings { durable: Some(true), ..ChangeSettings::default() };
    connection.change_settings("app", &change).await.expect("settings");
    settle(&mut connection).await;
    life.look("other settings");
    connection.destroy_branch("b-read-only").await.expect("destroy");
    let short = CreateBranch { ttl_s: Some(1), ..lease("app", "short", Policy::ReadWrite) };
    connection.create_branch(&short).await.expect("a lease");
    life.look("destroy");
    let client = daemon.client();
    until("it expires", async || client.connect().await.unwrap().branch("short").await.is_err()).await;
    settle(&mut connection).await;
    life.look("an expiry");
    let bad = life.home.beside("bad.sql");
    fs::write(&bad, "select 1/0;").unwrap();
    let request = AddSource {
        name: "bad".to_owned(),
        origin: Origin::Script { path: bad.display().to_string() },
        database: None,
        settings: SourceSettings::default(),
    };
    connection.add_source(&request, |_, _| {}).await.expect_err("division by zero");
    life.look("an import that failed");
    connection.remove_source("flights").await.expect("removed");
    settle(&mut connection).await;
    life.look("a removed source");

    drop(connection);
    daemon.stop().await.expect("it stops");
    life.look("closing");
    let daemon = life.serve().await;
    let mut connection = connect(&daemon).await;
    settle(&mut connection).await;
    life.look("another opening");
    // Killed in the middle of an import, with servers running.
    let slow = life.home.beside("slow.sql");
    fs::write(&slow, "create table t (x int); select pg_sleep(20);").unwrap();
    let mut import = Command::new(crate::support::EXE)
        .arg("--home")
        .arg(&life.root)
        .args(["source", "add", "slow", "--script", &slow.display().to_string()])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let imports = life.root.join("volumes/imports");
    until("the import runs", async || duramen_postgres::processes_below(&imports).len() > 4).await;
    life.look("half an import");
    drop(connection);
    daemon.kill();
    // The program fails: nobody answers it any more.
    assert!(!import.wait().unwrap().success());
    life.look("the daemon's death");
    let daemon = life.serve().await;
    let mut connection = connect(&daemon).await;
    settle(&mut connection).await;
    life.look("an opening after a death");
    let users = duramen_branches::users_of(&life.root).len();
    assert_eq!(users, 3, "of app, files and server, and none of slow");

    drop(connection);
    daemon.stop().await.expect("it stops");
    let journal = life.root.join("leases.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    fs::write(&journal, text.replace("of-files", "of-fires")).unwrap();
    // As a careless hand leaves them.
    let wide: BTreeMap<&str, u32> =
        [("", 0o755), ("run", 0o777), ("key", 0o644), ("sources/app", 0o755)].into();
    for (name, mode) in wide {
        fs::set_permissions(life.root.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    for entry in fs::read_dir(&life.sockets).unwrap().flatten() {
        fs::set_permissions(entry.path(), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let daemon = life.serve().await;
    let mut connection = connect(&daemon).await;
    settle(&mut connection).await;
    assert!(life.root.join("volumes/quarantine").exists());
    life.look("an opening with a damaged journal");
    assert_eq!(connection.branch("b-ddl").await.expect("it was kept").state, "ready");
    create(&mut connection, "unused").await.err();
    drop(connection);
    daemon.stop().await.expect("it stops");
    life.look("the end");
    origin.stop(StopMode::Fast, Duration::from_secs(60)).expect("the origin stops");

    let purged =
        Command::new(crate::support::EXE).arg("--home").arg(&life.root).args(["purge", "--yes"]).output();
    let purged = purged.unwrap();
    assert!(purged.status.success(), "{purged:?}");
    assert_eq!(duramen_branches::users_of(&life.root), Vec::<String>::new());
    let left: Vec<PathBuf> = fs::read_dir(&life.root).unwrap().flatten().map(|entry| entry.path()).collect();
    let expected = [life.root.join("daemon.lock"), life.root.join("packages")];
    assert!(left.iter().all(|path| expected.contains(path)), "{left:?}");
}

#[test]
fn the_table_tells_paths_apart() {
    for (pattern, path, fits) in [
        ("sources/*", "sources/app", true),
        ("sources/*", "sources/app/x", false),
        ("leases.damaged-*.jsonl", "leases.damaged-1.jsonl", true),
        ("volumes/*/*/**", "volumes/branches/v-1", false),
        ("volumes/*/*/**", "volumes/branches/v-1/base/5/112", true),
        ("run/**/.s.PGSQL.5432", "run/token/.s.PGSQL.5432", true),
        ("run/**/.s.PGSQL.5432", "run/token/admin/.s.PGSQL.5432", true),
        ("run/**/.s.PGSQL.5432", "run/.s.PGSQL.5432", false),
    ] {
        assert_eq!(matches(pattern, path), fits, "{pattern} {path}");
    }
}
