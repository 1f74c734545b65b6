//! Logs of experiments: what `duramen lab experiment log` says of them.

use crate::lab_support::{folder, lab};
use duramen_api::attachments::lab::LabBetter;
use duramen_attachments::lab::LOG_MAX;
use duramen_experiment::{log, report, state::State};
use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

fn real() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/experiments/c1z3-read/experiments.jsonl")
}

/// A log of the first format.
fn first() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../experiment/tests/fixtures/version_1.jsonl")
}

fn place(from: &Path, folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    fs::copy(from, folder.join(log::FILE_NAME)).unwrap();
}

#[test]
fn a_real_series_is_told_with_what_was_kept_and_why() {
    let folder = folder();
    place(&real(), &folder.path().join("series/c1z3-read"));
    let told = lab().experiments(folder.path()).unwrap();
    assert_eq!((told.experiments.len(), told.damaged.len(), told.unread), (1, 0, 0));
    let told = &told.experiments[0];
    let state = State::from_entries(&log::read(&real()).unwrap());
    let (overview, rows) = (report::overview(&state), report::rows(&state));
    assert_eq!(told.file, "series/c1z3-read/experiments.jsonl");
    assert_eq!(
        (&told.name, &told.metric, told.segment),
        (&overview.name, &overview.metric, overview.segment)
    );
    assert_eq!((told.tries.len(), told.better), (rows.len(), LabBetter::Lower));
    for (told, row) in told.tries.iter().zip(&rows) {
        assert_eq!(told.number, row.number);
        assert_eq!(told.verdict.as_deref(), row.verdict.map(report::verdict));
        assert_eq!(told.change.map(|change| change.percent), row.change.map(|change| change.percent));
        assert_eq!((&told.reason, &told.hypothesis), (&row.reason, &row.hypothesis));
    }
    assert!(told.tries.iter().any(|each| each.verdict.as_deref() == Some("keep")));
    assert!(told.tries.iter().any(|each| each.verdict.as_deref() == Some("discard")));
    let stack = overview.stack.unwrap();
    assert_eq!((told.stack.unwrap().percent, told.is_replayed), (stack.change.percent, stack.is_replayed));
}

#[test]
fn a_log_of_the_first_format_and_one_that_is_written_are_told() {
    let folder = folder();
    place(&first(), &folder.path().join("old"));
    let written = folder.path().join("new").join(log::FILE_NAME);
    fs::create_dir(folder.path().join("new")).unwrap();
    // Whoever works on it has it locked.
    let _log = log::Log::create(&written).unwrap();
    let lab = lab();
    let told = lab.experiments(folder.path()).unwrap();
    let files: Vec<_> = told.experiments.iter().map(|each| (each.file.as_str(), each.tries.len())).collect();
    assert_eq!(files.len(), 2, "{told:?}");
    assert_eq!(files[0], ("new/experiments.jsonl", 0));
    assert_eq!(lab.runs(folder.path(), None).unwrap().logs, 2);
    assert_eq!(lab.experiments(folder.path()).unwrap(), told, "what is known is told again");
}

#[test]
fn damaged_and_huge_logs_are_named_and_links_are_not_followed() {
    let outside = folder();
    place(&first(), outside.path());
    let folder = folder();
    let at = folder.path();
    place(&first(), &at.join("cut"));
    let path = at.join("cut").join(log::FILE_NAME);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen("keep the buffer", "drop the buffer", 1)).unwrap();
    fs::create_dir(at.join("huge")).unwrap();
    fs::File::create(at.join("huge").join(log::FILE_NAME)).unwrap().set_len(LOG_MAX + 1).unwrap();
    fs::create_dir(at.join("nonsense")).unwrap();
    fs::write(at.join("nonsense").join(log::FILE_NAME), b"\xff\xfe\n{}\n").unwrap();
    fs::create_dir(at.join("link")).unwrap();
    symlink(outside.path().join(log::FILE_NAME), at.join("link").join(log::FILE_NAME)).unwrap();
    let told = lab().experiments(at).unwrap();
    assert!(told.experiments.is_empty(), "{told:?}");
    let named: Vec<&str> = told.damaged.iter().map(|log| log.file.as_str()).collect();
    assert_eq!(named, ["cut/experiments.jsonl", "huge/experiments.jsonl", "nonsense/experiments.jsonl"]);
    assert!(told.damaged[0].why.contains("line 1"), "{}", told.damaged[0].why);
}

/// What was written while a machine went down is not told, and the log is left as it is.
#[test]
fn a_line_without_an_end_is_left_where_it_is() {
    let folder = folder();
    place(&first(), folder.path());
    let path = folder.path().join(log::FILE_NAME);
    let mut text = fs::read_to_string(&path).unwrap();
    text.push_str("{\"seq\":");
    fs::write(&path, &text).unwrap();
    assert_eq!(lab().experiments(folder.path()).unwrap().experiments.len(), 1);
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}
