//! The power is cut at any moment, and what was promised is there: on the files of the system, those of the node store
//! included.
//!
//! A process works on a store while `recorder.c` writes down each write, flush and change of a name. From the recording
//! disks are made as a file system may leave them: cut off after some call, with writes and names that were not flushed
//! there or not. Each must open, hold every commit that was acknowledged at `strict` before the cut, and hold exactly
//! what some number of whole commits makes.
//!
//! `DURAMEN_SEED` runs one seed; `DURAMEN_SOAK_IMAGES` makes that many disks.

mod disk;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;
use std::time::Duration;

use disk::{records, Disk, Kind, Record};
use duramen_base::entropy;
use duramen_store::kv::Key;
use duramen_store::{Durability, Options, Scope, Store, StoreError, Value};

/// Names the place to the child, and makes it one.
const PLACE_VARIABLE: &str = "DURAMEN_TEST_POWER_CUTS";
const SEED_VARIABLE: &str = "DURAMEN_TEST_POWER_CUTS_SEED";

/// Disks that are made of one recording.
const IMAGES: usize = 250;
/// Recordings that are worked on at a time.
const THREADS: usize = 2;
/// Commits of each of the processes that are recorded one after the other.
const COMMITS: [i64; 3] = [140, 260, 330];

fn options() -> Options {
    Options {
        // Checkpoints are made by the work itself, so that they are marked.
        checkpoint_log_bytes: 1 << 40,
        segment_bytes: 1 << 14,
        memory_bytes: 1 << 20,
        sync_every: Duration::from_millis(5),
        ..Options::default()
    }
}

/// What commit `number` of a seed does.
struct Commit {
    level: Durability,
    puts: Vec<(String, Value)>,
    deletes: Vec<String>,
    checkpoint: bool,
    branch: Option<BranchStep>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum BranchStep {
    Fork,
    Delete,
    Reset,
}

fn commit_of(seed: u64, number: i64) -> Commit {
    let mut rng = entropy::rng(seed ^ (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let level = [Durability::Strict, Durability::Buffered, Durability::Memory][rng.usize(..3)];
    // Now and then so much that the nodes of a checkpoint go past the journal of their store.
    let count = if number % 60 == 30 { 90 } else { rng.usize(1..4) };
    // Or so large that whole pages of the journal lie within one node.
    let bytes = match rng.usize(..6) {
        _ if number % 60 == 30 => 15_000..16_000,
        0 => 20_000..60_000,
        _ => 10..3000,
    };
    let key = |rng: &mut fastrand::Rng| format!("key {:03}", rng.usize(..300));
    let puts = (0..count)
        .map(|_| {
            let value = vec![rng.u8(..); rng.usize(bytes.clone())];
            (key(&mut rng), Value::Bytes(value))
        })
        .collect();
    let deletes = (0..rng.usize(..3)).map(|_| key(&mut rng)).collect();
    let branch = match number % 17 {
        3 => Some(BranchStep::Fork),
        9 => Some(BranchStep::Reset),
        14 => Some(BranchStep::Delete),
        _ => None,
    };
    Commit { level, puts, deletes, checkpoint: rng.usize(..12) == 0, branch }
}

impl Commit {
    fn make(&self, store: &Store, number: i64) -> Result<(), StoreError> {
        let main = store.branch("main")?.with_durability(self.level);
        main.transact(|tx| {
            for (key, value) in &self.puts {
                tx.kv().put(key, value)?;
            }
            for key in &self.deletes {
                tx.kv().delete(key)?;
            }
            tx.kv().put("last", number)
        })
    }

    fn apply(&self, state: &mut BTreeMap<String, Value>, number: i64) {
        state.extend(self.puts.iter().cloned());
        for key in &self.deletes {
            state.remove(key);
        }
        state.insert("last".to_owned(), Value::Int(number));
    }

    /// What becomes of the side branch, which may have been lost with an end of the log before.
    fn branch_off(&self, store: &Store) -> Result<(), StoreError> {
        let done = match self.branch {
            None => return Ok(()),
            Some(BranchStep::Fork) => store.fork("main", "side").map(drop),
            Some(BranchStep::Delete) => store.delete_branch("side"),
            Some(BranchStep::Reset) => store.reset_branch("side"),
        };
        match done {
            Err(StoreError::BranchNotFound { .. } | StoreError::BranchExists { .. }) => Ok(()),
            done => done,
        }
    }
}

fn last(store: &Store) -> i64 {
    store.branch("main").unwrap().kv().get("last").unwrap().map_or(0, |value| value.as_i64().unwrap())
}

/// The child's part: commits, and marks what was acknowledged. It does nothing when the test is run by itself.
#[test]
fn child() {
    let Some(place) = std::env::var_os(PLACE_VARIABLE) else { return };
    let place = PathBuf::from(place);
    let seed: u64 = std::env::var(SEED_VARIABLE).unwrap().parse().unwrap();
    let mut marks = std::fs::File::options().append(true).create(true).open(place.join("marks")).unwrap();
    let mut mark = |text: String| assert_eq!(marks.write(text.as_bytes()).unwrap(), text.len());
    let store = Store::open(place.join("disk/store"), options()).unwrap();
    let begin = last(&store);
    let end = COMMITS.into_iter().find(|end| *end > begin).unwrap();
    for number in begin + 1..=end {
        let commit = commit_of(seed, number);
        commit.make(&store, number).unwrap();
        if commit.level == Durability::Strict {
            mark(format!("strict {number}"));
        }
        commit.branch_off(&store).unwrap();
        if commit.checkpoint {
            mark("checkpoint".to_owned());
            store.checkpoint().unwrap();
            mark("done".to_owned());
            mark(format!("strict {number}"));
        }
    }
    if end == COMMITS[0] {
        // As a process that is killed: nodes of a checkpoint without an end are not there, but no end of the log is.
        std::process::exit(0);
    }
    mark("checkpoint".to_owned());
    store.close().unwrap();
    drop(store);
    mark("done".to_owned());
    mark(format!("strict {end}"));
}

/// Builds the recorder.
fn recorder(place: &Path) -> PathBuf {
    let library = place.join("recorder.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/power_cuts/recorder.c");
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"])
        .args([&library, &source])
        .status();
    assert!(built.expect("cc is there, see scripts/setup").success());
    library
}

/// What a store did that went through all commits of a seed.
fn recording(place: &Path, seed: u64) -> Vec<u8> {
    std::fs::create_dir_all(place.join("disk")).unwrap();
    let library = recorder(place);
    for _ in COMMITS {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "power_cuts::child", "--nocapture", "--test-threads", "1"])
            .env(PLACE_VARIABLE, place)
            .env(SEED_VARIABLE, seed.to_string())
            .env("LD_PRELOAD", &library)
            .env("DURAMEN_RECORD_ROOT", place.join("disk"))
            .env("DURAMEN_RECORD_MARKS", place.join("marks"))
            .env("DURAMEN_RECORD_LOG", place.join("record"))
            .stdout(Stdio::null())
            .status();
        assert!(child.unwrap().success(), "seed {seed}");
    }
    std::fs::read(place.join("record")).unwrap()
}

/// After which records the power is cut: mostly within a checkpoint, now and then while the store is made.
fn cuts(records: &[Record<'_>], count: usize, rng: &mut fastrand::Rng) -> Vec<usize> {
    let first = records.iter().position(|record| record.mark().is_some()).unwrap();
    let (mut all, mut within, mut full, mut is_within) = (Vec::new(), Vec::new(), Vec::new(), false);
    for (at, record) in records.iter().enumerate() {
        match record.mark() {
            Some("checkpoint") => is_within = true,
            Some("done") => is_within = false,
            _ => {}
        }
        if record.changes() {
            all.push(at);
            within.extend(is_within.then_some(at));
            // Nothing more is unflushed than before a flush.
            full.extend((is_within && record.kind == Kind::Sync).then(|| at - 1));
        }
    }
    let making: Vec<_> = all.iter().copied().filter(|at| *at < first).collect();
    let one_of = |places: &[usize], rng: &mut fastrand::Rng| places[rng.usize(..places.len())];
    let mut cuts: Vec<_> = (0..count)
        .map(|number| match number % 20 {
            0 => one_of(&making, rng),
            1..=5 => one_of(&within, rng),
            6..=13 => one_of(&full, rng),
            _ => one_of(&all, rng),
        })
        .collect();
    cuts.sort_unstable();
    cuts
}

/// Opens what a power cut left, and looks whether all of it is right.
fn check(path: &Path, seed: u64, promised: i64) -> Result<(), String> {
    let store = Store::open(path, options()).map_err(|error| format!("it does not open: {error}"))?;
    let found = last(&store);
    if found < promised {
        return Err(format!("commit {promised} was acknowledged, and {found} is the last"));
    }
    let mut expected = BTreeMap::new();
    for number in 1..=found {
        commit_of(seed, number).apply(&mut expected, number);
    }
    let main = store.branch("main").map_err(|error| error.to_string())?;
    let pairs = main.kv().range(.., usize::MAX).map_err(|error| error.to_string())?;
    if !pairs.into_iter().eq(expected.into_iter().map(|(key, value)| (Key::new(key), value))) {
        return Err(format!("it does not hold what {found} commits make"));
    }
    for info in store.branches(true).map_err(|error| error.to_string())? {
        let side = store.branch(&info.name).and_then(|side| side.kv().count(""));
        side.map_err(|error| format!("branch {}: {error}", info.name))?;
    }
    // It goes on, and closes, or is dropped.
    main.with_durability(Durability::Strict).kv().put("on", 1).map_err(|error| error.to_string())?;
    if found % 4 != 0 {
        return Ok(());
    }
    store.close().map_err(|error| error.to_string())
}

/// N2 of the node segments: no byte of a segment is written twice. Returns how many bytes of segments were written.
fn written_once(records: &[Record<'_>]) -> Result<u64, String> {
    let mut ends = BTreeMap::new();
    let mut bytes = 0;
    for record in records {
        match record.kind {
            Kind::Create if record.name.contains("nodes/segment-") => {
                ends.insert(record.inode, 0);
            }
            // The inode of a segment that was removed is another file's.
            Kind::Create => {
                ends.remove(&record.inode);
            }
            Kind::Length if ends.contains_key(&record.inode) => {
                return Err(format!("a segment is set to {} bytes", record.number));
            }
            Kind::Write => {
                let Some(end) = ends.get_mut(&record.inode) else { continue };
                if record.number != *end {
                    return Err(format!("a segment of {end} bytes is written at {}", record.number));
                }
                *end += record.bytes.len() as u64;
                bytes += record.bytes.len() as u64;
            }
            _ => {}
        }
    }
    Ok(bytes)
}

/// Makes disks of a recording. Returns what was wrong with them.
fn images(seed: u64, count: usize) -> Vec<String> {
    let place = tempfile::tempdir().unwrap();
    let recorded = recording(place.path(), seed);
    let records = records(&recorded);
    assert!(written_once(&records).unwrap() > 1 << 20, "seed {seed}");
    let mut rng = entropy::rng(seed);
    let mut failures = Vec::new();
    let (mut disk, mut taken, mut promised) = (Disk::new(), 0, 0);
    for (number, cut) in cuts(&records, count, &mut rng).into_iter().enumerate() {
        for record in &records[taken..=cut] {
            disk.take(record);
            if let Some(strict) = record.mark().and_then(|mark| mark.strip_prefix("strict ")) {
                promised = strict.parse().unwrap();
            }
        }
        taken = cut + 1;
        let image = place.path().join(format!("image-{number}"));
        disk.cut(&mut rng.fork(), &image);
        let store = image.join("store");
        if let Err(reason) = check(&store, seed, promised) {
            failures.push(format!("seed {seed}, image {number}, cut after record {cut}: {reason}"));
            if let Some(keep) = std::env::var_os("DURAMEN_KEEP_IMAGES") {
                let mut rng = entropy::rng(seed);
                let _ = cuts(&records, count, &mut rng);
                (0..number).for_each(|_| drop(rng.fork()));
                disk.cut(&mut rng.fork(), &PathBuf::from(keep).join(format!("{seed}-{number}")));
            }
        }
        std::fs::remove_dir_all(&image).unwrap();
    }
    failures
}

fn run(all: usize) {
    let seed = entropy::seed();
    println!("DURAMEN_SEED={seed}");
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| loop {
                let round = next.fetch_add(1, Ordering::Relaxed);
                let count = IMAGES.min(all.saturating_sub(round * IMAGES));
                if count == 0 {
                    return;
                }
                let found = images(seed.wrapping_add(round as u64), count);
                failures.lock().unwrap().extend(found);
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{} of {all}:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn a_power_cut_loses_nothing_that_was_promised() {
    run(500);
}

/// `DURAMEN_SOAK_IMAGES=20000 cargo test --release -p duramen-store --test it -- --nocapture power_cuts::soak`
#[test]
fn soak() {
    match std::env::var("DURAMEN_SOAK_IMAGES") {
        Ok(images) => run(images.parse().expect("DURAMEN_SOAK_IMAGES is a number")),
        Err(_) => println!("DURAMEN_SOAK_IMAGES is not set: nothing to do"),
    }
}
