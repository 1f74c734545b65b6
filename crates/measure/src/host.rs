//! The machine that a measurement was made on: a figure without it cannot be compared with another.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use duramen_base::clock;

/// How many syncs the fsync floor is the median of, if they fit into [`FLOOR_LIMIT`].
const FLOOR_SYNCS: usize = 50;
/// No measurement of the fsync floor takes longer than this and the sync that was under way.
const FLOOR_LIMIT: Duration = Duration::from_secs(2);
const FLOOR_BYTES: usize = 4096;

/// What can keep a host from being described.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// A file of the kernel could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file of the kernel did not say what it should.
    #[error("{} does not tell {what}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What was looked for.
        what: &'static str,
    },
    /// The fsync floor could not be measured in the folder.
    #[error("cannot measure the fsync floor in {}: {source}; name a folder that can be written", path.display())]
    Floor {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// The machine's fingerprint, as an evidence document holds it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// The processor's model name, or its architecture where the kernel tells none.
    pub cpu: String,
    /// How many threads this process can run at once (its CPU affinity and quota considered).
    pub cores: usize,
    /// The machine's memory in bytes.
    pub memory_bytes: u64,
    /// The kernel's name, release and architecture.
    pub kernel: String,
    /// The type of the file system that holds the measured folder, for example `ext4`.
    pub file_system: String,
    /// The load average over 1, 5 and 15 minutes.
    pub load_average: [f64; 3],
    /// What one durable append costs at least: the median of 50 appends of 4 KiB, each with `fdatasync`, in the
    /// measured folder, in microseconds. A commit that is faster than this was not made durable.
    pub fsync_floor_us: f64,
}

impl Host {
    /// What of it makes the machine.
    #[must_use]
    pub fn machine(&self) -> Machine {
        Machine { cpu: self.cpu.clone(), cores: self.cores, memory_bytes: self.memory_bytes }
    }

    /// Describes this machine and measures the fsync floor in `dir` now, which takes 2 seconds at most.
    ///
    /// # Errors
    /// When the kernel's files do not tell, or `dir` cannot be written.
    ///
    /// ```
    /// let host = duramen_measure::host::Host::fingerprint(&std::env::temp_dir())?;
    /// assert!(host.cores >= 1 && host.memory_bytes > 0);
    /// # Ok::<(), duramen_measure::host::HostError>(())
    /// ```
    pub fn fingerprint(dir: &Path) -> Result<Self, HostError> {
        let uname = rustix::system::uname();
        let word = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
        let machine = word(uname.machine());
        // The load is read before the syncs, which would otherwise count themselves.
        let load_average = load_average()?;
        Ok(Self {
            cpu: cpu_model(&machine)?,
            cores: cores(),
            memory_bytes: memory_bytes()?,
            kernel: format!("{} {} {machine}", word(uname.sysname()), word(uname.release())),
            file_system: file_system(dir)?,
            load_average,
            fsync_floor_us: fsync_floor(dir)
                .map_err(|source| HostError::Floor { path: dir.to_owned(), source })?
                .as_secs_f64()
                * 1e6,
        })
    }
}

/// What makes a machine the same one over time: neither its kernel nor what it is busy with.
///
/// ```
/// use duramen_measure::host::Machine;
///
/// let machine = Machine { cpu: "A processor".to_owned(), cores: 2, memory_bytes: 25_000_000_000 };
/// let kernel_takes_more = Machine { memory_bytes: 24_900_000_000, ..machine.clone() };
/// assert_eq!(machine.memory_gib(), kernel_takes_more.memory_gib());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// See [`Host::cpu`].
    pub cpu: String,
    /// See [`Host::cores`].
    pub cores: usize,
    /// See [`Host::memory_bytes`].
    pub memory_bytes: u64,
}

impl Machine {
    /// This machine. Unlike [`Host::fingerprint`] it takes no time and needs no folder.
    ///
    /// # Errors
    /// When the kernel's files do not tell.
    pub fn this() -> Result<Self, HostError> {
        let machine = rustix::system::uname().machine().to_string_lossy().into_owned();
        Ok(Self { cpu: cpu_model(&machine)?, cores: cores(), memory_bytes: memory_bytes()? })
    }

    /// The memory in whole GiB, rounded up: of the memory that is built in, each kernel keeps a little for itself, and
    /// not each the same.
    #[must_use]
    pub fn memory_gib(&self) -> u64 {
        self.memory_bytes.div_ceil(1 << 30)
    }
}

/// Measures the fsync floor of a folder: see [`Host::fsync_floor_us`]. Leaves nothing behind.
///
/// # Errors
/// When a file cannot be made, written or synced in `dir`.
pub fn fsync_floor(dir: &Path) -> io::Result<Duration> {
    // A file with a name, because some file systems sync a nameless one without any work.
    let mut file = tempfile::Builder::new().prefix(".fsync-floor-").tempfile_in(dir)?;
    let page = [0x5a; FLOOR_BYTES];
    let mut took = Vec::with_capacity(FLOOR_SYNCS);
    let begin = clock::now();
    while took.len() < FLOOR_SYNCS && (took.is_empty() || begin.elapsed() < FLOOR_LIMIT) {
        let sync = clock::now();
        file.write_all(&page)?;
        file.as_file().sync_data()?;
        took.push(sync.elapsed());
    }
    took.sort_unstable();
    file.close()?;
    Ok(took[took.len() / 2])
}

/// The type of the file system that holds `dir`, as the kernel's table of mounts names it.
///
/// # Errors
/// When `dir` does not exist or the table cannot be read.
pub fn file_system(dir: &Path) -> Result<String, HostError> {
    let dir = fs::canonicalize(dir).map_err(|source| HostError::Read { path: dir.to_owned(), source })?;
    let table = PathBuf::from("/proc/self/mountinfo");
    file_system_in(&read(&table)?, &dir)
        .ok_or(HostError::Malformed { path: table, what: "the file system of the measured folder" })
}

/// Looks a canonical folder up in the text of a `mountinfo` (proc_pid_mountinfo(5)): the longest mount point that
/// contains it counts and, of mounts on the same point, the last, which covers the others.
///
/// ```
/// let table = "22 1 8:1 / / rw - ext4 /dev/a rw\n30 22 0:9 / /srv/a\\040b rw - tmpfs none rw\n";
/// let of = |dir: &str| duramen_measure::host::file_system_in(table, dir.as_ref());
/// assert_eq!(of("/srv/a b/c").as_deref(), Some("tmpfs"));
/// assert_eq!(of("/srv").as_deref(), Some("ext4"));
/// ```
pub fn file_system_in(mountinfo: &str, dir: &Path) -> Option<String> {
    let mounts = mountinfo.lines().filter_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        let point = PathBuf::from(unescape_octal(left.split(' ').nth(4)?));
        let kind = right.split(' ').next()?;
        dir.starts_with(&point).then(|| (point.components().count(), kind))
    });
    // `max_by_key` returns the last of equal ones.
    mounts.max_by_key(|(depth, _)| *depth).map(|(_, kind)| kind.to_owned())
}

/// The kernel writes space, tab, newline and backslash as `\` and three octal digits.
fn unescape_octal(text: &str) -> String {
    let mut plain = Vec::with_capacity(text.len());
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let digits = text.get(at + 1..at + 4).filter(|_| bytes[at] == b'\\');
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                plain.push(byte);
                at += 4;
            }
            None => {
                plain.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&plain).into_owned()
}

fn cpu_model(machine: &str) -> Result<String, HostError> {
    let text = read(Path::new("/proc/cpuinfo"))?;
    let model = text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == "model name").then(|| value.trim().to_owned())
    });
    Ok(model.unwrap_or_else(|| machine.to_owned()))
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn memory_bytes() -> Result<u64, HostError> {
    let path = Path::new("/proc/meminfo");
    let text = read(path)?;
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = total.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.map(|kib| kib * 1024)
        .ok_or_else(|| HostError::Malformed { path: path.to_owned(), what: "the total memory" })
}

fn load_average() -> Result<[f64; 3], HostError> {
    let path = Path::new("/proc/loadavg");
    let text = read(path)?;
    let mut figures = text.split(' ').map(|figure| figure.parse().ok());
    let mut next = || figures.next().flatten();
    match (next(), next(), next()) {
        (Some(one), Some(five), Some(fifteen)) => Ok([one, five, fifteen]),
        _ => Err(HostError::Malformed { path: path.to_owned(), what: "the load average" }),
    }
}

fn read(path: &Path) -> Result<String, HostError> {
    let bytes = fs::read(path).map_err(|source| HostError::Read { path: path.to_owned(), source })?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
