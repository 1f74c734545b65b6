//! A disk that refuses at any call: nothing that was acknowledged is lost, nothing that was not asked for appears, and
//! nobody panics or waits for ever. On the files of the system.
//!
//! A process works on a store while `faults.c` makes a call on its files fail, or do only half of what was asked: the
//! n-th, the n-th and some after it, or all from the n-th on. What the store says is written down, and held against what
//! is found when the fault is over: by the process itself where that goes on, and by the test.
//!
//! `DURAMEN_SEED` chooses the calls; `DURAMEN_SOAK_FAULTS=1` takes them all.

mod work;

use std::collections::BTreeMap;
use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use duramen_base::{clock, entropy};
use duramen_store::{Scope, Severity, Store, StoreError};

use work::{backup_of, expected, options, state, take, Step, PROBE, STEPS};

/// Names the place to the child, and makes it one.
const PLACE_VARIABLE: &str = "DURAMEN_TEST_DISK_FAULTS";
/// Whether the fault is over when the store is opened again.
const PASSES_VARIABLE: &str = "DURAMEN_TEST_DISK_FAULTS_PASS";

/// Processes at a time.
const THREADS: usize = 2;
/// The longest that a process may take; the usual is a fraction of a second.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often a step or an opening is tried that fails.
const TRIES: usize = 3;

/// How the disk fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Way {
    /// Which calls, and how: see `faults.c`.
    kind: &'static str,
    /// How many fail; 0 for all from the first on.
    count: u32,
    /// Whether it is over when the store is opened again.
    passes: bool,
    /// How many of its calls are tried where not all are.
    sample: usize,
}

const WAYS: [Way; 6] = [
    Way { kind: "eio", count: 1, passes: true, sample: 36 },
    Way { kind: "eio", count: 0, passes: false, sample: 16 },
    Way { kind: "enospc", count: 1, passes: true, sample: 24 },
    Way { kind: "enospc", count: 0, passes: true, sample: 24 },
    Way { kind: "enospc", count: 0, passes: false, sample: 12 },
    Way { kind: "short", count: 0, passes: false, sample: 4 },
];

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let many = if self.count == 0 { "from there on" } else { "once" };
        write!(f, "{} {many}{}", self.kind, if self.passes { ", passing" } else { "" })
    }
}

/// What the child writes down.
struct Told(std::fs::File);

impl Told {
    fn line(&mut self, text: fmt::Arguments<'_>) {
        let line = format!("{}\n", text.to_string().replace('\n', " "));
        assert_eq!(self.0.write(line.as_bytes()).unwrap(), line.len());
    }
}

/// The number of steps whose state this is, of those that may be; the least, as to do again what leaves nothing is nothing.
fn found(state: &str, expected: &[String], least: usize, most: usize) -> Result<usize, String> {
    let fits = (least..=most).find(|number| expected[*number] == state);
    fits.ok_or_else(|| {
        let elsewhere: Vec<_> = (0..expected.len()).filter(|number| expected[*number] == state).collect();
        let missing = expected[least].lines().find(|line| !state.lines().any(|found| found == *line));
        let other = state.lines().find(|line| !expected[most].lines().any(|wanted| wanted == *line));
        format!(
            "it holds what {elsewhere:?} steps make, not {least} to {most}: missing {missing:?}, more {other:?}"
        )
    })
}

/// The child's part: does the steps, and says what became of each. It does nothing when the test is run by itself.
#[test]
fn child() {
    let Some(place) = std::env::var_os(PLACE_VARIABLE) else { return };
    let place = PathBuf::from(place);
    let passes = std::env::var_os(PASSES_VARIABLE).is_some();
    let path = place.join("disk/work/store");
    let told = std::fs::File::options().append(true).create(true).open(place.join("told")).unwrap();
    let mut told = Told(told);
    let expected = expected();
    let (mut done, mut submitted, mut failures) = (0, 0, 0);
    while done < STEPS.len() && failures < TRIES {
        let opened = Store::open(&path, options());
        let store = match opened {
            Ok(store) => store,
            Err(error) => {
                told.line(format_args!("error open {:?} {error}", error.severity()));
                failures += 1;
                over(&place, passes);
                continue;
            }
        };
        match again(&store, &expected, done, submitted) {
            Ok(number) => done = number,
            Err(Wrong::Error(error)) => {
                told.line(format_args!("error read {:?} {error}", error.severity()));
                failures += 1;
                over(&place, passes);
                continue;
            }
            Err(Wrong::Other(text)) => return told.line(format_args!("wrong after opening: {text}")),
        }
        let before = failures;
        while done < STEPS.len() && failures < TRIES {
            submitted = done + 1;
            told.line(format_args!("submit {submitted}"));
            let result = match STEPS[done] {
                Step::Reopen => store.close(),
                _ => take(&store, done, &path),
            };
            match result {
                Ok(()) => {
                    done += 1;
                    told.line(format_args!("ack {done}"));
                    if STEPS[done - 1] == Step::Reopen {
                        break;
                    }
                    continue;
                }
                Err(error) => {
                    told.line(format_args!("error {:?} {:?} {error}", STEPS[done], error.severity()));
                    if error.severity() != Severity::System && !matches!(error, StoreError::Closed) {
                        return told.line(format_args!("wrong: {error:?} is no error of a disk"));
                    }
                }
            }
            failures += 1;
            // Either all goes on, with nothing of what failed, or nothing.
            let refused = match store.branch("main").unwrap().kv().put(PROBE, failures as i64) {
                Ok(_) => match again(&store, &expected, done, done) {
                    Ok(_) => {
                        told.line(format_args!("goes on"));
                        continue;
                    }
                    Err(Wrong::Error(_)) => break,
                    Err(Wrong::Other(text)) => {
                        return told.line(format_args!("wrong after an error: {text}"))
                    }
                },
                Err(error) => error,
            };
            // Who cannot read the node that he would change has written nothing.
            if matches!(refused, StoreError::Tree(_)) {
                break;
            }
            // The first one may be what finds that the disk fails.
            for attempt in 0..2 {
                let next = store.branch("main").unwrap().kv().put(PROBE, -attempt);
                match next {
                    Err(StoreError::Poisoned { .. } | StoreError::Closed) => {}
                    other => return told.line(format_args!("wrong: {other:?} behind {refused}")),
                }
            }
            if store.checkpoint().is_ok() || store.fork("main", "more").is_ok() {
                return told.line(format_args!("wrong: something is done behind {refused}"));
            }
            break;
        }
        drop(store);
        if failures > before {
            over(&place, passes);
        }
    }
    told.line(format_args!("end {done}"));
}

/// The store is closed: another opening asks the disk anew, which is well again if the fault passes.
fn over(place: &Path, passes: bool) {
    let control = |name: &str| drop(std::fs::File::open(place.join(name)));
    control("control.forget");
    if passes {
        control("control.lift");
    }
}

enum Wrong {
    Error(StoreError),
    Other(String),
}

fn again(store: &Store, expected: &[String], least: usize, most: usize) -> Result<usize, Wrong> {
    let state = state(store).map_err(Wrong::Error)?;
    found(&state, expected, least, most).map_err(Wrong::Other)
}

/// Builds what makes calls fail.
fn library(place: &Path) -> PathBuf {
    let library = place.join("faults.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/disk_faults/faults.c");
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"])
        .args([&library, &source])
        .arg("-ldl")
        .status();
    assert!(built.expect("cc is there, see scripts/setup").success());
    library
}

/// What became of a process.
struct Outcome {
    told: String,
    report: String,
    errors: String,
    /// None if it was stopped because it took too long.
    success: Option<bool>,
}

impl Outcome {
    /// Lines of what was told that begin with a word, without it.
    fn lines<'o>(&'o self, word: &'o str) -> impl Iterator<Item = &'o str> {
        self.told.lines().filter_map(move |line| line.strip_prefix(word))
    }

    fn last(&self, word: &str) -> usize {
        self.lines(word).filter_map(|number| number.trim().parse().ok()).max().unwrap_or(0)
    }

    fn faults(&self) -> impl Iterator<Item = &str> {
        self.report.lines().filter_map(|line| line.strip_prefix("fault "))
    }
}

/// Runs a process in which calls from the n-th on fail; none if n is 0.
fn run(library: &Path, place: &Path, way: Way, n: usize) -> Outcome {
    std::fs::create_dir_all(place.join("disk/work")).unwrap();
    let errors = std::fs::File::create(place.join("errors")).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "disk_faults::child", "--nocapture", "--test-threads", "1"])
        .env(PLACE_VARIABLE, place)
        .env("LD_PRELOAD", library)
        .env("DURAMEN_FAULT_ROOT", place.join("disk"))
        .env("DURAMEN_FAULT_REPORT", place.join("report"))
        .env("DURAMEN_FAULT_CONTROL", place.join("control"))
        .env("DURAMEN_FAULT_KIND", way.kind)
        .env("DURAMEN_FAULT_AT", n.to_string())
        .env("DURAMEN_FAULT_COUNT", way.count.to_string())
        .stdout(Stdio::null())
        .stderr(errors);
    if way.passes {
        command.env(PASSES_VARIABLE, "1");
    }
    let mut child = command.spawn().unwrap();
    let begin = clock::now();
    let success = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break Some(status.success());
        }
        if begin.elapsed() > PATIENCE {
            child.kill().unwrap();
            child.wait().unwrap();
            break None;
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let text = |name: &str| std::fs::read_to_string(place.join(name)).unwrap_or_default();
    Outcome { told: text("told"), report: text("report"), errors: text("errors"), success }
}

/// Whether an error says which file it is about: one of those whose calls failed, one in such a folder, or the folder
/// that was looked into.
fn names_file(error: &str, outcome: &Outcome) -> bool {
    outcome.faults().any(|fault| {
        let path = fault.split_once(' ').map_or("", |(_, path)| path);
        let name = path.rsplit('/').next().unwrap_or_default();
        let is_folder = !name.contains('-');
        let looked = error.contains("cannot look into")
            && path.starts_with("work/store")
            && error.contains("work/store");
        looked
            || error.contains(name)
            || (is_folder && ["log-", "spare-", "segment-"].iter().any(|part| error.contains(part)))
    })
}

/// Looks whether all is right with what a process did and left.
fn check(place: &Path, way: Way, expected: &[String], outcome: &Outcome) -> Result<(), String> {
    match outcome.success {
        Some(true) => {}
        Some(false) => return Err(format!("it ended with an error: {}", outcome.errors.trim())),
        None => return Err(format!("it takes longer than {PATIENCE:?}")),
    }
    if outcome.errors.contains("panicked") {
        return Err(format!("a thread panicked: {}", outcome.errors.trim()));
    }
    if let Some(wrong) = outcome.lines("wrong").next() {
        return Err(format!("wrong{wrong}"));
    }
    if let Some(again) = outcome.report.lines().find_map(|line| line.strip_prefix("again ")) {
        return Err(format!("a flush that failed was tried again: {again}"));
    }
    let first = outcome.lines("error ").next();
    if let Some(first) = first.filter(|error| !names_file(error, outcome)) {
        return Err(format!("an error does not name the file: {first}"));
    }
    // S9: after the first error of a write, nothing is written.
    let is_write = |fault: &str| {
        let of_store = ["work/store/log/", "work/store/nodes/"].iter().any(|folder| fault.contains(folder));
        of_store
            && ["pwrite", "fsync", "fdatasync", "sync_file_range"].iter().any(|call| fault.starts_with(call))
    };
    if let (true, Some(fault)) = (way.count == 1, outcome.faults().find(|fault| is_write(fault))) {
        if outcome.lines("goes on").next().is_some() {
            return Err(format!("it goes on after {fault}: {first:?}"));
        }
    }
    if way.kind == "short" && first.is_some() {
        return Err(format!("a short call is an error: {first:?}"));
    }
    let (acknowledged, submitted, end) =
        (outcome.last("ack "), outcome.last("submit "), outcome.last("end "));
    if (way.passes || way.kind == "short") && end != STEPS.len() {
        return Err(format!("it came to step {end} of {} only", STEPS.len()));
    }
    let path = place.join("disk/work/store");
    let store = Store::open(&path, options()).map_err(|error| format!("it does not open: {error}"))?;
    let now = state(&store).map_err(|error| format!("it cannot be read: {error}"))?;
    found(&now, expected, acknowledged, submitted)?;
    let verified = store.verify(&mut |_| {}).map_err(|error| format!("it cannot be verified: {error}"))?;
    if !verified.is_whole() {
        return Err(format!("it is damaged: {verified:?}"));
    }
    store.branch("main").unwrap().kv().put("on", 1).map_err(|error| format!("it does not go on: {error}"))?;
    store.close().map_err(|error| format!("it does not close: {error}"))?;
    for (number, _) in STEPS.iter().enumerate().filter(|(_, step)| **step == Step::Backup) {
        let backup = backup_of(&path, number);
        if acknowledged > number && !backup.exists() {
            return Err(format!("{} is not there", backup.display()));
        }
        if backup.exists() {
            let copy = Store::open(&backup, options()).map_err(|error| format!("a backup: {error}"))?;
            let held = state(&copy).map_err(|error| format!("a backup: {error}"))?;
            found(&held, expected, number, number).map_err(|reason| format!("a backup: {reason}"))?;
        }
    }
    Ok(())
}

/// Tries calls of all ways; every one, or a sample. Returns what was wrong.
fn try_calls(all: bool, seed: u64) -> (Vec<String>, BTreeMap<String, usize>) {
    let place = tempfile::tempdir().unwrap();
    let library = library(place.path());
    let expected = expected();
    let mut rng = entropy::rng(seed);
    let mut jobs = Vec::new();
    for way in WAYS {
        let place = place.path().join(format!("calls-{way}"));
        let outcome = run(&library, &place, way, 0);
        check(&place, way, &expected, &outcome).unwrap_or_else(|reason| panic!("{way}, no fault: {reason}"));
        let calls: usize =
            outcome.report.lines().find_map(|line| line.strip_prefix("calls ")?.trim().parse().ok()).unwrap();
        assert!(calls > 100, "{way}: {calls} calls");
        println!("{way}: {calls} calls");
        if all && way.kind != "short" {
            jobs.extend((1..=calls).map(|n| (way, n)));
        } else {
            jobs.extend((0..way.sample).map(|_| (way, rng.usize(1..=calls))));
        }
    }
    rng.shuffle(&mut jobs);
    let total = jobs.len();
    let (jobs, failures) = (Mutex::new(jobs), Mutex::new(Vec::new()));
    let tally = Mutex::new(BTreeMap::from([("processes".to_owned(), total)]));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let place = place.path().join(format!("thread-{thread}"));
            let (jobs, failures, tally, library, expected) = (&jobs, &failures, &tally, &library, &expected);
            scope.spawn(move || loop {
                let Some((way, n)) = jobs.lock().unwrap().pop() else { return };
                let outcome = run(library, &place, way, n);
                let fault = outcome.faults().next().unwrap_or("none").to_owned();
                let count = |what: &str| *tally.lock().unwrap().entry(what.to_owned()).or_default() += 1;
                count(&format!("call {}", fault.split(' ').next().unwrap_or_default()));
                if outcome.lines("error ").next().is_some() {
                    count("told as an error");
                }
                if let Err(reason) = check(&place, way, expected, &outcome) {
                    failures.lock().unwrap().push(format!("{way}, call {n} ({fault}): {reason}"));
                }
                std::fs::remove_dir_all(&place).unwrap();
            });
        }
    });
    (failures.into_inner().unwrap(), tally.into_inner().unwrap())
}

/// With `DURAMEN_SOAK_FAULTS=1`, every call.
#[test]
fn a_disk_that_fails_at_any_call_loses_nothing_and_is_told() {
    let seed = entropy::seed();
    println!("DURAMEN_SEED={seed}");
    let all = std::env::var_os("DURAMEN_SOAK_FAULTS").is_some();
    let begin = clock::now();
    let (failures, tally) = try_calls(all, seed);
    println!("{:?}: {tally:?}", begin.elapsed());
    assert!(failures.is_empty(), "{}:\n{}", failures.len(), failures.join("\n"));
}
