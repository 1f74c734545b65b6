//! B34 and B55 under systemd and its one tree of control groups: a daemon that is run by the unit in the package is
//! replaced and comes back, and its branches go on, limited as before.

use crate::{
    groups_outlive_daemons::{groups_of, limited_source, limits_hold, postmaster},
    support::{create, settle, until, Home, EXE},
};
use duramen_client::{Client, Connection};
use rustix::fs::{chown, Uid};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

/// An import takes a few seconds, and in an emulated machine on a busy one more than the two minutes that are usual.
const DEADLINE: Duration = Duration::from_secs(600);
const UNIT: &str = include_str!("../../../../deploy/systemd/duramen.service");

/// The unit in the package, for another program and home. Gone with this value.
struct Unit {
    name: String,
}

impl Unit {
    /// With other options for the daemon, and more lines.
    fn new(home: &Home, options: &str, lines: &str) -> Unit {
        let path = home.path();
        let of_home = path.parent().and_then(Path::file_name).expect("its directory").to_string_lossy();
        let unit = Unit { name: format!("duramen-{of_home}.service") };
        let text = UNIT
            .replace("/usr/bin/duramen", EXE)
            .replace("/var/lib/duramen", &path.display().to_string())
            .replace(" serve\n", &format!(" serve {options}\n"))
            .replace("[Service]\n", &format!("[Service]\n{lines}\n"));
        assert!(text.contains(EXE) && text.contains(options) && text.contains(lines), "{text}");
        fs::write(unit.file(), text).expect("the unit");
        unit.systemctl(&["daemon-reload"]);
        unit
    }

    fn file(&self) -> String {
        format!("/run/systemd/system/{}", self.name)
    }

    fn group(&self) -> PathBuf {
        Path::new("/sys/fs/cgroup/system.slice").join(&self.name)
    }

    fn systemctl(&self, arguments: &[&str]) -> String {
        let output = Command::new("systemctl").args(arguments).output().expect("systemctl runs");
        let journal =
            || Command::new("journalctl").args(["--no-pager", "-n", "60", "-u", &self.name]).output();
        assert!(output.status.success(), "{arguments:?}: {output:?}\n{:?}", journal());
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    fn tell(&self, verb: &str) {
        self.systemctl(&[verb, &self.name]);
    }

    fn property(&self, name: &str) -> String {
        self.systemctl(&["show", "--property", name, "--value", &self.name])
    }

    /// How many programs have said that they serve, in the same process or in others.
    fn programs(&self) -> usize {
        let journal = Command::new("journalctl").args(["--output", "cat", "-u", &self.name]).output();
        let journal = journal.expect("journalctl runs").stdout;
        String::from_utf8_lossy(&journal).matches("daemon: serving home=").count()
    }

    fn main_pid(&self) -> u32 {
        self.property("MainPID").parse().expect("a process id")
    }
}

impl Drop for Unit {
    fn drop(&mut self) {
        let _ = Command::new("systemctl").args(["stop", &self.name]).output();
        let _ = fs::remove_file(self.file());
        let _ = Command::new("systemctl").arg("daemon-reload").output();
    }
}

async fn serves(home: &Home) -> Connection {
    let client = Client::new(&home.path()).with_deadline(DEADLINE);
    until("the daemon serves", async || client.connect().await.is_ok()).await;
    client.connect().await.expect("the daemon accepts")
}

/// Of a tier of its own, because it needs systemd: `make test-cgroups`.
fn has_systemd() -> bool {
    if std::env::var_os("DURAMEN_TEST_UNIT").is_none() {
        eprintln!("skipped: DURAMEN_TEST_UNIT is not set");
        return false;
    }
    assert!(Path::new("/run/systemd/system").exists(), "systemd runs");
    true
}

/// A limited branch `try` of a daemon that has just started: its URL, its server and that one's groups.
async fn branch(home: &Home, unit: &Unit) -> (String, u32, BTreeSet<PathBuf>) {
    let mut connection = serves(home).await;
    limited_source(home, &mut connection).await;
    let url = create(&mut connection, "try").await.expect("a branch").url;
    let first = postmaster(home, &url).await;
    let groups = groups_of(first);
    assert!(groups.iter().all(|group| group.starts_with(unit.group())), "{groups:?}");
    assert_eq!(limits_hold(&url, first, "at first").await, groups);
    // What a branch took too much of is no matter of the unit's.
    assert_eq!(unit.property("ActiveState"), "active");
    (url, first, groups)
}

/// systemd starts another daemon in the place of one that is killed, and that one goes on with the branch.
async fn is_killed(home: &Home, unit: &Unit, (url, first, groups): &(String, u32, BTreeSet<PathBuf>)) {
    let daemon = unit.main_pid();
    Command::new("kill").args(["-9", &daemon.to_string()]).status().expect("the kill");
    until("another daemon runs", async || ![0, daemon].contains(&unit.main_pid())).await;
    let mut connection = serves(home).await;
    settle(&mut connection).await;
    assert_eq!(postmaster(home, url).await, *first, "the same server goes on");
    assert_eq!(&limits_hold(url, *first, "killed").await, groups);
    assert_eq!(unit.property("ActiveState"), "active");
}

/// The branch goes, then the daemon.
async fn ends(home: &Home, unit: Unit, groups: &BTreeSet<PathBuf>) {
    let mut connection = serves(home).await;
    connection.destroy_branch("try").await.expect("destroyed");
    settle(&mut connection).await;
    let left: Vec<_> = groups.iter().filter(|group| group.exists()).collect();
    assert!(left.is_empty(), "{left:?} outlive their branch");
    drop(connection);
    unit.tell("stop");
    assert_eq!(unit.property("ActiveState"), "inactive");
    until("nothing is left of the unit's groups", async || !unit.group().exists()).await;
    drop(unit);
    assert_eq!(home.left_overs(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_unit_replaces_its_daemon_and_limits_go_on() {
    if !has_systemd() {
        return;
    }
    let home = Home::new();
    let unit = Unit::new(&home, "--volume-size 3G", "");
    unit.tell("start");
    let branch = branch(&home, &unit).await;
    let (url, first, groups) = &branch;

    // A new program in the same process.
    let daemon = unit.main_pid();
    assert_eq!(unit.programs(), 1);
    unit.tell("reload");
    until("the new program serves", async || unit.programs() == 2).await;
    let mut connection = serves(&home).await;
    settle(&mut connection).await;
    assert_eq!(unit.main_pid(), daemon);
    assert_eq!(postmaster(&home, url).await, *first, "the same server goes on");
    assert_eq!(&limits_hold(url, *first, "reloaded").await, groups);
    drop(connection);

    is_killed(&home, &unit, &branch).await;

    // An orderly end, and the branch with the next daemon.
    unit.tell("restart");
    let mut connection = serves(&home).await;
    settle(&mut connection).await;
    let another = postmaster(&home, url).await;
    assert_eq!(&limits_hold(url, another, "restarted").await, groups);
    drop(connection);
    ends(&home, unit, groups).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_with_a_delegated_group_has_limits_too() {
    const NOBODY: u32 = 65534;
    if !has_systemd() {
        return;
    }
    let home = Home::new();
    fs::create_dir(home.path()).expect("the home");
    chown(home.path(), Some(Uid::from_raw(NOBODY)), None).expect("its owner");
    let unit = Unit::new(&home, "--volumes copy", "User=nobody");
    unit.tell("start");
    let branch = branch(&home, &unit).await;
    is_killed(&home, &unit, &branch).await;
    ends(&home, unit, &branch.2).await;
}
