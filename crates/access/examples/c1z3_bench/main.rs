//! Reads or writes a version 3 `.c1z` file and says what that cost, as lines `METRIC name=value` for
//! `duramen lab experiment`:
//! `cargo run --release -p duramen-pack --example c1z3_bench -- read 200000`
//!
//! ```text
//! c1z3_bench read|write GRANTS [unique|varied|irregular]
//! c1z3_bench make GRANTS unique|varied|irregular FILE
//! C1Z3_BENCH_FILES=FOLDER c1z3_bench read GRANTS [unique|varied|irregular]
//! c1z3_bench open FILE
//! c1z3_bench principal FILE TYPE:ID
//! c1z3_bench expand FILE
//! ```
//!
//! `open` reads all grants of a file of any tool five times. `principal` opens a file and reads the grants of one principal,
//! 21 times; the peak is that of the first time, and a walk over all grants has to find the same. `expand` reads one, visits all that follows from its grants, and
//! says how many there are, what processor time that took, and the most memory.
//!
//! | figure | meaning |
//! | --- | --- |
//! | `read_cpu_s`, `write_cpu_s` | processor time of one operation, all threads; median of repetitions |
//! | `read_cpu_min_s`, `write_cpu_min_s` | the least of the repetitions: least disturbed by other work |
//! | `read_wall_s`, `write_wall_s` | the median by the clock |
//! | `rows` | rows that came out of the file, which are those that were put: otherwise the program fails |
//! | `digest` | of all fields of all rows, in any order |
//! | `file_bytes` | the file |
//! | `peak_bytes` | the most memory of the process that did it; to write, with the rows of the caller |
//! | `sentinel_s` | hashing and decompressing in dependencies, taken in turns with the repetitions |
//!
//! The file is made by a process of its own, so that its memory is not in the peak of reading. In a folder that the
//! environment names it is kept for the next run, which is over in a tenth of a second then: short enough that two runs
//! interleaved see the machine at the same pace.

mod workload;

use std::error::Error;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Command;

use duramen_access::c1z::{C1z3, C1z3Writer, ReadOptions, WriteOptions};
use duramen_access::expand::Effective;
use duramen_access::graph::{GrantRef, GrantScope, GraphSink, GraphSource, ResourceId, Sync};
use duramen_base::{clock, entropy};
use duramen_measure::process;
use workload::{Kind, Sum, Workload, SEEN};
use xxhash_rust::xxh64::xxh64;

const USAGE: &str = "usage: c1z3_bench read|write GRANTS [unique|varied|irregular]";

const SYNC: &str = "2aGyRUbxAdE4MTzLqMxgsT1HNjq";

/// Operations are repeated until about so many rows were read, or written; at most `REPEATS_MAX` times.
const READ_ROWS: usize = 400_000;
const WRITTEN_ROWS: usize = 400_000;
const REPEATS_MAX: usize = 200;

/// The grants of one principal are read so often.
const ONE_PRINCIPAL_ROUNDS: usize = 21;

/// The sentinel is taken at least so often.
const SENTINELS_MIN: usize = 8;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [operation, path] = arguments.as_slice() {
        match operation.as_str() {
            "open" => return open(Path::new(path)),
            "expand" => return expand(Path::new(path)),
            _ => {}
        }
    }
    if let [operation, path, principal] = arguments.as_slice() {
        if operation == "principal" {
            return of_principal(Path::new(path), principal);
        }
    }
    let [operation, grants, rest @ ..] = arguments.as_slice() else { return Err(USAGE.into()) };
    let grants: usize = grants.parse().map_err(|_| USAGE)?;
    let (kind, rest) = match rest {
        [] => (Kind::Unique, rest),
        [kind, rest @ ..] => (kind.parse()?, rest),
    };
    match (operation.as_str(), rest) {
        ("read", []) => read(grants, kind),
        ("write", []) => write(grants, kind),
        // What the program asks of itself.
        ("make", [path]) => {
            let workload = Workload::new(grants, kind);
            write_file(Path::new(path), &workload)?;
            println!("{}", workload.sum().digest());
            Ok(())
        }
        _ => Err(USAGE.into()),
    }
}

fn read(grants: usize, kind: Kind) -> Outcome<()> {
    let dir = tempfile::tempdir()?;
    let kept = std::env::var_os("C1Z3_BENCH_FILES").map(PathBuf::from);
    let folder = kept.as_deref().unwrap_or(dir.path());
    std::fs::create_dir_all(folder)?;
    let path = folder.join(format!("{}-{grants}.c1z", kind.name()));
    let digest = path.with_extension("digest");
    if !digest.exists() {
        let made = Command::new(std::env::current_exe()?)
            .args(["make", &grants.to_string(), kind.name()])
            .arg(&path)
            .output()?;
        if !made.status.success() {
            return Err(format!("making the file failed: {}", String::from_utf8_lossy(&made.stderr)).into());
        }
        // Written last: where it is, the file is whole.
        std::fs::write(&digest, made.stdout)?;
    }
    let put: u64 = std::fs::read_to_string(&digest)?.trim().parse()?;
    let found = check(&path, grants, put)?;
    let mut taken = Taken::default();
    let repeats = (READ_ROWS / grants.max(1)).clamp(1, REPEATS_MAX);
    // The check was a read already: nothing has to be warmed up.
    for _ in 0..repeats {
        taken.sentinel()?;
        let mut seen = Touched::default();
        taken.time(|| each(&path, &mut |grant| seen.touch(&grant)))?;
        if seen != found.touched {
            return Err(format!("the same file gave {seen:?} and {:?}", found.touched).into());
        }
    }
    taken.print("read", &path, &found.sum)
}

fn open(path: &Path) -> Outcome<()> {
    let mut taken = Taken::default();
    let mut found = Found { sum: Sum::default(), touched: Touched::default() };
    each(path, &mut |grant| found.sum.add(&grant))?;
    for _ in 0..5 {
        taken.sentinel()?;
        found.touched = Touched::default();
        taken.time(|| each(path, &mut |grant| found.touched.touch(&grant)))?;
    }
    println!("METRIC rows={}", found.touched.rows);
    taken.print("read", path, &found.sum)
}

/// Opens a file and reads the grants of one principal, each time anew.
fn of_principal(path: &Path, principal: &str) -> Outcome<()> {
    let (kind, name) = principal.split_once(':').ok_or("a principal is TYPE:ID")?;
    let id = ResourceId::new(kind, name);
    let read = |visit: &mut dyn FnMut(GrantRef<'_>)| -> Outcome<()> {
        let file = C1z3::open(path, &ReadOptions::default())?;
        let sync = file.syncs()?.pop().ok_or("no sync")?;
        file.for_each_grant_of(&sync.id, GrantScope::Principal(&id), &mut |grant| {
            visit(grant);
            ControlFlow::Continue(())
        })?;
        Ok(())
    };
    let mut taken = Taken::default();
    let mut sum = Sum::default();
    for round in 0..ONE_PRINCIPAL_ROUNDS {
        let mut found = Sum::default();
        taken.time(|| read(&mut |grant| found.add(&grant)))?;
        if round == 0 {
            taken.peak = peak_bytes()?;
        }
        sum = found;
    }
    // By a walk over all grants it is the same.
    let mut walked = Sum::default();
    each(path, &mut |grant| {
        if GrantScope::Principal(&id).is_of(&grant) {
            walked.add(&grant);
        }
    })?;
    if (walked.rows(), walked.digest()) != (sum.rows(), sum.digest()) {
        return Err(
            format!("by the index there are {} grants, by a walk {}", sum.rows(), walked.rows()).into()
        );
    }
    taken.print("principal", path, &sum)
}

fn expand(path: &Path) -> Outcome<()> {
    let before = process::self_cpu_time();
    let file = C1z3::open(path, &ReadOptions::default())?;
    let sync = file.syncs()?.pop().ok_or("no sync")?;
    let effective = Effective::load(&file, &sync.id)?;
    let mut rows = 0_u64;
    effective.for_each(&mut |_| {
        rows += 1;
        ControlFlow::Continue(())
    });
    let taken = process::self_cpu_time() - before;
    println!(
        "duramen: {rows} grants after the expansion, {:.2} s of processor time for it",
        taken.as_secs_f64()
    );
    println!(
        "METRIC rows={rows}\nMETRIC expand_cpu_s={:.3}\nMETRIC peak_bytes={}",
        taken.as_secs_f64(),
        peak_bytes()?
    );
    Ok(())
}

fn write(grants: usize, kind: Kind) -> Outcome<()> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("write.c1z");
    let workload = Workload::new(grants, kind);
    let mut taken = Taken::default();
    let repeats = (WRITTEN_ROWS / grants.max(1)).clamp(1, REPEATS_MAX);
    if repeats > 1 {
        write_file(&path, &workload)?;
    }
    for _ in 0..repeats {
        taken.sentinel()?;
        taken.time(|| write_file(&path, &workload))?;
    }
    taken.peak = peak_bytes()?;
    let found = check(&path, grants, workload.sum().digest())?;
    taken.print("write", &path, &found.sum)
}

fn write_file(path: &Path, workload: &Workload) -> Outcome<()> {
    let mut writer = C1z3Writer::create(path, &WriteOptions::default())?;
    let id = SYNC.to_owned();
    writer.begin_sync(&Sync { id, started_at: SEEN, ended_at: Some(SEEN), ..Sync::default() })?;
    workload.each(&mut |grant| writer.put_grant(grant))?;
    writer.end_sync()?;
    writer.finish()?;
    Ok(())
}

fn each(path: &Path, visit: &mut dyn FnMut(GrantRef<'_>)) -> Outcome<()> {
    let file = C1z3::open(path, &ReadOptions::default())?;
    let sync = file.syncs()?.into_iter().next().ok_or("the file has no sync")?;
    file.for_each_grant_ref(&sync.id, &mut |grant| {
        visit(grant);
        ControlFlow::Continue(())
    })?;
    Ok(())
}

/// What a timed read does with a row: it looks at each field, and little more.
#[derive(Debug, Default, PartialEq)]
struct Touched {
    rows: usize,
    sum: u64,
}

impl Touched {
    #[inline]
    fn touch(&mut self, grant: &GrantRef<'_>) {
        self.rows += 1;
        let texts = [grant.id, grant.entitlement, grant.resource_type, grant.resource, grant.principal_type];
        for text in texts.into_iter().chain([grant.principal]) {
            let last = text.as_bytes().last().copied().unwrap_or(0);
            self.sum =
                self.sum.wrapping_mul(31).wrapping_add(text.len() as u64).wrapping_add(u64::from(last));
        }
        self.sum ^= grant.discovered_at.map_or(0, |time| time.seconds as u64);
        self.sum += grant.rest.map_or(0, |rest| rest.sources.len() as u64);
    }
}

struct Found {
    sum: Sum,
    touched: Touched,
}

/// Reads the file with all its fields, and holds them against those that were put.
fn check(path: &Path, grants: usize, put: u64) -> Outcome<Found> {
    let mut found = Found { sum: Sum::default(), touched: Touched::default() };
    each(path, &mut |grant| {
        found.sum.add(&grant);
        found.touched.touch(&grant);
    })?;
    let (rows, digest) = (found.touched.rows, found.sum.digest());
    if (rows, digest) != (grants, put) {
        let put = format!("{grants} rows with the digest {put}");
        return Err(format!("put were {put}, and read {rows} with {digest}").into());
    }
    Ok(found)
}

/// The figures of all repetitions, in seconds.
#[derive(Default)]
struct Taken {
    cpu: Vec<f64>,
    wall: Vec<f64>,
    sentinel: Vec<f64>,
    packed: Vec<u8>,
    peak: u64,
}

impl Taken {
    fn time(&mut self, operation: impl FnOnce() -> Outcome<()>) -> Outcome<()> {
        let (begin, cpu) = (clock::now(), process::self_cpu_time());
        operation()?;
        self.cpu.push((process::self_cpu_time() - cpu).as_secs_f64());
        self.wall.push(begin.elapsed().as_secs_f64());
        Ok(())
    }

    /// Work like that of reading, none of which is in this project.
    fn sentinel(&mut self) -> Outcome<()> {
        // Small, so that it is not the peak of memory.
        const BYTES: usize = 256 << 10;
        const ROUNDS: usize = 16;
        if self.packed.is_empty() {
            let mut random = entropy::rng(1);
            let content: Vec<u8> = (0..BYTES).map(|at| random.u8(..) >> (at >> 12 & 7)).collect();
            self.packed = zstd::bulk::compress(&content, 1)?;
        }
        let cpu = process::self_cpu_time();
        for _ in 0..ROUNDS {
            let unpacked = zstd::bulk::decompress(&self.packed, BYTES)?;
            std::hint::black_box(xxh64(&unpacked, 0));
        }
        let used = process::self_cpu_time() - cpu;
        self.sentinel.push(used.as_secs_f64());
        Ok(())
    }

    fn print(mut self, operation: &str, path: &Path, sum: &Sum) -> Outcome<()> {
        if self.peak == 0 {
            self.peak = peak_bytes()?;
        }
        while self.sentinel.len() < SENTINELS_MIN {
            self.sentinel()?;
        }
        println!("METRIC {operation}_cpu_s={:.9}", median(&mut self.cpu));
        // The median has put them in order.
        println!("METRIC {operation}_cpu_min_s={:.9}", self.cpu.first().copied().unwrap_or(f64::NAN));
        println!("METRIC {operation}_wall_s={:.9}", median(&mut self.wall));
        println!("METRIC rows={}", sum.rows());
        println!("METRIC digest={}", sum.digest());
        println!("METRIC file_bytes={}", std::fs::metadata(path)?.len());
        println!("METRIC peak_bytes={}", self.peak);
        println!("METRIC sentinel_s={:.9}", median(&mut self.sentinel));
        Ok(())
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.len().saturating_sub(1) / 2, values.len() / 2);
    match (values.get(low), values.get(high)) {
        (Some(low), Some(high)) => (low + high) / 2.0,
        _ => f64::NAN,
    }
}

/// The most memory that this process ever had, in bytes.
fn peak_bytes() -> Outcome<u64> {
    let text = std::fs::read_to_string("/proc/self/status")?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    Ok(kib.ok_or("the kernel does not state the most memory")? * 1024)
}
