//! Which runs lie in a directory: whatever somebody has put there.

use crate::lab_support::{copy, fixtures, folder, lab, run, write, HOSTILE};
use duramen_api::attachments::lab::{LabRuns, LabVerdict};
use duramen_attachments::lab::{
    LabError, DAMAGED_TOLD, DEPTH_MAX, DOCUMENT_MAX, ENTRIES_MAX, FIGURES_MAX, RUNS_TOLD,
};
use duramen_measure::evidence::Measurement;
use serde_json::json;
use std::{
    fs,
    os::unix::fs::{symlink, PermissionsExt},
    path::Path,
};

fn suites(runs: &LabRuns) -> Vec<(&str, u32)> {
    runs.suites.iter().map(|suite| (suite.name.as_str(), suite.runs)).collect()
}

fn files(runs: &LabRuns) -> Vec<&str> {
    runs.runs.iter().map(|run| run.file.as_str()).collect()
}

#[test]
fn real_documents_of_all_suites_are_listed_newest_first() {
    let folder = folder();
    copy(&fixtures(), &folder.path().join("earlier/runs"));
    let runs = lab().runs(folder.path(), None).unwrap();
    assert_eq!(suites(&runs), [("branches", 1), ("packs", 2), ("replication", 1), ("store", 1)]);
    let times: Vec<_> = runs.runs.iter().map(|run| run.started_at).collect();
    assert!(times.windows(2).all(|pair| pair[0] >= pair[1]), "{times:?}");
    let store = runs.runs.iter().find(|run| run.suite == "store").unwrap();
    assert_eq!((store.verdict, store.checks_met, store.checks_missed), (LabVerdict::Pass, 4, 0));
    assert_eq!((store.figures, store.version.as_str()), (71, "0.1.0"));
    assert_eq!(store.file, "earlier/runs/store.json");
    assert_eq!((runs.others, runs.damaged_count, runs.unread, runs.is_partial), (0, 0, 0, false));
    let packs = lab().runs(folder.path(), Some("packs")).unwrap();
    assert_eq!(files(&packs), ["earlier/runs/packs_later.json", "earlier/runs/packs.json"]);
    assert_eq!(suites(&packs), suites(&runs), "all suites are told, whichever is asked for");
    assert!(lab().runs(folder.path(), Some("nothing")).unwrap().runs.is_empty());
}

#[test]
fn what_is_no_evidence_is_counted_and_what_is_damaged_is_named() {
    let folder = folder();
    let at = folder.path();
    write(at, "good.json", &run(0, 1.0));
    let text = fs::read_to_string(at.join("good.json")).unwrap();
    for (name, content) in [
        ("package.json", r#"{"name": "another tool", "version": 3}"#.to_owned()),
        ("list.json", "[1, 2, 3]".to_owned()),
        ("words.json", "not even JSON".to_owned()),
        ("empty.json", String::new()),
        // It has ours in it, and is another's.
        (
            "quotes.json",
            r#"{"schema": "another/1", "of": ["duramen.evidence/1"], "x": {"schema": "duramen.evidence/1"}}"#
                .to_owned(),
        ),
        ("notes.txt", text.clone()),
        (".hidden.json", text.clone()),
        ("cut.json", text[..text.len() / 2].to_owned()),
        ("later.json", text.replace("duramen.evidence/1", "duramen.evidence/2")),
        ("field.json", text.replacen("\"suite\"", "\"sweet\"", 1)),
        ("type.json", text.replacen("\"p50\": 1.0", "\"p50\": \"1\"", 1)),
        ("deep.json", format!(r#"{{"schema": "duramen.evidence/1", "config": {}"#, "[".repeat(100_000))),
    ] {
        fs::write(at.join(name), content).unwrap();
    }
    fs::write(at.join("bytes.json"), b"{\"schema\": \"duramen.evidence/1\", \"suite\": \"\xff\xfe\"")
        .unwrap();
    let runs = lab().runs(at, None).unwrap();
    assert_eq!(files(&runs), ["good.json"]);
    assert_eq!((runs.others, runs.damaged_count), (5, 6), "{:?}", runs.damaged);
    let named: Vec<&str> = runs.damaged.iter().map(|damaged| damaged.file.as_str()).collect();
    assert_eq!(named, ["bytes.json", "cut.json", "deep.json", "field.json", "later.json", "type.json"]);
    let later = runs.damaged.iter().find(|damaged| damaged.file == "later.json").unwrap();
    assert!(later.why.contains("duramen.evidence/2"), "{}", later.why);
}

#[test]
fn documents_that_would_take_too_much_are_refused_and_named() {
    let folder = folder();
    let at = folder.path();
    let filler = "x".repeat(usize::try_from(DOCUMENT_MAX).unwrap());
    let mut huge = run(0, 1.0);
    huge.configure("filler", filler.as_str());
    write(at, "huge.json", &huge);
    fs::write(at.join("other.json"), json!({ "filler": filler }).to_string()).unwrap();
    let mut values = run(0, 1.0);
    values.configure("samples", json!({ "put_us": [vec![0; 500_000]] }));
    write(at, "values.json", &values);
    let mut figures = run(0, 1.0);
    figures.measurements =
        (0..=FIGURES_MAX).map(|at| Measurement::scalar(format!("f{at}"), "us", 1.0)).collect();
    write(at, "figures.json", &figures);
    let mut checks = run(0, 1.0);
    (0..2_001).for_each(|at| checks.check(format!("mechanism/{at}"), true, ""));
    write(at, "checks.json", &checks);
    let runs = lab().runs(at, None).unwrap();
    assert_eq!((runs.runs.len(), runs.others, runs.damaged_count), (0, 1, 4), "{runs:?}");
}

/// A sparse file costs nobody anything, and is not read.
#[test]
fn a_file_of_a_terabyte_is_not_read() {
    let folder = folder();
    let file = fs::File::create(folder.path().join("sparse.json")).unwrap();
    file.set_len(1 << 40).unwrap();
    let runs = lab().runs(folder.path(), None).unwrap();
    assert_eq!((runs.others, runs.damaged_count), (1, 0));
}

#[test]
fn links_and_pipes_lead_nowhere() {
    let outside = folder();
    write(outside.path(), "secret.json", &run(0, 1.0));
    let folder = folder();
    let at = folder.path();
    write(at, "own/run.json", &run(1, 2.0));
    symlink(outside.path().join("secret.json"), at.join("file.json")).unwrap();
    symlink(outside.path(), at.join("folder")).unwrap();
    symlink("..", at.join("own/up")).unwrap();
    symlink("/", at.join("root.json")).unwrap();
    symlink(at.join("own/run.json"), at.join("again.json")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, at.join("pipe.json"), rustix::fs::Mode::RUSR).unwrap();
    fs::create_dir(at.join("folder.json")).unwrap();
    let lab = lab();
    let runs = lab.runs(at, None).unwrap();
    assert_eq!((files(&runs), runs.damaged_count, runs.is_partial), (vec!["own/run.json"], 0, false));

    // A directory that is replaced by a link after it was looked at.
    let id = runs.runs[0].id.clone();
    fs::remove_dir_all(at.join("own")).unwrap();
    fs::rename(outside.path().join("secret.json"), outside.path().join("run.json")).unwrap();
    symlink(outside.path(), at.join("own")).unwrap();
    assert!(matches!(lab.run(at, &id), Err(LabError::UnknownRun(_))));
    assert!(lab.runs(at, None).unwrap().runs.is_empty());

    // What was attached may itself be a link: it was chosen on the machine.
    let link = outside.path().join("link");
    symlink(outside.path(), &link).unwrap();
    assert_eq!(lab.runs(&link, None).unwrap().runs.len(), 1);
}

#[test]
fn a_run_is_asked_for_by_what_the_list_calls_it_and_by_nothing_else() {
    let folder = folder();
    let at = folder.path().join("in");
    write(&at, "run.json", &run(0, 1.0));
    write(folder.path(), "outside.json", &run(0, 1.0));
    let lab = lab();
    for id in
        ["", "run.json", "../outside.json", "/etc/passwd", "in/run.json", "..", HOSTILE, &"a".repeat(100_000)]
    {
        match lab.run(&at, id) {
            Err(LabError::UnknownRun(id)) => assert!(id.len() < 10_000),
            other => panic!("{id}: {other:?}"),
        }
    }
    let id = lab.runs(&at, None).unwrap().runs[0].id.clone();
    assert_eq!(lab.run(&at, &id).unwrap().run.id, id);
}

#[test]
fn ten_thousand_files_are_read_bit_by_bit_and_once() {
    let folder = folder();
    let at = folder.path();
    let text = serde_json::to_string(&run(0, 1.0)).unwrap();
    for number in 0..10_000 {
        let below = at.join(format!("m{}", number % 10));
        fs::create_dir_all(&below).unwrap();
        // Each of its own time, a fifth of them damaged.
        let own = text.replacen(
            "2026-01-01T00:00:00Z",
            &format!("2026-01-01T00:00:{:02}.{:03}Z", number % 60, number / 60),
            1,
        );
        let own = if number % 5 == 0 { &own[..200] } else { &own };
        fs::write(below.join(format!("{number}.json")), own).unwrap();
    }
    let lab = lab();
    let mut asked = 0;
    let runs = loop {
        let runs = lab.runs(at, None).unwrap();
        asked += 1;
        assert!(asked < 100, "each answer gets on");
        if runs.unread == 0 {
            break runs;
        }
    };
    assert_eq!((runs.runs.len(), runs.older), (RUNS_TOLD, 8_000 - 1_000));
    assert_eq!((runs.damaged.len(), runs.damaged_count), (DAMAGED_TOLD, 2_000));
    assert_eq!(runs.suites[0].runs, 8_000);
    // What is known is not read again: a file that may not be read any more is still the same.
    let one = at.join(&runs.runs[0].file);
    fs::set_permissions(&one, fs::Permissions::from_mode(0o000)).unwrap();
    assert_eq!(lab.runs(at, None).unwrap().runs[0].file, runs.runs[0].file);
    // One that is another one by now is.
    fs::set_permissions(&one, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&one, "{}").unwrap();
    let later = lab.runs(at, None).unwrap();
    assert_eq!((later.suites[0].runs, later.others), (7_999, 1));
}

#[test]
fn more_than_is_looked_at_is_said() {
    let deep = folder();
    let below: String = (0..DEPTH_MAX).map(|at| format!("d{at}/")).collect();
    write(deep.path(), &format!("{below}too-deep.json"), &run(0, 1.0));
    let seen: String = (1..DEPTH_MAX).map(|at| format!("e{at}/")).collect();
    write(deep.path(), &format!("{seen}seen.json"), &run(1, 1.0));
    let runs = lab().runs(deep.path(), None).unwrap();
    assert_eq!((runs.runs.len(), runs.is_partial), (1, true));

    let wide = folder();
    for number in 0..=ENTRIES_MAX {
        fs::File::create(wide.path().join(number.to_string())).unwrap();
    }
    let runs = lab().runs(wide.path(), None).unwrap();
    assert_eq!((runs.runs.len(), runs.is_partial), (0, true));
}

#[test]
fn a_run_that_lies_there_twice_is_told_once() {
    let folder = folder();
    write(folder.path(), "a.json", &run(0, 1.0));
    write(folder.path(), "history/b.json", &run(0, 1.0));
    let runs = lab().runs(folder.path(), None).unwrap();
    assert_eq!((files(&runs), runs.repeated), (vec!["a.json"], 1));
}

#[test]
fn a_directory_that_is_gone_is_an_error_that_names_it() {
    let lab = lab();
    let error = lab.runs(Path::new("/nowhere/at/all"), None).unwrap_err();
    assert!(error.to_string().contains("/nowhere/at/all"), "{error}");
    let folder = folder();
    fs::write(folder.path().join("file"), "").unwrap();
    assert!(matches!(lab.runs(&folder.path().join("file"), None), Err(LabError::Folder { .. })));
}
