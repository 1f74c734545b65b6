//! A server that is held stands still, and goes on whatever happens to who holds it (L2 of docs/design/lineage.md).

use duramen_postgres::{can_run, is_stopped, processes_below, Hold};
use std::{
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

const SOON: Duration = Duration::from_secs(20);
/// Names the directory and the process that this test program is to hold, when it runs itself again.
const HOLDER: &str = "DURAMEN_TEST_HOLDS";

/// Two processes that work in a directory, as a server and one of its sessions do.
fn server(dir: &Path) -> Child {
    let script = "sleep 600 & echo $! > child; exec sleep 600";
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script]).current_dir(dir).stdin(Stdio::null());
    let server = command.spawn().unwrap();
    until("both run", || dir.join("child").exists() && processes_below(dir).len() == 2);
    server
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let begin = duramen_base::clock::now();
    while !is_so() {
        assert!(begin.elapsed() < SOON, "it never came to this: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn end(dir: &Path, mut server: Child) {
    for pid in processes_below(dir) {
        let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
    }
    let _ = server.wait();
}

#[test]
fn a_held_server_stands_still_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let dir = std::fs::canonicalize(folder.path()).unwrap();
    let server = server(&dir);
    let hold = Hold::of(&dir, server.id(), None).unwrap();
    let pids = processes_below(&dir);
    assert_eq!(pids.len(), 2);
    assert!(pids.iter().all(|pid| is_stopped(*pid)), "both stand still");
    drop(hold);
    until("both go on", || pids.iter().all(|pid| can_run(*pid)));
    end(&dir, server);
}

/// Not a test of its own: what the one below runs, and kills.
#[test]
fn holds_when_it_is_told_to() {
    let Ok(wanted) = std::env::var(HOLDER) else { return };
    let (pid, dir) = wanted.split_once(' ').unwrap();
    let _hold = Hold::of(Path::new(dir), pid.parse().unwrap(), None).unwrap();
    std::fs::write(Path::new(dir).join("held"), "").unwrap();
    std::thread::sleep(SOON);
}

#[test]
fn a_held_server_goes_on_when_its_holder_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let dir = std::fs::canonicalize(folder.path()).unwrap();
    let server = server(&dir);
    let pids = processes_below(&dir);
    let mut holder = Command::new(std::env::current_exe().unwrap())
        .args(["held_servers::holds_when_it_is_told_to", "--exact"])
        .env(HOLDER, format!("{} {}", server.id(), dir.display()))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    until("it is held", || dir.join("held").exists());
    assert!(pids.iter().all(|pid| is_stopped(*pid)));
    holder.kill().unwrap();
    holder.wait().unwrap();
    until("it goes on", || pids.iter().all(|pid| can_run(*pid)));
    end(&dir, server);
}
