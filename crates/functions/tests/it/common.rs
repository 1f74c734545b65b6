//! One PostgreSQL server for a test binary, and a fresh database with the schema for each test.
//!
//! ```ignore
//! mod common;
//!
//! #[tokio::test]
//! async fn something_holds() {
//!     let database = common::database().await;
//!     let alice = database.role("alice").await;
//!     let client = database.connect(&alice).await;
//!     client.query_one("SELECT df.start('SELECT 1')", &[]).await.unwrap();
//! }
//! ```
//!
//! `DURAMEN_TEST_PG=15` chooses the newest installed server of that major version, if there is one.
#![allow(dead_code, reason = "the tests of two crates use a part each")]

use duramen_base::entropy::token;
use duramen_functions::schema::{self, External};
use duramen_postgres::{
    quote_identifier, Cluster, Installation, Postmaster, Scratch, ServerUser, Settings, StopMode, SOCKET_PORT,
};
use std::{path::Path, process::Command, sync::Mutex, time::Duration};
use tokio::sync::OnceCell;
use tokio_postgres::{Client, NoTls};

/// The bootstrap superuser: installs the schema, and is what the worker connects as unless a test says otherwise.
pub(crate) const OWNER: &str = "postgres";
/// The database that every test's database is copied from.
const TEMPLATE: &str = "df_template";
/// How long a server may take to start or stop.
const PATIENCE: Duration = Duration::from_secs(60);
/// A server of its own in a scratch directory. It is stopped and deleted when this is dropped, and at the latest when
/// the test's process ends, even by SIGKILL.
pub(crate) struct Server {
    cluster: Cluster,
    settings: Settings,
    running: Mutex<Postmaster>,
    scratch: Scratch,
}

impl Server {
    /// A fast server that flushes nothing.
    pub(crate) fn start() -> Server {
        Server::start_with(&[])
    }

    /// As [`Server::start`], with settings that win over the usual ones.
    pub(crate) fn start_with(overrides: &[(&str, &str)]) -> Server {
        Server::start_on(installation(), overrides)
    }

    /// A server that the `pg_dump` of the path can read: of its own version.
    pub(crate) fn start_for_pg_dump() -> Server {
        let version = Command::new("pg_dump").arg("--version").output().expect("pg_dump is in the path");
        let version = String::from_utf8(version.stdout).expect("its version");
        let major = version.split_whitespace().nth(2).and_then(|version| version.split('.').next());
        let major = major.and_then(|major| major.parse().ok()).expect("a major version");
        let home = duramen_base::home::usual();
        Server::start_on(Installation::choose(&home, Some(major)).expect("a server of its version"), &[])
    }

    fn start_on(installation: Installation, overrides: &[(&str, &str)]) -> Server {
        let (user, scratch) = scratch();
        let mut settings = Settings::minimal(installation.version.major);
        for (name, value) in [
            ("max_connections", "200"),
            ("max_files_per_process", "1000"),
            ("shared_buffers", "64MB"),
            ("max_worker_processes", "8"),
            ("max_prepared_transactions", "8"),
            // Dropped connections of a test must not be told to its log for ever.
            ("log_min_messages", "warning"),
        ] {
            settings.set(name, value);
        }
        for (name, value) in overrides {
            settings.set(name, value);
        }
        let cluster = Cluster::new(installation, scratch.path().join("data"), user);
        cluster.init(OWNER, false).expect("initdb");
        cluster.write_file("pg_hba.conf", "local all all trust\n").expect("pg_hba.conf");
        let postmaster = cluster.start(scratch.path(), &settings, PATIENCE).expect("the server starts");
        Server { cluster, settings, running: Mutex::new(postmaster), scratch }
    }

    /// The major version.
    pub(crate) fn major(&self) -> u32 {
        self.cluster.installation().version.major
    }

    /// The directory of the unix socket.
    pub(crate) fn socket_dir(&self) -> &Path {
        self.scratch.path()
    }

    /// A connection string for a role and a database.
    pub(crate) fn url(&self, role: &str, database: &str) -> String {
        let host = self.socket_dir().display().to_string().replace('/', "%2F");
        format!("postgres://{role}@/{database}?host={host}&port={SOCKET_PORT}")
    }

    /// A session; its connection ends with the client or with the test's runtime.
    pub(crate) async fn connect(&self, role: &str, database: &str) -> Client {
        let (client, connection) = tokio_postgres::connect(&self.url(role, database), NoTls)
            .await
            .unwrap_or_else(|error| panic!("connect to {database} as {role}: {}", text(&error)));
        tokio::spawn(async move {
            // The end of a session is told to who uses its client.
            let _ = connection.await;
        });
        client
    }

    /// Ends the server without warning, as a crash of the machine would, and starts it again.
    pub(crate) fn crash_and_restart(&self) {
        let mut running = self.running.lock().expect("no test failed in here");
        running.kill();
        *running = self.start_again(&self.settings);
    }

    /// Ends the server and starts it again, with settings that win over those it had.
    pub(crate) fn restart_with(&self, overrides: &[(&str, &str)]) {
        let mut running = self.running.lock().expect("no test failed in here");
        self.stop(&mut running);
        *running = self.start_again(&self.settings_with(overrides));
    }

    /// Stops the server, and starts it again when that is over.
    pub(crate) fn while_stopped<T>(&self, meanwhile: impl FnOnce() -> T) -> T {
        let mut running = self.running.lock().expect("no test failed in here");
        self.stop(&mut running);
        let outcome = meanwhile();
        *running = self.start_again(&self.settings);
        outcome
    }

    /// A copy of the stopped server, file by file, started with settings of its own. This one runs on.
    pub(crate) fn copy_with(&self, overrides: &[(&str, &str)]) -> Server {
        let mut running = self.running.lock().expect("no test failed in here");
        self.stop(&mut running);
        let (user, scratch) = scratch();
        let data_dir = scratch.path().join("data");
        let copied = Command::new("cp").arg("-a").arg(self.cluster.data_dir()).arg(&data_dir).status();
        assert!(copied.expect("cp").success(), "the data directory is copied");
        *running = self.start_again(&self.settings);
        let cluster = Cluster::new(self.cluster.installation().clone(), data_dir, user);
        let settings = self.settings_with(overrides);
        let copy = cluster.start(scratch.path(), &settings, PATIENCE).expect("the copy starts");
        Server { cluster, settings, running: Mutex::new(copy), scratch }
    }

    fn settings_with(&self, overrides: &[(&str, &str)]) -> Settings {
        let mut settings = self.settings.clone();
        for (name, value) in overrides {
            settings.set(name, value);
        }
        settings
    }

    fn stop(&self, running: &mut Postmaster) {
        running.stop(StopMode::Fast, PATIENCE).expect("the server stops");
    }

    fn start_again(&self, settings: &Settings) -> Postmaster {
        self.cluster.start(self.socket_dir(), settings, PATIENCE).expect("the server starts again")
    }

    /// The end of the server's log.
    pub(crate) fn log(&self) -> String {
        self.cluster.log().tail()
    }

    /// All of the server's log.
    pub(crate) fn whole_log(&self) -> String {
        let bytes = std::fs::read(&self.cluster.log().0).expect("the server's log");
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// A new, empty database.
    pub(crate) async fn empty_database(&self) -> String {
        self.create_database("template0").await
    }

    async fn create_database(&self, template: &str) -> String {
        let name = format!("t_{}", token(10));
        let admin = self.connect(OWNER, "postgres").await;
        let create = format!("CREATE DATABASE {name} TEMPLATE {template}");
        // The session that installed the template may still be on its way out.
        for _ in 0..100 {
            match admin.batch_execute(&create).await {
                Ok(()) => return name,
                Err(error) if error.code().is_some_and(|code| code.code() == "55006") => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                Err(error) => panic!("{create}: {}", text(&error)),
            }
        }
        panic!("{create}: the template stays in use");
    }

    async fn drop_database(&self, name: &str) {
        let admin = self.connect(OWNER, "postgres").await;
        // The server is deleted soon anyway.
        let _ = admin.batch_execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Ok(postmaster) = self.running.get_mut() {
            // What does not stop is ended by the guardian of the folder.
            let _ = postmaster.stop(StopMode::Immediate, PATIENCE);
        }
    }
}

/// A folder that the server's user owns, and that goes with whatever works in it.
fn scratch() -> (ServerUser, Scratch) {
    let user = ServerUser::current().expect("a user for the server");
    let scratch = Scratch::make(&std::env::temp_dir(), "df", &user).expect("a scratch directory");
    (user, scratch)
}

/// The server of this test binary with the template database, made by whoever comes first.
pub(crate) async fn server() -> &'static Server {
    static SERVER: OnceCell<Server> = OnceCell::const_new();
    SERVER
        .get_or_init(|| async {
            let server = tokio::task::spawn_blocking(Server::start).await.expect("the server starts");
            let admin = server.connect(OWNER, "postgres").await;
            admin
                .batch_execute(&format!("CREATE DATABASE {TEMPLATE} TEMPLATE template0"))
                .await
                .expect("the template");
            schema::install(&server.url(OWNER, TEMPLATE)).await.expect("the schema");
            server
        })
        .await
}

/// A database of its own with the schema installed, on the server of this test binary.
pub(crate) async fn database() -> Database<'static> {
    server().await.database_from_template().await
}

impl Server {
    async fn database_from_template(&self) -> Database<'_> {
        let name = self.create_database(TEMPLATE).await;
        // It is a copy, and workers would say so.
        let adopted = schema::adopt(&self.url(OWNER, &name), External::Run).await;
        adopted.expect("the copy of the template is adopted");
        Database { server: self, name }
    }

    /// A new database with the schema installed, on a server that a test started for itself.
    pub(crate) async fn database(&self) -> Database<'_> {
        let name = self.create_database("template0").await;
        schema::install(&self.url(OWNER, &name)).await.expect("the schema");
        Database { server: self, name }
    }
}

/// A database with the schema; gone when this is dropped.
pub(crate) struct Database<'a> {
    server: &'a Server,
    name: String,
}

impl Database<'_> {
    /// The database's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Its server.
    pub(crate) fn server(&self) -> &Server {
        self.server
    }

    /// The connection string of the schema's owner, a superuser.
    pub(crate) fn url(&self) -> String {
        self.url_as(OWNER)
    }

    /// The connection string of a role.
    pub(crate) fn url_as(&self, role: &str) -> String {
        self.server.url(role, &self.name)
    }

    /// A session as a role, [`OWNER`] or what [`Database::role`] returned.
    pub(crate) async fn connect(&self, role: &str) -> Client {
        self.server.connect(role, &self.name).await
    }

    /// A session as the schema's owner.
    pub(crate) async fn owner(&self) -> Client {
        self.connect(OWNER).await
    }

    /// Makes a LOGIN role that may use durable functions. Roles belong to all databases of a server, so its real name,
    /// which is returned, is `name` with something of this database.
    pub(crate) async fn role(&self, name: &str) -> String {
        let role = self.stranger(name).await;
        self.owner().await.execute("SELECT df.grant_usage($1)", &[&role]).await.expect("grant_usage");
        role
    }

    /// As [`Database::role`], without any right on the schema.
    pub(crate) async fn stranger(&self, name: &str) -> String {
        let role = format!("{name}_{}", self.name.trim_start_matches("t_"));
        let create = format!("CREATE ROLE {} LOGIN", quote_identifier(&role));
        self.owner().await.batch_execute(&create).await.expect("a role");
        role
    }
}

impl Drop for Database<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the database was {}; the server's log ends with\n{}", self.name, self.server.log());
        }
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                runtime.expect("a runtime").block_on(self.server.drop_database(&self.name));
            });
        });
    }
}

/// What the server said, in full.
pub(crate) fn text(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(said) => {
            let hint = said.hint().map(|hint| format!(" HINT: {hint}")).unwrap_or_default();
            let detail = said.detail().map(|detail| format!(" DETAIL: {detail}")).unwrap_or_default();
            format!("{}: {}{detail}{hint}", said.code().code(), said.message())
        }
        None => error.to_string(),
    }
}

/// The first column of a query's only row, as text.
pub(crate) async fn one(client: &Client, sql: &str) -> Option<String> {
    maybe_one(client, sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// The first column of a query's only row, as text, or what the server said against it.
pub(crate) async fn maybe_one(client: &Client, sql: &str) -> Result<Option<String>, String> {
    let messages = client.simple_query(sql).await.map_err(|error| text(&error))?;
    let mut rows = messages.iter().filter_map(|message| match message {
        tokio_postgres::SimpleQueryMessage::Row(row) => Some(row.get(0).map(str::to_owned)),
        _ => None,
    });
    let first = rows.next().unwrap_or_else(|| panic!("{sql}: no row"));
    assert!(rows.next().is_none(), "{sql}: more than one row");
    Ok(first)
}

/// The rows of a query, every value as text.
pub(crate) async fn rows(client: &Client, sql: &str) -> Vec<Vec<Option<String>>> {
    let messages = client.simple_query(sql).await.unwrap_or_else(|error| panic!("{sql}: {}", text(&error)));
    messages
        .iter()
        .filter_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => {
                Some((0..row.len()).map(|column| row.get(column).map(str::to_owned)).collect())
            }
            _ => None,
        })
        .collect()
}

/// What the server says against a statement, which must fail.
pub(crate) async fn refusal(client: &Client, sql: &str) -> String {
    match client.batch_execute(sql).await {
        Ok(()) => panic!("{sql}: was not refused"),
        Err(error) => text(&error),
    }
}

fn installation() -> Installation {
    let home = duramen_base::home::usual();
    let wanted = std::env::var("DURAMEN_TEST_PG").ok().and_then(|major| major.parse().ok());
    Installation::choose(&home, wanted)
        .or_else(|_| Installation::choose(&home, None))
        .expect("a PostgreSQL server")
}

/// The statement that takes instances as a worker does it, without running them.
pub(crate) fn take(condition: &str) -> String {
    format!(
        "WITH taken AS (DELETE FROM df._ready WHERE {condition} RETURNING *)
         INSERT INTO df._instance (seq, submitted_by, created_at, label, database, graph, vars, input, parent,
             parent_cell, id)
         SELECT seq, submitted_by, created_at, label, database, coalesce(graph, df._statement_graph(statement)), vars,
             input, parent, parent_cell, df._id(seq)
         FROM taken"
    )
}
