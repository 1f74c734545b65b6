//! A group outlives nobody who is on his way out.

use super::*;
use std::{io::Write, process::Command};

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
