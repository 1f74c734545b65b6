//! A server of others, which a test imports.

use crate::support::Home;
use duramen_api::model::{AddSource, Origin, Policy, SourceView};
use duramen_branches::{Engine, EngineError};
use duramen_postgres::{Cluster, Installation, Postmaster, ServerUser, Settings, StopMode};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio_postgres::{Client, Config, NoTls};

const LIMIT: Duration = Duration::from_secs(60);

/// A running server with the superuser `boss` and the database `shop`, which lets everybody in.
pub(crate) struct OtherServer {
    pub(crate) cluster: Cluster,
    pub(crate) major: u32,
    socket: PathBuf,
    server: Option<Postmaster>,
}

impl Drop for OtherServer {
    fn drop(&mut self) {
        if let Some(server) = &mut self.server {
            server.kill();
        }
    }
}

impl OtherServer {
    pub(crate) async fn start(home: &Home, major: u32) -> OtherServer {
        OtherServer::start_with(home, major, "").await
    }

    /// With more settings, as lines of its configuration.
    pub(crate) async fn start_with(home: &Home, major: u32, settings: &str) -> OtherServer {
        let installation = Installation::choose(home.path(), Some(major)).expect("a server");
        let user = ServerUser::current().expect("a server user");
        let name = format!("origin-{major}");
        let cluster = Cluster::new(installation, home.beside(&name), user);
        cluster.init("boss", false).expect("initdb");
        cluster.write_file("pg_hba.conf", "local all all trust\nlocal replication all trust\n").expect("hba");
        let common = "fsync = off\nlisten_addresses = ''\nautovacuum = off\nshared_buffers = 16MB\n";
        cluster.write_file("postgresql.auto.conf", &format!("{common}{settings}\n")).expect("settings");
        let socket = home.beside(&format!("o{major}"));
        let mut origin = OtherServer { cluster, major, socket, server: None };
        origin.run_server();
        origin.run("postgres", "create database shop").await;
        origin
    }

    pub(crate) fn run_server(&mut self) {
        self.run_server_with(&Settings::new());
    }

    /// With settings in place of those of its configuration.
    pub(crate) fn run_server_with(&mut self, settings: &Settings) {
        let server = self.cluster.start(&self.socket, settings, LIMIT).expect("the origin starts");
        self.server = Some(server);
    }

    pub(crate) fn stop(&mut self) {
        if let Some(mut server) = self.server.take() {
            server.stop(StopMode::Fast, LIMIT).expect("the origin stops");
        }
    }

    /// As a source, together with the place of the sockets of a server that may take over.
    pub(crate) fn running_here_or_there(&self, home: &Home) -> (Origin, PathBuf) {
        // A standby sees the places of sockets that were there when it started.
        let second = home.beside("o-second");
        fs::create_dir(&second).expect("a directory");
        fs::set_permissions(&second, fs::Permissions::from_mode(0o777)).expect("its mode");
        let url = format!(
            "postgresql://boss@/shop?host={},{}&port=5432,5432&target_session_attrs=read-write",
            self.socket().display(),
            second.display()
        );
        (Origin::Server { url }, second)
    }

    /// A server with a copy of these data, which does not run, elsewhere.
    pub(crate) fn moved_to(&self, data: &Path, socket: &Path) -> OtherServer {
        let status =
            std::process::Command::new("cp").arg("-a").arg(self.cluster.data_dir()).arg(data).status();
        assert!(status.expect("cp").success());
        let user = ServerUser::current().expect("a server user");
        let cluster = Cluster::new(self.cluster.installation().clone(), data, user);
        OtherServer { cluster, major: self.major, socket: socket.to_owned(), server: None }
    }

    /// Runs the server as a standby, and makes it one that is written to.
    pub(crate) async fn promote(&mut self) {
        self.cluster.write_file("standby.signal", "").expect("it is a standby");
        self.run_server();
        let client = self.client("boss", "shop").await;
        let row = client.query_one("select pg_promote()", &[]).await.expect("an answer");
        assert!(row.get::<_, bool>(0), "it was promoted");
    }

    pub(crate) async fn client(&self, user: &str, database: &str) -> Client {
        let mut config = Config::new();
        config.host_path(&self.socket).port(5432).user(user).dbname(database);
        if self.major >= 17 && user == "boss" {
            config.options("-c event_triggers=off");
        }
        let (client, connection) = config.connect(NoTls).await.expect("the origin answers");
        tokio::spawn(connection);
        client
    }

    /// Runs statements, which are divided by `;;`, as the superuser.
    pub(crate) async fn run(&self, database: &str, sql: &str) {
        let client = self.client("boss", database).await;
        for statement in sql.split(";;").map(str::trim).filter(|statement| !statement.is_empty()) {
            client.batch_execute(statement).await.unwrap_or_else(|error| panic!("{statement}: {error:?}"));
        }
    }

    pub(crate) fn socket(&self) -> &std::path::Path {
        &self.socket
    }

    pub(crate) fn url(&self) -> String {
        format!("postgresql://boss@/shop?host={}&port=5432", self.socket.display())
    }

    pub(crate) fn running(&self) -> Origin {
        Origin::Server { url: self.url() }
    }

    pub(crate) fn directory(&self) -> Origin {
        Origin::DataDirectory { path: self.cluster.data_dir().display().to_string() }
    }
}

/// Imports `shop`, and keeps one branch of each of these policies hot.
pub(crate) async fn import(
    engine: &Arc<Engine>,
    name: &str,
    origin: Origin,
    policies: &[Policy],
) -> Result<SourceView, EngineError> {
    let hot: Vec<(Policy, u32)> = policies.iter().map(|policy| (*policy, 1)).collect();
    let request = AddSource {
        name: name.to_owned(),
        origin,
        database: Some("shop".to_owned()),
        settings: crate::support::pool(&hot),
    };
    engine.add_source(request, |_, _| {}).await
}
