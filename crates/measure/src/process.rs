//! What processes cost: CPU time and memory, as the kernel counts them (proc(5)).

use std::collections::HashMap;
use std::fs;
use std::io;
use std::time::Duration;

use tokio::signal::unix::{signal, SignalKind};

/// The CPU time that a process has used since it began, user and system together.
///
/// Read from the scheduler's count of each thread (`/proc/PID/task/TID/schedstat`), to the nanosecond. The time of
/// threads that have ended is known to the kernel's clock tick (10 ms) only; where that count is the greater of the
/// two, it is returned.
///
/// # Errors
/// When there is no such process or its files do not tell.
///
/// ```standalone_crate
/// let before = duramen_measure::process::cpu_time(std::process::id())?;
/// // The kernel counts at its ticks and when a thread makes room for another.
/// std::thread::sleep(std::time::Duration::from_millis(20));
/// let used = duramen_measure::process::cpu_time(std::process::id())?;
/// assert!(used >= before && used > std::time::Duration::ZERO);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn cpu_time(pid: u32) -> io::Result<Duration> {
    let mut precise = Duration::ZERO;
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        // A thread may end between being listed and being read; what it used is then in the coarse count.
        if let Ok(text) = fs::read_to_string(task?.path().join("schedstat")) {
            precise += schedstat_running(&text).ok_or_else(|| malformed("schedstat"))?;
        }
    }
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let ticks = Stat::parse(&stat).ok_or_else(|| malformed("stat"))?.ticks;
    let coarse = Duration::from_secs(ticks).div_f64(rustix::param::clock_ticks_per_second().max(1) as f64);
    Ok(precise.max(coarse))
}

/// The CPU time that this process has used, of all its threads, ended ones too, to the nanosecond.
pub fn self_cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// The memory of a process in bytes, each shared page divided by the number of processes that share it
/// (proportional set size). The sums over processes are therefore meaningful, unlike those of the resident size.
///
/// # Errors
/// When there is no such process, it may not be looked into, or it has no memory of its own.
pub fn pss_bytes(pid: u32) -> io::Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
    let kib = line.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.map(|kib| kib * 1024).ok_or_else(|| malformed("smaps_rollup"))
}

/// The processes that a process started and that have not ended, in the order of their ids.
pub fn children(pid: u32) -> Vec<u32> {
    let mut found = listed_children(pid).unwrap_or_else(|| parents().remove(&pid).unwrap_or_default());
    found.sort_unstable();
    found
}

/// The kernel's own list, where it keeps one: reading it costs a hundredth of looking through all processes.
fn listed_children(pid: u32) -> Option<Vec<u32>> {
    let mut found = Vec::new();
    for task in fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten() {
        let text = fs::read_to_string(task.path().join("children")).ok()?;
        found.extend(text.split_whitespace().filter_map(|word| word.parse::<u32>().ok()));
    }
    Some(found)
}

/// All processes below a process (its children, theirs, and so on), parents before their children, without itself.
///
/// Processes whose parent has ended belong to another one by then and are not found.
pub fn tree(pid: u32) -> Vec<u32> {
    let mut found = children(pid);
    let mut at = 0;
    // A reused id could close a circle, but ids are finite and each is looked at once.
    while at < found.len() {
        let below: Vec<u32> =
            children(found[at]).into_iter().filter(|child| !found.contains(child)).collect();
        found.extend(below);
        at += 1;
    }
    found
}

/// The children of every process, by the id of the parent.
fn parents() -> HashMap<u32, Vec<u32>> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // Processes come and go while the folder is read.
        let Ok(text) = fs::read(entry.path().join("stat")) else { continue };
        if let Some(stat) = Stat::parse(&String::from_utf8_lossy(&text)) {
            children.entry(stat.parent).or_default().push(pid);
        }
    }
    children.values_mut().for_each(|pids| pids.sort_unstable());
    children
}

/// What is needed of `/proc/PID/stat`.
struct Stat {
    parent: u32,
    /// User and system time in clock ticks.
    ticks: u64,
}

impl Stat {
    /// The program's name stands in brackets and may contain both spaces and brackets, so fields are counted from
    /// the last closing one: state, parent, ..., user time (14th of the line), system time (15th).
    fn parse(text: &str) -> Option<Self> {
        let (_, rest) = text.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let ticks = |index: usize| fields.get(index)?.parse::<u64>().ok();
        Some(Self { parent: fields.get(1)?.parse().ok()?, ticks: ticks(11)? + ticks(12)? })
    }
}

/// The first number of a `schedstat` is the time spent running, in nanoseconds.
fn schedstat_running(text: &str) -> Option<Duration> {
    text.split_ascii_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the kernel's {what} has an unknown form"))
}

/// Ends when somebody asks this process to end.
pub async fn interrupted() {
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        // Without handlers a signal ends the process, and the guardian of its folder clears up.
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}
