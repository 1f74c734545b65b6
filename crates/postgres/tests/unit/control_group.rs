//! A group outlives nobody who is on his way out.

use super::*;
use crate::{is_stopped, Hold};
use std::{io::Write, process::Command, time::Duration};

const LIMITS: GroupLimits = GroupLimits { memory: 64 << 20, processes: 16, cpu_weight: 100 };

#[test]
fn a_group_is_removed_when_its_last_process_takes_its_time() {
    if !rustix::process::geteuid().is_root() || ControlGroups::probe().is_err() {
        return;
    }
    let groups = ControlGroups::open(&format!("test-{}", std::process::id())).expect("groups");
    let group = groups.member("slow");
    group.make(LIMITS).expect("a group");
    let mut last = Command::new("sleep").arg("0.5").spawn().expect("a process");
    for (_, dir) in &group.dirs {
        let mut file = fs::OpenOptions::new().write(true).open(dir.join("cgroup.procs")).expect("its entry");
        file.write_all(last.id().to_string().as_bytes()).expect("it enters");
    }
    group.remove();
    let left: Vec<_> = group.dirs.iter().filter(|(_, dir)| dir.exists()).collect();
    last.wait().expect("it ended");
    groups.sweep(&HashSet::new());
    groups.close();
    assert!(left.is_empty(), "{left:?}");
}

/// L2: what a server started and let go of, and what left its directory, stands still with it.
#[test]
fn whoever_is_in_the_group_of_a_server_is_held_with_it() {
    if !rustix::process::geteuid().is_root() || ControlGroups::probe().is_err() {
        return;
    }
    let groups = ControlGroups::open(&format!("test-held-{}", std::process::id())).expect("groups");
    let group = groups.member("held");
    group.make(LIMITS).expect("a group");
    let folder = tempfile::tempdir().expect("a folder");
    let entries: Vec<String> =
        group.dirs.iter().map(|(_, dir)| dir.join("cgroup.procs").display().to_string()).collect();
    // The shell between the server and the last one ends at once, so that nobody knows whose child it is.
    let script = format!(
        "for entry in {}; do echo $$ > $entry; done; (cd / && setsid sleep 600 & echo $! > {}/left.new); mv left.new left; exec sleep 600",
        entries.join(" "),
        folder.path().display()
    );
    let mut server =
        Command::new("sh").args(["-c", &script]).current_dir(folder.path()).spawn().expect("a server");
    let left = folder.path().join("left");
    for _ in 0..2000 {
        if left.exists() {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let left: u32 = fs::read_to_string(left).expect("it runs").trim().parse().expect("a process");
    let hold = Hold::of(folder.path(), server.id(), Some(&group)).expect("it is held");
    let stand_still = [server.id(), left].map(is_stopped);
    drop(hold);
    for pid in group.processes().expect("they are there") {
        let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
    }
    server.wait().expect("it ended");
    for _ in 0..2000 {
        if group.processes().is_ok_and(|found| found.is_empty()) {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    group.remove();
    groups.sweep(&HashSet::new());
    groups.close();
    assert_eq!(stand_still, [true, true]);
}
