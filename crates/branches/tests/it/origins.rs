//! Every way in: data directories, scripts and servers, and what is refused at the door without leaving a trace.

use crate::support::{lease, majors, pool, rows, settle, Home};
use duramen_api::model::{AddSource, Origin, Policy, SourceView};
use duramen_branches::{Engine, EngineError, Kind};
use duramen_postgres::{Cluster, Installation, Postmaster, ServerUser, Settings, StopMode};
use serde_json::json;
use std::{
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio_postgres::{Client, Config, NoTls};

const LIMIT: Duration = Duration::from_secs(60);

/// A cluster made by hand, beside the home.
struct Handmade {
    cluster: Cluster,
    socket: PathBuf,
    server: Option<Postmaster>,
}

impl Drop for Handmade {
    fn drop(&mut self) {
        if let Some(server) = &mut self.server {
            server.kill();
        }
    }
}

impl Handmade {
    /// A running cluster with databases `shop` (a table of 1,000 rows) and `small`.
    async fn start(home: &Home, name: &str, installation: Installation) -> Handmade {
        let user = ServerUser::current().expect("a server user");
        let cluster = Cluster::new(installation, home.beside(name), user);
        cluster.init("owner_of_it", false).expect("initdb");
        let access = "local all all trust\nlocal replication all trust\n";
        cluster.write_file("pg_hba.conf", access).expect("hba");
        cluster.write_file("postgresql.auto.conf", "fsync = off\nlisten_addresses = ''\n").expect("settings");
        let socket = home.beside(&format!("s-{name}"));
        let mut made = Handmade { cluster, socket, server: None };
        made.run();
        let client = made.client("postgres").await;
        client.batch_execute("create database shop").await.expect("a database");
        client.batch_execute("create database small").await.expect("a database");
        let client = made.client("shop").await;
        let table = "create table t (x int primary key); insert into t select generate_series(1, 1000)";
        client.batch_execute(table).await.expect("a table");
        made
    }

    fn run(&mut self) {
        let server = self.cluster.start(&self.socket, &Settings::new(), LIMIT).expect("the server starts");
        self.server = Some(server);
    }

    async fn client(&self, database: &str) -> Client {
        let mut config = Config::new();
        config.host_path(&self.socket).port(5432).user("owner_of_it").dbname(database);
        let (client, connection) = config.connect(NoTls).await.expect("the server answers");
        tokio::spawn(connection);
        client
    }

    fn stop(&mut self) {
        if let Some(mut server) = self.server.take() {
            server.stop(StopMode::Fast, LIMIT).expect("the server stops");
        }
    }

    fn kill(&mut self) {
        if let Some(mut server) = self.server.take() {
            server.kill();
        }
    }

    fn url(&self, database: &str) -> String {
        format!("postgresql://owner_of_it@/{database}?host={}&port=5432", self.socket.display())
    }

    fn directory(&self) -> Origin {
        Origin::DataDirectory { path: self.cluster.data_dir().display().to_string() }
    }
}

fn newest(home: &Home) -> Installation {
    Installation::choose(home.path(), None).expect("a server")
}

fn script(path: &Path, sql: &str) -> Origin {
    std::fs::write(path, sql).expect("the script");
    Origin::Script { path: path.display().to_string() }
}

async fn add(
    engine: &Arc<Engine>,
    name: &str,
    origin: Origin,
    database: Option<&str>,
) -> Result<SourceView, EngineError> {
    let request = AddSource {
        name: name.to_owned(),
        origin,
        database: database.map(ToOwned::to_owned),
        settings: pool(&[(Policy::ReadWrite, 1)]),
    };
    engine.add_source(request, |_, _| {}).await
}

/// Imports what must be refused; shows that nothing of it is left.
async fn refused(
    home: &Home,
    engine: &Arc<Engine>,
    name: &str,
    origin: Origin,
    database: Option<&str>,
    code: &str,
) -> EngineError {
    let shown = format!("{origin:?}");
    let error = add(engine, name, origin, database).await.map(|_| ()).expect_err(&shown);
    assert_eq!(error.code, code, "{shown}: {error}");
    assert!(engine.sources().is_empty(), "{shown}: a source is left");
    for place in ["volumes/imports", "volumes/snapshots", "sources", "run"] {
        let left: Vec<PathBuf> = std::fs::read_dir(home.path().join(place))
            .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
            .unwrap_or_default();
        assert!(left.is_empty(), "{shown}: {place} holds {left:?}");
    }
    let left = duramen_postgres::processes_below(home.path());
    assert!(left.is_empty(), "{shown}: processes {left:?} are left");
    error
}

/// The branch holds the data and takes a write.
async fn serves(engine: &Arc<Engine>, source: &str, rows_there: i64) {
    settle(engine).await;
    let branch = lease(engine, "one", Policy::ReadWrite).await;
    assert_eq!(branch.source, source);
    assert_eq!(rows(engine, "one", "select count(*) from t").await, json!([[rows_there]]));
    assert_eq!(rows(engine, "one", "insert into t values (-1) returning x").await, json!([[-1]]));
    engine.destroy("one").expect("destroy");
    settle(engine).await;
    engine.remove_source(source).await.expect("the source is forgotten");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_data_directory_is_copied_when_no_server_writes_to_it() {
    let home = Home::new();
    let engine = home.open().await;
    let mut made = Handmade::start(&home, "made", newest(&home)).await;
    let error = refused(&home, &engine, "app", made.directory(), None, "source_running").await;
    assert!(error.message.contains("--url"), "it says what to do: {error}");

    // A killed server leaves a directory that needs recovery; what was committed is there, what was not is not.
    let client = made.client("shop").await;
    client.batch_execute("insert into t select generate_series(1001, 1500)").await.expect("rows");
    client.batch_execute("begin; insert into t select generate_series(2001, 2500)").await.expect("rows");
    made.kill();
    drop(client);
    let path = made.cluster.data_dir().to_owned();
    let pid_file = path.join("postmaster.pid").exists();
    let view = add(&engine, "crashed", made.directory(), Some("shop")).await.expect("recovery");
    assert_eq!((view.database.as_str(), view.origin.as_str()), ("shop", "data-directory"));
    assert_eq!(path.join("postmaster.pid").exists(), pid_file, "the origin's files are left alone");
    serves(&engine, "crashed", 1500).await;

    made.run();
    made.stop();
    let view = add(&engine, "stopped", made.directory(), None).await.expect("the import");
    assert_eq!(view.database, "shop", "the largest database is served");
    let before = engine.fingerprint_source("stopped").await.expect("fingerprint");
    serves(&engine, "stopped", 1500).await;
    assert_eq!(before.method, "files");
    let error = refused(&home, &engine, "app", made.directory(), Some("nowhere"), "no_database").await;
    assert!(error.message.contains("nowhere"), "{error}");

    // What a branch would share with its source is refused.
    symlink("/nonexistent", path.join("linked")).expect("a link");
    refused(&home, &engine, "app", made.directory(), None, "symbolic_link").await;
    std::fs::remove_file(path.join("linked")).expect("unlink");
    symlink("/nonexistent", path.join("pg_tblspc/16999")).expect("a link");
    refused(&home, &engine, "app", made.directory(), None, "tablespaces").await;
    std::fs::remove_file(path.join("pg_tblspc/16999")).expect("unlink");
    std::fs::rename(path.join("pg_wal"), home.beside("wal")).expect("rename");
    symlink(home.beside("wal"), path.join("pg_wal")).expect("a link");
    refused(&home, &engine, "app", made.directory(), None, "symbolic_link").await;

    // Not data directories.
    for (path, code) in [
        (home.beside("missing"), "bad_path"),
        (home.beside("s-made"), "not_a_data_directory"),
        (PathBuf::from("/proc"), "not_a_data_directory"),
    ] {
        let origin = Origin::DataDirectory { path: path.display().to_string() };
        let error = refused(&home, &engine, "app", origin, None, code).await;
        assert_eq!(error.kind, Kind::Invalid);
    }
    engine.close().await.expect("close");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_is_run_whole_or_leaves_nothing() {
    let home = Home::new();
    let engine = home.open().await;
    let path = home.beside("app.sql");
    let failing = "create table t (x int);\nselect * from nowhere;\n";
    let error = refused(&home, &engine, "app", script(&path, failing), None, "bad_script").await;
    assert!(error.message.contains("nowhere"), "the script's own error is shown: {error}");
    let error = refused(&home, &engine, "app", script(&path, "selec 1;"), None, "bad_script").await;
    assert!(error.message.contains("syntax error"), "{error}");
    let missing = Origin::Script { path: home.beside("none.sql").display().to_string() };
    refused(&home, &engine, "app", missing, None, "bad_path").await;

    for name in ["", "Upper", "-x", "../up", "a/b", "a b", &"n".repeat(64)] {
        refused(&home, &engine, name, script(&path, "select 1;"), None, "bad_name").await;
    }
    // A name that was refused is free; one that is taken is not.
    let good = "create table t as select generate_series(1, 5) as x;";
    let view = add(&engine, "app", script(&path, good), Some("My \"odd\" base")).await.expect("the import");
    assert_eq!(view.database, "My \"odd\" base");
    let error = add(&engine, "app", script(&path, good), None).await.unwrap_err();
    assert_eq!((error.code, error.kind), ("source_exists", Kind::Conflict));
    engine.remove_source("app").await.expect("the source is forgotten");
    add(&engine, "app", script(&path, good), None).await.expect("the import");
    serves(&engine, "app", 5).await;
    engine.close().await.expect("close");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_of_every_installed_major_is_copied() {
    let home = Home::new();
    let engine = home.open().await;
    for major in majors() {
        let installation = Installation::choose(home.path(), Some(major)).expect("a server");
        let made = Handmade::start(&home, &format!("v{major}"), installation).await;
        let missing = made.url("nowhere");
        let error =
            refused(&home, &engine, "app", Origin::Server { url: missing }, None, "source_unreachable").await;
        assert!(!error.message.contains(&made.socket.display().to_string()), "{error}");
        let name = format!("from-{major}");
        let view =
            add(&engine, &name, Origin::Server { url: made.url("shop") }, None).await.expect("the import");
        assert_eq!(view.database, "shop");
        assert!(view.server_version.starts_with(&format!("{major}.")), "{}", view.server_version);
        serves(&engine, &name, 1000).await;
    }
    engine.close().await.expect("close");
}

/// Invariant: an address that is wrong is refused before anything is made, and is not repeated with its password.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_url_is_refused_without_telling_it() {
    let home = Home::new();
    let engine = home.open().await;
    for (url, code) in [
        ("", "bad_url"),
        ("hunter2", "bad_url"),
        ("http://user:hunter2@host/db", "bad_url"),
        ("postgresql://localhost/db", "bad_url"),
        ("postgresql://user:hunter2@/db", "bad_url"),
        ("postgresql://user:hunter2@host:port/db", "bad_url"),
        ("postgresql://user:hunter2@localhost/db?nonsense=hunter2", "bad_url"),
        ("postgresql://user:hunter2@127.0.0.1:1/db", "source_unreachable"),
        ("postgresql://user:hunter2@/db?host=/nonexistent/secret", "source_unreachable"),
    ] {
        let error = refused(&home, &engine, "app", Origin::Server { url: url.to_owned() }, None, code).await;
        for secret in ["hunter2", "/nonexistent/secret", "127.0.0.1"] {
            assert!(!error.message.contains(secret), "{url}: {error}");
        }
    }
    engine.close().await.expect("close");
}
