//! The log of a series on real files: what a kill leaves, what damage is, who may have it open.

use crate::support;
use duramen_experiment::{
    event::{Event, Purpose, SCHEMA},
    log::{self, Entry, Log, LogError, LINE_LIMIT, NO_DIGEST},
};
use serde_json::{json, Value};
use std::{
    fs::{self, OpenOptions},
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};
use tempfile::TempDir;

struct Scratch {
    dir: TempDir,
}

impl Scratch {
    fn new() -> Scratch {
        Scratch { dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join(log::FILE_NAME)
    }

    /// A log with these events, closed again.
    fn written(events: Vec<Event>) -> Scratch {
        let scratch = Scratch::new();
        let mut log = Log::create(&scratch.path()).unwrap();
        for event in events {
            log.append(event).unwrap();
        }
        scratch
    }

    fn bytes(&self) -> Vec<u8> {
        fs::read(self.path()).unwrap()
    }

    fn put(&self, bytes: &[u8]) {
        fs::write(self.path(), bytes).unwrap();
    }
}

fn events_of(entries: &[Entry]) -> Vec<Event> {
    entries.iter().map(|entry| entry.event.clone()).collect()
}

/// The number that a complaint names, if it is one about a line.
fn line_of(error: &LogError) -> Option<u64> {
    match error {
        LogError::Damaged { line, .. } | LogError::Later { line, .. } => Some(*line),
        _ => None,
    }
}

#[test]
fn every_event_reads_as_it_was_written() {
    let events = support::events();
    let scratch = Scratch::written(events.clone());
    let (log, entries, cut) = Log::open(&scratch.path()).unwrap();
    assert_eq!(events_of(&entries), events);
    assert_eq!(cut, None);
    assert_eq!(events_of(&log::read(&scratch.path()).unwrap()), events);
    assert_eq!(entries.iter().map(|entry| entry.seq).collect::<Vec<_>>(), (1..=19).collect::<Vec<_>>());
    assert_eq!(entries[0].prev, NO_DIGEST);
    // Each line names the one before, and the log the last: as anybody can check with b3sum.
    let text = String::from_utf8(scratch.bytes()).unwrap();
    let digests: Vec<String> =
        text.lines().map(|line| blake3::hash(line.as_bytes()).to_hex().to_string()).collect();
    let named: Vec<&str> = entries[1..].iter().map(|entry| entry.prev.as_str()).collect();
    assert_eq!(named, digests[..digests.len() - 1]);
    assert_eq!(log.digest(), digests.last().unwrap());
}

#[test]
fn a_log_goes_on_where_it_ended() {
    let scratch = Scratch::written(vec![support::segment(1, "c0")]);
    let (mut log, _, _) = Log::open(&scratch.path()).unwrap();
    let entry = log.append(support::noise("c0", 0.5)).unwrap();
    assert_eq!(entry.seq, 2);
    drop(log);
    let (log, entries, _) = Log::open(&scratch.path()).unwrap();
    assert_eq!(entries[1], entry);
    assert_ne!(log.digest(), NO_DIGEST);
}

#[test]
fn cut_at_any_byte_it_opens_with_the_whole_lines_and_goes_on() {
    let events: Vec<Event> = support::events().into_iter().skip(2).take(4).collect();
    let scratch = Scratch::written(events.clone());
    let whole = scratch.bytes();
    for length in 0..=whole.len() {
        scratch.put(&whole[..length]);
        let ends = whole[..length].iter().filter(|&&byte| byte == b'\n').count();
        let tail = length - whole[..length].iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        let lacks_only_its_end = whole.get(length) == Some(&b'\n');
        let kept = ends + usize::from(lacks_only_its_end);
        assert_eq!(events_of(&log::read(&scratch.path()).unwrap()), events[..kept], "read at {length}");

        let (mut log, entries, cut) = Log::open(&scratch.path()).unwrap();
        assert_eq!(events_of(&entries), events[..kept], "at {length}");
        let expected = (tail > 0 && !lacks_only_its_end).then_some((kept as u64 + 1, tail as u64));
        assert_eq!(cut.map(|cut| (cut.line, cut.bytes)), expected, "at {length}");
        log.append(support::noise("c9", 0.25)).unwrap();
        drop(log);
        let (_, entries, cut) = Log::open(&scratch.path()).unwrap();
        assert_eq!((entries.len(), cut), (kept + 1, None), "at {length}");
        assert_eq!(entries[kept].event, support::noise("c9", 0.25));
    }
}

#[test]
fn a_flip_in_any_byte_is_found_and_its_line_is_named() {
    let events: Vec<Event> = support::events().into_iter().skip(2).take(3).collect();
    let scratch = Scratch::written(events);
    let whole = scratch.bytes();
    for at in 0..whole.len() {
        let line = whole[..at].iter().filter(|&&byte| byte == b'\n').count() as u64 + 1;
        for bit in [0, 2, 7] {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << bit;
            scratch.put(&bytes);
            let error = Log::open(&scratch.path()).map(|_| ()).unwrap_err();
            assert_eq!(line_of(&error), Some(line), "byte {at}, bit {bit}: {error}");
            assert_eq!(line_of(&log::read(&scratch.path()).unwrap_err()), Some(line));
            assert_eq!(scratch.bytes(), bytes, "a log that does not fit is left as it is");
        }
    }
}

#[test]
fn lines_that_are_moved_removed_or_doubled_do_not_fit() {
    let scratch = Scratch::written(support::events());
    let text = String::from_utf8(scratch.bytes()).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let swap = |a: usize, b: usize| {
        let mut lines = lines.clone();
        lines.swap(a, b);
        lines
    };
    let without = |at: usize| [&lines[..at], &lines[at + 1..]].concat();
    let doubled = |at: usize| [&lines[..=at], &lines[at..]].concat();
    let cases =
        [(swap(2, 3), 3), (without(0), 1), (without(7), 8), (doubled(4), 6), (lines[5..].to_vec(), 1)];
    for (lines, expected) in cases {
        scratch.put((lines.join("\n") + "\n").as_bytes());
        let error = Log::open(&scratch.path()).map(|_| ()).unwrap_err();
        assert_eq!(line_of(&error), Some(expected), "{error}");
        let message = error.to_string();
        assert!(message.contains(&format!("head -n {}", expected - 1)), "{message}");
        assert!(message.contains(&scratch.path().display().to_string()), "{message}");
    }
}

#[test]
fn an_empty_line_or_another_text_is_damage() {
    let scratch = Scratch::written(vec![support::segment(1, "c0")]);
    let whole = scratch.bytes();
    for extra in ["\n", "{}\n", "null\n", "\u{0}\u{0}\u{0}\n", "<<<<<<< HEAD\n"] {
        scratch.put(&[&whole, extra.as_bytes()].concat());
        let error = Log::open(&scratch.path()).map(|_| ()).unwrap_err();
        assert_eq!(line_of(&error), Some(2), "{extra:?}: {error}");
        assert!(error.to_string().contains("the last one"), "{error}");
    }
}

/// A line as a later version might write it: proven, but not known.
fn later_line(prev: &str, seq: u64, fields: Value) -> String {
    let mut line = json!({"seq": seq, "at": "2030-01-01T00:00:00Z", "prev": prev});
    line.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let mut text = line.to_string();
    text.pop();
    let sum = blake3::hash(text.as_bytes()).to_hex()[..16].to_owned();
    format!("{text},\"sum\":\"{sum}\"}}\n")
}

#[test]
fn what_a_later_version_wrote_is_refused_with_advice() {
    let scratch = Scratch::written(vec![support::segment(1, "c0")]);
    let whole = scratch.bytes();
    let prev = Log::open(&scratch.path()).unwrap().0.digest().to_owned();
    let mut second = serde_json::to_value(support::segment(2, "c0")).unwrap();
    second["schema"] = json!("duramen.experiment/2");
    let mut verdict = serde_json::to_value(support::events().remove(10)).unwrap();
    verdict["judgement"]["verdict"] = json!("postponed");
    let cases = [
        (json!({"type": "dreamt", "number": 1}), "`dreamt`"),
        (second, "duramen.experiment/2"),
        (verdict, "postponed"),
    ];
    for (fields, named) in cases {
        let bytes = [whole.clone(), later_line(&prev, 2, fields).into_bytes()].concat();
        scratch.put(&bytes);
        let error = Log::open(&scratch.path()).map(|_| ()).unwrap_err();
        assert!(matches!(error, LogError::Later { line: 2, .. }), "{error:?}");
        let message = error.to_string();
        assert!(message.contains(named) && message.contains("use that version"), "{message}");
        assert_eq!(scratch.bytes(), bytes);
    }
    // A field more is no reason to refuse: fields are added.
    let mut added = serde_json::to_value(support::noise("c0", 0.5)).unwrap();
    added["colour"] = json!("blue");
    scratch.put(&[whole, later_line(&prev, 2, added).into_bytes()].concat());
    let (_, entries, _) = Log::open(&scratch.path()).unwrap();
    assert_eq!(entries[1].event, support::noise("c0", 0.5));
    assert!(SCHEMA.ends_with("/1"), "with a new schema, this test needs a new fixture of the old one");
}

#[test]
fn a_figure_that_json_cannot_hold_is_refused_and_nothing_is_written() {
    let scratch = Scratch::written(vec![support::segment(1, "c0")]);
    let before = scratch.bytes();
    let (mut log, _, _) = Log::open(&scratch.path()).unwrap();
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let error = log.append(support::sample(Purpose::Noise(0), 0, 0, bad)).unwrap_err();
        assert!(matches!(error, LogError::Unwritable { .. }), "{error}");
        assert!(error.to_string().contains("`sample`"), "{error}");
    }
    let long = Event::Stopped { rule: "time".to_owned(), words: "x".repeat(LINE_LIMIT) };
    assert!(matches!(log.append(long).unwrap_err(), LogError::Unwritable { .. }));
    assert_eq!(scratch.bytes(), before);
    // It is not an error of the disk: the log goes on.
    for value in [f64::MIN_POSITIVE, f64::MAX, -0.0, 1.0 / 3.0, 5e-324] {
        log.append(support::sample(Purpose::Noise(0), 0, 0, value)).unwrap();
    }
    drop(log);
    assert_eq!(Log::open(&scratch.path()).unwrap().1.len(), 6);
}

#[test]
fn a_log_is_neither_made_twice_nor_opened_where_there_is_none() {
    let scratch = Scratch::new();
    let error = Log::open(&scratch.path()).map(|_| ()).unwrap_err();
    assert!(matches!(error, LogError::Missing { .. }) && error.to_string().contains("init"), "{error}");
    assert!(matches!(log::read(&scratch.path()).unwrap_err(), LogError::Missing { .. }));
    drop(Log::create(&scratch.path()).unwrap());
    assert!(matches!(Log::create(&scratch.path()).unwrap_err(), LogError::Exists { .. }));
    let (_, entries, cut) = Log::open(&scratch.path()).unwrap();
    assert_eq!((entries, cut), (vec![], None));
}

#[test]
fn what_somebody_else_did_to_the_file_is_noticed_before_it_is_written_past() {
    let scratch = Scratch::written(vec![support::segment(1, "c0")]);
    let aside = scratch.dir.path().join("aside");
    let (mut log, _, _) = Log::open(&scratch.path()).unwrap();
    // A checkout puts another file there, with the same text.
    fs::copy(scratch.path(), &aside).unwrap();
    fs::rename(&aside, scratch.path()).unwrap();
    let before = scratch.bytes();
    let error = log.append(support::noise("c0", 0.5)).unwrap_err();
    assert!(matches!(error, LogError::Changed { .. }), "{error}");
    assert_eq!(scratch.bytes(), before);
    drop(log);
    let (mut log, _, _) = Log::open(&scratch.path()).unwrap();
    OpenOptions::new().append(true).open(scratch.path()).unwrap().write_all(b"x").unwrap();
    assert!(matches!(log.append(support::noise("c0", 0.5)).unwrap_err(), LogError::Changed { .. }));
    fs::remove_file(scratch.path()).unwrap();
    assert!(matches!(log.append(support::noise("c0", 0.5)).unwrap_err(), LogError::Changed { .. }));
}

/// Set for a process that is this test again: the log that it works on.
const CHILD: &str = "EXPERIMENT_LOG_OF_CHILD";

fn child(test: &str, log: &Path, limit_blocks: Option<(u32, bool)>) -> Command {
    let exe = std::env::current_exe().unwrap();
    let mut command = match limit_blocks {
        None => Command::new(exe),
        Some((blocks, is_survived)) => {
            let trap = if is_survived { "trap '' XFSZ;" } else { "" };
            let mut shell = Command::new("sh");
            shell.args(["-c", &format!("{trap} ulimit -f {blocks}; exec \"$0\" \"$@\"")]).arg(exe);
            shell
        }
    };
    command
        .args(["--exact", test, "--nocapture"])
        .env(CHILD, log)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

#[test]
fn two_processes_never_have_it_at_once() {
    if let Some(path) = std::env::var_os(CHILD) {
        let (mut log, _, _) = Log::open(Path::new(&path)).unwrap();
        log.append(support::noise("child", 0.5)).unwrap();
        println!("holding");
        // Until the parent kills this.
        std::thread::sleep(std::time::Duration::from_secs(60));
        return;
    }
    let scratch = Scratch::written(vec![support::segment(1, "c0")]);
    let mut other =
        child("log_on_disk::two_processes_never_have_it_at_once", &scratch.path(), None).spawn().unwrap();
    let mut lines = BufReader::new(other.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("holding")));
    let error = Log::open(&scratch.path()).map(|_| ()).unwrap_err();
    assert!(matches!(error, LogError::Busy { .. }), "{error}");
    assert_eq!(log::read(&scratch.path()).unwrap().len(), 2, "readers need no lock");
    other.kill().unwrap();
    other.wait().unwrap();
    // The lock ends with the process, and what it had written is there.
    let (_, entries, cut) = Log::open(&scratch.path()).unwrap();
    assert_eq!((entries.len(), cut), (2, None));
}

#[test]
fn on_a_full_disk_the_log_ends_whole_and_says_so() {
    if let Some(path) = std::env::var_os(CHILD) {
        let (mut log, _, _) = Log::open(Path::new(&path)).unwrap();
        let error = loop {
            if let Err(error) = log.append(support::noise("child", 0.5)) {
                break error;
            }
            println!("acknowledged");
        };
        assert!(matches!(error, LogError::Append { .. }), "{error}");
        assert!(error.to_string().contains("disk"), "{error}");
        // Room or no room: what is on the disk is not known any more.
        assert!(matches!(log.append(support::noise("child", 0.5)).unwrap_err(), LogError::Ended { .. }));
        return;
    }
    // 4 blocks of 512 or of 1,024 bytes, whatever this shell counts in. Killed by the signal, or told by an error.
    for is_survived in [true, false] {
        let scratch = Scratch::written(vec![support::segment(1, "c0")]);
        let test = "log_on_disk::on_a_full_disk_the_log_ends_whole_and_says_so";
        let output = child(test, &scratch.path(), Some((4, is_survived))).output().unwrap();
        assert_eq!(output.status.success(), is_survived, "{}", String::from_utf8_lossy(&output.stderr));
        let printed = String::from_utf8_lossy(&output.stdout);
        let acknowledged = printed.lines().filter(|line| line.contains("acknowledged")).count();
        assert!(acknowledged > 0, "{printed}");
        let left = scratch.bytes();
        let is_torn = left.last() != Some(&b'\n');
        // A line that lacks only its newline counts, though nobody was told.
        let untold = is_torn && left.ends_with(b"\"}");
        assert!(!is_survived || !is_torn, "an error takes its part of a line back");
        let (mut log, entries, cut) = Log::open(&scratch.path()).unwrap();
        assert_eq!(entries.len(), 1 + acknowledged + usize::from(untold), "nothing acknowledged is lost");
        assert_eq!(cut.is_some(), is_torn && !untold, "{cut:?}");
        log.append(support::noise("after", 0.5)).unwrap();
    }
}

#[test]
fn a_log_of_version_1_opens_for_ever() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/version_1.jsonl");
    let entries = log::read(&path).unwrap();
    assert_eq!(events_of(&entries), support::events());
    assert_eq!(entries[1].at.to_string(), "2026-11-22T12:00:01Z");
}
