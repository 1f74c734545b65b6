//! Files and folders become documents: each run once, in order, and what is left out is said.

use std::fs;

use crate::support::run;
use duramen_reports::collect::{collect, CollectError, MOST_DOCUMENTS};

#[test]
fn a_folder_stands_for_the_documents_below_it() {
    let dir = tempfile::tempdir().unwrap();
    let (deep, top) = (dir.path().join("a/b/run2.json"), dir.path().join("run1.json"));
    fs::create_dir_all(deep.parent().unwrap()).unwrap();
    run(2, 5.0, 1.0).evidence.write(&deep).unwrap();
    run(1, 5.0, 1.0).evidence.write(&top).unwrap();
    fs::copy(&top, dir.path().join("a/copy.json")).unwrap();
    fs::write(dir.path().join("comparison.json"), "{\"schema\": \"duramen.comparison/1\"}").unwrap();
    fs::write(dir.path().join("page.html"), "no document").unwrap();
    std::os::unix::fs::symlink(dir.path(), dir.path().join("a/loop")).unwrap();
    let found = collect(&[dir.path().to_owned(), deep.clone()]).unwrap();
    let seeds: Vec<_> = found.documents.iter().map(|run| run.evidence.config["seed"].clone()).collect();
    assert_eq!(seeds, [1, 2], "each once, oldest first");
    let [note] = found.notes.as_slice() else { panic!("{:?}", found.notes) };
    assert!(note.contains("comparison.json") && note.contains("duramen.comparison/1"), "{note}");
}

#[test]
fn what_is_named_must_be_there_and_be_evidence() {
    let dir = tempfile::tempdir().unwrap();
    let wrong = dir.path().join("wrong.json");
    fs::write(&wrong, "{}").unwrap();
    assert!(matches!(collect(std::slice::from_ref(&wrong)), Err(CollectError::Evidence(_))));
    assert!(matches!(collect(&[dir.path().join("nowhere")]), Err(CollectError::Io { .. })));
    fs::remove_file(&wrong).unwrap();
    let error = collect(&[dir.path().to_owned()]).unwrap_err();
    assert!(
        matches!(error, CollectError::Nothing) && error.to_string().contains("duramen lab run"),
        "{error}"
    );
}

#[test]
fn of_too_many_the_newest_count() {
    let dir = tempfile::tempdir().unwrap();
    for hours in 0..=MOST_DOCUMENTS {
        let run = run(i64::try_from(hours).unwrap(), 5.0, 1.0);
        fs::write(dir.path().join(format!("{hours}.json")), run.evidence.to_json().unwrap()).unwrap();
    }
    let found = collect(&[dir.path().to_owned()]).unwrap();
    assert_eq!(found.documents.len(), MOST_DOCUMENTS);
    assert_eq!(found.documents[0].evidence.config["seed"], 1);
    assert!(found.notes[0].contains("The 1 oldest"), "{:?}", found.notes);
}
