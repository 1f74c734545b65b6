//! One engine at one size, in a process of its own.

use std::fs::File;
use std::path::{Path, PathBuf};

use duramen_base::clock;
use duramen_measure::process;
use serde::{Deserialize, Serialize};

use super::engine::EngineName;
use super::workload::{Workload, PRINCIPAL_TYPE, RESOURCE, RESOURCE_TYPE, SEEN_SECONDS};
use duramen_reports::suite::{Cause, SuiteError};

/// How many grants are put one by one.
const PUTS: usize = 2_000;
/// Writes and reads are repeated up to so many times, or so many rows in all.
const REPEATS: usize = 20;
const REPEATED_ROWS: usize = 200_000;

/// What a process of the suite is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// With which engine.
    pub engine: EngineName,
    /// With how many grants.
    pub grants: usize,
}

impl std::str::FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (engine, grants) = text.split_once(':').ok_or("a part is ENGINE:GRANTS")?;
        Ok(Part { engine: engine.parse()?, grants: grants.parse().map_err(|_| "a part is ENGINE:GRANTS")? })
    }
}

impl std::fmt::Display for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.engine.name(), self.grants)
    }
}

/// What came out of a part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// From open to closed file, in milliseconds.
    pub write_ms: Vec<f64>,
    /// The same in processor time.
    pub write_cpu_ms: Vec<f64>,
    /// Calls of the allocator in one write; none when they are not counted, which another process does.
    pub allocs: Option<f64>,
    /// The most memory that the process had after its first write, the rows of the caller included, in bytes.
    pub peak_rss_bytes: f64,
    /// The file.
    pub file_bytes: f64,
    /// Open, all rows in pages, close, in milliseconds.
    pub read_ms: Vec<f64>,
    /// The same in processor time.
    pub read_cpu_ms: Vec<f64>,
    /// Open with the file out of the cache, and the grants of one user, in microseconds.
    pub lookup_us: Vec<f64>,
    /// One put into the whole, in microseconds.
    pub put_one_us: Vec<f64>,
    /// Rows that were read and are, field by field, rows that were written; each is counted once.
    pub rows_equal: u64,
    /// Rows that were read.
    pub rows_read: u64,
    /// Lookups that returned another number of rows than the user has.
    pub wrong_lookups: u64,
}

impl Part {
    /// A name that no other process of the suite uses.
    fn file(self, dir: &Path) -> PathBuf {
        dir.join(format!("{}-{}.{}", self.engine.name(), self.grants, duramen_base::entropy::token(8)))
    }

    /// How many writes come before those that are measured: below some milliseconds the first one pays for pages and
    /// code that the others find.
    fn unmeasured(self) -> usize {
        usize::from(self.grants <= 100_000)
    }
}

/// How many calls of the allocator one write of a part takes. `calls` returns how many there were in this process.
///
/// # Errors
/// When the engine or the file system fails.
pub fn count_allocations(part: Part, dir: &Path, calls: impl Fn() -> u64) -> Result<u64, SuiteError> {
    let engine = part.engine.engine();
    let workload = Workload::new(part.grants);
    let path = part.file(dir);
    for _ in 0..part.unmeasured() {
        engine.write(&path, &workload).map_err(SuiteError::other)?;
        remove(&path);
    }
    let before = calls();
    engine.write(&path, &workload).map_err(SuiteError::other)?;
    let counted = calls() - before;
    remove(&path);
    Ok(counted)
}

/// Runs a part in a folder, and removes what it wrote.
///
/// # Errors
/// When the engine or the file system fails.
pub fn run_part(part: Part, dir: &Path) -> Result<Figures, SuiteError> {
    let engine = part.engine.engine();
    let workload = Workload::new(part.grants);
    let path = part.file(dir);
    let mut figures = Figures::default();
    let repeats = (REPEATED_ROWS / part.grants.max(1)).clamp(1, REPEATS);
    let unmeasured = part.unmeasured();
    for repeat in 0..repeats + unmeasured {
        remove(&path);
        let (begin, cpu) = (clock::now(), process::self_cpu_time());
        engine.write(&path, &workload).map_err(failed)?;
        let cpu = process::self_cpu_time() - cpu;
        let wall = begin.elapsed();
        if repeat == 0 {
            figures.peak_rss_bytes = peak_rss()? as f64;
        }
        if repeat >= unmeasured {
            figures.write_ms.push(clock::ms(wall));
            figures.write_cpu_ms.push(clock::ms(cpu));
        }
    }
    figures.file_bytes = std::fs::metadata(&path).map_err(SuiteError::file("look at", &path))?.len() as f64;
    check_rows(&*engine, &path, &workload, &mut figures)?;
    for _ in 0..repeats {
        let (begin, cpu) = (clock::now(), process::self_cpu_time());
        let mut bytes = 0;
        engine
            .read(&path, &mut |row| {
                let text = [
                    row.id,
                    row.entitlement,
                    row.resource_type,
                    row.resource,
                    row.principal_type,
                    row.principal,
                ];
                bytes += text.iter().map(|text| text.len()).sum::<usize>() + row.seen_seconds as usize % 2;
            })
            .map_err(failed)?;
        std::hint::black_box(bytes);
        figures.read_cpu_ms.push(clock::ms(process::self_cpu_time() - cpu));
        figures.read_ms.push(clock::ms(begin.elapsed()));
    }
    for number in 0..engine.lookups() {
        let user = number * 7919 % workload.users();
        let expected = workload.len().min((user + 1) * 100) - user * 100;
        forget(&path)?;
        let begin = clock::now();
        let found = engine.lookup(&path, workload.user(user)).map_err(failed)?;
        figures.lookup_us.push(clock::ms(begin.elapsed()) * 1e3);
        figures.wrong_lookups += u64::from(found != expected);
    }
    let ids: Vec<(String, String)> = (0..PUTS)
        .map(|number| {
            let user = format!("user-9{number:07}");
            (format!("app:github:entitlement-0001:{PRINCIPAL_TYPE}:{user}"), user)
        })
        .collect();
    engine
        .put(&path, &ids, &mut |put| {
            let begin = clock::now();
            put();
            figures.put_one_us.push(clock::ms(begin.elapsed()) * 1e3);
        })
        .map_err(failed)?;
    remove(&path);
    Ok(figures)
}

/// Every row that was written is read once, with all its fields.
fn check_rows(
    engine: &dyn super::engine::Engine,
    path: &Path,
    workload: &Workload,
    figures: &mut Figures,
) -> Result<(), SuiteError> {
    let mut seen = vec![false; workload.len()];
    engine
        .read(path, &mut |row| {
            figures.rows_read += 1;
            let Some(at) = workload.place(row.id) else { return };
            let written = workload.row(at);
            let same = (row.entitlement, row.principal) == (written.entitlement, written.user)
                && (row.resource_type, row.resource) == (RESOURCE_TYPE, RESOURCE)
                && (row.principal_type, row.seen_seconds) == (PRINCIPAL_TYPE, SEEN_SECONDS);
            if same && !std::mem::replace(&mut seen[at], true) {
                figures.rows_equal += 1;
            }
        })
        .map_err(failed)
}

/// What an engine said; that of SQLite does not say whose it is.
fn failed(cause: Cause) -> SuiteError {
    let other = match cause.downcast::<rusqlite::Error>() {
        Ok(error) => return SuiteError::Failed(format!("SQLite: {error}")),
        Err(other) => other,
    };
    other.downcast::<SuiteError>().map_or_else(SuiteError::Other, |error| *error)
}

/// Removes a file and what an engine keeps beside it.
fn remove(path: &Path) {
    for suffix in ["", ".journal", "-wal", "-shm", "-journal"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        // It need not be there.
        let _ = std::fs::remove_file(name);
    }
}

/// Puts a file out of the cache of the operating system, as far as that obeys.
fn forget(path: &Path) -> Result<(), SuiteError> {
    let file = File::open(path).map_err(SuiteError::file("open", path))?;
    let forgotten = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
    forgotten.map_err(|error| SuiteError::file("forget", path)(error.into()))
}

/// The most memory that this process ever had, in bytes.
fn peak_rss() -> Result<u64, SuiteError> {
    let path = Path::new("/proc/self/status");
    let text = std::fs::read_to_string(path).map_err(SuiteError::file("read", path))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    Ok(kib.unwrap_or(0) * 1024)
}
