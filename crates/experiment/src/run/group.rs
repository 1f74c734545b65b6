//! A control group for a command that is not shut in, where we may make one: whatever leaves its process group, clears its
//! environment and outlives its parent is in it all the same.

use duramen_base::{clock, entropy};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

/// Letters of its name.
const NAME_LEN: usize = 20;
/// What was killed is gone within this, unless it hangs in the kernel.
const GONE: Duration = Duration::from_secs(2);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(2);
/// Goes into the group, and is the command then.
const ENTER: &str = r#"echo $$ >"$0/cgroup.procs"; exec sh -c "$1""#;

/// A control group below our own, which goes with this.
#[derive(Debug)]
pub(super) struct Group {
    path: PathBuf,
}

impl Group {
    /// Makes one, if that is possible here.
    pub(super) fn new() -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        // `ID PARENT DEVICE ROOT MOUNTPOINT OPTIONS ... - TYPE SOURCE OPTIONS`
        let mount = mounts.lines().find(|line| line.contains(" - cgroup2 "))?.split(' ').nth(4)?.to_owned();
        let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
        let own = groups.lines().find_map(|line| line.strip_prefix("0::/"))?.to_owned();
        let path = Path::new(&mount).join(own).join(format!("duramen-run-{}", entropy::token(NAME_LEN)));
        fs::create_dir(&path).ok()?;
        let group = Self { path };
        // Kernels before 5.14 have no such file.
        group.path.join("cgroup.kill").exists().then_some(group)
    }

    /// A command that is run by `sh -c` in it.
    pub(super) fn command(&self, command: &str) -> Command {
        let mut inside = Command::new("sh");
        inside.args(["-c", ENTER]).arg(&self.path).arg(command);
        inside
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Kills everything in it, and returns when that is gone.
    pub(super) fn end(&self) {
        let begin = clock::now();
        let _ = fs::write(self.path.join("cgroup.kill"), "1");
        let is_empty = || fs::read_to_string(self.path.join("cgroup.procs")).unwrap_or_default().is_empty();
        while !is_empty() && begin.elapsed() < GONE {
            thread::sleep(PAUSE);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.end();
        let _ = fs::remove_dir(&self.path);
    }
}
