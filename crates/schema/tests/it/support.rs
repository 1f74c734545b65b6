//! A server for the tests of this crate, with the roles that they grant to.

use duramen_postgres::{Cluster, Installation, Postmaster, Scratch, ServerUser, Settings, SOCKET_PORT};
use std::{
    collections::BTreeMap,
    path::PathBuf,
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};
use tokio_postgres::{Client, NoTls};

const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Server {
    cluster: Cluster,
    _postmaster: Postmaster,
    scratch: Scratch,
    databases: AtomicU32,
}

impl Server {
    /// `DURAMEN_TEST_PG=15` chooses the newest installed server of that major version.
    pub(crate) async fn start() -> Server {
        let home = duramen_base::home::usual();
        let major = std::env::var("DURAMEN_TEST_PG").ok().and_then(|major| major.parse().ok());
        let installation = Installation::choose(&home, major).expect("a PostgreSQL server");
        let user = ServerUser::current().expect("a user for servers");
        let scratch = Scratch::make(&std::env::temp_dir(), "dm-schema", &user).expect("a scratch folder");
        let mut settings = Settings::minimal(installation.version.major);
        for (name, value) in
            [("shared_buffers", "64MB"), ("max_locks_per_transaction", "512"), ("log_min_messages", "panic")]
        {
            settings.set(name, value);
        }
        let cluster = Cluster::new(installation, scratch.path().join("data"), user);
        cluster.init("postgres", false).expect("initdb");
        cluster.write_file("pg_hba.conf", "local all all trust\n").expect("pg_hba.conf");
        let postmaster = cluster.start(scratch.path(), &settings, PATIENCE).expect("the server starts");
        let server = Server { cluster, _postmaster: postmaster, scratch, databases: AtomicU32::new(0) };
        server
            .connect("postgres")
            .await
            .batch_execute("create role joe; create role jane")
            .await
            .expect("roles");
        server
    }

    pub(crate) async fn connect(&self, database: &str) -> Client {
        self.connect_as("postgres", database).await
    }

    pub(crate) async fn connect_as(&self, role: &str, database: &str) -> Client {
        let mut config = tokio_postgres::Config::new();
        config.host_path(self.scratch.path()).port(SOCKET_PORT).user(role).dbname(database);
        let (client, connection) = config.connect(NoTls).await.expect("a connection");
        tokio::spawn(async move {
            let _ = connection.await;
        });
        client
    }

    pub(crate) async fn create(&self, template: &str) -> String {
        let name = format!("d{}", self.databases.fetch_add(1, Ordering::Relaxed));
        let admin = self.connect("postgres").await;
        for _ in 0..200 {
            // Sessions of the template may still be on their way out.
            match admin.batch_execute(&format!("create database {name} template {template}")).await {
                Ok(()) => return name,
                Err(error) if error.code().is_some_and(|code| code.code() == "55006") => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                Err(error) => panic!("{}", text(&error)),
            }
        }
        panic!("{template} stays in use");
    }

    pub(crate) async fn copy(&self, database: &str) -> String {
        self.create(database).await
    }

    /// What `pg_dump` of the server's own version says that a database defines, where there is one.
    pub(crate) fn dump(&self, database: &str) -> Option<String> {
        let program: PathBuf = self.cluster.installation().program("pg_dump");
        let output = Command::new(program)
            .args(["--schema-only", "--no-owner", "--username=postgres", "--dbname", database, "--host"])
            .arg(self.scratch.path())
            .output()
            .ok()?;
        assert!(output.status.success(), "pg_dump: {}", String::from_utf8_lossy(&output.stderr));
        Some(String::from_utf8(output.stdout).expect("UTF-8"))
    }
}

/// Databases with what the scripts make.
pub(crate) async fn databases<const N: usize>(
    server: &Server,
    scripts: [&str; N],
) -> Result<[String; N], String> {
    let mut names = Vec::new();
    for script in scripts {
        let name = server.create("template0").await;
        let client = server.connect(&name).await;
        client.batch_execute(script).await.map_err(|error| format!("{} in {script}", text(&error)))?;
        names.push(name);
    }
    names.try_into().map_err(|_| "as many as scripts".to_owned())
}

/// Where two dumps differ: lines that one has more often than the other. Their order may differ, as may that of columns.
pub(crate) fn dump_differs(a: &str, b: &str) -> Option<String> {
    let mut lines: BTreeMap<&str, i32> = BTreeMap::new();
    for (text, count) in [(a, -1), (b, 1)] {
        let counted = text.lines().map(|line| line.trim_end_matches(',')).filter(|line| {
            !line.is_empty()
                && !line.starts_with("--")
                && !line.starts_with("\\restrict")
                && !line.starts_with("\\unrestrict")
        });
        for line in counted {
            *lines.entry(line).or_default() += count;
        }
    }
    let found: Vec<String> = lines
        .into_iter()
        .filter(|(_, count)| *count != 0)
        .map(|(line, count)| format!("  {} {line}\n", if count < 0 { "only after" } else { "only wanted" }))
        .collect();
    (!found.is_empty()).then(|| found.concat())
}

pub(crate) fn text(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(error) => {
            format!("{}{}", error.message(), error.detail().map(|it| format!(": {it}")).unwrap_or_default())
        }
        None => error.to_string(),
    }
}
