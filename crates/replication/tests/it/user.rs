//! Somebody's pair: servers that the suite has not made for itself, with settings that it must put back.
#![allow(dead_code, reason = "the tests of two crates use a part each")]

use duramen_postgres::connection::Target;
use duramen_postgres::{Cluster, Installation, Postmaster, ServerUser, Settings, StopMode};
use duramen_replication::{
    pair::{Pair, DATABASE},
    scenario::Node,
    Options,
};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio_postgres::Client;

const PATIENCE: Duration = Duration::from_secs(60);

/// The newest major version that is there, and the oldest.
pub(crate) fn majors() -> Vec<u32> {
    let mut majors: Vec<u32> = Installation::discover(&duramen_base::home::usual())
        .expect("servers can be looked for")
        .iter()
        .map(|installation| installation.version.major)
        .filter(|major| *major >= 15)
        .collect();
    majors.dedup();
    assert!(!majors.is_empty(), "there is no server");
    vec![majors[0], majors[majors.len() - 1]]
}

/// A folder that the servers' user can reach.
pub(crate) fn folder() -> tempfile::TempDir {
    let dir = tempfile::Builder::new().prefix("pair-").tempdir().expect("a folder");
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).expect("its mode");
    dir
}

/// A pair with settings of its own, some by ALTER SYSTEM and some in `postgresql.conf`.
pub(crate) struct User {
    pair: Pair,
    root: PathBuf,
    dir: tempfile::TempDir,
}

impl User {
    pub(crate) async fn new(major: u32) -> User {
        let dir = folder();
        let options = Options {
            major: Some(major),
            rtt_ms: vec![0],
            quick: true,
            ..Options::new(dir.path().join("servers"), "duramen")
        };
        let pair = Pair::open(&options, &|_| {}).await.expect("a pair");
        let root = std::fs::read_dir(&options.dir).unwrap().next().expect("a folder").unwrap().path();
        let user = User { pair, root, dir };
        let standby = user.client(Node::Standby).await;
        for statement in [
            "ALTER SYSTEM SET work_mem = '5MB'",
            "ALTER SYSTEM SET max_standby_streaming_delay = '17s'",
            "ALTER SYSTEM SET log_statement = 'none'",
        ] {
            standby.batch_execute(statement).await.unwrap();
        }
        user.add_conf(Node::Standby, "hot_standby_feedback = on\n").await;
        let primary = user.client(Node::Primary).await;
        primary.batch_execute("ALTER SYSTEM SET checkpoint_completion_target = '0.8'").await.unwrap();
        user.reload(Node::Primary).await;
        primary.batch_execute(&format!("DROP DATABASE {DATABASE}")).await.unwrap();
        user
    }

    /// Adds lines to `postgresql.conf`, and lets the server read them.
    pub(crate) async fn add_conf(&self, node: Node, lines: &str) {
        self.cluster(node).append_conf(lines).unwrap();
        self.reload(node).await;
    }

    /// Adds lines to `postgresql.conf` that the server has not read.
    pub(crate) fn add_conf_unread(&self, node: Node, lines: &str) {
        self.cluster(node).append_conf(lines).unwrap();
    }

    /// Writes a file into the data directory.
    pub(crate) fn write_file(&self, node: Node, name: &str, text: &str) {
        self.cluster(node).write_file(name, text).unwrap();
    }

    pub(crate) async fn reload(&self, node: Node) {
        let client = self.client(node).await;
        let loaded = "SELECT pg_conf_load_time()::text";
        let before: String = client.query_one(loaded, &[]).await.unwrap().get(0);
        client.batch_execute("SELECT pg_reload_conf()").await.unwrap();
        while client.query_one(loaded, &[]).await.unwrap().get::<_, String>(0) == before {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub(crate) fn major(&self) -> u32 {
        self.pair.major()
    }

    /// The pair as its owner holds it.
    pub(crate) fn pair(&self) -> &Pair {
        &self.pair
    }

    pub(crate) fn dsn(&self, node: Node) -> String {
        let sockets = match node {
            Node::Primary => "p",
            Node::Standby => "s",
        };
        format!("host={}/{sockets} user=postgres dbname=postgres password=swordfish", self.root.display())
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    /// What a run with this pair is asked to do.
    pub(crate) fn options(&self, exe: &Path) -> Options {
        Options {
            primary: Some(self.dsn(Node::Primary)),
            standby: Some(self.dsn(Node::Standby)),
            home: self.home(),
            quick: true,
            ..Options::new(self.dir.path(), exe)
        }
    }

    /// A session of somebody else.
    pub(crate) async fn client(&self, node: Node) -> Client {
        Target::parse(&self.dsn(node)).unwrap().application_name("somebody else").connect().await.unwrap()
    }

    /// Everything that a run must leave as it is.
    pub(crate) async fn state(&self) -> Vec<String> {
        // What the primary has dropped is there on the standby until it has replayed it.
        self.pair.caught_up(PATIENCE).await.unwrap();
        let mut lines = Vec::new();
        for node in [Node::Primary, Node::Standby] {
            let client = self.client(node).await;
            for question in [
                "SELECT concat_ws(' ', name, quote_nullable(setting), source, sourcefile) FROM pg_settings ORDER BY 1",
                "SELECT line FROM regexp_split_to_table(pg_read_file('postgresql.auto.conf'), '\n') AS line ORDER BY 1",
                "SELECT 'database ' || datname FROM pg_database ORDER BY 1",
                "SELECT 'slot ' || slot_name FROM pg_replication_slots ORDER BY 1",
            ] {
                let rows = client.query(question, &[]).await.unwrap();
                lines.extend(rows.iter().map(|row| format!("{node:?} {}", row.get::<_, String>(0))));
            }
        }
        lines
    }

    /// The restore files that are there.
    pub(crate) fn restore_files(&self) -> Vec<PathBuf> {
        let folder = self.home().join("lab/restore");
        let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    fn cluster(&self, node: Node) -> Cluster {
        let name = match node {
            Node::Primary => "primary",
            Node::Standby => "standby",
        };
        let home = duramen_base::home::usual();
        let installation = Installation::choose(&home, Some(self.major())).unwrap();
        Cluster::new(installation, self.root.join(name), ServerUser::current().unwrap())
    }

    pub(crate) fn stop(&self, node: Node) {
        let cluster = self.cluster(node);
        Postmaster::adopt(cluster.data_dir()).expect("it runs").stop(StopMode::Fast, PATIENCE).unwrap();
    }

    pub(crate) fn start(&self, node: Node) {
        self.start_with(node, &Settings::new());
    }

    /// With settings as arguments.
    pub(crate) fn start_with(&self, node: Node, settings: &Settings) {
        let sockets = match node {
            Node::Primary => "p",
            Node::Standby => "s",
        };
        // Whoever ends the folder ends the server.
        self.cluster(node).start(&self.root.join(sockets), settings, PATIENCE).unwrap();
    }

    /// A process that receives the WAL of the primary under a name of its own.
    pub(crate) fn receiver(&self, name: &str) -> std::process::Child {
        let user = ServerUser::current().unwrap();
        let into = self.root.join(name);
        std::fs::create_dir(&into).unwrap();
        user.own(&into).unwrap();
        let dsn = format!("{} application_name={name}", self.dsn(Node::Primary));
        user.command(&self.cluster(Node::Primary).installation().program("pg_receivewal"))
            .current_dir(&into)
            .args(["--synchronous", "--dbname", &dsn, "--directory"])
            .arg(&into)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .expect("it can be run")
    }

    /// Until commits wait for the standby again.
    pub(crate) async fn synchronous(&self) {
        let client = self.client(Node::Primary).await;
        let question =
            "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync' AND state = 'streaming'";
        while client.query_one(question, &[]).await.unwrap().get::<_, i64>(0) == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}
