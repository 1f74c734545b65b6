//! Control groups: what the processes of one server may take of the machine together.
//!
//! All groups of a home lie in one, `duramen/NAME`, which is limited too. Where the controllers are mounted one by one
//! (version 1) that lies at the root of each. In the one tree of version 2 it lies below the daemon's own group, which has
//! to be delegated to it (`Delegate=yes` in its unit).

use rustix::{io::Errno, process::getpid};
use std::{
    collections::HashSet,
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

/// What a machine keeps for itself when all servers of a home take what they may: this part of its memory, and at least so much.
const KEPT_PART: u64 = 8;
const KEPT_MIN: u64 = 512 << 20;
/// How often making the group of a home is tried.
const OPEN_TRIES: u32 = 10;
/// How often removing a group is tried, and the pause: its last process may still be on its way out, which takes a while on
/// a machine that is busy. What is not removed stays until the next daemon.
const REMOVE_TRIES: u32 = 1000;
const REMOVE_PAUSE: Duration = Duration::from_millis(2);
/// The group that the daemon moves itself to under version 2, where only groups without processes have groups below them
/// with limits.
const DAEMON_GROUP: &str = "duramen-daemon";
/// The group that systemd runs the commands of a delegated unit in which are not its main process.
const CONTROL_GROUP: &str = ".control";
/// The weight of a group that nobody set, in version 2; and the same in version 1.
const WEIGHT_DEFAULT: u64 = 100;
const SHARES_DEFAULT: u64 = 1024;
/// Under version 1, the group of all servers competes with every process of the machine, and by default has the weight of
/// just one of them. It gets the weight of this many processes for each processor.
const TASKS_PER_PROCESSOR: u64 = 2;

/// What the processes of one server may take together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupLimits {
    /// Bytes of memory, cached files included.
    pub memory: u64,
    /// Processes.
    pub processes: u32,
    /// Share of the processors when they are busy, beside the other servers'; 1 to 10,000, and 100 is the usual one.
    pub cpu_weight: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layout {
    /// A tree for each controller.
    One,
    /// One tree for all.
    Two,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Controller {
    Memory,
    Processes,
    Cpu,
    /// All three, in version 2.
    Unified,
}

/// The groups of one home.
#[derive(Debug, Clone)]
pub struct ControlGroups {
    layout: Layout,
    /// The home's own group under each controller.
    roots: Vec<(Controller, PathBuf)>,
}

/// The group of one server.
#[derive(Debug, Clone)]
pub struct ControlGroup {
    layout: Layout,
    dirs: Vec<(Controller, PathBuf)>,
}

impl ControlGroups {
    /// Makes the group of a home, or takes the one that an earlier daemon made.
    ///
    /// # Errors
    /// Why there can be none here, in a sentence for people.
    pub fn open(name: &str) -> Result<ControlGroups, String> {
        for _ in 1..OPEN_TRIES {
            // The last daemon of another home may be taking away the group that homes share.
            if let Ok(groups) = ControlGroups::try_open(name) {
                return Ok(groups);
            }
        }
        ControlGroups::try_open(name)
    }

    fn try_open(name: &str) -> Result<ControlGroups, String> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").map_err(|error| error.to_string())?;
        let groups = match one_by_one(&mounts) {
            Some(roots) => ControlGroups { layout: Layout::One, roots },
            None => {
                ControlGroups { layout: Layout::Two, roots: vec![(Controller::Unified, delegated(&mounts)?)] }
            }
        }
        .below("duramen")?
        .below(name)?;
        groups.weigh();
        let kept = memory_total().map(|total| total.saturating_sub((total / KEPT_PART).max(KEPT_MIN)));
        if let Some(memory) = kept.filter(|memory| *memory > 0) {
            let all = ControlGroup { layout: groups.layout, dirs: groups.roots.clone() };
            all.limit_memory(memory)
                .map_err(|error| format!("the memory of branches cannot be limited ({error})"))?;
        }
        Ok(groups)
    }

    /// Removes what a daemon that was killed left of the groups of a home. Their processes must be gone. Under version 2 only
    /// what lies below this process's own group is found; what lay below a unit's goes with the unit. Returns how many
    /// groups of servers there were.
    #[must_use]
    pub fn remove(name: &str) -> usize {
        let Ok(mounts) = fs::read_to_string("/proc/self/mountinfo") else { return 0 };
        let (layout, mut roots) = match one_by_one(&mounts) {
            Some(roots) => (Layout::One, roots),
            None => match own_group(&mounts) {
                Ok(group) => (Layout::Two, vec![(Controller::Unified, group)]),
                Err(_) => return 0,
            },
        };
        roots.iter_mut().for_each(|(_, root)| root.extend(["duramen", name]));
        let of_servers = roots.first().map_or(0, |(_, root)| groups_below(root).len());
        let groups = ControlGroups { layout, roots };
        groups.sweep(&HashSet::new());
        groups.close();
        of_servers
    }

    /// Takes the limits off what a daemon that was killed left below the group of this process's unit, so that the group
    /// may have processes of its own again, and a next daemon starts in it. That one limits what it adopts. Returns
    /// whether there was anything to do; there never is under version 1.
    ///
    /// # Errors
    /// Why it cannot be done, in a sentence for people.
    pub fn undivide() -> Result<bool, String> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").map_err(|error| error.to_string())?;
        if one_by_one(&mounts).is_some() {
            return Ok(false);
        }
        let group = own_group(&mounts)?;
        // Who divided another one is not known.
        if !group.join("duramen").is_dir() {
            return Ok(false);
        }
        undivide(&group).map_err(|error| no_controllers(&group, &error))
    }

    /// Gives the parent groups of servers their share of the processors. Best effort: without it, servers are slow on a busy
    /// machine.
    fn weigh(&self) {
        let processors = thread::available_parallelism().map_or(1, |count| count.get() as u64);
        let shares = (SHARES_DEFAULT * TASKS_PER_PROCESSOR * processors).to_string();
        for (_, root) in self.roots.iter().filter(|(controller, _)| *controller == Controller::Cpu) {
            for dir in [Some(root.as_path()), root.parent()].into_iter().flatten() {
                if let Err(error) = fs::write(dir.join("cpu.shares"), &shares) {
                    tracing::warn!(group = %dir.display(), %error, "all branches together get the processor share of one process");
                }
            }
        }
    }

    /// Whether and where groups could be made, without making any.
    ///
    /// # Errors
    /// Why not, in a sentence for people.
    pub fn probe() -> Result<String, String> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").map_err(|error| error.to_string())?;
        let (layout, roots) = match one_by_one(&mounts) {
            Some(roots) => (Layout::One, roots.into_iter().map(|(_, root)| root).collect()),
            None => (Layout::Two, vec![own_group(&mounts)?]),
        };
        for root in &roots {
            let writable = rustix::fs::access(root, rustix::fs::Access::WRITE_OK);
            writable.map_err(|error| format!("{} cannot be written to ({error})", root.display()))?;
        }
        Ok(describe(layout))
    }

    /// One sentence for people.
    #[must_use]
    pub fn describe(&self) -> String {
        describe(self.layout)
    }

    /// The group of one server, which may not be there yet.
    #[must_use]
    pub fn member(&self, name: &str) -> ControlGroup {
        let dirs = self.roots.iter().map(|(controller, root)| (*controller, root.join(name))).collect();
        ControlGroup { layout: self.layout, dirs }
    }

    /// Removes every group that is not of one of these names. Their processes must be gone.
    pub fn sweep(&self, keep: &HashSet<&str>) {
        for (controller, root) in &self.roots {
            for group in groups_below(root) {
                if !group.file_name().and_then(OsStr::to_str).is_some_and(|name| keep.contains(name)) {
                    ControlGroup { layout: self.layout, dirs: vec![(*controller, group)] }.remove();
                }
            }
        }
    }

    /// Removes the home's own group, unless servers are left in it.
    pub fn close(&self) {
        for (_, root) in &self.roots {
            if remove(root) {
                // The one that homes share: another one may be using it.
                let _ = root.parent().map(fs::remove_dir);
            }
        }
    }

    /// A group below each of these, with the same controllers.
    fn below(mut self, name: &str) -> Result<ControlGroups, String> {
        for (_, root) in &mut self.roots {
            if self.layout == Layout::Two {
                delegate(root).map_err(|error| no_controllers(root, &error))?;
            }
            root.push(name);
            make(root).map_err(|error| format!("{} cannot be made ({error})", root.display()))?;
        }
        if self.layout == Layout::Two {
            for (_, root) in &self.roots {
                delegate(root).map_err(|error| no_controllers(root, &error))?;
            }
        }
        Ok(self)
    }
}

impl ControlGroup {
    /// Makes the group if it is not there, and limits it.
    ///
    /// # Errors
    /// The operating system's answer.
    pub fn make(&self, limits: GroupLimits) -> io::Result<()> {
        for (_, dir) in &self.dirs {
            make(dir)?;
        }
        self.limit(limits)
    }

    /// Limits a group that is there anew. What its processes have already is left to them.
    ///
    /// # Errors
    /// The operating system's answer, or that the group is not there.
    pub fn limit(&self, limits: GroupLimits) -> io::Result<()> {
        self.limit_memory(limits.memory)?;
        let weight = u64::from(limits.cpu_weight);
        for (controller, dir) in &self.dirs {
            if matches!(controller, Controller::Processes | Controller::Unified) {
                fs::write(dir.join("pids.max"), limits.processes.to_string())?;
            }
            match controller {
                Controller::Cpu => {
                    let shares = (weight * SHARES_DEFAULT / WEIGHT_DEFAULT).max(2);
                    fs::write(dir.join("cpu.shares"), shares.to_string())?;
                }
                // The processors' controller may not be delegated where the others are.
                Controller::Unified if dir.join("cpu.weight").exists() => {
                    fs::write(dir.join("cpu.weight"), weight.to_string())?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn limit_memory(&self, bytes: u64) -> io::Result<()> {
        for (controller, dir) in &self.dirs {
            match controller {
                Controller::Memory => {
                    // With swap, where that counts. The sum is never less than the one without: whichever of the two
                    // has to be set first, the other order fails.
                    let with_swap = dir.join("memory.memsw.limit_in_bytes");
                    let swap_first = with_swap.exists() && fs::write(&with_swap, bytes.to_string()).is_ok();
                    fs::write(dir.join("memory.limit_in_bytes"), bytes.to_string())?;
                    if with_swap.exists() && !swap_first {
                        fs::write(&with_swap, bytes.to_string())?;
                    }
                }
                Controller::Unified => {
                    fs::write(dir.join("memory.max"), bytes.to_string())?;
                    if dir.join("memory.swap.max").exists() {
                        fs::write(dir.join("memory.swap.max"), "0")?;
                    }
                }
                Controller::Processes | Controller::Cpu => {}
            }
        }
        Ok(())
    }

    /// Open files: a process that writes `0` to each of them enters the group. Who it is then does not matter, because
    /// the right to do so was looked at here.
    pub(crate) fn entries(&self) -> io::Result<Vec<fs::File>> {
        // A process that moves itself alone holds up no other one; it has one thread still.
        let name = if self.layout == Layout::One { "tasks" } else { "cgroup.procs" };
        let open = |dir: &Path| fs::OpenOptions::new().write(true).open(dir.join(name));
        self.dirs.iter().map(|(_, dir)| open(dir)).collect()
    }

    /// Who runs in it.
    pub(crate) fn processes(&self) -> io::Result<Vec<u32>> {
        let (_, dir) = self.dirs.first().ok_or(io::ErrorKind::NotFound)?;
        let text = fs::read_to_string(dir.join("cgroup.procs"))?;
        Ok(text.lines().filter_map(|line| line.trim().parse().ok()).collect())
    }

    /// How often the kernel ended a process of the group for lack of memory.
    #[must_use]
    pub fn killed_for_memory(&self) -> u64 {
        let count = |(controller, dir): &(Controller, PathBuf)| {
            let file = match controller {
                Controller::Memory => "memory.oom_control",
                Controller::Unified => "memory.events",
                Controller::Processes | Controller::Cpu => return None,
            };
            let text = fs::read_to_string(dir.join(file)).ok()?;
            text.lines().find_map(|line| line.strip_prefix("oom_kill "))?.trim().parse().ok()
        };
        self.dirs.iter().find_map(count).unwrap_or(0)
    }

    /// Removes the group. Its processes must be gone; one that does not go is swept at the next opening.
    pub fn remove(&self) {
        for (_, dir) in &self.dirs {
            if !remove(dir) {
                tracing::warn!(group = %dir.display(), "a group is left to the next start's sweep");
            }
        }
    }
}

fn groups_below(root: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().is_ok_and(|it| it.is_dir())).map(|entry| entry.path()).collect()
}

fn describe(layout: Layout) -> String {
    match layout {
        Layout::One => {
            "memory, processes and processors of each branch are limited by control groups (version 1)"
        }
        Layout::Two => {
            "memory, processes and processors of each branch are limited by control groups (version 2)"
        }
    }
    .to_owned()
}

fn make(dir: &Path) -> io::Result<()> {
    match fs::create_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// Whether it is gone.
fn remove(dir: &Path) -> bool {
    for _ in 0..REMOVE_TRIES {
        match fs::remove_dir(dir) {
            Err(error) if Errno::from_io_error(&error) == Some(Errno::BUSY) => thread::sleep(REMOVE_PAUSE),
            Err(error) => return error.kind() == io::ErrorKind::NotFound,
            Ok(()) => return true,
        }
    }
    false
}

/// The roots of the controllers of version 1, if memory and processes are among them.
fn one_by_one(mounts: &str) -> Option<Vec<(Controller, PathBuf)>> {
    let find = |controller: &str| {
        mounts.lines().find_map(|line| {
            let (mount, file_system) = line.split_once(" - ")?;
            let mut fields = file_system.split(' ');
            let is_one = fields.next()? == "cgroup";
            let has_it = fields.nth(1)?.split(',').any(|option| option == controller);
            (is_one && has_it).then(|| PathBuf::from(mount.split(' ').nth(4).unwrap_or_default()))
        })
    };
    let mut roots = vec![(Controller::Memory, find("memory")?), (Controller::Processes, find("pids")?)];
    roots.extend(find("cpu").map(|root| (Controller::Cpu, root)));
    Some(roots)
}

/// The group of this process in the one tree of version 2, without the part that a daemon moves itself to, or that systemd
/// keeps for other commands of its unit.
fn own_group(mounts: &str) -> Result<PathBuf, String> {
    let mount = mounts
        .lines()
        .find(|line| line.contains(" - cgroup2 "))
        .and_then(|line| line.split(' ').nth(4))
        .ok_or("no control groups are mounted")?;
    let own = fs::read_to_string("/proc/self/cgroup").map_err(|error| error.to_string())?;
    let path = own.lines().find_map(|line| line.strip_prefix("0::")).ok_or("this process is in no group")?;
    let mut group = PathBuf::from(format!("{mount}{}", path.trim_end_matches('/')));
    if group.ends_with(DAEMON_GROUP) || group.ends_with(CONTROL_GROUP) {
        group.pop();
    }
    let controllers = fs::read_to_string(group.join("cgroup.controllers")).unwrap_or_default();
    let has = |name: &str| controllers.split_whitespace().any(|controller| controller == name);
    if has("memory") && has("pids") {
        return Ok(group);
    }
    Err(format!("the controllers of memory and processes are not delegated to {}", group.display()))
}

/// The daemon's own group, if groups with limits can be made in it: it moves out of it first where it has to.
fn delegated(mounts: &str) -> Result<PathBuf, String> {
    let group = own_group(mounts)?;
    if delegate(&group).is_ok() {
        return Ok(group);
    }
    let daemon = group.join(DAEMON_GROUP);
    let pid = getpid().as_raw_nonzero().to_string();
    let moved = make(&daemon)
        .and_then(|()| fs::write(daemon.join("cgroup.procs"), &pid))
        .and_then(|()| delegate(&group));
    moved.map(|()| group.clone()).map_err(|error| {
        let _ = fs::write(group.join("cgroup.procs"), &pid);
        let _ = fs::remove_dir(&daemon);
        no_controllers(&group, &error)
    })
}

/// Has groups below `group` limited by its controllers.
fn delegate(group: &Path) -> io::Result<()> {
    let file = group.join("cgroup.subtree_control");
    let on = fs::read_to_string(&file)?;
    let has = |name: &str| on.split_whitespace().any(|controller| controller == name);
    if !(has("memory") && has("pids")) {
        fs::write(&file, "+memory +pids")?;
    }
    if !has("cpu") {
        // It is not delegated everywhere.
        let _ = fs::write(&file, "+cpu");
    }
    Ok(())
}

/// Ends the use of all controllers in groups below this one. A controller can only be let go of from below.
fn undivide(group: &Path) -> io::Result<bool> {
    for below in groups_below(group) {
        undivide(&below)?;
    }
    let file = group.join("cgroup.subtree_control");
    let on = fs::read_to_string(&file)?;
    let off: Vec<String> = on.split_whitespace().map(|controller| format!("-{controller}")).collect();
    if off.is_empty() {
        return Ok(false);
    }
    fs::write(&file, off.join(" "))?;
    Ok(true)
}

fn no_controllers(group: &Path, error: &io::Error) -> String {
    let why = match Errno::from_io_error(error) {
        Some(Errno::BUSY) => "other processes than the daemon are in it".to_owned(),
        _ => error.to_string(),
    };
    format!("the controllers of {} cannot be used for groups below it ({why})", group.display())
}

/// The machine's memory, in bytes.
#[must_use]
pub fn memory_total() -> Option<u64> {
    memory_line("MemTotal:")
}

/// The memory that programs can still take, in bytes.
#[must_use]
pub fn memory_available() -> Option<u64> {
    memory_line("MemAvailable:")
}

fn memory_line(name: &str) -> Option<u64> {
    let table = fs::read_to_string("/proc/meminfo").ok()?;
    let rest = table.lines().find_map(|line| line.strip_prefix(name))?;
    Some(rest.trim().trim_end_matches(" kB").parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
#[path = "../tests/unit/control_group.rs"]
mod tests;
