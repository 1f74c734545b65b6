//! A control group that limits the memory of a process, files that it has in memory included.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// How often removing a group is tried, and the pause: its last process may still be on its way out.
const REMOVE_TRIES: u32 = 500;
const REMOVE_PAUSE: Duration = Duration::from_millis(10);

/// The group of one process. It is removed when this is dropped; nothing may run in it then.
pub(crate) struct Group {
    dir: PathBuf,
    version: Version,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    /// A tree for the controller of memory.
    One,
    /// One tree for all controllers.
    Two,
}

impl Group {
    /// Makes a group whose processes have `bytes` of memory together, and no swap.
    ///
    /// # Errors
    /// Why there can be none here, in a sentence for people.
    pub(crate) fn make(name: &str, bytes: u64) -> Result<Self, String> {
        let mounts = fs::read_to_string("/proc/self/mountinfo")
            .map_err(|error| format!("no list of mounts: {error}"))?;
        let (version, root) = root(&mounts)?;
        if version == Version::Two {
            // Without this, groups below the root have no limit of memory. It may be on already, and not ours to turn on.
            drop(fs::write(root.join("cgroup.subtree_control"), "+memory"));
        }
        let dir = root.join(name);
        fs::create_dir(&dir)
            .map_err(|error| format!("{} cannot be made ({error}); it needs root", dir.display()))?;
        let group = Self { dir, version };
        let (limit, swap) = match version {
            Version::One => ("memory.limit_in_bytes", ("memory.swappiness", "0")),
            Version::Two => ("memory.max", ("memory.swap.max", "0")),
        };
        group.write(limit, &bytes.to_string())?;
        // A machine without swap has no such file.
        drop(group.write(swap.0, swap.1));
        Ok(group)
    }

    fn write(&self, file: &str, text: &str) -> Result<(), String> {
        let path = self.dir.join(file);
        fs::write(&path, text).map_err(|error| format!("{} cannot be written ({error})", path.display()))
    }

    /// Puts a process into the group. What it took before is not counted.
    ///
    /// # Errors
    /// Why it cannot be put there, in a sentence for people.
    pub(crate) fn adopt(&self, process: u32) -> Result<(), String> {
        self.write("cgroup.procs", &process.to_string())
    }

    /// How often the kernel ended a process of the group for lack of memory.
    pub(crate) fn killed(&self) -> u64 {
        let file = match self.version {
            Version::One => "memory.oom_control",
            Version::Two => "memory.events",
        };
        let text = fs::read_to_string(self.dir.join(file)).unwrap_or_default();
        let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        count.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for _ in 0..REMOVE_TRIES {
            match fs::remove_dir(&self.dir) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => thread::sleep(REMOVE_PAUSE),
                _ => return,
            }
        }
        eprintln!("peers: {} cannot be removed", self.dir.display());
    }
}

/// Where groups with a limit of memory are made.
fn root(mounts: &str) -> Result<(Version, PathBuf), String> {
    // "36 35 98:0 /root /mount/point options - type source options"
    let of_kind = |kind: &str, option: Option<&str>| {
        mounts.lines().find_map(|line| {
            let (mount, source) = line.split_once(" - ")?;
            let mut source = source.split(' ');
            let is_kind = source.next() == Some(kind);
            let has = option.is_none_or(|option| {
                source.nth(1).is_some_and(|all| all.split(',').any(|one| one == option))
            });
            (is_kind && has).then(|| mount.split(' ').nth(4).map(PathBuf::from))?
        })
    };
    if let Some(root) = of_kind("cgroup", Some("memory")) {
        return Ok((Version::One, root));
    }
    let root = of_kind("cgroup2", None).ok_or("no control groups are mounted")?;
    let controllers = fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
    if !has_memory(&controllers) {
        return Err(format!("{} has no controller of memory", Path::new(&root).display()));
    }
    Ok((Version::Two, root))
}

fn has_memory(controllers: &str) -> bool {
    controllers.split_whitespace().any(|controller| controller == "memory")
}

#[cfg(test)]
#[path = "../tests/unit/group.rs"]
mod tests;
