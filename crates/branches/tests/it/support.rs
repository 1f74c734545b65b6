//! A home directory of its own for one test, gone afterwards with everything that ran in it.

use duramen_api::model::{
    AddSource, BranchView, CreateBranch, Origin, Policy, PoolSize, QueryReply, QueryRequest, SourceSettings,
};
use duramen_branches::{Engine, EngineError, OpenOptions};
use duramen_postgres::{
    processes_below, volume::Choice, Cluster, Installation, ServerUser, Settings, StopMode,
};
use rustix::{
    io::Errno,
    process::{kill_process, Pid, Signal},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// How long a thing that happens by itself may take.
const SOON: Duration = Duration::from_secs(90);

/// A scratch home.
pub(crate) struct Home {
    dir: tempfile::TempDir,
    pub(crate) options: OpenOptions,
}

impl Home {
    /// One with volumes of the kind that `DURAMEN_TEST_VOLUMES` names, or else the best that works here.
    pub(crate) fn new() -> Home {
        let named = std::env::var("DURAMEN_TEST_VOLUMES");
        Home::with_volumes(match named.as_deref() {
            Err(_) => Choice::Auto,
            Ok("btrfs") => Choice::Btrfs,
            Ok("reflink") => Choice::Reflink,
            Ok("copy") => Choice::Copy,
            Ok(other) => panic!("no volumes are called {other:?}"),
        })
    }

    /// One whose volume store is a file, and so has a size that a test can fill.
    pub(crate) fn with_small_store() -> Home {
        Home::with_volumes(Choice::Btrfs)
    }

    pub(crate) fn with_volumes(volumes: Choice) -> Home {
        let dir = tempfile::Builder::new().prefix("dm-").tempdir().expect("a scratch directory");
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).expect("its mode");
        let options = OpenOptions {
            home: dir.path().join("home"),
            volumes,
            volume_size: Some(1536 << 20),
            stall: None,
            sleep_after: None,
        };
        Home { dir, options }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.options.home
    }

    /// A place beside the home.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) async fn open(&self) -> Arc<Engine> {
        Engine::open(self.options.clone()).await.expect("the engine opens")
    }

    /// Writes a script and imports it as source `app`.
    pub(crate) async fn add_script(&self, engine: &Arc<Engine>, sql: &str, settings: SourceSettings) {
        self.try_script(engine, sql, settings).await.expect("the import");
    }

    /// Makes a cluster of a major version, runs a script in its database `app`, and imports its stopped data directory as
    /// source `app`.
    pub(crate) async fn add_cluster(
        &self,
        engine: &Arc<Engine>,
        major: u32,
        sql: &str,
        settings: SourceSettings,
    ) {
        let installation = Installation::choose(self.path(), Some(major)).expect("a server");
        let user = ServerUser::current().expect("a server user");
        let dir = self.beside(&format!("cluster-{major}"));
        let cluster = Cluster::new(installation, &dir, user);
        cluster.init("postgres", false).expect("initdb");
        cluster.write_file("pg_hba.conf", "local all all trust\n").expect("access rules");
        let socket = self.beside("c");
        let limit = Duration::from_secs(60);
        let mut server =
            cluster.start(&socket, &Settings::minimal(major), limit).expect("the cluster starts");
        for (database, text) in [("postgres", "create database app"), ("app", sql)] {
            let mut config = tokio_postgres::Config::new();
            config.host_path(&socket).port(5432).user("postgres").dbname(database);
            let (client, connection) = config.connect(tokio_postgres::NoTls).await.expect("it answers");
            tokio::spawn(connection);
            client.batch_execute(text).await.expect("the script");
        }
        server.stop(StopMode::Fast, limit).expect("it stops");
        let request = AddSource {
            name: "app".to_owned(),
            origin: Origin::DataDirectory { path: dir.display().to_string() },
            database: Some("app".to_owned()),
            settings,
        };
        engine.add_source(request, |_, _| {}).await.expect("the import");
    }

    /// As [`Home::add_script`], and says what came of it.
    pub(crate) async fn try_script(
        &self,
        engine: &Arc<Engine>,
        sql: &str,
        settings: SourceSettings,
    ) -> Result<(), EngineError> {
        let path = self.beside("app.sql");
        std::fs::write(&path, sql).expect("the script");
        let request = AddSource {
            name: "app".to_owned(),
            origin: Origin::Script { path: path.display().to_string() },
            database: None,
            settings,
        };
        engine.add_source(request, |_, _| {}).await.map(drop)
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // A test that failed half-way leaves servers and a mount; they must not outlive it.
        let volumes = self.path().join("volumes");
        let scratch = self.path().join("scratch");
        for _ in 0..100 {
            // Again and again: an engine that was not closed goes on filling its pool.
            for pid in processes_below(self.path()) {
                let _ = std::process::Command::new("kill").args(["-9", &pid.to_string()]).status();
            }
            let mounted = std::fs::read_to_string("/proc/self/mountinfo")
                .is_ok_and(|text| text.contains(&format!(" {} ", volumes.display())));
            if !mounted {
                break;
            }
            let _ = std::process::Command::new("umount").args([&volumes, &scratch]).output();
            std::thread::sleep(Duration::from_millis(100));
        }
        let _ = duramen_branches::remove_groups(self.path());
        // At the latest when this process ends.
        let _ = std::process::Command::new("umount").arg("--lazy").args([&volumes, &scratch]).output();
        let _ = duramen_branches::remove_users(self.path());
    }
}

/// The major versions whose servers are installed, newest first.
pub(crate) fn majors() -> Vec<u32> {
    let home = Home::new();
    let installed = Installation::discover(home.path()).expect("installations");
    let mut majors: Vec<u32> = installed.iter().map(|found| found.version.major).collect();
    majors.sort_unstable_by(|a, b| b.cmp(a));
    majors.dedup();
    let debian = Path::new("/usr/lib/postgresql/15/bin/postgres").exists();
    assert!(majors.len() > 1 || !debian, "Debian's server is found beside the other: {majors:?}");
    majors
}

/// The same, of servers that have a library.
pub(crate) fn majors_with(library: &str) -> Vec<u32> {
    let home = Home::new();
    let mut found = majors();
    found.retain(|major| {
        Installation::choose(home.path(), Some(*major)).expect("a server").has_library(library)
    });
    assert!(!found.is_empty(), "no server here has {library}");
    found
}

/// Pool sizes: hot branches by policy, and no cold ones.
pub(crate) fn pool(hot: &[(Policy, u32)]) -> SourceSettings {
    SourceSettings {
        pool: PoolSize { hot: hot.iter().copied().collect::<BTreeMap<_, _>>(), cold: 0 },
        ..SourceSettings::default()
    }
}

pub(crate) async fn lease(engine: &Arc<Engine>, name: &str, policy: Policy) -> BranchView {
    let request =
        CreateBranch { name: Some(name.to_owned()), policy: Some(policy), ..CreateBranch::default() };
    engine.create(request).await.expect("a lease")
}

pub(crate) async fn query(engine: &Arc<Engine>, name: &str, sql: &str) -> Result<QueryReply, EngineError> {
    let request = QueryRequest { sql: Some(sql.to_owned()), ..QueryRequest::default() };
    let answer = engine.query(name, request).await?;
    Ok(serde_json::from_slice(&answer.0).expect("the answer is a reply"))
}

/// The rows of a query's only result.
pub(crate) async fn rows(engine: &Arc<Engine>, name: &str, sql: &str) -> serde_json::Value {
    let reply = query(engine, name, sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    serde_json::from_str(reply.results[0].rows.get()).expect("rows are JSON")
}

/// Waits until pools are full and deletions done.
pub(crate) async fn settle(engine: &Engine) {
    for _ in 0..600 {
        let status = engine.status();
        if status.settled {
            return;
        }
        if let Some(error) = status.pool_error {
            panic!("the pool is broken: {error}");
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the pools did not settle: {:?}", engine.status());
}

/// Waits until something is so.
pub(crate) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(SOON, waiting).await.unwrap_or_else(|_| panic!("it never came to this: {what}"));
}

/// Signals every process below `dir`, with those that begin meanwhile; one that has ended by itself is no failure.
pub(crate) fn signal_all_below(dir: &Path, signal: Signal) {
    let mut signalled = BTreeSet::new();
    loop {
        let new: Vec<u32> = processes_below(dir).into_iter().filter(|pid| signalled.insert(*pid)).collect();
        if new.is_empty() {
            return;
        }
        for pid in new {
            let pid = Pid::from_raw(pid.cast_signed()).expect("a process");
            match kill_process(pid, signal) {
                Ok(()) | Err(Errno::SRCH) => {}
                Err(error) => panic!("{signal:?} for {pid:?}: {error}"),
            }
        }
    }
}
