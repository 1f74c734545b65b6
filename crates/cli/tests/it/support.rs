//! A home with a daemon for one test, gone afterwards with everything that ran in it.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "helpers of tests fail the test by panicking")]

use duramen_api::model::{
    AddSource, BranchView, CreateBranch, Origin, Policy, PoolSize, QueryRequest, SourceSettings, Status,
};
use duramen_client::{ClientError, Connection};
use duramen_postgres::processes_below;
use duramen_server::process::Daemon;
use serde_json::Value;
use std::{
    collections::BTreeSet,
    fs,
    io::Write,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::Duration,
};

/// How long a thing that happens by itself may take.
pub(crate) const SOON: Duration = Duration::from_secs(20);

pub(crate) const EXE: &str = env!("CARGO_BIN_EXE_duramen");

/// Runs a command of a home to its end.
pub(crate) fn duramen(home: &Path, arguments: &[&str]) -> Output {
    Command::new(EXE).arg("--home").arg(home).args(arguments).output().expect("the program starts")
}

/// What a command printed.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
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

/// A scratch home. Declare it before its daemons, so that it is dropped after them.
pub(crate) struct Home {
    dir: tempfile::TempDir,
}

impl Home {
    pub(crate) fn new() -> Home {
        let dir = tempfile::Builder::new().prefix("dm-").tempdir().expect("a scratch directory");
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("its mode");
        Home { dir }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) async fn serve(&self) -> Daemon {
        self.spawn(&["--volume-size", "3G"]).await
    }

    /// With more options.
    pub(crate) async fn serve_with(&self, more: &[&str]) -> Daemon {
        self.spawn(&[&["--volume-size", "3G"], more].concat()).await
    }

    /// A daemon whose volume store, if it makes one, has this size.
    pub(crate) async fn serve_within(&self, size: &str) -> Daemon {
        self.spawn(&["--volume-size", size]).await
    }

    async fn spawn(&self, args: &[&str]) -> Daemon {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        Daemon::spawn(EXE.as_ref(), &self.path(), &args, &self.beside("log"))
            .await
            .expect("the daemon serves")
    }

    /// A command of the program on this home.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(EXE);
        command.env_remove("DURAMEN_HOME").env("XDG_DATA_HOME", self.beside("data"));
        command.arg("--home").arg(self.path()).args(arguments);
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("the program runs")
    }

    /// What a test must not leave: processes, mounts, loop devices. A loop device goes by itself when its last user has
    /// closed it, which may be whoever lists devices just now, or a namespace of another test that has all mounts of the
    /// moment in which it was made.
    pub(crate) fn left_overs(&self) -> Vec<String> {
        let mut found = self.found();
        for _ in 0..300 {
            if !found.iter().any(|what| what.starts_with("loop device")) {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
            found = self.found();
        }
        found
    }

    fn found(&self) -> Vec<String> {
        let home = self.path().display().to_string();
        let mut found: Vec<String> =
            processes_below(&self.path()).into_iter().map(|pid| format!("process {pid}")).collect();
        for pid in fs::read_dir("/proc").expect("processes").flatten().map(|entry| entry.path()) {
            let command = fs::read(pid.join("cmdline")).unwrap_or_default();
            let command = String::from_utf8_lossy(&command).replace('\0', " ");
            if command.contains(&home) {
                found.push(format!("process {}: {command}", pid.display()));
            }
        }
        let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mounts");
        found.extend(mounts.lines().filter(|line| line.contains(&home)).map(|line| format!("mount {line}")));
        for device in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
            let file = fs::read_to_string(device.path().join("loop/backing_file")).unwrap_or_default();
            if file.contains(&home) {
                found.push(format!("loop device {file}"));
            }
        }
        found
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let volumes = self.path().join("volumes");
        let scratch = self.path().join("scratch");
        for _ in 0..100 {
            for pid in processes_below(&self.path()) {
                let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
            }
            let mounted = fs::read_to_string("/proc/self/mountinfo")
                .is_ok_and(|text| text.contains(&format!(" {} ", volumes.display())));
            if !mounted {
                break;
            }
            let _ = Command::new("umount").args([&volumes, &scratch]).output();
            std::thread::sleep(Duration::from_millis(100));
        }
        let _ = duramen_branches::remove_groups(&self.path());
        let _ = Command::new("umount").arg("--lazy").args([&volumes, &scratch]).output();
        let _ = duramen_branches::remove_users(&self.path());
    }
}

/// The System V shared memory segments of this machine, by id.
pub(crate) fn shared_memory() -> BTreeSet<String> {
    let table = fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default();
    table.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1).map(str::to_owned)).collect()
}

pub(crate) async fn connect(daemon: &Daemon) -> Connection {
    daemon.client().connect().await.expect("the daemon accepts")
}

/// Imports a script as source `app`.
pub(crate) async fn add_script(home: &Home, connection: &mut Connection, sql: &str, hot: u32, cold: u32) {
    let path = home.beside("app.sql");
    fs::write(&path, sql).expect("the script");
    let request = AddSource {
        name: "app".to_owned(),
        origin: Origin::Script { path: path.display().to_string() },
        database: None,
        settings: SourceSettings {
            pool: PoolSize { hot: [(Policy::ReadWrite, hot)].into(), cold },
            ..SourceSettings::default()
        },
    };
    connection.add_source(&request, |_, _| {}).await.expect("the import");
}

pub(crate) async fn create(connection: &mut Connection, name: &str) -> Result<BranchView, ClientError> {
    let request = CreateBranch { name: Some(name.to_owned()), ..CreateBranch::default() };
    connection.create_branch(&request).await
}

/// The rows of one statement.
pub(crate) async fn query(connection: &mut Connection, name: &str, sql: &str) -> Result<Value, ClientError> {
    let request = QueryRequest { sql: Some(sql.to_owned()), ..QueryRequest::default() };
    let reply = connection.query(name, &request).await?;
    Ok(serde_json::from_str(reply.results[0].rows.get()).expect("rows are JSON"))
}

/// Waits until pools are full and deletions done.
pub(crate) async fn settle(connection: &mut Connection) -> Status {
    let mut last = None;
    for _ in 0..600 {
        let status = connection.status().await.expect("the status");
        if status.settled && status.pool_error.is_none() {
            return status;
        }
        last = Some(status);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the pools did not settle: {last:?}");
}

/// A session of one's own, by a branch's URL.
pub(crate) async fn wire(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.expect("the wire");
    tokio::spawn(connection);
    client
}

/// The names in a directory.
pub(crate) fn entries(dir: &Path) -> BTreeSet<String> {
    let listed = fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    listed.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// A request as it is written to the daemon.
pub(crate) fn post(path: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: duramen\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Makes a program that can be started at once. Another process writes it: what is open for writing here, or in a child
/// that another test just forked, cannot be started.
pub(crate) fn install(program: &Path, script: &str) {
    let mut child = Command::new("install")
        .args(["-m", "755", "/dev/stdin"])
        .arg(program)
        .stdin(Stdio::piped())
        .spawn()
        .expect("install starts");
    child.stdin.take().expect("a pipe").write_all(script.as_bytes()).expect("it is written");
    assert!(child.wait().expect("install ends").success(), "{} is not installed", program.display());
}
